//! Gemini CLI's chats: JSONL of messages and of changes to them, or one document in older versions.
//!
//! A message is written again with the same id whenever it changes, so the last record of an id replaces the first one.
//! A rewind removes a message and all that follow.

use std::collections::HashMap;

use plimsoll::log::{At, FilePart};
use plimsoll::{Millis, Role, Text, Tokens, Usage};
use serde_json::{Value, json};

use super::Sink;
use crate::assembly::{Answer, Assembly};
use crate::document::Document;
use crate::error::FormatError;
use crate::field_errors::FieldErrors;
use crate::file_text::words_of;
use crate::json::{Json, Take};
use crate::transcript::{Chain, SessionInfo, Transcript};

/// Fields that identify the role of a message without one.
const SHAPES: [(&str, &str); 4] =
    [("toolCalls", "gemini"), ("thoughts", "gemini"), ("tokens", "gemini"), ("model", "gemini")];
/// Prefix of the message that the CLI puts before a session.
const CONTEXT: &str = "<session_context>";

pub(super) fn read(document: &Document, transcript: &mut Transcript, sink: Sink) -> Result<(), FormatError> {
    let mut records = Records::default();
    let mut field_errors = FieldErrors::default();
    let header = document.header(|_, depth, key| match key {
        "messages" if depth == 0 => Take::Skip,
        _ => Take::Whole,
    })?;
    about(&header, &At::Root, &mut field_errors, &mut transcript.info);
    let (format, is_list) = (transcript.format, document.is_list());
    let list = document.list("messages");
    document.each(format, "messages", |position, record| {
        if is_list {
            records.add(record, position, &At::Index(&list, position), &mut field_errors, transcript);
        } else {
            records.insert_or_replace(Entry { position, inside: None, message: record }, transcript);
        }
        field_errors.report(&mut transcript.notes, None);
        Ok(())
    })?;
    field_errors.report(&mut transcript.notes, None);
    let mut sink = |message| sink(Chain::Main, message);
    let mut log = Assembly::new(&mut sink, usize::MAX);
    log.session(transcript.info.id.as_deref());
    for (number, Entry { position, inside, message }) in records.entries.into_iter().enumerate() {
        log.record(number, 0, number, None);
        let at = At::Index(&list, position);
        let set = At::Key(&at, inside.map_or("", |(holder, _)| holder));
        let inner = if inside.is_some_and(|(holder, _)| holder == "$set") {
            At::Key(&set, "messages")
        } else {
            At::Key(&at, "messages")
        };
        let nested = At::Index(&inner, inside.map_or(0, |(_, index)| index));
        let at = if inside.is_some() { &nested } else { &at };
        self::message(&mut log, message, at, transcript);
        log.settle(&mut transcript.notes);
    }
    log.finish();
    Ok(())
}

/// The last version of a message, and its location.
struct Entry<'a> {
    position: usize,
    /// Name of the list and index in it, if the message has no record of its own.
    inside: Option<(&'static str, usize)>,
    message: Json<'a>,
}

/// Messages of the chat while its records are read.
#[derive(Default)]
struct Records<'a> {
    entries: Vec<Entry<'a>>,
    places: HashMap<String, usize>,
}

impl<'a> Records<'a> {
    fn add(
        &mut self,
        mut record: Json<'a>,
        position: usize,
        at: &At,
        field_errors: &mut FieldErrors,
        transcript: &mut Transcript,
    ) {
        if !field_errors.is_object(&record, at) {
            return;
        }
        let has = |key: &str| record.get(key).is_some();
        if has("$rewindTo") {
            if let Some(id) = field_errors.string(&record, at, "$rewindTo") {
                // If there is no such message, all are removed, as in the CLI.
                let from = self.places.get(&id).copied().unwrap_or(0);
                self.remove_from(from, "rewound message", transcript);
            }
        } else if has("$set") {
            let mut set = record.take("$set");
            let inner = At::Key(at, "$set");
            if field_errors.is_object(&set, &inner) {
                about(&set, &inner, field_errors, &mut transcript.info);
                if set.get("messages").is_some() {
                    self.remove_from(0, "message before a checkpoint", transcript);
                    let messages = field_errors.take_list(&mut set, &inner, "messages");
                    self.put_all(messages, position, "$set", transcript);
                }
            }
        } else if has("projectHash") || !has("type") && !has("content") {
            about(&record, at, field_errors, &mut transcript.info);
            let messages = field_errors.take_list(&mut record, at, "messages");
            self.put_all(messages, position, "messages", transcript);
        } else {
            self.insert_or_replace(Entry { position, inside: None, message: record }, transcript);
        }
    }

    fn put_all(
        &mut self,
        messages: Vec<Json<'a>>,
        position: usize,
        holder: &'static str,
        transcript: &mut Transcript,
    ) {
        for (index, message) in messages.into_iter().enumerate() {
            self.insert_or_replace(Entry { position, inside: Some((holder, index)), message }, transcript);
        }
    }

    /// Adds a message or replaces its earlier version.
    fn insert_or_replace(&mut self, entry: Entry<'a>, transcript: &mut Transcript) {
        let id = entry.message.string("id");
        match id.as_ref().and_then(|id| self.places.get(id)) {
            Some(&place) => {
                transcript.pass("earlier record of a message");
                self.entries[place] = entry;
            }
            None => {
                id.map(|id| self.places.insert(id, self.entries.len()));
                self.entries.push(entry);
            }
        }
    }

    /// Removes the messages from an index on; their usage was billed.
    fn remove_from(&mut self, from: usize, why: &str, transcript: &mut Transcript) {
        for entry in self.entries.drain(from.min(self.entries.len())..) {
            transcript.pass(why);
            let model = entry.message.string("model");
            if let Some(tokens) = entry.message.get("tokens").filter(|tokens| tokens.is_object()) {
                let usage = usage_of(tokens, &mut FieldErrors::default(), &At::Root);
                transcript.recorded.add(model.as_deref(), &usage, None);
            }
        }
        self.places.retain(|_, place| *place < from);
    }
}

/// Reads a record's metadata of the session.
fn about(record: &Json, at: &At, field_errors: &mut FieldErrors, info: &mut SessionInfo) {
    info.id = field_errors.string(record, at, "sessionId").or(info.id.take());
    info.title = field_errors.string(record, at, "summary").or(info.title.take());
    info.note_time(field_errors.time(record, at, "startTime"));
    info.note_time(field_errors.time(record, at, "lastUpdated"));
}

fn message(log: &mut Assembly, mut message: Json, at: &At, transcript: &mut Transcript) {
    if !log.field_errors.is_object(&message, at) {
        return;
    }
    let time = log.field_errors.time(&message, at, "timestamp");
    transcript.info.note_time(time);
    let id = log.field_errors.string(&message, at, "id");
    let kind = log.field_errors.kind(&message, at, "type", &SHAPES).map(str::to_owned);
    let inside = At::Key(at, "content");
    match kind.as_deref() {
        None | Some("user") => {
            let place = log.begin(kind.map(|_| Role::User), id, time);
            parts(log, place, message.take("content"), &inside, transcript);
        }
        Some("gemini") => {
            let place = log.begin(Role::Assistant, id, time);
            let model = log.field_errors.string(&message, at, "model");
            transcript.info.model = model.clone().or(transcript.info.model.take());
            log.info(place).model_id = model;
            if let Some(tokens) = log.field_errors.object(&message, at, "tokens") {
                let usage = usage_of(tokens, &mut log.field_errors, &At::Key(at, "tokens"));
                // Recorded here, because the usage of removed messages counts as well.
                let model = log.message(place).info.model_id.as_deref();
                transcript.recorded.add(model, &usage, None);
                log.info(place).tokens = Some(usage);
            }
            let thoughts = log.field_errors.take_list(&mut message, at, "thoughts");
            for (index, mut thought) in thoughts.into_iter().enumerate() {
                let list = At::Key(at, "thoughts");
                let at = &At::Index(&list, index);
                if log.field_errors.is_object(&thought, at) {
                    let words = ["subject", "description"]
                        .map(|key| log.field_errors.take_words(&mut thought, at, key));
                    let words: Vec<&str> =
                        words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
                    log.reasoning(place, words.join("\n"), None);
                }
            }
            parts(log, place, message.take("content"), &inside, transcript);
            let calls = log.field_errors.take_list(&mut message, at, "toolCalls");
            for (index, call) in calls.into_iter().enumerate() {
                let list = At::Key(at, "toolCalls");
                self::call(log, place, call, &At::Index(&list, index));
            }
        }
        Some(kind @ ("info" | "warning" | "error")) => transcript.pass(format!("{kind} for the user")),
        Some(other) => transcript.skip(format!("message of type {other}")),
    }
}

/// Converts Gemini's usage, in which cached tokens are part of the input.
fn usage_of(tokens: &Json, field_errors: &mut FieldErrors, at: &At) -> Usage {
    let mut number = |key: &str| Tokens(field_errors.number(tokens, at, key).unwrap_or(0));
    let (cached, tool) = (number("cached"), number("tool"));
    let mut usage = Usage::new(number("input") - cached + tool, number("output"));
    (usage.cache_read, usage.reasoning) = (cached, number("thoughts"));
    usage.total = field_errors.number(tokens, at, "total").map(Tokens);
    usage
}

/// Adds a call with its result.
fn call(log: &mut Assembly, place: usize, mut call: Json, at: &At) {
    if !log.field_errors.is_object(&call, at) {
        return;
    }
    let id = log.field_errors.string(&call, at, "id");
    let name = log.field_errors.string(&call, at, "name").unwrap_or_default();
    log.call(place, id.as_deref(), &name, call.take("args").into_value());
    let at_time = log.field_errors.time(&call, at, "timestamp");
    let status = log.field_errors.string(&call, at, "status");
    let has_result = !matches!(call.get("result"), None | Some(Json::Null));
    let has_failed = matches!(status.as_deref(), Some("error" | "cancelled"));
    if !has_result && !has_failed {
        return;
    }
    let mut answer = answered(call.take("result"));
    answer.is_error |= has_failed;
    answer.at = at_time;
    if let Some(call) = id.or_else(|| log.waiting()) {
        // The call was just added, so it takes the result.
        let _ = log.answer(&call, answer);
    }
}

/// Returns the result of a call as the model receives it: parts of a message, usually one `functionResponse`.
fn answered(result: Json) -> Answer {
    let mut answer = Answer::default();
    let mut texts: Vec<String> = Vec::new();
    let items = if let Json::List(items) = result { items } else { vec![result] };
    for mut item in items {
        let is_response = item.get("functionResponse").is_some_and(Json::is_object);
        let mut response =
            if is_response { item.take("functionResponse").take("response") } else { Json::Null };
        if !matches!(response, Json::Null) {
            answer.is_error |= response.get("error").is_some();
            let key = if response.get("error").is_some() { "error" } else { "output" };
            texts.push(match response.take(key) {
                Json::Null => response.into_value().to_string(),
                Json::Text(text) => text.into_owned(),
                other => other.into_value().to_string(),
            });
        } else if let Some(words) = file(&item).as_ref().and_then(words_of) {
            texts.push(words);
        } else if let Some(file) = file(&item) {
            let url = file.url.as_ref().map(Text::as_str);
            answer.attachments.push(json!({ "type": "file", "mime": file.mime, "url": url }));
        } else {
            match item {
                Json::Null => {}
                Json::Text(text) => texts.push(text.into_owned()),
                mut other => match other.take("text") {
                    Json::Text(text) => texts.push(text.into_owned()),
                    _ => texts.push(other.into_value().to_string()),
                },
            }
        }
    }
    answer.text = texts.join("\n");
    answer
}

/// Reads the file in a part: its bytes, or its location.
fn file(part: &Json) -> Option<FilePart> {
    let (data, kept) = (part.get("inlineData"), part.get("fileData"));
    let mime = data.or(kept)?.string("mimeType");
    let url = match (data, kept) {
        (Some(data), _) => {
            let mime = mime.as_deref().unwrap_or("application/octet-stream");
            format!("data:{mime};base64,{}", data.text("data")?)
        }
        (None, kept) => kept?.string("fileUri")?,
    };
    Some(FilePart { mime, filename: None, url: Some(url.into()) })
}

/// Reads content: a text, a part, or a list of both.
fn parts(log: &mut Assembly, place: usize, content: Json, at: &At, transcript: &mut Transcript) {
    match content {
        Json::List(items) => {
            for (index, item) in items.into_iter().enumerate() {
                part(log, place, item, &At::Index(at, index), transcript);
            }
        }
        one => part(log, place, one, at, transcript),
    }
}

fn part(log: &mut Assembly, place: usize, mut part: Json, at: &At, transcript: &mut Transcript) {
    match part {
        Json::Null => return,
        Json::Text(text) => {
            let synthetic = text.starts_with(CONTEXT);
            return log.user_text(place, text.into_owned(), synthetic);
        }
        Json::Object(_) => {}
        other => {
            let text = log.field_errors.as_text(other, at, "a text or a part");
            return log.text(place, text);
        }
    }
    let time: Option<Millis> = log.message(place).info.time.as_ref().and_then(|time| time.created);
    if part.get("text").is_some() {
        let is_thought = log.field_errors.is(&part, at, "thought");
        let text = log.field_errors.take_words(&mut part, at, "text");
        if is_thought {
            log.reasoning(place, text, None);
        } else {
            let synthetic = text.starts_with(CONTEXT);
            log.user_text(place, text, synthetic);
        }
    } else if let Some(file) = file(&part) {
        for key in ["inlineData", "fileData"] {
            if let Some(holder) = part.get(key) {
                log.field_errors.text(holder, &At::Key(at, key), "mimeType");
            }
        }
        log.file(place, file);
    } else if let Some(call) = log.field_errors.object(&part, at, "functionCall") {
        let at = &At::Key(at, "functionCall");
        let (id, name) = (log.field_errors.string(call, at, "id"), log.field_errors.string(call, at, "name"));
        let input = call.get("args").cloned().unwrap_or_default().into_value();
        log.call(place, id.as_deref(), &name.unwrap_or_default(), input);
    } else if let Some(response) = log.field_errors.object(&part, at, "functionResponse") {
        let call = log.field_errors.string(response, &At::Key(at, "functionResponse"), "id");
        let call = call.or_else(|| log.waiting()).unwrap_or_default();
        let answer = Answer { at: time, ..answered(part) };
        log.answer_or_keep(&call, answer, |_| place);
    } else {
        let kind = match part.into_value() {
            Value::Object(fields) => fields.keys().next().cloned(),
            _ => None,
        };
        transcript.skip(format!("part {}", kind.as_deref().unwrap_or("without fields")));
    }
}
