//! Resolving handles.

use plimsoll::{Message, MessageId, Part, PartId, SessionId};

use super::SpillRecord;
use super::session::{Page, PageRequest};
use crate::error::StoreError;
use crate::recall::Scope;

/// Content by its handle, including that of removed sessions that a fork still needs. Methods block; see
/// [`Store`](super::Store).
pub trait Handles {
    /// Resolves a handle: the part, message or spill with that id, or if there is none, those whose ids start with it,
    /// at most `most` and each id once. If several sessions have the same id, the one written to last counts.
    fn find_handles(
        &self,
        scope: Scope<'_>,
        handle: &str,
        most: usize,
    ) -> Result<Vec<HandleMatch>, StoreError>;

    /// Returns the session that has a part, message or spill with that id; the one written to last if several have.
    fn owner(&self, id: &str) -> Result<SessionId, StoreError> {
        let found = self.find_handles(Scope::Everywhere, id, 1)?.into_iter().find(|found| found.handle == id);
        let found = found.map(|found| found.session);
        found.ok_or_else(|| StoreError::missing("part, message or spilled output", id))
    }

    /// Returns a part of a session that [`find_handles`](Handles::find_handles) returned.
    fn handle_part(&self, session: &SessionId, id: &PartId) -> Result<Part, StoreError>;

    /// Returns a message of such a session.
    fn handle_message(&self, session: &SessionId, id: &MessageId) -> Result<Message, StoreError>;

    /// Messages of such a session.
    fn handle_page(&self, session: &SessionId, request: &PageRequest) -> Result<Page, StoreError>;
}

/// A resolved handle.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HandleMatch {
    /// The session whose content it is.
    pub session: SessionId,
    /// The full handle.
    pub handle: String,
    /// The named content.
    pub target: HandleTarget,
}

/// Kind of what a handle names.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HandleTarget {
    /// A part.
    Part,
    /// A message.
    Message,
    /// A spilled output.
    Spill(Box<SpillRecord>),
}
