//! SWE-agent's trajectories.
//!
//! The `history` is what the model was given. Where the model does not call tools but writes its command as text,
//! the command becomes a call and the observation that follows its result: that is what they are.

use plimsoll::Role;
use serde_json::{Value, json};

use super::{list, openai};
use crate::assembly::{Answer, Assembly};
use crate::blocks::flatten;
use crate::error::FormatError;
use crate::json::{string, take, text};
use crate::transcript::Transcript;

pub(super) fn read(mut value: Value, transcript: &mut Transcript) -> Result<(), FormatError> {
    transcript.info.title = string(&value, "environment");
    let about = take(&mut value, "info");
    transcript.info.version = string(&about, "swe_agent_version");
    let mut log = Assembly::default();
    if value.get("history").and_then(Value::as_array).is_some_and(|history| !history.is_empty()) {
        history(&mut value, &mut log, transcript)?;
    } else {
        for step in list(transcript.format, &mut value, "trajectory")? {
            acted(&mut log, &step);
            observed(&mut log, step.get("observation").cloned().unwrap_or_default());
        }
    }
    transcript.messages = log.finish();
    Ok(())
}

fn history(value: &mut Value, log: &mut Assembly, transcript: &mut Transcript) -> Result<(), FormatError> {
    let format = transcript.format;
    // The steps repeat the history, and hold the request of each call on top.
    let steps = value.get("trajectory").and_then(Value::as_array).map_or(0, Vec::len);
    (0..steps).for_each(|_| transcript.pass("trajectory step"));
    for (index, mut message) in list(format, value, "history")?.into_iter().enumerate() {
        let shape = |problem| FormatError::Shape { format, at: format!("history[{index}]"), problem };
        let calls =
            message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty());
        let acts = !calls && text(&message, "action").is_some_and(|action| !action.trim().is_empty());
        let waits = log.len().checked_sub(1).is_some_and(|last| log.waiting(last).is_some());
        match text(&message, "role") {
            Some("assistant") if acts => acted(log, &message),
            Some("user") if waits => observed(log, take(&mut message, "content")),
            _ => openai::message(log, message, transcript).map_err(shape)?,
        }
    }
    Ok(())
}

/// A thought, and the command that follows from it.
fn acted(log: &mut Assembly, step: &Value) {
    let place = log.begin(Role::Assistant, None, None);
    let action = text(step, "action").unwrap_or_default().trim();
    let said = ["content", "response"].into_iter().find_map(|key| text(step, key));
    let thought = text(step, "thought").or(if action.is_empty() { said } else { None });
    log.text(place, thought.unwrap_or_default());
    if !action.is_empty() {
        let tool = action.split_whitespace().next().unwrap_or_default();
        log.call(place, None, tool, json!({ "command": action }));
    }
}

fn observed(log: &mut Assembly, observation: Value) {
    let (text, attachments) = flatten(observation);
    let waiting = log.len().checked_sub(1).and_then(|last| log.waiting(last));
    match waiting {
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
