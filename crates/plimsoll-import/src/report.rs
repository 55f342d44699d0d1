//! Options and results of an import.

use std::path::Path;

use plimsoll::{Millis, SessionId};
use serde::Serialize;

/// Options of an import.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions<'a> {
    /// The file that is read. It identifies a transcript that has no id.
    pub origin: Option<&'a Path>,
    /// Directory for sessions that do not record one.
    pub directory: Option<&'a str>,
    /// Store it again under new ids, even if it exists.
    pub again: bool,
    /// Current time.
    pub now: Millis,
}

/// Result of an import.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// Id of the session.
    pub id: SessionId,
    /// The session that started it as a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Outcome.
    pub outcome: Outcome,
    /// Why a new session was created although one was imported before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<InsteadOf>,
    /// Title.
    pub title: String,
    /// Working directory of its agent.
    pub directory: Option<String>,
    /// Number of its messages in the source.
    pub messages: usize,
    /// Number of messages that were added now.
    pub added: usize,
    /// Whether the last known message has grown.
    pub has_grown: bool,
    /// Number of open calls that the conversation passed over; they are marked as interrupted.
    pub interrupted: u64,
    /// Whether its last message may still be incomplete; the next import can extend it.
    pub is_open: bool,
    /// The sessions of its sub-agents; existing ones only if something was added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Report>,
}

/// Outcome of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// A new session was stored.
    Stored,
    /// The stored session already has everything.
    Unchanged,
    /// A stored session was extended.
    Updated,
}

/// A session that could not be extended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InsteadOf {
    /// Id.
    pub session: SessionId,
    /// The reason.
    pub because: NewSessionReason,
}

/// Why a stored session could not be extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NewSessionReason {
    /// The copy is no longer the beginning of the source.
    Diverged,
    /// The copy was continued in the store.
    Continued,
    /// The last message has grown, but a fork shares that message.
    Shared,
}
