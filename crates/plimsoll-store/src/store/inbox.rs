//! Notes that tasks and users leave for a session.

use plimsoll::{Millis, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Claim;
use crate::error::StoreError;

/// The inbox of sessions. Senders need no lease, so that a finished task or a user can reach a session that another
/// process runs. The holder takes notes out under its claim. Methods block; see [`Store`](super::Store).
pub trait Inbox {
    /// Leaves a note for a session. Repeating it changes nothing.
    fn send(&self, session: &SessionId, note: NewNote, now: Millis) -> Result<(), StoreError>;

    /// Notes that were not taken yet, oldest first, at most `most` (0 means 100).
    fn notes(&self, session: &SessionId, most: u64) -> Result<Vec<Note>, StoreError>;

    /// Takes notes out of the inbox. Returns those that were still there. A note is taken once.
    fn take_notes(&self, claim: &Claim, ids: &[String], now: Millis) -> Result<Vec<Note>, StoreError>;
}

/// A note to send.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewNote {
    /// Id, unique within the session, by which a repeated note is recognised.
    pub id: String,
    /// Kind of the note, such as `task.ended`.
    pub kind: String,
    /// Content.
    pub data: Value,
}

/// A note in an inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Note {
    /// Id.
    pub id: String,
    /// Kind of the note.
    pub kind: String,
    /// Content.
    pub data: Value,
    /// Time it was sent.
    pub sent: Millis,
}
