//! Putting a log together: messages with ids, calls with their results, compactions as pivots.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use plimsoll::log::{CompactionPart, FilePart, ReasoningPart, TextPart, ToolResultPart};
use plimsoll::{
    Info, Message, MessageId, Millis, Part, PartBody, PartId, Role, SessionId, Text, ToolState, ToolStatus,
};
use serde_json::{Map, Value};

use crate::json::object;

/// A log being put together.
#[derive(Default)]
pub(crate) struct Assembly {
    messages: Vec<Message>,
    ids: HashSet<String>,
    /// How often a name was wanted again, so that no number is tried twice.
    again: HashMap<String, u64>,
    /// Calls by their id: the newest of each name.
    calls: HashMap<String, (usize, usize)>,
    session: Option<SessionId>,
}

/// What a tool answered.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    pub(crate) attachments: Vec<Value>,
    pub(crate) at: Option<Millis>,
    /// Goes beside the output.
    pub(crate) extra: Map<String, Value>,
}

/// What there is to know about a compaction.
#[derive(Default)]
pub(crate) struct Compaction {
    pub(crate) marker: Option<String>,
    pub(crate) summary: Option<String>,
    pub(crate) at: Option<Millis>,
    pub(crate) text: String,
    pub(crate) part: CompactionPart,
}

impl Assembly {
    pub(crate) fn session(&mut self, id: Option<&str>) {
        self.session = id.map(SessionId::new);
    }

    /// Begin a message; returns its place.
    pub(crate) fn begin(&mut self, role: Role, id: Option<String>, at: Option<Millis>) -> usize {
        let place = self.messages.len();
        let wanted = id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("msg_{:06}", place + 1));
        let mut free = wanted.clone();
        while !self.ids.insert(free.clone()) {
            let number = self.again.entry(wanted.clone()).or_insert(1);
            *number += 1;
            free = format!("{wanted}~{number}");
        }
        let info = Info {
            id: MessageId::new(free),
            role: Some(role),
            session_id: self.session.clone(),
            ..Info::default()
        };
        let mut message = Message { info, ..Message::default() };
        if let Some(at) = at {
            message = message.at(at);
        }
        self.messages.push(message);
        place
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn info(&mut self, place: usize) -> &mut Info {
        &mut self.messages[place].info
    }

    pub(crate) fn message(&self, place: usize) -> &Message {
        &self.messages[place]
    }

    /// Say when the message was last written to.
    pub(crate) fn completed(&mut self, place: usize, at: Option<Millis>) {
        if let Some(at) = at {
            self.info(place).time.get_or_insert_default().completed = Some(at);
        }
    }

    pub(crate) fn part(&mut self, place: usize, body: PartBody) -> &mut Part {
        let message = &mut self.messages[place];
        let id = PartId::new(format!("{}.{}", message.info.id, message.parts.len() + 1));
        message.parts.push(Part::new(id, body));
        let last = message.parts.len() - 1;
        &mut message.parts[last]
    }

    pub(crate) fn last_part(&mut self, place: usize) -> Option<&mut PartBody> {
        self.messages[place].parts.last_mut().map(|part| &mut part.body)
    }

    /// What was said. An empty text is no part.
    pub(crate) fn text(&mut self, place: usize, text: impl Into<Text>) {
        self.said(place, text, false);
    }

    /// What was said, by the host rather than by a person if it is `synthetic`.
    pub(crate) fn said(&mut self, place: usize, text: impl Into<Text>, synthetic: bool) {
        let text = text.into();
        if !text.is_empty() {
            let synthetic = synthetic.then_some(true);
            self.part(place, PartBody::Text(TextPart { text, synthetic, ignored: None }));
        }
    }

    /// What was thought, with the provider's own data about it.
    pub(crate) fn reasoning(&mut self, place: usize, text: impl Into<Text>, metadata: Option<Value>) {
        let text = text.into();
        if !text.is_empty() || metadata.is_some() {
            let part = self.part(place, PartBody::Reasoning(ReasoningPart { text }));
            part.extra = metadata.map(|metadata| object("metadata", metadata)).unwrap_or_default();
        }
    }

    pub(crate) fn file(&mut self, place: usize, file: FilePart) {
        self.part(place, PartBody::File(file));
    }

    /// A tool call that waits for its answer.
    pub(crate) fn call(&mut self, place: usize, id: Option<&str>, tool: &str, input: Value) {
        let index = self.messages[place].parts.len();
        let call = id.map_or_else(
            || format!("{}.{}", self.messages[place].info.id, index + 1).replace(['.', '~'], "_"),
            str::to_owned,
        );
        self.calls.insert(call.clone(), (place, index));
        let part = plimsoll::log::ToolPart {
            call_id: call,
            tool: if tool.is_empty() { "unknown".into() } else { tool.to_owned() },
            state: ToolState::pending(input),
        };
        self.part(place, PartBody::Tool(part));
    }

    /// Give the call of that id its answer. Hands the answer back if nobody waits for it.
    pub(crate) fn answer(&mut self, call: &str, answer: Answer) -> Option<Answer> {
        let Some(&(place, index)) = self.calls.get(call) else { return Some(answer) };
        let started = self.messages[place].info.time.as_ref().and_then(|time| time.created);
        let PartBody::Tool(tool) = &mut self.messages[place].parts[index].body else { return Some(answer) };
        if tool.state.status.is_final() {
            return Some(answer);
        }
        let state = &mut tool.state;
        let text = Some(Text::from(answer.text));
        if answer.is_error {
            (state.status, state.error) = (ToolStatus::Error, text);
        } else {
            (state.status, state.output) = (ToolStatus::Completed, text);
        }
        if let Some(end) = answer.at {
            state.time = plimsoll::log::ToolTime::ran(started.unwrap_or(end), end);
        }
        state.attachments = Arc::new(answer.attachments);
        state.extra = answer.extra;
        None
    }

    /// Answer a call, or if there is no such call keep the answer as a part of the message `host` makes.
    pub(crate) fn answer_or_keep(
        &mut self,
        call: &str,
        answer: Answer,
        host: impl FnOnce(&mut Assembly) -> usize,
    ) {
        if let Some(answer) = self.answer(call, answer) {
            let place = host(self);
            let mut result = ToolResultPart::new(call, answer.text);
            result.is_error = answer.is_error.then_some(true);
            self.part(place, PartBody::ToolResult(result));
        }
    }

    /// The newest call of `place` that waits for an answer.
    pub(crate) fn waiting(&self, place: usize) -> Option<String> {
        self.messages.get(place)?.parts.iter().rev().find_map(|part| {
            let tool = part.as_tool()?;
            (!tool.state.status.is_final()).then(|| tool.call_id.clone())
        })
    }

    /// A pivot: the marker, and the summary that answers it.
    pub(crate) fn compaction(&mut self, compaction: Compaction) {
        let Compaction { marker, summary, at, text, part } = compaction;
        let marker = self.begin(Role::User, marker, at);
        self.part(marker, PartBody::Compaction(part));
        let parent = self.messages[marker].info.id.clone();
        let place = self.begin(Role::Assistant, summary, at);
        self.text(place, text);
        let info = self.info(place);
        info.summary = true;
        info.mode = Some("compaction".into());
        info.finish = Some("stop".into());
        info.parent_id = Some(parent);
    }

    /// The log. A message nobody put anything into is left out; answers that the source says nothing about are
    /// finished, except a last one that may still be written.
    pub(crate) fn finish(mut self) -> Vec<Message> {
        let last = self.messages.len().saturating_sub(1);
        let mut user = None;
        for (place, message) in self.messages.iter_mut().enumerate() {
            if message.starts_turn() {
                user = Some(message.info.id.clone());
            }
            if !message.is_assistant() {
                continue;
            }
            if message.info.parent_id.is_none() {
                message.info.parent_id = user.clone();
            }
            let calls = message.parts.iter().any(|part| part.as_tool().is_some());
            if message.info.finish.is_none() && message.info.error.is_none() && (calls || place < last) {
                message.info.finish = Some(if calls { "tool-calls" } else { "stop" }.into());
            }
        }
        self.messages.retain(|message| {
            let info = &message.info;
            !message.parts.is_empty() || info.error.is_some() || info.tokens.is_some()
        });
        self.messages
    }
}
