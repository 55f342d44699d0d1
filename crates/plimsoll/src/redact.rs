//! Redaction of messages. [`plimsoll_redact`] finds the secrets in a text; this module knows where a message has
//! text.
//!
//! A summary is the most visible message of a window and lives longest, so it is the worst place for a credential.
//! Every summary is redacted before it is stored.

use serde_json::Value;

pub use plimsoll_redact::{Found, Redacted, SecretKind, redact, services};

use crate::chars::Text;
use crate::log::{Input, Message, PartBody};

/// Replaces every secret of a known shape in text, reasoning, tool inputs and outputs. Done before a digest
/// is created, so that a cut cannot leave half a secret. Returns what was replaced.
///
/// ```
/// use plimsoll::Message;
/// use plimsoll::redact::redact_messages;
/// let mut messages = [Message::user("msg_1".into(), "prt_1".into(), "log in with PASSWORD=hunter2hunter2")];
/// assert_eq!(redact_messages(&mut messages).len(), 1);
/// assert_eq!(messages[0].text(), "log in with PASSWORD=[redacted: secret value]");
/// ```
pub fn redact_messages(messages: &mut [Message]) -> Vec<Found> {
    let mut found = Vec::new();
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        match &mut part.body {
            PartBody::Text(text) => replace(&mut text.text, &mut found),
            PartBody::Reasoning(thought) => replace(&mut thought.text, &mut found),
            PartBody::Tool(tool) => {
                let state = &mut tool.state;
                state.input.iter_mut().for_each(|input| replace_input(input, &mut found));
                state.output.iter_mut().for_each(|text| replace(text, &mut found));
                state.error.iter_mut().for_each(|text| replace(text, &mut found));
            }
            PartBody::ToolCall(call) => {
                call.input.iter_mut().for_each(|input| replace_input(input, &mut found));
            }
            PartBody::ToolResult(result) => replace(&mut result.text, &mut found),
            PartBody::File(_) | PartBody::Compaction(_) | PartBody::Other(_) | PartBody::Bare(_) => {}
        }
    }
    found
}

fn replace(text: &mut Text, found: &mut Vec<Found>) {
    let redacted = redact(text.as_str());
    if !redacted.found.is_empty() {
        *text = redacted.text.into();
        found.extend(redacted.found);
    }
}

/// Searches the input as JSON, because some secrets are recognised by the name before the value. If a replacement
/// leaves invalid JSON, as one that crosses an escape can, each text is searched separately.
fn replace_input(input: &mut Input, found: &mut Vec<Found>) {
    let redacted = redact(input.json().as_str());
    if redacted.found.is_empty() {
        return;
    }
    let value = serde_json::from_str(&redacted.text).unwrap_or_else(|_| {
        let mut value = input.value().clone();
        replace_strings(&mut value);
        value
    });
    found.extend(redacted.found);
    *input = Input::from(value);
}

fn replace_strings(value: &mut Value) {
    match value {
        Value::String(text) => *text = redact(text).text,
        Value::Array(items) => items.iter_mut().for_each(replace_strings),
        Value::Object(fields) => fields.values_mut().for_each(replace_strings),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
