//! Events of Anthropic's Managed Agents, a line each: as the API writes them, or within a record that puts who
//! speaks and when beside them.
//!
//! What the model says between the start and the end of a request is one response.

use std::io::{self, BufRead, Seek};

use plimsoll::log::{At, CompactionPart};
use plimsoll::{Millis, Role};

use super::Sink;
use crate::assembly::{Answer, Assembly, Compaction, MOST_HELD};
use crate::blocks::{anthropic_usage, blocks, file, flatten};
use crate::json::Json;
use crate::lines::Lines;
use crate::transcript::{Chain, Transcript};

/// Events about the course of a session that no model was shown.
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
/// Stands for a summary that the events do not hold.
const UNKNOWN_SUMMARY: &str = "[The summary of this compaction is not in the file]";

pub(super) fn read(
    lines: &mut Lines<impl BufRead + Seek>,
    transcript: &mut Transcript,
    sink: Sink,
) -> io::Result<()> {
    let mut sink = |message| sink(Chain::Main, message);
    let mut reading = Reading { log: Assembly::new(&mut sink, MOST_HELD), open: None };
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

struct Reading<'s> {
    log: Assembly<'s>,
    /// The response that may go on.
    open: Option<usize>,
}

impl Reading<'_> {
    fn record(&mut self, mut record: Json, at: &At, transcript: &mut Transcript) {
        let wrapped = At::Key(at, "raw");
        if record.get("raw").is_none() {
            return self.event(record, None, at, transcript);
        }
        // A time that was never set is written as the first day of the first year.
        let is_unset = record.text("time").is_some_and(|time| time.starts_with("0001-01-01"));
        let time = if is_unset { None } else { self.log.misfits.time(&record, at, "time") };
        if self.log.misfits.object(&record, at, "raw").is_none() {
            return transcript.skip("record without an event");
        }
        self.event(record.take("raw"), time, &wrapped, transcript);
    }

    fn event(&mut self, mut event: Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let log = &mut self.log;
        let time = log.misfits.time(&event, at, "processed_at").or(time);
        transcript.info.seen(time);
        let id = log.misfits.string(&event, at, "id");
        let kind = log.misfits.kind(&event, at, "type", &[]).map(str::to_owned);
        match kind.as_deref() {
            Some("user.message" | "system.message") => {
                self.open = None;
                let role = if kind.as_deref() == Some("user.message") { Role::User } else { Role::System };
                let place = log.begin(role, id, time);
                said(log, place, &mut event, at, transcript);
            }
            Some("user.define_outcome") => {
                self.open = None;
                let place = log.begin(Role::User, id, time);
                let task = log.misfits.take_words(&mut event, at, "description");
                log.text(place, task);
                let rubric = flatten(event.take("rubric")).0;
                log.said(place, rubric, true);
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
                said(&mut self.log, place, &mut event, at, transcript);
            }
            Some("agent.thinking") => {
                // Most have no text: the API says that the model thought, and not what.
                let inside = At::Key(at, "content");
                let content = blocks(event.take("content"), &mut log.misfits, &inside);
                if content.is_empty() {
                    return transcript.pass("agent.thinking");
                }
                let place = self.response(id, time);
                let (text, _) = flatten(Json::List(content));
                self.log.reasoning(place, text, None);
            }
            Some("agent.tool_use" | "agent.mcp_tool_use" | "agent.custom_tool_use") => {
                let name = log.misfits.string(&event, at, "name").unwrap_or_default();
                let input = event.take("input").into_value();
                let place = self.response(None, time);
                self.log.call(place, id.as_deref(), &name, input);
            }
            Some("agent.tool_result" | "agent.mcp_tool_result" | "user.custom_tool_result") => {
                let named = ["tool_use_id", "mcp_tool_use_id", "custom_tool_use_id"];
                let call = named.into_iter().find_map(|key| log.misfits.string(&event, at, key));
                let is_error = log.misfits.is(&event, at, "is_error");
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
                let words = log.misfits.take_words(&mut event, at, "explanation");
                let place = log.begin(Role::User, id, time);
                log.said(place, words, true);
            }
            Some("agent.thread_context_compacted" | "session.context_compacted") => {
                self.open = None;
                let text = log.misfits.take_words(&mut event, at, "summary");
                let text = if text.is_empty() { UNKNOWN_SUMMARY.to_owned() } else { text };
                let part = CompactionPart::default();
                log.compaction(Compaction { marker: None, summary: id, at: time, text, part });
            }
            Some(kind) if COURSE.contains(&kind) => transcript.pass(kind),
            kind => transcript.skip(kind.unwrap_or("event without type")),
        }
    }

    /// The message that what the model says goes into.
    fn response(&mut self, id: Option<String>, time: Option<Millis>) -> usize {
        let log = &mut self.log;
        let known = self.open.filter(|place| log.holds(*place));
        let place = known.unwrap_or_else(|| log.begin(Role::Assistant, id, time));
        self.open = Some(place);
        place
    }

    /// The end of a request, with what it took.
    fn counted(&mut self, event: &Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let log = &mut self.log;
        let open = self.open.take().filter(|place| log.holds(*place));
        let has_failed = log.misfits.is(event, at, "is_error");
        let Some(usage) = log.misfits.object(event, at, "model_usage") else {
            return transcript.pass("span.model_request_end");
        };
        let usage = anthropic_usage(usage, &mut log.misfits, &At::Key(at, "model_usage"));
        match open {
            Some(place) => {
                log.info(place).tokens = Some(usage);
                log.completed(place, time);
            }
            // A request that failed took its tokens all the same; there is no message to note them with.
            None if has_failed => transcript.pass("model request that failed"),
            None => {
                let place = log.begin(Role::Assistant, None, time);
                log.info(place).tokens = Some(usage);
            }
        }
    }
}

/// Put the content of an event into a message.
fn said(log: &mut Assembly, place: usize, event: &mut Json, at: &At, transcript: &mut Transcript) {
    let inside = At::Key(at, "content");
    let content = blocks(event.take("content"), &mut log.misfits, &inside);
    for (index, mut block) in content.into_iter().enumerate() {
        let at = &At::Index(&inside, index);
        match log.misfits.kind(&block, at, "type", &[("text", "text")]) {
            Some("text") => {
                let text = log.misfits.take_words(&mut block, at, "text");
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
