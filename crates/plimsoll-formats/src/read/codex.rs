//! Codex' rollout JSONL: items of the conversation between events about it.
//!
//! Items stand alone, so it has to be found out which of them are one response of the model: it goes on until
//! somebody else speaks, a tool answers, or its tokens are counted.
//!
//! Turns can be taken back by an event that comes after them, so the file is read for those first.

use std::borrow::Cow;
use std::io::{self, BufRead, Seek};
use std::ops::Range;

use memchr::memmem::Finder;
use plimsoll::log::At;
use plimsoll::{Millis, Role, Tokens, Usage};
use serde_json::{Value, json};

use super::{Sink, choose};
use crate::assembly::{Answer, Assembly, Compaction, MOST_HELD};
use crate::blocks::{arguments, blocks, file, flatten};
use crate::format::Format;
use crate::hash::{HashSet64, Hasher};
use crate::json::{Json, Take};
use crate::lines::{Fault, Lines};
use crate::misfits::Misfits;
use crate::restart::Restart;
use crate::time::millis;
use crate::transcript::{Chain, SessionInfo, Transcript};

/// Beginnings of user messages that Codex itself wrote.
const SYNTHETIC: [&str; 7] = [
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<permissions instructions>",
    "<skill>",
    "<subagent_notification>",
    "# AGENTS.md instructions",
];
/// Events that tell what stands in the items as well, or what is for people only.
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
/// The field under which events state the model's context window.
const CONTEXT: &str = "model_context_window";
/// The event that takes turns back.
const ROLLED_BACK: &str = "thread_rolled_back";
/// Kinds of items, with a field each is known by where it does not say.
const ITEMS: [(&str, &str); 6] = [
    ("output", "function_call_output"),
    ("arguments", "function_call"),
    ("input", "custom_tool_call"),
    ("action", "local_shell_call"),
    ("summary", "reasoning"),
    ("content", "message"),
];
/// The same for blocks of messages.
const BLOCKS: [(&str, &str); 2] = [("text", "text"), ("refusal", "refusal")];
/// Stands for a summary that only the provider can read.
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
    let mut log = Assembly::new(&mut sink, MOST_HELD);
    log.resume(from);
    let (hasher, said) = (Hasher::default(), HashSet64::default());
    let (model, counted) = from.map(|from| (from.model.clone(), from.counted.clone())).unwrap_or_default();
    let mut reading = Reading { log, open: None, last: None, counted, model, hasher, said };
    let mut restart: Option<Restart> = None;
    let mut position = 0;
    lines.each(transcript, |text, place, transcript| {
        position += 1;
        if !(session_start..session_end).contains(&place.line) {
            transcript.pass("record of another session");
            return Ok(());
        }
        while taken_back.next_if(|range| range.end <= place.line).is_some() {}
        if taken_back.peek().is_some_and(|range| range.contains(&place.line)) {
            transcript.info.seen(millis(Json::parse_some(text, record_fields)?.get("timestamp")));
            transcript.pass("rolled back");
            (reading.open, reading.last) = (None, None);
            if text.contains("token_count") {
                // What was taken back was paid for.
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
        if let Some(begun) = reading.log.restart(Format::Codex).filter(|begun| begun.offset == place.offset) {
            // Neither changes with a record that begins a message.
            let (model, counted) = (reading.model.clone(), reading.counted.clone());
            restart = Some(Restart { model, counted, ..begun });
        }
        read.map_err(Fault::Json)
    })?;
    reading.log.finish();
    transcript.restart = restart;
    Ok(())
}

/// What has to be known of a session before its records are read.
#[derive(Default)]
struct Session {
    info: SessionInfo,
    /// The line it begins with. It goes on to where the next begins: files hold several if they were put together.
    start: u64,
    /// The lines of turns that were taken back. The lines of one are those from where the user spoke.
    taken_back: Vec<Range<u64>>,
}

/// The sessions of a file, at least one.
fn outline(lines: &mut Lines<impl BufRead + Seek>) -> io::Result<Vec<Session>> {
    let mut turns: Vec<u64> = Vec::new();
    let mut ended: Vec<Session> = Vec::new();
    let mut session = Session::default();
    // The sessions since the newest began: a forked one repeats its parent's record before anything is said.
    let mut ids: Vec<SessionInfo> = Vec::new();
    let mut has_items = false;
    // Most lines are outputs and have none of these. Finders that are made once read them at the speed of memory.
    let item = Finder::new("\"response_item\"");
    let wanted = [ROLLED_BACK, "\"user\"", "\"session_meta\""].map(Finder::new);
    // What is wrong with a line is noted by the second reading.
    lines.each(&mut Transcript::new(Format::Codex), |text, place, _| {
        has_items = has_items || item.find(text.as_bytes()).is_some();
        if wanted.iter().all(|key| key.find(text.as_bytes()).is_none()) {
            return Ok(());
        }
        let record = Json::parse_some(text, turn)?;
        let Some(payload) = record.get("payload") else { return Ok(()) };
        match (record.text("type"), payload.text("type")) {
            (Some("response_item"), Some("message")) if is_turn(payload) => turns.push(place.line),
            (Some("session_meta"), _) => {
                let (id, directory) = (payload.string("id"), payload.string("cwd"));
                let is_known = id.is_none() || ids.iter().any(|known| known.id == id);
                if !is_known && has_items && !ids.is_empty() {
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
                has_items = false;
            }
            (Some("event_msg"), Some(ROLLED_BACK)) => {
                let count = usize::try_from(payload.number("num_turns").unwrap_or(0)).unwrap_or(usize::MAX);
                let left = turns.len().saturating_sub(count);
                if let Some(&start) = turns.get(left) {
                    turns.truncate(left);
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

/// The fields that tell turns and what takes them back.
fn turn(_: &[(Cow<str>, Json)], depth: u8, key: &str) -> Take {
    let wanted = match depth {
        0 => matches!(key, "type" | "payload"),
        1 => matches!(key, "type" | "role" | "content" | "num_turns" | "id" | "cwd"),
        _ => matches!(key, "type" | "text"),
    };
    if wanted { Take::Whole } else { Take::Skip }
}

/// Whether a person speaks, rather than Codex in the user's name.
fn is_turn(message: &Json) -> bool {
    let content = message.get("content").and_then(Json::as_list).unwrap_or_default();
    message.text("role") == Some("user")
        && !content.iter().filter_map(|block| block.text("text")).any(is_synthetic)
}

fn is_synthetic(text: &str) -> bool {
    SYNTHETIC.iter().any(|start| text.starts_with(start))
}

/// Events mostly repeat the items at length, so they are left alone until it is known which they are.
fn record_fields(before: &[(Cow<str>, Json)], depth: u8, key: &str) -> Take {
    let is_event = |(name, value): &(Cow<str>, Json)| name == "type" && value.as_str() == Some("event_msg");
    if depth == 0 && key == "payload" && before.iter().any(is_event) { Take::Raw } else { Take::Whole }
}

struct Reading<'a> {
    log: Assembly<'a>,
    /// The response that is being read.
    open: Option<usize>,
    /// The newest response, whose tokens may still be counted.
    last: Option<usize>,
    counted: Option<Value>,
    model: Option<String>,
    hasher: Hasher,
    /// What users said.
    said: HashSet64,
}

/// What a record that does not say is known by: its payload.
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

impl Reading<'_> {
    fn record(&mut self, mut record: Json, at: &At, transcript: &mut Transcript) -> serde_json::Result<()> {
        let time = self.log.misfits.time(&record, at, "timestamp");
        transcript.info.seen(time);
        let kind = match record.get("payload") {
            None | Some(Json::Null) => {
                self.bare(record, time, at, transcript);
                return Ok(());
            }
            payload => self.log.misfits.kind(&record, at, "type", shape(payload)).map(str::to_owned),
        };
        let at = &At::Key(at, "payload");
        let payload = match record.take("payload") {
            Json::Raw(raw) => return self.event(&raw, at, transcript),
            payload => payload,
        };
        if !self.log.misfits.is_object(&payload, at) {
            return Ok(());
        }
        match kind.as_deref() {
            Some("session_meta") => self.meta(&payload, time, at, transcript),
            Some("turn_context") => {
                let misfits = &mut self.log.misfits;
                self.model = misfits.string(&payload, at, "model").or(self.model.take());
                transcript.info.model = self.model.clone();
                let directory = misfits.string(&payload, at, "cwd");
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

    /// A line of the older form, which is the item itself.
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
        let (info, misfits) = (&mut transcript.info, &mut self.log.misfits);
        info.seen(misfits.time(meta, at, "timestamp"));
        // A forked session repeats its parent's record behind its own.
        if info.id.is_some() {
            transcript.pass("session_meta of a parent");
            return;
        }
        info.id = misfits.string(meta, at, "id");
        info.directory = misfits.string(meta, at, "cwd").or(info.directory.take());
        info.version = misfits.string(meta, at, "cli_version");
        let base = misfits.object(meta, at, "base_instructions");
        let base = base.and_then(|base| misfits.text(base, &At::Key(at, "base_instructions"), "text"));
        let own = misfits.text(meta, at, "instructions");
        self.log.session(info.id.as_deref());
        for instructions in base.into_iter().chain(own) {
            let place = self.log.begin(Role::System, None, time);
            self.log.text(place, instructions);
        }
    }

    /// Whether no count of tokens can come for what was read.
    fn is_settled(&self) -> bool {
        let is_counted =
            |place: usize| !self.log.holds(place) || self.log.message(place).info.tokens.is_some();
        self.open.is_none() && self.last.is_none_or(is_counted)
    }

    /// The response at hand, or a new one.
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
        let misfits = &mut self.log.misfits;
        let kind = misfits.kind(&item, at, "type", &ITEMS).unwrap_or_default().to_owned();
        let call = misfits.string(&item, at, "call_id");
        match kind.as_str() {
            "message" => self.message(item, time, at, transcript),
            "reasoning" => {
                let (summary, _) = flatten(item.take("summary"));
                let (content, _) = flatten(item.take("content"));
                let id = misfits.text(&item, at, "id");
                let sealed = misfits.text(&item, at, "encrypted_content");
                let sealed = sealed
                    .map(|sealed| json!({ "openai": { "itemId": id, "reasoningEncryptedContent": sealed } }));
                let place = self.response(time);
                self.log.reasoning(place, if content.is_empty() { summary } else { content }, sealed);
            }
            "function_call" | "tool_search_call" => {
                let input = arguments(item.take("arguments"));
                let name = misfits.string(&item, at, "name").unwrap_or_else(|| "tool_search".into());
                let place = self.response(time);
                self.log.call(place, call.as_deref(), &name, input);
            }
            "custom_tool_call" => {
                let input = json!({ "input": item.take("input").into_value() });
                let name = misfits.string(&item, at, "name").unwrap_or_default();
                let place = self.response(time);
                self.log.call(place, call.as_deref(), &name, input);
            }
            "local_shell_call" => {
                let call = call.or_else(|| misfits.string(&item, at, "id"));
                let place = self.response(time);
                self.log.call(place, call.as_deref(), "local_shell", item.take("action").into_value());
            }
            // The provider's own tools: what they found is not in the file.
            "web_search_call" | "image_generation_call" => {
                let tool = kind.trim_end_matches("_call");
                let (id, action) = (misfits.string(&item, at, "id"), item.take("action").into_value());
                let place = self.response(time);
                self.log.call(place, id.as_deref(), tool, action);
                if let Some(call) = self.log.waiting() {
                    // It was asked for just now, so it waits.
                    let _ = self.log.answer(&call, Answer { at: time, ..Answer::default() });
                }
            }
            "function_call_output" | "custom_tool_call_output" | "tool_search_output" => {
                let output = if kind == "tool_search_output" { "tools" } else { "output" };
                let answer = output_of(item.take(output), time, misfits, &At::Key(at, output));
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
        let content = blocks(item.take("content"), &mut self.log.misfits, &inside);
        let role = match self.log.misfits.text(&item, at, "role") {
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
            let id = self.log.misfits.string(&item, at, "id");
            self.log.begin(role, id, time)
        };
        if is_user {
            let texts: Vec<&str> = content.iter().filter_map(|block| block.text("text")).collect();
            self.said.insert(self.hasher.hash(texts.join("\n").trim()));
        }
        for (index, mut block) in content.into_iter().enumerate() {
            let at = &At::Index(&inside, index);
            match self.log.misfits.kind(&block, at, "type", &BLOCKS) {
                Some("input_text" | "output_text" | "text") => {
                    let text = self.log.misfits.take_words(&mut block, at, "text");
                    let synthetic = is_user && is_synthetic(&text);
                    self.log.said(place, text, synthetic);
                }
                Some("refusal") => {
                    let text = self.log.misfits.take_words(&mut block, at, "refusal");
                    self.log.text(place, text);
                }
                kind => match file(&block) {
                    Some(file) => self.log.file(place, file),
                    None => transcript.skip(format!("message block {}", kind.unwrap_or("without type"))),
                },
            }
        }
    }

    /// An event that was not parsed yet: most need not be.
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
        if self.log.misfits.is_object(&payload, at) {
            self.known_event(payload, at, transcript);
        }
        Ok(())
    }

    fn known_event(&mut self, mut payload: Json, at: &At, transcript: &mut Transcript) {
        let shapes = [("num_turns", ROLLED_BACK), ("info", "token_count")];
        if payload.text("type") == Some("thread_name_updated") {
            let title = self.log.misfits.string(&payload, at, "thread_name");
            transcript.info.title = title.or(transcript.info.title.take());
        }
        let kind = self.log.misfits.kind(&payload, at, "type", &shapes).unwrap_or_default();
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
        // Of the first count of a session there is no `info`.
        self.log.misfits.object(&payload, at, "info");
        let mut info = payload.take("info");
        let at = &At::Key(at, "info");
        note_context(&info, &mut transcript.info);
        self.log.misfits.object(&info, at, "last_token_usage");
        let total = info.take("total_token_usage").into_value();
        let usage = info.take("last_token_usage");
        // The same count comes again whenever the limits of the account change.
        if !usage.is_object() || self.counted.as_ref() == Some(&total) {
            return;
        }
        self.counted = Some(total);
        self.open = None;
        let usage = usage_of(&usage, &mut self.log.misfits, &At::Key(at, "last_token_usage"));
        transcript.recorded.add(self.model.as_deref(), &usage, None);
        if let Some(place) = self.last.filter(|place| self.log.holds(*place)) {
            self.log.info(place).tokens = Some(usage);
        }
    }

    /// The summary in what took the place of the history: the last message, unless it is one the user wrote, which
    /// are kept there too.
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
        let mut text = self.log.misfits.take_words(&mut payload, at, "message");
        let history = self.log.misfits.take_list(&mut payload, at, "replacement_history");
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

/// Cached input is part of the input here, and reasoning part of the output.
fn usage_of(usage: &Json, misfits: &mut Misfits, at: &At) -> Usage {
    let total = misfits.number(usage, at, "total_tokens").map(Tokens);
    let mut number = |key: &str| Tokens(misfits.number(usage, at, key).unwrap_or(0));
    let (cached, reasoning) = (number("cached_input_tokens"), number("reasoning_output_tokens"));
    let input = number("input_tokens").saturating_sub(cached);
    let mut tokens = Usage::new(input, number("output_tokens").saturating_sub(reasoning));
    (tokens.cache_read, tokens.reasoning) = (cached, reasoning);
    tokens.total = total;
    tokens
}

fn output_of(output: Json, time: Option<Millis>, misfits: &mut Misfits, at: &At) -> Answer {
    let is_success = misfits.is(&output, at, "success");
    let is_error = !is_success && matches!(output.get("success"), Some(Json::Bool(false)));
    let (text, attachments) = flatten(output);
    let text = decoded_shell_output(&text).unwrap_or(text);
    Answer { text, attachments, is_error, at: time, ..Answer::default() }
}

/// The output of a command that older versions wrote as JSON, in the form that newer ones write; `None` for other outputs.
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
