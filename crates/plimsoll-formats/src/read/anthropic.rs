//! A request to Anthropic's Messages API.

use plimsoll::Role;
use plimsoll::log::At;
use serde_json::Value;

use super::Sink;
use super::openai::Joins;
use crate::assembly::Assembly;
use crate::blocks::{SHAPES, anthropic_usage, blocks, file, flatten, spoken, tool_result};
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
    if let Some(Json::Raw(system)) = outline.get("system") {
        let system = Json::parse(system).unwrap_or_default();
        let system = blocks(system, &mut log.misfits, &At::Key(&At::Root, "system"));
        let (system, _) = flatten(Json::List(system));
        if !system.is_empty() {
            let place = log.begin(Role::System, None, None);
            log.text(place, system);
        }
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
            for (index, block) in content.into_iter().enumerate() {
                if let Err(kind) = spoken(log, place, block, &At::Index(&inside, index)) {
                    transcript.skip(format!("assistant block {kind}"));
                }
            }
        }
        Some("user") | None => {
            joins.end();
            let role = role.map(|_| Role::User);
            let mut place = None;
            let mut here =
                |log: &mut Assembly| *place.get_or_insert_with(|| log.begin(role.clone(), id.clone(), time));
            for (index, mut block) in content.into_iter().enumerate() {
                let at = &At::Index(&inside, index);
                match log.misfits.kind(&block, at, "type", &SHAPES) {
                    Some("tool_result") => {
                        let (call, answer) = tool_result(block, time, Value::Null, &mut log.misfits, at);
                        log.answer_or_keep(&call, answer, &mut here);
                    }
                    Some("text") => {
                        let place = here(log);
                        let text = log.misfits.take_words(&mut block, at, "text");
                        log.text(place, text);
                    }
                    kind => match file(&block) {
                        Some(file) => {
                            let place = here(log);
                            log.file(place, file);
                        }
                        None => {
                            transcript.skip(format!("user block {}", kind.unwrap_or("without type")));
                        }
                    },
                }
            }
        }
        Some("system") => {
            joins.end();
            let place = log.begin(Role::System, id, time);
            log.text(place, flatten(Json::List(content)).0);
        }
        Some(other) => transcript.skip(format!("message of role {other}")),
    }
}
