//! Putting a log together: messages with ids, calls with their results, compactions as pivots.
//!
//! A message is handed on as soon as nothing can change it any more: its response is complete, its calls are
//! answered, and another message has begun behind it. Only those that still wait are held, with all behind them,
//! because messages leave in their order. A call that nobody answers would hold everything; so when what is held
//! behind a message exceeds a limit, it goes as it is, and an answer that comes yet is kept on its own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use plimsoll::log::{
    CompactionPart, FilePart, Notes, ReasoningPart, TextPart, ToolPart, ToolResultPart, ToolTime,
};
use plimsoll::{
    Info, Message, MessageId, Millis, Part, PartBody, PartId, Role, SessionId, Text, ToolState, ToolStatus,
};
use serde_json::{Map, Value};

use crate::file_text::words_of;
use crate::format::Format;
use crate::hash::{HashMap64, HashSet64, Hasher};
use crate::json::object;
use crate::misfits::Misfits;
use crate::restart::Restart;

/// How many bytes of records may wait behind a message that is not complete.
pub(crate) const MOST_HELD: usize = 16 << 20;

/// How many records an answer that nothing asked for waits for its call. Writers that sort by time write a result
/// before the record of its call, but only by a few.
const MOST_EARLY: usize = 200;

/// A log being put together.
pub(crate) struct Assembly<'s> {
    sink: &'s mut dyn FnMut(Message),
    /// The messages that were not handed on yet, and how many were.
    held: VecDeque<Held>,
    gone: usize,
    most_held: usize,
    /// Bytes of all records behind the first message that is held.
    behind: usize,
    /// The position and the size of the record that is being read.
    now: usize,
    until: usize,
    bytes: usize,
    hasher: Hasher,
    ids: HashSet64,
    /// How often a name was wanted again, so that no number is tried twice.
    again: HashMap64<u64>,
    /// Calls that wait, by their id, oldest first.
    calls: HashMap<String, VecDeque<(usize, usize)>>,
    /// Answers that came before their calls, by the call's id: the message and the part that keep them.
    early: HashMap<String, (usize, PartId)>,
    /// The newest message of a user.
    turn: usize,
    /// Responses that may go on, by their id.
    responses: HashMap64<usize>,
    session: Option<SessionId>,
    /// The newest turn of the user that was handed on.
    user: Option<MessageId>,
    /// What in the record that is being read is not what it should be, and the first message the record goes into.
    pub(crate) misfits: Misfits,
    touched: Option<usize>,
    restarts: Restarts,
}

/// Where reading can be taken up again.
#[derive(Default)]
struct Restarts {
    /// The record that is being read, until a message begins with it.
    offered: Option<u64>,
    /// The farthest record so far: records are not always read in the order of the file.
    farthest: u64,
    newest: Option<(u64, usize, MessageId, Option<MessageId>)>,
}

impl Restarts {
    fn see(&mut self, offset: u64) {
        self.farthest = self.farthest.max(offset);
        self.newest.take_if(|newest| offset < newest.0);
    }
}

struct Held {
    message: Message,
    /// Up to this position records may add to it.
    until: usize,
    /// How many of its calls wait.
    waiting: usize,
    bytes: usize,
    response: Option<u64>,
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

impl<'s> Assembly<'s> {
    /// A log whose messages go to `sink`; at most about `most_held` bytes wait behind one that is not complete.
    pub(crate) fn new(sink: &'s mut dyn FnMut(Message), most_held: usize) -> Assembly<'s> {
        Assembly {
            sink,
            held: VecDeque::new(),
            gone: 0,
            most_held,
            behind: 0,
            now: 0,
            until: 0,
            bytes: 0,
            hasher: Hasher::default(),
            ids: HashSet64::default(),
            again: HashMap64::default(),
            calls: HashMap::new(),
            early: HashMap::new(),
            turn: 0,
            responses: HashMap64::default(),
            session: None,
            user: None,
            misfits: Misfits::default(),
            touched: None,
            restarts: Restarts::default(),
        }
    }

    /// Go on where an earlier reading can be taken up again.
    pub(crate) fn resume(&mut self, from: Option<&Restart>) {
        if let Some(Restart { place, user, session, .. }) = from {
            (self.gone, self.turn) = (*place, *place);
            (self.user, self.session) = (user.clone(), session.clone());
        }
    }

    /// The record at this byte is read next, and reading can be taken up with it if a message begins there while no other
    /// waits for anything.
    pub(crate) fn offer_restart(&mut self, offset: u64) {
        let restarts = &mut self.restarts;
        restarts.offered = (offset >= restarts.farthest).then_some(offset);
        restarts.see(offset);
    }

    /// The record at this byte is read next, and reading cannot be taken up with it, nor behind it if it stands before.
    pub(crate) fn pass_restart(&mut self, offset: u64) {
        let restarts = &mut self.restarts;
        restarts.offered = None;
        restarts.see(offset);
    }

    /// Where reading can be taken up again, as near to the end as possible.
    pub(crate) fn restart(&self, format: Format) -> Option<Restart> {
        let (offset, place, message, user) = self.restarts.newest.clone()?;
        let session = self.session.clone();
        Some(Restart { format, offset, message, place, session, user, model: None, counted: None })
    }

    pub(crate) fn session(&mut self, id: Option<&str>) {
        self.session = id.map(SessionId::new);
    }

    /// A record begins: its position, its size, and the last position at which its message may be added to.
    /// Messages that are complete by now are handed on, but none from `open` on.
    pub(crate) fn record(&mut self, now: usize, bytes: usize, until: usize, open: Option<usize>) {
        (self.now, self.bytes, self.until) = (now, bytes, until);
        self.touched = None;
        let open = open.unwrap_or(usize::MAX);
        while self.held.len() > 1 {
            let first = &self.held[0];
            let complete = first.until < now && first.waiting == 0 && self.gone < open;
            if !complete && self.behind <= self.most_held {
                break;
            }
            self.hand_on(false);
        }
    }

    /// A record ends: note what was not as it should be, and keep it with the message the record went into.
    pub(crate) fn settle(&mut self, notes: &mut Notes) {
        if self.misfits.is_empty() {
            return;
        }
        let message = self.touched.filter(|place| self.holds(*place));
        let extra = message.map(|place| &mut self.held[place - self.gone].message.info.extra);
        self.misfits.tell(notes, extra);
    }

    /// Begin a message; returns its place. Nobody knows who speaks in one without a role.
    pub(crate) fn begin(
        &mut self,
        role: impl Into<Option<Role>>,
        id: Option<String>,
        at: Option<Millis>,
    ) -> usize {
        let (place, role) = (self.len(), role.into());
        if role == Some(Role::User) {
            self.turn = place;
        }
        let wanted = id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("msg_{:06}", place + 1));
        let info = Info {
            id: MessageId::new(self.free(wanted)),
            role,
            session_id: self.session.clone(),
            ..Info::default()
        };
        self.note_restart(place, &info.id);
        let mut message = Message { info, ..Message::default() };
        if let Some(at) = at {
            message = message.at(at);
        }
        self.held.push_back(Held { message, until: self.until, waiting: 0, bytes: 0, response: None });
        self.charge(place);
        place
    }

    fn note_restart(&mut self, place: usize, id: &MessageId) {
        let Some(offset) = self.restarts.offered.take() else { return };
        let is_settled = |held: &Held| held.waiting == 0 && held.until < self.now;
        if self.held.iter().all(is_settled) {
            let held = self.held.iter().rev().map(|held| &held.message);
            let user = held.filter(|message| message.starts_turn()).map(|message| &message.info.id).next();
            let user = user.or(self.user.as_ref()).cloned();
            self.restarts.newest = Some((offset, place, id.clone(), user));
        }
    }

    /// The name, or the name with a number if it is taken.
    fn free(&mut self, wanted: String) -> String {
        let name = self.hasher.hash(&wanted);
        if self.ids.insert(name) {
            return wanted;
        }
        loop {
            let number = self.again.entry(name).or_insert(1);
            *number += 1;
            let free = format!("{wanted}~{number}");
            if self.ids.insert(self.hasher.hash(&free)) {
                return free;
            }
        }
    }

    /// The size of the record counts for the first message it touches.
    fn charge(&mut self, place: usize) {
        self.touched.get_or_insert(place);
        let bytes = std::mem::take(&mut self.bytes);
        let (index, until) = (place - self.gone, self.until);
        let held = &mut self.held[index];
        held.bytes += bytes;
        held.until = held.until.max(until);
        self.behind += if index == 0 { 0 } else { bytes };
    }

    pub(crate) fn len(&self) -> usize {
        self.gone + self.held.len()
    }

    /// Whether the message can still be added to.
    pub(crate) fn holds(&self, place: usize) -> bool {
        (self.gone..self.len()).contains(&place)
    }

    /// The message a response goes into, if it can still be added to.
    pub(crate) fn response(&self, id: &str) -> Option<usize> {
        self.responses.get(&self.hasher.hash(id)).copied().filter(|place| self.holds(*place))
    }

    /// Remember which message a response goes into.
    pub(crate) fn set_response(&mut self, id: &str, place: usize) {
        let id = self.hasher.hash(id);
        self.responses.insert(id, place);
        self.held[place - self.gone].response = Some(id);
    }

    pub(crate) fn info(&mut self, place: usize) -> &mut Info {
        self.touched.get_or_insert(place);
        &mut self.held[place - self.gone].message.info
    }

    pub(crate) fn message(&self, place: usize) -> &Message {
        &self.held[place - self.gone].message
    }

    /// Say when the message was last written to.
    pub(crate) fn completed(&mut self, place: usize, at: Option<Millis>) {
        if let Some(at) = at {
            self.info(place).time.get_or_insert_default().completed = Some(at);
        }
    }

    pub(crate) fn part(&mut self, place: usize, body: PartBody) -> &mut Part {
        self.charge(place);
        let message = &mut self.held[place - self.gone].message;
        let id = PartId::new(format!("{}.{}", message.info.id, message.parts.len() + 1));
        message.parts.push(Part::new(id, body));
        let last = message.parts.len() - 1;
        &mut message.parts[last]
    }

    pub(crate) fn last_part(&mut self, place: usize) -> Option<&mut PartBody> {
        self.held[place - self.gone].message.parts.last_mut().map(|part| &mut part.body)
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
        match words_of(&file) {
            Some(words) => self.said(place, words, true),
            None => drop(self.part(place, PartBody::File(file))),
        }
    }

    /// A tool call that waits for its answer.
    pub(crate) fn call(&mut self, place: usize, id: Option<&str>, tool: &str, input: Value) {
        let held = &mut self.held[place - self.gone];
        let index = held.message.parts.len();
        held.waiting += 1;
        let call_id = id.map_or_else(
            || format!("{}.{}", held.message.info.id, index + 1).replace(['.', '~'], "_"),
            str::to_owned,
        );
        let waiting = self.calls.entry(call_id.clone()).or_default();
        // Nothing answers a call from before the user spoke, once its id is given again.
        let left =
            waiting.iter().take_while(|(earlier, _)| *earlier < self.turn && self.turn < place).count();
        let left: Vec<_> = waiting.drain(..left).collect();
        waiting.push_back((place, index));
        for (earlier, _) in left {
            self.answered(earlier);
        }
        let tool = if tool.is_empty() { "unknown".into() } else { tool.to_owned() };
        let early = self.early.remove(&call_id);
        let call = call_id.clone();
        self.part(place, PartBody::Tool(ToolPart { call_id, tool, state: ToolState::pending(input) }));
        if let Some(answer) = early.and_then(|(kept, part)| self.take_early(kept, &part)) {
            // It was asked for just now, so it waits.
            let _ = self.answer(&call, answer);
        }
    }

    /// Take an answer that came before its call out of the message that kept it.
    fn take_early(&mut self, place: usize, part: &PartId) -> Option<Answer> {
        let message = &mut self.held.get_mut(place.checked_sub(self.gone)?)?.message;
        let at = message.info.time.as_ref().and_then(|time| time.created);
        let index = message.parts.iter().position(|kept| kept.id == *part)?;
        // Calls in the same message are known by their index, so the last part only may go. Answers are kept in
        // messages of their own, where they are the last.
        if index + 1 != message.parts.len() {
            return None;
        }
        let PartBody::ToolResult(result) = message.parts.pop()?.body else { return None };
        let is_error = result.is_error == Some(true);
        Some(Answer { text: result.text.to_string(), is_error, at, ..Answer::default() })
    }

    fn answered(&mut self, place: usize) {
        if self.holds(place) {
            let held = &mut self.held[place - self.gone];
            held.waiting = held.waiting.saturating_sub(1);
        }
    }

    /// The oldest call of that id that waits.
    fn asked(&mut self, call: &str) -> Option<(usize, usize)> {
        let waiting = self.calls.get_mut(call)?;
        let held = self.gone..self.gone + self.held.len();
        let asked = std::iter::from_fn(|| waiting.pop_front()).find(|(place, _)| held.contains(place));
        if waiting.is_empty() {
            self.calls.remove(call);
        }
        asked
    }

    /// Give the oldest call of that id its answer. Hands the answer back if nobody waits for it.
    pub(crate) fn answer(&mut self, call: &str, answer: Answer) -> Option<Answer> {
        let Some((place, index)) = self.asked(call) else { return Some(answer) };
        self.charge(place);
        self.answered(place);
        let message = &mut self.held[place - self.gone].message;
        let started = message.info.time.as_ref().and_then(|time| time.created);
        let PartBody::Tool(tool) = &mut message.parts[index].body else { return Some(answer) };
        let state = &mut tool.state;
        let text = Some(Text::from(answer.text));
        if answer.is_error {
            (state.status, state.error) = (ToolStatus::Error, text);
        } else {
            (state.status, state.output) = (ToolStatus::Completed, text);
        }
        if let Some(end) = answer.at {
            state.time = ToolTime::ran(started.unwrap_or(end), end);
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
            let part = self.part(place, PartBody::ToolResult(result)).id.clone();
            if !call.is_empty() && self.early.len() < MOST_EARLY {
                self.early.insert(call.to_owned(), (place, part));
                let (now, index) = (self.now, place - self.gone);
                let held = &mut self.held[index];
                held.until = held.until.max(now + MOST_EARLY);
            }
        }
    }

    /// The newest call of the last message that waits for an answer.
    pub(crate) fn waiting(&self) -> Option<String> {
        self.held.back()?.message.parts.iter().rev().find_map(|part| {
            let tool = part.as_tool()?;
            (!tool.state.status.is_final()).then(|| tool.call_id.clone())
        })
    }

    /// A pivot: the marker, and the summary that answers it.
    pub(crate) fn compaction(&mut self, compaction: Compaction) {
        let Compaction { marker, summary, at, text, part } = compaction;
        let marker = self.begin(Role::User, marker, at);
        self.part(marker, PartBody::Compaction(part));
        let parent = self.message(marker).info.id.clone();
        let place = self.begin(Role::Assistant, summary, at);
        self.text(place, text);
        let info = self.info(place);
        info.summary = true;
        info.mode = Some("compaction".into());
        info.finish = Some("stop".into());
        info.parent_id = Some(parent);
    }

    /// Hand on all that is left.
    pub(crate) fn finish(mut self) {
        while !self.held.is_empty() {
            self.hand_on(self.held.len() == 1);
        }
    }

    /// Hand on the first message. One that nobody put anything into is left out; an answer that the source says
    /// nothing about is finished, except a last one that may still be written.
    fn hand_on(&mut self, is_last: bool) {
        let Some(Held { mut message, response, .. }) = self.held.pop_front() else { return };
        let place = self.gone;
        self.gone += 1;
        self.behind -= self.held.front().map_or(0, |first| first.bytes);
        if response.is_some_and(|id| self.responses.get(&id) == Some(&place)) {
            self.responses.remove(&response.unwrap_or_default());
        }
        for tool in message.parts.iter().filter_map(Part::as_tool) {
            let Some(waiting) = self.calls.get_mut(&tool.call_id) else { continue };
            while waiting.pop_front_if(|(at, _)| *at <= place).is_some() {}
            if waiting.is_empty() {
                self.calls.remove(&tool.call_id);
            }
        }
        if message.starts_turn() {
            self.user = Some(message.info.id.clone());
        }
        if message.is_assistant() {
            finished(&mut message, self.user.as_ref(), is_last);
        }
        let info = &message.info;
        let says_something = info.error.is_some() || info.tokens.is_some() || !info.extra.is_empty();
        if !message.parts.is_empty() || says_something {
            (self.sink)(message);
        }
    }
}

fn finished(message: &mut Message, user: Option<&MessageId>, is_last: bool) {
    let calls = message.parts.iter().any(|part| part.as_tool().is_some());
    let info = &mut message.info;
    if info.parent_id.is_none() {
        info.parent_id = user.cloned();
    }
    if info.finish.is_none() && info.error.is_none() && (calls || !is_last) {
        info.finish = Some(if calls { "tool-calls" } else { "stop" }.into());
    }
}
