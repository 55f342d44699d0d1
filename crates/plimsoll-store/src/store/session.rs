//! What a session is, besides its log.

use std::fmt;

use plimsoll::{MessageId, Millis, SessionId, Tokens, Usage};
use serde::{Deserialize, Serialize};

use super::{NewLease, NewTask, Revision};

/// A session that is to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// The session that started it as a task, if one did.
    pub parent: Option<SessionId>,
    /// What people call it.
    pub title: String,
    /// The agent that runs it.
    pub agent: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The directory the agent works in.
    pub directory: Option<String>,
    /// The tool that wrote it, for sessions that were imported, by the importer's name for it.
    pub tool: Option<String>,
    /// The version of the tool that wrote it, for sessions that were imported.
    pub version: Option<String>,
    /// The context window that this tool recorded. It says nothing about answers that are asked for here.
    pub context: Option<Tokens>,
    /// The messages it begins with, behind those it inherits; stored with it or not at all.
    pub messages: Vec<plimsoll::Message>,
    /// The record of the task that it is for; stored with it or not at all.
    pub task: Option<NewTask>,
    /// The lease that it is born with; stored with it or not at all.
    pub lease: Option<NewLease>,
}

impl NewSession {
    /// A session with nothing but an id.
    pub fn new(id: SessionId) -> NewSession {
        NewSession { id, ..NewSession::default() }
    }

    /// The context window for a database. A file may record any number, and one that is too large must not cost the
    /// import.
    pub(crate) fn context_column(&self) -> Option<u64> {
        self.context.map(|context| context.min(Totals::MOST).0)
    }
}

/// A session as the store knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The session that started it as a task.
    pub parent: Option<SessionId>,
    /// What people call it.
    pub title: String,
    /// The agent that runs it.
    pub agent: Option<String>,
    /// The model, the last one if it changed.
    pub model: Option<String>,
    /// The directory the agent works in.
    pub directory: Option<String>,
    /// The tool that wrote it, for sessions that were imported, by the importer's name for it.
    pub tool: Option<String>,
    /// The version of the tool that wrote it, for sessions that were imported.
    pub version: Option<String>,
    /// The context window that this tool recorded. It says nothing about answers that are asked for here.
    pub context: Option<Tokens>,
    /// Where it was forked from.
    pub forked_from: Option<ForkPoint>,
    /// When it began.
    pub created: Millis,
    /// When it was last written to.
    pub updated: Millis,
    /// Messages of its own; inherited ones not counted.
    pub messages: u64,
    /// What its own messages were charged for.
    pub usage: Totals,
    /// What they cost, as far as providers said.
    pub cost: f64,
    /// How often it was written to.
    pub revision: Revision,
}

impl Session {
    /// Whether this is what beginning `new` at `now`, as a fork of `parent` or on its own, has made, and nothing has
    /// happened to it since. One that was written to is not taken for the result of a repeated call: two callers who
    /// by chance begin the same session would both go on to fill it.
    pub(crate) fn was_begun_as(&self, new: &NewSession, parent: Option<&SessionId>, now: Millis) -> bool {
        let NewSession { id, parent: task_of, title, agent, model, directory, version, messages, .. } = new;
        let same = *id == self.id
            && *task_of == self.parent
            && *title == self.title
            && *agent == self.agent
            // The messages may say which model it is.
            && (*model == self.model || !messages.is_empty())
            && messages.len() as u64 == self.messages
            && *directory == self.directory
            && *version == self.version;
        same && self.forked_from.as_ref().map(|point| &point.session) == parent
            && self.created == now
            && self.revision == Revision(1)
    }
}

/// Tokens that providers counted, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Input that was not in a cache.
    pub input: Tokens,
    /// Output without thoughts.
    pub output: Tokens,
    /// Thoughts.
    pub reasoning: Tokens,
    /// Input from a cache.
    pub cache_read: Tokens,
    /// Input put into a cache.
    pub cache_write: Tokens,
}

impl Totals {
    /// The largest total: what a database has room for. Larger sums count as this.
    pub const MOST: Tokens = Tokens(i64::MAX as u64);

    /// Add what one response was counted for.
    pub fn add(&mut self, usage: &Usage) {
        self.recount(&Usage::default(), usage);
    }

    /// Count one response for `after` instead of `before`.
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

/// A place in another session's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkPoint {
    /// The session.
    pub session: SessionId,
    /// The last message that is shared; none if it was forked before its first.
    pub message: Option<MessageId>,
}

/// What is to be changed of what is said about a session. A field that is `None` stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPatch {
    /// A new title.
    pub title: Option<String>,
    /// Another agent.
    pub agent: Option<String>,
    /// Another model.
    pub model: Option<String>,
}

/// Which sessions are wanted, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Only of this directory.
    pub directory: Option<String>,
    /// Only tasks of this session; without it, all that are no tasks.
    pub parent: Option<SessionId>,
    /// Tasks too.
    pub all: bool,
    /// Only after the session of this id, which ended the page before.
    pub after: Option<SessionId>,
    /// No more than so many.
    pub most: Option<u64>,
}

/// Which messages are wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageRequest {
    /// From here on, this message not included; from an end without it.
    pub from: Option<MessageId>,
    /// Oldest first rather than newest first.
    pub oldest_first: bool,
    /// No more than so many; 0 means a hundred.
    pub most: u64,
}

/// Messages, in the order that was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The messages.
    pub messages: Vec<plimsoll::Message>,
    /// Where the next page begins, if there is one.
    pub next: Option<MessageId>,
}

/// A compaction as the store records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionRecord {
    /// The marker message.
    pub marker: MessageId,
    /// The summary message; the marker itself where it holds the summary.
    pub summary: MessageId,
    /// The first message that stays word for word, if any.
    pub tail: Option<MessageId>,
    /// How many messages the summary stands for.
    pub messages: Option<u64>,
    /// What they weighed.
    pub tokens: Option<u64>,
    /// When it was made.
    pub created: Millis,
    /// Since when it no longer counts.
    pub set_aside: Option<Millis>,
}

/// Something in a store that is not what was written, or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Damage {
    /// What it is: ``part `prt_…` of message `msg_…` ``.
    pub what: String,
    /// What is wrong with it.
    pub why: String,
    /// The part, if it is one.
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

/// A database that was found to be older than what had been acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// When it was found.
    pub at: Millis,
    /// The newest change that had been acknowledged.
    pub expected: u64,
    /// The newest change that was there.
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

/// What a check of the whole store found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// Sessions looked at.
    pub sessions: u64,
    /// Messages looked at.
    pub messages: u64,
    /// Parts looked at.
    pub parts: u64,
    /// Spills looked at.
    pub spills: u64,
    /// Parts that could be read but not held against a checksum: they were written by a version that kept none. To give them
    /// one now would vouch for whatever has become of them since.
    pub unverified: u64,
    /// What is wrong, in plain words; empty if nothing is.
    pub problems: Vec<String>,
}
