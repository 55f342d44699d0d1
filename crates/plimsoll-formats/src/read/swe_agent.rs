//! SWE-agent's trajectories.
//!
//! The `history` is what the model was given. Where the model does not call tools but writes its command as text,
//! the command becomes a call and the observation that follows its result: that is what they are.

use plimsoll::Role;
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
    transcript.info.title = outline.string("environment");
    if let Some(Json::Raw(about)) = outline.get("info") {
        transcript.info.version = Json::parse(about).unwrap_or_default().string("swe_agent_version");
    }
    let length = |key: &str| outline.get(key).and_then(Json::as_list).map_or(0, <[Json]>::len);
    if length("history") > 0 {
        // The steps repeat the history, and hold the request of each call on top.
        (0..length("trajectory")).for_each(|_| transcript.pass("trajectory step"));
        document.each(transcript.format, "history", |position, message| {
            log.record(position, 0, position, None);
            self::message(&mut log, message, transcript)
        })?;
    } else {
        document.each(transcript.format, "trajectory", |position, mut step| {
            log.record(position, 0, position, None);
            acted(&mut log, &step);
            observed(&mut log, step.take("observation"));
            Ok(())
        })?;
    }
    log.finish();
    Ok(())
}

fn message(log: &mut Assembly, mut message: Json, transcript: &mut Transcript) -> Result<(), String> {
    let calls = message.get("tool_calls").and_then(Json::as_list).is_some_and(|calls| !calls.is_empty());
    let acts = !calls && message.text("action").is_some_and(|action| !action.trim().is_empty());
    match message.text("role") {
        Some("assistant") if acts => acted(log, &message),
        Some("user") if log.waiting().is_some() => observed(log, message.take("content")),
        _ => openai::message(log, message, transcript)?,
    }
    Ok(())
}

/// A thought, and the command that follows from it.
fn acted(log: &mut Assembly, step: &Json) {
    let place = log.begin(Role::Assistant, None, None);
    let action = step.text("action").unwrap_or_default().trim();
    let said = ["content", "response"].into_iter().find_map(|key| step.text(key));
    let thought = step.text("thought").or(if action.is_empty() { said } else { None });
    log.text(place, thought.unwrap_or_default());
    if !action.is_empty() {
        let tool = action.split_whitespace().next().unwrap_or_default();
        log.call(place, None, tool, json!({ "command": action }));
    }
}

fn observed(log: &mut Assembly, observation: Json) {
    let (text, attachments) = flatten(observation);
    match log.waiting() {
        Some(call) => {
            // It waits, so it takes the answer.
            let _ = log.answer(&call, Answer { text, attachments, ..Answer::default() });
        }
        None if text.is_empty() => {}
        None => {
            let place = log.begin(Role::User, None, None);
            log.text(place, text);
        }
    }
}
