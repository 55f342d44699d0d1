//! Content blocks as Anthropic and OpenAI write them, and what becomes of them.

use std::borrow::Cow;

use plimsoll::log::{At, FilePart};
use plimsoll::{Millis, Text, Tokens, Usage};
use serde_json::{Map, Value, json};

use crate::assembly::{Answer, Assembly};
use crate::file_text::words_of;
use crate::json::Json;
use crate::misfits::Misfits;

/// How many bytes of a tool's structured result are kept beside the output the model was shown.
const SMALL: usize = 2_000;

/// What Anthropic's blocks are known by, where they do not say.
const SHAPES: [(&str, &str); 4] =
    [("tool_use_id", "tool_result"), ("input", "tool_use"), ("thinking", "thinking"), ("text", "text")];

/// Content as a list of blocks, whether it came as one or as a text. Of what is neither the JSON becomes a text.
pub(crate) fn blocks<'a>(content: Json<'a>, misfits: &mut Misfits, at: &At) -> Vec<Json<'a>> {
    match content {
        Json::Null => Vec::new(),
        text @ Json::Text(_) => vec![text_block(text)],
        Json::List(items) if items.iter().all(Json::is_object) => items,
        Json::List(items) => {
            let read = items.into_iter().enumerate().filter_map(|(index, item)| {
                let at = &At::Index(at, index);
                match item {
                    block @ Json::Object(_) => Some(block),
                    Json::Null => misfits.is_object(&Json::Null, at).then_some(Json::Null),
                    other => Some(text_block(Json::Text(misfits.as_text(other, at, "an object").into()))),
                }
            });
            read.collect()
        }
        block @ Json::Object(_) => {
            misfits.alone(&block, at);
            vec![block]
        }
        other => vec![text_block(Json::Text(misfits.as_text(other, at, "a string or a list").into()))],
    }
}

fn text_block(text: Json) -> Json {
    let kind = Json::Text(Cow::Borrowed("text"));
    Json::Object(vec![(Cow::Borrowed("type"), kind), (Cow::Borrowed("text"), text)])
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
                // Nothing is known about this block, but the model was shown it.
                texts.push(Cow::Owned(block.into_value().to_string()));
            }
        }
        other => texts.push(Cow::Owned(other.into_value().to_string())),
    }
}

/// The file in a block, in any of the ways providers write one. One whose content cannot be read is none.
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
            // pi writes the data beside the type, Anthropic puts it under `source`.
            let source = block.get("source").unwrap_or(block);
            let mime = ["media_type", "mimeType", "mediaType"].into_iter().find_map(|key| source.string(key));
            let url = match (source.text("data"), source.text("url")) {
                (Some(bytes), _) if source.text("type") != Some("text") => {
                    data(mime.as_deref().unwrap_or("application/octet-stream"), bytes)
                }
                (Some(words), _) => Some(Text::from(format!("data:text/plain,{words}"))),
                // A document may be given as blocks of its own.
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
            // Cline writes the words of a file beside its path.
            let words = file.text("content").map(|words| format!("data:text/plain,{words}"));
            let mime = file.string("mime").or_else(|| words.as_ref().map(|_| "text/plain".to_owned()));
            let filename = file.string("filename").or_else(|| file.string("path"));
            Some(FilePart { mime, filename, url: url.map(Text::from).or(words.map(Text::from)) })
        }
        _ => None,
    }
}

/// Anthropic's usage.
pub(crate) fn anthropic_usage(usage: &Json, misfits: &mut Misfits, at: &At) -> Usage {
    let mut number = |key: &str| Tokens(misfits.number(usage, at, key).unwrap_or(0));
    let mut tokens = Usage::new(number("input_tokens"), number("output_tokens"));
    tokens.cache_read = number("cache_read_input_tokens");
    tokens.cache_write = number("cache_creation_input_tokens");
    if let Some(written) = misfits.object(usage, at, "cache_creation") {
        let at = &At::Key(at, "cache_creation");
        let mut number = |key: &str| Tokens(misfits.number(written, at, key).unwrap_or(0));
        let (minutes, hour) = (number("ephemeral_5m_input_tokens"), number("ephemeral_1h_input_tokens"));
        tokens.cache_write = tokens.cache_write.max(minutes + hour);
        tokens.cache_write_hour = hour;
    }
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
pub(crate) fn push_assistant_block(
    log: &mut Assembly,
    place: usize,
    mut block: Json,
    at: &At,
) -> Result<(), String> {
    let kind = log.misfits.kind(&block, at, "type", &SHAPES).unwrap_or_default().to_owned();
    match kind.as_str() {
        "text" | "output_text" => {
            let text = log.misfits.take_words(&mut block, at, "text");
            log.text(place, text);
        }
        "thinking" => {
            let signature = log.misfits.text(&block, at, "signature");
            let metadata = signature.map(|signature| json!({ "anthropic": { "signature": signature } }));
            let text = log.misfits.take_words(&mut block, at, "thinking");
            log.reasoning(place, text, metadata);
        }
        "redacted_thinking" => {
            let metadata = json!({ "anthropic": { "redactedData": block.take("data").into_value() } });
            log.reasoning(place, "", Some(metadata));
        }
        "tool_use" | "server_tool_use" => {
            let input = block.take("input").into_value();
            let id = log.misfits.text(&block, at, "id");
            let name = log.misfits.text(&block, at, "name").unwrap_or_default();
            log.call(place, id, name, input);
        }
        // The provider's own tools answer in the same message.
        kind if kind.ends_with("_tool_result") => {
            let (text, attachments) = flatten(block.take("content"));
            let call = log.misfits.text(&block, at, "tool_use_id").unwrap_or_default();
            log.answer_or_keep(call, Answer { text, attachments, ..Answer::default() }, |_| place);
        }
        _ => match file(&block) {
            Some(file) => log.file(place, file),
            None => return Err(kind),
        },
    }
    Ok(())
}

/// A block of a user's message, and what is known about it besides.
pub(crate) struct UserBlock<'a> {
    pub(crate) block: Json<'a>,
    /// When it was said.
    pub(crate) time: Option<Millis>,
    /// The host wrote it, not a person.
    pub(crate) is_synthetic: bool,
    /// What a tool gave the host; the first result takes it.
    pub(crate) structured: Option<&'a mut Value>,
}

/// Put a block of the user where it belongs: a result goes to its call, everything else into the message that `begin`
/// begins or has begun. Gives the kind back if it is not known.
pub(crate) fn push_user_block(
    log: &mut Assembly,
    UserBlock { mut block, time, is_synthetic, structured }: UserBlock,
    at: &At,
    mut begin: impl FnMut(&mut Assembly) -> usize,
) -> Result<(), String> {
    match log.misfits.kind(&block, at, "type", &SHAPES) {
        Some("tool_result") => {
            let structured = structured.map(Value::take).unwrap_or_default();
            let (call, answer) = tool_result(block, time, structured, &mut log.misfits, at);
            log.answer_or_keep(&call, answer, begin);
        }
        Some("text") => {
            let place = begin(log);
            let text = log.misfits.take_words(&mut block, at, "text");
            log.said(place, text, is_synthetic);
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
fn tool_result(
    mut block: Json,
    time: Option<Millis>,
    structured: Value,
    misfits: &mut Misfits,
    at: &At,
) -> (String, Answer) {
    let (text, attachments) = flatten(block.take("content"));
    let is_error = misfits.is(&block, at, "is_error");
    let mut extra = Map::new();
    if !structured.is_null() {
        extra.insert("toolUseResult".into(), structured);
    }
    let call = misfits.string(&block, at, "tool_use_id").unwrap_or_default();
    (call, Answer { text, is_error, attachments, at: time, extra })
}
