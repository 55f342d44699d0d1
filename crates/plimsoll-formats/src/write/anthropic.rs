//! Writes requests to Anthropic's Messages API.
//!
//! Anthropic's API is stricter than the others: user and model alternate, results come first in the user's turn, a turn does
//! not end with reasoning, reasoning needs its signature, and called tools must be declared.

use std::collections::BTreeSet;

use plimsoll::window::{Attachment, legal_name, object_input};
use plimsoll::{Block, Window, WindowRole};
use serde_json::{Map, Value, json};

use super::IdMap;

pub(super) const ID: usize = 64;
const NAME: usize = 64;
/// Required by the API; every model allows this many.
const MAX_TOKENS: u64 = 4_096;

/// Adds the fields between the model and the messages: system messages of the host, and the called tools.
pub(super) fn head(window: &Window, request: &mut Map<String, Value>) {
    let (mut system, mut tools) = (Vec::new(), BTreeSet::new());
    let mut ids = IdMap::new(ID);
    for message in &window.messages {
        for each in &message.blocks {
            match each {
                Block::Call { tool, .. } => drop(tools.insert(legal_name(tool, NAME))),
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

/// Passes on the turns of user and model.
pub(super) fn each(window: &Window, sink: &mut dyn FnMut(Value)) {
    let mut ids = IdMap::new(ID);
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

/// Removes trailing white space of an answer that is to be continued: the API rejects it.
fn trim(turn: &mut (&str, Vec<Value>)) {
    if let ("assistant", blocks) = turn
        && let Some(Value::String(text)) = blocks.last_mut().and_then(|block| block.get_mut("text"))
    {
        text.truncate(text.trim_end().len());
    }
}

pub(super) fn block(block: &Block, ids: &mut IdMap) -> Option<Value> {
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
            json!({ "type": "tool_use", "id": ids.id(id), "name": legal_name(tool, NAME), "input": object_input(input.value()) })
        }
        Block::Result { id, text, is_error, files, .. } => {
            let mut content = vec![json!({ "type": "text", "text": text })];
            content.extend(Attachment::all(files).map(|each| file(&each)));
            let mut result = json!({ "type": "tool_result", "tool_use_id": ids.id(id), "content": content });
            if *is_error {
                result["is_error"] = true.into();
            }
            result
        }
        Block::Provider { value, .. } => value.value().get("anthropic")?.clone(),
        Block::File { mime, filename, url, .. } => file(&Attachment::new(mime, filename, url)),
    })
}

fn file(file: &Attachment<'_>) -> Value {
    let kind = match (file.is_image(), file.is_pdf()) {
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
