//! Import of transcripts into the store.

use std::path::{Path, PathBuf};

use plimsoll::SessionId;
use plimsoll_config::Flags;
use plimsoll_import::{ImportError, ImportOptions, NewSessionReason, Outcome, OutdatedCopy, Report, Scope};
use plimsoll_store::{Session, random_ids};

use crate::config::HostConfig;
use crate::error::HostError;
use crate::host::Host;
use crate::input::{InputSource, InputSpec};
use crate::lookup::report_if_elsewhere;
use crate::store::OpenStore;
use crate::words::counted;

/// Imports sessions into one database, which is opened or created for the first of them.
pub struct Importer<'a> {
    host: &'a Host,
    config: &'a HostConfig,
    opened: Option<OpenStore>,
}

impl<'a> Importer<'a> {
    /// Creates an importer.
    pub fn new(host: &'a Host, config: &'a HostConfig) -> Importer<'a> {
        Importer { host, config, opened: None }
    }

    /// Creates an importer into an open database.
    pub fn into_store(host: &'a Host, config: &'a HostConfig, opened: OpenStore) -> Importer<'a> {
        Importer { host, config, opened: Some(opened) }
    }

    /// Stores a session, or updates a stored one, and reports what was done. With `duplicate`, the session is stored again under
    /// new ids.
    pub fn import(&mut self, spec: InputSpec, duplicate: bool) -> Result<Report, HostError> {
        let input = self.host.input(spec, Scope::Others)?;
        let (path, name) = (input.path.clone(), input.name.clone());
        let report = input.import(|survey, source, name, on_read| {
            if survey.is_empty() {
                return Err(refused(ImportError::Empty, name));
            }
            // Opened only now, so that an unreadable transcript does not create a database.
            let opened = match &self.opened {
                Some(opened) => opened,
                None => self.opened.insert(self.host.open_or_create(self.config)?),
            };
            let options = ImportOptions {
                origin: path.as_deref(),
                directory: self.host.directory().to_str(),
                duplicate,
                now: self.host.now(),
            };
            let stored = survey.import(source, opened.archive.store(), &mut random_ids(), &options, on_read);
            stored.map_err(|error| refused(error, name))
        })?;
        self.host.info(format_report(&report, &name, self.host));
        Ok(report)
    }
}

impl Host {
    /// Finds the stored session with this id, or imports the one of another tool.
    pub fn session_or_import(
        &self,
        id: &str,
        opened: &OpenStore,
        config: &HostConfig,
    ) -> Result<SessionId, HostError> {
        let unknown = match opened.session(id, self) {
            Ok(session) => {
                report_if_elsewhere(&session, self);
                return Ok(session.id);
            }
            Err(error) => error,
        };
        let mut importer = Importer::into_store(self, config, opened.clone());
        let source = InputSource::File(PathBuf::from(id), None);
        let spec = InputSpec { source, strict: false, flags: Flags::default() };
        // If no tool has such a session, the first error is better: it suggests how to list stored sessions.
        importer.import(spec, false).map(|report| report.id).map_err(|_| unknown)
    }

    /// Finds the newest stored session of the current directory, to continue it here.
    pub(crate) fn newest_stored(&self, opened: &OpenStore) -> Result<Session, HostError> {
        let session = opened.session_or_newest(None, self)?;
        report_if_elsewhere(&session, self);
        Ok(session)
    }
}

/// Converts the reason why a transcript was not stored.
fn refused(error: ImportError, name: &str) -> HostError {
    match error {
        ImportError::Empty => HostError::negative(format!("nothing to store: {name} is empty")),
        ImportError::Removed { .. } => {
            HostError::negative(error.to_string()).hint("store it under new ids with `--duplicate`")
        }
        ImportError::IdTaken { id } => HostError::negative(format!("{name} is already stored as `{id}`"))
            .hint(
                "store it again under new ids with `--duplicate`, or remove it with `plimsoll sessions rm`",
            ),
        ImportError::Io(_) | ImportError::Format(_) | ImportError::Unsettled => {
            HostError::failed(format!("cannot import {name}: {error}")).caused_by(error)
        }
        other => other.into(),
    }
}

/// Formats what was stored.
fn format_report(report: &Report, name: &str, host: &Host) -> String {
    let mut text = match (report.outcome, &report.instead_of) {
        (Outcome::Unchanged, _) => return format!("{name} is already stored as `{}`", report.id),
        (Outcome::Updated, _) => format!("updated `{}` from {name}: {}", report.id, added(report)),
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
        text.push_str(&format!(", {}: {}", counted(tasks.len(), "sub-agent's session"), tasks.join(", ")));
    }
    let interrupted: u64 = report.interrupted + report.tasks.iter().map(|task| task.interrupted).sum::<u64>();
    if interrupted > 0 {
        text.push_str(&format!("; {} without an answer", counted(interrupted as usize, "call")));
    }
    if report.is_open {
        text.push_str("; its last message is incomplete, and the next import will update it");
    }
    let is_new = report.outcome == Outcome::Stored;
    let elsewhere = report.directory.as_deref().filter(|own| is_new && Path::new(own) != host.directory());
    if let Some(directory) = elsewhere {
        text.push_str(&format!(" (directory `{}`)", host.short(directory.as_ref())));
    }
    text
}

/// Formats what is new in a session that was already stored.
fn added(report: &Report) -> String {
    let of_tasks = |task: &&Report| task.outcome == Outcome::Updated;
    let in_tasks: usize = report.tasks.iter().filter(of_tasks).map(|task| task.added).sum();
    let mut added = match (report.added, report.has_grown) {
        (0, true) => "last message extended".to_owned(),
        (count, false) => format!("{} added", counted(count, "message")),
        (count, true) => format!("{} added, last message extended", counted(count, "message")),
    };
    if in_tasks > 0 {
        added.push_str(&format!(", {} added to its sub-agents", counted(in_tasks, "message")));
    }
    added
}

/// Explains why the stored session could not be updated.
fn because(instead_of: &OutdatedCopy) -> String {
    let session = &instead_of.session;
    match instead_of.because {
        NewSessionReason::Diverged => format!("`{session}` is no longer a prefix of it"),
        NewSessionReason::Continued => format!("`{session}` was continued here"),
        NewSessionReason::Shared => {
            format!("the last message of `{session}` was extended, and a fork shares that message")
        }
    }
}
