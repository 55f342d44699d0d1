//! Who may write a session, and for how long.

use std::time::Duration;

use plimsoll::log::ToolTime;
use plimsoll::{Message, Millis, Part, PartBody, SessionId, Text, ToolStatus};
use serde::Serialize;

use super::{Claim, Epoch};
use crate::error::StoreError;

/// The right to run a session, held by one process at a time. Methods block; see the [module](super).
///
/// A lease that has run out can be taken over by others. Until that happens its holder may still write: what fences
/// a former holder is the epoch that every write carries, never a clock. The store's clock alone decides whether a
/// lease has run out. A lease whose [holder](crate::process_holder) was a process of this machine that no longer exists
/// is free at once.
pub trait Leases {
    /// Take the right to run a session for `ttl` from now. `holder` names the process for people and must be unique
    /// to it. Whatever was left half done is marked as interrupted, and writes under any earlier lease are refused
    /// from now on, also those of the same holder.
    fn lease(&self, session: &SessionId, holder: &str, ttl: Duration) -> Result<Lease, StoreError>;

    /// Like [`lease`](Leases::lease), also if `from` still holds it, because that process is known to be gone. Refused as
    /// [`Leased`](StoreError::Leased) if another has taken it by now: two that find the same process gone must not both
    /// get its session.
    fn succeed(
        &self,
        session: &SessionId,
        holder: &str,
        ttl: Duration,
        from: &str,
    ) -> Result<Lease, StoreError>;

    /// Like [`lease`](Leases::lease), although another holds it: [`Lease::taken_from`] says who.
    fn break_lease(&self, session: &SessionId, holder: &str, ttl: Duration) -> Result<Lease, StoreError>;

    /// Hold a lease for `ttl` from now. One that was taken over or given back cannot be renewed.
    fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Lease, StoreError>;

    /// Give the right back. It is no error if the lease was taken over meanwhile, or went with its session.
    fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// The leases that were not given back, whether they have run out or not, in the order of their sessions' ids: those of
    /// processes at work, and those that processes which died have left. Only after this session, which ended the page before,
    /// and no more than `most`; 0 means 100.
    fn leases(&self, after: Option<&SessionId>, most: u64) -> Result<Vec<LeaseRecord>, StoreError>;
}

/// Whether a session is taken although its lease has not run out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TakeOver {
    /// It is not.
    #[default]
    Never,
    /// Only from this holder, which is gone.
    From(String),
    /// From any.
    Always,
}

impl TakeOver {
    /// Whether it may be taken from this holder.
    pub(crate) fn hits(&self, holder: &str) -> bool {
        match self {
            TakeOver::Never => false,
            TakeOver::From(gone) => gone == holder,
            TakeOver::Always => true,
        }
    }
}

/// A lease that a session is born with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLease {
    /// Who runs it.
    pub holder: String,
    /// For how long, from the moment at which it is stored.
    pub ttl: Duration,
}

/// A lease as anyone may see it: without the epoch that lets its holder write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseRecord {
    /// The session.
    pub session: SessionId,
    /// Who runs it, or did.
    pub holder: String,
    /// Until when, by the store's clock.
    pub until: Millis,
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
    /// Until when, by the store's clock.
    pub until: Millis,
    /// What a former holder left half done and is now marked as interrupted.
    pub settled: Settled,
    /// Whose lease was taken away before it ran out: by force, or because its process no longer exists.
    pub taken_from: Option<String>,
}

impl Lease {
    /// What the holder's writes carry.
    pub fn claim(&self) -> Claim {
        Claim { session: self.session.clone(), epoch: self.epoch }
    }
}

/// What was marked as interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settled {
    /// Calls that waited for an answer.
    pub calls: u64,
    /// Answers of the model that were half written.
    pub answers: u64,
}

/// Mark the calls of a message that wait for an answer as interrupted; says how many there were. For messages whose
/// host is gone for good, such as those of a recorded session.
pub fn settle_calls(message: &mut Message, now: Millis) -> u64 {
    message.parts.iter_mut().filter_map(|part| settle_call(part, now)).count() as u64
}

/// Mark the call in a part as interrupted if it waits for an answer.
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
