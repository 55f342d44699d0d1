//! Cline's and Roo's conversations: Anthropic's messages, with the time, the model and the usage beside each.
//!
//! Both keep `api_conversation_history.json`, a list; newer versions of Cline keep an object about the session with
//! the list in it.

use std::borrow::Cow;

use plimsoll::log::{At, CompactionPart};
use plimsoll::{Millis, Role, Tokens, Usage};
use serde_json::{Number, Value, json};

use super::Sink;
use super::openai::Joins;
use crate::assembly::{Assembly, Compaction};
use crate::blocks::{SHAPES, blocks, file, flatten, spoken, tool_result};
use crate::document::Document;
use crate::error::FormatError;
use crate::json::{Json, Take};
use crate::misfits::Misfits;
use crate::transcript::{Chain, Transcript};

pub(super) fn read(document: &Document, transcript: &mut Transcript, sink: Sink) -> Result<(), FormatError> {
    let mut header = document.header(|_, depth, key| match key {
        "messages" if depth == 0 => Take::Skip,
        _ => Take::Whole,
    })?;
    let mut sink = |message| sink(Chain::Main, message);
    let mut log = Assembly::new(&mut sink, usize::MAX);
    transcript.info.id = log.misfits.string(&header, &At::Root, "sessionId");
    transcript.info.seen(log.misfits.time(&header, &At::Root, "updated_at"));
    log.session(transcript.info.id.as_deref());
    let prompt = log.misfits.take_words(&mut header, &At::Root, "system_prompt");
    if !prompt.is_empty() {
        let place = log.begin(Role::System, None, None);
        log.text(place, prompt);
    }
    log.settle(&mut transcript.notes);
    let list = document.list("messages");
    let mut joins = Joins::default();
    document.each(transcript.format, "messages", |position, message| {
        log.record(position, 0, position, joins.open());
        self::message(&mut log, message, &At::Index(&list, position), transcript, &mut joins);
        log.settle(&mut transcript.notes);
        Ok(())
    })?;
    log.finish();
    Ok(())
}

fn message(log: &mut Assembly, mut message: Json, at: &At, transcript: &mut Transcript, joins: &mut Joins) {
    if !log.misfits.is_object(&message, at) {
        return;
    }
    let time = log.misfits.time(&message, at, "ts");
    transcript.info.seen(time);
    let id = log.misfits.string(&message, at, "id");
    if log.misfits.is(&message, at, "isTruncationMarker") {
        return transcript.pass("truncation marker");
    }
    let shapes = [("modelInfo", "assistant"), ("metrics", "assistant")];
    let role = log.misfits.kind(&message, at, "role", &shapes).map(str::to_owned);
    let inside = At::Key(at, "content");
    let content = blocks(message.take("content"), &mut log.misfits, &inside);
    // Roo summarises what came before and goes on behind the summary.
    if log.misfits.is(&message, at, "isSummary") {
        joins.end();
        let (text, _) = flatten(Json::List(content));
        let marker = id.as_ref().map(|id| format!("{id}.marker"));
        let part = CompactionPart::default();
        return log.compaction(Compaction { marker, summary: id, at: time, text, part });
    }
    match role.as_deref() {
        Some("assistant") => {
            let model = log.misfits.object(&message, at, "modelInfo").and_then(|about| {
                let at = &At::Key(at, "modelInfo");
                log.misfits.string(about, at, "id").or_else(|| log.misfits.string(about, at, "modelId"))
            });
            transcript.info.model = model.clone().or(transcript.info.model.take());
            let place = joins.place(log, id, model.as_deref(), time);
            let usage = log.misfits.object(&message, at, "metrics");
            let usage = usage.map(|usage| usage_of(usage, &mut log.misfits, &At::Key(at, "metrics")));
            let info = log.info(place);
            info.model_id = model.or(info.model_id.take());
            if let Some((tokens, cost)) = usage {
                (info.tokens, info.cost) = (tokens.or(info.tokens.take()), cost);
            }
            assistant(log, place, (message, content), at, transcript);
        }
        Some("user") | None => {
            joins.end();
            user(log, (role.map(|_| Role::User), id, time), content, &inside, transcript);
        }
        Some("system") => {
            joins.end();
            let place = log.begin(Role::System, id, time);
            log.text(place, flatten(Json::List(content)).0);
        }
        Some(other) => transcript.skip(format!("message of role {other}")),
    }
}

fn assistant(
    log: &mut Assembly,
    place: usize,
    (mut message, content): (Json, Vec<Json>),
    at: &At,
    transcript: &mut Transcript,
) {
    for key in ["reasoning_content", "text"] {
        let words = log.misfits.take_words(&mut message, at, key);
        log.reasoning(place, words, None);
    }
    // Roo keeps what only the provider can read as a message of its own.
    if message.text("type") == Some("reasoning") {
        let summary = flatten(message.take("summary")).0;
        let sealed = log.misfits.string(&message, at, "encrypted_content");
        let metadata = sealed.map(|sealed| json!({ "openai": { "reasoningEncryptedContent": sealed } }));
        log.reasoning(place, summary, metadata);
    }
    let inside = At::Key(at, "content");
    for (index, block) in content.into_iter().enumerate() {
        let at = &At::Index(&inside, index);
        let block = as_shown(block, &mut log.misfits, at);
        if let Err(kind) = spoken(log, place, block, at) {
            transcript.skip(format!("assistant block {kind}"));
        }
    }
}

/// What the user says and what tools answer.
fn user(
    log: &mut Assembly,
    (role, id, time): (Option<Role>, Option<String>, Option<Millis>),
    content: Vec<Json>,
    inside: &At,
    transcript: &mut Transcript,
) {
    let mut place = None;
    let mut here =
        |log: &mut Assembly| *place.get_or_insert_with(|| log.begin(role.clone(), id.clone(), time));
    for (index, block) in content.into_iter().enumerate() {
        let at = &At::Index(inside, index);
        let is_file = is_file(&block);
        let mut block = as_shown(block, &mut log.misfits, at);
        match log.misfits.kind(&block, at, "type", &SHAPES) {
            Some("tool_result") => {
                let content = match block.take("content") {
                    Json::List(items) => {
                        let list = At::Key(at, "content");
                        let items = items
                            .into_iter()
                            .enumerate()
                            .map(|(index, item)| as_shown(item, &mut log.misfits, &At::Index(&list, index)));
                        Json::List(items.collect())
                    }
                    other => other,
                };
                block.set("content", content);
                let (call, answer) = tool_result(block, time, Value::Null, &mut log.misfits, at);
                log.answer_or_keep(&call, answer, &mut here);
            }
            Some("text") => {
                let place = here(log);
                let text = log.misfits.take_words(&mut block, at, "text");
                log.said(place, text, is_file);
            }
            kind => match file(&block) {
                Some(file) => {
                    let place = here(log);
                    log.file(place, file);
                }
                None => transcript.skip(format!("user block {}", kind.unwrap_or("without type"))),
            },
        }
    }
}

/// Whether a block is a file that was mentioned, or has its fields and does not say what it is.
fn is_file(block: &Json) -> bool {
    let is_named = matches!(block.get("type"), Some(Json::Text(kind)) if !kind.is_empty());
    let has_words = block.get("path").is_some() && block.get("content").is_some();
    block.text("type") == Some("file") && block.get("content").is_some() || !is_named && has_words
}

/// A file that was mentioned is given to the model as text, with its path around it.
fn as_shown<'a>(mut block: Json<'a>, misfits: &mut Misfits, at: &At) -> Json<'a> {
    if !is_file(&block) {
        return block;
    }
    misfits.kind(&block, at, "type", &[("path", "file")]);
    let [path, words] = ["path", "content"].map(|key| misfits.take_words(&mut block, at, key));
    let text = format!("<file_content path=\"{path}\">\n{words}\n</file_content>");
    Json::Object(vec![
        (Cow::Borrowed("type"), Json::Text(Cow::Borrowed("text"))),
        (Cow::Borrowed("text"), Json::Text(Cow::Owned(text))),
    ])
}

/// Usage as Cline counts it: what was read from and written to the cache is part of the input.
fn usage_of(metrics: &Json, misfits: &mut Misfits, at: &At) -> (Option<Usage>, Option<Number>) {
    let cost = misfits.any_number(metrics, at, "cost");
    if let Some(tokens) = misfits.object(metrics, at, "tokens") {
        let at = &At::Key(at, "tokens");
        let mut number = |key: &str| Tokens(misfits.number(tokens, at, key).unwrap_or(0));
        let cached = number("cached");
        let mut usage = Usage::new(number("prompt") - cached, number("completion"));
        usage.cache_read = cached;
        return (Some(usage), cost);
    }
    let mut number = |key: &str| misfits.number(metrics, at, key).map(Tokens);
    let (read, written) = (number("cacheReadTokens"), number("cacheWriteTokens"));
    let (input, output) = (number("inputTokens"), number("outputTokens"));
    if input.is_none() && output.is_none() {
        return (None, cost);
    }
    let (read, written) = (read.unwrap_or_default(), written.unwrap_or_default());
    let mut usage = Usage::new(input.unwrap_or_default() - read - written, output.unwrap_or_default());
    (usage.cache_read, usage.cache_write) = (read, written);
    (Some(usage), cost)
}
