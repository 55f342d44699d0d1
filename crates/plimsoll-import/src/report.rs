//! Options and results of an import.

use std::path::Path;

use plimsoll::{Millis, SessionId};
use serde::Serialize;

/// Options of an import.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions<'a> {
    /// The source file. It identifies a transcript without an id.
    pub origin: Option<&'a Path>,
    /// Directory for sessions that do not record one.
    pub directory: Option<&'a str>,
    /// Store the session again under new ids, even if it exists.
    pub duplicate: bool,
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
    /// The session that started this one as a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Outcome.
    pub outcome: Outcome,
    /// The earlier import, if a new session was created because that one could not be extended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<OutdatedCopy>,
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
    /// Number of calls without a result that were marked as interrupted, because the conversation continues after them.
    pub interrupted: u64,
    /// Whether its last message may be incomplete. The next import can extend it.
    pub is_open: bool,
    /// Sessions of its sub-agents. Existing ones are only included if they were extended.
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

/// An earlier import that could not be extended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OutdatedCopy {
    /// Id of its session.
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
