//! Sessions that come from elsewhere: stored whole or not at all, and brought up to date later.

use std::time::Duration;

use plimsoll::{Message, Millis, Part, SessionId};
use serde::{Deserialize, Serialize};

use super::session::NewSession;
use crate::error::StoreError;

/// What was staged and not added to for so long was left by a process that was killed.
pub const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// Imports of recorded sessions. Methods block; see the [module](super).
///
/// An import becomes visible in one transaction, [`import`](Imports::import), with all of its conversations: the
/// session and those of its sub-agents. Messages of a large one are [staged](Imports::stage) before in pieces. What is
/// staged belongs to no session yet, no other method shows it, and other writers get their turn between two pieces. One
/// transaction around everything was weighed against that: it needs no clearing up after a kill, but it holds the
/// only writer for as long as the source takes to read.
///
/// A session that is there already is not staged. An importer that has much to add does so by several imports, each with the
/// state that a shorter source would have left.
///
/// The store does not interpret what was taken from a source. It keeps an opaque [`ImportRecord::state`] for each
/// conversation and compares it, so that of several imports at once exactly one is stored.
pub trait Imports {
    /// What was imported from a source, oldest first: a record for each conversation of each session.
    fn imports(&self, source: &str) -> Result<Vec<ImportRecord>, StoreError>;

    /// What was imported as that session and its sub-agents; nothing if it was not imported.
    fn import_of(&self, session: &SessionId) -> Result<Vec<ImportRecord>, StoreError>;

    /// Keep a piece of an import aside.
    fn stage(&self, piece: StagedPiece) -> Result<(), StoreError>;

    /// Store an import: what was staged for it and what it brings itself, all or nothing. A session that is there
    /// already is only added to while no other process holds its lease, and whoever wrote it under an earlier lease
    /// is refused from then on.
    fn import(&self, import: Import) -> Result<Imported, StoreError>;

    /// Let go of what was staged for an import. Works in small transactions; it is no error if nothing was staged.
    fn unstage(&self, stage: &str) -> Result<(), StoreError>;

    /// Let go of what imports left that were not heard of for so long, by the store's clock: their processes were killed.
    /// Gives how many.
    fn sweep_stages(&self, idle: Duration) -> Result<u64, StoreError>;
}

/// What the store knows about a conversation that was imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportRecord {
    /// The session it became.
    pub session: SessionId,
    /// The session of the whole import: itself, or the one whose sub-agent it is.
    pub root: SessionId,
    /// Where it came from, as the importer names it.
    pub source: String,
    /// Which conversation of the source it is; empty for the session itself.
    pub conversation: String,
    /// What was taken, in the importer's words.
    pub state: String,
    /// Whether the session was continued since: it has messages that neither an import nor a reduction added.
    pub is_continued: bool,
}

/// Messages of an import that are kept aside.
#[derive(Clone, Debug, PartialEq)]
pub struct StagedPiece {
    /// Names the import; unique to it.
    pub stage: String,
    /// The place of the conversation in [`Import::conversations`].
    pub conversation: usize,
    /// How many messages of the conversation were staged before. Another number is refused: the stage was swept.
    pub after: u64,
    /// The next messages.
    pub messages: Vec<Message>,
}

/// An import that is ready to be stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Import {
    /// Where it comes from.
    pub source: String,
    /// The sessions that had been imported from there when this was planned. If there are others by now, it is not
    /// stored. `None` stores it in any case.
    pub known: Option<Vec<SessionId>>,
    /// What its messages were staged under, if any were.
    pub stage: Option<String>,
    /// The session, then its sub-agents.
    pub conversations: Vec<Conversation>,
}

/// One conversation of an import.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// The session it becomes or became.
    pub session: NewSession,
    /// Which conversation of the source it is; empty for the session itself.
    pub conversation: String,
    /// What was taken of it, in the importer's words.
    pub state: String,
    /// What the record must say for this to be stored, if the session was imported before.
    pub before: Option<String>,
    /// How many of its messages were staged.
    pub staged: u64,
    /// What became of the last message that was imported before.
    pub grown: Option<GrownMessage>,
    /// Its messages after those that were staged or imported before.
    pub messages: Vec<Message>,
    /// When it began.
    pub created: Millis,
    /// When it was last written to.
    pub updated: Millis,
}

/// A message that went on after it was imported.
#[derive(Clone, Debug, PartialEq)]
pub struct GrownMessage {
    /// The message as it is now, without its parts.
    pub message: Message,
    /// The parts that grew or are new, each with its place in the message.
    pub parts: Vec<(usize, Part)>,
}

/// What came of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It is stored.
    Stored,
    /// Nothing was stored: the store is not as it was when this was planned, by another import or because a session was
    /// continued. Plan again.
    Outdated,
    /// Nothing was stored: the last message that was imported before has grown, and a fork shares it.
    Shared,
}
