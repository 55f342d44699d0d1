//! A request to Anthropic's Messages API.

use plimsoll::Role;
use serde_json::Value;

use super::list;
use crate::assembly::Assembly;
use crate::blocks::{blocks, file, flatten, spoken, tool_result};
use crate::error::FormatError;
use crate::json::{string, take, take_text, text};
use crate::transcript::Transcript;

pub(super) fn read(mut value: Value, transcript: &mut Transcript) -> Result<(), FormatError> {
    let format = transcript.format;
    let prefix = if value.is_array() { "" } else { "messages" };
    let mut log = Assembly::default();
    transcript.info.model = string(&value, "model");
    let (system, _) = flatten(take(&mut value, "system"));
    if !system.is_empty() {
        let place = log.begin(Role::System, None, None);
        log.text(place, system);
    }
    for (index, mut message) in list(format, &mut value, "messages")?.into_iter().enumerate() {
        let shape = |problem| FormatError::Shape { format, at: format!("{prefix}[{index}]"), problem };
        let content = blocks(take(&mut message, "content")).map_err(shape)?;
        let id = string(&message, "id");
        match text(&message, "role") {
            Some("assistant") => {
                let place = log.begin(Role::Assistant, id, None);
                log.info(place).model_id = transcript.info.model.clone();
                for block in content {
                    if let Err(kind) = spoken(&mut log, place, block) {
                        transcript.skip(format!("assistant block {kind}"));
                    }
                }
            }
            Some("user") => {
                let mut place = None;
                let mut here = |log: &mut Assembly| {
                    *place.get_or_insert_with(|| log.begin(Role::User, id.clone(), None))
                };
                for mut block in content {
                    match text(&block, "type") {
                        Some("tool_result") => {
                            let (call, answer) = tool_result(block, None, Value::Null);
                            log.answer_or_keep(&call, answer, &mut here);
                        }
                        Some("text") => {
                            let place = here(&mut log);
                            log.text(place, take_text(&mut block, "text"));
                        }
                        kind => match file(&block) {
                            Some(file) => {
                                let place = here(&mut log);
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
                log.text(place, flatten(Value::Array(content)).0);
            }
            other => transcript.skip(format!("message of role {}", other.unwrap_or("(none)"))),
        }
    }
    transcript.messages = log.finish();
    Ok(())
}
