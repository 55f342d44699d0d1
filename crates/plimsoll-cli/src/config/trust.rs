//! `plimsoll trust` and `plimsoll untrust`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plimsoll_config::{Ledger, Project};
use plimsoll_host::{Host, HostError, shell_word};
use serde_json::json;

use super::{short_origin, written};
use crate::args::TrustArgs;
use crate::error::CommandResult;
use crate::output::{Holds, Output, Table, escaped, note};

/// Show what a project's file would set beyond what is harmless, and let it.
pub(crate) fn trust(args: &TrustArgs, host: &Host, output: &mut Output) -> CommandResult {
    if args.list {
        return list(host, output);
    }
    let file = project_file(args.directory.as_deref(), host)?;
    // What is recorded is what was shown: the files are read once, and their hashes are of what was read.
    let review = Project::read(&file)?.review(&host.env)?;
    if !output.json {
        for setting in &review.settings {
            let origin = short_origin(&setting.origin, host);
            output.text(&format!("{origin}: {} = {}", escaped(&setting.key), written(&setting.value)))?;
        }
        output.flush()?;
    }
    let trusted = !args.dry_run && !review.settings.is_empty();
    if trusted {
        Ledger::trust(&host.env, &review)?;
    }
    if output.json {
        output.json(&json!({
            "directory": review.directory,
            "files": review.files,
            "settings": review.settings,
            "recorded": trusted,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let word = shell_word(&review.directory, &host.env);
    note(&if review.settings.is_empty() {
        format!("nothing in `{}` needs trust; it takes effect as it is", host.short(&file))
    } else if args.dry_run {
        format!("would take effect after `plimsoll trust {word}`; nothing was recorded")
    } else {
        format!(
            "trusted `{}`: this takes effect until a file changes, or `plimsoll untrust {word}`",
            host.short(&review.directory)
        )
    });
    Ok(ExitCode::SUCCESS)
}

/// Let a project's file set nothing but what is harmless.
pub(crate) fn untrust(directory: Option<&Path>, host: &Host, output: &mut Output) -> CommandResult {
    let named = match directory {
        Some(directory) => Project::folder_of(&host.env.directory.join(directory)).to_owned(),
        None => match Project::nearest_file(&host.env.directory) {
            Some(file) => Project::folder_of(&file).to_owned(),
            None => host.env.directory.clone(),
        },
    };
    // A directory that is gone is still on record under the path it had.
    let canonical = named.canonicalize().unwrap_or(named);
    let was_trusted = Ledger::revoke(&host.env, &canonical)?;
    if output.json {
        output.json(&json!({ "directory": canonical, "wasTrusted": was_trusted }))?;
        return Ok(ExitCode::from(u8::from(!was_trusted)));
    }
    let shown = host.short(&canonical);
    if !was_trusted {
        return Err(HostError::negative(format!("`{shown}` was not trusted"))
            .hint("`plimsoll trust --list` lists what is"));
    }
    note(&format!("`{shown}` is not trusted any more"));
    Ok(ExitCode::SUCCESS)
}

fn list(host: &Host, output: &mut Output) -> CommandResult {
    let ledger = Ledger::read(&host.env)?;
    let state = |directory: &Path| match Project::file_in(directory).map(|file| Project::read(&file)) {
        Some(Ok(project)) if project.distrust(&ledger, &host.env).is_none() => "trusted",
        Some(_) => "changed since, not trusted",
        None => "gone",
    };
    let projects = ledger.projects();
    if output.json {
        let all = projects.iter().map(|project| {
            json!({ "directory": project.directory, "files": project.files, "state": state(&project.directory) })
        });
        output.json(&all.collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if projects.is_empty() {
        note("nothing is trusted");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::of([("DIRECTORY", Holds::Names), ("STATE", Holds::Names)]);
    for project in projects {
        table.row([host.short(&project.directory), state(&project.directory).to_owned()]);
    }
    output.table(&table)?;
    Ok(ExitCode::SUCCESS)
}

/// The file of a directory that was named, or the nearest upwards if none was.
fn project_file(directory: Option<&Path>, host: &Host) -> Result<PathBuf, HostError> {
    let Some(directory) = directory else {
        return Project::nearest_file(&host.env.directory).ok_or_else(|| {
            let here = host.short(&host.env.directory);
            HostError::usage(format!(
                "there is no `plimsoll.toml` or `opencode.json` in `{here}` or above it"
            ))
        });
    };
    let folder = Project::folder_of(&host.env.directory.join(directory)).to_owned();
    let folder = folder.canonicalize().unwrap_or(folder);
    Project::file_in(&folder).ok_or_else(|| {
        let error = HostError::usage(format!(
            "there is no `plimsoll.toml` or `opencode.json` in `{}`",
            host.short(&folder)
        ));
        match Project::nearest_file(&folder) {
            Some(above) => error.hint(format!("`{}` is the nearest above it", host.short(&above))),
            None => error,
        }
    })
}
