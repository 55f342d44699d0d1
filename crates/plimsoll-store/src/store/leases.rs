//! Leases: which process may write a session, and until when.

use std::time::Duration;

use plimsoll::log::ToolTime;
use plimsoll::{Message, Millis, Part, PartBody, SessionId, Text, ToolStatus};
use serde::Serialize;

use super::{Claim, Epoch};
use crate::error::StoreError;

/// The right to run a session, held by one process at a time. Methods block; see [`Store`](super::Store).
///
/// Another process can take over an expired lease. Until then, its holder may still write: a former holder is fenced by
/// the epoch that every write carries, never by a clock. Only the store's clock decides whether a lease has expired. A
/// lease whose [holder](crate::process_holder) was a process of this machine that no longer exists is free at once.
pub trait Leases {
    /// Takes the right to run a session for `ttl` from now. `holder` names the process for users and must be unique to
    /// it. Interrupted calls and answers are marked as such, and writes under any earlier lease are refused, including
    /// those of the same holder.
    fn lease(&self, session: &SessionId, holder: &str, ttl: Duration) -> Result<Lease, StoreError>;

    /// Like [`lease`](Leases::lease), also if `from` still holds it, because that process is known to be gone. Returns
    /// [`Leased`](StoreError::Leased) if another process has taken it by now: two processes that find the same holder
    /// gone must not both get its session.
    fn inherit_lease(
        &self,
        session: &SessionId,
        holder: &str,
        ttl: Duration,
        from: &str,
    ) -> Result<Lease, StoreError>;

    /// Like [`lease`](Leases::lease), even if another process holds it; [`Lease::taken_from`] names that one.
    fn break_lease(&self, session: &SessionId, holder: &str, ttl: Duration) -> Result<Lease, StoreError>;

    /// Extends a lease to `ttl` from now. One that was taken over or released cannot be renewed.
    fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Lease, StoreError>;

    /// Releases a lease. Does nothing if the lease was taken over meanwhile, or its session was removed.
    fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Leases that were not released, expired or not, by session id: those of running processes and those of processes
    /// that died. Starts after the session `after`, the last one of the previous page; at most `most` (0 means 100).
    fn leases(&self, after: Option<&SessionId>, most: u64) -> Result<Vec<LeaseRecord>, StoreError>;
}

/// Which unexpired leases may be taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TakeOver {
    /// None of another process.
    #[default]
    Never,
    /// Only the lease of this holder, whose process is gone.
    From(String),
    /// All.
    Always,
}

impl TakeOver {
    /// Whether a lease may be taken over from this holder.
    pub(crate) fn allows(&self, holder: &str) -> bool {
        match self {
            TakeOver::Never => false,
            TakeOver::From(gone) => gone == holder,
            TakeOver::Always => true,
        }
    }
}

/// A lease that a session is created with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLease {
    /// The process that runs it.
    pub holder: String,
    /// Duration, from the moment at which it is stored.
    pub ttl: Duration,
}

/// A lease as other processes see it: without the epoch that lets its holder write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LeaseRecord {
    /// The session.
    pub session: SessionId,
    /// The process that runs it, or did.
    pub holder: String,
    /// Expiry, by the store's clock.
    pub until: Millis,
}

/// The right to run a session until it expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// The process that runs it.
    pub holder: String,
    /// The epoch that the holder's writes carry.
    pub epoch: Epoch,
    /// Expiry, by the store's clock.
    pub until: Millis,
    /// Unfinished work of a former holder, now marked as interrupted.
    pub settled: Settled,
    /// The holder whose unexpired lease was taken over: by force, or because its process no longer exists.
    pub taken_from: Option<String>,
}

impl Lease {
    /// Returns a lease that expired long ago, with an epoch that no session reaches. Readers use it, so that none of
    /// their writes is accepted.
    pub fn expired(session: SessionId, holder: String) -> Lease {
        let (epoch, until, settled) = (Epoch(u64::MAX), Millis(0), Settled::default());
        Lease { session, holder, epoch, until, settled, taken_from: None }
    }

    /// Whether this is the lease of a reader, from [`expired`](Lease::expired).
    pub fn is_readers(&self) -> bool {
        self.epoch == Epoch(u64::MAX)
    }

    /// Returns the claim for the holder's writes.
    pub fn claim(&self) -> Claim {
        Claim { session: self.session.clone(), epoch: self.epoch }
    }
}

/// Number of calls and answers that were marked as interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Settled {
    /// Open calls.
    pub calls: u64,
    /// Incomplete answers.
    pub answers: u64,
}

/// Marks the open calls of a message as interrupted. Returns their number. For messages whose host no longer exists,
/// such as those of a recorded session.
pub fn settle_calls(message: &mut Message, now: Millis) -> u64 {
    message.parts.iter_mut().filter_map(|part| settle_call(part, now)).count() as u64
}

/// Marks the call of a part as interrupted if it is open.
pub(crate) fn settle_call(part: &mut Part, now: Millis) -> Option<()> {
    let PartBody::Tool(tool) = &mut part.body else { return None };
    let state = &mut tool.state;
    if !matches!(state.status, ToolStatus::Pending | ToolStatus::Running) {
        return None;
    }
    state.status = ToolStatus::Error;
    state.error = Some(Text::from(crate::INTERRUPTED));
    state.time = ToolTime::ran(state.time.start.unwrap_or(now), now);
    Some(())
}
