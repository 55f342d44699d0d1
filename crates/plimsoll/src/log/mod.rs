//! The log: a session's messages and parts, in order, append-only.
//!
//! The JSON is OpenCode's. A reduction only ever adds marks: a `compacted` time on a
//! tool part, a cut next to a part, a `setAside` on a pivot. [`Log`] has no method that removes or
//! changes content, so everything that left the window can be shown again.

mod contract;
mod depth;
mod extra;
mod fields;
mod ids;
mod marks;
mod message;
mod part;
mod shared;
mod streaming;
mod tool;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use thiserror::Error;

pub use contract::{ContractFate, ContractItem, ContractKind};
pub use depth::flatten_deep;
pub use extra::Extra;
pub use fields::{At, Note, Notes, ShapeError, whole_part};
pub use ids::{Ids, MessageId, Millis, PartId, ReceiptId, SessionId};
pub use marks::{Cut, Effect, LogPosition, Mark, pins};
pub use message::{Info, Message, ReadError, Role, Time, Usage};
pub use part::{CompactionPart, FilePart, Part, PartBody, ReasoningPart, TextPart};
pub use shared::Shared;
pub use streaming::MessageUpdate;
pub use tool::{Input, ToolCallPart, ToolPart, ToolResultPart, ToolState, ToolStatus, ToolTime};

/// A session's messages. Content is only ever added; reductions are marks.
///
/// ```
/// use plimsoll::{Log, Message};
/// let mut log = Log::new();
/// log.append(Message::user("msg_1".into(), "prt_1".into(), "hello"))?;
/// assert!(log.append(Message::user("msg_1".into(), "prt_2".into(), "again")).is_err());
/// # Ok::<(), plimsoll::LogError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    messages: Vec<Message>,
    places: BTreeMap<MessageId, usize>,
    parts: BTreeMap<PartId, (usize, usize)>,
}

/// Reason why the log rejected a change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LogError {
    /// A message or part without an id, which could not be marked or recalled.
    #[error("a {kind} without an id cannot be appended; make one with `Ids`")]
    Nameless {
        /// `message` or `part`.
        kind: &'static str,
    },
    /// The id exists already.
    #[error("{kind} `{id}` already exists in this log")]
    Duplicate {
        /// `message` or `part`.
        kind: &'static str,
        /// The id.
        id: String,
    },
    /// The log has no message or part with that id.
    #[error("unknown {kind} `{id}`: it is not in this log")]
    Missing {
        /// `message` or `part`.
        kind: &'static str,
        /// The id.
        id: String,
    },
    /// The change would rewrite existing content.
    #[error("part `{id}` cannot change like that: {why}")]
    Rewrite {
        /// The part.
        id: PartId,
        /// The reason.
        why: &'static str,
    },
    /// The message is finished.
    #[error("message `{message}` is finished: {why}")]
    Finished {
        /// The message.
        message: MessageId,
        /// The operation that is no longer possible.
        why: &'static str,
    },
    /// A different value was recorded before.
    #[error("message `{message}` already has another {what} recorded")]
    Recorded {
        /// The message.
        message: MessageId,
        /// The field.
        what: &'static str,
    },
    /// The part has no tool result, so the mark does not apply to it.
    #[error("part `{id}` has no tool result to clear")]
    NotClearable {
        /// The part.
        id: PartId,
    },
}

impl Log {
    /// Creates an empty log.
    pub fn new() -> Log {
        Log::default()
    }

    /// Creates a log from messages of another source.
    ///
    /// Missing and repeated ids are replaced by unique ones, so that every
    /// part can be addressed. References follow to the nearest earlier message that had the id. Nothing else
    /// changes.
    pub fn from_messages(messages: impl IntoIterator<Item = Message>) -> Log {
        let mut log = Log::new();
        let mut renamed: BTreeMap<MessageId, MessageId> = BTreeMap::new();
        // Counts up only, so that no id is tried twice.
        let mut fresh = 0;
        for mut message in messages {
            let at = log.messages.len();
            // References are updated before the message gets its own new id, because they mean an earlier message.
            for reference in message.references() {
                if let Some(now) = renamed.get(reference) {
                    *reference = now.clone();
                }
            }
            if message.info.id.is_empty() || log.places.contains_key(&message.info.id) {
                let given = free(message.info.id.as_str(), "msg", &mut fresh, |id| {
                    log.places.contains_key(&MessageId::new(id))
                });
                let before = std::mem::replace(&mut message.info.id, MessageId::new(given));
                if !before.is_empty() {
                    renamed.insert(before, message.info.id.clone());
                }
            }
            for (index, part) in message.parts.iter_mut().enumerate() {
                if part.id.is_empty() || log.parts.contains_key(&part.id) {
                    part.id = PartId::new(free(part.id.as_str(), "prt", &mut fresh, |id| {
                        log.parts.contains_key(&PartId::new(id))
                    }));
                }
                log.parts.insert(part.id.clone(), (at, index));
            }
            log.places.insert(message.info.id.clone(), at);
            log.messages.push(message);
        }
        log
    }

    /// Appends a message.
    pub fn append(&mut self, message: Message) -> Result<(), LogError> {
        self.check_new(&message)?;
        let at = self.messages.len();
        let parts = message.parts.iter().enumerate().map(|(index, part)| (part.id.clone(), (at, index)));
        self.parts.extend(parts);
        self.places.insert(message.info.id.clone(), at);
        self.messages.push(message);
        Ok(())
    }

    /// Checks whether a message could be appended.
    pub(crate) fn check_new(&self, message: &Message) -> Result<(), LogError> {
        let id = &message.info.id;
        if id.is_empty() {
            return Err(LogError::Nameless { kind: "message" });
        }
        if self.places.contains_key(id) {
            return Err(LogError::Duplicate { kind: "message", id: id.to_string() });
        }
        let mut own = BTreeSet::new();
        for part in &message.parts {
            if part.id.is_empty() {
                return Err(LogError::Nameless { kind: "part" });
            }
            if self.parts.contains_key(&part.id) || !own.insert(&part.id) {
                return Err(LogError::Duplicate { kind: "part", id: part.id.to_string() });
            }
        }
        Ok(())
    }

    /// Appends a part to a message that is not finished.
    pub fn append_part(&mut self, message: &MessageId, part: Part) -> Result<(), LogError> {
        let at = self.place(message)?;
        if self.messages[at].is_finished() {
            return Err(LogError::Finished { message: message.clone(), why: "it takes no more parts" });
        }
        if part.id.is_empty() {
            return Err(LogError::Nameless { kind: "part" });
        }
        if self.parts.contains_key(&part.id) {
            return Err(LogError::Duplicate { kind: "part", id: part.id.to_string() });
        }
        self.parts.insert(part.id.clone(), (at, self.messages[at].parts.len()));
        self.messages[at].parts.push(part);
        Ok(())
    }

    /// Replaces a part by a later state of it: longer text, or a tool call that started, completed or failed.
    ///
    /// The whole text is compared with the stored one. For text that arrives in pieces use
    /// [`extend`](Log::extend), which is O(piece).
    pub fn advance(&mut self, part: Part) -> Result<(), LogError> {
        let old = self.part(&part.id)?;
        let rewrite = |why| Err(LogError::Rewrite { id: part.id.clone(), why });
        let grows = match (&old.body, &part.body) {
            (PartBody::Text(old), PartBody::Text(new)) => old.text != new.text,
            (PartBody::Reasoning(old), PartBody::Reasoning(new)) => old.text != new.text,
            _ => false,
        };
        match (&old.body, &part.body) {
            (PartBody::Text(old), PartBody::Text(new)) if !new.text.starts_with(&*old.text) => {
                return rewrite("text may only grow");
            }
            (PartBody::Reasoning(old), PartBody::Reasoning(new)) if !new.text.starts_with(&*old.text) => {
                return rewrite("reasoning may only grow");
            }
            (PartBody::Tool(old), PartBody::Tool(new)) => {
                if old.call_id != new.call_id || old.tool != new.tool {
                    return rewrite("a call keeps its id and its tool");
                }
                let (was, is) = (&old.state, &new.state);
                let same = was.status == is.status
                    && was.output == is.output
                    && was.error == is.error
                    && was.input == is.input
                    && was.attachments == is.attachments;
                if was.status.is_final() && !is.status.is_final() {
                    return rewrite("a finished call cannot run again");
                }
                if was.status.is_final() && !same {
                    return rewrite("the input and result of a finished call cannot change");
                }
            }
            (PartBody::Text(_), PartBody::Text(_)) | (PartBody::Reasoning(_), PartBody::Reasoning(_)) => {}
            _ => return rewrite("only text, reasoning and tool calls change after they were appended"),
        }
        // The caller's copy of the part may be older than a reduction, so the marks of the log stay.
        let (marks, cleared) = (old.marks.clone(), old.cleared());
        let (message, index) = self.parts[&part.id];
        if grows {
            self.require_growing(message)?;
        }
        let mut part = part;
        match &mut part.body {
            PartBody::Tool(tool) => tool.state.time.compacted = cleared,
            PartBody::ToolResult(result) => result.compacted = cleared,
            _ => {}
        }
        let part = part.with_marks(marks);
        self.messages[message].parts[index] = part;
        Ok(())
    }

    /// Returns all messages, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the part with that id.
    pub fn part(&self, id: &PartId) -> Result<&Part, LogError> {
        match self.parts.get(id) {
            Some(&(message, part)) => Ok(&self.messages[message].parts[part]),
            None => Err(LogError::Missing { kind: "part", id: id.to_string() }),
        }
    }

    /// Returns the index of the message with that id.
    pub fn place(&self, id: &MessageId) -> Result<usize, LogError> {
        let missing = || LogError::Missing { kind: "message", id: id.to_string() };
        self.places.get(id).copied().ok_or_else(missing)
    }

    /// Sets a mark on a part for a receipt.
    pub fn mark(
        &mut self,
        id: &PartId,
        effect: Effect,
        receipt: &ReceiptId,
        now: Millis,
    ) -> Result<(), LogError> {
        let set = self.moment(now);
        let part = self.part_mut(id)?;
        if !part.accepts(&effect) {
            return Err(LogError::NotClearable { id: id.clone() });
        }
        part.set_mark(Mark { receipt: Some(receipt.clone()), effect, set, lifted: None });
        Ok(())
    }

    /// Removes messages that were appended for a trial; `known` remain.
    pub(crate) fn retract(&mut self, known: usize) {
        for message in self.messages.drain(known..) {
            self.places.remove(&message.info.id);
            message.parts.iter().for_each(|part| {
                self.parts.remove(&part.id);
            });
        }
    }

    /// Removes the marks of a receipt that was never returned to a caller.
    pub(crate) fn forget_marks(&mut self, id: &PartId, receipt: &ReceiptId) -> Result<(), LogError> {
        self.part_mut(id)?.forget_marks(receipt);
        Ok(())
    }

    /// Lifts the marks of a part for which `belongs` is true, for the receipt `by`. Returns their number.
    pub(crate) fn lift(
        &mut self,
        id: &PartId,
        belongs: impl Fn(&Mark) -> bool,
        by: &ReceiptId,
        now: Millis,
    ) -> Result<usize, LogError> {
        let moment = self.moment(now);
        Ok(self.part_mut(id)?.lift_marks(belongs, &moment, by))
    }

    /// Undoes a pivot, given by its marker message.
    pub fn set_aside(&mut self, marker: &MessageId, now: Millis) -> Result<(), LogError> {
        let moment = self.moment(now);
        let at = self.place(marker)?;
        let markers = self.messages[at].parts.iter_mut().filter_map(|part| match &mut part.body {
            PartBody::Compaction(marker) => Some(marker),
            _ => None,
        });
        let mut found = false;
        for marker in markers {
            marker.set_aside = Some(moment.clone());
            found = true;
        }
        let missing = || LogError::Missing { kind: "compaction marker in message", id: marker.to_string() };
        found.then_some(()).ok_or_else(missing)
    }

    /// The current position in the order of this log.
    fn moment(&self, now: Millis) -> LogPosition {
        LogPosition { at: now, after: self.messages.last().map(|message| message.info.id.clone()) }
    }

    pub(crate) fn part_mut(&mut self, id: &PartId) -> Result<&mut Part, LogError> {
        match self.parts.get(id) {
            Some(&(message, part)) => Ok(&mut self.messages[message].parts[part]),
            None => Err(LogError::Missing { kind: "part", id: id.to_string() }),
        }
    }
}

/// Returns the wanted id, or a free one with a number if it is empty or taken.
fn free(wanted: &str, stem: &str, fresh: &mut usize, taken: impl Fn(&str) -> bool) -> String {
    let mut id = wanted.to_owned();
    let stem = if wanted.is_empty() { stem } else { wanted };
    while id.is_empty() || taken(&id) {
        id = format!("{stem}_{fresh}");
        *fresh += 1;
    }
    id
}

impl Deref for Log {
    type Target = [Message];
    fn deref(&self) -> &[Message] {
        &self.messages
    }
}
