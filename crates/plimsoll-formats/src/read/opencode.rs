//! OpenCode's formats, which have the structure of the log. Unknown fields and kinds of parts are kept unchanged.

use plimsoll::log::{At, Notes, ReasoningPart, TextPart, ToolPart, ToolState, ToolTime};
use plimsoll::{Message, Millis, Part, PartBody, PartId, ToolStatus};
use serde_json::{Map, Value};

use super::Sink;
use crate::document::Document;
use crate::error::FormatError;
use crate::field_errors::FieldErrors;
use crate::json::{Fields, Json};
use crate::transcript::{Chain, Transcript};

pub(super) fn read(document: &Document, transcript: &mut Transcript, sink: Sink) -> Result<(), FormatError> {
    let list = document.list("messages");
    let session = document.each(transcript.format, "messages", |index, message| {
        let message = self::message(message, &At::Index(&list, index), &mut transcript.notes)?;
        transcript.info.note(&message);
        sink(Chain::Main, message);
        Ok(())
    })?;
    let (about, mut field_errors) = (At::Key(&At::Root, "info"), FieldErrors::default());
    if !matches!(session, Json::Null) {
        field_errors.is_object(&session, &about);
    }
    let info = &mut transcript.info;
    info.id = field_errors.string(&session, &about, "id").or(info.id.take());
    info.parent = field_errors.string(&session, &about, "parentID");
    info.title = field_errors.string(&session, &about, "title");
    info.directory = field_errors.string(&session, &about, "directory");
    info.version = field_errors.string(&session, &about, "version");
    if let Some(time) = field_errors.object(&session, &about, "time") {
        let about = At::Key(&about, "time");
        info.note_time(field_errors.time(time, &about, "created"));
        info.note_time(field_errors.time(time, &about, "updated"));
    }
    field_errors.report(&mut transcript.notes, None);
    Ok(())
}

/// Reads a message and its parts.
fn message(mut message: Json, at: &At, notes: &mut Notes) -> Result<Message, String> {
    let parts = message.remove_list("parts");
    let mut read = Message::read(message.into_value(), at, notes).map_err(|error| error.problem)?;
    let list = At::Key(at, "parts");
    read.parts.reserve_exact(parts.len());
    for (index, part) in parts.into_iter().enumerate() {
        read.parts.push(self::part(part, &At::Index(&list, index), notes));
    }
    Ok(read)
}

/// Reads a part. The kinds with nearly all the text are converted here, as a fast path, if they have OpenCode's usual
/// form; everything else is left to the log.
pub(crate) fn part(part: Json, at: &At, notes: &mut Notes) -> Part {
    let kind = match part.text("type") {
        Some("text") => "text",
        Some("reasoning") => "reasoning",
        Some("tool") => "tool",
        _ => "",
    };
    let is_plain = match kind {
        "text" => !["synthetic", "ignored", "plimsoll"].iter().any(|key| part.get(key).is_some()),
        "reasoning" => part.get("plimsoll").is_none(),
        "tool" => part.get("plimsoll").is_none() && part.get("state").is_some_and(is_plain_state),
        _ => false,
    };
    let strings = ["id", "text", "tool", "callID"];
    let is_plain = is_plain
        && part.get("id").is_none_or(|id| id.as_str() != Some(""))
        && strings.iter().all(|key| part.get(key).is_none_or(|text| text.as_str().is_some()));
    match part {
        Json::Object(fields) if is_plain => plain_part(kind, fields),
        other => Part::read(other.into_value(), at, notes),
    }
}

fn is_plain_state(state: &Json) -> bool {
    let is_time = |time: &Json| {
        let Json::Object(fields) = time else { return false };
        fields.len() == 2 && time.number("start").is_some() && time.number("end").is_some()
    };
    let strings = ["output", "error"];
    state.text("status") == Some("completed")
        && state.get("attachments").is_none()
        && state.get("time").is_some_and(is_time)
        && strings.iter().all(|key| state.get(key).is_none_or(|text| text.as_str().is_some()))
}

fn plain_part(kind: &str, fields: Fields) -> Part {
    let mut extra = Map::new();
    let (mut id, mut text, mut tool, mut call) = <(_, String, _, _)>::default();
    let mut state = None;
    for (key, value) in fields {
        match (&*key, value) {
            ("id", value) => id = owned(value),
            ("type", _) => {}
            ("text", value) if kind != "tool" => text = owned(value),
            ("tool", value) if kind == "tool" => tool = owned(value),
            ("callID", value) if kind == "tool" => call = owned(value),
            ("state", Json::Object(fields)) if kind == "tool" => state = Some(plain_state(fields)),
            (_, value) => {
                extra.insert(key.into_owned(), value.into_value());
            }
        }
    }
    let body = match (kind, state) {
        ("tool", Some(state)) => PartBody::Tool(ToolPart { call_id: call, tool, state }),
        ("reasoning", _) => PartBody::Reasoning(ReasoningPart { text: text.into() }),
        _ => PartBody::Text(TextPart { text: text.into(), synthetic: None, ignored: None }),
    };
    Part { extra: extra.into(), ..Part::new(PartId::new(id), body) }
}

fn plain_state(fields: Fields) -> ToolState {
    let mut state = ToolState::pending(Value::Null);
    (state.status, state.input) = (ToolStatus::Completed, None);
    for (key, value) in fields {
        match &*key {
            "status" => {}
            "input" => state.input = Some(value.into_value().into()),
            "output" => state.output = Some(owned(value).into()),
            "error" => state.error = Some(owned(value).into()),
            "time" => {
                let time = |key: &str| Millis(value.number(key).unwrap_or(0));
                state.time = ToolTime::ran(time("start"), time("end"));
            }
            _ => {
                state.extra.insert(key.into_owned(), value.into_value());
            }
        }
    }
    state
}

fn owned(value: Json) -> String {
    match value {
        Json::Text(text) => text.into_owned(),
        _ => String::new(),
    }
}
