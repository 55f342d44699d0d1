//! Messages of OpenAI's chat completions, and the dialects of those who write them down.

use plimsoll::log::At;
use plimsoll::{Millis, Role};

use super::Sink;
use crate::assembly::{Answer, Assembly};
use crate::blocks::{arguments, blocks, file, flatten};
use crate::document::Document;
use crate::error::FormatError;
use crate::json::Json;
use crate::transcript::{Chain, Transcript};

/// What roles are known by where a message does not say.
const ROLES: [(&str, &str); 3] =
    [("tool_call_id", "tool"), ("tool_calls", "assistant"), ("function_call", "assistant")];
/// The same for blocks.
const BLOCKS: [(&str, &str); 3] = [("arguments", "tool_call"), ("thinking", "thinking"), ("text", "text")];

pub(super) fn read(
    document: &Document,
    outline: &Json,
    transcript: &mut Transcript,
    sink: Sink,
) -> Result<(), FormatError> {
    let mut sink = |message| sink(Chain::Main, message);
    let mut log = Assembly::new(&mut sink, usize::MAX);
    about(&mut log, outline, transcript);
    log.settle(&mut transcript.notes);
    log.session(transcript.info.id.as_deref());
    let list = document.list("messages");
    document.each(transcript.format, "messages", |position, message| {
        log.record(position, 0, position, None);
        self::message(&mut log, message, &At::Index(&list, position), transcript);
        log.settle(&mut transcript.notes);
        Ok(())
    })?;
    log.finish();
    Ok(())
}

fn about(log: &mut Assembly, outline: &Json, transcript: &mut Transcript) {
    let (info, misfits) = (&mut transcript.info, &mut log.misfits);
    info.model = misfits.string(outline, &At::Root, "model");
    let Some(Json::Raw(meta)) = outline.get("meta") else { return };
    let meta = Json::parse(meta).unwrap_or_default();
    let at = At::Key(&At::Root, "meta");
    if !matches!(meta, Json::Null) {
        misfits.is_object(&meta, &at);
    }
    if let Some(session) = misfits.object(&meta, &at, "session_meta") {
        let at = At::Key(&at, "session_meta");
        let mut either = |first: &str, second: &str| {
            misfits.string(session, &at, first).or_else(|| misfits.string(session, &at, second))
        };
        (info.id, info.version) = (either("id", "session_id"), either("cli_version", "version"));
        info.directory = misfits.string(session, &at, "cwd");
    }
    let Json::Object(fields) = &meta else { return };
    for (kind, entries) in fields {
        for _ in entries.as_list().unwrap_or_default() {
            transcript.pass(format!("meta/{kind}"));
        }
    }
}

/// Put one message into the log; also the messages of SWE-agent's history, which are the same.
pub(super) fn message(log: &mut Assembly, mut message: Json, at: &At, transcript: &mut Transcript) {
    if !log.misfits.is_object(&message, at) {
        return;
    }
    log.misfits.object(&message, at, "_metadata");
    let metadata = message.take("_metadata");
    let about = At::Key(at, "_metadata");
    let time = log.misfits.time(&metadata, &about, "timestamp");
    let time = time.or_else(|| log.misfits.time(&message, at, "timestamp"));
    transcript.info.seen(time);
    let id = log.misfits.string(&message, at, "id");
    let role = log.misfits.kind(&message, at, "role", &ROLES).map(str::to_owned);
    match role.as_deref() {
        Some("assistant") => {
            let model = log.misfits.string(&metadata, &about, "model");
            let model = model.or_else(|| log.misfits.string(&message, at, "model"));
            transcript.info.model = model.clone().or(transcript.info.model.take());
            let place = log.begin(Role::Assistant, id, time);
            log.info(place).model_id = model.or_else(|| transcript.info.model.clone());
            assistant(log, place, message, at, transcript);
        }
        Some("tool" | "function") => tool(log, message, id, time, at),
        None | Some("user" | "system" | "developer") => {
            let role = role.map(|role| if role == "user" { Role::User } else { Role::System });
            let inside = At::Key(at, "content");
            let content = blocks(message.take("content"), &mut log.misfits, &inside);
            let place = log.begin(role, id, time);
            for (index, block) in content.into_iter().enumerate() {
                said(log, place, block, &At::Index(&inside, index), transcript);
            }
        }
        Some(other) => transcript.skip(format!("message of role {other}")),
    }
}

/// A block that is a text in all but name, or a file.
fn said(log: &mut Assembly, place: usize, mut block: Json, at: &At, transcript: &mut Transcript) {
    let key = match log.misfits.kind(&block, at, "type", &BLOCKS) {
        Some("text" | "input_text" | "output_text") => "text",
        Some("refusal") => "refusal",
        kind => {
            match file(&block) {
                Some(file) => log.file(place, file),
                None => transcript.skip(format!("content block {}", kind.unwrap_or("without type"))),
            }
            return;
        }
    };
    let text = log.misfits.take_words(&mut block, at, key);
    log.text(place, text);
}

fn assistant(log: &mut Assembly, place: usize, mut message: Json, at: &At, transcript: &mut Transcript) {
    for key in ["reasoning_content", "reasoning"] {
        let thought = log.misfits.take_words(&mut message, at, key);
        log.reasoning(place, thought, None);
    }
    let calls = log.misfits.take_list(&mut message, at, "tool_calls");
    let inside = At::Key(at, "content");
    let content = blocks(message.take("content"), &mut log.misfits, &inside);
    for (index, mut block) in content.into_iter().enumerate() {
        let at = &At::Index(&inside, index);
        match block.text("type") {
            // The same calls stand in `tool_calls`, if that is there.
            Some("tool_call") if !calls.is_empty() => {}
            Some("tool_call") => {
                let id = log.misfits.string(&block, at, "tool_call_id");
                let id = id.or_else(|| log.misfits.string(&block, at, "id"));
                call(log, place, id.as_deref(), &mut block, at);
            }
            Some("reasoning" | "thinking") => {
                let text =
                    ["text", "thinking"].map(|key| log.misfits.take_words(&mut block, at, key)).concat();
                log.reasoning(place, text, None);
            }
            _ => said(log, place, block, at, transcript),
        }
    }
    let refusal = log.misfits.take_words(&mut message, at, "refusal");
    log.text(place, refusal);
    let inside = At::Key(at, "tool_calls");
    for (index, mut each) in calls.into_iter().enumerate() {
        let at = &At::Index(&inside, index);
        if !log.misfits.is_object(&each, at) {
            continue;
        }
        let id = log.misfits.string(&each, at, "id");
        let key = if matches!(each.get("function"), None | Some(Json::Null)) { "custom" } else { "function" };
        log.misfits.object(&each, at, key);
        let mut function = each.take(key);
        call(log, place, id.as_deref(), &mut function, &At::Key(at, key));
    }
    // The form before `tool_calls` had one call without an id; the next `function` message answers it.
    log.misfits.object(&message, at, "function_call");
    let mut function = message.take("function_call");
    if function.is_object() {
        call(log, place, None, &mut function, &At::Key(at, "function_call"));
    }
}

fn call(log: &mut Assembly, place: usize, id: Option<&str>, function: &mut Json, at: &At) {
    let name = log.misfits.string(function, at, "name").unwrap_or_default();
    let input = match function.take("arguments") {
        Json::Null => function.take("input").into_value(),
        given => arguments(given),
    };
    log.call(place, id, &name, input);
}

fn tool(log: &mut Assembly, mut message: Json, id: Option<String>, time: Option<Millis>, at: &At) {
    let (text, attachments) = flatten(message.take("content"));
    let answer = Answer { text, attachments, at: time, ..Answer::default() };
    let named = log.misfits.string(&message, at, "tool_call_id");
    let named = named.or_else(|| {
        let ids = log.misfits.take_list(&mut message, at, "tool_call_ids");
        ids.first()?.as_str().map(str::to_owned)
    });
    let call = named.or_else(|| log.waiting());
    log.answer_or_keep(&call.unwrap_or_default(), answer, |log| log.begin(Role::User, id, time));
}
