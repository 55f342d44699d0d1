//! Converts a conversation of any wire format to one form.

use plimsoll_providers::Wire;
use serde_json::Value;

use super::captured::{CapturedMessage, CapturedPart};
use super::segments::{blocks, list};

#[derive(Debug, Default)]
pub(crate) struct Flat {
    pub(crate) system: String,
    pub(crate) tools: Vec<String>,
    pub(crate) messages: Vec<CapturedMessage>,
}

pub(crate) fn flatten(wire: Wire, body: &Value) -> Flat {
    let mut flat = Flat { tools: tool_names(body), ..Flat::default() };
    match wire {
        Wire::Anthropic => {
            flat.system = texts(&blocks(body.get("system")));
            for message in list(body, "messages") {
                let all = blocks(message.get("content"));
                let (results, others): (Vec<&Value>, Vec<&Value>) =
                    all.iter().partition(|block| string(block, "type") == "tool_result");
                flat.push("tool", results.into_iter().map(anthropic_part));
                flat.push(string(message, "role"), others.into_iter().map(anthropic_part));
            }
        }
        Wire::Chat => {
            for message in list(body, "messages") {
                flat.chat(message);
            }
        }
        Wire::Responses => {
            flat.system = body.get("instructions").and_then(Value::as_str).unwrap_or_default().to_owned();
            match body.get("input") {
                Some(Value::String(text)) => flat.push("user", [CapturedPart::Text(text.clone())]),
                _ => list(body, "input").iter().for_each(|item| flat.item(item)),
            }
        }
    }
    flat
}

impl Flat {
    fn push(&mut self, role: &str, parts: impl IntoIterator<Item = CapturedPart>) {
        let mut parts: Vec<CapturedPart> = parts.into_iter().collect();
        match self.messages.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.role == role && role != "user" => last.parts.append(&mut parts),
            _ => self.messages.push(CapturedMessage { role: role.to_owned(), parts }),
        }
    }

    fn add_system(&mut self, text: &str) {
        if !self.system.is_empty() {
            self.system.push_str("\n\n");
        }
        self.system.push_str(text);
    }

    fn chat(&mut self, message: &Value) {
        let content = blocks(message.get("content"));
        match string(message, "role") {
            "system" | "developer" => self.add_system(&texts(&content)),
            "tool" => {
                let id = string(message, "tool_call_id").to_owned();
                self.push("tool", [CapturedPart::Result { id, text: texts(&content), is_error: false }]);
            }
            role => {
                let mut parts = Vec::new();
                let thought = ["reasoning_content", "reasoning"]
                    .iter()
                    .find_map(|key| message.get(*key).and_then(Value::as_str));
                if let Some(thought) = thought {
                    parts.push(CapturedPart::Thinking { text: thought.into(), signature: String::new() });
                }
                parts.extend(content.iter().filter(|part| !is_empty_text(part)).map(content_part));
                for call in list(message, "tool_calls") {
                    let function = call.get("function").unwrap_or(&Value::Null);
                    parts.push(CapturedPart::Call {
                        id: string(call, "id").to_owned(),
                        tool: string(function, "name").to_owned(),
                        input: super::render::input(string(function, "arguments")),
                    });
                }
                self.push(role, parts);
            }
        }
    }

    fn item(&mut self, item: &Value) {
        let owned = |key: &str| string(item, key).to_owned();
        match string(item, "type") {
            "message" | "" => {
                let content = blocks(item.get("content"));
                match string(item, "role") {
                    "system" | "developer" => self.add_system(&texts(&content)),
                    role => self.push(role, content.iter().map(content_part)),
                }
            }
            "reasoning" => {
                let text = texts(list(item, "summary"));
                let signature = owned("encrypted_content");
                self.push("assistant", [CapturedPart::Thinking { text, signature }]);
            }
            "function_call" => {
                let input = super::render::input(string(item, "arguments"));
                self.push(
                    "assistant",
                    [CapturedPart::Call { id: owned("call_id"), tool: owned("name"), input }],
                );
            }
            "function_call_output" => {
                let text = match item.get("output") {
                    Some(Value::String(text)) => text.clone(),
                    output => texts(&blocks(output)),
                };
                self.push("tool", [CapturedPart::Result { id: owned("call_id"), text, is_error: false }]);
            }
            kind => {
                let (kind, value) = (kind.to_owned(), item.clone());
                self.push("assistant", [CapturedPart::Other { kind, value }]);
            }
        }
    }
}

fn tool_names(body: &Value) -> Vec<String> {
    let name = |tool: &Value| match tool.get("function") {
        Some(function) => string(function, "name").to_owned(),
        None => string(tool, "name").to_owned(),
    };
    list(body, "tools").iter().map(name).collect()
}

fn anthropic_part(block: &Value) -> CapturedPart {
    let owned = |key: &str| string(block, key).to_owned();
    match string(block, "type") {
        "thinking" => CapturedPart::Thinking { text: owned("thinking"), signature: owned("signature") },
        "redacted_thinking" => CapturedPart::Thinking { text: String::new(), signature: owned("data") },
        "tool_use" => CapturedPart::Call {
            id: owned("id"),
            tool: owned("name"),
            input: block.get("input").cloned().unwrap_or_default(),
        },
        "tool_result" => CapturedPart::Result {
            id: owned("tool_use_id"),
            text: texts(&blocks(block.get("content"))),
            is_error: block.get("is_error").and_then(Value::as_bool).unwrap_or(false),
        },
        _ => content_part(block),
    }
}

fn content_part(part: &Value) -> CapturedPart {
    match string(part, "type") {
        "text" | "input_text" | "output_text" => CapturedPart::Text(string(part, "text").to_owned()),
        kind => CapturedPart::Other { kind: kind.to_owned(), value: part.clone() },
    }
}

fn is_empty_text(part: &Value) -> bool {
    string(part, "type") == "text" && string(part, "text").is_empty()
}

fn texts(parts: &[Value]) -> String {
    let words = parts.iter().filter_map(|part| part.get("text")?.as_str());
    words.collect::<Vec<_>>().join("\n\n")
}

pub(crate) fn string<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
