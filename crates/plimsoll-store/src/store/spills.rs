//! The names of spilled outputs, and which blobs are to go.

use plimsoll::{Millis, PartId, Receipt, SessionId};
use serde::{Deserialize, Serialize};

use super::Claim;
use crate::error::StoreError;

/// What is known of spilled outputs. The content itself is in [`Blobs`](crate::Blobs); how the two work together is told
/// there. Methods block; see the [module](super).
pub trait Spills {
    /// Take note of a spill whose blob has been put. The same output again renews the one that is there. Other spills of
    /// the same content are moved to the new blob, and the one they had is marked as being deleted.
    fn add_spill(&self, claim: &Claim, spill: SpillRecord) -> Result<(), StoreError>;

    /// The spills that a session shows, inherited ones too, oldest first, from after a place on; 0 means from the first.
    fn spills(&self, session: &SessionId, after: u64, most: usize) -> Result<SpillPage, StoreError>;

    /// All spills after a place, each with its place and its session.
    fn all_spills(&self, after: u64, most: usize) -> Result<Vec<(u64, SessionId, SpillRecord)>, StoreError>;

    /// Take note of a spill and a receipt that could not be written when they were made. This is outside of the epoch:
    /// whoever holds the session now does not conflict with what its holder of that time has done. Once more changes
    /// nothing.
    fn record_late(
        &self,
        session: &SessionId,
        spill: Option<SpillRecord>,
        receipt: Option<Receipt>,
    ) -> Result<(), StoreError>;

    /// Mark spills as expired: those from before a time, or else the oldest until no more than so many bytes are left;
    /// no more than so many at once. When it gives none, there is no more to do.
    fn expire_spills(
        &self,
        before: Option<Millis>,
        most_bytes: Option<u64>,
        now: Millis,
        most: usize,
    ) -> Result<Vec<ExpiredSpill>, StoreError>;

    /// Which of these blobs no spill needs.
    fn unneeded(&self, blobs: Vec<String>) -> Result<Vec<String>, StoreError>;

    /// Mark those of these blobs that no spill needs as being deleted; gives them.
    fn mark_deleting(&self, blobs: Vec<String>, now: Millis) -> Result<Vec<String>, StoreError>;

    /// Blobs that are being deleted, the first so many.
    fn deleting(&self, most: usize) -> Result<Vec<String>, StoreError>;

    /// These blobs are gone.
    fn confirm_deleted(&self, blobs: Vec<String>) -> Result<(), StoreError>;
}

/// Some of a session's spills.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpillPage {
    /// The spills, oldest first.
    pub spills: Vec<SpillRecord>,
    /// Where the next page begins, if there is one.
    pub next: Option<u64>,
}

/// Output that was kept when it was cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpillRecord {
    /// The address it is recalled by.
    pub handle: String,
    /// The blake3 hash of the content.
    pub hash: String,
    /// The name of the blob that holds it.
    pub blob: String,
    /// The part that shows what is left of it.
    pub part: Option<PartId>,
    /// The tool that printed it.
    pub tool: String,
    /// Its size.
    pub bytes: u64,
    /// What it takes on disk.
    pub stored: u64,
    /// When it was kept.
    pub created: Millis,
    /// The beginning of what the window shows of it.
    pub shown: String,
    /// When it was let go.
    pub expired: Option<Millis>,
}

/// A spill that was let go, for whoever is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpiredSpill {
    /// The session it belonged to.
    pub session: SessionId,
    /// The address it was recalled by.
    pub handle: String,
    /// The tool that printed it.
    pub tool: String,
    /// Its size.
    pub bytes: u64,
    /// When it was kept.
    pub created: Millis,
}
