//! An answer as it streams: each block becomes a part of the log as it arrives.

use plimsoll::log::{Extra, MessageUpdate, ReasoningPart, flatten_deep};
use plimsoll::window::PROVIDER_BLOCK;
use plimsoll::{
    AnswerEvent, Info, Input, Message, MessageId, Millis, Part, PartBody, PartId, Role, ToolState, Usage,
};
use plimsoll_tokens::{Measure, Observed};
use serde_json::Value;

use super::{Driver, PendingCall};
use crate::error::SessionError;

/// Longest time in milliseconds that text waits to be stored while an answer streams. It is stored at once when its
/// part ends.
pub const FLUSH_AFTER: Millis = Millis(50);

/// Recorded for an answer whose writer was dropped.
pub(crate) const INTERRUPTED: &str = "Interrupted: the run was given up.";

/// How an answer that did not finish ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AnswerEnd {
    /// The answer was broken off. What the model had written stays in view.
    Aborted(String),
    /// The answer failed, and is left out of the window.
    Failed {
        /// The kind of error, such as `APIError`.
        name: String,
        /// The error message, without secrets.
        message: String,
    },
}

/// Writes an answer as it streams. Dropping it without an end records the answer as interrupted.
///
/// A host on a single thread that waits for its stream calls [`flush_due`](AnswerWriter::flush_due) periodically.
#[derive(Debug)]
#[must_use = "dropping the writer ends the answer as interrupted"]
pub struct AnswerWriter<'d> {
    driver: &'d mut Driver,
    message: MessageId,
}

impl<'d> AnswerWriter<'d> {
    pub(super) fn begin(
        driver: &'d mut Driver,
        agent: Option<&str>,
    ) -> Result<AnswerWriter<'d>, SessionError> {
        let message = driver.begin_answer(agent)?;
        Ok(AnswerWriter { driver, message })
    }

    /// Returns the id of the answer.
    pub fn message(&self) -> &MessageId {
        &self.message
    }

    /// Writes an event. Text waits up to [`FLUSH_AFTER`] to be stored together with what follows; everything else is
    /// stored when this returns. Returns the part that the event began or ended, if any.
    pub fn write(&mut self, event: AnswerEvent) -> Result<Option<PartId>, SessionError> {
        self.driver.write_event(event)
    }

    /// Stores text that has waited for [`FLUSH_AFTER`] or longer.
    pub fn flush_due(&mut self) -> Result<(), SessionError> {
        self.driver.flush_due()
    }

    /// Completes the answer, after [`AnswerEvent::Finished`] was written.
    pub fn finish(self) -> Result<FinishedAnswer, SessionError> {
        self.driver.finish_answer()
    }

    /// Ends the answer before it is complete. What was written stays in view, and its calls are recorded as not run.
    pub fn abort(self, why: &str) -> Result<Message, SessionError> {
        self.driver.break_answer(AnswerEnd::Aborted(why.to_owned()))
    }

    /// Ends the answer as failed, which leaves it out of the window. `name` is the kind of error, such as `APIError`;
    /// `message` must not contain secrets.
    pub fn fail(self, name: &str, message: &str) -> Result<Message, SessionError> {
        self.driver.break_answer(AnswerEnd::Failed { name: name.to_owned(), message: message.to_owned() })
    }
}

impl Drop for AnswerWriter<'_> {
    fn drop(&mut self) {
        // An error has no caller to report it to; the next operation of the turn tries again.
        let _ = self.driver.settle_answer();
    }
}

/// An answer that is complete.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FinishedAnswer {
    /// The stored answer.
    pub message: Message,
    /// Why the model stopped, in the provider's words.
    pub reason: String,
    /// Usage of the response, if the provider reported any.
    pub usage: Option<Usage>,
    /// The calls of the answer, oldest first. Each has to be answered before the next request.
    pub calls: Vec<PendingCall>,
    /// Result of calibrating the counter with the answer's usage.
    pub observed: Option<Observed>,
}

/// The answer that is being written.
pub(crate) struct Writing {
    message: MessageId,
    /// The part that grows, if one does.
    part: Option<Growing>,
    /// Text that is not stored yet, and since when it has waited.
    pending: String,
    waiting_since: Option<Millis>,
    /// Newest usage that was reported while it streamed.
    counted: Option<Usage>,
    /// Why the model stopped, and the final usage.
    finished: Option<(String, Option<Usage>)>,
    /// Measure of the request.
    sent: Option<Measure>,
}

struct Growing {
    id: PartId,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Call,
}

impl Driver {
    pub(crate) fn begin_answer(&mut self, agent: Option<&str>) -> Result<MessageId, SessionError> {
        self.settle_answer()?;
        let now = self.now();
        let asked =
            self.log.iter().rev().find(|message| message.is_user()).map(|message| message.info.id.clone());
        let begun = Message::begun(self.ids.message(now), now).asked_here();
        let mut extra = begun.info.extra.clone();
        extra.extend(
            self.settings.model.provider.clone().map(|provider| ("providerID".to_owned(), provider.into())),
        );
        let info = Info {
            parent_id: asked,
            agent: agent.map(str::to_owned),
            mode: agent.map(str::to_owned),
            model_id: Some(self.settings.model.name.clone()),
            session_id: Some(self.session().clone()),
            role: Some(Role::Assistant),
            extra,
            ..begun.info.into_inner()
        };
        let message =
            self.append_now(Message { info: info.into(), parts: begun.parts, ..Message::default() })?;
        let sent = self.note_sent();
        self.writing = Some(Writing {
            message: message.clone(),
            part: None,
            pending: String::new(),
            waiting_since: None,
            counted: None,
            finished: None,
            sent,
        });
        Ok(message)
    }

    pub(crate) fn write_event(&mut self, event: AnswerEvent) -> Result<Option<PartId>, SessionError> {
        if self.writing()?.finished.is_some() {
            return Err(SessionError::OutOfOrder("the answer is finished; nothing more can be written"));
        }
        match event {
            AnswerEvent::Text(delta) => self.grow(Kind::Text, delta),
            AnswerEvent::Thinking(delta) => self.grow(Kind::Thinking, delta),
            AnswerEvent::CallInput(delta) => {
                self.require(Kind::Call, "the input of a call came before the call")?;
                self.grow(Kind::Call, delta)
            }
            AnswerEvent::CallBegin { call, tool } => {
                self.end_part()?;
                let now = self.now();
                let state = ToolState { input: None, ..ToolState::pending(Value::Null) };
                let part = Part::tool(self.ids.part(now), call, tool, state);
                self.begin_part(part, Kind::Call).map(Some)
            }
            AnswerEvent::CallReady(input) => {
                let id = self.require(Kind::Call, "the input of a call came before the call")?;
                self.flush()?;
                self.advance_call(&id, |state| {
                    state.input = Some(Input::from(input));
                    // The parsed input replaces the raw text.
                    state.extra.shift_remove("raw");
                })?;
                self.close_part();
                Ok(Some(id))
            }
            AnswerEvent::Signature(metadata) => {
                self.flush()?;
                let id = match self.require(Kind::Thinking, "") {
                    Ok(id) => id,
                    // Reasoning of which the provider returns only the signature.
                    Err(_) => {
                        self.end_part()?;
                        let now = self.now();
                        let thought = PartBody::Reasoning(ReasoningPart { text: "".into() });
                        let part = Part::new(self.ids.part(now), thought);
                        self.begin_part(part, Kind::Thinking)?
                    }
                };
                let mut part = self.log.part(&id)?.clone();
                part.extra.insert("metadata".into(), flatten_deep(metadata));
                self.advance(part)?;
                Ok(Some(id))
            }
            AnswerEvent::Block(value) => {
                self.end_part()?;
                let now = self.now();
                let (message, id) = (self.writing()?.message.clone(), self.ids.part(now));
                let mut extra = Extra::default();
                extra.insert("type".into(), PROVIDER_BLOCK.into());
                extra.insert("block".into(), flatten_deep(value));
                let part = Part { extra, ..Part::new(id.clone(), PartBody::Other(PROVIDER_BLOCK.into())) };
                self.append_part(&message, part)?;
                Ok(Some(id))
            }
            AnswerEvent::PartEnd => self.end_part(),
            AnswerEvent::Usage(usage) => {
                self.flush()?;
                let cost = self.settings.model.cost(&usage);
                let update = MessageUpdate { usage: Some(usage.clone()), cost, ..MessageUpdate::default() };
                self.record(update)?;
                self.writing()?.counted = Some(usage);
                Ok(None)
            }
            AnswerEvent::Finished { reason, usage } => {
                self.writing()?.finished = Some((reason, usage));
                Ok(None)
            }
        }
    }

    pub(crate) fn finish_answer(&mut self) -> Result<FinishedAnswer, SessionError> {
        let writing = self.writing()?;
        let Some((reason, usage)) = writing.finished.clone() else {
            return Err(SessionError::OutOfOrder("the answer ended without `AnswerEvent::Finished`"));
        };
        let usage = usage.or_else(|| writing.counted.clone());
        self.end_part()?;
        let cost = usage.as_ref().and_then(|usage| self.settings.model.cost(usage));
        let (finish, recorded) = (Some(reason.clone()), usage.clone());
        let message =
            self.end_answer(MessageUpdate { finish, usage: recorded, cost, ..MessageUpdate::default() })?;
        if usage.is_some() {
            self.reduced = None;
        }
        let sent = self.writing.take().and_then(|writing| writing.sent);
        let observed = usage.as_ref().zip(sent).and_then(|(usage, sent)| self.observe(sent, usage));
        let calls = message.parts.iter().filter_map(PendingCall::of_open).collect();
        Ok(FinishedAnswer { message, reason, usage, calls, observed })
    }

    /// Ends the answer before it is complete. Its calls are settled: no tool will run them.
    pub(crate) fn break_answer(&mut self, end: AnswerEnd) -> Result<Message, SessionError> {
        self.end_part()?;
        self.settle_calls()?;
        let message = self.end_answer(match end {
            AnswerEnd::Aborted(why) => MessageUpdate::aborted(&why),
            AnswerEnd::Failed { name, message } => MessageUpdate::failed(&name, &message),
        })?;
        self.writing = None;
        Ok(message)
    }

    fn end_answer(&mut self, update: MessageUpdate) -> Result<Message, SessionError> {
        self.record(update)?;
        let message = self.writing()?.message.clone();
        Ok(self.log[self.log.place(&message)?].clone())
    }

    /// Learns from the usage of a response. The counter may count differently afterwards.
    pub(super) fn observe(&mut self, sent: Measure, usage: &Usage) -> Option<Observed> {
        self.overhead.set(None);
        self.meter.observe(sent, usage)
    }

    /// Ends an answer whose writer is gone.
    pub(crate) fn settle_answer(&mut self) -> Result<(), SessionError> {
        match self.writing.is_some() {
            true => self.break_answer(AnswerEnd::Aborted(INTERRUPTED.to_owned())).map(drop),
            false => Ok(()),
        }
    }

    /// Settles what an interrupted turn has left: its answer is ended, its compaction is cancelled, and its open calls
    /// are recorded as failed. Hosts call this before a new turn.
    pub fn settle(&mut self, why: &str) -> Result<(), SessionError> {
        if self.writing.is_some() {
            self.break_answer(AnswerEnd::Aborted(why.to_owned()))?;
        }
        self.climb = None;
        let open: Vec<PartId> = self.open_calls().into_iter().map(|call| call.part).collect();
        self.fail_calls(&open, why)
    }

    /// Whether the newest answer was broken off in its text, so that the next request would end with half an answer.
    pub fn is_broken_off(&self) -> bool {
        let is_of_turn = |message: &&Message| message.info.role != Some(Role::System);
        let newest = self.log.iter().rev().find(is_of_turn);
        newest.is_some_and(|message| {
            message.is_assistant()
                && !message.info.summary
                && (message.info.error.is_some() || message.info.finish.is_none())
                && !message.parts.iter().any(|part| part.as_tool().is_some())
        })
    }

    /// Returns the answer that ended the newest turn: one that is complete and calls nothing. `None` if the turn is not
    /// over.
    pub fn final_answer(&self) -> Option<&Message> {
        // A pivot replaces what came before it, and is not a turn.
        let is_of_turn = |message: &&Message| {
            message.info.role != Some(Role::System)
                && message.marker().is_none()
                && !message.info.summary
                && !message.is_notice()
        };
        let newest = self.log.iter().rev().find(is_of_turn)?;
        let is_over = newest.is_assistant()
            && newest.info.error.is_none()
            // A provider that paused a long turn of server-side tools expects another request.
            && newest.info.finish.as_deref().is_some_and(|finish| finish != "pause_turn")
            && !newest.parts.iter().any(|part| part.as_tool().is_some());
        is_over.then_some(newest)
    }

    fn settle_calls(&mut self) -> Result<(), SessionError> {
        let message = self.writing()?.message.clone();
        let parts = &self.log[self.log.place(&message)?].parts;
        let open = |part: &&Part| part.as_tool().is_some_and(|tool| !tool.state.status.is_final());
        let open: Vec<PartId> = parts.iter().filter(open).map(|part| part.id.clone()).collect();
        self.fail_calls(&open, BROKEN_OFF)
    }

    pub(crate) fn flush_due(&mut self) -> Result<(), SessionError> {
        let now = self.now();
        let waiting = self.writing.as_ref().and_then(|writing| writing.waiting_since);
        if waiting.is_some_and(|since| now.0.saturating_sub(since.0) >= FLUSH_AFTER.0) {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Stores the text that waits.
    pub(crate) fn flush(&mut self) -> Result<(), SessionError> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        let Some(part) = writing.part.as_ref().filter(|_| !writing.pending.is_empty()) else { return Ok(()) };
        let (id, more) = (part.id.clone(), std::mem::take(&mut writing.pending));
        writing.waiting_since = None;
        let (now, from) = (self.now(), self.written(&id)?);
        let stored = self.store(|store, claim| store.extend(claim, &id, from, &more, now));
        if let Err(error) = stored {
            // Put back: the next flush stores it.
            if let Some(writing) = &mut self.writing {
                (writing.pending, writing.waiting_since) = (more, Some(now));
            }
            return Err(error);
        }
        Ok(self.log.extend(&id, &more)?)
    }

    /// How many bytes of a growing part are stored.
    fn written(&self, part: &PartId) -> Result<u64, SessionError> {
        let length = match &self.log.part(part)?.body {
            PartBody::Text(said) => said.text.len(),
            PartBody::Reasoning(thought) => thought.text.len(),
            PartBody::Tool(tool) => tool.state.extra.get("raw").and_then(Value::as_str).map_or(0, str::len),
            _ => 0,
        };
        Ok(length as u64)
    }

    fn grow(&mut self, kind: Kind, delta: String) -> Result<Option<PartId>, SessionError> {
        let grows = self.writing()?.part.as_ref().is_some_and(|part| part.kind == kind);
        if grows {
            let now = self.now();
            let writing = self.writing()?;
            writing.pending.push_str(&delta);
            writing.waiting_since.get_or_insert(now);
            self.flush_due()?;
            return Ok(None);
        }
        if delta.is_empty() {
            return Ok(None);
        }
        self.end_part()?;
        let now = self.now();
        let id = self.ids.part(now);
        let part = match kind {
            Kind::Thinking => Part::new(id, PartBody::Reasoning(ReasoningPart { text: delta.into() })),
            Kind::Text | Kind::Call => Part::text(id, delta),
        };
        self.begin_part(part, kind).map(Some)
    }

    fn begin_part(&mut self, part: Part, kind: Kind) -> Result<PartId, SessionError> {
        let (message, id) = (self.writing()?.message.clone(), part.id.clone());
        self.append_part(&message, part)?;
        self.writing()?.part = Some(Growing { id: id.clone(), kind });
        Ok(id)
    }

    fn end_part(&mut self) -> Result<Option<PartId>, SessionError> {
        self.flush()?;
        Ok(self.close_part())
    }

    fn close_part(&mut self) -> Option<PartId> {
        self.writing.as_mut().and_then(|writing| writing.part.take()).map(|part| part.id)
    }

    /// Returns the part that is being written; an error if it is of another kind.
    fn require(&mut self, kind: Kind, why: &'static str) -> Result<PartId, SessionError> {
        let part = self.writing()?.part.as_ref().filter(|part| part.kind == kind);
        part.map(|part| part.id.clone()).ok_or(SessionError::OutOfOrder(why))
    }

    fn writing(&mut self) -> Result<&mut Writing, SessionError> {
        self.writing.as_mut().ok_or(SessionError::OutOfOrder("no answer is being written"))
    }

    fn record(&mut self, update: MessageUpdate) -> Result<(), SessionError> {
        let (message, now) = (self.writing()?.message.clone(), self.now());
        self.store(|store, claim| store.record(claim, &message, update.clone(), now))?;
        Ok(self.log.record(&message, update, now)?)
    }

    /// Changes the state of a call.
    pub(super) fn advance_call(
        &mut self,
        id: &PartId,
        change: impl FnOnce(&mut ToolState),
    ) -> Result<(), SessionError> {
        let part = self.changed_call(id, change)?;
        self.advance(part)
    }

    /// Returns a call with another state, without storing it.
    pub(super) fn changed_call(
        &self,
        id: &PartId,
        change: impl FnOnce(&mut ToolState),
    ) -> Result<Part, SessionError> {
        let mut part = self.log.part(id)?.clone();
        match &mut part.body {
            PartBody::Tool(tool) => change(&mut tool.state),
            _ => return Err(SessionError::NotACall(id.clone())),
        }
        Ok(part)
    }

    /// Returns the calls of the newest answer that are not answered, oldest first.
    pub fn open_calls(&self) -> Vec<PendingCall> {
        let newest = self.log.iter().rev().find(|message| message.is_assistant());
        let parts = newest.into_iter().flat_map(|message| &message.parts);
        parts.filter_map(PendingCall::of_open).collect()
    }
}

/// Result of a call whose answer ended before the tool could run.
const BROKEN_OFF: &str = "Not run: the answer was broken off before it was finished.";
