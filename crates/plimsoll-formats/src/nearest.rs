//! Describes a file of an unknown format: the most similar format, and what is missing for it.

use serde::de::IgnoredAny;

use crate::detect::first_value;
use crate::format::Format;
use crate::json::{Json, error_text};
use crate::signs::AIDER;

/// Maximum number of fields of a record that are listed.
const MAX_FIELDS: usize = 6;

/// Which part of a file is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The whole file.
    Whole,
    /// Only its beginning.
    Beginning,
}

/// Describes the file; begins with a comma, or is empty if there is nothing to say.
pub(crate) fn nearest(beginning: &[u8], seen: Extent) -> String {
    match beginning {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'{' | b'[', 0, ..] => {
            return ", it looks like UTF-16 (convert it to UTF-8)".into();
        }
        [0x1f, 0x8b, ..] => return ", it is compressed with gzip (unpack it first)".into(),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => return ", it is compressed with zstd (unpack it first)".into(),
        [b'P', b'K', 3, 4, ..] => return ", it is a ZIP archive (unpack it first)".into(),
        _ => {}
    }
    let text = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning).trim_ascii_start();
    if !matches!(text.first(), Some(b'{' | b'[')) {
        return like_text(text);
    }
    let first = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>().next();
    let mut broken = String::new();
    if let Some(Err(error)) = first {
        let (line, column) = (error.line(), error.column());
        if !error.is_eof() {
            let why = error_text(&error);
            return format!(", it starts like JSON but is none at line {line}, column {column}: {why}");
        }
        if seen == Extent::Whole {
            broken = format!(", its JSON breaks off at line {line}, column {column}");
        }
    }
    let value = first_value(text).and_then(|text| Json::parse(&text).map(Json::into_owned).ok());
    let is_lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).nth(1);
    let is_lines = is_lines.is_some_and(|line| matches!(line.trim_ascii_start().first(), Some(b'{')))
        && text.split(|byte| *byte == b'\n').next().is_some_and(|line| line.trim_ascii_end().ends_with(b"}"));
    let like = value.map_or_else(String::new, |value| like_json(&value, is_lines));
    match (broken.is_empty(), like.is_empty()) {
        (true, true) => ", though it starts like JSON".to_owned(),
        (true, false) => like,
        (false, _) => format!("{broken}{}", like.replacen(',', ";", 1)),
    }
}

/// Describes text that is not JSON: only aider's format is text.
fn like_text(text: &[u8]) -> String {
    if text.contains(&0)
        || std::str::from_utf8(&text[..text.len().min(1000)]).is_err_and(|e| e.error_len().is_some())
    {
        return ", it is neither JSON nor text".into();
    }
    if let Some(value) = std::str::from_utf8(text).ok().and_then(|text| Json::parse(text).ok()) {
        let what = if matches!(value, Json::Null) { "null" } else { value.describe() };
        return format!(", it is {what} by itself");
    }
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let (first, second) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if [&b"event:"[..], b"data:"].iter().any(|field| first.starts_with(field)) {
        return ", it is a stream of events as providers answer with: it has one answer and not the conversation"
            .into();
    }
    // Prose contains commas as well, but rarely the same number in consecutive lines.
    let separators =
        |line: &[u8]| [b',', b';', b'\t'].map(|it| line.iter().filter(|byte| **byte == it).count());
    if separators(first).iter().any(|count| *count > 1) && separators(first) == separators(second) {
        return format!(
            ", it looks like a table (CSV); nearest is {}, with an object of `role` and `content` on each line",
            Format::OpenaiChat
        );
    }
    let what = match text.windows(2).any(|pair| pair == b"\x1b[") {
        true => "what a terminal showed, with its control codes;",
        false => "text:",
    };
    format!(", it is {what} nearest is {}, but no line begins with `{}`", Format::Aider, AIDER.trim_end())
}

/// Describes JSON that has no conversation where a format has one.
fn like_json(value: &Json, is_lines: bool) -> String {
    let has = |key: &str| value.get(key).is_some();
    if value.get("log").is_some_and(|log| log.get("entries").is_some()) {
        return format!(
            ", it is a recording of HTTP requests (HAR): nearest is {}, which is the `text` of a request's `postData`",
            Format::OpenaiChat
        );
    }
    if ["version", "width", "height"].into_iter().all(has) {
        return ", it is a recording of a terminal (asciicast)".into();
    }
    let (nearest, missing) = match value {
        Json::List(items) => match items.first() {
            Some(item) if item.is_object() => {
                (Format::OpenaiChat, format!("the first item has no `role`, {}", fields(item)))
            }
            Some(item) => (Format::OpenaiChat, format!("the first item is {}, no message", item.describe())),
            None => (Format::OpenaiChat, "the list has no complete message".into()),
        },
        object if is_lines => by_record(object),
        object => by_document(object),
    };
    format!(", nearest is {nearest}, but {missing}")
}

fn by_document(object: &Json) -> (Format, String) {
    let has = |key: &str| object.get(key).is_some();
    let first_of = |key: &str| object.get(key).and_then(Json::as_list).and_then(<[Json]>::first);
    let not_a_list = |format, key: &str| {
        let found = object.get(key).map_or("nothing", Json::describe);
        (format, format!("`{key}` is {found}, no list"))
    };
    if has("messages") {
        return match first_of("messages") {
            Some(item) => {
                (Format::OpenaiChat, format!("the first of `messages` has no `role`, {}", fields(item)))
            }
            None => not_a_list(Format::OpenaiChat, "messages"),
        };
    }
    for (format, key) in [
        (Format::SweAgent, "trajectory"),
        (Format::SweAgent, "history"),
        (Format::Trae, "steps"),
        (Format::Goose, "conversation"),
    ] {
        if has(key) {
            return match first_of(key) {
                Some(item) => (format, format!("the first of `{key}` has only {}", names(item))),
                None => not_a_list(format, key),
            };
        }
    }
    let missing = format!("it has no list `messages`, {}", fields(object));
    if has("sessionId") { (Format::Cline, missing) } else { (Format::OpenaiChat, missing) }
}

fn by_record(record: &Json) -> (Format, String) {
    let has = |key: &str| record.get(key).is_some();
    let found = fields(record);
    if has("role") {
        (Format::OpenaiChat, format!("its first record has no `content`, {found}"))
    } else if has("uuid") || has("message") {
        (Format::ClaudeCode, format!("its first record names neither `parentUuid` nor `sessionId`, {found}"))
    } else if has("type") {
        (Format::Codex, format!("its first record has no `payload`, {found}"))
    } else {
        (Format::OpenaiChat, format!("its first record has no `role`, {found}"))
    }
}

/// Lists the fields of a value in which one is missing.
fn fields(value: &Json) -> String {
    match value {
        Json::Object(fields) if fields.is_empty() => "nor any other field".into(),
        _ => format!("only {}", names(value)),
    }
}

/// Returns the names of a value's fields.
fn names(value: &Json) -> String {
    let Json::Object(fields) = value else { return value.describe().to_owned() };
    if fields.is_empty() {
        return "no fields".into();
    }
    let names: Vec<String> = fields.iter().take(MAX_FIELDS).map(|(name, _)| format!("`{name}`")).collect();
    let more = if fields.len() > MAX_FIELDS { " and others" } else { "" };
    format!("{}{more}", names.join(", "))
}
