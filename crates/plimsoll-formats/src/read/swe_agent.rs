//! SWE-agent's trajectories.
//!
//! The `history` is what the model received. If the model does not call tools but writes its command as text, the
//! command becomes a call, and the observation that follows becomes its result.

use plimsoll::Role;
use plimsoll::log::At;
use serde_json::json;

use super::{Sink, openai};
use crate::assembly::{Answer, Assembly};
use crate::blocks::flatten;
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
    transcript.info.title = log.field_errors.string(outline, &At::Root, "environment");
    if let Some(Json::Raw(about)) = outline.get("info") {
        let (about, at) = (Json::parse(about).unwrap_or_default(), At::Key(&At::Root, "info"));
        if !matches!(about, Json::Null) && log.field_errors.is_object(&about, &at) {
            transcript.info.version = log.field_errors.string(&about, &at, "swe_agent_version");
        }
    }
    log.settle(&mut transcript.notes);
    let length = |key: &str| outline.get(key).and_then(Json::as_list).map_or(0, <[Json]>::len);
    if length("history") > 0 {
        // The steps repeat the history and, in addition, contain the request of each call.
        (0..length("trajectory")).for_each(|_| transcript.pass("trajectory step"));
        let list = document.list("history");
        document.each(transcript.format, "history", |position, message| {
            log.record(position, 0, position, None);
            self::message(&mut log, message, &At::Index(&list, position), transcript);
            log.settle(&mut transcript.notes);
            Ok(())
        })?;
    } else {
        let list = document.list("trajectory");
        document.each(transcript.format, "trajectory", |position, mut step| {
            log.record(position, 0, position, None);
            let at = At::Index(&list, position);
            if log.field_errors.is_object(&step, &at) {
                acted(&mut log, &mut step, &at);
                observed(&mut log, step.take("observation"));
            }
            log.settle(&mut transcript.notes);
            Ok(())
        })?;
    }
    log.finish();
    Ok(())
}

fn message(log: &mut Assembly, mut message: Json, at: &At, transcript: &mut Transcript) {
    let calls = message.get("tool_calls").and_then(Json::as_list).is_some_and(|calls| !calls.is_empty());
    let is_blank = |action: &Json| action.as_str().is_some_and(|action| action.trim().is_empty());
    let action = message.get("action").filter(|action| !matches!(action, Json::Null) && !is_blank(action));
    let acts = !calls && action.is_some();
    match message.text("role") {
        Some("assistant") if acts => acted(log, &mut message, at),
        Some("user") if log.waiting().is_some() => observed(log, message.take("content")),
        _ => openai::message(log, message, at, transcript, &mut openai::Joins::default()),
    }
}

/// Adds a thought, and the command that follows from it.
fn acted(log: &mut Assembly, step: &mut Json, at: &At) {
    let place = log.begin(Role::Assistant, None, None);
    let [action, mut thought] = ["action", "thought"].map(|key| log.field_errors.take_words(step, at, key));
    let action = action.trim();
    if thought.is_empty() && action.is_empty() {
        let said = ["content", "response"].map(|key| log.field_errors.take_words(step, at, key));
        thought = said.into_iter().find(|said| !said.is_empty()).unwrap_or_default();
    }
    log.text(place, thought);
    if !action.is_empty() {
        let tool = action.split_whitespace().next().unwrap_or_default();
        log.call(place, None, tool, json!({ "command": action }));
    }
}

fn observed(log: &mut Assembly, observation: Json) {
    let (text, attachments) = flatten(observation);
    match log.waiting() {
        Some(call) => {
            // The call is waiting, so it takes the result.
            let _ = log.answer(&call, Answer { text, attachments, ..Answer::default() });
        }
        None if text.is_empty() => {}
        None => {
            let place = log.begin(Role::User, None, None);
            log.text(place, text);
        }
    }
}
