//! Writes a session of Claude Code: records that each refer to the previous one.

use plimsoll::{Block, Fnv, Millis, Window, WindowMessage, WindowRole};
use serde_json::{Value, json};
use uuid::{Builder, Variant, Version};

use super::{NewSession, divided};
use crate::time::rfc3339_of;
use crate::write::IdMap;
use crate::write::anthropic::{ID, block, is_thought};

/// Version of Claude Code whose format is written.
const VERSION: &str = "2.1.197";

/// Returns the records, and the number of reasoning blocks in them.
pub(super) fn write(session: &NewSession, window: &Window) -> (Vec<Value>, usize) {
    let (summary, messages) = divided(window);
    let mut chain = Chain { session, parent: Value::Null, number: 0, records: Vec::new() };
    if let Some(summary) = summary {
        chain.add(json!({
            "type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": false,
            "level": "info", "compactMetadata": { "trigger": "manual", "preTokens": 0 },
        }));
        chain.add(json!({
            "type": "user", "isCompactSummary": true, "isVisibleInTranscriptOnly": true,
            "message": { "role": "user", "content": summary },
        }));
    }
    let mut ids = IdMap::new(ID);
    let mut thoughts = 0;
    for message in messages {
        let content = content(message, &mut ids);
        if content.is_empty() {
            continue;
        }
        if message.role != WindowRole::Assistant {
            let content = match content.as_slice() {
                [only] if only["type"] == "text" => only["text"].clone(),
                _ => content.into(),
            };
            chain.add(json!({ "type": "user", "message": { "role": "user", "content": content } }));
            continue;
        }
        thoughts += content.iter().filter(|block| is_thought(block)).count();
        let calls = content.iter().any(|block| block["type"] == "tool_use");
        let id = format!("msg_{:04}_{}", chain.number, session.id);
        chain.add(json!({ "type": "assistant", "message": {
            "id": id, "type": "message", "role": "assistant", "model": session.model.unwrap_or("<synthetic>"),
            "content": content, "stop_reason": if calls { "tool_use" } else { "end_turn" }, "stop_sequence": null,
            // This copy was not billed.
            "usage": { "input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0 },
        } }));
    }
    let mut records = chain.finish();
    if let Some(title) = session.title() {
        // Written like the command `/rename` does: a record that is not part of the conversation.
        let mut named = json!({ "type": "custom-title", "customTitle": title, "sessionId": session.id });
        session.mark(&mut named);
        records.push(named);
    }
    (records, thoughts)
}

fn content(message: &WindowMessage, ids: &mut IdMap) -> Vec<Value> {
    let blocks = message.blocks.iter().filter(|block| match block {
        // Claude Code sends reasoning and provider blocks back unchecked, and only Anthropic can verify them.
        Block::Provider { value, .. } => value.value().get("anthropic").is_some(),
        _ => true,
    });
    let mut content: Vec<Value> = blocks.filter_map(|each| block(each, ids)).collect();
    while content.last().is_some_and(is_thought) {
        content.pop();
    }
    content
}

/// Records in the order of their creation.
struct Chain<'a> {
    session: &'a NewSession<'a>,
    parent: Value,
    number: usize,
    records: Vec<Value>,
}

impl Chain<'_> {
    fn add(&mut self, mut record: Value) {
        let uuid = self.uuid();
        record["parentUuid"] = self.parent.take();
        record["uuid"] = uuid.as_str().into();
        self.parent = uuid.into();
        self.number += 1;
        self.records.push(record);
    }

    /// Returns an id derived from the session's, so that the same window gives the same file.
    fn uuid(&self) -> String {
        let hash = |salt: u64| Fnv::of(format!("{} {} {salt}", self.session.id, self.number).as_bytes());
        let (high, low) = (hash(1), hash(2));
        let rest = (low >> 52 << 48 | low & 0xffff_ffff_ffff).to_be_bytes();
        let fields = Builder::from_fields((high >> 32) as u32, (high >> 16) as u16, high as u16, &rest);
        fields.with_version(Version::Random).with_variant(Variant::RFC4122).into_uuid().to_string()
    }

    /// Returns the records with their common fields. The last one has the current time: Claude Code continues from the
    /// newest.
    fn finish(self) -> Vec<Value> {
        let (session, count) = (self.session, self.records.len());
        let records = self.records.into_iter().enumerate().map(|(index, mut record)| {
            let at = Millis(session.now.0.saturating_sub((count - index) as u64));
            record["isSidechain"] = false.into();
            record["userType"] = "external".into();
            record["cwd"] = session.directory.into();
            record["sessionId"] = session.id.into();
            record["version"] = VERSION.into();
            record["timestamp"] = rfc3339_of(at).into();
            // In every record, because a fork of the session can begin with any.
            session.mark(&mut record);
            record
        });
        records.collect()
    }
}
