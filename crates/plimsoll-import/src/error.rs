//! Why a session was not found, opened or imported.

use std::io;

use plimsoll::{SessionId, Tokens};
use plimsoll_formats::FormatError;
use plimsoll_store::{Damage, StoreError};
use thiserror::Error;

/// Why a session was not found, opened or imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// More than one session has an id that begins so.
    #[error("more than one session begins with `{id}`")]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// The ids, and what tells them apart: a tool or a title.
        candidates: Vec<(String, String)>,
    },
    /// A file could not be read.
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
    /// A transcript could not be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something of a stored session is not as it was written.
    #[error("{}{}", .damage.first().map(ToString::to_string).unwrap_or_default(), more_problems(.damage))]
    Damaged {
        /// What.
        damage: Vec<Damage>,
    },
    /// There are no messages to import.
    #[error("there is nothing in it to import")]
    Empty,
    /// The session's id is in use, and nothing is recorded of an import under it.
    #[error("a session `{id}` is stored, and it is not known to come from there")]
    Taken {
        /// The id.
        id: SessionId,
    },
    /// The session was removed, but its id is still in use.
    #[error("`{id}` was removed, and a session that was forked from it still needs it")]
    Removed {
        /// The id.
        id: SessionId,
    },
    /// The source changed while it was read, or the store between every plan and its import.
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

/// Why something with a file failed, without the system's number for it.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let told = text.split(" (os error ").next().unwrap_or_default();
    let mut letters = told.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
