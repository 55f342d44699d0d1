//! What is stored, told from the store's change feed: also what other processes wrote.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll::{Message, Part, SessionId};
use plimsoll_store::{Archive, Change, ChangeKind, Sequence, Session, StoreError};
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

    /// What came since the last call, oldest first, each with what is there now. Of the growth of a text only the last is
    /// given.
    pub fn read(&mut self) -> Result<Vec<Stored>, StoreError> {
        let mut all = Vec::new();
        loop {
            let page = self.archive.store().changes(self.since, 0)?;
            // A part that is being written changes many times a second, and is given as it is now: once will do.
            let mut last_growth = HashMap::new();
            for (place, change) in page.changes.iter().enumerate() {
                if let (ChangeKind::Extended, Some(part)) = (change.kind, &change.part) {
                    last_growth.insert(part.clone(), place);
                }
            }
            for (place, change) in page.changes.iter().enumerate() {
                let is_wanted = self.session.as_ref().is_none_or(|session| *session == change.session);
                let is_newest = match (change.kind, &change.part) {
                    (ChangeKind::Extended, Some(part)) => last_growth.get(part) == Some(&place),
                    _ => true,
                };
                if is_wanted && is_newest {
                    all.push(self.load_current(change.clone())?);
                }
            }
            // Only now: what could not be read is read again by the next call.
            if page.next == self.since {
                return Ok(all);
            }
            self.since = page.next;
        }
    }

    fn load_current(&self, change: Change) -> Result<Stored, StoreError> {
        let store = self.archive.store();
        // What was removed or purged meanwhile is no error: the change that did it follows.
        fn if_there<T>(found: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
            match found {
                Ok(found) => Ok(Some(found)),
                Err(StoreError::Missing { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
        let session = &change.session;
        let (value, whole, about) = match (&change.part, &change.message) {
            (Some(part), _) => (if_there(store.part(session, part))?, None, None),
            (None, Some(message)) => (None, if_there(store.message(session, message))?, None),
            (None, None) => (None, None, if_there(store.session(session))?),
        };
        Ok(Stored { change, value, whole, about })
    }
}
