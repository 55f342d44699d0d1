//! Errors of the store.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::receipt::UndoError;
use plimsoll::{LogError, Millis, ReceiptId, SessionId};
use rusqlite::ErrorCode;
use thiserror::Error;

use crate::clock::{span, utc};
use crate::holder::Shown;
use crate::revision::Revision;

/// How long a write waits for another process before the database is reported as busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Error of a store operation.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The session, message, part or other record does not exist.
    #[error("{kind} `{id}` not found")]
    Missing {
        /// Kind of the record.
        kind: &'static str,
        /// Id of the record.
        id: String,
    },
    /// The start of a handle matches several handles.
    #[error("`{handle}` is the start of several handles; use a full handle:  {}", .candidates.join(", "))]
    Ambiguous {
        /// The handle as the caller gave it.
        handle: String,
        /// The first of the matching handles.
        candidates: Vec<String>,
    },
    /// The log rejected a change.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A receipt cannot be undone.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// The request is invalid.
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
        /// The process that runs it.
        holder: String,
        /// Expiry of the lease, unless it is renewed.
        until: Millis,
        /// Time on the store's clock.
        now: Millis,
    },
    /// The writer no longer holds the session: its lease was taken over or released.
    #[error("session `{session}` can no longer be written by this process: {}", fenced_by(held_by.as_deref()))]
    Fenced {
        /// The session.
        session: SessionId,
        /// The process that holds it now, if any.
        held_by: Option<String>,
    },
    /// A reduction was planned on a window that has been reshaped since.
    #[error(
        "session `{session}` was reduced since this was planned: planned on revision {}, reduced in {}; \
         plan again",
        planned_on.0,
        reduced_in.0
    )]
    Stale {
        /// The session.
        session: SessionId,
        /// The revision that it was planned on.
        planned_on: Revision,
        /// The revision that reshaped the window.
        reduced_in: Revision,
    },
    /// The task's status changed concurrently.
    #[error("task `{task}` is `{status}` by now")]
    TaskMoved {
        /// The task.
        task: String,
        /// Current status of the task.
        status: String,
    },
    /// The reduction was already undone.
    #[error("receipt `{receipt}` was already undone, by `{by}`")]
    Undone {
        /// The reduction's receipt.
        receipt: ReceiptId,
        /// The receipt of the undo.
        by: ReceiptId,
    },
    /// Retention removed the spilled content.
    #[error("the content of `{handle}` expired at {}; the window still shows: {shown}", utc(*at))]
    Expired {
        /// The handle.
        handle: String,
        /// When it was removed.
        at: Millis,
        /// Text that the window still shows.
        shown: String,
    },
    /// The spilled content is missing or damaged.
    #[error("the content of `{handle}` is lost: {why}")]
    Lost {
        /// The handle.
        handle: String,
        /// Problem that was found.
        why: String,
    },
    /// A newer version of Plimsoll wrote the database.
    #[error(
        "the database `{path}` has version {found}, but this Plimsoll supports versions up to {known}; use a newer Plimsoll. Nothing was changed"
    )]
    Newer {
        /// The file.
        path: String,
        /// Version of the file.
        found: i64,
        /// The newest supported version.
        known: i64,
    },
    /// The database belongs to another program.
    #[error(
        "the database `{path}` cannot be used: it belongs to another program. Nothing was changed; restore a backup, or move the file away to start with an empty store"
    )]
    NotOurs {
        /// The file.
        path: String,
    },
    /// The file is not a database, or its header is damaged.
    #[error(
        "the database `{path}` cannot be used: {source}. Nothing was changed; restore a backup, or move the file away to start with an empty store"
    )]
    Broken {
        /// The file.
        path: String,
        /// Description of the damage.
        source: Cause,
    },
    /// Another process keeps the database locked.
    #[error(
        "the database is busy: another process has been writing to it for {waited} s; try again ({source})"
    )]
    Busy {
        /// Time waited, in seconds.
        waited: u64,
        /// Error of the database.
        source: Cause,
    },
    /// The disk is full.
    #[error("no space left for the database; free some and try again ({source})")]
    Full {
        /// Error of the database.
        source: Cause,
    },
    /// The database is read-only.
    #[error("the database is read-only: {source}")]
    ReadOnly {
        /// Error of the database.
        source: Cause,
    },
    /// The database is damaged.
    #[error("the database is damaged: {source}; run `plimsoll sessions check`, or restore a backup")]
    Corrupt {
        /// Error of the database.
        source: Cause,
    },
    /// A message, a part or another record cannot be read.
    #[error("{what} is damaged: {why}")]
    Damaged {
        /// The record.
        what: String,
        /// Description of the damage.
        why: String,
    },
    /// The change shared a transaction with another change, which failed.
    #[error("the shared transaction was rolled back because another change failed; try again")]
    TakenAlong,
    /// The caller stopped the read.
    #[error("stopped")]
    Stopped,
    /// Another error of the database.
    #[error("the database failed: {source}")]
    Database {
        /// Error of the database.
        source: Cause,
    },
    /// A file system operation failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed.
        what: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The store was closed during the operation.
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
    /// Whether the database itself failed, rather than the store rejecting the request.
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

    /// Copies a failure for another caller whose change was in the same transaction.
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

    /// Creates the error for an id that is already used by other content.
    pub(crate) fn duplicate(kind: &'static str, id: &(impl ToString + ?Sized)) -> StoreError {
        StoreError::Log(LogError::Duplicate { kind, id: id.to_string() })
    }

    /// Creates the error for a missing record.
    pub(crate) fn missing(kind: &'static str, id: &(impl ToString + ?Sized)) -> StoreError {
        StoreError::Missing { kind, id: id.to_string() }
    }

    /// For `map_err` on rows that cannot be read although the database itself is sound.
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

/// Cause of an error. It is shared because several callers of one transaction may receive the same one.
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
