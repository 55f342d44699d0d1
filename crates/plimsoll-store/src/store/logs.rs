//! What sessions say.

use std::ops::Deref;

use plimsoll::log::MessageUpdate;
use plimsoll::{Log, Message, MessageId, Millis, Part, PartId, SessionId, Usage};

use super::session::{Page, PageRequest};
use super::{Claim, Revision};
use crate::counts::PartCounts;
use crate::error::StoreError;
use crate::recall::{Hit, Selection};

/// What a session's log looked like at one revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The log, or the part of it that was asked for.
    pub log: Log,
    /// The session's revision then.
    pub revision: Revision,
}

impl Deref for Snapshot {
    type Target = Log;
    fn deref(&self) -> &Log {
        &self.log
    }
}

/// The messages and parts of sessions: appended, grown, finished, read. Methods block; see the [module](super).
///
/// Writes can be repeated when it is unknown whether they were committed: a message or part that is there already with
/// the same content is no error and changes nothing; with another it is [`Duplicate`](plimsoll::LogError::Duplicate).
pub trait Logs {
    /// Add messages at the end, all or none.
    fn append(&self, claim: &Claim, messages: Vec<Message>, now: Millis) -> Result<(), StoreError>;

    /// Add a part to a message that is being written.
    fn append_part(
        &self,
        claim: &Claim,
        message: &MessageId,
        part: Part,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// Let a part go forward: text grows, a call starts, answers or fails.
    fn advance(&self, claim: &Claim, part: Part, now: Millis) -> Result<(), StoreError> {
        self.advance_all(claim, vec![part], now)
    }

    /// Like [`advance`](Logs::advance) for several parts, all or none, in one revision.
    fn advance_all(&self, claim: &Claim, parts: Vec<Part>, now: Millis) -> Result<(), StoreError>;

    /// Add `more` to the end of a text, of reasoning, or of the raw input of a call that has not started. Writes
    /// the delta and not the text. `from` is the length of what is there already, in bytes: by it a repeated delta is
    /// recognised, and a lost one noticed.
    fn extend(
        &self,
        claim: &Claim,
        part: &PartId,
        from: u64,
        more: &str,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// Record what has become known about a message: model, usage, cost, how it ended.
    fn record(
        &self,
        claim: &Claim,
        message: &MessageId,
        update: MessageUpdate,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// Say that a message is finished, and what its provider counted; the common case of [`record`](Logs::record).
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

    /// What is in view: the newest pivot, its tail, what follows, and what the host laid down. What it costs does
    /// not depend on how long the session is.
    fn window(&self, session: &SessionId) -> Result<Snapshot, StoreError>;

    /// Like [`window`](Logs::window), with lengths instead of texts, for plans and meters.
    fn outline(&self, session: &SessionId) -> Result<Snapshot, StoreError>;

    /// Messages in pages, from either end.
    fn page(&self, session: &SessionId, request: &PageRequest) -> Result<Page, StoreError>;

    /// One message.
    fn message(&self, session: &SessionId, id: &MessageId) -> Result<Message, StoreError>;

    /// One part.
    fn part(&self, session: &SessionId, id: &PartId) -> Result<Part, StoreError>;

    /// Keeps exact counts of parts, so that their texts come with them when they are read. Counts of parts that are not
    /// there or have changed are dropped. This changes nothing else, and needs no lease.
    fn keep_counts(&self, session: &SessionId, counts: Vec<PartCounts>) -> Result<(), StoreError>;

    /// Search everything that is out of a session's window, oldest first.
    fn search(&self, session: &SessionId, wanted: &Selection) -> Result<Vec<Hit>, StoreError>;
}
