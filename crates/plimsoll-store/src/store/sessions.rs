//! Whole sessions.

use plimsoll::{MessageId, Millis, SessionId};

use super::Claim;
use super::session::{Filter, NewSession, Session, SessionPatch};
use crate::error::StoreError;

/// Sessions: created, listed, described, forked, removed. Methods block; see [`Store`](super::Store).
pub trait Sessions {
    /// Creates a session.
    fn create(&self, session: NewSession, now: Millis) -> Result<Session, StoreError>;

    /// Returns a session.
    fn session(&self, id: &SessionId) -> Result<Session, StoreError>;

    /// Sessions, most recently written first.
    fn sessions(&self, filter: &Filter) -> Result<Vec<Session>, StoreError>;

    /// Sessions whose ids start with `prefix`, by id, at most `most`.
    fn sessions_like(&self, prefix: &str, most: u64) -> Result<Vec<Session>, StoreError>;

    /// Changes a session's metadata.
    fn patch(&self, claim: &Claim, patch: SessionPatch, now: Millis) -> Result<Session, StoreError>;

    /// Creates a session with the log of another up to a message, or up to the first that is still being written.
    /// Nothing is copied. The fork does not see later writes of its parent, and does not prevent them: it shares
    /// nothing that could still change. A message that is still being written, or one after it, is refused.
    fn fork(
        &self,
        parent: &SessionId,
        upto: Option<&MessageId>,
        child: NewSession,
        now: Millis,
    ) -> Result<Session, StoreError>;

    /// Removes a session and its tasks. Its forks keep what they share with it. Refused while another process runs one
    /// of the tasks.
    fn remove(&self, claim: &Claim, now: Millis) -> Result<(), StoreError>;
}
