//! Why the store did not do what it was asked.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::receipt::UndoError;
use plimsoll::{LogError, Millis, ReceiptId, SessionId};
use rusqlite::ErrorCode;
use thiserror::Error;

use crate::clock::{span, utc};
use crate::holder::Shown;
use crate::revision::Revision;

/// How long one process waits for another that writes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Why the store did not do what it was asked: what, on what, and what to do.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is nothing of that name.
    #[error("there is no {kind} `{id}`")]
    Missing {
        /// What kind of thing.
        kind: &'static str,
        /// Its name.
        id: String,
    },
    /// The beginning of a handle is that of several.
    #[error("`{handle}` is the beginning of several handles; give one of them whole: {}", .candidates.join(", "))]
    Ambiguous {
        /// What was given.
        handle: String,
        /// Handles that begin so, the first of them.
        candidates: Vec<String>,
    },
    /// The log refused a change.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A receipt cannot be undone.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// Something was asked that makes no sense.
    #[error("{0}")]
    Refused(String),
    /// Another process runs the session.
    #[error(
        "session `{session}` is being run by `{}` until {}, for {} more unless it is renewed; wait, or stop it there",
        Shown(holder),
        utc(*until),
        span(*now, *until)
    )]
    Leased {
        /// The session.
        session: SessionId,
        /// Who runs it.
        holder: String,
        /// Until when, unless it is renewed.
        until: Millis,
        /// What the store's clock said.
        now: Millis,
    },
    /// The writer no longer holds the session: its lease was taken over or given back.
    #[error("session `{session}` is no longer yours to write: {}", fenced_by(held_by.as_deref()))]
    Fenced {
        /// The session.
        session: SessionId,
        /// Who holds it now, if anyone does.
        held_by: Option<String>,
    },
    /// What was planned does not fit any more.
    #[error(
        "session `{session}` was reduced by another since this was planned: planned on revision {}, reduced in {}; \
         plan it anew",
        planned_on.0,
        reduced_in.0
    )]
    Stale {
        /// The session.
        session: SessionId,
        /// The revision it was planned on.
        planned_on: Revision,
        /// The revision that did away with the plan's ground.
        reduced_in: Revision,
    },
    /// A task is not where a step begins.
    #[error("task `{task}` is `{status}` by now")]
    TaskMoved {
        /// The task.
        task: String,
        /// Where it stands.
        status: String,
    },
    /// A reduction is undone once.
    #[error("receipt `{receipt}` was undone before, by `{by}`")]
    Undone {
        /// The reduction's receipt.
        receipt: ReceiptId,
        /// The receipt of the undoing.
        by: ReceiptId,
    },
    /// Spilled content is gone by the rules of retention.
    #[error("the content of `{handle}` expired at {}; the window still shows: {shown}", utc(*at))]
    Expired {
        /// The handle.
        handle: String,
        /// When it went.
        at: Millis,
        /// What is left of it.
        shown: String,
    },
    /// Spilled content is not where it was put.
    #[error("the content of `{handle}` is gone: {why}")]
    Lost {
        /// The handle.
        handle: String,
        /// What was found instead.
        why: String,
    },
    /// The database was written by a later version.
    #[error(
        "the database `{path}` is of version {found}, this Plimsoll knows versions up to {known}; use a newer one. Nothing was changed"
    )]
    Newer {
        /// The file.
        path: String,
        /// Its version.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// The file is a database of another program.
    #[error(
        "the database `{path}` cannot be used: it belongs to another program. Nothing was changed; restore a copy, or move the file away to start anew"
    )]
    NotOurs {
        /// The file.
        path: String,
    },
    /// The file is no database, or one that is damaged at its root.
    #[error(
        "the database `{path}` cannot be used: {source}. Nothing was changed; restore a copy, or move the file away to start anew"
    )]
    Broken {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: Cause,
    },
    /// Another process writes to the database and does not come to an end.
    #[error(
        "the database is busy: another process has been writing to it for {waited} s; try again ({source})"
    )]
    Busy {
        /// For how long it was waited.
        waited: u64,
        /// What the database said.
        source: Cause,
    },
    /// The disk is full.
    #[error("there is no room left for the database; make some and try again ({source})")]
    Full {
        /// What the database said.
        source: Cause,
    },
    /// The database can be read and not written.
    #[error("the database can only be read: {source}")]
    ReadOnly {
        /// What the database said.
        source: Cause,
    },
    /// Something in the database is damaged.
    #[error("the database is damaged: {source}; a check tells what else is, and a copy may have it whole")]
    Corrupt {
        /// What was found.
        source: Cause,
    },
    /// A message, a part or another record cannot be read.
    #[error("{what} is damaged: {why}")]
    Damaged {
        /// Which one.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// A change shared a transaction with one that could not be written.
    #[error("another change could not be written and took this one with it; try again")]
    TakenAlong,
    /// The database failed in another way.
    #[error("the database failed: {source}")]
    Database {
        /// What it said.
        source: Cause,
    },
    /// The file system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The store was closed while something was under way.
    #[error("the store is closed")]
    Closed,
}

fn fenced_by(holder: Option<&str>) -> String {
    match holder {
        Some(holder) => format!("`{}` has taken it over", Shown(holder)),
        None => "its lease was released".to_owned(),
    }
}

impl StoreError {
    /// Whether the database itself failed, rather than refusing what was asked of it.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(
            self,
            StoreError::Busy { .. }
                | StoreError::Full { .. }
                | StoreError::ReadOnly { .. }
                | StoreError::Corrupt { .. }
                | StoreError::Database { .. }
        )
    }

    /// The same failure, for another who is hit by it.
    pub(crate) fn again(&self) -> StoreError {
        match self {
            StoreError::Busy { waited, source } => {
                StoreError::Busy { waited: *waited, source: source.clone() }
            }
            StoreError::Full { source } => StoreError::Full { source: source.clone() },
            StoreError::ReadOnly { source } => StoreError::ReadOnly { source: source.clone() },
            StoreError::Corrupt { source } => StoreError::Corrupt { source: source.clone() },
            StoreError::Database { source } => StoreError::Database { source: source.clone() },
            _ => StoreError::TakenAlong,
        }
    }

    /// A name is taken by something else.
    pub(crate) fn duplicate(kind: &'static str, id: &(impl ToString + ?Sized)) -> StoreError {
        StoreError::Log(LogError::Duplicate { kind, id: id.to_string() })
    }

    /// Something is not there.
    pub(crate) fn missing(kind: &'static str, id: &(impl ToString + ?Sized)) -> StoreError {
        StoreError::Missing { kind, id: id.to_string() }
    }

    /// For `map_err` on what cannot be read although the database itself is sound.
    pub(crate) fn damaged(what: impl FnOnce() -> String) -> impl FnOnce(StoreError) -> StoreError {
        move |error| match error {
            StoreError::Corrupt { source } | StoreError::Database { source } => {
                StoreError::Damaged { what: what(), why: format!("it cannot be read: {source}") }
            }
            other => other,
        }
    }

    /// For `map_err` on file operations.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> StoreError {
        let what = what.into();
        move |source| StoreError::Io { what, source }
    }
}

/// What lies behind an error. Several callers may be told of the same one.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        let code = error.sqlite_error_code();
        let source: Cause = Arc::new(error);
        match code {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                StoreError::Busy { waited: PATIENCE.as_secs(), source }
            }
            Some(ErrorCode::DiskFull) => StoreError::Full { source },
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { source },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt { source },
            _ => StoreError::Database { source },
        }
    }
}

impl From<serde_json::Error> for StoreError {
    fn from(error: serde_json::Error) -> StoreError {
        StoreError::Corrupt { source: Arc::new(error) }
    }
}
