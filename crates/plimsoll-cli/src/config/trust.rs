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

/// Shows the settings of a project's files that need trust, and records trust in them.
pub(crate) fn trust(args: &TrustArgs, host: &Host, output: &mut Output) -> CommandResult {
    if args.list {
        return list(host, output);
    }
    let file = project_file(args.directory.as_deref(), host)?;
    // The files are read once: the hashes that are recorded belong to the content that was shown.
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
        format!("nothing in `{}` needs trust; its settings already apply", host.short(&file))
    } else if args.dry_run {
        format!("run `plimsoll trust {word}` to apply these settings; nothing was recorded")
    } else {
        format!(
            "trusted `{}` until a file changes; `plimsoll untrust {word}` revokes it",
            host.short(&review.directory)
        )
    });
    Ok(ExitCode::SUCCESS)
}

/// Revokes trust in a project's files.
pub(crate) fn untrust(directory: Option<&Path>, host: &Host, output: &mut Output) -> CommandResult {
    let named = match directory {
        Some(directory) => Project::directory_of(&host.env.directory.join(directory)).to_owned(),
        None => match Project::nearest_file(&host.env.directory) {
            Some(file) => Project::directory_of(&file).to_owned(),
            None => host.env.directory.clone(),
        },
    };
    // The ledger still has a deleted directory under its canonical path.
    let canonical = named.canonicalize().unwrap_or(named);
    let was_trusted = Ledger::revoke(&host.env, &canonical)?;
    if output.json {
        output.json(&json!({ "directory": canonical, "wasTrusted": was_trusted }))?;
        return Ok(ExitCode::from(u8::from(!was_trusted)));
    }
    let shown = host.short(&canonical);
    if !was_trusted {
        return Err(HostError::negative(format!("`{shown}` is not trusted"))
            .hint("run `plimsoll trust --list` to list trusted projects"));
    }
    note(&format!("revoked trust in `{shown}`"));
    Ok(ExitCode::SUCCESS)
}

fn list(host: &Host, output: &mut Output) -> CommandResult {
    let ledger = Ledger::read(&host.env)?;
    let state = |directory: &Path| match Project::file_in(directory).map(|file| Project::read(&file)) {
        Some(Ok(project)) if project.distrust(&ledger, &host.env).is_none() => "trusted",
        Some(_) => "changed, no longer trusted",
        None => "deleted",
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
        note("no trusted projects");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::of([("DIRECTORY", Holds::Names), ("STATE", Holds::Names)]);
    for project in projects {
        table.row([host.short(&project.directory), state(&project.directory).to_owned()]);
    }
    output.table(&table)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the file of the given directory, or the nearest one at or above the current directory.
fn project_file(directory: Option<&Path>, host: &Host) -> Result<PathBuf, HostError> {
    let Some(directory) = directory else {
        return Project::nearest_file(&host.env.directory).ok_or_else(|| {
            let here = host.short(&host.env.directory);
            HostError::usage(format!("no `plimsoll.toml` or `opencode.json` in `{here}` or above it"))
        });
    };
    let project = Project::directory_of(&host.env.directory.join(directory)).to_owned();
    let project = project.canonicalize().unwrap_or(project);
    Project::file_in(&project).ok_or_else(|| {
        let error =
            HostError::usage(format!("no `plimsoll.toml` or `opencode.json` in `{}`", host.short(&project)));
        match Project::nearest_file(&project) {
            Some(above) => error.hint(format!("the nearest one above is `{}`", host.short(&above))),
            None => error,
        }
    })
}
