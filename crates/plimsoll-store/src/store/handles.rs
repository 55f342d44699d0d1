//! Finding what a handle names.

use plimsoll::{Message, MessageId, Part, PartId, SessionId};

use super::SpillRecord;
use super::session::{Page, PageRequest};
use crate::error::StoreError;
use crate::recall::Scope;

/// Content by its handle, also of sessions that were removed while another still needs what they said. Methods block; see
/// the [module](super).
pub trait Handles {
    /// What a handle may be: the part, message or spill of that name, or if there is none all whose names begin so, the
    /// first so many, each name once. Of several sessions that have the same name, the one last written to.
    fn find_handles(
        &self,
        scope: Scope<'_>,
        handle: &str,
        most: usize,
    ) -> Result<Vec<HandleMatch>, StoreError>;

    /// Which session has a part, message or spill of that name; the one last written to if several have.
    fn owner(&self, id: &str) -> Result<SessionId, StoreError> {
        let found = self.find_handles(Scope::Everywhere, id, 1)?.into_iter().find(|found| found.handle == id);
        let found = found.map(|found| found.session);
        found.ok_or_else(|| StoreError::missing("part, message or spilled output", id))
    }

    /// A part of a session that [`find_handles`](Handles::find_handles) named.
    fn handle_part(&self, session: &SessionId, id: &PartId) -> Result<Part, StoreError>;

    /// A message of such a session.
    fn handle_message(&self, session: &SessionId, id: &MessageId) -> Result<Message, StoreError>;

    /// Messages of such a session.
    fn handle_page(&self, session: &SessionId, request: &PageRequest) -> Result<Page, StoreError>;
}

/// Something a handle names.
#[derive(Clone, Debug, PartialEq)]
pub struct HandleMatch {
    /// The session whose content it is.
    pub session: SessionId,
    /// The handle, whole.
    pub handle: String,
    /// What it names.
    pub target: HandleTarget,
}

/// What a handle names.
#[derive(Clone, Debug, PartialEq)]
pub enum HandleTarget {
    /// A part.
    Part,
    /// A message.
    Message,
    /// A spilled output.
    Spill(Box<SpillRecord>),
}
