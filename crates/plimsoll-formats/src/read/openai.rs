//! Messages of OpenAI's chat completions, and the dialects of those who write them down.

use plimsoll::{Millis, Role};
use serde_json::Value;

use super::list;
use crate::assembly::{Answer, Assembly};
use crate::blocks::{arguments, blocks, file, flatten};
use crate::error::FormatError;
use crate::json::{string, take, take_text, text};
use crate::time::millis;
use crate::transcript::Transcript;

pub(super) fn read(mut value: Value, transcript: &mut Transcript) -> Result<(), FormatError> {
    let format = transcript.format;
    let prefix = if value.is_array() { "" } else { "messages" };
    let mut log = Assembly::default();
    about(&value, transcript);
    log.session(transcript.info.id.as_deref());
    for (index, message) in list(format, &mut value, "messages")?.into_iter().enumerate() {
        let shape = |problem| FormatError::Shape { format, at: format!("{prefix}[{index}]"), problem };
        self::message(&mut log, message, transcript).map_err(shape)?;
    }
    transcript.messages = log.finish();
    Ok(())
}

fn about(value: &Value, transcript: &mut Transcript) {
    let info = &mut transcript.info;
    info.model = string(value, "model");
    let Some(meta) = value.get("meta") else { return };
    if let Some(session) = meta.get("session_meta") {
        info.id = string(session, "id").or_else(|| string(session, "session_id"));
        info.directory = string(session, "cwd");
        info.version = string(session, "cli_version").or_else(|| string(session, "version"));
    }
    for (kind, entries) in meta.as_object().into_iter().flatten() {
        if let Some(entries) = entries.as_array() {
            entries.iter().for_each(|_| transcript.pass(format!("meta/{kind}")));
        }
    }
}

/// Put one message into the log; also the messages of SWE-agent's history, which are the same.
pub(super) fn message(
    log: &mut Assembly,
    mut message: Value,
    transcript: &mut Transcript,
) -> Result<(), String> {
    let metadata = take(&mut message, "_metadata");
    let at = millis(metadata.get("timestamp")).or_else(|| millis(message.get("timestamp")));
    transcript.info.seen(at);
    let id = string(&message, "id");
    match text(&message, "role") {
        Some("assistant") => {
            let model = string(&metadata, "model").or_else(|| string(&message, "model"));
            transcript.info.model = model.clone().or(transcript.info.model.take());
            let place = log.begin(Role::Assistant, id, at);
            log.info(place).model_id = model.or_else(|| transcript.info.model.clone());
            assistant(log, place, message, transcript)
        }
        Some("tool" | "function") => {
            tool(log, message, id, at);
            Ok(())
        }
        Some(role @ ("user" | "system" | "developer")) => {
            let role = if role == "user" { Role::User } else { Role::System };
            let content = blocks(take(&mut message, "content"))?;
            let place = log.begin(role, id, at);
            content.into_iter().for_each(|block| said(log, place, block, transcript));
            Ok(())
        }
        other => {
            transcript.skip(format!("message of role {}", other.unwrap_or("(none)")));
            Ok(())
        }
    }
}

/// A block that is a text in all but name, or a file.
fn said(log: &mut Assembly, place: usize, mut block: Value, transcript: &mut Transcript) {
    match text(&block, "type") {
        Some("text" | "input_text" | "output_text") => log.text(place, take_text(&mut block, "text")),
        Some("refusal") => log.text(place, take_text(&mut block, "refusal")),
        kind => match file(&block) {
            Some(file) => log.file(place, file),
            None => transcript.skip(format!("content block {}", kind.unwrap_or("without type"))),
        },
    }
}

fn assistant(
    log: &mut Assembly,
    place: usize,
    mut message: Value,
    transcript: &mut Transcript,
) -> Result<(), String> {
    let thoughts = ["reasoning_content", "reasoning"].map(|key| take_text(&mut message, key));
    for thought in thoughts {
        log.reasoning(place, thought, None);
    }
    let calls = match take(&mut message, "tool_calls") {
        Value::Array(calls) => calls,
        _ => Vec::new(),
    };
    for mut block in blocks(take(&mut message, "content"))? {
        match text(&block, "type") {
            // The same calls stand in `tool_calls`, if that is there.
            Some("tool_call") if !calls.is_empty() => {}
            Some("tool_call") => {
                let id = string(&block, "tool_call_id").or_else(|| string(&block, "id"));
                call(log, place, id.as_deref(), &mut block);
            }
            Some("reasoning" | "thinking") => {
                let text = ["text", "thinking"].map(|key| take_text(&mut block, key)).concat();
                log.reasoning(place, text, None);
            }
            _ => said(log, place, block, transcript),
        }
    }
    log.text(place, take_text(&mut message, "refusal"));
    for mut each in calls {
        let id = string(&each, "id");
        let mut function = match take(&mut each, "function") {
            Value::Null => take(&mut each, "custom"),
            function => function,
        };
        call(log, place, id.as_deref(), &mut function);
    }
    // The form before `tool_calls` had one call without an id; the next `function` message answers it.
    let mut function = take(&mut message, "function_call");
    if function.is_object() {
        call(log, place, None, &mut function);
    }
    Ok(())
}

fn call(log: &mut Assembly, place: usize, id: Option<&str>, function: &mut Value) {
    let name = take_text(function, "name");
    let input = match (take(function, "arguments"), take(function, "input")) {
        (Value::String(text), _) => arguments(text),
        (Value::Null, input) => input,
        (other, _) => other,
    };
    log.call(place, id, &name, input);
}

fn tool(log: &mut Assembly, mut message: Value, id: Option<String>, at: Option<Millis>) {
    let (text, attachments) = flatten(take(&mut message, "content"));
    let answer = Answer { text, attachments, at, ..Answer::default() };
    let named = string(&message, "tool_call_id").or_else(|| {
        let ids = message.get("tool_call_ids")?.as_array()?;
        ids.first()?.as_str().map(str::to_owned)
    });
    let call = named.or_else(|| log.waiting(log.len().checked_sub(1)?));
    log.answer_or_keep(&call.unwrap_or_default(), answer, |log| log.begin(Role::User, id, at));
}
