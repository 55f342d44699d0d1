//! Content blocks as Anthropic and OpenAI write them, and what becomes of them.

use plimsoll::log::FilePart;
use plimsoll::{Millis, Text, Tokens, Usage};
use serde_json::{Map, Value, json};

use crate::assembly::{Answer, Assembly};
use crate::json::{describe, is_small, string, take, take_text, text};

/// How much of a tool's structured result is kept beside the output the model was shown.
const SMALL: usize = 2_000;

/// Content as a list of blocks, whether it came as one or as a text.
pub(crate) fn blocks(content: Value) -> Result<Vec<Value>, String> {
    match content {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![json!({ "type": "text", "text": text })]),
        Value::Array(items) => Ok(items),
        other => Err(format!("`content`: expected a string or a list, found {}", describe(&other))),
    }
}

/// The texts of some content, joined by newlines, and the files in it.
pub(crate) fn flatten(content: Value) -> (String, Vec<Value>) {
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    gather(content, &mut texts, &mut files);
    (texts.join("\n"), files)
}

fn gather(content: Value, texts: &mut Vec<String>, files: &mut Vec<Value>) {
    match content {
        Value::Null => {}
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.into_iter().for_each(|item| gather(item, texts, files)),
        Value::Object(mut map) => {
            if let Some(file) = file(&Value::Object(map.clone())) {
                files.push(json!({
                    "type": "file", "mime": file.mime, "filename": file.filename,
                    "url": file.url.as_ref().map(Text::as_str),
                }));
            } else if let Some(inner) = map.remove("text").or_else(|| map.remove("content")) {
                gather(inner, texts, files);
            } else {
                // Nothing is known about this block, but the model was shown it.
                texts.push(Value::Object(map).to_string());
            }
        }
        other => texts.push(other.to_string()),
    }
}

/// The file in a block, in any of the ways providers write one.
pub(crate) fn file(block: &Value) -> Option<FilePart> {
    let data = |mime: &str, data: &str| Some(Text::from(format!("data:{mime};base64,{data}")));
    match text(block, "type")? {
        "image" | "document" => {
            // pi writes the data beside the type, Anthropic puts it under `source`.
            let source = block.get("source").unwrap_or(block);
            let mime = string(source, "media_type").or_else(|| string(source, "mimeType"));
            let url = match (text(source, "data"), text(source, "url")) {
                (Some(bytes), _) if text(source, "type") != Some("text") => {
                    data(mime.as_deref().unwrap_or("application/octet-stream"), bytes)
                }
                (Some(words), _) => Some(Text::from(format!("data:text/plain,{words}"))),
                (None, url) => url.map(Text::from),
            };
            Some(FilePart { mime, filename: string(block, "title"), url })
        }
        "image_url" | "input_image" => {
            let url = block.get("image_url")?;
            let url = text(url, "url").or(url.as_str())?;
            let mime = url.strip_prefix("data:").and_then(|rest| rest.split([';', ',']).next());
            let mime = mime.unwrap_or("image/*").to_owned();
            Some(FilePart { mime: Some(mime), filename: None, url: Some(Text::from(url)) })
        }
        "file" | "input_file" => {
            let file = block.get("file").unwrap_or(block);
            let url = text(file, "file_data").or_else(|| text(file, "url"));
            let mime = string(file, "mime");
            Some(FilePart { mime, filename: string(file, "filename"), url: url.map(Text::from) })
        }
        _ => None,
    }
}

/// Anthropic's usage.
pub(crate) fn anthropic_usage(usage: &Value) -> Usage {
    let number = |key: &str| Tokens(usage.get(key).and_then(Value::as_u64).unwrap_or(0));
    let mut tokens = Usage::new(number("input_tokens"), number("output_tokens"));
    tokens.cache_read = number("cache_read_input_tokens");
    tokens.cache_write = number("cache_creation_input_tokens");
    tokens
}

/// Why the model stopped, in OpenCode's words.
pub(crate) fn finish(reason: &str) -> &str {
    match reason {
        "end_turn" | "stop_sequence" | "stop" => "stop",
        "tool_use" | "tool_calls" | "toolUse" | "function_call" => "tool-calls",
        "max_tokens" | "length" => "length",
        "refusal" | "content_filter" => "content-filter",
        other => other,
    }
}

/// A string of JSON as its value; what is no JSON stays a string.
pub(crate) fn arguments(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// Put a block of the model into the message at `place`. Gives the kind back if it is not known.
pub(crate) fn spoken(log: &mut Assembly, place: usize, mut block: Value) -> Result<(), String> {
    let kind = string(&block, "type").unwrap_or_default();
    match kind.as_str() {
        "text" | "output_text" => log.text(place, take_text(&mut block, "text")),
        "thinking" => {
            let signature = text(&block, "signature");
            let metadata = signature.map(|signature| json!({ "anthropic": { "signature": signature } }));
            log.reasoning(place, take_text(&mut block, "thinking"), metadata);
        }
        "redacted_thinking" => {
            let metadata = json!({ "anthropic": { "redactedData": take(&mut block, "data") } });
            log.reasoning(place, "", Some(metadata));
        }
        "tool_use" | "server_tool_use" => {
            let id = string(&block, "id");
            let tool = take_text(&mut block, "name");
            log.call(place, id.as_deref(), &tool, take(&mut block, "input"));
        }
        // The provider's own tools answer in the same message.
        _ if kind.ends_with("_tool_result") => {
            let call = take_text(&mut block, "tool_use_id");
            let (text, attachments) = flatten(take(&mut block, "content"));
            log.answer_or_keep(&call, Answer { text, attachments, ..Answer::default() }, |_| place);
        }
        _ => match file(&block) {
            Some(file) => log.file(place, file),
            None => return Err(kind),
        },
    }
    Ok(())
}

/// A tool's structured result, if it is worth its place: it repeats the output at length more often than not.
pub(crate) fn small(structured: Value) -> Value {
    if structured.is_object() && is_small(&structured, SMALL) { structured } else { Value::Null }
}

/// The answer in a `tool_result` block, with the call it answers.
pub(crate) fn tool_result(mut block: Value, at: Option<Millis>, structured: Value) -> (String, Answer) {
    let (text, attachments) = flatten(take(&mut block, "content"));
    let is_error = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    let mut extra = Map::new();
    if !structured.is_null() {
        extra.insert("toolUseResult".into(), structured);
    }
    (take_text(&mut block, "tool_use_id"), Answer { text, is_error, attachments, at, extra })
}
