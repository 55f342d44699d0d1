//! Assembles a log: messages with ids, calls with their results, compactions as pivots.
//!
//! A message is emitted as soon as nothing can change it: its response is complete, its calls have results, and a later
//! message has begun. Messages leave in order, so an incomplete one holds back all later ones. A call without a result
//! would hold back everything. If the held messages exceed a limit, the first one is therefore emitted incomplete, and
//! a late result is kept as a separate part.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use plimsoll::log::{
    CompactionPart, Extra, FilePart, Notes, ReasoningPart, TextPart, ToolPart, ToolResultPart, ToolTime,
};
use plimsoll::{
    Info, Message, MessageId, Millis, Part, PartBody, PartId, Role, SessionId, Text, ToolState, ToolStatus,
};
use serde_json::Value;

use crate::field_errors::FieldErrors;
use crate::file_text::words_of;
use crate::format::Format;
use crate::hash::{HashMap64, HashSet64, Hasher};
use crate::json::object;
use crate::restart::Restart;

/// Maximum bytes of records that may wait after an incomplete message.
///
/// Without the limit, a call that never gets a result would hold the rest of the file in memory.
pub(crate) const MAX_HELD: usize = 16 << 20;

/// Maximum records that a result without a call waits for its call. Writers that sort by time write a result before its
/// call, but only by a few records.
const MAX_EARLY: usize = 200;

/// A log that is being assembled.
pub(crate) struct Assembly<'s> {
    sink: &'s mut dyn FnMut(Message),
    /// Messages that were not emitted yet, and the number of those that were.
    held: VecDeque<PendingMessage>,
    gone: usize,
    most_held: usize,
    /// Bytes of all records after the first held message.
    behind: usize,
    /// Position and size of the current record.
    now: usize,
    until: usize,
    bytes: usize,
    hasher: Hasher,
    ids: HashSet64,
    /// Number of times a name was wanted again, so that no number is tried twice.
    again: HashMap64<u64>,
    /// Calls that wait for a result, by id, oldest first.
    calls: HashMap<String, VecDeque<(usize, usize)>>,
    /// Results that came before their calls, by the call's id: the message and the part that contain them.
    early: HashMap<String, (usize, PartId)>,
    /// The newest user message.
    turn: usize,
    /// Responses that may continue, by id.
    responses: HashMap64<usize>,
    session: Option<SessionId>,
    /// The newest emitted user message that begins a turn.
    user: Option<MessageId>,
    /// Invalid values in the current record, and the first message that the record belongs to.
    pub(crate) field_errors: FieldErrors,
    touched: Option<usize>,
    restarts: Restarts,
}

/// Positions at which reading can be resumed.
#[derive(Default)]
struct Restarts {
    /// Offset of the current record, until a message begins with it.
    offered: Option<u64>,
    /// Offset of the last record so far: records are not always read in the order of the file.
    farthest: u64,
    newest: Option<(u64, usize, MessageId, Option<MessageId>)>,
}

impl Restarts {
    fn advance(&mut self, offset: u64) {
        self.farthest = self.farthest.max(offset);
        self.newest.take_if(|newest| offset < newest.0);
    }
}

struct PendingMessage {
    message: Message,
    /// Position up to which records may add to the message.
    until: usize,
    /// Number of its calls that wait for a result.
    waiting: usize,
    bytes: usize,
    response: Option<u64>,
}

/// Result of a tool.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    pub(crate) attachments: Vec<Value>,
    pub(crate) at: Option<Millis>,
    /// Fields in addition to the output.
    pub(crate) extra: Extra,
}

/// Data of a compaction.
#[derive(Default)]
pub(crate) struct Compaction {
    pub(crate) marker: Option<String>,
    pub(crate) summary: Option<String>,
    pub(crate) at: Option<Millis>,
    pub(crate) text: String,
    pub(crate) part: CompactionPart,
}

impl<'s> Assembly<'s> {
    /// Creates a log whose messages go to `sink`. At most about `most_held` bytes wait after an incomplete message.
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
            field_errors: FieldErrors::default(),
            touched: None,
            restarts: Restarts::default(),
        }
    }

    /// Continues at a restart of an earlier reading.
    pub(crate) fn resume(&mut self, from: Option<&Restart>) {
        if let Some(Restart { place, user, session, .. }) = from {
            (self.gone, self.turn) = (*place, *place);
            (self.user, self.session) = (user.clone(), session.clone());
        }
    }

    /// Announces the record at this offset. Reading can be resumed there if a message begins with it and no other
    /// message waits for anything.
    pub(crate) fn offer_restart(&mut self, offset: u64) {
        let restarts = &mut self.restarts;
        restarts.offered = (offset >= restarts.farthest).then_some(offset);
        restarts.advance(offset);
    }

    /// Announces the record at this offset, at which reading cannot be resumed, nor at an earlier one that follows it.
    pub(crate) fn pass_restart(&mut self, offset: u64) {
        let restarts = &mut self.restarts;
        restarts.offered = None;
        restarts.advance(offset);
    }

    /// Whether reading can be resumed at this offset, and at no later one so far.
    pub(crate) fn restarts_at(&self, offset: u64) -> bool {
        self.restarts.newest.as_ref().is_some_and(|newest| newest.0 == offset)
    }

    /// Returns the last position at which reading can be resumed.
    pub(crate) fn restart(&self, format: Format) -> Option<Restart> {
        let (offset, place, message, user) = self.restarts.newest.clone()?;
        let session = self.session.clone();
        Some(Restart { format, offset, message, place, session, user, model: None, counted: None })
    }

    pub(crate) fn session(&mut self, id: Option<&str>) {
        self.session = id.map(SessionId::new);
    }

    /// Begins a record with its position, its size, and the last position at which its message may be extended. Emits
    /// messages that are complete by now, except from `open` on.
    pub(crate) fn record(&mut self, now: usize, bytes: usize, until: usize, open: Option<usize>) {
        (self.now, self.bytes, self.until) = (now, bytes, until);
        self.touched = None;
        let open = open.unwrap_or(usize::MAX);
        // The last message stays, because the next record may extend it.
        while self.held.len() > 1 {
            let first = &self.held[0];
            let complete = first.until < now && first.waiting == 0 && self.gone < open;
            if !complete && self.behind <= self.most_held {
                break;
            }
            self.emit_first(false);
        }
    }

    /// Ends a record: reports its invalid values, and keeps them with the message it belongs to.
    pub(crate) fn settle(&mut self, notes: &mut Notes) {
        if self.field_errors.is_empty() {
            return;
        }
        let message = self.touched.filter(|place| self.holds(*place));
        let extra = message.map(|place| &mut self.held[place - self.gone].message.info.extra);
        self.field_errors.report(notes, extra);
    }

    /// Begins a message and returns its index. The role may be unknown.
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
        // Derived from the position, so that reading the same file again gives the same ids.
        let wanted = id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("msg_{:06}", place + 1));
        let info = Info {
            id: MessageId::new(self.free(wanted)),
            role,
            session_id: self.session.clone(),
            ..Info::default()
        };
        self.note_restart(place, &info.id);
        let mut message = Message { info: info.into(), ..Message::default() };
        if let Some(at) = at {
            message = message.at(at);
        }
        self.held.push_back(PendingMessage {
            message,
            until: self.until,
            waiting: 0,
            bytes: 0,
            response: None,
        });
        self.charge(place);
        place
    }

    fn note_restart(&mut self, place: usize, id: &MessageId) {
        let Some(offset) = self.restarts.offered.take() else { return };
        let is_settled = |held: &PendingMessage| held.waiting == 0 && held.until < self.now;
        if self.held.iter().all(is_settled) {
            let held = self.held.iter().rev().map(|held| &held.message);
            let user = held.filter(|message| message.starts_turn()).map(|message| &message.info.id).next();
            let user = user.or(self.user.as_ref()).cloned();
            self.restarts.newest = Some((offset, place, id.clone(), user));
        }
    }

    /// Returns the name, with a number if it is taken.
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

    /// Adds the size of the current record to the first message that it belongs to.
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

    /// Whether the message can still be extended.
    pub(crate) fn holds(&self, place: usize) -> bool {
        (self.gone..self.len()).contains(&place)
    }

    /// Returns the message of a response, if it can still be extended.
    pub(crate) fn response(&self, id: &str) -> Option<usize> {
        self.responses.get(&self.hasher.hash(id)).copied().filter(|place| self.holds(*place))
    }

    /// Sets the message of a response.
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

    /// Sets the time of the last write to the message.
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

    /// Adds text, unless it is empty.
    pub(crate) fn text(&mut self, place: usize, text: impl Into<Text>) {
        self.user_text(place, text, false);
    }

    /// Adds text of the user, or of the host if it is `synthetic`.
    pub(crate) fn user_text(&mut self, place: usize, text: impl Into<Text>, synthetic: bool) {
        let text = text.into();
        if !text.is_empty() {
            let synthetic = synthetic.then_some(true);
            self.part(place, PartBody::Text(TextPart { text, synthetic, ignored: None }));
        }
    }

    /// Adds reasoning with the provider's own data.
    pub(crate) fn reasoning(&mut self, place: usize, text: impl Into<Text>, metadata: Option<Value>) {
        let text = text.into();
        if !text.is_empty() || metadata.is_some() {
            let part = self.part(place, PartBody::Reasoning(ReasoningPart { text }));
            part.extra = metadata.map(|metadata| object("metadata", metadata).into()).unwrap_or_default();
        }
    }

    pub(crate) fn file(&mut self, place: usize, file: FilePart) {
        match words_of(&file) {
            Some(words) => self.user_text(place, words, true),
            None => drop(self.part(place, PartBody::File(file))),
        }
    }

    /// Adds a tool call that waits for its result.
    pub(crate) fn call(&mut self, place: usize, id: Option<&str>, tool: &str, input: Value) {
        let held = &mut self.held[place - self.gone];
        let index = held.message.parts.len();
        held.waiting += 1;
        let call_id = id.map_or_else(
            || format!("{}.{}", held.message.info.id, index + 1).replace(['.', '~'], "_"),
            str::to_owned,
        );
        let waiting = self.calls.entry(call_id.clone()).or_default();
        // When an id is reused, calls with it from before the last user message no longer get a result.
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
            // The call was just added, so it takes the result.
            let _ = self.answer(&call, answer);
        }
    }

    /// Removes a result that came before its call from the message that kept it.
    fn take_early(&mut self, place: usize, part: &PartId) -> Option<Answer> {
        let message = &mut self.held.get_mut(place.checked_sub(self.gone)?)?.message;
        let at = message.info.time.as_ref().and_then(|time| time.created);
        let index = message.parts.iter().position(|kept| kept.id == *part)?;
        // Calls in the same message are known by their index, so only the last part may be removed. Such results are
        // the last part of a separate message.
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

    /// Returns the oldest waiting call with that id.
    fn oldest_waiting(&mut self, call: &str) -> Option<(usize, usize)> {
        let waiting = self.calls.get_mut(call)?;
        let held = self.gone..self.gone + self.held.len();
        let asked = std::iter::from_fn(|| waiting.pop_front()).find(|(place, _)| held.contains(place));
        if waiting.is_empty() {
            self.calls.remove(call);
        }
        asked
    }

    /// Adds the result to the oldest waiting call with that id. Returns the result if there is no such call.
    pub(crate) fn answer(&mut self, call: &str, answer: Answer) -> Option<Answer> {
        let Some((place, index)) = self.oldest_waiting(call) else { return Some(answer) };
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

    /// Adds the result to its call. If there is no such call, keeps the result as a part of the message that `host`
    /// creates.
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
            if !call.is_empty() && self.early.len() < MAX_EARLY {
                self.early.insert(call.to_owned(), (place, part));
                let (now, index) = (self.now, place - self.gone);
                let held = &mut self.held[index];
                held.until = held.until.max(now + MAX_EARLY);
            }
        }
    }

    /// Returns the newest waiting call of the last message.
    pub(crate) fn waiting(&self) -> Option<String> {
        self.held.back()?.message.parts.iter().rev().find_map(|part| {
            let tool = part.as_tool()?;
            (!tool.state.status.is_final()).then(|| tool.call_id.clone())
        })
    }

    /// Adds a pivot: the marker, and the summary that answers it.
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

    /// Emits the remaining messages.
    pub(crate) fn finish(mut self) {
        while !self.held.is_empty() {
            self.emit_first(self.held.len() == 1);
        }
    }

    /// Emits the first message. Empty ones are left out. An answer without a finish reason counts as finished, unless
    /// it is the last one, which may still be written.
    fn emit_first(&mut self, is_last: bool) {
        let Some(PendingMessage { mut message, response, .. }) = self.held.pop_front() else { return };
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
