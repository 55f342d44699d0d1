//! OpenCode: the log's own shape. Unknown fields and kinds of parts stay as they are.

use plimsoll::Message;
use serde_json::Value;

use super::list;
use crate::error::FormatError;
use crate::json::{string, take};
use crate::time::millis;
use crate::transcript::Transcript;

pub(super) fn read(mut value: Value, transcript: &mut Transcript) -> Result<(), FormatError> {
    let format = transcript.format;
    let prefix = if value.is_array() { "" } else { "messages" };
    for (index, message) in list(format, &mut value, "messages")?.into_iter().enumerate() {
        let message: Message = serde_json::from_value(message).map_err(|error| FormatError::Shape {
            format,
            at: format!("{prefix}[{index}]"),
            problem: error.to_string(),
        })?;
        transcript.info.note(&message);
        transcript.messages.push(message);
    }
    let session = take(&mut value, "info");
    let info = &mut transcript.info;
    info.id = string(&session, "id").or(info.id.take());
    info.title = string(&session, "title");
    info.directory = string(&session, "directory");
    info.version = string(&session, "version");
    if let Some(time) = session.get("time") {
        info.seen(millis(time.get("created")));
        info.seen(millis(time.get("updated")));
    }
    Ok(())
}
