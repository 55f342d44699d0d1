//! Who may write a session, and for how long.

use plimsoll::{Millis, SessionId};
use serde::Serialize;

use super::{Claim, Epoch};
use crate::error::StoreError;

/// The right to run a session, held by one process at a time. Methods block; see the [module](super).
pub trait Leases {
    /// Take the right to run a session, or renew it. What a former holder left unfinished is marked as
    /// interrupted.
    fn lease(
        &self,
        session: &SessionId,
        holder: &str,
        until: Millis,
        now: Millis,
    ) -> Result<Lease, StoreError>;

    /// Give the right back. It is no error if the lease was taken over meanwhile, or went with its session.
    fn release(&self, lease: &Lease) -> Result<(), StoreError>;
}

/// The right to run a session for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// Who runs it.
    pub holder: String,
    /// What the holder's writes carry.
    pub epoch: Epoch,
    /// Until when.
    pub until: Millis,
    /// Calls that a former holder left unfinished; they are marked as interrupted now.
    pub interrupted: u64,
}

impl Lease {
    /// What the holder's writes carry.
    pub fn claim(&self) -> Claim {
        Claim { session: self.session.clone(), epoch: self.epoch }
    }
}
