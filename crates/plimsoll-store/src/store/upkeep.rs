//! Keeping a store in order.

use crate::error::StoreError;
use crate::session::Findings;

/// What is done on the side, now and then. Methods block; see the [module](super).
pub trait Upkeep {
    /// Bring the index for searches up to date; gives how many parts were added.
    fn index(&self) -> Result<u64, StoreError>;

    /// Forget old changes so that about `keep` are left; a small step of it. Gives how many were forgotten, 0 when
    /// there is nothing left to do.
    fn trim_feed(&self, keep: u64) -> Result<u64, StoreError>;

    /// Look for damage.
    fn check(&self) -> Result<Findings, StoreError>;
}
