//! How a source is to be imported, and what came of it.

use std::path::Path;

use plimsoll::{Millis, SessionId};
use serde::Serialize;

/// How a source is to be imported.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions<'a> {
    /// The file it is read from. A transcript without an id of its own is known again by it.
    pub origin: Option<&'a Path>,
    /// The directory of sessions that do not say where their agent worked.
    pub directory: Option<&'a str>,
    /// Store it once more under new ids, whatever is there.
    pub again: bool,
    /// The time it is.
    pub now: Millis,
}

/// What came of an import.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The session.
    pub id: SessionId,
    /// The session that started it as a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// What was done.
    pub outcome: Outcome,
    /// Why a new session was made although one was imported from there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<InsteadOf>,
    /// Its title.
    pub title: String,
    /// The directory its agent worked in.
    pub directory: Option<String>,
    /// How many messages the source has of it.
    pub messages: usize,
    /// How many of them were added now.
    pub added: usize,
    /// Whether the last message that was there before has gone on.
    pub has_grown: bool,
    /// Calls that had no answer although the conversation went on; they are marked as interrupted.
    pub interrupted: u64,
    /// Whether its last message may still be being written; the next import lets it go on.
    pub is_open: bool,
    /// The sessions of its sub-agents, those that were there already only where something was added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Report>,
}

/// What an import did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// A session was stored.
    Stored,
    /// It was stored already, all of it.
    Unchanged,
    /// A stored session was brought up to date.
    Updated,
}

/// The session that could not be brought up to date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InsteadOf {
    /// The session.
    pub session: SessionId,
    /// Why not.
    pub because: Because,
}

/// Why a stored session could not be brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Because {
    /// What was imported is not the beginning of the source any more.
    Diverged,
    /// It was continued in the store.
    Continued,
    /// Its last message has gone on, and a session that was forked from it shares that message.
    Shared,
}
