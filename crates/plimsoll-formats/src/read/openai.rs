//! Messages of OpenAI's chat completions, and the dialects of those who write them down.

use plimsoll::{Millis, Role};

use super::Sink;
use crate::assembly::{Answer, Assembly};
use crate::blocks::{arguments, blocks, file, flatten};
use crate::document::Document;
use crate::error::FormatError;
use crate::json::Json;
use crate::time::millis;
use crate::transcript::{Chain, Transcript};

pub(super) fn read(
    document: &Document,
    outline: &Json,
    transcript: &mut Transcript,
    sink: Sink,
) -> Result<(), FormatError> {
    let mut sink = |message| sink(Chain::Main, message);
    let mut log = Assembly::new(&mut sink, usize::MAX);
    about(outline, transcript);
    log.session(transcript.info.id.as_deref());
    document.each(transcript.format, "messages", |position, message| {
        log.record(position, 0, position, None);
        self::message(&mut log, message, transcript)
    })?;
    log.finish();
    Ok(())
}

fn about(outline: &Json, transcript: &mut Transcript) {
    let info = &mut transcript.info;
    info.model = outline.string("model");
    let Some(Json::Raw(meta)) = outline.get("meta") else { return };
    let meta = Json::parse(meta).unwrap_or_default();
    if let Some(session) = meta.get("session_meta") {
        info.id = session.string("id").or_else(|| session.string("session_id"));
        info.directory = session.string("cwd");
        info.version = session.string("cli_version").or_else(|| session.string("version"));
    }
    let Json::Object(fields) = &meta else { return };
    for (kind, entries) in fields {
        for _ in entries.as_list().unwrap_or_default() {
            transcript.pass(format!("meta/{kind}"));
        }
    }
}

/// Put one message into the log; also the messages of SWE-agent's history, which are the same.
pub(super) fn message(
    log: &mut Assembly,
    mut message: Json,
    transcript: &mut Transcript,
) -> Result<(), String> {
    let metadata = message.take("_metadata");
    let at = millis(metadata.get("timestamp")).or_else(|| millis(message.get("timestamp")));
    transcript.info.seen(at);
    let id = message.string("id");
    match message.text("role") {
        Some("assistant") => {
            let model = metadata.string("model").or_else(|| message.string("model"));
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
            let content = blocks(message.take("content"))?;
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
fn said(log: &mut Assembly, place: usize, mut block: Json, transcript: &mut Transcript) {
    match block.text("type") {
        Some("text" | "input_text" | "output_text") => log.text(place, block.take_text("text")),
        Some("refusal") => log.text(place, block.take_text("refusal")),
        kind => match file(&block) {
            Some(file) => log.file(place, file),
            None => transcript.skip(format!("content block {}", kind.unwrap_or("without type"))),
        },
    }
}

fn assistant(
    log: &mut Assembly,
    place: usize,
    mut message: Json,
    transcript: &mut Transcript,
) -> Result<(), String> {
    let thoughts = ["reasoning_content", "reasoning"].map(|key| message.take_text(key));
    for thought in thoughts {
        log.reasoning(place, thought, None);
    }
    let calls = match message.take("tool_calls") {
        Json::List(calls) => calls,
        _ => Vec::new(),
    };
    for mut block in blocks(message.take("content"))? {
        match block.text("type") {
            // The same calls stand in `tool_calls`, if that is there.
            Some("tool_call") if !calls.is_empty() => {}
            Some("tool_call") => {
                let id = block.string("tool_call_id").or_else(|| block.string("id"));
                call(log, place, id.as_deref(), &mut block);
            }
            Some("reasoning" | "thinking") => {
                let text = ["text", "thinking"].map(|key| block.take_text(key)).concat();
                log.reasoning(place, text, None);
            }
            _ => said(log, place, block, transcript),
        }
    }
    log.text(place, message.take_text("refusal"));
    for mut each in calls {
        let id = each.string("id");
        let mut function = match each.take("function") {
            Json::Null => each.take("custom"),
            function => function,
        };
        call(log, place, id.as_deref(), &mut function);
    }
    // The form before `tool_calls` had one call without an id; the next `function` message answers it.
    let mut function = message.take("function_call");
    if function.is_object() {
        call(log, place, None, &mut function);
    }
    Ok(())
}

fn call(log: &mut Assembly, place: usize, id: Option<&str>, function: &mut Json) {
    let name = function.take_text("name");
    let input = match function.take("arguments") {
        Json::Null => function.take("input").into_value(),
        given => arguments(given),
    };
    log.call(place, id, &name, input);
}

fn tool(log: &mut Assembly, mut message: Json, id: Option<String>, at: Option<Millis>) {
    let (text, attachments) = flatten(message.take("content"));
    let answer = Answer { text, attachments, at, ..Answer::default() };
    let named = message.string("tool_call_id").or_else(|| {
        let ids = message.get("tool_call_ids")?.as_list()?;
        ids.first()?.as_str().map(str::to_owned)
    });
    let call = named.or_else(|| log.waiting());
    log.answer_or_keep(&call.unwrap_or_default(), answer, |log| log.begin(Role::User, id, at));
}
