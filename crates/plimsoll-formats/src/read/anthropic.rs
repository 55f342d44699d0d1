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
    transcript.info.model = log.misfits.string(outline, &At::Root, "model");
    let system = match outline.get("system") {
        Some(Json::Raw(system)) => {
            let system = Json::parse(system).unwrap_or_default();
            let system = blocks(system, &mut log.misfits, &At::Key(&At::Root, "system"));
            flatten(Json::List(system)).0
        }
        _ => String::new(),
    };
    read_messages(document, transcript, log, system, message)
}

/// Read a system prompt and the list `messages` of a document, each of them by `message`.
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

/// Put what the model said into the message at `place`. Blocks of an unknown kind are counted.
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

/// What is known about a message of the user besides its content.
pub(super) struct UserMessage {
    pub(super) role: Option<Role>,
    pub(super) id: Option<String>,
    pub(super) time: Option<Millis>,
}

/// Put what the user says and what tools answer into the log; of each block, whether the host wrote it. Blocks of an
/// unknown kind are counted.
pub(super) fn push_user<'a>(
    log: &mut Assembly,
    UserMessage { role, id, time }: UserMessage,
    content: impl IntoIterator<Item = (Json<'a>, bool)>,
    inside: &At,
    transcript: &mut Transcript,
) {
    // Results alone make no message.
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

/// Who speaks in a message that does not say: only models call tools, and only users answer.
fn role<'j>(log: &mut Assembly, message: &'j Json, at: &At) -> Option<&'j str> {
    let blocks = message.get("content").and_then(Json::as_list).unwrap_or_default();
    let has = |kind| blocks.iter().any(|block| block.text("type") == Some(kind));
    let shapes: &[_] = match (has("tool_use"), has("tool_result")) {
        (true, _) => &[("content", "assistant")],
        (_, true) => &[("content", "user")],
        _ => &[],
    };
    log.misfits.kind(message, at, "role", shapes)
}

fn message(log: &mut Assembly, mut message: Json, at: &At, transcript: &mut Transcript, joins: &mut Joins) {
    if !log.misfits.is_object(&message, at) {
        return;
    }
    // Requests have no times; messages that were copied out of a transcript may have.
    let time = log.misfits.time(&message, at, "timestamp");
    transcript.info.seen(time);
    let role = role(log, &message, at).map(str::to_owned);
    let inside = At::Key(at, "content");
    let content = blocks(message.take("content"), &mut log.misfits, &inside);
    let id = log.misfits.string(&message, at, "id");
    match role.as_deref() {
        Some("assistant") => {
            let model = log.misfits.string(&message, at, "model").or_else(|| transcript.info.model.clone());
            let place = joins.place(log, id, model.as_deref(), time);
            log.info(place).model_id.clone_from(&model);
            transcript.info.model = model;
            if let Some(usage) = log.misfits.object(&message, at, "usage") {
                let usage = anthropic_usage(usage, &mut log.misfits, &At::Key(at, "usage"));
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
