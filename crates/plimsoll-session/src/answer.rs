//! An answer of the model as it streams: each block becomes a part of the log as it arrives.

use plimsoll::log::{MessageUpdate, ReasoningPart, flatten_deep};
use plimsoll::{
    Info, Input, Message, MessageId, Millis, Part, PartBody, PartId, Role, ToolState, ToolStatus, Usage,
};
use plimsoll_tokens::Observed;
use serde_json::{Map, Number, Value};

use crate::driver::Driver;
use crate::error::SessionError;
use crate::meter::Weighed;

/// A delta that was taken is in the store after this many milliseconds at most, if [`Driver::flush_due`] is called
/// that often; at the end of a part at once.
pub const FLUSH_AFTER: Millis = Millis(50);

/// Something that a model's answer brings, in the order of the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerEvent {
    /// More words.
    Text(String),
    /// More thoughts.
    Thinking(String),
    /// What the provider needs to recognise the thought that is being written, such as its signature.
    Signature(Value),
    /// A call begins; its input follows.
    CallBegin {
        /// The provider's name for the call.
        call: String,
        /// The tool.
        tool: String,
    },
    /// More of the call's input, as it is written.
    CallInput(String),
    /// The call's input, whole.
    CallReady(Value),
    /// A block of a kind that is not known here. It is kept as it came, to be given back to the provider.
    Block(Value),
    /// The block that was being written is whole.
    PartEnd,
    /// What the provider has counted so far.
    Usage {
        /// The figures.
        usage: Usage,
        /// What it has cost, if prices are known.
        cost: Option<Number>,
    },
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerEnd {
    /// The model came to an end.
    Finished {
        /// Why it stopped, in the provider's words.
        reason: String,
        /// What the provider counted.
        usage: Option<Usage>,
        /// What it cost.
        cost: Option<Number>,
    },
    /// It was broken off on purpose. What it had said by then stays.
    Aborted(String),
    /// It failed.
    Failed {
        /// The kind of error, such as `APIError`.
        name: String,
        /// What went wrong, in plain words and without secrets.
        message: String,
    },
}

/// The answer that is being written.
pub(crate) struct Writing {
    message: MessageId,
    /// The part that grows, if one does.
    part: Option<Growing>,
    /// What was taken and is not stored yet, and since when it waits.
    pending: String,
    waiting_since: Option<Millis>,
    /// What was sent for this answer.
    sent: Option<Weighed>,
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
    /// An answer begins. `agent` names the agent that speaks, if there are several.
    pub fn begin_answer(&mut self, agent: Option<&str>) -> Result<MessageId, SessionError> {
        if self.writing.is_some() {
            return Err(SessionError::OutOfOrder("an answer is being written already; end it first"));
        }
        let now = self.now();
        let asked =
            self.log.iter().rev().find(|message| message.is_user()).map(|message| message.info.id.clone());
        let begun = Message::begun(self.ids.message(now), now).asked_here();
        let mut extra = begun.info.extra.clone();
        extra.extend(
            self.settings.provider.clone().map(|provider| ("providerID".to_owned(), provider.into())),
        );
        let info = Info {
            parent_id: asked,
            agent: agent.map(str::to_owned),
            mode: agent.map(str::to_owned),
            model_id: Some(self.settings.model.clone()),
            session_id: Some(self.session().clone()),
            role: Some(Role::Assistant),
            extra,
            ..begun.info
        };
        let message = self.append(Message { info, parts: begun.parts, ..Message::default() })?;
        let sent = self.note_sent();
        self.writing = Some(Writing {
            message: message.clone(),
            part: None,
            pending: String::new(),
            waiting_since: None,
            sent,
        });
        Ok(message)
    }

    /// Take what the model's answer brings. Words and thoughts may wait up to [`FLUSH_AFTER`] to be stored together;
    /// everything else is stored when this returns. Gives the part that the event began or ended, if it did.
    pub fn write(&mut self, event: AnswerEvent) -> Result<Option<PartId>, SessionError> {
        match event {
            AnswerEvent::Text(delta) => self.grow(Kind::Text, delta),
            AnswerEvent::Thinking(delta) => self.grow(Kind::Thinking, delta),
            AnswerEvent::CallInput(delta) => {
                self.require(Kind::Call, "a call's input came before its call")?;
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
                let id = self.require(Kind::Call, "a call's input came before its call")?;
                self.flush()?;
                self.advance_call(&id, |state| {
                    state.input = Some(Input::from(input));
                    // The raw text has served: the input says the same.
                    state.extra.shift_remove("raw");
                })?;
                self.close_part();
                Ok(Some(id))
            }
            AnswerEvent::Signature(metadata) => {
                self.flush()?;
                let id = match self.require(Kind::Thinking, "") {
                    Ok(id) => id,
                    // A thought of which the provider shows only the signature.
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
                let mut extra = Map::new();
                extra.insert("type".into(), BLOCK.into());
                extra.insert("block".into(), flatten_deep(value));
                let part = Part { extra, ..Part::new(id.clone(), PartBody::Other(BLOCK.into())) };
                self.append_part(&message, part)?;
                Ok(Some(id))
            }
            AnswerEvent::PartEnd => self.end_part(),
            AnswerEvent::Usage { usage, cost } => {
                self.flush()?;
                let update = MessageUpdate { usage: Some(usage), cost, ..MessageUpdate::default() };
                self.record(update)?;
                Ok(None)
            }
        }
    }

    /// The answer is over. Calls of an answer that did not come to its end are settled: no tool will run them. Gives
    /// what the usage taught about the model's way of counting.
    pub fn end_answer(&mut self, end: AnswerEnd) -> Result<Option<Observed>, SessionError> {
        self.end_part()?;
        if !matches!(end, AnswerEnd::Finished { .. }) {
            self.settle_calls()?;
        }
        let usage = match &end {
            AnswerEnd::Finished { usage, .. } => usage.clone(),
            _ => None,
        };
        let update = match end {
            AnswerEnd::Finished { reason, usage, cost } => {
                MessageUpdate { finish: Some(reason), usage, cost, ..MessageUpdate::default() }
            }
            AnswerEnd::Aborted(why) => MessageUpdate::aborted(&why),
            AnswerEnd::Failed { name, message } => MessageUpdate::failed(&name, &message),
        };
        self.record(update)?;
        if usage.is_some() {
            self.reduced = None;
        }
        let sent = self.writing.take().and_then(|writing| writing.sent);
        Ok(usage.zip(sent).and_then(|(usage, sent)| self.meter.observe(sent, &usage)))
    }

    /// Settle what an earlier run has left: an answer that is being written is broken off, and calls that wait for a
    /// result get none. Hosts call this before a new turn, so that a turn that was given up halfway does no harm.
    pub fn settle(&mut self, why: &str) -> Result<(), SessionError> {
        if self.writing.is_some() {
            self.end_answer(AnswerEnd::Aborted(why.to_owned()))?;
        }
        self.give_up_climb();
        let open: Vec<PartId> = self.open_calls().iter().map(|part| part.id.clone()).collect();
        self.fail_calls(&open, why)
    }

    /// Whether the newest answer was broken off in its words, so that a request made now would end with half an answer.
    pub fn is_broken_off(&self) -> bool {
        let is_told = |message: &&Message| message.info.role != Some(Role::System);
        let newest = self.log.iter().rev().find(is_told);
        newest.is_some_and(|message| {
            message.is_assistant()
                && !message.info.summary
                && (message.info.error.is_some() || message.info.finish.is_none())
                && !message.parts.iter().any(|part| part.as_tool().is_some())
        })
    }

    /// The model's last word, if the newest turn has come to its end: an answer that is whole and calls nothing. A request
    /// made now would end with it.
    pub fn last_word(&self) -> Option<&Message> {
        // A pivot stands for what was said before it, and is no turn of its own.
        let is_told = |message: &&Message| {
            message.info.role != Some(Role::System)
                && message.marker().is_none()
                && !message.info.summary
                && !message.is_notice()
        };
        let newest = self.log.iter().rev().find(is_told)?;
        let is_over = newest.is_assistant()
            && newest.info.error.is_none()
            // A provider that paused a long turn of its own tools wants to be asked again.
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

    /// Store what has waited for [`FLUSH_AFTER`] or longer. A host calls this from a timer while it waits for more.
    pub fn flush_due(&mut self) -> Result<(), SessionError> {
        let now = self.now();
        let waiting = self.writing.as_ref().and_then(|writing| writing.waiting_since);
        if waiting.is_some_and(|since| now.0.saturating_sub(since.0) >= FLUSH_AFTER.0) {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Store whatever was taken.
    pub fn flush(&mut self) -> Result<(), SessionError> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        let Some(part) = writing.part.as_ref().filter(|_| !writing.pending.is_empty()) else { return Ok(()) };
        let (id, more) = (part.id.clone(), std::mem::take(&mut writing.pending));
        writing.waiting_since = None;
        let (now, from) = (self.now(), self.written(&id)?);
        let stored = self.store(|store, claim| store.extend(claim, &id, from, &more, now));
        if let Err(error) = stored {
            // Nothing taken is lost to the next try.
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

    /// The part that is being written, which must be of that kind.
    fn require(&mut self, kind: Kind, why: &'static str) -> Result<PartId, SessionError> {
        let part = self.writing()?.part.as_ref().filter(|part| part.kind == kind);
        part.map(|part| part.id.clone()).ok_or(SessionError::OutOfOrder(why))
    }

    fn writing(&mut self) -> Result<&mut Writing, SessionError> {
        self.writing.as_mut().ok_or(SessionError::OutOfOrder("no answer is being written; begin one first"))
    }

    fn record(&mut self, update: MessageUpdate) -> Result<(), SessionError> {
        let (message, now) = (self.writing()?.message.clone(), self.now());
        self.store(|store, claim| store.record(claim, &message, update.clone(), now))?;
        Ok(self.log.record(&message, update, now)?)
    }

    /// Change the state of a call.
    pub(crate) fn advance_call(
        &mut self,
        id: &PartId,
        change: impl FnOnce(&mut ToolState),
    ) -> Result<(), SessionError> {
        let part = self.changed_call(id, change)?;
        self.advance(part)
    }

    /// A call with another state, not stored.
    pub(crate) fn changed_call(
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

    /// The calls of the newest answer that wait to be run, oldest first.
    pub fn open_calls(&self) -> Vec<&Part> {
        let newest = self.log.iter().rev().find(|message| message.is_assistant());
        let waits = |part: &&Part| {
            part.as_tool()
                .is_some_and(|tool| matches!(tool.state.status, ToolStatus::Pending | ToolStatus::Running))
        };
        newest.map(|message| message.parts.iter().filter(waits).collect()).unwrap_or_default()
    }
}

/// Says of a call that its answer ended before the call could be run.
const BROKEN_OFF: &str = "Not run: the answer was broken off before it was finished.";

/// The kind of a part that holds a provider's block as it came.
pub const BLOCK: &str = plimsoll::window::PROVIDER_BLOCK;
