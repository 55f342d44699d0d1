//! A session of Codex: a rollout of items, as the Responses API takes them.

use plimsoll::{Block, Window, WindowMessage, WindowRole};
use serde_json::{Value, json};

use super::{NewSession, divided};
use crate::time::rfc3339_of;
use crate::write::{File, Names, as_object, legal};

/// The version whose form is written.
const VERSION: &str = "0.166.0";
/// The longest id and name of a call that are accepted.
const ID: usize = 64;

/// The records, and how many thoughts are among them.
pub(super) fn write(session: &NewSession, window: &Window) -> (Vec<Value>, usize) {
    let now = rfc3339_of(session.now);
    let record = |kind: &str, payload: Value| json!({ "timestamp": now, "type": kind, "payload": payload });
    let (summary, messages) = divided(window);
    let mut meta = json!({ "id": session.id, "timestamp": now, "cwd": session.directory, "originator": "plimsoll",
        "cli_version": VERSION, "source": "cli" });
    session.mark(&mut meta);
    let mut records = vec![record("session_meta", meta)];
    if let Some(summary) = summary {
        let said = json!({ "type": "message", "role": "user", "content": [text("input_text", &summary)] });
        let compacted = json!({ "message": summary, "replacement_history": [said] });
        records.push(record("compacted", compacted));
    }
    if let Some(title) = session.title() {
        let named = json!({ "type": "thread_name_updated", "thread_id": session.id, "thread_name": title });
        records.push(record("event_msg", named));
    }
    let (mut ids, mut thoughts) = (Names::new(ID), 0);
    for message in messages {
        for item in items(message, &mut ids) {
            thoughts += usize::from(item["type"] == "reasoning");
            // The list of sessions to resume shows what users said, and takes it from these events.
            let said = (item["role"] == "user").then(|| item["content"][0]["text"].clone());
            records.push(record("response_item", item));
            if let Some(Value::String(said)) = said {
                let event = json!({ "type": "user_message", "message": said, "kind": "plain" });
                records.push(record("event_msg", event));
            }
        }
    }
    (records, thoughts)
}

fn text(kind: &str, text: &str) -> Value {
    json!({ "type": kind, "text": text })
}

fn items(message: &WindowMessage, ids: &mut Names) -> Vec<Value> {
    match message.role {
        WindowRole::System => Vec::new(),
        WindowRole::User => {
            let content: Vec<Value> = message.blocks.iter().filter_map(shown).collect();
            said("user", &content).into_iter().collect()
        }
        WindowRole::Assistant => message.blocks.iter().filter_map(|block| answered(block, ids)).collect(),
        WindowRole::Tool => results(message, ids),
    }
}

fn said(role: &str, content: &[Value]) -> Option<Value> {
    (!content.is_empty()).then(|| json!({ "type": "message", "role": role, "content": content }))
}

fn shown(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text: said, .. } => Some(text("input_text", said)),
        Block::File { mime, filename, url, .. } => Some(file(&File::new(mime, filename, url))),
        _ => None,
    }
}

fn file(file: &File) -> Value {
    match file.url {
        Some(url) if file.is_image() && (file.data().is_some() || file.is_web()) => {
            json!({ "type": "input_image", "image_url": url })
        }
        _ => text("input_text", &file.mention()),
    }
}

fn answered(block: &Block, ids: &mut Names) -> Option<Value> {
    match block {
        Block::Text { text: words, .. } => said("assistant", &[text("output_text", words)]),
        Block::Call { id, tool, input, .. } => {
            Some(json!({ "type": "function_call", "name": legal(tool, ID),
            "arguments": as_object(input.value()).to_string(), "call_id": ids.id(id) }))
        }
        Block::Reasoning { text: thought, metadata, .. } => {
            let ours = metadata.as_ref()?.get("openai")?;
            let sealed = ours.get("reasoningEncryptedContent")?;
            let summary: Vec<Value> =
                (!thought.is_empty()).then(|| text("summary_text", thought)).into_iter().collect();
            let mut item = json!({ "type": "reasoning", "summary": summary, "encrypted_content": sealed });
            if let Some(id) = ours.get("itemId").filter(|id| id.is_string()) {
                item["id"] = id.clone();
            }
            Some(item)
        }
        _ => None,
    }
}

/// Results are texts here; images that came with them follow in a user's message.
fn results(message: &WindowMessage, ids: &mut Names) -> Vec<Value> {
    let (mut items, mut files) = (Vec::new(), Vec::new());
    for block in &message.blocks {
        if let Block::Result { id, text, files: with, .. } = block {
            items.push(json!({ "type": "function_call_output", "call_id": ids.id(id), "output": text }));
            files.extend(File::all(with).map(|each| file(&each)));
        }
    }
    items.extend(said("user", &files));
    items
}
