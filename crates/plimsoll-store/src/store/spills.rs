//! The names of outputs that were kept when they were cut. Their content is behind [`Blobs`](crate::Blobs).

use plimsoll::{Millis, PartId, SessionId};
use serde::{Deserialize, Serialize};

use super::Claim;
use crate::error::StoreError;

/// The names of spilled outputs, and whose they are. Methods block; see the [module](super).
pub trait Spills {
    /// Which session has a part or message of that name; the newest if several have.
    fn owner(&self, id: &str) -> Result<SessionId, StoreError>;

    /// Take note of a spill and keep its content, both or neither. `keep` is called once everything is ready but
    /// for the last word, and when nobody can [`forget`](Spills::forget) what it keeps; it should be quick.
    fn add_spill(&self, claim: &Claim, spill: SpillRecord, keep: Keeper) -> Result<(), StoreError>;

    /// The spills that a session can recall, inherited ones too, oldest first.
    fn spills(&self, session: &SessionId) -> Result<Vec<SpillRecord>, StoreError>;

    /// A spill by its handle.
    fn spill(&self, handle: &str) -> Result<SpillRecord, StoreError>;

    /// Mark spills as expired: those from before a time, then the oldest until no more than so many bytes are
    /// left. Gives how many.
    fn expire_spills(
        &self,
        before: Option<Millis>,
        most: Option<u64>,
        now: Millis,
    ) -> Result<u64, StoreError>;

    /// Call `remove` for each of those hashes that no spill needs, so that nobody can begin to need it meanwhile.
    fn forget(&self, hashes: Vec<String>, remove: Forgetter) -> Result<u64, StoreError>;
}

/// Keeps content that was taken in.
pub type Keeper = Box<dyn FnOnce() -> Result<(), StoreError> + Send>;

/// Lets go of content by its hash.
pub type Forgetter = Box<dyn FnMut(&str) -> Result<(), StoreError> + Send>;

/// Output that was kept when it was cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpillRecord {
    /// The address it is recalled by.
    pub handle: String,
    /// The blake3 hash of the content.
    pub hash: String,
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
