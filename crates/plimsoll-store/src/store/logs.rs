//! The content of sessions.

use std::ops::Deref;

use plimsoll::log::MessageUpdate;
use plimsoll::{Log, Message, MessageId, Millis, Part, PartId, SessionId, Usage};

use super::session::{Page, PageRequest};
use super::{Claim, Revision};
use crate::counts::PartCounts;
use crate::error::StoreError;
use crate::recall::{Hit, Selection};

/// A session's log at one revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The log, or the requested part of it.
    pub log: Log,
    /// The session's revision at that time.
    pub revision: Revision,
}

impl Deref for Snapshot {
    type Target = Log;
    fn deref(&self) -> &Log {
        &self.log
    }
}

/// The messages and parts of sessions: appended, grown, finished, read. Methods block; see [`Store`](super::Store).
///
/// A write can be repeated if it is unknown whether it was committed: a message or part that already exists with the
/// same content changes nothing; with other content it is [`Duplicate`](plimsoll::LogError::Duplicate).
pub trait Logs {
    /// Appends messages, all or none.
    fn append(&self, claim: &Claim, messages: Vec<Message>, now: Millis) -> Result<(), StoreError>;

    /// Appends a part to a message that is being written.
    fn append_part(
        &self,
        claim: &Claim,
        message: &MessageId,
        part: Part,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// Advances a part: text grows, a call starts, answers or fails.
    fn advance(&self, claim: &Claim, part: Part, now: Millis) -> Result<(), StoreError> {
        self.advance_all(claim, vec![part], now)
    }

    /// Like [`advance`](Logs::advance) for several parts, all or none, in one revision.
    fn advance_all(&self, claim: &Claim, parts: Vec<Part>, now: Millis) -> Result<(), StoreError>;

    /// Appends `more` to a text, to reasoning, or to the raw input of a call that has not started. Writes only the
    /// delta. `from` is the current length in bytes, by which a repeated delta is recognised and a lost one detected.
    fn extend(
        &self,
        claim: &Claim,
        part: &PartId,
        from: u64,
        more: &str,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// Records metadata of a message: model, usage, cost, how it ended.
    fn record(
        &self,
        claim: &Claim,
        message: &MessageId,
        update: MessageUpdate,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// Records that a message is finished, with its usage; the common case of [`record`](Logs::record).
    fn finish(
        &self,
        claim: &Claim,
        message: &MessageId,
        finish: &str,
        usage: Option<Usage>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let update = MessageUpdate { finish: Some(finish.to_owned()), usage, ..MessageUpdate::default() };
        self.record(claim, message, update, now)
    }

    /// Returns the visible log: the newest pivot, its tail, what follows, and the host's system messages. The cost does
    /// not depend on the length of the session.
    fn window(&self, session: &SessionId) -> Result<Snapshot, StoreError>;

    /// Like [`window`](Logs::window), with lengths instead of texts, for plans and meters.
    fn outline(&self, session: &SessionId) -> Result<Snapshot, StoreError>;

    /// Returns a page of messages, from either end.
    fn page(&self, session: &SessionId, request: &PageRequest) -> Result<Page, StoreError>;

    /// Returns a message.
    fn message(&self, session: &SessionId, id: &MessageId) -> Result<Message, StoreError>;

    /// Returns a part.
    fn part(&self, session: &SessionId, id: &PartId) -> Result<Part, StoreError>;

    /// Stores exact token counts of parts, which are returned with their texts from then on. Counts of parts that do
    /// not exist or have changed are dropped. Changes nothing else and needs no lease.
    fn keep_counts(&self, session: &SessionId, counts: Vec<PartCounts>) -> Result<(), StoreError>;

    /// Searches everything outside a session's window, oldest first.
    fn search(&self, session: &SessionId, wanted: &Selection) -> Result<Vec<Hit>, StoreError>;
}
