//! What is stored, told from the store's change feed: also what other processes wrote.

use std::sync::Arc;

use plimsoll::{Message, Part, SessionId};
use plimsoll_store::{Archive, Change, Sequence, Session, StoreError};
use serde::Serialize;

/// A change with what is there now.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stored {
    /// What changed, and its place among all changes.
    #[serde(flatten)]
    pub change: Change,
    /// The part that changed, as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Part>,
    /// The message that changed, as it is now; where only a part did, only that is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole: Option<Message>,
    /// The session as it is now, where the change is about all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<Session>,
}

/// Follows the change feed of a store. It blocks, so async hosts call it off their own threads.
pub struct Follower {
    archive: Arc<Archive>,
    session: Option<SessionId>,
    since: Sequence,
}

impl Follower {
    /// Follow what comes from now on, of one session or of all.
    pub fn from_now(archive: Arc<Archive>, session: Option<SessionId>) -> Result<Follower, StoreError> {
        let since = archive.store().newest_change()?;
        Ok(Follower { archive, session, since })
    }

    /// What came since the last call, oldest first. A part that changed several times meanwhile is given each time, as
    /// it is now.
    pub fn read(&mut self) -> Result<Vec<Stored>, StoreError> {
        let mut all = Vec::new();
        loop {
            let page = self.archive.store().changes(self.since, 0)?;
            let is_last = page.next == self.since;
            self.since = page.next;
            for change in page.changes {
                if self.session.as_ref().is_none_or(|session| *session == change.session) {
                    all.push(self.look(change)?);
                }
            }
            if is_last {
                return Ok(all);
            }
        }
    }

    fn look(&self, change: Change) -> Result<Stored, StoreError> {
        let store = self.archive.store();
        // What was removed or purged meanwhile is no error: the change that did it follows.
        fn there<T>(found: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
            match found {
                Ok(found) => Ok(Some(found)),
                Err(StoreError::Missing { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
        let session = &change.session;
        let (value, whole, about) = match (&change.part, &change.message) {
            (Some(part), _) => (there(store.part(session, part))?, None, None),
            (None, Some(message)) => (None, there(store.message(session, message))?, None),
            (None, None) => (None, None, there(store.session(session))?),
        };
        Ok(Stored { change, value, whole, about })
    }
}
