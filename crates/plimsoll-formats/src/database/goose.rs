//! goose's `sessions.db`: a row per session, and one per message with its content as JSON.
//!
//! The messages are those of the older JSONL, so [`crate::read::goose`] assembles the log. Usage is only stored for a
//! whole session, not per response.

use std::borrow::Cow;

use plimsoll::log::At;
use plimsoll::{Millis, Tokens, Usage};
use rusqlite::Row;

use super::sqlite::{failed, number, text};
use super::{Database, SessionRow};
use crate::assembly::{Assembly, MAX_HELD};
use crate::error::FormatError;
use crate::json::Json;
use crate::read::goose::GooseReader;
use crate::read::{Sink, record_usage};
use crate::time::rfc3339;
use crate::transcript::{Chain, SessionInfo, Transcript};

/// Required columns.
pub(super) const NEEDED: &[(&str, &[&str])] =
    &[("sessions", &["id"]), ("messages", &["id", "session_id", "role", "content_json"])];

/// Types of sessions that goose starts itself and does not list: tasks of a sub-agent, and side jobs.
const NOT_LISTED: [&str; 2] = ["sub_agent", "hidden"];

impl Database {
    pub(super) fn goose_sessions(&self) -> Result<Vec<SessionRow>, FormatError> {
        let columns = [
            "name",
            "description",
            "working_dir",
            "created_at",
            "updated_at",
            "session_type",
            "model_config_json",
            "accumulated_input_tokens",
            "accumulated_output_tokens",
        ]
        .map(|column| self.column("sessions", column))
        .join(", ");
        self.rows(
            &format!(
                "SELECT id, {columns}, (SELECT count(*) FROM messages WHERE session_id = sessions.id) FROM sessions"
            ),
            session,
        )
    }

    pub(super) fn goose_messages(&self, transcript: &mut Transcript, sink: Sink) -> Result<(), FormatError> {
        let session = transcript.info.id.clone().unwrap_or_default();
        let [created, message_id, metadata] = ["created_timestamp", "message_id", "metadata_json"]
            .map(|column| self.column("messages", column));
        // Times are whole seconds, so a call and its result often have the same.
        let sql = format!(
            "SELECT id, role, content_json, {created}, {message_id}, {metadata} FROM messages \
             WHERE session_id = ?1 ORDER BY {created}, id"
        );
        let mut messages = self.connection.prepare(&sql).map_err(failed)?;
        record_usage(transcript, sink, |transcript, sink| {
            let mut sink = |message| sink(Chain::Main, message);
            let mut reading = GooseReader::new(Assembly::new(&mut sink, MAX_HELD));
            reading.log.session(Some(&session));
            let mut rows = messages.query([&session]).map_err(failed)?;
            let mut position = 0;
            while let Some(row) = rows.next().map_err(failed)? {
                let content = text(row, 2).unwrap_or_default();
                reading.log.record(position, content.len(), position, None);
                position += 1;
                let metadata = text(row, 5);
                let Some(message) = message(row, &content, metadata.as_deref(), transcript) else { continue };
                let id = message.string("id").unwrap_or_else(|| number(row, 0).unwrap_or(0).to_string());
                reading.message(message, &At::In(&format!("message `{id}`")), transcript);
                reading.log.settle(&mut transcript.notes);
            }
            reading.log.finish();
            Ok(())
        })
    }
}

/// Converts a row to the object in goose's JSONL. `None` if its content is not JSON.
fn message<'a>(
    row: &Row,
    content: &'a str,
    metadata: Option<&'a str>,
    transcript: &mut Transcript,
) -> Option<Json<'a>> {
    let Ok(content) = Json::parse(content) else {
        transcript.skip("broken message");
        return None;
    };
    let metadata = metadata.and_then(|metadata| match Json::parse(metadata) {
        Ok(metadata) => Some(metadata),
        // goose shows such a message to everyone, as if the field were missing.
        Err(_) => {
            transcript.skip("broken metadata");
            None
        }
    });
    let owned = |text: Option<String>| text.map_or(Json::Null, |text| Json::Text(Cow::Owned(text)));
    let created = number(row, 3).map_or(Json::Null, |created| Json::Number(created.into()));
    let fields = [
        ("id", owned(text(row, 4))),
        ("role", owned(text(row, 1))),
        ("created", created),
        ("content", content),
        ("metadata", metadata.unwrap_or_default()),
    ];
    Some(Json::Object(fields.map(|(key, value)| (Cow::Borrowed(key), value)).into()))
}

fn session(row: &Row) -> SessionRow {
    let config = text(row, 7);
    let config = config.as_deref().and_then(|config| Json::parse(config).ok());
    let tokens =
        number(row, 8).zip(number(row, 9)).map(|(input, output)| Usage::new(Tokens(input), Tokens(output)));
    let time = |at: usize| text(row, at).and_then(|time| rfc3339(&time)).or_else(|| seconds(row, at));
    SessionRow {
        info: SessionInfo {
            id: text(row, 0),
            parent: None,
            title: text(row, 1).or_else(|| text(row, 2)),
            directory: text(row, 3),
            model: config.as_ref().and_then(|config| config.string("model_name")),
            version: None,
            started: time(4),
            updated: time(5),
            context: config.as_ref().and_then(|config| config.number("context_limit")).map(Tokens),
            tool: None,
        },
        parent: None,
        is_sub_agent: text(row, 6).is_some_and(|kind| NOT_LISTED.contains(&kind.as_str())),
        messages: number(row, 10).unwrap_or(0),
        tokens,
    }
}

fn seconds(row: &Row, at: usize) -> Option<Millis> {
    number(row, at).map(|seconds| Millis(seconds.saturating_mul(1_000)))
}
