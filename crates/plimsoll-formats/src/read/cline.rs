//! Cline's and Roo's conversations: Anthropic's messages, each with its time, model and usage.
//!
//! Both write `api_conversation_history.json`, a list; newer versions of Cline write an object with metadata and the
//! list.

use std::borrow::Cow;

use plimsoll::log::{At, CompactionPart};
use plimsoll::{Role, Tokens, Usage};
use serde_json::{Number, json};

use super::Sink;
use super::anthropic::{UserMessage, push_assistant, push_user, read_messages};
use super::openai::Joins;
use crate::assembly::{Assembly, Compaction};
use crate::blocks::{blocks, flatten};
use crate::document::Document;
use crate::error::FormatError;
use crate::field_errors::FieldErrors;
use crate::json::{Json, Take};
use crate::transcript::{Chain, Transcript};

pub(super) fn read(document: &Document, transcript: &mut Transcript, sink: Sink) -> Result<(), FormatError> {
    let mut header = document.header(|_, depth, key| match key {
        "messages" if depth == 0 => Take::Skip,
        _ => Take::Whole,
    })?;
    let mut sink = |message| sink(Chain::Main, message);
    let mut log = Assembly::new(&mut sink, usize::MAX);
    transcript.info.id = log.field_errors.string(&header, &At::Root, "sessionId");
    transcript.info.note_time(log.field_errors.time(&header, &At::Root, "updated_at"));
    log.session(transcript.info.id.as_deref());
    let prompt = log.field_errors.take_words(&mut header, &At::Root, "system_prompt");
    read_messages(document, transcript, log, prompt, message)
}

fn message(log: &mut Assembly, mut message: Json, at: &At, transcript: &mut Transcript, joins: &mut Joins) {
    if !log.field_errors.is_object(&message, at) {
        return;
    }
    let time = log.field_errors.time(&message, at, "ts");
    transcript.info.note_time(time);
    let id = log.field_errors.string(&message, at, "id");
    if log.field_errors.is(&message, at, "isTruncationMarker") {
        return transcript.pass("truncation marker");
    }
    let shapes = [("modelInfo", "assistant"), ("metrics", "assistant")];
    let role = log.field_errors.kind(&message, at, "role", &shapes).map(str::to_owned);
    let inside = At::Key(at, "content");
    let content = blocks(message.take("content"), &mut log.field_errors, &inside);
    // Roo summarises what came before and continues after the summary.
    if log.field_errors.is(&message, at, "isSummary") {
        joins.end();
        let (text, _) = flatten(Json::List(content));
        let marker = id.as_ref().map(|id| format!("{id}.marker"));
        let part = CompactionPart::default();
        return log.compaction(Compaction { marker, summary: id, at: time, text, part });
    }
    match role.as_deref() {
        Some("assistant") => {
            let model = log.field_errors.object(&message, at, "modelInfo").and_then(|about| {
                let at = &At::Key(at, "modelInfo");
                log.field_errors
                    .string(about, at, "id")
                    .or_else(|| log.field_errors.string(about, at, "modelId"))
            });
            transcript.info.model = model.clone().or(transcript.info.model.take());
            let place = joins.place(log, id, model.as_deref(), time);
            let usage = log.field_errors.object(&message, at, "metrics");
            let usage = usage.map(|usage| usage_of(usage, &mut log.field_errors, &At::Key(at, "metrics")));
            let info = log.info(place);
            info.model_id = model.or(info.model_id.take());
            if let Some((tokens, cost)) = usage {
                (info.tokens, info.cost) = (tokens.or(info.tokens.take()), cost);
            }
            assistant(log, place, (message, content), at, transcript);
        }
        Some("user") | None => {
            joins.end();
            let about = UserMessage { role: role.map(|_| Role::User), id, time };
            let files: Vec<bool> = content.iter().map(is_file).collect();
            let shown = all_as_shown(content, &mut log.field_errors, &inside);
            push_user(log, about, shown.into_iter().zip(files), &inside, transcript);
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
        let words = log.field_errors.take_words(&mut message, at, key);
        log.reasoning(place, words, None);
    }
    // Roo keeps encrypted reasoning in a separate message.
    if message.text("type") == Some("reasoning") {
        let summary = flatten(message.take("summary")).0;
        let sealed = log.field_errors.string(&message, at, "encrypted_content");
        let metadata = sealed.map(|sealed| json!({ "openai": { "reasoningEncryptedContent": sealed } }));
        log.reasoning(place, summary, metadata);
    }
    let inside = At::Key(at, "content");
    let shown = all_as_shown(content, &mut log.field_errors, &inside);
    push_assistant(log, place, shown, &inside, transcript);
}

/// Returns the blocks as the model saw them.
fn all_as_shown<'a>(content: Vec<Json<'a>>, field_errors: &mut FieldErrors, inside: &At) -> Vec<Json<'a>> {
    let shown = |(index, block)| as_shown(block, field_errors, &At::Index(inside, index));
    content.into_iter().enumerate().map(shown).collect()
}

/// Whether a block is a mentioned file, or has the fields of one without its type.
fn is_file(block: &Json) -> bool {
    let is_named = matches!(block.get("type"), Some(Json::Text(kind)) if !kind.is_empty());
    let has_words = block.get("path").is_some() && block.get("content").is_some();
    block.text("type") == Some("file") && block.get("content").is_some() || !is_named && has_words
}

/// Renders a file as the model sees it: text with its path. Also applies to files in tool results.
fn as_shown<'a>(mut block: Json<'a>, field_errors: &mut FieldErrors, at: &At) -> Json<'a> {
    if !is_file(&block) {
        if block.get("tool_use_id").is_some() && matches!(block.get("content"), Some(Json::List(_))) {
            let Json::List(items) = block.take("content") else { return block };
            let items = all_as_shown(items, field_errors, &At::Key(at, "content"));
            block.set("content", Json::List(items));
        }
        return block;
    }
    field_errors.kind(&block, at, "type", &[("path", "file")]);
    let [path, words] = ["path", "content"].map(|key| field_errors.take_words(&mut block, at, key));
    let text = format!("<file_content path=\"{path}\">\n{words}\n</file_content>");
    Json::Object(vec![
        (Cow::Borrowed("type"), Json::Text(Cow::Borrowed("text"))),
        (Cow::Borrowed("text"), Json::Text(Cow::Owned(text))),
    ])
}

/// Converts Cline's usage, in which cache reads and writes are part of the input.
fn usage_of(metrics: &Json, field_errors: &mut FieldErrors, at: &At) -> (Option<Usage>, Option<Number>) {
    let cost = field_errors.any_number(metrics, at, "cost");
    if let Some(tokens) = field_errors.object(metrics, at, "tokens") {
        let at = &At::Key(at, "tokens");
        let mut number = |key: &str| Tokens(field_errors.number(tokens, at, key).unwrap_or(0));
        let cached = number("cached");
        let mut usage = Usage::new(number("prompt") - cached, number("completion"));
        usage.cache_read = cached;
        return (Some(usage), cost);
    }
    let mut number = |key: &str| field_errors.number(metrics, at, key).map(Tokens);
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
