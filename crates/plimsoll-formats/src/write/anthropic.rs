//! Anthropic's Messages API.
//!
//! Stricter than the others: user and model take turns, results stand first in the user's turn, a turn does not
//! end on a thought, thoughts need their signature, and tools that were called have to be declared.

use std::collections::BTreeSet;

use plimsoll::{Block, Window, WindowRole};
use serde_json::{Map, Value, json};

use super::{File, Names, as_object, legal};
use crate::transcript::SessionInfo;

pub(super) const ID: usize = 64;
const NAME: usize = 64;
/// The request has to say how long the answer may get; this is what every model allows.
const MAX_TOKENS: u64 = 4_096;

pub(super) fn write(info: &SessionInfo, window: &Window) -> Value {
    let mut ids = Names::new(ID);
    let mut system = Vec::new();
    let mut tools = BTreeSet::new();
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &window.messages {
        let mut blocks: Vec<Value> =
            message.blocks.iter().filter_map(|block| self::block(block, &mut ids, &mut tools)).collect();
        let role = match message.role {
            WindowRole::System => {
                system.append(&mut blocks);
                continue;
            }
            WindowRole::Assistant => "assistant",
            WindowRole::User | WindowRole::Tool => "user",
        };
        if role == "assistant" {
            while blocks.last().is_some_and(is_thought) {
                blocks.pop();
            }
        }
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, turn)) if *last == role => turn.append(&mut blocks),
            _ => turns.push((role, blocks)),
        }
    }
    trim(&mut turns);
    let mut request = Map::new();
    if let Some(model) = &info.model {
        request.insert("model".into(), model.as_str().into());
    }
    request.insert("max_tokens".into(), MAX_TOKENS.into());
    if !system.is_empty() {
        request.insert("system".into(), system.into());
    }
    if !tools.is_empty() {
        let declare = |name: String| json!({ "name": name, "input_schema": { "type": "object" } });
        request.insert("tools".into(), tools.into_iter().map(declare).collect());
    }
    let turns = turns.into_iter().map(|(role, content)| json!({ "role": role, "content": content }));
    request.insert("messages".into(), turns.collect());
    Value::Object(request)
}

pub(super) fn is_thought(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

/// An answer that is to be continued must not end in white space.
fn trim(turns: &mut [(&str, Vec<Value>)]) {
    if let Some(("assistant", blocks)) = turns.last_mut()
        && let Some(Value::String(text)) = blocks.last_mut().and_then(|block| block.get_mut("text"))
    {
        text.truncate(text.trim_end().len());
    }
}

pub(super) fn block(block: &Block, ids: &mut Names, tools: &mut BTreeSet<String>) -> Option<Value> {
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
            let name = legal(tool, NAME);
            tools.insert(name.clone());
            json!({ "type": "tool_use", "id": ids.id(id), "name": name, "input": as_object(input.value()) })
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
