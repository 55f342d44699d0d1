//! A request to Anthropic's Messages API.

use plimsoll::log::At;
use plimsoll::{Millis, Role};

use super::Sink;
use super::openai::Joins;
use crate::assembly::Assembly;
use crate::blocks::{UserBlock, anthropic_usage, blocks, flatten, push_assistant_block, push_user_block};
use crate::document::Document;
use crate::error::FormatError;
use crate::json::Json;
use crate::transcript::{Chain, Transcript};

pub(super) fn read(
    document: &Document,
    outline: &Json,
    transcript: &mut Transcript,
    sink: Sink,
) -> Result<(), FormatError> {
    let mut sink = |message| sink(Chain::Main, message);
    let mut log = Assembly::new(&mut sink, usize::MAX);
    transcript.info.model = log.field_errors.string(outline, &At::Root, "model");
    let system = match outline.get("system") {
        Some(Json::Raw(system)) => {
            let system = Json::parse(system).unwrap_or_default();
            let system = blocks(system, &mut log.field_errors, &At::Key(&At::Root, "system"));
            flatten(Json::List(system)).0
        }
        _ => String::new(),
    };
    read_messages(document, transcript, log, system, message)
}

/// Reads a system prompt and the list `messages` of a document, each message with `message`.
pub(super) fn read_messages(
    document: &Document,
    transcript: &mut Transcript,
    mut log: Assembly,
    system: String,
    message: fn(&mut Assembly, Json, &At, &mut Transcript, &mut Joins),
) -> Result<(), FormatError> {
    if !system.is_empty() {
        let place = log.begin(Role::System, None, None);
        log.text(place, system);
    }
    log.settle(&mut transcript.notes);
    let list = document.list("messages");
    let mut joins = Joins::default();
    document.each(transcript.format, "messages", |position, json| {
        log.record(position, 0, position, joins.open());
        message(&mut log, json, &At::Index(&list, position), transcript, &mut joins);
        log.settle(&mut transcript.notes);
        Ok(())
    })?;
    log.finish();
    Ok(())
}

/// Adds the model's content to the message at `place`. Unknown kinds of blocks are counted.
pub(super) fn push_assistant<'a>(
    log: &mut Assembly,
    place: usize,
    content: impl IntoIterator<Item = Json<'a>>,
    inside: &At,
    transcript: &mut Transcript,
) {
    for (index, block) in content.into_iter().enumerate() {
        if let Err(kind) = push_assistant_block(log, place, block, &At::Index(inside, index)) {
            transcript.skip(format!("assistant block {kind}"));
        }
    }
}

/// Context of a user message.
pub(super) struct UserMessage {
    pub(super) role: Option<Role>,
    pub(super) id: Option<String>,
    pub(super) time: Option<Millis>,
}

/// Adds the content of a user message: text, and results of tools. The flag of each block says whether the host wrote
/// it. Unknown kinds of blocks are counted.
pub(super) fn push_user<'a>(
    log: &mut Assembly,
    UserMessage { role, id, time }: UserMessage,
    content: impl IntoIterator<Item = (Json<'a>, bool)>,
    inside: &At,
    transcript: &mut Transcript,
) {
    // A message with only results does not become a message in the log.
    let mut place = None;
    let mut here =
        |log: &mut Assembly| *place.get_or_insert_with(|| log.begin(role.clone(), id.clone(), time));
    for (index, (block, is_synthetic)) in content.into_iter().enumerate() {
        let block = UserBlock { block, time, is_synthetic, structured: None };
        if let Err(kind) = push_user_block(log, block, &At::Index(inside, index), &mut here) {
            transcript.skip(format!("user block {kind}"));
        }
    }
}

/// Returns the role of a message without one: only models call tools, and only users have results.
fn role<'j>(log: &mut Assembly, message: &'j Json, at: &At) -> Option<&'j str> {
    let blocks = message.get("content").and_then(Json::as_list).unwrap_or_default();
    let has = |kind| blocks.iter().any(|block| block.text("type") == Some(kind));
    let shapes: &[_] = match (has("tool_use"), has("tool_result")) {
        (true, _) => &[("content", "assistant")],
        (_, true) => &[("content", "user")],
        _ => &[],
    };
    log.field_errors.kind(message, at, "role", shapes)
}

fn message(log: &mut Assembly, mut message: Json, at: &At, transcript: &mut Transcript, joins: &mut Joins) {
    if !log.field_errors.is_object(&message, at) {
        return;
    }
    // Requests have no times, but messages that were copied from a transcript may have.
    let time = log.field_errors.time(&message, at, "timestamp");
    transcript.info.note_time(time);
    let role = role(log, &message, at).map(str::to_owned);
    let inside = At::Key(at, "content");
    let content = blocks(message.take("content"), &mut log.field_errors, &inside);
    let id = log.field_errors.string(&message, at, "id");
    match role.as_deref() {
        Some("assistant") => {
            let model =
                log.field_errors.string(&message, at, "model").or_else(|| transcript.info.model.clone());
            let place = joins.place(log, id, model.as_deref(), time);
            log.info(place).model_id.clone_from(&model);
            transcript.info.model = model;
            if let Some(usage) = log.field_errors.object(&message, at, "usage") {
                let usage = anthropic_usage(usage, &mut log.field_errors, &At::Key(at, "usage"));
                log.info(place).tokens = Some(usage);
            }
            push_assistant(log, place, content, &inside, transcript);
        }
        Some("user") | None => {
            joins.end();
            let about = UserMessage { role: role.map(|_| Role::User), id, time };
            let content = content.into_iter().map(|block| (block, false));
            push_user(log, about, content, &inside, transcript);
        }
        Some("system") => {
            joins.end();
            let place = log.begin(Role::System, id, time);
            log.text(place, flatten(Json::List(content)).0);
        }
        Some(other) => transcript.skip(format!("message of role {other}")),
    }
}
