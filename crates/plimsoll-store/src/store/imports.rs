//! Sessions of other tools: stored whole or not at all, and updated later.

use std::time::Duration;

use plimsoll::{Message, Millis, Part, SessionId};
use serde::{Deserialize, Serialize};

use super::session::NewSession;
use crate::error::StoreError;

/// Age after which a stage without new pieces counts as abandoned by a killed process.
pub const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// Imports of recorded sessions. Methods block; see [`Store`](super::Store).
///
/// An import becomes visible in one transaction, [`import`](Imports::import), with all of its conversations: the
/// session and those of its sub-agents. The messages of a large one are [staged](Imports::stage) in pieces before.
/// Staged messages belong to no session yet, no other method returns them, and other writers get their turn between two
/// pieces. A single transaction was rejected: it would need no cleanup after a kill, but it would block all writers for
/// as long as reading the source takes.
///
/// A session that already exists is not staged. An importer that has much to add uses several imports, each with the
/// state that a shorter source would have left.
///
/// The store does not interpret what an importer knows about a source. It stores an opaque [`ImportRecord::state`] for
/// each conversation and compares it, so that exactly one of several concurrent imports is stored.
pub trait Imports {
    /// Records of the imports from a source, oldest first: one for each conversation of each session.
    fn imports(&self, source: &str) -> Result<Vec<ImportRecord>, StoreError>;

    /// Records of the import that created a session and its sub-agents; empty if it was not imported.
    fn import_of(&self, session: &SessionId) -> Result<Vec<ImportRecord>, StoreError>;

    /// Stages a piece of an import.
    fn stage(&self, piece: StagedPiece) -> Result<(), StoreError>;

    /// Stores an import, staged and unstaged messages, all or nothing. An existing session is only extended while no
    /// other process holds its lease. Afterwards, writes under earlier leases are refused.
    fn import(&self, import: Import) -> Result<Imported, StoreError>;

    /// Deletes what was staged for an import, in small transactions. Does nothing if nothing was staged.
    fn unstage(&self, stage: &str) -> Result<(), StoreError>;

    /// Deletes stages that got no new piece for `idle`, by the store's clock: their processes were killed. Returns
    /// their number.
    fn sweep_stages(&self, idle: Duration) -> Result<u64, StoreError>;
}

/// Record of an imported conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ImportRecord {
    /// The session it became.
    pub session: SessionId,
    /// The session of the whole import: itself, or the parent of the sub-agent.
    pub root: SessionId,
    /// The source, as the importer names it.
    pub source: String,
    /// Key of the conversation in the source; empty for the session itself.
    pub conversation: String,
    /// State of the import, in the importer's format.
    pub state: String,
    /// Whether the session was continued since: it has messages that neither an import nor a reduction added.
    pub is_continued: bool,
}

/// Staged messages of an import.
#[derive(Clone, Debug, PartialEq)]
pub struct StagedPiece {
    /// Unique name of the import.
    pub stage: String,
    /// Index of the conversation in [`Import::conversations`].
    pub conversation: usize,
    /// Number of messages of the conversation that were staged before. A mismatch is refused: the stage was swept.
    pub after: u64,
    /// The next messages.
    pub messages: Vec<Message>,
}

/// An import that is ready to be stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Import {
    /// The source.
    pub source: String,
    /// The sessions that were imported from the source when this was planned. If there are others by now, the import is
    /// not stored. `None` skips this check.
    pub known: Option<Vec<SessionId>>,
    /// Name under which its messages were staged, if any were.
    pub stage: Option<String>,
    /// The session, then its sub-agents.
    pub conversations: Vec<Conversation>,
}

/// A conversation of an import.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// The session to create or extend.
    pub session: NewSession,
    /// Key of the conversation in the source; empty for the session itself.
    pub conversation: String,
    /// State of the import, in the importer's format.
    pub state: String,
    /// The state that the record must have, if the session was imported before.
    pub before: Option<String>,
    /// Number of staged messages.
    pub staged: u64,
    /// Growth of the last message of the previous import.
    pub grown: Option<GrownMessage>,
    /// Messages after those that were staged or imported before.
    pub messages: Vec<Message>,
    /// Time of creation.
    pub created: Millis,
    /// Time of the last write.
    pub updated: Millis,
}

/// A message that grew after it was imported.
#[derive(Clone, Debug, PartialEq)]
pub struct GrownMessage {
    /// The current message, without its parts.
    pub message: Message,
    /// Parts that grew or are new, each with its index in the message.
    pub parts: Vec<(usize, Part)>,
}

/// Result of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// The import was stored.
    Stored,
    /// Nothing was stored: another import changed the store since this one was planned, or a session was continued.
    /// Plan again.
    Outdated,
    /// Nothing was stored: the last message that was imported before has grown, but a fork shares it.
    Shared,
}
