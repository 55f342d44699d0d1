//! Kimi's sessions: the wire log and the context of Kimi CLI, and the wire log of Kimi Code.
//!
//! There are three layouts with one record per line. They need not be distinguished, because each record names its
//! kind. The wire log of Kimi CLI wraps events (`{ timestamp, message: { type, payload } }`), its context contains
//! messages of a chat and a few other records (`role: "_usage"`), and the wire log of Kimi Code has operations on the
//! context (`type: "context.append_message"`).

use std::borrow::Cow;
use std::io::{self, BufRead, Seek};
use std::ops::Range;

use plimsoll::log::{At, CompactionPart};
use plimsoll::{Millis, Role, Tokens, Usage};
use serde_json::json;

use super::Sink;
use super::openai::{self, Joins};
use crate::assembly::{Answer, Assembly, Compaction, MAX_HELD};
use crate::blocks::{arguments, blocks, file, flatten};
use crate::field_errors::FieldErrors;
use crate::format::Format;
use crate::json::{Json, Take};
use crate::lines::Lines;
use crate::transcript::{Chain, Transcript};

/// Records of all layouts that the model does not see.
const UNUSED: [&str; 21] = [
    "ApprovalRequest",
    "ApprovalResponse",
    "BtwBegin",
    "BtwEnd",
    "CompactionEnd",
    "HookRequest",
    "HookResolved",
    "HookResponse",
    "HookTriggered",
    "MCPLoadingBegin",
    "MCPLoadingEnd",
    "Notification",
    "PlanDisplay",
    "QuestionRequest",
    "QuestionResponse",
    "StepRetry",
    "ToolCallRequest",
    "forked",
    "interruptionReminder.recorded",
    "prompt.accepted",
    "turn.prompt",
];
/// Prefixes of further kinds that the model does not see. A prompt and its end are also in the context.
const UNUSED_GROUPS: [&str; 18] = [
    "cron.",
    "full_compaction.",
    "goal.",
    "interaction.",
    "llm.",
    "mcp.",
    "micro_compaction.",
    "permission.",
    "plan.",
    "plan_mode.",
    "plugin.",
    "runtime.",
    "staleGuard.",
    "swarm_mode.",
    "task.",
    "token_counting.",
    "tools.",
    "tower_mode.",
];
/// Replaces a summary that is not in the wire log.
const UNKNOWN_SUMMARY: &str = "[The summary of this compaction is not in the file]";
/// Replaces what was said before the user cleared the context.
const CLEARED: &str = "[The context was cleared]";

pub(super) fn read(
    lines: &mut Lines<impl BufRead + Seek>,
    transcript: &mut Transcript,
    sink: Sink,
) -> io::Result<()> {
    let taken_back = taken_back(lines)?;
    let mut agents: Vec<(String, Events)> = Vec::new();
    {
        let mut main = |message| sink(Chain::Main, message);
        let mut reading = KimiReader::new(Assembly::new(&mut main, MAX_HELD));
        lines.each(transcript, |text, place, transcript| {
            let record = Json::parse(text)?;
            if taken_back.iter().any(|range| range.contains(&place.line)) {
                transcript.pass("undone");
                return Ok(());
            }
            reading.begin_record(text.len());
            if let Some((agent, event, time)) = reading.sub_agent(&record, &At::In(&place)) {
                // Sub-agents come after the session, so their events wait.
                let known = agents.iter().position(|(name, _)| *name == agent);
                let known = known.unwrap_or_else(|| {
                    agents.push((agent, Vec::new()));
                    agents.len() - 1
                });
                agents[known].1.push((event, time));
            } else {
                reading.record(record, &At::In(&place), transcript);
            }
            reading.log.settle(&mut transcript.notes);
            Ok(())
        })?;
        reading.finish();
    }
    for (number, (agent, events)) in agents.into_iter().enumerate() {
        let mut child = Transcript::new(transcript.format);
        let place = format!("sub-agent `{agent}`");
        child.info.id = Some(agent);
        let mut side = |message| sink(Chain::Side(number), message);
        // Without a limit: the events are in memory already, so emitting incomplete messages would save nothing.
        let mut reading = KimiReader::new(Assembly::new(&mut side, usize::MAX));
        reading.log.session(child.info.id.as_deref());
        for (event, time) in events {
            reading.begin_record(0);
            reading.event(event, time, &At::In(&place), &mut child);
            reading.log.settle(&mut child.notes);
        }
        reading.finish();
        transcript.side_chains.push(child);
    }
    Ok(())
}

/// Returns the lines of turns that Kimi Code removed; those of a turn start at its user message.
fn taken_back(lines: &mut Lines<impl BufRead + Seek>) -> io::Result<Vec<Range<u64>>> {
    let (mut turns, mut ranges): (Vec<u64>, Vec<Range<u64>>) = Default::default();
    // The second pass reports invalid lines.
    lines.each(&mut Transcript::new(Format::Kimi), |text, place, _| {
        if !["context.undo", "context.append_message"].iter().any(|kind| text.contains(kind)) {
            return Ok(());
        }
        let record = Json::parse_some(text, |_, depth, key| match (depth, key) {
            (0, "type" | "message" | "count") | (1, "role" | "origin") | (2, _) => Take::Whole,
            _ => Take::Skip,
        })?;
        match record.text("type") {
            Some("context.append_message") if record.get("message").is_some_and(is_turn) => {
                turns.push(place.line);
            }
            Some("context.undo") => {
                let count = usize::try_from(record.number("count").unwrap_or(0)).unwrap_or(usize::MAX);
                let left = turns.len().saturating_sub(count);
                if let Some(&start) = turns.get(left) {
                    turns.truncate(left);
                    ranges.retain(|range| range.start < start);
                    ranges.push(start..place.line);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    lines.rewind()?;
    Ok(ranges)
}

/// Whether this is a message of the user and not Kimi's own text.
fn is_turn(message: &Json) -> bool {
    let origin = message.get("origin");
    let kind = origin.and_then(|origin| origin.as_str().or(origin.text("kind")));
    message.text("role") == Some("user") && matches!(kind, None | Some("user"))
}

/// Events of a sub-agent, with their times, that wait until the session is read.
type Events = Vec<(Json<'static>, Option<Millis>)>;

struct KimiReader<'s> {
    log: Assembly<'s>,
    /// Response of the step, once it has any content.
    open: Option<usize>,
    /// The newest call: its arguments come in pieces, with results of earlier calls between them.
    call: Option<PendingCall>,
    joins: Joins,
    position: usize,
}

struct PendingCall {
    id: Option<String>,
    name: String,
    arguments: String,
    time: Option<Millis>,
}

impl<'s> KimiReader<'s> {
    fn new(log: Assembly<'s>) -> KimiReader<'s> {
        KimiReader { log, open: None, call: None, joins: Joins::default(), position: 0 }
    }

    fn begin_record(&mut self, bytes: usize) {
        let open = self.open.or(self.joins.open());
        self.log.record(self.position, bytes, self.position, open);
        self.position += 1;
    }

    fn finish(mut self) {
        self.put_call();
        self.log.finish();
    }

    /// Returns the event of a sub-agent, with its name and time.
    fn sub_agent(&mut self, record: &Json, at: &At) -> Option<(String, Json<'static>, Option<Millis>)> {
        let message = record.get("message")?;
        if message.text("type") != Some("SubagentEvent") {
            return None;
        }
        let field_errors = &mut self.log.field_errors;
        let time = field_errors.time(record, at, "timestamp");
        let (message_at, payload) = (At::Key(at, "message"), message.get("payload")?);
        let at = &At::Key(&message_at, "payload");
        let names = ["agent_id", "parent_tool_call_id", "task_tool_call_id"];
        let agent = names.into_iter().find_map(|key| field_errors.string(payload, at, key));
        let event = field_errors.object(payload, at, "event")?.clone().into_owned();
        Some((agent.unwrap_or_else(|| "sub-agent".into()), event, time))
    }

    fn record(&mut self, mut record: Json, at: &At, transcript: &mut Transcript) {
        let field_errors = &mut self.log.field_errors;
        if record.get("role").is_some() {
            return self.context(record, at, transcript);
        }
        if record.get("type").is_none() && record.get("message").is_some() {
            let time = field_errors.time(&record, at, "timestamp");
            transcript.info.note_time(time);
            field_errors.object(&record, at, "message");
            let message = record.take("message");
            return self.event(message, time, &At::Key(at, "message"), transcript);
        }
        let time = field_errors.time(&record, at, "time");
        transcript.info.note_time(time);
        let shapes = [("event", "context.append_loop_event"), ("message", "context.append_message")];
        match field_errors.kind(&record, at, "type", &shapes).map(str::to_owned).as_deref() {
            Some("metadata") => {
                transcript.info.version = field_errors.string(&record, at, "protocol_version");
                transcript.info.note_time(field_errors.time(&record, at, "created_at"));
            }
            Some(kind @ ("config.update" | "profile.bind")) => {
                let model = field_errors.string(&record, at, "modelAlias");
                transcript.info.model = model.or(transcript.info.model.take());
                let prompt = field_errors.take_words(&mut record, at, "systemPrompt");
                if prompt.is_empty() {
                    return transcript.pass(kind);
                }
                let place = self.log.begin(Role::System, None, time);
                self.log.text(place, prompt);
            }
            Some("context.append_message") => {
                field_errors.object(&record, at, "message");
                self.message(record.take("message"), time, &At::Key(at, "message"), transcript);
            }
            Some("context.append_loop_event") => {
                field_errors.object(&record, at, "event");
                self.step(record.take("event"), time, &At::Key(at, "event"), transcript);
            }
            Some("context.apply_compaction") => {
                let keys = ["contextSummary", "summary"];
                let summary = keys.into_iter().map(|key| record.take(key));
                let text = summary.map(|summary| flatten(summary).0).find(|text| !text.is_empty());
                self.compact(text.unwrap_or_else(|| UNKNOWN_SUMMARY.into()), time);
            }
            Some("context.clear") => self.compact(CLEARED.into(), time),
            Some("usage.record") => {
                if let Some(usage) = field_errors.object(&record, at, "usage") {
                    // A step has its own usage; this repeats it, or belongs to a request outside of the steps.
                    usage_of(usage, field_errors, &At::Key(at, "usage"));
                }
                let model = field_errors.string(&record, at, "model");
                transcript.info.model = transcript.info.model.take().or(model);
                transcript.pass("usage.record");
            }
            Some(kind) if is_unused(kind) => transcript.pass(kind),
            kind => transcript.skip(kind.unwrap_or("record without type")),
        }
    }

    fn compact(&mut self, text: String, time: Option<Millis>) {
        self.end_step();
        let part = CompactionPart::default();
        self.log.compaction(Compaction { marker: None, summary: None, at: time, text, part });
    }

    /// Reads a record of Kimi CLI's context: a message of a chat, or a note.
    fn context(&mut self, mut record: Json, at: &At, transcript: &mut Transcript) {
        match record.text("role") {
            Some("_system_prompt") => {
                let prompt = self.log.field_errors.take_words(&mut record, at, "content");
                let place = self.log.begin(Role::System, None, None);
                self.log.text(place, prompt);
            }
            // Tokens of the context after a response, not those of the response itself.
            Some(kind @ ("_usage" | "_checkpoint")) => transcript.pass(kind),
            _ => {
                let message = with_reasoning(record);
                openai::message(&mut self.log, message, at, transcript, &mut self.joins);
            }
        }
    }

    /// Reads a message that Kimi Code adds to the context.
    fn message(&mut self, mut message: Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        self.end_step();
        let log = &mut self.log;
        if !log.field_errors.is_object(&message, at) {
            return;
        }
        let id = log.field_errors.string(&message, at, "id");
        let shapes = [("toolCallId", "tool")];
        let role = log.field_errors.kind(&message, at, "role", &shapes).map(str::to_owned);
        let inside = At::Key(at, "content");
        if role.as_deref() == Some("tool") {
            let call = log.field_errors.string(&message, at, "toolCallId").unwrap_or_default();
            let is_error = log.field_errors.is(&message, at, "isError");
            let (text, attachments) = flatten(message.take("content"));
            let answer = Answer { text, attachments, is_error, at: time, ..Answer::default() };
            return log.answer_or_keep(&call, answer, |log| log.begin(Role::User, id, time));
        }
        let synthetic = role.as_deref() == Some("user") && !is_turn(&message);
        let place = match role.as_deref() {
            Some("assistant") => log.begin(Role::Assistant, id, time),
            Some("system") => log.begin(Role::System, id, time),
            None => log.begin(None, id, time),
            Some("user") => log.begin(Role::User, id, time),
            Some(other) => return transcript.skip(format!("message of role {other}")),
        };
        if role.as_deref() == Some("assistant") {
            log.info(place).model_id.clone_from(&transcript.info.model);
        }
        let content = blocks(message.take("content"), &mut log.field_errors, &inside);
        for (index, block) in content.into_iter().enumerate() {
            part(log, place, block, synthetic, &At::Index(&inside, index), transcript);
        }
        let inside = At::Key(at, "toolCalls");
        let calls = log.field_errors.take_list(&mut message, at, "toolCalls");
        for (index, mut call) in calls.into_iter().enumerate() {
            let at = &At::Index(&inside, index);
            if log.field_errors.is_object(&call, at) {
                let id = log.field_errors.string(&call, at, "id");
                let name = log.field_errors.string(&call, at, "name").unwrap_or_default();
                log.call(place, id.as_deref(), &name, arguments(call.take("arguments")));
            }
        }
    }

    /// Reads an event in a step of Kimi Code.
    fn step(&mut self, mut event: Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let log = &mut self.log;
        if !log.field_errors.is_object(&event, at) {
            return;
        }
        let shapes = [("part", "content.part"), ("result", "tool.result"), ("args", "tool.call")];
        match log.field_errors.kind(&event, at, "type", &shapes).map(str::to_owned).as_deref() {
            Some("step.begin") => self.end_step(),
            Some("content.part") => {
                log.field_errors.object(&event, at, "part");
                let place = self.response(time, transcript);
                part(&mut self.log, place, event.take("part"), false, &At::Key(at, "part"), transcript);
            }
            Some("tool.call") => {
                let id = log.field_errors.string(&event, at, "toolCallId");
                let name = log.field_errors.string(&event, at, "name").unwrap_or_default();
                let place = self.response(time, transcript);
                self.log.call(place, id.as_deref(), &name, arguments(event.take("args")));
            }
            Some("tool.result") => {
                let call = log.field_errors.string(&event, at, "toolCallId").unwrap_or_default();
                log.field_errors.object(&event, at, "result");
                let mut result = event.take("result");
                let is_error = log.field_errors.is(&result, &At::Key(at, "result"), "isError");
                let (text, attachments) = flatten(result.take("output"));
                let answer = Answer { text, attachments, is_error, at: time, ..Answer::default() };
                log.answer_or_keep(&call, answer, |log| log.begin(Role::User, None, time));
            }
            Some("step.end") => {
                let usage = log.field_errors.object(&event, at, "usage");
                let usage = usage.map(|usage| usage_of(usage, &mut log.field_errors, &At::Key(at, "usage")));
                if let Some(usage) = usage {
                    let place = self.response(time, transcript);
                    self.log.info(place).tokens = Some(usage);
                    self.log.completed(place, time);
                }
                self.end_step();
            }
            kind => transcript.skip(kind.unwrap_or("event without type")),
        }
    }

    /// Reads an event in a turn of Kimi CLI.
    fn event(&mut self, mut message: Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let log = &mut self.log;
        if !log.field_errors.is_object(&message, at) {
            return;
        }
        let kind = log.field_errors.kind(&message, at, "type", &[]).map(str::to_owned);
        log.field_errors.object(&message, at, "payload");
        let mut payload = message.take("payload");
        let at = &At::Key(at, "payload");
        match kind.as_deref() {
            Some("TurnBegin" | "SteerInput") => {
                self.end_step();
                let inside = At::Key(at, "user_input");
                let log = &mut self.log;
                let place = log.begin(Role::User, None, time);
                let content = blocks(payload.take("user_input"), &mut log.field_errors, &inside);
                for (index, block) in content.into_iter().enumerate() {
                    part(log, place, block, false, &At::Index(&inside, index), transcript);
                }
            }
            Some("StepBegin" | "TurnEnd") => self.end_step(),
            Some("StepInterrupted") => {
                self.put_call();
                if let Some(place) = self.open.take().filter(|place| self.log.holds(*place)) {
                    let data = json!({ "message": "the step was interrupted" });
                    self.log.info(place).error = Some(json!({ "name": "MessageAbortedError", "data": data }));
                }
                self.end_step();
            }
            Some("ContentPart") => {
                self.put_call();
                let place = self.response(time, transcript);
                part(&mut self.log, place, payload, false, at, transcript);
            }
            Some("ToolCall") => {
                self.put_call();
                let field_errors = &mut self.log.field_errors;
                field_errors.object(&payload, at, "function");
                let mut function = payload.take("function");
                let inside = At::Key(at, "function");
                let call = PendingCall {
                    id: field_errors.string(&payload, at, "id"),
                    name: field_errors.string(&function, &inside, "name").unwrap_or_default(),
                    arguments: field_errors.take_words(&mut function, &inside, "arguments"),
                    time,
                };
                self.response(time, transcript);
                self.call = Some(call);
            }
            Some("ToolCallPart") => {
                let piece = log.field_errors.take_words(&mut payload, at, "arguments_part");
                match &mut self.call {
                    Some(call) => call.arguments.push_str(&piece),
                    None => transcript.skip("ToolCallPart without a call"),
                }
            }
            Some("ToolResult") => self.result(payload, time, at),
            Some("StatusUpdate") => self.status(&payload, time, at, transcript),
            Some("CompactionBegin") => self.compact(UNKNOWN_SUMMARY.into(), time),
            Some(kind) if is_unused(kind) => transcript.pass(kind),
            kind => transcript.skip(kind.unwrap_or("event without type")),
        }
    }

    /// Reads the result of a tool, with the note that the model sees before it.
    fn result(&mut self, mut payload: Json, time: Option<Millis>, at: &At) {
        let call = self.log.field_errors.string(&payload, at, "tool_call_id").unwrap_or_default();
        if self.call.as_ref().is_some_and(|waiting| waiting.id.as_deref() == Some(call.as_str())) {
            self.put_call();
        }
        let field_errors = &mut self.log.field_errors;
        let key = if payload.get("return_value").is_some() { "return_value" } else { "result" };
        field_errors.object(&payload, at, key);
        let mut value = payload.take(key);
        let at = &At::Key(at, key);
        let is_error = field_errors.is(&value, at, "is_error");
        let note = field_errors.take_words(&mut value, at, "message");
        let (output, attachments) = flatten(value.take("output"));
        let text = match (note.is_empty(), output.is_empty()) {
            (true, _) => output,
            (false, true) => note,
            (false, false) => format!("<system>{note}</system>\n{output}"),
        };
        let answer = Answer { text, is_error, attachments, at: time, ..Answer::default() };
        self.log.answer_or_keep(&call, answer, |log| log.begin(Role::User, None, time));
    }

    fn status(&mut self, payload: &Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let field_errors = &mut self.log.field_errors;
        let context = field_errors.number(payload, at, "max_context_tokens").map(Tokens);
        transcript.info.context = context.or(transcript.info.context);
        let usage = field_errors.object(payload, at, "token_usage");
        let usage = usage.map(|usage| usage_of(usage, field_errors, &At::Key(at, "token_usage")));
        match usage {
            Some(usage) => {
                self.put_call();
                let place = self.response(time, transcript);
                self.log.info(place).tokens = Some(usage);
                self.log.completed(place, time);
            }
            None => transcript.pass("StatusUpdate"),
        }
    }

    /// Returns the message for the model's content.
    fn response(&mut self, time: Option<Millis>, transcript: &Transcript) -> usize {
        let known = self.open.filter(|place| self.log.holds(*place));
        let place = known.unwrap_or_else(|| {
            let place = self.log.begin(Role::Assistant, None, time);
            self.log.info(place).model_id.clone_from(&transcript.info.model);
            place
        });
        self.open = Some(place);
        place
    }

    /// Adds the newest call to the log, now that its arguments are complete.
    fn put_call(&mut self) {
        let Some(PendingCall { id, name, arguments: given, time }) = self.call.take() else { return };
        let known = self.open.filter(|place| self.log.holds(*place));
        let place = known.unwrap_or_else(|| self.log.begin(Role::Assistant, None, time));
        let input = arguments(Json::Text(Cow::Owned(given)));
        self.log.call(place, id.as_deref(), &name, input);
    }

    fn end_step(&mut self) {
        self.put_call();
        self.open = None;
        self.joins.end();
    }
}

fn is_unused(kind: &str) -> bool {
    UNUSED.contains(&kind)
        || UNUSED_GROUPS.iter().any(|group| kind.starts_with(group))
        || kind.starts_with("turn.")
        || kind == "context.update_token_count"
        || kind == "context.undo"
}

/// Converts Kimi's usage, with the names of either program.
fn usage_of(usage: &Json, field_errors: &mut FieldErrors, at: &At) -> Usage {
    let mut either = |first: &str, second: &str| {
        let number = field_errors.number(usage, at, first).or_else(|| field_errors.number(usage, at, second));
        Tokens(number.unwrap_or(0))
    };
    let mut tokens = Usage::new(either("input_other", "inputOther"), either("output", "output"));
    tokens.cache_read = either("input_cache_read", "inputCacheRead");
    tokens.cache_write = either("input_cache_creation", "inputCacheCreation");
    tokens
}

/// Adds a piece of content: text, reasoning, or a file.
fn part(
    log: &mut Assembly,
    place: usize,
    mut part: Json,
    synthetic: bool,
    at: &At,
    transcript: &mut Transcript,
) {
    if !log.field_errors.is_object(&part, at) {
        return;
    }
    match log.field_errors.kind(&part, at, "type", &[("think", "think"), ("text", "text")]) {
        Some("text") => {
            let text = log.field_errors.take_words(&mut part, at, "text");
            log.user_text(place, text, synthetic);
        }
        Some("think") => {
            let sealed = log.field_errors.string(&part, at, "encrypted");
            let metadata = sealed.map(|sealed| json!({ "kimi": { "encrypted": sealed } }));
            let text = log.field_errors.take_words(&mut part, at, "think");
            log.reasoning(place, text, metadata);
        }
        kind => match file(&part) {
            Some(file) => log.file(place, file),
            None => transcript.skip(format!("content part {}", kind.unwrap_or("without type"))),
        },
    }
}

/// Converts the reasoning of a message in the context to the common form.
fn with_reasoning(mut message: Json) -> Json {
    let blocks = match message.take("content") {
        Json::List(blocks) => blocks,
        other => {
            message.set("content", other);
            return message;
        }
    };
    let mut rest = Vec::new();
    for mut block in blocks {
        if block.text("type") == Some("think") {
            let words = block.take("think");
            rest.push(Json::Object(vec![
                (Cow::Borrowed("type"), Json::Text(Cow::Borrowed("thinking"))),
                (Cow::Borrowed("text"), words),
            ]));
        } else {
            rest.push(block);
        }
    }
    message.set("content", Json::List(rest));
    message
}
