//! Codex' rollout JSONL: items of the conversation, and events about it.
//!
//! Items are separate, so responses have to be inferred: a response continues until a user message, a tool result, or a
//! count of its tokens.
//!
//! Later events can roll turns back, so a first pass looks for those.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, BufRead, Seek};
use std::ops::Range;
use std::sync::Arc;

use memchr::memmem::Finder;
use plimsoll::log::At;
use plimsoll::{Millis, Role, Tokens, Usage};
use serde_json::{Value, json};

use super::{Sink, choose};
use crate::assembly::{Answer, Assembly, Compaction, MAX_HELD};
use crate::blocks::{arguments, blocks, file, flatten};
use crate::field_errors::FieldErrors;
use crate::format::Format;
use crate::hash::{HashSet64, Hasher};
use crate::json::{Json, Take};
use crate::lines::{LineFault, Lines};
use crate::restart::Restart;
use crate::time::millis;
use crate::transcript::{Chain, SessionInfo, Transcript};

/// Prefixes of user messages that Codex itself wrote.
const SYNTHETIC: [&str; 7] = [
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<permissions instructions>",
    "<skill>",
    "<subagent_notification>",
    "# AGENTS.md instructions",
];
/// Events that repeat items, or are only for the user.
const EVENTS: [&str; 90] = [
    "agent_message",
    "agent_message_content_delta",
    "agent_message_delta",
    "agent_reasoning",
    "agent_reasoning_delta",
    "agent_reasoning_raw_content",
    "agent_reasoning_raw_content_delta",
    "agent_reasoning_section_break",
    "apply_patch_approval_request",
    "background_event",
    "collab_agent_interaction_begin",
    "collab_agent_interaction_end",
    "collab_agent_spawn_begin",
    "collab_agent_spawn_end",
    "collab_close_begin",
    "collab_close_end",
    "collab_resume_begin",
    "collab_resume_end",
    "collab_waiting_begin",
    "collab_waiting_end",
    "context_compacted",
    "conversation_history",
    "conversation_path",
    "deprecation_notice",
    "dynamic_tool_call_request",
    "dynamic_tool_call_response",
    "elicitation_request",
    "entered_review_mode",
    "error",
    "exec_approval_request",
    "exec_command_begin",
    "exec_command_end",
    "exec_command_output_delta",
    "exited_review_mode",
    "get_history_entry_response",
    "guardian_assessment",
    "hook_completed",
    "hook_started",
    "image_generation_begin",
    "image_generation_end",
    "item_completed",
    "item_started",
    "list_custom_prompts_response",
    "list_remote_skills_response",
    "list_skills_response",
    "mcp_list_tools_response",
    "mcp_startup_complete",
    "mcp_startup_update",
    "mcp_tool_call_begin",
    "mcp_tool_call_end",
    "model_reroute",
    "model_verification",
    "patch_apply_begin",
    "patch_apply_end",
    "patch_apply_updated",
    "plan_delta",
    "plan_update",
    "raw_response_item",
    "realtime_conversation_closed",
    "realtime_conversation_list_voices_response",
    "realtime_conversation_realtime",
    "realtime_conversation_sdp",
    "realtime_conversation_started",
    "reasoning_content_delta",
    "reasoning_raw_content_delta",
    "remote_skill_downloaded",
    "request_permissions",
    "request_user_input",
    "session_configured",
    "shutdown_complete",
    "skills_update_available",
    "stream_error",
    "sub_agent_activity",
    "task_complete",
    "task_started",
    "terminal_interaction",
    "thread_goal_updated",
    "thread_name_updated",
    "thread_settings_applied",
    "turn_aborted",
    "turn_complete",
    "turn_diff",
    "turn_started",
    "undo_completed",
    "undo_started",
    "user_message",
    "view_image_tool_call",
    "warning",
    "web_search_begin",
    "web_search_end",
];
/// Field of events with the model's context window.
const CONTEXT: &str = "model_context_window";
/// Event that rolls turns back.
const ROLLED_BACK: &str = "thread_rolled_back";
/// Kinds of items, with a field that identifies an item without a type.
const ITEMS: [(&str, &str); 6] = [
    ("output", "function_call_output"),
    ("arguments", "function_call"),
    ("input", "custom_tool_call"),
    ("action", "local_shell_call"),
    ("summary", "reasoning"),
    ("content", "message"),
];
/// Kinds of blocks, with a field that identifies a block without a type.
const BLOCKS: [(&str, &str); 2] = [("text", "text"), ("refusal", "refusal")];
/// Replaces a summary that only the provider can read.
const SEALED: &str = "[The provider keeps this summary encrypted]";

pub(super) fn read(
    lines: &mut Lines<impl BufRead + Seek>,
    transcript: &mut Transcript,
    (wanted, from): (Option<&str>, Option<&Restart>),
    sink: Sink,
) -> io::Result<()> {
    let mut sessions = outline(lines)?;
    let infos: Vec<SessionInfo> = sessions.iter().map(|session| session.info.clone()).collect();
    let chosen = choose(wanted, &infos).unwrap_or(sessions.len() - 1);
    let session_end = sessions.get(chosen + 1).map_or(u64::MAX, |next| next.start);
    let Session { start: session_start, taken_back, .. } = sessions.remove(chosen);
    let mut taken_back = taken_back.into_iter().peekable();
    transcript.other_sessions = sessions.into_iter().map(|session| session.info).collect();
    let mut sink = |message| sink(Chain::Main, message);
    let mut log = Assembly::new(&mut sink, MAX_HELD);
    log.resume(from);
    let (hasher, said) = (Hasher::default(), HashSet64::default());
    let (model, counted) = from.map(|from| (from.model.clone(), from.counted.clone())).unwrap_or_default();
    let mut reading = CodexReader { log, open: None, last: None, counted, model, hasher, said };
    let mut at_restart = (None, None);
    let mut position = 0;
    lines.each(transcript, |text, place, transcript| {
        position += 1;
        if !(session_start..session_end).contains(&place.line) {
            transcript.pass("record of another session");
            return Ok(());
        }
        while taken_back.next_if(|range| range.end <= place.line).is_some() {}
        if taken_back.peek().is_some_and(|range| range.contains(&place.line)) {
            transcript.info.note_time(millis(Json::parse_some(text, record_fields)?.get("timestamp")));
            transcript.pass("rolled back");
            // A response before the rolled-back turns is not continued after them.
            (reading.open, reading.last) = (None, None);
            if text.contains("token_count") {
                // Turns that were rolled back were billed as well.
                reading.record(Json::parse_some(text, record_fields)?, &At::In(&place), transcript)?;
                (reading.open, reading.last) = (None, None);
            }
            return Ok(());
        }
        reading.log.record(position, text.len(), 0, reading.open.or(reading.last));
        if reading.is_settled() {
            reading.log.offer_restart(place.offset);
        } else {
            reading.log.pass_restart(place.offset);
        }
        let read = reading.record(Json::parse_some(text, record_fields)?, &At::In(&place), transcript);
        reading.log.settle(&mut transcript.notes);
        if reading.log.restarts_at(place.offset) {
            // A record that begins a message changes neither of them.
            at_restart = (reading.model.clone(), reading.counted.clone());
        }
        read.map_err(LineFault::Json)
    })?;
    let (model, counted) = at_restart;
    transcript.restart = reading.log.restart(Format::Codex).map(|begun| Restart { model, counted, ..begun });
    reading.log.finish();
    Ok(())
}

/// Data of a session from the first pass.
#[derive(Default)]
struct Session {
    info: SessionInfo,
    /// First line of the session. It ends where the next one begins: files contain several if they were concatenated.
    start: u64,
    /// Lines of turns that were rolled back; those of a turn start at its user message.
    taken_back: Vec<Range<u64>>,
}

/// Returns the sessions of a file, at least one.
fn outline(lines: &mut Lines<impl BufRead + Seek>) -> io::Result<Vec<Session>> {
    let mut turns: Vec<u64> = Vec::new();
    let mut ended: Vec<Session> = Vec::new();
    let mut session = Session::default();
    // Headers since the newest session began: a fork repeats its parent's header before any message.
    let mut ids: Vec<SessionInfo> = Vec::new();
    // Most lines are outputs and contain none of these. With prebuilt finders they are scanned at memory speed.
    let item = Finder::new("\"response_item\"");
    let wanted = [ROLLED_BACK, "\"user\"", "\"session_meta\""].map(Finder::new);
    let has_items = Cell::new(false);
    let is_wanted = |line: &[u8]| {
        has_items.set(has_items.get() || item.find(line).is_some());
        wanted.iter().any(|key| key.find(line).is_some())
    };
    // The second pass reports invalid lines.
    lines.each_wanted(&mut Transcript::new(Format::Codex), is_wanted, |text, place, _| {
        let record = Json::parse_some(text, turn)?;
        let Some(payload) = record.get("payload") else { return Ok(()) };
        match (record.text("type"), payload.text("type")) {
            (Some("response_item"), Some("message")) if is_turn(payload) => turns.push(place.line),
            (Some("session_meta"), _) => {
                let (id, directory) = (payload.string("id"), payload.string("cwd"));
                let is_known = id.is_none() || ids.iter().any(|known| known.id == id);
                // Only after items: several headers in a row are those of a fork and of its ancestors.
                if !is_known && has_items.get() && !ids.is_empty() {
                    ids.clear();
                    turns.clear();
                    let next = Session { start: place.line, ..Session::default() };
                    ended.push(std::mem::replace(&mut session, next));
                }
                if !is_known {
                    let info = SessionInfo { id, directory, ..SessionInfo::default() };
                    if ids.is_empty() {
                        session.info = info.clone();
                    }
                    ids.push(info);
                }
                has_items.set(false);
            }
            (Some("event_msg"), Some(ROLLED_BACK)) => {
                let count = usize::try_from(payload.number("num_turns").unwrap_or(0)).unwrap_or(usize::MAX);
                // A count larger than the number of turns removes all of them.
                let left = turns.len().saturating_sub(count);
                if let Some(&start) = turns.get(left) {
                    turns.truncate(left);
                    // This range includes those of earlier rollbacks after `start`. Ranges must not overlap, because the second
                    // pass goes through them in order.
                    session.taken_back.retain(|range| range.start < start);
                    session.taken_back.push(start..place.line);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    lines.rewind()?;
    ended.push(session);
    Ok(ended)
}

/// Selects the fields that identify turns and rollbacks.
fn turn(_: &[(Cow<str>, Json)], depth: u8, key: &str) -> Take {
    let wanted = match depth {
        0 => matches!(key, "type" | "payload"),
        1 => matches!(key, "type" | "role" | "content" | "num_turns" | "id" | "cwd"),
        _ => matches!(key, "type" | "text"),
    };
    if wanted { Take::Whole } else { Take::Skip }
}

/// Whether this is a message of the user and not Codex' own text.
fn is_turn(message: &Json) -> bool {
    let content = message.get("content").and_then(Json::as_list).unwrap_or_default();
    message.text("role") == Some("user")
        && !content.iter().filter_map(|block| block.text("text")).any(is_synthetic)
}

fn is_synthetic(text: &str) -> bool {
    SYNTHETIC.iter().any(|start| text.starts_with(start))
}

/// Most events repeat items at length, so they stay unparsed until their kind is known.
fn record_fields(before: &[(Cow<str>, Json)], depth: u8, key: &str) -> Take {
    let is_event = |(name, value): &(Cow<str>, Json)| name == "type" && value.as_str() == Some("event_msg");
    if depth == 0 && key == "payload" && before.iter().any(is_event) { Take::Raw } else { Take::Whole }
}

struct CodexReader<'a> {
    log: Assembly<'a>,
    /// The current response.
    open: Option<usize>,
    /// The newest response, whose tokens may still be counted.
    last: Option<usize>,
    counted: Option<Arc<Value>>,
    model: Option<String>,
    hasher: Hasher,
    /// Texts of the user.
    said: HashSet64,
}

/// Returns the kind of a record or an item. The common ones need no allocation.
fn named(kind: &str) -> Cow<'static, str> {
    const KINDS: [&str; 8] = [
        "response_item",
        "event_msg",
        "turn_context",
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call_output",
    ];
    let known = KINDS.into_iter().find(|known| *known == kind);
    known.map_or_else(|| Cow::Owned(kind.to_owned()), Cow::Borrowed)
}

/// Returns the payloads that identify a record without a type.
fn shape(payload: Option<&Json>) -> &'static [(&'static str, &'static str)] {
    let Some(payload) = payload else { return &[] };
    let has = |key: &str| payload.get(key).is_some();
    match payload.text("type") {
        Some(kind) if EVENTS.contains(&kind) || kind == "token_count" || kind == ROLLED_BACK => {
            &[("payload", "event_msg")]
        }
        Some(_) => &[("payload", "response_item")],
        None if has("cli_version") => &[("payload", "session_meta")],
        None if has("model") => &[("payload", "turn_context")],
        None if has("replacement_history") => &[("payload", "compacted")],
        None => &[],
    }
}

impl CodexReader<'_> {
    fn record(&mut self, mut record: Json, at: &At, transcript: &mut Transcript) -> serde_json::Result<()> {
        let time = self.log.field_errors.time(&record, at, "timestamp");
        transcript.info.note_time(time);
        let kind = match record.get("payload") {
            None | Some(Json::Null) => {
                self.bare(record, time, at, transcript);
                return Ok(());
            }
            payload => self.log.field_errors.kind(&record, at, "type", shape(payload)).map(named),
        };
        let at = &At::Key(at, "payload");
        let payload = match record.take("payload") {
            Json::Raw(raw) => return self.event(&raw, at, transcript),
            payload => payload,
        };
        if !self.log.field_errors.is_object(&payload, at) {
            return Ok(());
        }
        match kind.as_deref() {
            Some("session_meta") => self.meta(&payload, time, at, transcript),
            Some("turn_context") => {
                let field_errors = &mut self.log.field_errors;
                self.model = field_errors.string(&payload, at, "model").or(self.model.take());
                transcript.info.model = self.model.clone();
                let directory = field_errors.string(&payload, at, "cwd");
                if transcript.info.directory.is_none() {
                    transcript.info.directory = directory;
                }
            }
            Some("response_item") => self.item(payload, time, at, transcript),
            Some("event_msg") => self.known_event(payload, at, transcript),
            Some("compacted") => self.compacted(payload, time, at),
            Some(kind @ ("world_state" | "ghost_snapshot")) => transcript.pass(kind),
            kind => transcript.skip(kind.unwrap_or("record without type")),
        }
        Ok(())
    }

    /// Reads a line of the older format, which is the item itself.
    fn bare(&mut self, value: Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        if value.get("type").is_some() {
            self.item(value, time, at, transcript);
        } else if value.get("record_type").is_some() {
            transcript.pass("state");
        } else if value.get("id").is_some() {
            self.meta(&value, time, at, transcript);
        } else {
            transcript.skip("record without type");
        }
    }

    fn meta(&mut self, meta: &Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let (info, field_errors) = (&mut transcript.info, &mut self.log.field_errors);
        info.note_time(field_errors.time(meta, at, "timestamp"));
        // A forked session repeats its parent's header after its own.
        if info.id.is_some() {
            transcript.pass("session_meta of a parent");
            return;
        }
        info.id = field_errors.string(meta, at, "id");
        info.directory = field_errors.string(meta, at, "cwd").or(info.directory.take());
        info.version = field_errors.string(meta, at, "cli_version");
        let base = field_errors.object(meta, at, "base_instructions");
        let base = base.and_then(|base| field_errors.text(base, &At::Key(at, "base_instructions"), "text"));
        let own = field_errors.text(meta, at, "instructions");
        self.log.session(info.id.as_deref());
        for instructions in base.into_iter().chain(own) {
            let place = self.log.begin(Role::System, None, time);
            self.log.text(place, instructions);
        }
    }

    /// Whether no count of tokens can follow.
    fn is_settled(&self) -> bool {
        let is_counted =
            |place: usize| !self.log.holds(place) || self.log.message(place).info.tokens.is_some();
        self.open.is_none() && self.last.is_none_or(is_counted)
    }

    /// Returns the current response, or begins a new one.
    fn response(&mut self, at: Option<Millis>) -> usize {
        let open = self.open.filter(|place| self.log.holds(*place));
        let place = open.unwrap_or_else(|| {
            let place = self.log.begin(Role::Assistant, None, at);
            self.log.info(place).model_id = self.model.clone();
            place
        });
        (self.open, self.last) = (Some(place), Some(place));
        self.log.completed(place, at);
        place
    }

    fn item(&mut self, mut item: Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let field_errors = &mut self.log.field_errors;
        let kind = named(field_errors.kind(&item, at, "type", &ITEMS).unwrap_or_default());
        let call = field_errors.string(&item, at, "call_id");
        match &*kind {
            "message" => self.message(item, time, at, transcript),
            "reasoning" => {
                let (summary, _) = flatten(item.take("summary"));
                let (content, _) = flatten(item.take("content"));
                let id = field_errors.text(&item, at, "id");
                let sealed = field_errors.text(&item, at, "encrypted_content");
                let sealed = sealed
                    .map(|sealed| json!({ "openai": { "itemId": id, "reasoningEncryptedContent": sealed } }));
                let place = self.response(time);
                self.log.reasoning(place, if content.is_empty() { summary } else { content }, sealed);
            }
            "function_call" | "tool_search_call" => {
                let input = arguments(item.take("arguments"));
                let name = field_errors.string(&item, at, "name").unwrap_or_else(|| "tool_search".into());
                let place = self.response(time);
                self.log.call(place, call.as_deref(), &name, input);
            }
            "custom_tool_call" => {
                let input = json!({ "input": item.take("input").into_value() });
                let name = field_errors.string(&item, at, "name").unwrap_or_default();
                let place = self.response(time);
                self.log.call(place, call.as_deref(), &name, input);
            }
            "local_shell_call" => {
                let call = call.or_else(|| field_errors.string(&item, at, "id"));
                let place = self.response(time);
                self.log.call(place, call.as_deref(), "local_shell", item.take("action").into_value());
            }
            // The file does not contain the results of the provider's own tools.
            "web_search_call" | "image_generation_call" => {
                let tool = kind.trim_end_matches("_call");
                let (id, action) = (field_errors.string(&item, at, "id"), item.take("action").into_value());
                let place = self.response(time);
                self.log.call(place, id.as_deref(), tool, action);
                if let Some(call) = self.log.waiting() {
                    // Cannot fail: the call was just added and has no result yet.
                    let _ = self.log.answer(&call, Answer { at: time, ..Answer::default() });
                }
            }
            "function_call_output" | "custom_tool_call_output" | "tool_search_output" => {
                let output = if kind == "tool_search_output" { "tools" } else { "output" };
                let answer = output_of(item.take(output), time, field_errors, &At::Key(at, output));
                self.open = None;
                self.log.answer_or_keep(&call.unwrap_or_default(), answer, |log| {
                    log.begin(Role::User, None, time)
                });
            }
            "ghost_snapshot" | "compaction" | "compaction_summary" => transcript.pass(kind),
            _ => transcript.skip(format!("response_item/{kind}")),
        }
    }

    fn message(&mut self, mut item: Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let inside = At::Key(at, "content");
        let content = blocks(item.take("content"), &mut self.log.field_errors, &inside);
        let role = match self.log.field_errors.text(&item, at, "role") {
            Some("assistant") => Some(Role::Assistant),
            Some("user") => Some(Role::User),
            Some("developer" | "system") => Some(Role::System),
            None => None,
            Some(other) => {
                transcript.skip(format!("message of role {other}"));
                return;
            }
        };
        let is_user = role == Some(Role::User);
        let place = if role == Some(Role::Assistant) {
            self.response(time)
        } else {
            self.open = None;
            let id = self.log.field_errors.string(&item, at, "id");
            self.log.begin(role, id, time)
        };
        if is_user {
            let texts: Vec<&str> = content.iter().filter_map(|block| block.text("text")).collect();
            self.said.insert(self.hasher.hash(texts.join("\n").trim()));
        }
        for (index, mut block) in content.into_iter().enumerate() {
            let at = &At::Index(&inside, index);
            match self.log.field_errors.kind(&block, at, "type", &BLOCKS) {
                Some("input_text" | "output_text" | "text") => {
                    let text = self.log.field_errors.take_words(&mut block, at, "text");
                    let synthetic = is_user && is_synthetic(&text);
                    self.log.user_text(place, text, synthetic);
                }
                Some("refusal") => {
                    let text = self.log.field_errors.take_words(&mut block, at, "refusal");
                    self.log.text(place, text);
                }
                kind => match file(&block) {
                    Some(file) => self.log.file(place, file),
                    None => transcript.skip(format!("message block {}", kind.unwrap_or("without type"))),
                },
            }
        }
    }

    /// Reads an event that was not parsed yet; most need not be.
    fn event(&mut self, payload: &str, at: &At, transcript: &mut Transcript) -> serde_json::Result<()> {
        let only_type = |_: &[(Cow<str>, Json)], _, key: &str| match key {
            "type" | "num_turns" | "info" | "total_token_usage" | "last_token_usage" | "thread_name" => {
                Take::Whole
            }
            CONTEXT => Take::Whole,
            key if key.ends_with("_tokens") => Take::Whole,
            _ => Take::Skip,
        };
        let payload = Json::parse_some(payload, only_type)?;
        if self.log.field_errors.is_object(&payload, at) {
            self.known_event(payload, at, transcript);
        }
        Ok(())
    }

    fn known_event(&mut self, mut payload: Json, at: &At, transcript: &mut Transcript) {
        let shapes = [("num_turns", ROLLED_BACK), ("info", "token_count")];
        if payload.text("type") == Some("thread_name_updated") {
            let title = self.log.field_errors.string(&payload, at, "thread_name");
            transcript.info.title = title.or(transcript.info.title.take());
        }
        let kind = self.log.field_errors.kind(&payload, at, "type", &shapes).unwrap_or_default();
        if kind != "token_count" {
            note_context(&payload, &mut transcript.info);
            let known =
                EVENTS.contains(&kind) || kind == ROLLED_BACK && payload.number("num_turns").is_some();
            let kind = format!("event_msg/{kind}");
            if known {
                transcript.pass(kind);
            } else {
                transcript.skip(kind);
            }
            return;
        }
        // The first count of a session has no `info`.
        self.log.field_errors.object(&payload, at, "info");
        let mut info = payload.take("info");
        let at = &At::Key(at, "info");
        note_context(&info, &mut transcript.info);
        self.log.field_errors.object(&info, at, "last_token_usage");
        let total = info.take("total_token_usage").into_value();
        let usage = info.take("last_token_usage");
        // The same count is repeated whenever the limits of the account change.
        if !usage.is_object() || self.counted.as_deref() == Some(&total) {
            return;
        }
        self.counted = Some(Arc::new(total));
        self.open = None;
        let usage = usage_of(&usage, &mut self.log.field_errors, &At::Key(at, "last_token_usage"));
        transcript.recorded.add(self.model.as_deref(), &usage, None);
        if let Some(place) = self.last.filter(|place| self.log.holds(*place)) {
            self.log.info(place).tokens = Some(usage);
        }
    }

    /// Returns the summary in a replaced history: the last message, unless the user wrote it; user messages are kept
    /// there, too.
    fn summary(&self, history: Vec<Json>) -> Option<String> {
        let is_sealed = |item: &Json| matches!(item.text("type"), Some("compaction" | "compaction_summary"));
        if history.iter().any(is_sealed) {
            return None;
        }
        let messages = history.into_iter().rev().filter(|item| {
            item.text("type") == Some("message") && matches!(item.text("role"), Some("user" | "assistant"))
        });
        let mut texts = messages.map(|mut item| flatten(item.take("content")).0);
        texts.find(|text| {
            let text = text.trim();
            !text.is_empty() && !is_synthetic(text) && !self.said.contains(&self.hasher.hash(text))
        })
    }

    fn compacted(&mut self, mut payload: Json, time: Option<Millis>, at: &At) {
        let mut text = self.log.field_errors.take_words(&mut payload, at, "message");
        let history = self.log.field_errors.take_list(&mut payload, at, "replacement_history");
        if text.trim().is_empty() {
            text = self.summary(history).unwrap_or_default();
        }
        if text.trim().is_empty() {
            text = SEALED.to_owned();
        }
        (self.open, self.last) = (None, None);
        self.log.compaction(Compaction { at: time, text, ..Compaction::default() });
    }
}

fn note_context(event: &Json, info: &mut SessionInfo) {
    if let Some(window) = event.number(CONTEXT).filter(|window| *window > 0) {
        info.context = Some(Tokens(window));
    }
}

/// Converts usage in which cached input is part of the input, and reasoning part of the output.
fn usage_of(usage: &Json, field_errors: &mut FieldErrors, at: &At) -> Usage {
    let total = field_errors.number(usage, at, "total_tokens").map(Tokens);
    let mut number = |key: &str| Tokens(field_errors.number(usage, at, key).unwrap_or(0));
    let (cached, reasoning) = (number("cached_input_tokens"), number("reasoning_output_tokens"));
    let input = number("input_tokens").saturating_sub(cached);
    let mut tokens = Usage::new(input, number("output_tokens").saturating_sub(reasoning));
    (tokens.cache_read, tokens.reasoning) = (cached, reasoning);
    tokens.total = total;
    tokens
}

fn output_of(output: Json, time: Option<Millis>, field_errors: &mut FieldErrors, at: &At) -> Answer {
    let is_success = field_errors.is(&output, at, "success");
    let is_error = !is_success && matches!(output.get("success"), Some(Json::Bool(false)));
    let (text, attachments) = flatten(output);
    let text = decoded_shell_output(&text).unwrap_or(text);
    Answer { text, attachments, is_error, at: time, ..Answer::default() }
}

/// Converts the output of a command that older versions wrote as JSON to the format of newer ones; `None` for other
/// outputs.
///
/// As JSON the whole output is one line: it cannot be read line by line, and a limit on lines cuts all of it.
fn decoded_shell_output(text: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ShellOutput {
        output: String,
        #[serde(default)]
        metadata: Metadata,
    }
    #[derive(Default, serde::Deserialize)]
    struct Metadata {
        exit_code: Option<i64>,
        duration_seconds: Option<f64>,
    }
    if !text.starts_with("{\"output\":") {
        return None;
    }
    let ShellOutput { output, metadata } = serde_json::from_str(text).ok()?;
    let exit = metadata.exit_code.map(|code| format!("Exit code: {code}\n"));
    let time = metadata.duration_seconds.map(|seconds| format!("Wall time: {seconds} seconds\n"));
    let lead: String = exit.into_iter().chain(time).collect();
    Some(if lead.is_empty() { output } else { format!("{lead}Output:\n{output}") })
}
