//! Content blocks as Anthropic and OpenAI write them, and what becomes of them.

use std::borrow::Cow;

use plimsoll::log::FilePart;
use plimsoll::{Millis, Text, Tokens, Usage};
use serde_json::{Map, Value, json};

use crate::assembly::{Answer, Assembly};
use crate::json::Json;

/// How many bytes of a tool's structured result are kept beside the output the model was shown.
const SMALL: usize = 2_000;

/// Content as a list of blocks, whether it came as one or as a text.
pub(crate) fn blocks(content: Json) -> Result<Vec<Json>, String> {
    match content {
        Json::Null => Ok(Vec::new()),
        text @ Json::Text(_) => {
            let kind = Json::Text(Cow::Borrowed("text"));
            Ok(vec![Json::Object(vec![(Cow::Borrowed("type"), kind), (Cow::Borrowed("text"), text)])])
        }
        Json::List(items) => Ok(items),
        other => Err(format!("`content`: expected a string or a list, found {}", other.describe())),
    }
}

/// The texts of some content, joined by newlines, and the files in it.
pub(crate) fn flatten(content: Json) -> (String, Vec<Value>) {
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    gather(content, &mut texts, &mut files);
    // The common case is one text, which need not be copied.
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
                files.push(json!({
                    "type": "file", "mime": file.mime, "filename": file.filename,
                    "url": file.url.as_ref().map(Text::as_str),
                }));
            } else if let Some(key) = ["text", "content"].into_iter().find(|key| block.get(key).is_some()) {
                gather(block.take(key), texts, files);
            } else {
                // Nothing is known about this block, but the model was shown it.
                texts.push(Cow::Owned(block.into_value().to_string()));
            }
        }
        other => texts.push(Cow::Owned(other.into_value().to_string())),
    }
}

/// The file in a block, in any of the ways providers write one.
pub(crate) fn file(block: &Json) -> Option<FilePart> {
    let data = |mime: &str, data: &str| Some(Text::from(format!("data:{mime};base64,{data}")));
    match block.text("type")? {
        "image" | "document" => {
            // pi writes the data beside the type, Anthropic puts it under `source`.
            let source = block.get("source").unwrap_or(block);
            let mime = source.string("media_type").or_else(|| source.string("mimeType"));
            let url = match (source.text("data"), source.text("url")) {
                (Some(bytes), _) if source.text("type") != Some("text") => {
                    data(mime.as_deref().unwrap_or("application/octet-stream"), bytes)
                }
                (Some(words), _) => Some(Text::from(format!("data:text/plain,{words}"))),
                (None, url) => url.map(Text::from),
            };
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
            let mime = file.string("mime");
            Some(FilePart { mime, filename: file.string("filename"), url: url.map(Text::from) })
        }
        _ => None,
    }
}

/// Anthropic's usage.
pub(crate) fn anthropic_usage(usage: &Json) -> Usage {
    let number = |key: &str| Tokens(usage.number(key).unwrap_or(0));
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

/// What a tool was given: a string of JSON as its value, a blank one as nothing; what is no JSON stays a string.
pub(crate) fn arguments(given: Json) -> Value {
    match given {
        Json::Text(text) if text.trim().is_empty() => json!({}),
        Json::Text(text) => serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned())),
        other => other.into_value(),
    }
}

/// Put a block of the model into the message at `place`. Gives the kind back if it is not known.
pub(crate) fn spoken(log: &mut Assembly, place: usize, mut block: Json) -> Result<(), String> {
    match block.text("type").unwrap_or_default() {
        "text" | "output_text" => log.text(place, block.take_text("text")),
        "thinking" => {
            let signature = block.text("signature");
            let metadata = signature.map(|signature| json!({ "anthropic": { "signature": signature } }));
            log.reasoning(place, block.take_text("thinking"), metadata);
        }
        "redacted_thinking" => {
            let metadata = json!({ "anthropic": { "redactedData": block.take("data").into_value() } });
            log.reasoning(place, "", Some(metadata));
        }
        "tool_use" | "server_tool_use" => {
            let input = block.take("input").into_value();
            log.call(place, block.text("id"), block.text("name").unwrap_or_default(), input);
        }
        // The provider's own tools answer in the same message.
        kind if kind.ends_with("_tool_result") => {
            let (text, attachments) = flatten(block.take("content"));
            let call = block.text("tool_use_id").unwrap_or_default();
            log.answer_or_keep(call, Answer { text, attachments, ..Answer::default() }, |_| place);
        }
        kind => match file(&block) {
            Some(file) => log.file(place, file),
            None => return Err(kind.to_owned()),
        },
    }
    Ok(())
}

/// A tool's structured result, if it is worth its place: it repeats the output at length more often than not.
pub(crate) fn small(structured: &Json) -> Value {
    match structured {
        Json::Raw(raw) if raw.len() <= SMALL && raw.starts_with('{') => {
            serde_json::from_str(raw).unwrap_or_default()
        }
        _ => Value::Null,
    }
}

/// The answer in a `tool_result` block, with the call it answers.
pub(crate) fn tool_result(mut block: Json, at: Option<Millis>, structured: Value) -> (String, Answer) {
    let (text, attachments) = flatten(block.take("content"));
    let is_error = block.is("is_error");
    let mut extra = Map::new();
    if !structured.is_null() {
        extra.insert("toolUseResult".into(), structured);
    }
    (block.take_text("tool_use_id"), Answer { text, is_error, attachments, at, extra })
}
