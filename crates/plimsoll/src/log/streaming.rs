//! Messages while they are streamed: texts grow piece by piece, and what was unknown at first (model,
//! usage, cost, finish reason) is recorded later.
//!
//! ```
//! use plimsoll::log::MessageUpdate;
//! use plimsoll::{Log, Message, Millis, Part};
//! let (mut log, now) = (Log::new(), Millis(1_000));
//! log.append(Message::begun("msg_1".into(), now))?;
//! log.append_part(&"msg_1".into(), Part::text("prt_1".into(), ""))?;
//! for delta in ["The te", "sts pa", "ss."] {
//!     log.extend(&"prt_1".into(), delta)?; // costs what the delta costs
//! }
//! log.record(&"msg_1".into(), MessageUpdate::aborted("the user pressed escape"), now)?;
//! assert_eq!(log[0].text(), "The tests pass.");
//! assert!(log.extend(&"prt_1".into(), " Really.").is_err(), "the message is finished");
//! # Ok::<(), plimsoll::LogError>(())
//! ```

use serde_json::{Number, Value, json};

use super::{Log, LogError, Message, MessageId, Millis, PartBody, PartId, ToolStatus, Usage};
use crate::tokens::Tokens;

/// Metadata that becomes known after a message began. `None` changes nothing.
///
/// Recorded values are final: recording the same value again changes nothing, and a different one is rejected. Usage
/// and cost are running totals: they may grow until the message is finished.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageUpdate {
    /// The model that answers.
    pub model_id: Option<String>,
    /// Usage so far.
    pub usage: Option<Usage>,
    /// Cost so far.
    pub cost: Option<Number>,
    /// Why the model stopped; ends the message.
    pub finish: Option<String>,
    /// The error in OpenCode's shape; ends the message.
    pub error: Option<Value>,
}

impl MessageUpdate {
    /// Creates the update of a failed answer. `name` is the kind of error, such as `APIError`.
    pub fn failed(name: &str, message: &str) -> MessageUpdate {
        let error = json!({ "name": name, "data": { "message": message } });
        MessageUpdate { error: Some(error), ..MessageUpdate::default() }
    }

    /// Creates the update of an aborted answer. Its content so far stays in the window.
    pub fn aborted(why: &str) -> MessageUpdate {
        MessageUpdate::failed(ABORTED, why)
    }
}

/// OpenCode's name for the error of an aborted answer.
const ABORTED: &str = "MessageAbortedError";

/// OpenCode's field for the input of a call while the model still writes it.
const RAW_INPUT: &str = "raw";

impl Log {
    /// Appends to a part that is being written: to a text, to reasoning, or to the raw input of a
    /// call that has not started (`state.raw`, as in OpenCode). O(`more`), plus one copy of the
    /// text if a window shares it.
    pub fn extend(&mut self, part: &PartId, more: &str) -> Result<(), LogError> {
        let (message, index) = self
            .newest_part(part)
            .or_else(|| self.parts.get(part).copied())
            .ok_or_else(|| LogError::Missing { kind: "part", id: part.to_string() })?;
        self.require_growing(message)?;
        let rewrite = |why| Err(LogError::Rewrite { id: part.clone(), why });
        match &mut self.messages[message].parts[index].body {
            PartBody::Text(said) => said.text.push_str(more),
            PartBody::Reasoning(thought) => thought.text.push_str(more),
            PartBody::Tool(tool) if tool.state.status == ToolStatus::Pending => {
                match tool.state.extra.entry(RAW_INPUT).or_insert_with(|| Value::String(String::new())) {
                    Value::String(raw) => raw.push_str(more),
                    _ => return rewrite("its `raw` input is not a string"),
                }
            }
            PartBody::Tool(_) => return rewrite("the input of a started call cannot change"),
            _ => return rewrite("only text, reasoning and call inputs can be streamed"),
        }
        Ok(())
    }

    /// Records metadata of a message, all of it or nothing. An update with `finish` or `error`
    /// ends the message `now`.
    pub fn record(
        &mut self,
        message: &MessageId,
        update: MessageUpdate,
        now: Millis,
    ) -> Result<(), LogError> {
        let at = self.place(message)?;
        let MessageUpdate { model_id, usage, cost, finish, error } = update;
        let recorded = |what| Err(LogError::Recorded { message: message.clone(), what });
        let old = &self.messages[at];
        let (info, is_finished) = (&old.info, old.is_finished());
        if differs(&info.model_id, &model_id) {
            return recorded("model");
        }
        let grows = |old: &Usage, new: &Usage| !is_finished && includes(new, old);
        if differs_unless(&info.tokens, &usage, grows) {
            return recorded("usage");
        }
        if differs_unless(&info.cost, &cost, |old, new| !is_finished && new.as_f64() >= old.as_f64()) {
            return recorded("cost");
        }
        if differs(&info.finish, &finish) {
            return recorded("finish reason");
        }
        if differs(&info.error, &error) {
            return recorded("error");
        }
        // A message ends once. A later error would remove an answer from the window that was in it.
        let ends = finish.is_some() && info.finish.is_none() || error.is_some() && info.error.is_none();
        if ends && is_finished {
            return recorded("end");
        }
        let message = &mut self.messages[at];
        let info = &mut message.info;
        info.model_id = model_id.or(info.model_id.take());
        info.tokens = usage.or(info.tokens.take());
        info.cost = cost.or(info.cost.take());
        info.finish = finish.or(info.finish.take());
        info.error = error.or(info.error.take());
        if ends {
            info.time.get_or_insert_default().completed.get_or_insert(now);
            give_back_room(message);
        }
        Ok(())
    }

    /// Ends a message with the usage that its provider reported; the common case of
    /// [`record`](Log::record).
    pub fn finish(
        &mut self,
        message: &MessageId,
        finish: impl Into<String>,
        usage: Option<Usage>,
        now: Millis,
    ) -> Result<(), LogError> {
        let update = MessageUpdate { finish: Some(finish.into()), usage, ..MessageUpdate::default() };
        self.record(message, update, now)
    }

    /// Returns an error if the message is finished.
    pub(super) fn require_growing(&self, message: usize) -> Result<(), LogError> {
        let message = &self.messages[message];
        if message.is_finished() {
            let (message, why) = (message.info.id.clone(), "its parts grow no more");
            return Err(LogError::Finished { message, why });
        }
        Ok(())
    }

    /// Returns the place of a part if it is the newest. What streams is nearly always the newest, and
    /// comparing one id takes a quarter of the time of finding it among two thousand (see the benchmarks).
    fn newest_part(&self, part: &PartId) -> Option<(usize, usize)> {
        let message = self.messages.last()?;
        let newest = message.parts.last()?;
        (newest.id == *part).then(|| (self.messages.len() - 1, message.parts.len() - 1))
    }
}

/// Returns whether a different value was recorded before.
fn differs<T: PartialEq>(old: &Option<T>, new: &Option<T>) -> bool {
    differs_unless(old, new, |_, _| false)
}

/// Like [`differs`], unless `may` allows the new value to replace the old one.
fn differs_unless<T: PartialEq>(old: &Option<T>, new: &Option<T>, may: impl Fn(&T, &T) -> bool) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old != new && !may(old, new),
        _ => false,
    }
}

/// Returns whether a running total is at least an earlier one in every field.
fn includes(new: &Usage, old: &Usage) -> bool {
    let figures = |usage: &Usage| {
        let Usage { total, input, output, reasoning, cache_read, cache_write, .. } = usage;
        [total.unwrap_or(Tokens::ZERO), *input, *output, *reasoning, *cache_read, *cache_write]
    };
    figures(new).iter().zip(figures(old)).all(|(new, old)| *new >= old)
}

/// Frees the spare capacity of texts that grew, up to their own length.
fn give_back_room(message: &mut Message) {
    for part in &mut message.parts {
        match &mut part.body {
            PartBody::Text(said) => said.text.shrink(),
            PartBody::Reasoning(thought) => thought.text.shrink(),
            _ => {}
        }
    }
}
