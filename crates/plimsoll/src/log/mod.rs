//! The log: a session's messages and parts, in order, append-only.
//!
//! The JSON is OpenCode's. What a reduction does to a log is never more than a mark: a `compacted` time on a
//! tool part, a cut beside a part, a `setAside` on a pivot. [`Log`] has no method that takes content away or
//! changes it, so whatever left the window can be shown again.

mod fields;
mod ids;
mod message;
mod part;
mod tool;

use std::collections::BTreeMap;
use std::ops::Deref;

use thiserror::Error;

use crate::chars::Chars;

pub use fields::{At, Note, Notes, ShapeError, whole_part};
pub use ids::{Ids, MessageId, Millis, PartId, ReceiptId, SessionId};
pub use message::{Info, Message, ReadError, Role, Time, Usage};
pub use part::{CompactionPart, Cut, FilePart, Part, PartBody, ReasoningPart, TextPart};
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

/// Why the log refused a change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LogError {
    /// A message or part without a name cannot be marked or recalled.
    #[error("a {kind} without an id cannot be appended; make one with `Ids`")]
    Nameless {
        /// `message` or `part`.
        kind: &'static str,
    },
    /// The name is taken.
    #[error("there is already a {kind} `{id}` in this log")]
    Duplicate {
        /// `message` or `part`.
        kind: &'static str,
        /// The name.
        id: String,
    },
    /// There is nothing of that name.
    #[error("there is no {kind} `{id}` in this log")]
    Missing {
        /// `message` or `part`.
        kind: &'static str,
        /// The name.
        id: String,
    },
    /// The change would rewrite what was already said.
    #[error("part `{id}` cannot change like that: {why}")]
    Rewrite {
        /// The part.
        id: PartId,
        /// What would be lost.
        why: &'static str,
    },
    /// The mark does not fit this kind of part.
    #[error("part `{id}` holds no tool result that could be cleared")]
    NotClearable {
        /// The part.
        id: PartId,
    },
}

impl Log {
    /// An empty log.
    pub fn new() -> Log {
        Log::default()
    }

    /// A log of messages that came from elsewhere.
    ///
    /// Missing and repeated ids are replaced by unique ones made from the place in the list, so that every
    /// part can be named; references follow to the nearest message before that had the id. Nothing else
    /// changes.
    pub fn from_messages(messages: impl IntoIterator<Item = Message>) -> Log {
        let mut log = Log::new();
        let mut renamed: BTreeMap<MessageId, MessageId> = BTreeMap::new();
        // Only ever counts up, so that no name is tried twice however many are taken.
        let mut fresh = 0;
        for mut message in messages {
            let at = log.messages.len();
            for reference in message.references() {
                if let Some(now) = renamed.get(reference) {
                    *reference = now.clone();
                }
            }
            let id = MessageId::new(free(message.info.id.as_str(), "msg", &mut fresh, |id| {
                log.places.contains_key(&MessageId::new(id))
            }));
            if !message.info.id.is_empty() && id != message.info.id {
                renamed.insert(message.info.id.clone(), id.clone());
            }
            message.info.id = id;
            for (index, part) in message.parts.iter_mut().enumerate() {
                part.id = PartId::new(free(part.id.as_str(), "prt", &mut fresh, |id| {
                    log.parts.contains_key(&PartId::new(id))
                }));
                log.parts.insert(part.id.clone(), (at, index));
            }
            log.places.insert(message.info.id.clone(), at);
            log.messages.push(message);
        }
        log
    }

    /// Add a message at the end.
    pub fn append(&mut self, message: Message) -> Result<(), LogError> {
        let id = &message.info.id;
        if id.is_empty() {
            return Err(LogError::Nameless { kind: "message" });
        }
        if self.places.contains_key(id) {
            return Err(LogError::Duplicate { kind: "message", id: id.to_string() });
        }
        let at = self.messages.len();
        let mut parts = BTreeMap::new();
        for (index, part) in message.parts.iter().enumerate() {
            if part.id.is_empty() {
                return Err(LogError::Nameless { kind: "part" });
            }
            if self.parts.contains_key(&part.id) || parts.insert(part.id.clone(), (at, index)).is_some() {
                return Err(LogError::Duplicate { kind: "part", id: part.id.to_string() });
            }
        }
        self.parts.extend(parts);
        self.places.insert(message.info.id.clone(), at);
        self.messages.push(message);
        Ok(())
    }

    /// Add a part to a message that is still being written.
    pub fn append_part(&mut self, message: &MessageId, part: Part) -> Result<(), LogError> {
        let at = self.place(message)?;
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

    /// Let a part go forward: text grows, a tool call starts, answers or fails. Nothing else is allowed.
    pub fn advance(&mut self, part: Part) -> Result<(), LogError> {
        let old = self.part(&part.id)?;
        let rewrite = |why| Err(LogError::Rewrite { id: part.id.clone(), why });
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
                let same = was.output == is.output
                    && was.error == is.error
                    && was.input == is.input
                    && was.attachments == is.attachments;
                if was.status.is_final() && !same {
                    return rewrite("a call that has answered keeps its input and its answer");
                }
                if old.state.status.is_final() && !new.state.status.is_final() {
                    return rewrite("a call that has answered is not asked again");
                }
            }
            (PartBody::Text(_), PartBody::Text(_)) | (PartBody::Reasoning(_), PartBody::Reasoning(_)) => {}
            _ => return rewrite("only text, reasoning and tool calls change after they were appended"),
        }
        let (cut, lifted, cleared) = (old.cut, old.lifted, old.cleared());
        let (message, index) = self.parts[&part.id];
        let mut part = Part { cut, lifted, ..part };
        part.set_cleared(cleared);
        self.messages[message].parts[index] = part;
        Ok(())
    }

    /// Say that a message is finished, and what its provider reported.
    pub fn finish(
        &mut self,
        message: &MessageId,
        finish: impl Into<String>,
        usage: Option<Usage>,
        now: Millis,
    ) -> Result<(), LogError> {
        let at = self.place(message)?;
        let info = &mut self.messages[at].info;
        info.finish = Some(finish.into());
        info.tokens = usage.or(info.tokens.take());
        info.time.get_or_insert_default().completed = Some(now);
        Ok(())
    }

    /// All messages, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The part of that name.
    pub fn part(&self, id: &PartId) -> Result<&Part, LogError> {
        match self.parts.get(id) {
            Some(&(message, part)) => Ok(&self.messages[message].parts[part]),
            None => Err(LogError::Missing { kind: "part", id: id.to_string() }),
        }
    }

    /// Where in the list the message of that name stands.
    pub fn place(&self, id: &MessageId) -> Result<usize, LogError> {
        let missing = || LogError::Missing { kind: "message", id: id.to_string() };
        self.places.get(id).copied().ok_or_else(missing)
    }

    /// Mark a tool result as cleared from the window.
    pub fn clear(&mut self, id: &PartId, now: Millis) -> Result<(), LogError> {
        self.set_cleared(id, Some(now))
    }

    /// Mark a part as cut in the window.
    pub fn cut(&mut self, id: &PartId, keep: Chars, now: Millis) -> Result<(), LogError> {
        self.part_mut(id)?.cut = Some(Cut { keep, at: now });
        Ok(())
    }

    /// Show a part in full again: lift what [`clear`](Log::clear) and [`cut`](Log::cut) marked.
    pub fn lift(&mut self, id: &PartId, now: Millis) -> Result<(), LogError> {
        let part = self.part_mut(id)?;
        part.set_cleared(None);
        part.cut = None;
        part.lifted = Some(now);
        Ok(())
    }

    pub(crate) fn set_cleared(&mut self, id: &PartId, mark: Option<Millis>) -> Result<(), LogError> {
        let part = self.part_mut(id)?;
        if part.set_cleared(mark) { Ok(()) } else { Err(LogError::NotClearable { id: id.clone() }) }
    }

    pub(crate) fn set_cut(&mut self, id: &PartId, mark: Option<Cut>) -> Result<(), LogError> {
        self.part_mut(id)?.cut = mark;
        Ok(())
    }

    /// Set a pivot aside by its marker message, or bring it back.
    pub fn set_aside(&mut self, marker: &MessageId, mark: Option<Millis>) -> Result<(), LogError> {
        let at = self.place(marker)?;
        let markers = self.messages[at].parts.iter_mut().filter_map(|part| match &mut part.body {
            PartBody::Compaction(marker) => Some(marker),
            _ => None,
        });
        let mut found = false;
        for marker in markers {
            marker.set_aside = mark;
            found = true;
        }
        let missing = || LogError::Missing { kind: "compaction marker in message", id: marker.to_string() };
        found.then_some(()).ok_or_else(missing)
    }

    pub(crate) fn part_mut(&mut self, id: &PartId) -> Result<&mut Part, LogError> {
        match self.parts.get(id) {
            Some(&(message, part)) => Ok(&mut self.messages[message].parts[part]),
            None => Err(LogError::Missing { kind: "part", id: id.to_string() }),
        }
    }
}

/// The wanted name, or if it is taken or empty, one with a number that is free.
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
