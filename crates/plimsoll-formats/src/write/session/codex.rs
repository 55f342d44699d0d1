//! Writes a session of Codex: a rollout of items, in the format of the Responses API.

use plimsoll::window::{Attachment, legal_name, object_input};
use plimsoll::{Block, Window, WindowMessage, WindowRole};
use serde_json::{Value, json};

use super::{NewSession, divided};
use crate::time::rfc3339_of;
use crate::write::IdMap;

/// Version of Codex whose format is written.
const VERSION: &str = "0.166.0";
/// Maximum length of a call's id and name.
const ID: usize = 64;

/// Returns the records, and the number of reasoning blocks in them.
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
    let (mut ids, mut thoughts) = (IdMap::new(ID), 0);
    for message in messages {
        for item in items(message, &mut ids) {
            thoughts += usize::from(item["type"] == "reasoning");
            // The list of resumable sessions shows user messages from these events.
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

fn items(message: &WindowMessage, ids: &mut IdMap) -> Vec<Value> {
    match message.role {
        WindowRole::System => Vec::new(),
        WindowRole::User => {
            let content: Vec<Value> = message.blocks.iter().filter_map(shown).collect();
            message_item("user", &content).into_iter().collect()
        }
        WindowRole::Assistant => message.blocks.iter().filter_map(|block| answered(block, ids)).collect(),
        WindowRole::Tool => results(message, ids),
    }
}

fn message_item(role: &str, content: &[Value]) -> Option<Value> {
    (!content.is_empty()).then(|| json!({ "type": "message", "role": role, "content": content }))
}

fn shown(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text: said, .. } => Some(text("input_text", said)),
        Block::File { mime, filename, url, .. } => Some(file(&Attachment::new(mime, filename, url))),
        _ => None,
    }
}

fn file(file: &Attachment<'_>) -> Value {
    match file.url {
        Some(url) if file.is_image() && (file.data().is_some() || file.is_web()) => {
            json!({ "type": "input_image", "image_url": url })
        }
        _ => text("input_text", &file.mention()),
    }
}

fn answered(block: &Block, ids: &mut IdMap) -> Option<Value> {
    match block {
        Block::Text { text: words, .. } => message_item("assistant", &[text("output_text", words)]),
        Block::Call { id, tool, input, .. } => {
            Some(json!({ "type": "function_call", "name": legal_name(tool, ID),
            "arguments": object_input(input.value()).to_string(), "call_id": ids.id(id) }))
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

/// Results are texts in this format. Images that came with them follow in a user message.
fn results(message: &WindowMessage, ids: &mut IdMap) -> Vec<Value> {
    let (mut items, mut files) = (Vec::new(), Vec::new());
    for block in &message.blocks {
        if let Block::Result { id, text, files: with, .. } = block {
            items.push(json!({ "type": "function_call_output", "call_id": ids.id(id), "output": text }));
            files.extend(Attachment::all(with).map(|each| file(&each)));
        }
    }
    items.extend(message_item("user", &files));
    items
}
