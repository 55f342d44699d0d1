//! Sessions as a whole.

use plimsoll::{MessageId, Millis, SessionId};

use super::Claim;
use super::session::{Filter, NewSession, Session, SessionPatch};
use crate::error::StoreError;

/// Sessions: begun, found, described, forked, removed. Methods block; see the [module](super).
pub trait Sessions {
    /// Begin a session.
    fn create(&self, session: NewSession, now: Millis) -> Result<Session, StoreError>;

    /// One session.
    fn session(&self, id: &SessionId) -> Result<Session, StoreError>;

    /// Sessions, the last written to first.
    fn sessions(&self, filter: &Filter) -> Result<Vec<Session>, StoreError>;

    /// Sessions whose ids begin with `prefix`, by their ids, no more than `most`.
    fn sessions_like(&self, prefix: &str, most: u64) -> Result<Vec<Session>, StoreError>;

    /// Change what is said about a session.
    fn patch(&self, claim: &Claim, patch: SessionPatch, now: Millis) -> Result<Session, StoreError>;

    /// Begin a session with the log of another up to a message, or up to the first that is still being written.
    /// Nothing is copied, what the other does afterwards is not seen, and it is not kept from doing it: whatever
    /// could still change is not shared. So a message that is being written, or one after it, is refused.
    fn fork(
        &self,
        parent: &SessionId,
        upto: Option<&MessageId>,
        child: NewSession,
        now: Millis,
    ) -> Result<Session, StoreError>;

    /// Remove a session and its tasks. Sessions forked from it keep what they share with it. Refused while another
    /// process runs one of the tasks.
    fn remove(&self, claim: &Claim, now: Millis) -> Result<(), StoreError>;
}
