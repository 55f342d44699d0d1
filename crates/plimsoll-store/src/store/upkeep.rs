//! Keeping a store in order.

use crate::error::StoreError;
use crate::session::Findings;

/// What is done on the side, now and then. Methods block; see the [module](super).
pub trait Upkeep {
    /// Bring the index for searches up to date; gives how many parts were added.
    fn index(&self) -> Result<u64, StoreError>;

    /// Look for damage.
    fn check(&self) -> Result<Findings, StoreError>;
}
