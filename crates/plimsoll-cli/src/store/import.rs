//! `plimsoll sessions import`: transcripts become stored sessions.

use std::path::Path;
use std::process::ExitCode;

use plimsoll::SessionId;
use plimsoll_import::{Because, ImportError, ImportOptions, InsteadOf, Outcome, Report};

use super::Opened;
use crate::args::{ImportArgs, InputArgs, PolicyArgs};
use crate::config::Config;
use crate::error::CliError;
use crate::input;
use crate::output::{Output, counted, note};
use crate::surroundings::Surroundings;
use crate::when;

/// Store sessions, or bring stored ones up to date.
pub(crate) fn import(
    args: &ImportArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let config = Config::load(&PolicyArgs::default(), around)?;
    let mut opened = None;
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for file in &args.files {
        match one(file, args, &config, &mut opened, around) {
            Ok(report) => {
                if !output.json {
                    output.text(report.id.as_str())?;
                    output.flush()?;
                }
                all.push(report);
            }
            Err(error) => failed.push(error),
        }
    }
    if output.json {
        output.json(&all)?;
    }
    // One bad file among many does not cost the others, but nor does it pass unnoticed.
    failed.sort_by_key(CliError::is_failure);
    let Some(last) = failed.pop() else { return Ok(ExitCode::SUCCESS) };
    failed.iter().for_each(CliError::tell);
    Err(last)
}

/// Import the session of another tool that has this id, or a transcript at this path.
pub(super) fn by_id(
    id: &str,
    config: &Config,
    opened: &mut Option<Opened>,
    around: &Surroundings,
) -> Result<SessionId, CliError> {
    let args = ImportArgs { files: Vec::new(), session: None, strict: false, again: false };
    one(Path::new(id), &args, config, opened, around).map(|report| report.id)
}

fn one(
    file: &Path,
    args: &ImportArgs,
    config: &Config,
    opened: &mut Option<Opened>,
    around: &Surroundings,
) -> Result<Report, CliError> {
    let (session, strict) = (args.session.clone(), args.strict);
    let from = InputArgs { file: Some(file.to_owned()), session, strict, policy: PolicyArgs::default() };
    let input = input::of_others(&from, around)?;
    let (path, name) = (input.path.clone(), input.name.clone());
    let report = input.import(strict, |survey, source, name, on_read| {
        if survey.is_empty() {
            return Err(refused(ImportError::Empty, name));
        }
        // Only now: what cannot be read makes no database.
        let opened = match opened {
            Some(opened) => opened,
            None => opened.insert(Opened::made(config)?),
        };
        let options = ImportOptions {
            origin: path.as_deref(),
            directory: around.directory.to_str(),
            again: args.again,
            now: when::now(),
        };
        survey
            .import(source, opened.archive.store(), &mut super::ids(), &options, on_read)
            .map_err(|error| refused(error, name))
    })?;
    note(&told(&report, &name, around));
    Ok(report)
}

/// Why a transcript was not stored.
fn refused(error: ImportError, name: &str) -> CliError {
    match error {
        ImportError::Empty => CliError::no(format!("nothing of {name} was stored")),
        ImportError::Removed { .. } => {
            CliError::no(error.to_string()).hint("`--again` stores it under new ids")
        }
        ImportError::Taken { id } => CliError::no(format!("{name} is stored already, as `{id}`"))
            .hint("`--again` stores it once more under new ids; `plimsoll sessions rm` removes it"),
        ImportError::Io(_) | ImportError::Format(_) | ImportError::Unsettled => {
            CliError::failed(format!("cannot import {name}: {error}"))
        }
        other => other.into(),
    }
}

/// What was done, in a sentence.
fn told(report: &Report, name: &str, around: &Surroundings) -> String {
    let mut told = match (report.outcome, &report.instead_of) {
        (Outcome::Unchanged, _) => return format!("{name} is stored already, as `{}`", report.id),
        (Outcome::Updated, _) => format!("brought `{}` up to date with {name}: {}", report.id, added(report)),
        (Outcome::Stored, None) => format!("stored {name}: {}", counted(report.messages, "message")),
        (Outcome::Stored, Some(instead_of)) => {
            let count = counted(report.messages, "message");
            format!("stored {name} as a new session, because {}: {count}", because(instead_of))
        }
    };
    let tasks: Vec<String> = report
        .tasks
        .iter()
        .filter(|task| task.outcome == Outcome::Stored)
        .map(|task| format!("`{}`", task.id))
        .collect();
    if !tasks.is_empty() {
        told.push_str(&format!(", {}: {}", counted(tasks.len(), "sub-agent's session"), tasks.join(", ")));
    }
    let interrupted: u64 = report.interrupted + report.tasks.iter().map(|task| task.interrupted).sum::<u64>();
    if interrupted > 0 {
        told.push_str(&format!("; {} without an answer", counted(interrupted as usize, "call")));
    }
    if report.is_open {
        told.push_str("; its last message is unfinished, the next import goes on with it");
    }
    let is_new = report.outcome == Outcome::Stored;
    let elsewhere = report.directory.as_deref().filter(|own| is_new && Path::new(own) != around.directory);
    if let Some(directory) = elsewhere {
        told.push_str(&format!("; of `{}`", around.short(directory.as_ref())));
    }
    told
}

/// What is new in a session that was there.
fn added(report: &Report) -> String {
    let of_tasks = |task: &&Report| task.outcome == Outcome::Updated;
    let in_tasks: usize = report.tasks.iter().filter(of_tasks).map(|task| task.added).sum();
    let mut added = match (report.added, report.has_grown) {
        (0, true) => "its last message went on".to_owned(),
        (count, false) => format!("{} added", counted(count, "message")),
        (count, true) => format!("{} added, and the one before went on", counted(count, "message")),
    };
    if in_tasks > 0 {
        added.push_str(&format!(", {} added to its sub-agents", counted(in_tasks, "message")));
    }
    added
}

/// Why the session that was there could not be brought up to date.
fn because(instead_of: &InsteadOf) -> String {
    let session = &instead_of.session;
    match instead_of.because {
        Because::Diverged => format!("`{session}` is no longer its beginning"),
        Because::Continued => format!("`{session}` was continued here"),
        Because::Shared => {
            format!(
                "the last message of `{session}` went on, and a session forked from it shares that message"
            )
        }
    }
}
