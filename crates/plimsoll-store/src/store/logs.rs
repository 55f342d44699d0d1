//! What sessions say.

use plimsoll::{Log, Message, MessageId, Millis, Part, PartId, SessionId, Usage};

use super::Claim;
use crate::error::StoreError;
use crate::recall::{Ask, Hit};
use crate::session::{Page, PageRequest};

/// The messages and parts of sessions: appended, grown, finished, read. Methods block; see the [module](super).
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
    fn advance(&self, claim: &Claim, part: Part, now: Millis) -> Result<(), StoreError>;

    /// Say that a message is finished, and what its provider counted.
    fn finish(
        &self,
        claim: &Claim,
        message: &MessageId,
        finish: &str,
        usage: Option<Usage>,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// What is in view: the newest pivot, its tail, what follows, and what the host laid down. What it costs does
    /// not depend on how long the session is.
    fn window(&self, session: &SessionId) -> Result<Log, StoreError>;

    /// Like [`window`](Logs::window), with lengths instead of texts, for plans and meters.
    fn outline(&self, session: &SessionId) -> Result<Log, StoreError>;

    /// Messages in pages, from either end.
    fn page(&self, session: &SessionId, request: &PageRequest) -> Result<Page, StoreError>;

    /// One message.
    fn message(&self, session: &SessionId, id: &MessageId) -> Result<Message, StoreError>;

    /// One part.
    fn part(&self, session: &SessionId, id: &PartId) -> Result<Part, StoreError>;

    /// Search everything that is out of a session's window, oldest first.
    fn search(&self, session: &SessionId, ask: &Ask) -> Result<Vec<Hit>, StoreError>;
}
