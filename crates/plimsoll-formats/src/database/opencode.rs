//! OpenCode's `opencode.db`: sessions, messages and parts as rows with JSON in them.

use std::borrow::Cow;

use plimsoll::log::{At, Notes};
use plimsoll::{Message, Millis, Part, PartId, Tokens, Usage};
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde_json::{Map, Value, json};

use super::sqlite::{failed, number, text};
use super::{Database, SessionRow};
use crate::error::FormatError;
use crate::json::Json;
use crate::read::{Sink, opencode};
use crate::transcript::{Chain, SessionInfo, Transcript};

/// Required columns.
pub(super) const NEEDED: &[(&str, &[&str])] = &[
    ("session", &["id"]),
    ("message", &["id", "session_id", "data"]),
    ("part", &["id", "message_id", "data"]),
];

impl Database {
    pub(super) fn opencode_sessions(&self) -> Result<Vec<SessionRow>, FormatError> {
        let columns = [
            "title",
            "directory",
            "version",
            "time_created",
            "time_updated",
            "parent_id",
            "model",
            "tokens_input",
            "tokens_output",
            "tokens_reasoning",
            "tokens_cache_read",
            "tokens_cache_write",
        ]
        .map(|column| self.column("session", column))
        .join(", ");
        let sql = format!(
            "SELECT id, {columns}, (SELECT count(*) FROM message WHERE session_id = session.id) FROM session"
        );
        self.rows(&sql, session)
    }

    pub(super) fn opencode_messages(
        &self,
        transcript: &mut Transcript,
        sink: Sink,
    ) -> Result<(), FormatError> {
        let session = transcript.info.id.clone().unwrap_or_default();
        let created = self.column("message", "time_created");
        let sql = format!("SELECT id, data FROM message WHERE session_id = ?1 ORDER BY {created}, id");
        let mut messages = self.connection.prepare(&sql).map_err(failed)?;
        let mut parts = self
            .connection
            .prepare("SELECT id, data FROM part WHERE message_id = ?1 ORDER BY id")
            .map_err(failed)?;
        let mut rows = messages.query([&session]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (id, info) = (text(row, 0).unwrap_or_default(), object(row));
            let mut found = Vec::new();
            let mut rows = parts.query([&id]).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                match part_of(row, &session, &id, &mut transcript.notes) {
                    Some(part) => found.push(part),
                    None => transcript.skip("broken part"),
                }
            }
            // Without its own row, the message still holds its parts; its role is unknown.
            if info.is_none() {
                transcript.skip("broken message");
            }
            let Some(mut info) = info.or_else(|| (!found.is_empty()).then(Map::new)) else { continue };
            let place = format!("message `{id}`");
            info.insert("id".into(), id.into());
            info.insert("sessionID".into(), session.as_str().into());
            let value = json!({ "info": info });
            let Ok(mut message) = Message::read(value, &At::In(&place), &mut transcript.notes) else {
                continue;
            };
            message.parts = found.into();
            transcript.info.note(&message);
            transcript.recorded.add_message(&message);
            sink(Chain::Main, message);
        }
        Ok(())
    }
}

fn session(row: &Row) -> SessionRow {
    let model = text(row, 7).and_then(|model| Json::parse(&model).ok()?.string("id"));
    let tokens = number(row, 8).zip(number(row, 9)).map(|(input, output)| {
        let mut usage = Usage::new(Tokens(input), Tokens(output));
        let rest = [10, 11, 12].map(|at| Tokens(number(row, at).unwrap_or(0)));
        [usage.reasoning, usage.cache_read, usage.cache_write] = rest;
        usage
    });
    SessionRow {
        info: SessionInfo {
            id: text(row, 0),
            parent: text(row, 6),
            title: text(row, 1),
            directory: text(row, 2),
            model,
            version: text(row, 3),
            started: number(row, 4).map(Millis),
            updated: number(row, 5).map(Millis),
            context: None,
            tool: None,
        },
        is_sub_agent: text(row, 6).is_some(),
        parent: text(row, 6),
        messages: number(row, 13).unwrap_or(0),
        tokens,
    }
}

/// Returns the JSON in the column `data`, as text.
fn data<'r>(row: &'r Row) -> Option<&'r str> {
    match row.get_ref(1) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn object(row: &Row) -> Option<Map<String, Value>> {
    serde_json::from_str(data(row)?).ok()
}

fn part_of(row: &Row, session: &str, message: &str, notes: &mut Notes) -> Option<Part> {
    let mut part = Json::parse(data(row)?).ok()?;
    let id = text(row, 0).unwrap_or_default();
    let place = format!("part `{id}`");
    if let Json::Object(fields) = &mut part {
        let ids = [("id", id.clone()), ("sessionID", session.into()), ("messageID", message.into())];
        fields.retain(|(name, _)| !ids.iter().any(|(key, _)| name == key));
        fields.extend(ids.map(|(key, id)| (Cow::Borrowed(key), Json::Text(Cow::Owned(id)))));
    }
    let part = opencode::part(part, &At::In(&place), notes);
    Some(Part { id: PartId::new(id), ..part })
}
