//! goose's sessions: a line with metadata and a line per message, or the output of `goose session export`.
//!
//! The rows of its database contain the same messages; the module `database` reads them.

use plimsoll::log::{At, CompactionPart};
use plimsoll::{PartBody, Role, Tokens};
use serde_json::json;

use super::Sink;
use crate::assembly::{Answer, Assembly, Compaction};
use crate::blocks::{blocks, file, flatten};
use crate::document::Document;
use crate::error::FormatError;
use crate::field_errors::FieldErrors;
use crate::json::{Json, Take};
use crate::transcript::{Chain, SessionInfo, Transcript};

/// Fields that identify the kind of a block without a type.
const BLOCKS: [(&str, &str); 4] =
    [("toolCall", "toolRequest"), ("toolResult", "toolResponse"), ("thinking", "thinking"), ("text", "text")];
/// Kinds of blocks that only the user sees.
const FOR_PEOPLE: [&str; 7] = [
    "toolConfirmationRequest",
    "actionRequired",
    "systemNotification",
    "conversationCompacted",
    "contextLengthExceeded",
    "summarizationRequested",
    "redactedThinking",
];

pub(super) fn read(document: &Document, transcript: &mut Transcript, sink: Sink) -> Result<(), FormatError> {
    let header = document.header(|_, depth, key| match key {
        "conversation" | "extension_data" | "recipe" if depth == 0 => Take::Skip,
        _ => Take::Whole,
    })?;
    let mut sink = |message| sink(Chain::Main, message);
    let mut reading = GooseReader::new(Assembly::new(&mut sink, usize::MAX));
    about(&header, &At::Root, &mut reading.log.field_errors, &mut transcript.info);
    reading.log.settle(&mut transcript.notes);
    reading.log.session(transcript.info.id.as_deref());
    let list = document.list("conversation");
    document.each(transcript.format, "conversation", |position, record| {
        reading.log.record(position, 0, position, None);
        let at = &At::Index(&list, position);
        if record.get("role").is_none() && record.get("content").is_none() && record.is_object() {
            about(&record, at, &mut reading.log.field_errors, &mut transcript.info);
            reading.log.session(transcript.info.id.as_deref());
        } else {
            reading.message(record, at, transcript);
        }
        reading.log.settle(&mut transcript.notes);
        Ok(())
    })?;
    reading.log.finish();
    Ok(())
}

/// Reads the metadata of a session. Its counts are for the whole session and belong to no response.
pub(crate) fn about(record: &Json, at: &At, field_errors: &mut FieldErrors, info: &mut SessionInfo) {
    info.id = field_errors.string(record, at, "id").or(info.id.take());
    info.title = field_errors
        .string(record, at, "name")
        .or_else(|| field_errors.string(record, at, "description"))
        .or(info.title.take());
    info.directory = field_errors.string(record, at, "working_dir").or(info.directory.take());
    info.note_time(field_errors.time(record, at, "created_at"));
    info.note_time(field_errors.time(record, at, "updated_at"));
    if let Some(model) = field_errors.object(record, at, "model_config") {
        let at = &At::Key(at, "model_config");
        info.model = field_errors.string(model, at, "model_name").or(info.model.take());
        info.context = field_errors.number(model, at, "context_limit").map(Tokens).or(info.context);
    }
}

/// Reads the messages of a session in order.
pub(crate) struct GooseReader<'s> {
    pub(crate) log: Assembly<'s>,
    /// Whether the model sees an earlier message, and whether one is hidden from it.
    has_shown: bool,
    has_hidden: bool,
}

impl<'s> GooseReader<'s> {
    pub(crate) fn new(log: Assembly<'s>) -> GooseReader<'s> {
        GooseReader { log, has_shown: false, has_hidden: false }
    }

    pub(crate) fn message(&mut self, mut message: Json, at: &At, transcript: &mut Transcript) {
        let log = &mut self.log;
        if !log.field_errors.is_object(&message, at) {
            return;
        }
        let time = log.field_errors.time(&message, at, "created");
        transcript.info.note_time(time);
        let id = log.field_errors.string(&message, at, "id");
        let role = log.field_errors.kind(&message, at, "role", &[]).map(str::to_owned);
        let (shown, for_model_only) = visibility(&message, at, &mut log.field_errors);
        let inside = At::Key(at, "content");
        let content = blocks(message.take("content"), &mut log.field_errors, &inside);
        // A compaction hides all messages from the model and adds a summary that only the model sees.
        if for_model_only && self.has_hidden && !self.has_shown {
            self.has_shown = true;
            let (text, _) = flatten(Json::List(content));
            let marker = id.as_ref().map(|id| format!("{id}.marker"));
            let part = CompactionPart::default();
            return log.compaction(Compaction { marker, summary: id, at: time, text, part });
        }
        self.has_shown |= shown;
        self.has_hidden |= !shown;
        let role = match role.as_deref() {
            Some("user") => Some(Role::User),
            Some("assistant") => Some(Role::Assistant),
            Some("system") => Some(Role::System),
            None => None,
            Some(other) => return transcript.skip(format!("message of role {other}")),
        };
        let mut place = None;
        let mut here =
            |log: &mut Assembly| *place.get_or_insert_with(|| log.begin(role.clone(), id.clone(), time));
        for (index, mut block) in content.into_iter().enumerate() {
            let at = &At::Index(&inside, index);
            let kind = log.field_errors.kind(&block, at, "type", &BLOCKS).map(str::to_owned);
            match kind.as_deref() {
                Some("text") => {
                    let place = here(log);
                    let text = log.field_errors.take_words(&mut block, at, "text");
                    log.user_text(place, text, for_model_only);
                    if !shown && let Some(PartBody::Text(text)) = log.last_part(place) {
                        text.ignored = Some(true);
                    }
                }
                Some("thinking" | "reasoning") => {
                    let place = here(log);
                    let signature = log.field_errors.string(&block, at, "signature");
                    let metadata =
                        signature.map(|signature| json!({ "anthropic": { "signature": signature } }));
                    let words = ["thinking", "text"]
                        .map(|key| log.field_errors.take_words(&mut block, at, key))
                        .concat();
                    log.reasoning(place, words, metadata);
                }
                Some("toolRequest" | "frontendToolRequest") => {
                    let place = here(log);
                    request(log, place, &mut block, at);
                }
                Some("toolResponse") => {
                    let call = log.field_errors.string(&block, at, "id").unwrap_or_default();
                    log.field_errors.object(&block, at, "toolResult");
                    let answer = Answer { at: time, ..response(block.take("toolResult")) };
                    log.answer_or_keep(&call, answer, &mut here);
                }
                Some(kind) if FOR_PEOPLE.contains(&kind) => transcript.pass(kind),
                kind => match file(&block) {
                    Some(file) => {
                        let place = here(log);
                        log.field_errors.text(&block, at, "mimeType");
                        log.file(place, file);
                    }
                    None => transcript.skip(format!("message block {}", kind.unwrap_or("without type"))),
                },
            }
        }
    }
}

/// Returns whether the model sees a message, and whether only the model does.
fn visibility(message: &Json, at: &At, field_errors: &mut FieldErrors) -> (bool, bool) {
    let Some(metadata) = field_errors.object(message, at, "metadata") else { return (true, false) };
    let at = &At::Key(at, "metadata");
    let mut flag = |key: &str| metadata.get(key).is_none() || field_errors.is(metadata, at, key);
    let (agent, user) = (flag("agentVisible"), flag("userVisible"));
    (agent, agent && !user)
}

/// Reads a call, or what replaces one that could not be parsed.
fn request(log: &mut Assembly, place: usize, block: &mut Json, at: &At) {
    let id = log.field_errors.string(block, at, "id");
    let inside = At::Key(at, "toolCall");
    log.field_errors.object(block, at, "toolCall");
    let mut call = block.take("toolCall");
    let error = log.field_errors.string(&call, &inside, "error");
    // Older files have the call itself here, newer ones a result: the call, or why there is none.
    let at = &At::Key(&inside, "value");
    if call.get("value").is_some() {
        log.field_errors.object(&call, &inside, "value");
        call = call.take("value");
    }
    let name = log.field_errors.string(&call, at, "name").unwrap_or_default();
    log.call(place, id.as_deref(), &name, call.take("arguments").into_value());
    if let (Some(error), Some(id)) = (error, id) {
        // The call was just added, so it takes the result.
        let _ = log.answer(&id, Answer { text: error, is_error: true, ..Answer::default() });
    }
}

/// Reads the result of a tool: a list of contents, an object with one, or an error.
fn response(mut result: Json) -> Answer {
    if let Some(error) = result.string("error") {
        return Answer { text: error, is_error: true, ..Answer::default() };
    }
    let mut value = if result.get("value").is_some() { result.take("value") } else { result };
    let is_error = value.is("isError");
    let content = if value.get("content").is_some() { value.take("content") } else { value };
    let (text, attachments) = flatten(content);
    Answer { text, is_error, attachments, ..Answer::default() }
}
