//! Writes requests to providers message by message, and counts what they cannot represent.

use plimsoll::{Message, PartBody, Window};
use serde_json::{Map, Value};

use super::{ConversionLoss, anthropic, openai};
use crate::format::Format;
use crate::recorded::Recorded;
use crate::transcript::SessionInfo;

/// Returns the fields before the messages.
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

/// Passes on the messages of a request.
pub(super) fn each(format: Format, window: &Window, sink: &mut dyn FnMut(Value)) {
    match format {
        Format::AnthropicMessages => anthropic::each(window, sink),
        _ => openai::each(window, sink),
    }
}

/// Content of a session's messages that a request cannot represent.
pub(super) struct RequestCounts {
    thoughts: usize,
    summaries: usize,
    usage: usize,
    failed: usize,
    /// Reasoning that was written: Anthropic's format allows it if it is signed.
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

    /// Counts a message of the request.
    pub(super) fn see_written(&mut self, message: &Value) {
        let blocks = message["content"].as_array().into_iter().flatten();
        self.written += blocks.filter(|block| anthropic::is_thought(block)).count();
    }

    pub(super) fn lost(&self) -> Vec<ConversionLoss> {
        let lost = [
            ConversionLoss::new(self.thoughts.saturating_sub(self.written), "thought", "thoughts"),
            ConversionLoss::new(self.summaries, "summary", "summaries"),
            ConversionLoss::new(self.usage, "record of usage", "records of usage"),
            ConversionLoss::new(self.failed, "failed answer", "failed answers"),
        ];
        lost.into_iter().flatten().collect()
    }
}

/// Whether a message has any usage.
fn has_usage(message: &Message) -> bool {
    let mut recorded = Recorded::default();
    recorded.add_message(message);
    !recorded.is_empty()
}

/// Whether an answer failed after it had some content. Requests do not repeat it.
fn has_failed(message: &Message) -> bool {
    let name = message.info.error.as_ref().map(|error| error["name"].as_str().unwrap_or_default());
    name.is_some_and(|name| name != "MessageAbortedError") && !message.parts.is_empty()
}
