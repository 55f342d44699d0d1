//! Reads content blocks of Anthropic and OpenAI.

use std::borrow::Cow;

use plimsoll::log::{At, Extra, FilePart};
use plimsoll::{Millis, Text, Tokens, Usage};
use serde_json::{Value, json};

use crate::assembly::{Answer, Assembly};
use crate::field_errors::FieldErrors;
use crate::file_text::words_of;
use crate::json::Json;

/// Maximum bytes of a tool's structured result that are kept in addition to the output that the model saw.
const SMALL: usize = 2_000;

/// Fields that identify the kind of a block without `type`.
const SHAPES: [(&str, &str); 4] =
    [("tool_use_id", "tool_result"), ("input", "tool_use"), ("thinking", "thinking"), ("text", "text")];

/// Returns content as a list of blocks, whether it is a list or a text. Other values become a text with their JSON.
pub(crate) fn blocks<'a>(content: Json<'a>, field_errors: &mut FieldErrors, at: &At) -> Vec<Json<'a>> {
    match content {
        Json::Null => Vec::new(),
        text @ Json::Text(_) => vec![text_block(text)],
        Json::List(items) if items.iter().all(Json::is_object) => items,
        Json::List(items) => {
            let read = items.into_iter().enumerate().filter_map(|(index, item)| {
                let at = &At::Index(at, index);
                match item {
                    block @ Json::Object(_) => Some(block),
                    Json::Null => field_errors.is_object(&Json::Null, at).then_some(Json::Null),
                    other => {
                        Some(text_block(Json::Text(field_errors.as_text(other, at, "an object").into())))
                    }
                }
            });
            read.collect()
        }
        block @ Json::Object(_) => {
            field_errors.single_block(&block, at);
            vec![block]
        }
        other => vec![text_block(Json::Text(field_errors.as_text(other, at, "a string or a list").into()))],
    }
}

fn text_block(text: Json) -> Json {
    let kind = Json::Text(Cow::Borrowed("text"));
    Json::Object(vec![(Cow::Borrowed("type"), kind), (Cow::Borrowed("text"), text)])
}

/// Returns the texts in some content, joined by newlines, and its files.
pub(crate) fn flatten(content: Json) -> (String, Vec<Value>) {
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    gather(content, &mut texts, &mut files);
    // Usually there is one text, which need not be copied.
    let text = if texts.len() == 1 { texts.pop().unwrap_or_default().into_owned() } else { texts.join("\n") };
    (text, files)
}

fn gather<'a>(content: Json<'a>, texts: &mut Vec<Cow<'a, str>>, files: &mut Vec<Value>) {
    match content {
        Json::Null => {}
        Json::Text(text) => texts.push(text),
        Json::List(items) => items.into_iter().for_each(|item| gather(item, texts, files)),
        mut block @ Json::Object(_) => {
            if let Some(file) = file(&block) {
                if let Some(words) = words_of(&file) {
                    return texts.push(Cow::Owned(words));
                }
                files.push(json!({
                    "type": "file", "mime": file.mime, "filename": file.filename,
                    "url": file.url.as_ref().map(Text::as_str),
                }));
            } else if block.text("type") == Some("search_result") {
                let about = ["title", "source"].into_iter().filter_map(|key| block.string(key));
                texts.extend(about.map(Cow::Owned));
                gather(block.take("content"), texts, files);
            } else if let Some(key) = ["text", "content"].into_iter().find(|key| block.get(key).is_some()) {
                gather(block.take(key), texts, files);
            } else {
                // The block is of an unknown kind, but the model saw it.
                texts.push(Cow::Owned(block.into_value().to_string()));
            }
        }
        other => texts.push(Cow::Owned(other.into_value().to_string())),
    }
}

/// Reads the file in a block, in any of the providers' formats. `None` if its content cannot be read.
pub(crate) fn file(block: &Json) -> Option<FilePart> {
    file_of(block).filter(|file| {
        let holders = [Some(block), block.get("source"), block.get("file")];
        let contents = holders.into_iter().flatten().flat_map(|holder| {
            ["data", "url", "file_data", "source", "file"].into_iter().filter_map(|key| holder.get(key))
        });
        let is_unreadable = |content: &Json| !matches!(content, Json::Text(_) | Json::Object(_) | Json::Null);
        file.url.is_some() || !contents.into_iter().any(is_unreadable)
    })
}

fn file_of(block: &Json) -> Option<FilePart> {
    let data = |mime: &str, data: &str| Some(Text::from(format!("data:{mime};base64,{data}")));
    match block.text("type")? {
        "image" | "document" => {
            // pi writes the data next to the type, Anthropic inside `source`.
            let source = block.get("source").unwrap_or(block);
            let mime = ["media_type", "mimeType", "mediaType"].into_iter().find_map(|key| source.string(key));
            let url = match (source.text("data"), source.text("url")) {
                (Some(bytes), _) if source.text("type") != Some("text") => {
                    data(mime.as_deref().unwrap_or("application/octet-stream"), bytes)
                }
                (Some(words), _) => Some(Text::from(format!("data:text/plain,{words}"))),
                // A document may consist of blocks.
                (None, _) if source.get("content").is_some() => {
                    let (words, _) = flatten(source.get("content").cloned().unwrap_or_default());
                    Some(Text::from(format!("data:text/plain,{words}")))
                }
                (None, url) => url.map(Text::from),
            };
            let is_text = source.text("type") == Some("text") || source.get("content").is_some();
            let mime = mime.or_else(|| is_text.then(|| "text/plain".to_owned()));
            Some(FilePart { mime, filename: block.string("title"), url })
        }
        "image_url" | "input_image" => {
            let url = block.get("image_url")?;
            let url = url.text("url").or(url.as_str())?;
            let mime = url.strip_prefix("data:").and_then(|rest| rest.split([';', ',']).next());
            let mime = mime.unwrap_or("image/*").to_owned();
            Some(FilePart { mime: Some(mime), filename: None, url: Some(Text::from(url)) })
        }
        "file" | "input_file" => {
            let file = block.get("file").unwrap_or(block);
            let url = file.text("file_data").or_else(|| file.text("url"));
            // Cline writes the text of a file next to its path.
            let words = file.text("content").map(|words| format!("data:text/plain,{words}"));
            let mime = file.string("mime").or_else(|| words.as_ref().map(|_| "text/plain".to_owned()));
            let filename = file.string("filename").or_else(|| file.string("path"));
            Some(FilePart { mime, filename, url: url.map(Text::from).or(words.map(Text::from)) })
        }
        _ => None,
    }
}

/// Reads Anthropic's usage.
pub(crate) fn anthropic_usage(usage: &Json, field_errors: &mut FieldErrors, at: &At) -> Usage {
    let mut number = |key: &str| Tokens(field_errors.number(usage, at, key).unwrap_or(0));
    let mut tokens = Usage::new(number("input_tokens"), number("output_tokens"));
    tokens.cache_read = number("cache_read_input_tokens");
    tokens.cache_write = number("cache_creation_input_tokens");
    if let Some(written) = field_errors.object(usage, at, "cache_creation") {
        let at = &At::Key(at, "cache_creation");
        let mut number = |key: &str| Tokens(field_errors.number(written, at, key).unwrap_or(0));
        let (minutes, hour) = (number("ephemeral_5m_input_tokens"), number("ephemeral_1h_input_tokens"));
        tokens.cache_write = tokens.cache_write.max(minutes + hour);
        tokens.cache_write_hour = hour;
    }
    tokens
}

/// Converts a stop reason to OpenCode's.
pub(crate) fn finish(reason: &str) -> &str {
    match reason {
        "end_turn" | "stop_sequence" | "stop" => "stop",
        "tool_use" | "tool_calls" | "toolUse" | "function_call" => "tool-calls",
        "max_tokens" | "length" => "length",
        "refusal" | "content_filter" => "content-filter",
        other => other,
    }
}

/// Reads a tool's input: a JSON string as its value, a blank one as empty. Invalid JSON stays a string.
pub(crate) fn arguments(given: Json) -> Value {
    match given {
        Json::Text(text) if text.trim().is_empty() => json!({}),
        Json::Text(text) => serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned())),
        other => other.into_value(),
    }
}

/// Adds a block of the model to the message at `place`. Returns the kind if it is unknown.
pub(crate) fn push_assistant_block(
    log: &mut Assembly,
    place: usize,
    mut block: Json,
    at: &At,
) -> Result<(), String> {
    let kind = log.field_errors.kind(&block, at, "type", &SHAPES).unwrap_or_default().to_owned();
    match kind.as_str() {
        "text" | "output_text" => {
            let text = log.field_errors.take_words(&mut block, at, "text");
            log.text(place, text);
        }
        "thinking" => {
            let signature = log.field_errors.text(&block, at, "signature");
            let metadata = signature.map(|signature| json!({ "anthropic": { "signature": signature } }));
            let text = log.field_errors.take_words(&mut block, at, "thinking");
            log.reasoning(place, text, metadata);
        }
        "redacted_thinking" => {
            let metadata = json!({ "anthropic": { "redactedData": block.take("data").into_value() } });
            log.reasoning(place, "", Some(metadata));
        }
        "tool_use" | "server_tool_use" => {
            let input = block.take("input").into_value();
            let id = log.field_errors.text(&block, at, "id");
            let name = log.field_errors.text(&block, at, "name").unwrap_or_default();
            log.call(place, id, name, input);
        }
        // The provider's own tools have their results in the same message.
        kind if kind.ends_with("_tool_result") => {
            let (text, attachments) = flatten(block.take("content"));
            let call = log.field_errors.text(&block, at, "tool_use_id").unwrap_or_default();
            log.answer_or_keep(call, Answer { text, attachments, ..Answer::default() }, |_| place);
        }
        _ => match file(&block) {
            Some(file) => log.file(place, file),
            None => return Err(kind),
        },
    }
    Ok(())
}

/// A block of a user message and its context.
pub(crate) struct UserBlock<'a> {
    pub(crate) block: Json<'a>,
    /// Time of the message.
    pub(crate) time: Option<Millis>,
    /// Whether the host wrote the block and not the user.
    pub(crate) is_synthetic: bool,
    /// The structured result that the host recorded; the first result takes it.
    pub(crate) structured: Option<&'a mut Value>,
}

/// Adds a block of the user: a result to its call, anything else to the message that `begin` returns. Returns the kind
/// if it is unknown.
pub(crate) fn push_user_block(
    log: &mut Assembly,
    UserBlock { mut block, time, is_synthetic, structured }: UserBlock,
    at: &At,
    mut begin: impl FnMut(&mut Assembly) -> usize,
) -> Result<(), String> {
    match log.field_errors.kind(&block, at, "type", &SHAPES) {
        Some("tool_result") => {
            let structured = structured.map(Value::take).unwrap_or_default();
            let (call, answer) = tool_result(block, time, structured, &mut log.field_errors, at);
            log.answer_or_keep(&call, answer, begin);
        }
        Some("text") => {
            let place = begin(log);
            let text = log.field_errors.take_words(&mut block, at, "text");
            log.user_text(place, text, is_synthetic);
        }
        kind => match file(&block) {
            Some(file) => {
                let place = begin(log);
                log.file(place, file);
            }
            None => return Err(kind.unwrap_or("without type").to_owned()),
        },
    }
    Ok(())
}

/// Returns a tool's structured result if it is small: most repeat the output at length.
pub(crate) fn small(structured: &Json) -> Value {
    match structured {
        Json::Raw(raw) if raw.len() <= SMALL && raw.starts_with('{') => {
            serde_json::from_str(raw).unwrap_or_default()
        }
        _ => Value::Null,
    }
}

/// Returns the result in a `tool_result` block and the id of its call.
fn tool_result(
    mut block: Json,
    time: Option<Millis>,
    structured: Value,
    field_errors: &mut FieldErrors,
    at: &At,
) -> (String, Answer) {
    let (text, attachments) = flatten(block.take("content"));
    let is_error = field_errors.is(&block, at, "is_error");
    let mut extra = Extra::default();
    if !structured.is_null() {
        extra.insert("toolUseResult".into(), structured);
    }
    let call = field_errors.string(&block, at, "tool_use_id").unwrap_or_default();
    (call, Answer { text, is_error, attachments, at: time, extra })
}
