//! Requests to providers, message by message, and what has no place in one.

use plimsoll::{Message, PartBody, Window};
use serde_json::{Map, Value};

use super::{Lost, anthropic, openai};
use crate::format::Format;
use crate::recorded::Recorded;
use crate::transcript::SessionInfo;

/// The fields before the messages.
pub(super) fn head(format: Format, info: &SessionInfo, window: &Window) -> Map<String, Value> {
    let mut head = Map::new();
    if let Some(model) = &info.model {
        head.insert("model".into(), model.as_str().into());
    }
    if format == Format::AnthropicMessages {
        anthropic::head(window, &mut head);
    }
    head
}

/// Hands out the messages of a request.
pub(super) fn each(format: Format, window: &Window, sink: &mut dyn FnMut(Value)) {
    match format {
        Format::AnthropicMessages => anthropic::each(window, sink),
        _ => openai::each(window, sink),
    }
}

/// What a request has no place for, counted in the messages of a session.
pub(super) struct RequestCounts {
    thoughts: usize,
    summaries: usize,
    usage: usize,
    failed: usize,
    /// Thoughts that found a place: Anthropic's have one if they are signed.
    written: usize,
}

impl RequestCounts {
    pub(super) fn of(messages: &[Message]) -> RequestCounts {
        let count = |is: &dyn Fn(&Message) -> bool| messages.iter().filter(|message| is(message)).count();
        let parts = messages.iter().flat_map(|message| &message.parts);
        RequestCounts {
            thoughts: parts.filter(|part| matches!(part.body, PartBody::Reasoning(_))).count(),
            summaries: count(&|message| message.info.summary),
            usage: count(&has_usage),
            failed: count(&has_failed),
            written: 0,
        }
    }

    /// A message of the request.
    pub(super) fn see_written(&mut self, message: &Value) {
        let blocks = message["content"].as_array().into_iter().flatten();
        self.written += blocks.filter(|block| anthropic::is_thought(block)).count();
    }

    pub(super) fn lost(&self) -> Vec<Lost> {
        let lost = [
            Lost::new(self.thoughts.saturating_sub(self.written), "thought", "thoughts"),
            Lost::new(self.summaries, "summary", "summaries"),
            Lost::new(self.usage, "record of usage", "records of usage"),
            Lost::new(self.failed, "failed answer", "failed answers"),
        ];
        lost.into_iter().flatten().collect()
    }
}

/// Whether something was counted for it.
fn has_usage(message: &Message) -> bool {
    let mut recorded = Recorded::default();
    recorded.add_message(message);
    !recorded.is_empty()
}

/// Whether it is an answer that failed after it had said something. No request repeats it.
fn has_failed(message: &Message) -> bool {
    let name = message.info.error.as_ref().map(|error| error["name"].as_str().unwrap_or_default());
    name.is_some_and(|name| name != "MessageAbortedError") && !message.parts.is_empty()
}
