//! OpenAI's chat completions.

use plimsoll::{Block, Window, WindowMessage, WindowRole};
use serde_json::{Value, json};

use super::{File, Names, as_object, legal};

/// The longest id and name of a call that are accepted.
const ID: usize = 40;
const NAME: usize = 64;

/// Hands out the messages of a request.
pub(super) fn each(window: &Window, sink: &mut dyn FnMut(Value)) {
    let mut ids = Names::new(ID);
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

/// A string where there is but one text, as most software expects it.
fn user(message: &WindowMessage) -> Value {
    if let [Block::Text { text, .. }] = message.blocks.as_slice() {
        return text.as_str().into();
    }
    let parts = message.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(json!({ "type": "text", "text": text })),
        Block::File { mime, filename, url, .. } => Some(file(&File::new(mime, filename, url))),
        _ => None,
    });
    parts.collect()
}

fn file(file: &File) -> Value {
    match file.url {
        Some(url) if file.is_image() && (file.data().is_some() || file.is_web()) => {
            json!({ "type": "image_url", "image_url": { "url": url } })
        }
        _ => json!({ "type": "text", "text": file.mention() }),
    }
}

/// Thoughts have no place in this format. A message of nothing else is left out.
fn assistant(message: &WindowMessage, ids: &mut Names) -> Option<Value> {
    let text = joined(message);
    let mut calls = Vec::new();
    for block in &message.blocks {
        if let Block::Call { id, tool, input, .. } = block {
            let arguments = as_object(input.value()).to_string();
            let function = json!({ "name": legal(tool, NAME), "arguments": arguments });
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

/// Results are texts here; images that came with them follow in a user's message.
fn results(message: &WindowMessage, ids: &mut Names, sink: &mut dyn FnMut(Value)) {
    let mut images = Vec::new();
    for block in &message.blocks {
        if let Block::Result { id, text, files, .. } = block {
            sink(json!({ "role": "tool", "tool_call_id": ids.id(id), "content": text }));
            images.extend(File::all(files).map(|each| file(&each)));
        }
    }
    if !images.is_empty() {
        sink(json!({ "role": "user", "content": images }));
    }
}
