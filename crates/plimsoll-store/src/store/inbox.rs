//! What others have to tell a session.

use plimsoll::{Millis, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Claim;
use crate::error::StoreError;

/// The inbox of sessions. Senders need no lease, so that a task that ended or a person can reach a session that
/// another process runs; the holder takes notes in under its claim. Methods block; see the [module](super).
pub trait Inbox {
    /// Leave a note for a session. The same note again changes nothing.
    fn send(&self, session: &SessionId, note: NewNote, now: Millis) -> Result<(), StoreError>;

    /// The notes that were not taken yet, oldest first, no more than `most` of them (0 means 100).
    fn notes(&self, session: &SessionId, most: u64) -> Result<Vec<Note>, StoreError>;

    /// Take notes out of the inbox; gives those that were still there. A note is taken once.
    fn take_notes(&self, claim: &Claim, ids: &[String], now: Millis) -> Result<Vec<Note>, StoreError>;
}

/// A note to be sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewNote {
    /// Its name, unique within the session, by which a repeated note is recognised.
    pub id: String,
    /// What it is about, such as `task.ended`.
    pub kind: String,
    /// What it says.
    pub data: Value,
}

/// A note in an inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// Its name.
    pub id: String,
    /// What it is about.
    pub kind: String,
    /// What it says.
    pub data: Value,
    /// When it was sent.
    pub sent: Millis,
}
