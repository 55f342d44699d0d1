//! What a store can do, whatever it is made of.

use plimsoll::{
    Log, Message, MessageId, Millis, Part, PartId, Receipt, ReceiptId, Reduction, SessionId, Usage,
};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::recall::{Ask, Hit};
use crate::session::{
    Change, CompactionRecord, Filter, Findings, Lease, NewSession, Page, PageRequest, Session,
};

/// Sessions and their logs, with receipts, spills' names, and leases.
///
/// Content is append-only. The only changes are the growth of a part that is being written, the states of tool
/// calls moving forward, and marks. When a method that writes returns, what it wrote survives the death of the
/// process; when it fails, everything is as it was.
pub trait Store: Send + Sync {
    /// Begin a session.
    fn create(&self, session: NewSession, now: Millis) -> Result<Session, StoreError>;

    /// One session.
    fn session(&self, id: &SessionId) -> Result<Session, StoreError>;

    /// Sessions, the last written to first.
    fn sessions(&self, filter: &Filter) -> Result<Vec<Session>, StoreError>;

    /// Say something anew about a session.
    fn change(&self, id: &SessionId, change: Change, now: Millis) -> Result<Session, StoreError>;

    /// Begin a session with the log of another up to a message, or up to its newest finished one. Nothing is
    /// copied, and what the other does afterwards is not seen.
    fn fork(
        &self,
        parent: &SessionId,
        upto: Option<&MessageId>,
        child: NewSession,
        now: Millis,
    ) -> Result<Session, StoreError>;

    /// Remove a session and its tasks. Sessions forked from it keep what they share with it.
    fn remove(&self, id: &SessionId, now: Millis) -> Result<(), StoreError>;

    /// Add messages at the end, all or none.
    fn append(&self, session: &SessionId, messages: Vec<Message>, now: Millis) -> Result<(), StoreError>;

    /// Add a part to a message that is being written.
    fn append_part(
        &self,
        session: &SessionId,
        message: &MessageId,
        part: Part,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// Let a part go forward: text grows, a call starts, answers or fails.
    fn advance(&self, session: &SessionId, part: Part, now: Millis) -> Result<(), StoreError>;

    /// Say that a message is finished, and what its provider counted.
    fn finish(
        &self,
        session: &SessionId,
        message: &MessageId,
        finish: &str,
        usage: Option<Usage>,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// What is in view: the newest pivot, its tail, what follows, and what the host laid down. What it costs does
    /// not depend on how long the session is.
    fn window(&self, session: &SessionId) -> Result<Log, StoreError>;

    /// The same with lengths instead of texts, for plans and meters.
    fn outline(&self, session: &SessionId) -> Result<Log, StoreError>;

    /// Messages in pages, from either end.
    fn page(&self, session: &SessionId, request: &PageRequest) -> Result<Page, StoreError>;

    /// One message.
    fn message(&self, session: &SessionId, id: &MessageId) -> Result<Message, StoreError>;

    /// One part.
    fn part(&self, session: &SessionId, id: &PartId) -> Result<Part, StoreError>;

    /// Record what a climb of the ladder did to a window: the messages it appended, the marks it set, its
    /// receipts; all or nothing.
    fn reduce(&self, session: &SessionId, reduction: Reduction, now: Millis) -> Result<(), StoreError>;

    /// The receipts of a session, oldest first.
    fn receipts(&self, session: &SessionId) -> Result<Vec<Receipt>, StoreError>;

    /// One receipt, and its session.
    fn receipt(&self, id: &ReceiptId) -> Result<(SessionId, Receipt), StoreError>;

    /// Undo a reduction; gives the receipt of that.
    fn undo(&self, id: &ReceiptId, now: Millis) -> Result<(SessionId, Receipt), StoreError>;

    /// The compactions of a session, oldest first.
    fn compactions(&self, session: &SessionId) -> Result<Vec<CompactionRecord>, StoreError>;

    /// Search everything that is out of a session's window, oldest first.
    fn search(&self, session: &SessionId, ask: &Ask) -> Result<Vec<Hit>, StoreError>;

    /// Take the right to run a session, or renew it. What a former holder left unfinished is marked as
    /// interrupted.
    fn lease(
        &self,
        session: &SessionId,
        holder: &str,
        until: Millis,
        now: Millis,
    ) -> Result<Lease, StoreError>;

    /// Give the right back.
    fn release(&self, session: &SessionId, holder: &str) -> Result<(), StoreError>;

    /// Which session has a part or message of that name; the newest if several have.
    fn owner(&self, id: &str) -> Result<SessionId, StoreError>;

    /// Take note of a spill and keep its content, both or neither. `keep` is called once everything is ready but
    /// for the last word, and when nobody can [`forget`](Store::forget) what it keeps; it should be quick.
    fn add_spill(&self, session: &SessionId, spill: SpillRecord, keep: Keeper) -> Result<(), StoreError>;

    /// The spills that a session can recall, inherited ones too, oldest first.
    fn spills(&self, session: &SessionId) -> Result<Vec<SpillRecord>, StoreError>;

    /// A spill by its handle.
    fn spill(&self, handle: &str) -> Result<SpillRecord, StoreError>;

    /// Mark spills as expired: those from before a time, then the oldest until no more than so many bytes are
    /// left. Gives how many.
    fn expire_spills(
        &self,
        before: Option<Millis>,
        most: Option<u64>,
        now: Millis,
    ) -> Result<u64, StoreError>;

    /// Call `remove` for each of those hashes that no spill needs, so that nobody can begin to need it meanwhile.
    fn forget(&self, hashes: Vec<String>, remove: Forgetter) -> Result<u64, StoreError>;

    /// Bring the index for searches up to date; gives how many parts were added.
    fn index(&self) -> Result<u64, StoreError>;

    /// Look for damage.
    fn check(&self) -> Result<Findings, StoreError>;
}

/// Keeps content that was taken in.
pub type Keeper = Box<dyn FnOnce() -> Result<(), StoreError> + Send>;

/// Lets go of content by its hash.
pub type Forgetter = Box<dyn FnMut(&str) -> Result<(), StoreError> + Send>;

/// Output that was kept when it was cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpillRecord {
    /// The address it is recalled by.
    pub handle: String,
    /// The blake3 hash of the content.
    pub hash: String,
    /// The part that shows what is left of it.
    pub part: Option<PartId>,
    /// The tool that printed it.
    pub tool: String,
    /// Its size.
    pub bytes: u64,
    /// What it takes on disk.
    pub stored: u64,
    /// When it was kept.
    pub created: Millis,
    /// The beginning of what the window shows of it.
    pub shown: String,
    /// When it was let go.
    pub expired: Option<Millis>,
}
