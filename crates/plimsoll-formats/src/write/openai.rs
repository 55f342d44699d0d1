//! Writes requests to OpenAI's Chat Completions.

use plimsoll::window::{Attachment, legal_name, object_input};
use plimsoll::{Block, Window, WindowMessage, WindowRole};
use serde_json::{Value, json};

use super::IdMap;

/// Maximum length of a call's id and name.
const ID: usize = 40;
const NAME: usize = 64;

/// Passes on the messages of a request.
pub(super) fn each(window: &Window, sink: &mut dyn FnMut(Value)) {
    let mut ids = IdMap::new(ID);
    for message in &window.messages {
        match message.role {
            WindowRole::System => sink(json!({ "role": "system", "content": joined(message) })),
            WindowRole::User => sink(json!({ "role": "user", "content": user(message) })),
            WindowRole::Assistant => assistant(message, &mut ids).into_iter().for_each(&mut *sink),
            WindowRole::Tool => results(message, &mut ids, sink),
        }
    }
}

fn joined(message: &WindowMessage) -> String {
    let texts = message.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Returns a string if there is only one text, as most software expects it.
fn user(message: &WindowMessage) -> Value {
    if let [Block::Text { text, .. }] = message.blocks.as_slice() {
        return text.as_str().into();
    }
    let parts = message.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(json!({ "type": "text", "text": text })),
        Block::File { mime, filename, url, .. } => Some(file(&Attachment::new(mime, filename, url))),
        _ => None,
    });
    parts.collect()
}

fn file(file: &Attachment<'_>) -> Value {
    match file.url {
        Some(url) if file.is_image() && (file.data().is_some() || file.is_web()) => {
            json!({ "type": "image_url", "image_url": { "url": url } })
        }
        _ => json!({ "type": "text", "text": file.mention() }),
    }
}

/// The format has no reasoning. A message that consists only of it is left out.
fn assistant(message: &WindowMessage, ids: &mut IdMap) -> Option<Value> {
    let text = joined(message);
    let mut calls = Vec::new();
    for block in &message.blocks {
        if let Block::Call { id, tool, input, .. } = block {
            let arguments = object_input(input.value()).to_string();
            let function = json!({ "name": legal_name(tool, NAME), "arguments": arguments });
            calls.push(json!({ "id": ids.id(id), "type": "function", "function": function }));
        }
    }
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let content = if text.is_empty() { Value::Null } else { text.into() };
    let mut written = json!({ "role": "assistant", "content": content });
    if !calls.is_empty() {
        written["tool_calls"] = calls.into();
    }
    Some(written)
}

/// Results are texts in this format. Images that came with them follow in a user message.
fn results(message: &WindowMessage, ids: &mut IdMap, sink: &mut dyn FnMut(Value)) {
    let mut images = Vec::new();
    for block in &message.blocks {
        if let Block::Result { id, text, files, .. } = block {
            sink(json!({ "role": "tool", "tool_call_id": ids.id(id), "content": text }));
            images.extend(Attachment::all(files).map(|each| file(&each)));
        }
    }
    if !images.is_empty() {
        sink(json!({ "role": "user", "content": images }));
    }
}
