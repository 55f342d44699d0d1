//! Errors of finding, opening and importing sessions.

use std::io;

use plimsoll::{SessionId, Tokens};
use plimsoll_formats::FormatError;
use plimsoll_store::{Damage, StoreError};
use thiserror::Error;

/// Error of finding, opening or importing a session.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The id is a prefix of several session ids.
    #[error("more than one session begins with `{id}`")]
    Ambiguous {
        /// The id as the caller gave it.
        id: String,
        /// The matching ids, with what distinguishes them: a tool or a title.
        candidates: Vec<(String, String)>,
    },
    /// A file could not be read.
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
    /// A transcript could not be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The store rejected the operation or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Records of a stored session are damaged.
    #[error("{}{}", .damage.first().map(ToString::to_string).unwrap_or_default(), more_problems(.damage))]
    Damaged {
        /// The damaged records.
        damage: Vec<Damage>,
    },
    /// There are no messages to import.
    #[error("there is nothing in it to import")]
    Empty,
    /// The session's id is used by a session that was not imported from this source.
    #[error("session `{id}` already exists from another source")]
    IdTaken {
        /// The id.
        id: SessionId,
    },
    /// The session was removed, but a fork still uses its id.
    #[error("`{id}` was removed, and a session that was forked from it still needs it")]
    Removed {
        /// The id.
        id: SessionId,
    },
    /// The source changed while it was read, or the store changed between every plan and its import.
    #[error("it changed while it was imported; try again")]
    Unsettled,
}

fn more_problems(damage: &[Damage]) -> String {
    match damage.len().saturating_sub(1) {
        0 => String::new(),
        1 => "; and 1 more problem".to_owned(),
        more => format!("; and {} more problems", Tokens(more as u64)),
    }
}

/// Formats an I/O error without the error number of the operating system.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let description = text.split(" (os error ").next().unwrap_or_default();
    let mut letters = description.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
