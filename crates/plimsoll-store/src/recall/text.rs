//! Parts and messages as text, for recall and search.

use plimsoll::{Input, Message, Part, PartBody, Role, Text};
use serde_json::Value;

/// Suffix of the handle of a call's input.
pub(crate) const INPUT: &str = ":input";

/// Returns the long text of a part, if it has one to search.
pub(crate) fn part_text(part: &Part) -> Option<&Text> {
    match &part.body {
        PartBody::Text(text) => Some(&text.text),
        PartBody::Reasoning(reasoning) => Some(&reasoning.text),
        PartBody::Tool(tool) => tool.state.output.as_ref().or(tool.state.error.as_ref()),
        PartBody::ToolResult(result) => Some(&result.text),
        _ => None,
    }
}

/// Returns the tool of a call, if the part names it.
pub(crate) fn tool_of(part: &Part) -> Option<&str> {
    match &part.body {
        PartBody::Tool(tool) => Some(&tool.tool),
        PartBody::ToolCall(call) => Some(&call.tool),
        PartBody::ToolResult(result) => result.tool.as_deref(),
        _ => None,
    }
}

/// Returns the input of a call.
pub(crate) fn input_of(part: &Part) -> Option<&Input> {
    match &part.body {
        PartBody::Tool(tool) => tool.state.input.as_ref(),
        PartBody::ToolCall(call) => call.input.as_ref(),
        _ => None,
    }
}

/// Returns a call's input as readable text: each field on its own line, strings without quotes and escapes. A search
/// for `a "b"` finds it, and so does one for the second line of a script.
pub(crate) fn input_text(part: &Part) -> Option<String> {
    let text = match input_of(part)?.value() {
        Value::Null => String::new(),
        Value::Object(fields) => {
            let line = |(name, value): (&String, &Value)| match value {
                Value::String(text) => format!("{name}: {text}\n"),
                other => format!("{name}: {other}\n"),
            };
            fields.iter().map(line).collect()
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    (!text.is_empty()).then_some(text)
}

/// Describes a part.
pub(crate) fn describe(part: &Part) -> String {
    match &part.body {
        PartBody::Tool(tool) => format!("output of {}", tool.tool),
        PartBody::ToolCall(call) => format!("input of {}", call.tool),
        PartBody::ToolResult(result) => {
            result.tool.as_ref().map_or_else(|| "output".to_owned(), |tool| format!("output of {tool}"))
        }
        PartBody::Text(_) => "text".to_owned(),
        PartBody::Reasoning(_) => "reasoning".to_owned(),
        PartBody::Compaction(_) => "summary".to_owned(),
        PartBody::File(_) => "file".to_owned(),
        PartBody::Other(_) | PartBody::Bare(_) => "part".to_owned(),
    }
}

/// Formats a part as text.
pub(crate) fn format_part(part: &Part) -> String {
    match &part.body {
        PartBody::Tool(tool) => tool.state.result().map(|text| text.as_str().to_owned()).unwrap_or_default(),
        PartBody::Compaction(marker) => {
            marker.summary.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default()
        }
        PartBody::ToolCall(call) => {
            call.input.as_ref().map(|input| input.json().to_string()).unwrap_or_default()
        }
        _ => part_text(part).map(|text| text.as_str().to_owned()).unwrap_or_default(),
    }
}

/// Formats a message as text: role, text, and tool calls with input and output.
pub(crate) fn format_message(message: &Message) -> String {
    let role = match &message.info.role {
        Some(Role::User) => "user",
        Some(Role::Assistant) => "assistant",
        Some(Role::System) => "system",
        _ => "message",
    };
    let mut text = format!("── {role} {}\n", message.info.id);
    for part in &message.parts {
        if let PartBody::Tool(tool) = &part.body {
            let input = tool.state.input.as_ref().map(|input| input.json().to_string()).unwrap_or_default();
            text.push_str(&format!("[{}] {input}\n", tool.tool));
        }
        let said = format_part(part);
        if !said.is_empty() {
            text.push_str(said.trim_end_matches('\n'));
            text.push('\n');
        }
    }
    text
}
