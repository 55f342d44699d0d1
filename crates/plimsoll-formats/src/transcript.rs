//! What a reader returns.

use std::collections::BTreeMap;

use plimsoll::log::Notes;
use plimsoll::{Message, Millis, Tokens};

use crate::format::Format;
use crate::recorded::Recorded;
use crate::restart::Restart;

/// A session as some tool wrote it down.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// What it was read from.
    pub format: Format,
    /// What the file says about the session.
    pub info: SessionInfo,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Sessions of sub-agents that stand in the same file.
    pub side_chains: Vec<Transcript>,
    /// Sessions that stand in the same file and have nothing to do with this one, which is the newest. They are not
    /// read; `unused` counts their records.
    pub other_sessions: Vec<SessionInfo>,
    /// What providers counted for each response in the file, also for those on branches that were left behind, in
    /// turns that were taken back, and of sub-agents: all of them were paid for.
    pub recorded: Recorded,
    /// What was not understood, by kind: unknown records, broken lines, faults in the tree.
    pub skipped: BTreeMap<String, u64>,
    /// Records that are known and hold nothing a model was shown: snapshots, progress, branches left behind.
    pub unused: BTreeMap<String, u64>,
    /// Values that are not what they should be; what they stand in was read all the same.
    pub notes: Notes,
    /// The first line that could not be read, if any.
    pub broken: Option<BrokenLine>,
    /// The last line was cut off: the session is being written, or its writer died.
    pub torn: bool,
    /// Where reading can be taken up again when the file has grown; see [`visit_from`](crate::visit_from).
    pub restart: Option<Restart>,
}

/// What a file says about its session. All of it can be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionInfo {
    /// The session's id.
    pub id: Option<String>,
    /// The id of the session that it works for, for the session of a sub-agent or task.
    pub parent: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// The directory the agent worked in.
    pub directory: Option<String>,
    /// The model, the last one if it changed.
    pub model: Option<String>,
    /// The version of the tool that wrote it.
    pub version: Option<String>,
    /// When it began.
    pub started: Option<Millis>,
    /// When it was last written to.
    pub updated: Option<Millis>,
    /// The model's context window, where the file records one.
    pub context: Option<Tokens>,
    /// What the session was recorded in first, if that is not what it is read from now, as for one in a store.
    pub tool: Option<Format>,
}

/// Which conversation of a file a visited message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// The session itself.
    Main,
    /// The sub-agent of this place in [`Transcript::side_chains`].
    Side(usize),
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLine {
    /// Its number, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: String,
}

impl Transcript {
    pub(crate) fn new(format: Format) -> Transcript {
        Transcript {
            format,
            info: SessionInfo::default(),
            messages: Vec::new(),
            side_chains: Vec::new(),
            other_sessions: Vec::new(),
            recorded: Recorded::default(),
            skipped: BTreeMap::new(),
            unused: BTreeMap::new(),
            notes: Notes::default(),
            broken: None,
            torn: false,
            restart: None,
        }
    }

    pub(crate) fn skip(&mut self, kind: impl Into<String>) {
        *self.skipped.entry(kind.into()).or_default() += 1;
    }

    pub(crate) fn pass(&mut self, kind: impl Into<String>) {
        *self.unused.entry(kind.into()).or_default() += 1;
    }
}

impl SessionInfo {
    /// Take note of what a message says about its session.
    pub(crate) fn note(&mut self, message: &Message) {
        let info = &message.info;
        self.seen(info.time.as_ref().and_then(|time| time.created));
        self.seen(info.time.as_ref().and_then(|time| time.completed));
        self.model = info.model_id.clone().or(self.model.take());
        if self.id.is_none() {
            self.id = info.session_id.as_ref().map(ToString::to_string);
        }
    }

    /// Take note of a time something happened at.
    pub(crate) fn seen(&mut self, at: Option<Millis>) {
        let Some(at) = at else { return };
        self.started = Some(self.started.map_or(at, |known| known.min(at)));
        self.updated = Some(self.updated.map_or(at, |known| known.max(at)));
    }
}
