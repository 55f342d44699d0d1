//! Follows the store's change feed, including changes by other processes.

use std::collections::HashMap;
use std::sync::Arc;

use plimsoll::{Message, Part, SessionId};
use plimsoll_store::{Archive, Change, ChangeKind, Sequence, Session, StoreError};
use serde::Serialize;

/// A change, with the current content.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Stored {
    /// The change and its sequence number.
    #[serde(flatten)]
    pub change: Change,
    /// Current content of the changed part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Part>,
    /// Current content of the changed message. Not set if only a part changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole: Option<Message>,
    /// Current session, if the change affects all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<Session>,
}

/// Follows the change feed of a store. It blocks, so async hosts call it on another thread.
pub struct Follower {
    archive: Arc<Archive>,
    session: Option<SessionId>,
    since: Sequence,
}

impl Follower {
    /// Follows future changes of one session or of all.
    pub fn from_now(archive: Arc<Archive>, session: Option<SessionId>) -> Result<Follower, StoreError> {
        let since = archive.store().newest_change()?;
        Ok(Follower { archive, session, since })
    }

    /// Returns the changes since the last call, oldest first, with their current content. Several additions to a text
    /// are returned as one.
    pub fn read(&mut self) -> Result<Vec<Stored>, StoreError> {
        let mut all = Vec::new();
        loop {
            let page = self.archive.store().changes(self.since, 0)?;
            // A part that is being written changes many times a second. Return it once, with its current content.
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
            // Advanced last, so that the next call retries changes that could not be read.
            if page.next == self.since {
                return Ok(all);
            }
            self.since = page.next;
        }
    }

    fn load_current(&self, change: Change) -> Result<Stored, StoreError> {
        let store = self.archive.store();
        // Removed or purged content is not an error: the change that removed it follows.
        fn open_existing<T>(found: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
            match found {
                Ok(found) => Ok(Some(found)),
                Err(StoreError::Missing { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
        let session = &change.session;
        let (value, whole, about) = match (&change.part, &change.message) {
            (Some(part), _) => (open_existing(store.part(session, part))?, None, None),
            (None, Some(message)) => (None, open_existing(store.message(session, message))?, None),
            (None, None) => (None, None, open_existing(store.session(session))?),
        };
        Ok(Stored { change, value, whole, about })
    }
}
