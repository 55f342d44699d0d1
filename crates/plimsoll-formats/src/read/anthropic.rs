//! A request to Anthropic's Messages API.

use plimsoll::Role;
use serde_json::Value;

use super::Sink;
use crate::assembly::Assembly;
use crate::blocks::{blocks, file, flatten, spoken, tool_result};
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
    transcript.info.model = outline.string("model");
    if let Some(Json::Raw(system)) = outline.get("system") {
        let (system, _) = flatten(Json::parse(system).unwrap_or_default());
        if !system.is_empty() {
            let place = log.begin(Role::System, None, None);
            log.text(place, system);
        }
    }
    document.each(transcript.format, "messages", |position, message| {
        log.record(position, 0, position, None);
        self::message(&mut log, message, transcript)
    })?;
    log.finish();
    Ok(())
}

fn message(log: &mut Assembly, mut message: Json, transcript: &mut Transcript) -> Result<(), String> {
    let content = blocks(message.take("content"))?;
    let id = message.string("id");
    match message.text("role") {
        Some("assistant") => {
            let place = log.begin(Role::Assistant, id, None);
            log.info(place).model_id = transcript.info.model.clone();
            for block in content {
                if let Err(kind) = spoken(log, place, block) {
                    transcript.skip(format!("assistant block {kind}"));
                }
            }
        }
        Some("user") => {
            let mut place = None;
            let mut here =
                |log: &mut Assembly| *place.get_or_insert_with(|| log.begin(Role::User, id.clone(), None));
            for mut block in content {
                match block.text("type") {
                    Some("tool_result") => {
                        let (call, answer) = tool_result(block, None, Value::Null);
                        log.answer_or_keep(&call, answer, &mut here);
                    }
                    Some("text") => {
                        let place = here(log);
                        log.text(place, block.take_text("text"));
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
            let place = log.begin(Role::System, id, None);
            log.text(place, flatten(Json::List(content)).0);
        }
        other => transcript.skip(format!("message of role {}", other.unwrap_or("(none)"))),
    }
    Ok(())
}
