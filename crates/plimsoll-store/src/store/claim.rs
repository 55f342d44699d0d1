//! The right under which a write is made: its session and the epoch of the lease.

use plimsoll::SessionId;
use serde::{Deserialize, Serialize};

/// Number of times that the right to write a session changed hands. Each take-over and each release increments it. A
/// session that was never leased is at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

/// Names the session of a write and the epoch of the lease it is made under. The write is refused if the session has
/// another epoch: its lease was taken over or released since.
///
/// An expired lease that no other process has taken over still allows writing. The time does not fence a holder,
/// because clocks differ between machines; a number that is compared inside the transaction does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The session that is written to.
    pub session: SessionId,
    /// The epoch of the lease that the writer holds.
    pub epoch: Epoch,
}

impl Claim {
    /// Creates a claim on a session that was never leased.
    pub fn unleased(session: &SessionId) -> Claim {
        Claim { session: session.clone(), epoch: Epoch(0) }
    }
}
