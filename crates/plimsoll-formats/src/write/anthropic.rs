//! Anthropic's Messages API.
//!
//! Stricter than the others: user and model take turns, results stand first in the user's turn, a turn does not
//! end on a thought, thoughts need their signature, and tools that were called have to be declared.

use std::collections::BTreeSet;

use plimsoll::{Block, Window, WindowRole};
use serde_json::{Map, Value, json};

use super::{File, Names, as_object, legal};

pub(super) const ID: usize = 64;
const NAME: usize = 64;
/// The request has to say how long the answer may get; this is what every model allows.
const MAX_TOKENS: u64 = 4_096;

/// The fields of a request between the model and the messages: what the host laid down, and the tools that were called.
pub(super) fn head(window: &Window, request: &mut Map<String, Value>) {
    let (mut system, mut tools) = (Vec::new(), BTreeSet::new());
    let mut ids = Names::new(ID);
    for message in &window.messages {
        for each in &message.blocks {
            match each {
                Block::Call { tool, .. } => drop(tools.insert(legal(tool, NAME))),
                _ if message.role == WindowRole::System => system.extend(block(each, &mut ids)),
                _ => {}
            }
        }
    }
    request.insert("max_tokens".into(), MAX_TOKENS.into());
    if !system.is_empty() {
        request.insert("system".into(), system.into());
    }
    if !tools.is_empty() {
        let declare = |name: String| json!({ "name": name, "input_schema": { "type": "object" } });
        request.insert("tools".into(), tools.into_iter().map(declare).collect());
    }
}

/// Hands out the turns of user and model.
pub(super) fn each(window: &Window, sink: &mut dyn FnMut(Value)) {
    let mut ids = Names::new(ID);
    let mut turn: Option<(&str, Vec<Value>)> = None;
    let write = |(role, content): (&str, Vec<Value>)| json!({ "role": role, "content": content });
    for message in &window.messages {
        let role = match message.role {
            WindowRole::System => continue,
            WindowRole::Assistant => "assistant",
            WindowRole::User | WindowRole::Tool => "user",
        };
        let mut blocks: Vec<Value> = message.blocks.iter().filter_map(|each| block(each, &mut ids)).collect();
        if role == "assistant" {
            while blocks.last().is_some_and(is_thought) {
                blocks.pop();
            }
        }
        match &mut turn {
            _ if blocks.is_empty() => {}
            Some((last, turn)) if *last == role => turn.append(&mut blocks),
            _ => {
                if let Some(whole) = turn.replace((role, blocks)) {
                    sink(write(whole));
                }
            }
        }
    }
    if let Some(mut last) = turn {
        trim(&mut last);
        sink(write(last));
    }
}

pub(super) fn is_thought(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

/// An answer that is to be continued must not end in white space.
fn trim(turn: &mut (&str, Vec<Value>)) {
    if let ("assistant", blocks) = turn
        && let Some(Value::String(text)) = blocks.last_mut().and_then(|block| block.get_mut("text"))
    {
        text.truncate(text.trim_end().len());
    }
}

pub(super) fn block(block: &Block, ids: &mut Names) -> Option<Value> {
    Some(match block {
        Block::Text { text, .. } => json!({ "type": "text", "text": text }),
        Block::Reasoning { text, metadata, .. } => {
            let ours = metadata.as_ref()?.get("anthropic")?;
            if let Some(data) = ours.get("redactedData") {
                return Some(json!({ "type": "redacted_thinking", "data": data }));
            }
            json!({ "type": "thinking", "thinking": text, "signature": ours.get("signature")? })
        }
        Block::Call { id, tool, input, .. } => {
            json!({ "type": "tool_use", "id": ids.id(id), "name": legal(tool, NAME), "input": as_object(input.value()) })
        }
        Block::Result { id, text, is_error, files, .. } => {
            let mut content = vec![json!({ "type": "text", "text": text })];
            content.extend(File::all(files).map(|each| file(&each)));
            let mut result = json!({ "type": "tool_result", "tool_use_id": ids.id(id), "content": content });
            if *is_error {
                result["is_error"] = true.into();
            }
            result
        }
        Block::Provider { value, .. } => value.value().get("anthropic")?.clone(),
        Block::File { mime, filename, url, .. } => file(&File::new(mime, filename, url)),
    })
}

fn file(file: &File) -> Value {
    let is_pdf = file.data().map(|(mime, _)| mime).or(file.mime) == Some("application/pdf");
    let kind = match (file.is_image(), is_pdf) {
        (true, _) => "image",
        (_, true) => "document",
        _ => return json!({ "type": "text", "text": file.mention() }),
    };
    match file.data() {
        Some((mime, data)) => {
            json!({ "type": kind, "source": { "type": "base64", "media_type": mime, "data": data } })
        }
        None if file.is_web() => json!({ "type": kind, "source": { "type": "url", "url": file.url } }),
        None => json!({ "type": "text", "text": file.mention() }),
    }
}
