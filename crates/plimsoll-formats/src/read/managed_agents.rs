//! Events of Anthropic's Managed Agents, one per line: as the API returns them, or wrapped in a record with author and
//! time.
//!
//! The model's events between the start and the end of a request are one response.

use std::io::{self, BufRead, Seek};

use plimsoll::log::{At, CompactionPart};
use plimsoll::{Millis, Role};

use super::Sink;
use crate::assembly::{Answer, Assembly, Compaction, MAX_HELD};
use crate::blocks::{anthropic_usage, blocks, file, flatten};
use crate::json::Json;
use crate::lines::Lines;
use crate::transcript::{Chain, Transcript};

/// Events about the session that the model does not see.
const COURSE: [&str; 12] = [
    "session.status_running",
    "session.status_idle",
    "session.status_rescheduled",
    "session.status_terminated",
    "session.thread_status_running",
    "session.thread_status_idle",
    "session.thread_created",
    "session.usage",
    "session.error",
    "span.outcome_evaluation_start",
    "span.outcome_evaluation_ongoing",
    "user.tool_confirmation",
];
/// Replaces a summary that is not in the events.
const UNKNOWN_SUMMARY: &str = "[The summary of this compaction is not in the file]";

pub(super) fn read(
    lines: &mut Lines<impl BufRead + Seek>,
    transcript: &mut Transcript,
    sink: Sink,
) -> io::Result<()> {
    let mut sink = |message| sink(Chain::Main, message);
    let mut reading = ManagedAgentsReader { log: Assembly::new(&mut sink, MAX_HELD), open: None };
    let mut position = 0;
    lines.each(transcript, |text, place, transcript| {
        let record = Json::parse(text)?;
        reading.log.record(position, text.len(), position, reading.open);
        reading.record(record, &At::In(&place), transcript);
        reading.log.settle(&mut transcript.notes);
        position += 1;
        Ok(())
    })?;
    reading.log.finish();
    Ok(())
}

struct ManagedAgentsReader<'s> {
    log: Assembly<'s>,
    /// The current response.
    open: Option<usize>,
}

impl ManagedAgentsReader<'_> {
    fn record(&mut self, mut record: Json, at: &At, transcript: &mut Transcript) {
        let wrapped = At::Key(at, "raw");
        if record.get("raw").is_none() {
            return self.event(record, None, at, transcript);
        }
        // An unset time is written as the first day of year 1.
        let is_unset = record.text("time").is_some_and(|time| time.starts_with("0001-01-01"));
        let time = if is_unset { None } else { self.log.field_errors.time(&record, at, "time") };
        if self.log.field_errors.object(&record, at, "raw").is_none() {
            return transcript.skip("record without an event");
        }
        self.event(record.take("raw"), time, &wrapped, transcript);
    }

    fn event(&mut self, mut event: Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let log = &mut self.log;
        let time = log.field_errors.time(&event, at, "processed_at").or(time);
        transcript.info.note_time(time);
        let id = log.field_errors.string(&event, at, "id");
        let kind = log.field_errors.kind(&event, at, "type", &[]).map(str::to_owned);
        match kind.as_deref() {
            Some("user.message" | "system.message") => {
                self.open = None;
                let role = if kind.as_deref() == Some("user.message") { Role::User } else { Role::System };
                let place = log.begin(role, id, time);
                add_content(log, place, &mut event, at, transcript);
            }
            Some("user.define_outcome") => {
                self.open = None;
                let place = log.begin(Role::User, id, time);
                let task = log.field_errors.take_words(&mut event, at, "description");
                log.text(place, task);
                let rubric = flatten(event.take("rubric")).0;
                log.user_text(place, rubric, true);
            }
            Some("user.interrupt") => {
                if let Some(place) = self.open.take().filter(|place| log.holds(*place)) {
                    log.info(place).error = Some(serde_json::json!({
                        "name": "MessageAbortedError", "data": { "message": "interrupted by the user" }
                    }));
                } else {
                    transcript.pass("user.interrupt");
                }
            }
            Some("agent.message") => {
                let place = self.response(id, time);
                add_content(&mut self.log, place, &mut event, at, transcript);
            }
            Some("agent.thinking") => {
                // Most have no text: the API reports that the model thought, but not what.
                let inside = At::Key(at, "content");
                let content = blocks(event.take("content"), &mut log.field_errors, &inside);
                if content.is_empty() {
                    return transcript.pass("agent.thinking");
                }
                let place = self.response(id, time);
                let (text, _) = flatten(Json::List(content));
                self.log.reasoning(place, text, None);
            }
            Some("agent.tool_use" | "agent.mcp_tool_use" | "agent.custom_tool_use") => {
                let name = log.field_errors.string(&event, at, "name").unwrap_or_default();
                let input = event.take("input").into_value();
                let place = self.response(None, time);
                self.log.call(place, id.as_deref(), &name, input);
            }
            Some("agent.tool_result" | "agent.mcp_tool_result" | "user.custom_tool_result") => {
                let named = ["tool_use_id", "mcp_tool_use_id", "custom_tool_use_id"];
                let call = named.into_iter().find_map(|key| log.field_errors.string(&event, at, key));
                let is_error = log.field_errors.is(&event, at, "is_error");
                let (text, attachments) = flatten(event.take("content"));
                let answer = Answer { text, is_error, attachments, at: time, ..Answer::default() };
                log.answer_or_keep(&call.unwrap_or_default(), answer, |log| log.begin(Role::User, id, time));
            }
            Some("span.model_request_start") => {
                self.open = None;
                transcript.pass("span.model_request_start");
            }
            Some("span.model_request_end") => self.counted(&event, time, at, transcript),
            Some("span.outcome_evaluation_end") => {
                self.open = None;
                let words = log.field_errors.take_words(&mut event, at, "explanation");
                let place = log.begin(Role::User, id, time);
                log.user_text(place, words, true);
            }
            Some("agent.thread_context_compacted" | "session.context_compacted") => {
                self.open = None;
                let text = log.field_errors.take_words(&mut event, at, "summary");
                let text = if text.is_empty() { UNKNOWN_SUMMARY.to_owned() } else { text };
                let part = CompactionPart::default();
                log.compaction(Compaction { marker: None, summary: id, at: time, text, part });
            }
            Some(kind) if COURSE.contains(&kind) => transcript.pass(kind),
            kind => transcript.skip(kind.unwrap_or("event without type")),
        }
    }

    /// Returns the message for the model's content.
    fn response(&mut self, id: Option<String>, time: Option<Millis>) -> usize {
        let log = &mut self.log;
        let known = self.open.filter(|place| log.holds(*place));
        let place = known.unwrap_or_else(|| log.begin(Role::Assistant, id, time));
        self.open = Some(place);
        place
    }

    /// Ends a request with its usage.
    fn counted(&mut self, event: &Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let log = &mut self.log;
        let open = self.open.take().filter(|place| log.holds(*place));
        let has_failed = log.field_errors.is(event, at, "is_error");
        let Some(usage) = log.field_errors.object(event, at, "model_usage") else {
            return transcript.pass("span.model_request_end");
        };
        let usage = anthropic_usage(usage, &mut log.field_errors, &At::Key(at, "model_usage"));
        match open {
            Some(place) => {
                log.info(place).tokens = Some(usage);
                log.completed(place, time);
            }
            // A failed request is billed as well, but there is no message to record it with.
            None if has_failed => transcript.pass("model request that failed"),
            None => {
                let place = log.begin(Role::Assistant, None, time);
                log.info(place).tokens = Some(usage);
            }
        }
    }
}

/// Adds the content of an event to a message.
fn add_content(log: &mut Assembly, place: usize, event: &mut Json, at: &At, transcript: &mut Transcript) {
    let inside = At::Key(at, "content");
    let content = blocks(event.take("content"), &mut log.field_errors, &inside);
    for (index, mut block) in content.into_iter().enumerate() {
        let at = &At::Index(&inside, index);
        match log.field_errors.kind(&block, at, "type", &[("text", "text")]) {
            Some("text") => {
                let text = log.field_errors.take_words(&mut block, at, "text");
                log.text(place, text);
            }
            kind => match file(&block) {
                Some(file) => log.file(place, file),
                None => {
                    transcript.skip(format!("content block {}", kind.unwrap_or("without type")));
                }
            },
        }
    }
}
