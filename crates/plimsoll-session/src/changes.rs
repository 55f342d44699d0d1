//! Changes of files by calls: recorded in the log before they are made, and read back from it.
//!
//! The record of a change is in the part of its call, under `metadata.plimsoll` of its state, so that a log is one
//! value that can be exported. The old content of the file is in the archive, under a handle that is derived from the
//! whole record. A record without such content is ignored: an imported log cannot claim changes that were never made
//! here.

use std::collections::HashSet;

use plimsoll::log::ToolState;
use plimsoll::{Message, MessageId, Millis, Part, PartBody, PartId, SessionId};
use plimsoll_store::{Archive, KEPT_PREFIX, PageRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::SessionError;

/// Number of messages that are read at a time.
const PAGE: u64 = 200;
/// Length of the excerpt of a prompt that identifies a turn, in characters.
const PROMPT: usize = 120;

/// A change of a file, recorded before it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileChange {
    /// The file, absolute and with links resolved.
    pub path: String,
    /// The blake3 hash of the old content, in hex; `None` if the file did not exist.
    pub before: Option<String>,
    /// The hash of the new content; `None` if the file is removed.
    pub after: Option<String>,
    /// Old Unix permissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Directories that are created for it, outermost first.
    // Existing sessions have this name, and the handle of the old content is a hash of the whole record.
    #[serde(rename = "folders", default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<String>,
}

impl FileChange {
    /// Returns the handle of the old content, for the part that records the change.
    pub fn handle(&self, part: &PartId) -> String {
        // Hashed as JSON: joined strings of two different records could be the same bytes.
        let said = json!([part.as_str(), self]).to_string();
        let hash = blake3::hash(said.as_bytes()).to_hex();
        format!("{KEPT_PREFIX}{}", &hash.as_str()[..32])
    }
}

/// Record of a revert, in the notice that announces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RevertRecord {
    /// Files are restored to their state before this turn.
    pub turn: usize,
    /// The notice of an earlier revert that this one undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<MessageId>,
    /// Whether it completed.
    #[serde(default)]
    pub is_done: bool,
    /// Changes of the record.
    pub files: Vec<FileChange>,
}

/// Effect of a call or a revert on the disk.
#[derive(Clone, Debug, PartialEq)]
pub struct CallTrace {
    /// The session whose log records it.
    pub session: SessionId,
    /// The call's part, or that of the notice.
    pub part: PartId,
    /// The turn it belongs to.
    pub turn: usize,
    /// When it began, according to the log.
    pub at: Millis,
    /// The effect.
    pub op: FileOp,
}

/// A kind of effect on the disk.
#[derive(Clone, Debug, PartialEq)]
pub enum FileOp {
    /// A file was changed, or was about to be.
    Changed(FileChange),
    /// A call whose effects are unknown.
    Unknown {
        /// The tool.
        tool: String,
        /// Input, in one line.
        input: String,
    },
    /// Files were restored.
    Reverted {
        /// The notice.
        message: MessageId,
        /// Record of the change.
        record: RevertRecord,
    },
}

/// A turn of a session.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TurnHead {
    /// First words of the prompt.
    pub prompt: String,
    /// Time of the prompt.
    pub asked: Millis,
}

/// Effects of all turns of a session on the disk.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ChangeHistory {
    /// The session.
    pub session: SessionId,
    /// Turns by their number, which counts prompts from 1; 0 is everything before the first.
    pub turns: Vec<TurnHead>,
    /// Effects of calls and reverts, oldest first.
    pub traces: Vec<CallTrace>,
}

/// Names of tools whose effects on the disk are fully known.
#[derive(Clone, Copy, Debug)]
pub struct KnownTools<'a> {
    /// Tools that change no files.
    pub traceless: &'a [&'a str],
    /// Tools that record each change of a file. If a call of such a tool has no record, another program made it.
    pub recording: &'a [&'a str],
}

impl KnownTools<'_> {
    /// Whether the effects of a call are unknown.
    fn is_unknown(&self, tool: &str, state: &ToolState) -> bool {
        let ours = ours(&state.extra);
        let is_recorded =
            || ours.is_some_and(|ours| ["files", "seen"].iter().any(|field| ours.get(*field).is_some()));
        if self.traceless.contains(&tool) || !was_run(state) {
            return false;
        }
        !self.recording.contains(&tool) || (state.status == plimsoll::ToolStatus::Completed && !is_recorded())
    }
}

impl ChangeHistory {
    /// Reads the history from the log of a session.
    pub fn read(
        archive: &Archive,
        session: &SessionId,
        tools: KnownTools<'_>,
    ) -> Result<ChangeHistory, SessionError> {
        let mut history = ChangeHistory { session: session.clone(), ..ChangeHistory::default() };
        let mut from = None;
        loop {
            let request = PageRequest { from: from.take(), oldest_first: true, most: PAGE };
            let messages = archive.store().page(session, &request)?.messages;
            let Some(last) = messages.last() else { return Ok(history) };
            from = Some(last.info.id.clone());
            messages.iter().for_each(|message| history.add(message, tools));
        }
    }

    fn add(&mut self, message: &Message, tools: KnownTools<'_>) {
        if self.turns.is_empty() {
            self.turns.push(TurnHead::default());
        }
        let created = message.info.time.as_ref().and_then(|time| time.created).unwrap_or_default();
        if begins_turn(message) {
            let prompt = message.text().split_whitespace().collect::<Vec<_>>().join(" ");
            let prompt = prompt.chars().take(PROMPT).collect();
            self.turns.push(TurnHead { prompt, asked: created });
        }
        let turn = self.turns.len() - 1;
        for part in &message.parts {
            let mut push = |at, op| {
                let (session, part) = (self.session.clone(), part.id.clone());
                self.traces.push(CallTrace { session, part, turn, at, op });
            };
            match &part.body {
                PartBody::Tool(call) => {
                    let at = call.state.time.start.unwrap_or(created);
                    let changes = ours(&call.state.extra).and_then(|ours| ours.get("files"));
                    let changes: Vec<FileChange> = changes.and_then(read).unwrap_or_default();
                    // Recorded changes are the whole effect of the call, even if its tool failed half way.
                    if changes.is_empty() && tools.is_unknown(&call.tool, &call.state) {
                        push(at, FileOp::Unknown { tool: call.tool.clone(), input: line_of(&call.state) });
                    }
                    changes.into_iter().for_each(|change| push(at, FileOp::Changed(change)));
                }
                PartBody::Text(_) if message.is_notice() => {
                    let record = ours(&part.extra).and_then(|ours| ours.get("revert")).and_then(read);
                    if let Some(record) = record {
                        push(created, FileOp::Reverted { message: message.info.id.clone(), record });
                    }
                }
                _ => {}
            }
        }
    }

    /// Merges the history of another session, oldest first, by time. Calls of one session keep the order of their log
    /// even if its times go backwards because the clock was set back.
    pub fn merge(&mut self, others: Vec<CallTrace>) {
        let mut merged = Vec::with_capacity(self.traces.len() + others.len());
        let mut others = others.into_iter().peekable();
        for own in std::mem::take(&mut self.traces) {
            // Not a sort by time: that would reorder the calls of one session if its clock was set back.
            while let Some(earlier) = others.next_if(|other| other.at < own.at) {
                merged.push(earlier);
            }
            merged.push(own);
        }
        merged.extend(others);
        self.traces = merged;
    }

    /// Returns the newest turn that has changed files and was not reverted since.
    pub fn newest_changed(&self) -> Option<usize> {
        let undone = self.undone();
        // Everything from this turn on was reverted by a later revert.
        let mut reverted_from = usize::MAX;
        let mut newest = None;
        for trace in self.traces.iter().rev() {
            match &trace.op {
                FileOp::Reverted { message, record }
                    if trace.session == self.session
                        && record.is_done
                        && record.undoes.is_none()
                        && !undone.contains(message) =>
                {
                    // `min`: reverts can go back by different distances, and the furthest one counts.
                    reverted_from = reverted_from.min(record.turn);
                }
                // Changes of other sessions are merged by time, so the newest turn is not always met first.
                FileOp::Changed(_) if trace.turn < reverted_from => newest = newest.max(Some(trace.turn)),
                _ => {}
            }
        }
        newest
    }

    /// Returns the newest revert of this session that was not undone.
    pub fn newest_revert(&self) -> Option<(&MessageId, &RevertRecord)> {
        let undone = self.undone();
        let mut reverts = self.reverts().rev();
        reverts.find(|(message, record)| record.undoes.is_none() && !undone.contains(*message))
    }

    fn undone(&self) -> HashSet<&MessageId> {
        self.reverts()
            .filter(|(_, record)| record.is_done)
            .filter_map(|(_, record)| record.undoes.as_ref())
            .collect()
    }

    fn reverts(&self) -> impl DoubleEndedIterator<Item = (&MessageId, &RevertRecord)> {
        self.traces.iter().filter(|trace| trace.session == self.session).filter_map(|trace| match &trace.op {
            FileOp::Reverted { message, record } => Some((message, record)),
            _ => None,
        })
    }
}

/// Key under `metadata` of a part with the ids of the inbox notes that the message reports.
pub const NOTES_KEY: &str = "notes";

/// Returns whether a message begins a turn, which only prompts of the user do. Reports of tasks have the role `user`
/// too, but belong to the turn that waits for them.
pub fn begins_turn(message: &Message) -> bool {
    message.is_question() && !reports_notes(message)
}

fn reports_notes(message: &Message) -> bool {
    let reports =
        |part: &Part| part.extra.get("metadata").is_some_and(|about| about.get(NOTES_KEY).is_some());
    message.parts.iter().any(reports)
}

/// Returns our own metadata, under `metadata.plimsoll`.
fn ours(extra: &Map<String, Value>) -> Option<&Value> {
    extra.get("metadata")?.get("plimsoll")
}

/// Returns a field under `metadata.plimsoll`, created if it does not exist.
pub(crate) fn own_field<'a>(extra: &'a mut Map<String, Value>, field: &str) -> &'a mut Value {
    let metadata = extra.entry("metadata").or_insert_with(|| json!({}));
    // An imported log may hold anything here; indexing a string would panic.
    if !metadata.is_object() {
        *metadata = json!({});
    }
    let ours = &mut metadata["plimsoll"];
    if !ours.is_object() {
        *ours = json!({});
    }
    &mut ours[field]
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

/// Whether the tool ran. A pending call has not run yet.
fn was_run(state: &ToolState) -> bool {
    let was_refused = ours(&state.extra).and_then(|ours| ours.get("notRun")?.as_bool()) == Some(true);
    state.status != plimsoll::ToolStatus::Pending && !was_refused
}

/// Returns the input of a call in one line; for a shell, its command.
fn line_of(state: &ToolState) -> String {
    let input = state.input.as_ref().map(|input| input.value());
    let command = input.and_then(|input| input.get("command")?.as_str());
    let line = match (command, input) {
        (Some(command), _) => command.to_owned(),
        (None, Some(input)) => input.to_string(),
        (None, None) => String::new(),
    };
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Files that calls have shown the model or written, in order: the path and the hash of the content. The hash is `None`
/// for a file that was reverted since, which the model has not seen.
pub fn seen_files(log: &[Message]) -> impl Iterator<Item = (String, Option<String>)> + '_ {
    log.iter().flat_map(|message| &message.parts).flat_map(|part| {
        let mut found: Vec<(String, Option<String>)> = Vec::new();
        match &part.body {
            PartBody::Tool(call) if call.state.status == plimsoll::ToolStatus::Completed => {
                let ours = ours(&call.state.extra);
                let seen = ours.and_then(|ours| ours.get("seen")?.as_object()).into_iter().flatten();
                found.extend(seen.map(|(path, hash)| (path.clone(), hash.as_str().map(str::to_owned))));
                let changes: Vec<FileChange> =
                    ours.and_then(|ours| read(ours.get("files")?)).unwrap_or_default();
                found.extend(changes.into_iter().map(|change| (change.path, change.after)));
            }
            PartBody::Text(_) => {
                let record: Option<RevertRecord> =
                    ours(&part.extra).and_then(|ours| read(ours.get("revert")?));
                let files = record.into_iter().flat_map(|record| record.files);
                found.extend(files.map(|change| (change.path, None)));
            }
            _ => {}
        }
        found
    })
}
