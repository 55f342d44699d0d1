//! OpenCode: the log's own shape. Unknown fields and kinds of parts stay as they are.

use plimsoll::Message;

use super::Sink;
use crate::document::Document;
use crate::error::FormatError;
use crate::json::Json;
use crate::time::millis;
use crate::transcript::{Chain, Transcript};

pub(super) fn read(document: &Document, transcript: &mut Transcript, sink: Sink) -> Result<(), FormatError> {
    let rest = document.each("messages", |_, message: Message| {
        transcript.info.note(&message);
        sink(Chain::Main, message);
        Ok(())
    })?;
    let Some(Json::Raw(session)) = rest.get("info") else { return Ok(()) };
    let session = Json::parse(session.get()).unwrap_or_default();
    let info = &mut transcript.info;
    info.id = session.string("id").or(info.id.take());
    info.title = session.string("title");
    info.directory = session.string("directory");
    info.version = session.string("version");
    if let Some(time) = session.get("time") {
        info.seen(millis(time.get("created")));
        info.seen(millis(time.get("updated")));
    }
    Ok(())
}
