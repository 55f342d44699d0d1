//! What a write must show: which session it is for, and which holding of its lease it belongs to.

use plimsoll::SessionId;
use serde::{Deserialize, Serialize};

/// Counts how often the right to write a session has changed hands: it moves with every take-over and every release of
/// the session's lease. A session that was never leased is at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

/// What every write of a session carries. The write is refused when the session is at another epoch: its lease was
/// taken over or given back since.
///
/// Holding an expired lease that nobody has taken over is enough: time alone does not fence a holder, because clocks
/// differ between machines and a number compared inside the transaction does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The session that is written to.
    pub session: SessionId,
    /// The epoch of the lease that the writer holds.
    pub epoch: Epoch,
}

impl Claim {
    /// The claim on a session that was never leased.
    pub fn unleased(session: &SessionId) -> Claim {
        Claim { session: session.clone(), epoch: Epoch(0) }
    }
}
