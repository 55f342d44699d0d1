//! Messages of OpenAI's chat completions, and the variants of tools that store them.

mod counts;

use std::borrow::Cow;
use std::collections::HashSet;

use plimsoll::log::At;
use plimsoll::{Millis, Role, Tokens, Usage};

use self::counts::Counts;
use super::Sink;
use crate::assembly::{Answer, Assembly};
use crate::blocks::{arguments, blocks, file, flatten};
use crate::document::Document;
use crate::error::FormatError;
use crate::field_errors::FieldErrors;
use crate::json::Json;
use crate::transcript::{Chain, Transcript};

/// Fields that identify the role of a message without one.
const ROLES: [(&str, &str); 3] =
    [("tool_call_id", "tool"), ("tool_calls", "assistant"), ("function_call", "assistant")];
/// Fields that identify the kind of a block without a type.
const BLOCKS: [(&str, &str); 3] = [("arguments", "tool_call"), ("thinking", "thinking"), ("text", "text")];

pub(super) fn read(
    document: &Document,
    outline: &Json,
    transcript: &mut Transcript,
    sink: Sink,
) -> Result<(), FormatError> {
    let mut main = |message| sink(Chain::Main, message);
    let mut log = Assembly::new(&mut main, usize::MAX);
    let mut joins = Joins { counts: about(&mut log, outline, transcript), ..Joins::default() };
    joins.counts.record(transcript.info.model.as_deref(), &mut transcript.recorded);
    log.settle(&mut transcript.notes);
    log.session(transcript.info.id.as_deref());
    let list = document.list("messages");
    let mut agents = Agents::default();
    document.each(transcript.format, "messages", |position, message| {
        let Some(message) = agents.take(position, message) else { return Ok(()) };
        log.record(position, 0, position, joins.open());
        self::message(&mut log, message, &At::Index(&list, position), transcript, &mut joins);
        log.settle(&mut transcript.notes);
        Ok(())
    })?;
    log.finish();
    for (number, agent) in agents.0.into_iter().enumerate() {
        let mut child = Transcript::new(transcript.format);
        child.info.id = Some(agent.name);
        child.info.directory.clone_from(&transcript.info.directory);
        let mut side = |message| sink(Chain::Side(number), message);
        let mut log = Assembly::new(&mut side, usize::MAX);
        log.session(child.info.id.as_deref());
        let mut joins = Joins { counts: std::mem::take(&mut joins.counts), ..Joins::default() };
        for (position, message) in agent.messages {
            log.record(position, 0, position, joins.open());
            self::message(&mut log, message, &At::Index(&list, position), &mut child, &mut joins);
            log.settle(&mut child.notes);
        }
        log.finish();
        transcript.side_chains.push(child);
    }
    Ok(())
}

/// Sub-agents whose messages are among those of the session, with roles like `assistant-subagent-7`.
#[derive(Default)]
struct Agents<'a>(Vec<Agent<'a>>);

struct Agent<'a> {
    name: String,
    messages: Vec<(usize, Json<'a>)>,
    calls: HashSet<String>,
}

impl<'a> Agents<'a> {
    /// Keeps a message of a sub-agent for later; returns a message of the session.
    fn take(&mut self, position: usize, mut message: Json<'a>) -> Option<Json<'a>> {
        let role = message.text("role").and_then(|role| role.split_once("-subagent"));
        let role = role.map(|(role, name)| (role.to_owned(), name.trim_start_matches('-').to_owned()));
        let Some((role, name)) = role else {
            let call = message.text("tool_call_id");
            let agent = call.and_then(|call| self.0.iter_mut().find(|agent| agent.calls.contains(call)));
            let Some(agent) = agent else { return Some(message) };
            agent.messages.push((position, message));
            return None;
        };
        let known = self.0.iter().position(|agent| agent.name == name);
        let place = known.unwrap_or_else(|| {
            self.0.push(Agent { name, messages: Vec::new(), calls: HashSet::new() });
            self.0.len() - 1
        });
        message.set("role", Json::Text(Cow::Owned(role)));
        let listed = message.get("tool_calls").and_then(Json::as_list).unwrap_or_default();
        let blocks = message.get("content").and_then(Json::as_list).unwrap_or_default();
        let ids =
            listed.iter().chain(blocks).filter_map(|call| call.text("id").or(call.text("tool_call_id")));
        self.0[place].calls.extend(ids.map(str::to_owned));
        self.0[place].messages.push((position, message));
        None
    }
}

/// Determines which messages are pieces of one response.
///
/// The model is called again after a user message or a tool result. Consecutive messages of a model are therefore one
/// response, unless they have different names or models. If tokens were counted, the counts decide, even if a tool
/// result comes before the next call of the same response.
///
/// Otherwise exports that write each block of a response separately would count one response as several calls.
#[derive(Default)]
pub(super) struct Joins {
    counts: Counts,
    open: Option<OpenResponse>,
}

/// The current response.
struct OpenResponse {
    place: usize,
    id: Option<String>,
    model: Option<String>,
    counted: Option<usize>,
    /// Whether a tool result has followed.
    is_answered: bool,
}

impl Joins {
    pub(super) fn open(&self) -> Option<usize> {
        self.open.as_ref().map(|open| open.place)
    }

    /// Ends the response: a message of the user or the host.
    pub(super) fn end(&mut self) {
        self.open = None;
    }

    /// Notes a tool result.
    fn answered(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_answered = true;
        }
    }

    /// Returns the message of the log for a message of the model.
    pub(super) fn place(
        &mut self,
        log: &mut Assembly,
        id: Option<String>,
        model: Option<&str>,
        at: Option<Millis>,
    ) -> usize {
        let found = self.counts.find(at);
        let counted = found.map(|(response, ..)| response);
        let goes_on = self.open.take().filter(|open| {
            let is_same = match (open.counted, counted) {
                (Some(before), Some(now)) => before == now,
                _ => !open.is_answered,
            };
            let agrees = |a: Option<&str>, b: Option<&str>| a.is_none() || b.is_none() || a == b;
            log.holds(open.place)
                && is_same
                && agrees(open.id.as_deref(), id.as_deref())
                && agrees(open.model.as_deref(), model)
        });
        let open = goes_on.unwrap_or_else(|| {
            let place = log.begin(Role::Assistant, id.clone(), at);
            OpenResponse { place, id, model: model.map(str::to_owned), counted, is_answered: false }
        });
        let place = open.place;
        self.open = Some(OpenResponse { is_answered: false, ..open });
        if let Some((_, usage, model)) = found {
            let info = log.info(place);
            info.tokens = Some(usage.clone());
            info.model_id = model.map(str::to_owned).or(info.model_id.take());
        }
        place
    }
}

fn about(log: &mut Assembly, outline: &Json, transcript: &mut Transcript) -> Counts {
    let (info, field_errors) = (&mut transcript.info, &mut log.field_errors);
    info.model = field_errors.string(outline, &At::Root, "model");
    let Some(Json::Raw(meta)) = outline.get("meta") else { return Counts::default() };
    let meta = Json::parse(meta).unwrap_or_default();
    let at = At::Key(&At::Root, "meta");
    if !matches!(meta, Json::Null) {
        field_errors.is_object(&meta, &at);
    }
    if let Some(session) = field_errors.object(&meta, &at, "session_meta") {
        let at = At::Key(&at, "session_meta");
        let mut either = |first: &str, second: &str| {
            field_errors.string(session, &at, first).or_else(|| field_errors.string(session, &at, second))
        };
        (info.id, info.version) = (either("id", "session_id"), either("cli_version", "version"));
        info.directory = field_errors.string(session, &at, "cwd");
    }
    let list = |key: &str| meta.get(key).and_then(Json::as_list).unwrap_or_default();
    let last = list("turn_contexts").iter().rev().find_map(|context| context.string("model"));
    info.model = info.model.take().or(last);
    let counts = Counts::read(list("token_counts"), field_errors, &At::Key(&at, "token_counts"), info);
    if let Json::Object(fields) = &meta {
        for (kind, entries) in fields.iter().filter(|(kind, _)| kind != "token_counts") {
            for _ in entries.as_list().unwrap_or_default() {
                transcript.pass(format!("meta/{kind}"));
            }
        }
    }
    counts
}

/// Adds a message to the log. SWE-agent's history has the same messages.
pub(super) fn message(
    log: &mut Assembly,
    mut message: Json,
    at: &At,
    transcript: &mut Transcript,
    joins: &mut Joins,
) {
    if !log.field_errors.is_object(&message, at) {
        return;
    }
    log.field_errors.object(&message, at, "_metadata");
    let metadata = message.take("_metadata");
    let about = At::Key(at, "_metadata");
    let time = log.field_errors.time(&metadata, &about, "timestamp");
    let time = time.or_else(|| log.field_errors.time(&message, at, "timestamp"));
    transcript.info.note_time(time);
    let id = log.field_errors.string(&message, at, "id");
    let role = log.field_errors.kind(&message, at, "role", &ROLES).map(str::to_owned);
    match role.as_deref() {
        Some("assistant") => {
            let model = log.field_errors.string(&metadata, &about, "model");
            let model = model.or_else(|| log.field_errors.string(&message, at, "model"));
            transcript.info.model = model.clone().or(transcript.info.model.take());
            let place = joins.place(log, id, model.as_deref(), time);
            let model = model.or_else(|| transcript.info.model.clone());
            let info = log.info(place);
            info.model_id = info.model_id.take().or(model);
            if let Some(usage) = log.field_errors.object(&message, at, "usage") {
                let usage = usage_of(usage, &mut log.field_errors, &At::Key(at, "usage"));
                log.info(place).tokens = Some(usage);
            }
            assistant(log, place, message, at, transcript);
        }
        Some("tool" | "function") => {
            tool(log, message, id, time, at);
            joins.answered();
        }
        None | Some("user" | "system" | "developer") => {
            joins.end();
            let role = role.map(|role| if role == "user" { Role::User } else { Role::System });
            let inside = At::Key(at, "content");
            let content = blocks(message.take("content"), &mut log.field_errors, &inside);
            let place = log.begin(role, id, time);
            for (index, block) in content.into_iter().enumerate() {
                add_content(log, place, block, &At::Index(&inside, index), transcript);
            }
        }
        Some(other) => transcript.skip(format!("message of role {other}")),
    }
}

/// Converts usage in which cached input is part of the prompt, and reasoning part of the completion.
pub(super) fn usage_of(usage: &Json, field_errors: &mut FieldErrors, at: &At) -> Usage {
    let mut inside = |key: &str, field: &str| {
        let details = field_errors.object(usage, at, key)?;
        field_errors.number(details, &At::Key(at, key), field)
    };
    let cached = Tokens(inside("prompt_tokens_details", "cached_tokens").unwrap_or(0));
    let reasoning = Tokens(inside("completion_tokens_details", "reasoning_tokens").unwrap_or(0));
    let mut number = |key: &str| Tokens(field_errors.number(usage, at, key).unwrap_or(0));
    let mut tokens = Usage::new(number("prompt_tokens") - cached, number("completion_tokens") - reasoning);
    (tokens.cache_read, tokens.reasoning) = (cached, reasoning);
    tokens
}

/// Adds a block with text under another name, or a file.
fn add_content(log: &mut Assembly, place: usize, mut block: Json, at: &At, transcript: &mut Transcript) {
    let key = match log.field_errors.kind(&block, at, "type", &BLOCKS) {
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
    let text = log.field_errors.take_words(&mut block, at, key);
    log.text(place, text);
}

fn assistant(log: &mut Assembly, place: usize, mut message: Json, at: &At, transcript: &mut Transcript) {
    for key in ["reasoning_content", "reasoning"] {
        let thought = log.field_errors.take_words(&mut message, at, key);
        log.reasoning(place, thought, None);
    }
    let calls = log.field_errors.take_list(&mut message, at, "tool_calls");
    let inside = At::Key(at, "content");
    let content = blocks(message.take("content"), &mut log.field_errors, &inside);
    for (index, mut block) in content.into_iter().enumerate() {
        let at = &At::Index(&inside, index);
        match block.text("type") {
            // `tool_calls` contains the same calls, if it exists.
            Some("tool_call") if !calls.is_empty() => {}
            Some("tool_call") => {
                let id = log.field_errors.string(&block, at, "tool_call_id");
                let id = id.or_else(|| log.field_errors.string(&block, at, "id"));
                call(log, place, id.as_deref(), &mut block, at);
            }
            Some("reasoning" | "thinking") => {
                let text =
                    ["text", "thinking"].map(|key| log.field_errors.take_words(&mut block, at, key)).concat();
                log.reasoning(place, text, None);
            }
            _ => add_content(log, place, block, at, transcript),
        }
    }
    let refusal = log.field_errors.take_words(&mut message, at, "refusal");
    log.text(place, refusal);
    let inside = At::Key(at, "tool_calls");
    for (index, mut each) in calls.into_iter().enumerate() {
        let at = &At::Index(&inside, index);
        if !log.field_errors.is_object(&each, at) {
            continue;
        }
        let id = log.field_errors.string(&each, at, "id");
        let key = if matches!(each.get("function"), None | Some(Json::Null)) { "custom" } else { "function" };
        log.field_errors.object(&each, at, key);
        let mut function = each.take(key);
        call(log, place, id.as_deref(), &mut function, &At::Key(at, key));
    }
    // The format before `tool_calls` had one call without an id; the next `function` message answers it.
    log.field_errors.object(&message, at, "function_call");
    let mut function = message.take("function_call");
    if function.is_object() {
        call(log, place, None, &mut function, &At::Key(at, "function_call"));
    }
}

fn call(log: &mut Assembly, place: usize, id: Option<&str>, function: &mut Json, at: &At) {
    let name = log.field_errors.string(function, at, "name").unwrap_or_default();
    let input = match function.take("arguments") {
        Json::Null => function.take("input").into_value(),
        given => arguments(given),
    };
    log.call(place, id, &name, input);
}

fn tool(log: &mut Assembly, mut message: Json, id: Option<String>, time: Option<Millis>, at: &At) {
    let (text, attachments) = flatten(message.take("content"));
    let answer = Answer { text, attachments, at: time, ..Answer::default() };
    let named = log.field_errors.string(&message, at, "tool_call_id");
    let named = named.or_else(|| {
        let ids = log.field_errors.take_list(&mut message, at, "tool_call_ids");
        ids.first()?.as_str().map(str::to_owned)
    });
    let call = named.or_else(|| log.waiting());
    log.answer_or_keep(&call.unwrap_or_default(), answer, |log| log.begin(Role::User, id, time));
}
