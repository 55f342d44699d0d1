//! Records of spilled outputs, and which blobs to delete.

use plimsoll::{Millis, PartId, Receipt, SessionId};
use serde::{Deserialize, Serialize};

use super::Claim;
use crate::error::StoreError;

/// Records of spilled outputs. The content is in [`Blobs`](crate::Blobs), whose documentation describes how the two
/// work together. Methods block; see [`Store`](super::Store).
pub trait Spills {
    /// Records a spill whose blob was put. The same output again renews the existing spill. Other spills with the same
    /// content are moved to the new blob, and their old blob is marked for deletion.
    fn add_spill(&self, claim: &Claim, spill: SpillRecord) -> Result<(), StoreError>;

    /// Returns the spills of a session, inherited ones included, oldest first, after a position; 0 starts with the
    /// first.
    fn spills(&self, session: &SessionId, after: u64, most: usize) -> Result<SpillPage, StoreError>;

    /// All spills after a position, each with its position and session.
    fn all_spills(&self, after: u64, most: usize) -> Result<Vec<(u64, SessionId, SpillRecord)>, StoreError>;

    /// Records a spill and a receipt that could not be written when they were made. The epoch is not checked: they do
    /// not conflict with whatever the current holder does. Repeating it changes nothing.
    fn record_late(
        &self,
        session: &SessionId,
        spill: Option<SpillRecord>,
        receipt: Option<Receipt>,
    ) -> Result<(), StoreError>;

    /// Marks spills as expired: those from before a time, otherwise the oldest until the rest fits `max_bytes`; at
    /// most `most` at once. Returns none when there is nothing left to expire.
    fn expire_spills(
        &self,
        before: Option<Millis>,
        max_bytes: Option<u64>,
        now: Millis,
        most: usize,
    ) -> Result<Vec<ExpiredSpill>, StoreError>;

    /// Returns which of these blobs no spill refers to.
    fn unneeded(&self, blobs: Vec<String>) -> Result<Vec<String>, StoreError>;

    /// Marks those of these blobs that no spill refers to for deletion, and returns them.
    fn mark_deleting(&self, blobs: Vec<String>, now: Millis) -> Result<Vec<String>, StoreError>;

    /// Blobs that are marked for deletion, at most `most`.
    fn deleting(&self, most: usize) -> Result<Vec<String>, StoreError>;

    /// Records that these blobs were deleted.
    fn confirm_deleted(&self, blobs: Vec<String>) -> Result<(), StoreError>;
}

/// A page of a session's spills.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SpillPage {
    /// The spills, oldest first.
    pub spills: Vec<SpillRecord>,
    /// Start of the next page, if there is one.
    pub next: Option<u64>,
}

/// A tool output that was stored when it was truncated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SpillRecord {
    /// Address for recall.
    pub handle: String,
    /// The blake3 hash of the content.
    pub hash: String,
    /// Name of the blob with the content.
    pub blob: String,
    /// The part that shows the truncated output.
    pub part: Option<PartId>,
    /// The tool that wrote it.
    pub tool: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Size on disk in bytes.
    pub stored: u64,
    /// Time it was stored.
    pub created: Millis,
    /// Start of what the window shows of it.
    pub shown: String,
    /// Time it expired.
    pub expired: Option<Millis>,
}

/// Report of an expired spill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ExpiredSpill {
    /// The session it belonged to.
    pub session: SessionId,
    /// Address for recall.
    pub handle: String,
    /// The tool that wrote it.
    pub tool: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Time it was stored.
    pub created: Millis,
}
