//! What to say about a file that is of no known format: which one it comes nearest to, and what is missing.

use serde::de::IgnoredAny;

use crate::detect::{Format, first_value};
use crate::json::{Json, told};
use crate::signs::AIDER;

/// How many fields of a record are named.
const MOST_FIELDS: usize = 6;

/// What a file that begins like this is instead; begins with a comma, or is empty if nothing can be told.
pub(crate) fn nearest(beginning: &[u8]) -> String {
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
    if let Some(Err(error)) = first
        && !error.is_eof()
    {
        let (line, column) = (error.line(), error.column());
        return format!(
            ", it starts like JSON but is none at line {line}, column {column}: {}",
            told(&error)
        );
    }
    let value = first_value(text).and_then(|text| Json::parse(&text).map(Json::into_owned).ok());
    let is_lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).nth(1);
    let is_lines = is_lines.is_some_and(|line| matches!(line.trim_ascii_start().first(), Some(b'{')))
        && text.split(|byte| *byte == b'\n').next().is_some_and(|line| line.trim_ascii_end().ends_with(b"}"));
    value.map_or_else(|| ", though it starts like JSON".to_owned(), |value| like_json(&value, is_lines))
}

/// A text that is no JSON: only aider's history is.
fn like_text(text: &[u8]) -> String {
    if text.contains(&0)
        || std::str::from_utf8(&text[..text.len().min(1000)]).is_err_and(|e| e.error_len().is_some())
    {
        return ", it is neither JSON nor text".into();
    }
    let nearest = Format::Aider;
    format!(", it is text: nearest is {nearest}, but no line begins with `{}`", AIDER.trim_end())
}

/// JSON that says nothing of a conversation where a format would.
fn like_json(value: &Json, is_lines: bool) -> String {
    let (nearest, missing) = match value {
        Json::List(items) => match items.first() {
            Some(item) if item.is_object() => {
                (Format::OpenaiChat, format!("the first item has no `role`, only {}", fields(item)))
            }
            Some(item) => (Format::OpenaiChat, format!("the first item is {}, no message", item.describe())),
            None => (Format::OpenaiChat, "the list has no item that could be read".into()),
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
                (Format::OpenaiChat, format!("the first of `messages` has no `role`, only {}", fields(item)))
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
                Some(item) => (format, format!("the first of `{key}` has only {}", fields(item))),
                None => not_a_list(format, key),
            };
        }
    }
    let missing = format!("it has no list `messages`, only {}", fields(object));
    if has("sessionId") { (Format::Cline, missing) } else { (Format::OpenaiChat, missing) }
}

fn by_record(record: &Json) -> (Format, String) {
    let has = |key: &str| record.get(key).is_some();
    let found = fields(record);
    if has("role") {
        (Format::OpenaiChat, format!("its first record has no `content`, only {found}"))
    } else if has("uuid") || has("message") {
        (
            Format::ClaudeCode,
            format!("its first record names neither `parentUuid` nor `sessionId`, only {found}"),
        )
    } else if has("type") {
        (Format::Codex, format!("its first record has no `payload`, only {found}"))
    } else {
        (Format::OpenaiChat, format!("its first record has no `role`, only {found}"))
    }
}

/// The names of a value's fields.
fn fields(value: &Json) -> String {
    let Json::Object(fields) = value else { return value.describe().to_owned() };
    if fields.is_empty() {
        return "no fields".into();
    }
    let names: Vec<String> = fields.iter().take(MOST_FIELDS).map(|(name, _)| format!("`{name}`")).collect();
    let more = if fields.len() > MOST_FIELDS { " and others" } else { "" };
    format!("{}{more}", names.join(", "))
}
