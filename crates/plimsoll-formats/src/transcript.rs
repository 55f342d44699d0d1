//! The result of reading.

use std::collections::BTreeMap;

use plimsoll::log::Notes;
use plimsoll::{Message, Millis, Tokens};

use crate::format::Format;
use crate::recorded::Recorded;
use crate::restart::Restart;

/// A session as a tool has written it.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// Format of the source.
    pub format: Format,
    /// Metadata of the session.
    pub info: SessionInfo,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Sessions of sub-agents in the same file.
    pub side_chains: Vec<Transcript>,
    /// Unrelated, older sessions in the same file. They are not read; `unused` counts their records.
    pub other_sessions: Vec<SessionInfo>,
    /// Usage of each response in the file, including abandoned branches, turns that were rolled back, and sub-agents,
    /// because all of them were billed.
    pub recorded: Recorded,
    /// Records that were not understood, counted by kind: unknown records, broken lines, faults in the tree.
    pub skipped: BTreeMap<String, u64>,
    /// Known records without anything that the model saw: snapshots, progress, abandoned branches.
    pub unused: BTreeMap<String, u64>,
    /// Invalid values. The records that contain them were read.
    pub notes: Notes,
    /// The first line that could not be read.
    pub broken: Option<BrokenLine>,
    /// Whether the last line is truncated: the session is being written, or its writer died.
    pub torn: bool,
    /// Position to resume from when the file has grown; see [`visit_from`](crate::visit_from).
    pub restart: Option<Restart>,
}

/// Metadata of a session. Any of it can be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionInfo {
    /// Id of the session.
    pub id: Option<String>,
    /// Id of the parent, for the session of a sub-agent or task.
    pub parent: Option<String>,
    /// Title.
    pub title: Option<String>,
    /// Directory of the agent.
    pub directory: Option<String>,
    /// The model; the last one if it changed.
    pub model: Option<String>,
    /// Version of the tool.
    pub version: Option<String>,
    /// Start of the session.
    pub started: Option<Millis>,
    /// Last update.
    pub updated: Option<Millis>,
    /// Context window of the model, if it is recorded.
    pub context: Option<Tokens>,
    /// Original format of the session, if it differs from that of the source, as for an imported one in a store.
    pub tool: Option<Format>,
}

/// The conversation that a visited message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// The session itself.
    Main,
    /// The sub-agent with this index in [`Transcript::side_chains`].
    Side(usize),
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokenLine {
    /// Number of the line, counted from 1.
    pub line: u64,
    /// The problem.
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
    /// Reads a message's metadata of its session.
    pub(crate) fn note(&mut self, message: &Message) {
        let info = &message.info;
        self.note_time(info.time.as_ref().and_then(|time| time.created));
        self.note_time(info.time.as_ref().and_then(|time| time.completed));
        self.model = info.model_id.clone().or(self.model.take());
        if self.id.is_none() {
            self.id = info.session_id.as_ref().map(ToString::to_string);
        }
    }

    /// Updates start and end with the time of an event.
    pub(crate) fn note_time(&mut self, at: Option<Millis>) {
        let Some(at) = at else { return };
        self.started = Some(self.started.map_or(at, |known| known.min(at)));
        self.updated = Some(self.updated.map_or(at, |known| known.max(at)));
    }
}
