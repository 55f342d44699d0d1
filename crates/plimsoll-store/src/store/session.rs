//! A session's metadata.

use std::fmt;

use plimsoll::{MessageId, Millis, SessionId, Tokens, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{NewLease, NewTask, Revision};

/// A session to create.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewSession {
    /// Id.
    pub id: SessionId,
    /// The session that started it as a task, if any.
    pub parent: Option<SessionId>,
    /// Title.
    pub title: String,
    /// Name of its agent.
    pub agent: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Working directory.
    pub directory: Option<String>,
    /// The tool that wrote an imported session, by the importer's name for it.
    pub tool: Option<String>,
    /// Version of the tool that wrote an imported session.
    pub version: Option<String>,
    /// Context window that the tool recorded. It does not apply to answers that are requested here.
    pub context: Option<Tokens>,
    /// Settings that hosts keep with the session.
    pub settings: Map<String, Value>,
    /// First messages, after inherited ones; stored with the session or not at all.
    pub messages: Vec<plimsoll::Message>,
    /// Record of the task that it runs; stored with the session or not at all.
    pub task: Option<NewTask>,
    /// Lease that it is created with; stored with the session or not at all.
    pub lease: Option<NewLease>,
}

impl NewSession {
    /// Creates a session with only an id.
    pub fn new(id: SessionId) -> NewSession {
        NewSession { id, ..NewSession::default() }
    }

    /// Returns the context window as a database column. A transcript may record any number, and one that does not fit
    /// must not fail the import.
    pub(crate) fn context_column(&self) -> Option<u64> {
        self.context.map(|context| context.min(Totals::MOST).0)
    }
}

/// A stored session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Session {
    /// Id.
    pub id: SessionId,
    /// The session that started it as a task.
    pub parent: Option<SessionId>,
    /// Title.
    pub title: String,
    /// Name of its agent.
    pub agent: Option<String>,
    /// The model, the last one if it changed.
    pub model: Option<String>,
    /// Working directory.
    pub directory: Option<String>,
    /// The tool that wrote an imported session, by the importer's name for it.
    pub tool: Option<String>,
    /// Version of the tool that wrote an imported session.
    pub version: Option<String>,
    /// Context window that the tool recorded. It does not apply to answers that are requested here.
    pub context: Option<Tokens>,
    /// Settings that hosts keep with the session, such as permission rules of a client. The store does not interpret them.
    /// A fork has its own.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// Fork point, if it is a fork.
    pub forked_from: Option<ForkPoint>,
    /// Time of creation.
    pub created: Millis,
    /// Time of the last write.
    pub updated: Millis,
    /// Number of its own messages, without inherited ones.
    pub messages: u64,
    /// Usage of these messages.
    pub usage: Totals,
    /// Cost of these messages, as far as known.
    pub cost: f64,
    /// Number of writes.
    pub revision: Revision,
}

impl Session {
    /// Whether this is the result of creating `new` at `now`, as a fork of `parent` or on its own, and it was not
    /// written to since. A session that was written to is not accepted as the result of a repeated call: two callers
    /// that happen to create the same session would both fill it.
    pub(crate) fn was_begun_as(&self, new: &NewSession, parent: Option<&SessionId>, now: Millis) -> bool {
        let NewSession { id, parent: task_of, title, agent, model, directory, version, messages, .. } = new;
        let same = *id == self.id
            && *task_of == self.parent
            && *title == self.title
            && *agent == self.agent
            // The first messages may determine the model.
            && (*model == self.model || !messages.is_empty())
            && messages.len() as u64 == self.messages
            && *directory == self.directory
            && *version == self.version;
        same && self.forked_from.as_ref().map(|point| &point.session) == parent
            && self.created == now
            && self.revision == Revision(1)
    }
}

/// Sums of tokens by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Totals {
    /// Uncached input.
    pub input: Tokens,
    /// Output without reasoning.
    pub output: Tokens,
    /// Reasoning.
    pub reasoning: Tokens,
    /// Input read from a cache.
    pub cache_read: Tokens,
    /// Input written to a cache.
    pub cache_write: Tokens,
}

impl Totals {
    /// Largest total that a database column can hold. Larger sums are clamped to it.
    pub const MOST: Tokens = Tokens(i64::MAX as u64);

    /// Adds the usage of one response.
    pub fn add(&mut self, usage: &Usage) {
        self.recount(&Usage::default(), usage);
    }

    /// Replaces the usage `before` of one response with `after`.
    pub(crate) fn recount(&mut self, before: &Usage, after: &Usage) {
        let recounted = |total: Tokens, before: Tokens, after: Tokens| {
            (total + after).min(Totals::MOST) - before.min(Totals::MOST)
        };
        self.input = recounted(self.input, before.input, after.input);
        self.output = recounted(self.output, before.output, after.output);
        self.reasoning = recounted(self.reasoning, before.reasoning, after.reasoning);
        self.cache_read = recounted(self.cache_read, before.cache_read, after.cache_read);
        self.cache_write = recounted(self.cache_write, before.cache_write, after.cache_write);
    }
}

/// A position in another session's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ForkPoint {
    /// The session.
    pub session: SessionId,
    /// The last shared message; `None` if the fork is before the first message.
    pub message: Option<MessageId>,
}

/// Changes to a session's metadata. Fields that are `None` stay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPatch {
    /// New title.
    pub title: Option<String>,
    /// New agent.
    pub agent: Option<String>,
    /// New model.
    pub model: Option<String>,
    /// New settings, which replace all others.
    pub settings: Option<Map<String, Value>>,
}

/// Selects sessions, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Only sessions with this directory.
    pub directory: Option<String>,
    /// Only tasks of this session; without it, only sessions that are not tasks.
    pub parent: Option<SessionId>,
    /// Include tasks.
    pub all: bool,
    /// Start after this session, the last one of the previous page.
    pub after: Option<SessionId>,
    /// Maximum number of sessions.
    pub most: Option<u64>,
}

/// Selects messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageRequest {
    /// Start after this message; without it, at an end.
    pub from: Option<MessageId>,
    /// Oldest first instead of newest first.
    pub oldest_first: bool,
    /// Maximum number of messages; 0 means 100.
    pub most: u64,
}

/// A page of messages, in the requested order.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Page {
    /// The messages.
    pub messages: Vec<plimsoll::Message>,
    /// Start of the next page, if there is one.
    pub next: Option<MessageId>,
}

/// A compaction as the store records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompactionRecord {
    /// The marker message.
    pub marker: MessageId,
    /// The summary message; the marker itself if that contains the summary.
    pub summary: MessageId,
    /// The first message that is kept verbatim, if any.
    pub tail: Option<MessageId>,
    /// Number of messages that the summary replaces.
    pub messages: Option<u64>,
    /// Tokens of these messages.
    pub tokens: Option<u64>,
    /// Time of the compaction.
    pub created: Millis,
    /// Time at which it was undone.
    pub set_aside: Option<Millis>,
}

/// A record that differs from what was written, or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Damage {
    /// The record: ``part `prt_…` of message `msg_…` ``.
    pub what: String,
    /// Description of the damage.
    pub why: String,
    /// Id of the part, if the record is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

impl Damage {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Damage {
        Damage { what: what.into(), why: why.into(), part: None }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged: {}", self.what, self.why)
    }
}

/// Lost writes: the database is older than the newest acknowledged change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// Time at which it was found.
    pub at: Millis,
    /// Newest change that was acknowledged.
    pub expected: u64,
    /// Newest change that exists.
    pub found: u64,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loss { expected, found, .. } = self;
        let changes = match expected - found {
            1 => format!("change {expected} is missing"),
            _ => format!("changes {} to {expected} are missing", found + 1),
        };
        write!(
            f,
            "the database is older than what had been acknowledged: {changes}. Its write-ahead log (`-wal`) was lost, or an \
             older copy was put in its place"
        )
    }
}

/// Result of a check of the whole store.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Findings {
    /// Number of sessions checked.
    pub sessions: u64,
    /// Number of messages checked.
    pub messages: u64,
    /// Number of parts checked.
    pub parts: u64,
    /// Number of spills checked.
    pub spills: u64,
    /// Parts that are readable but have no checksum: a version without checksums wrote them. A checksum that is added
    /// later would vouch for whatever happened to them since.
    pub unverified: u64,
    /// Problems, as text; empty if there are none.
    pub problems: Vec<String>,
    /// Calls without a result in sessions that no process runs, as text. They are not damage: an interrupted session
    /// has them until it runs again.
    pub open_calls: Vec<String>,
}

impl Findings {
    /// Returns the problems and the open calls.
    pub fn into_all(self) -> Vec<String> {
        let Findings { mut problems, open_calls, .. } = self;
        problems.extend(open_calls);
        problems
    }
}
