//! Codex' rollout JSONL: items of the conversation between events about it.
//!
//! Items stand alone, so it has to be found out which of them are one response of the model: it goes on until
//! somebody else speaks, a tool answers, or its tokens are counted.

use std::io::{self, BufRead};

use plimsoll::{Millis, Role, Tokens, Usage};
use serde_json::{Value, json};

use crate::assembly::{Answer, Assembly, Compaction};
use crate::blocks::{arguments, blocks, file, flatten};
use crate::json::{string, take, take_text, text};
use crate::lines::Lines;
use crate::time::millis;
use crate::transcript::Transcript;

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
/// Stands for a summary that only the provider can read.
const SEALED: &str = "[The provider keeps this summary encrypted]";

pub(super) fn read(lines: &mut Lines<impl BufRead>, transcript: &mut Transcript) -> io::Result<()> {
    let mut reading = Reading::default();
    while let Some((line, value)) = lines.next(transcript)? {
        if let Err(problem) = reading.record(value, transcript) {
            transcript.broken_line(line, problem);
        }
    }
    transcript.messages = reading.log.finish();
    Ok(())
}

#[derive(Default)]
struct Reading {
    log: Assembly,
    /// The response that is being read.
    open: Option<usize>,
    /// The newest response, whose tokens may still be counted.
    last: Option<usize>,
    counted: Option<Value>,
    model: Option<String>,
}

impl Reading {
    fn record(&mut self, mut value: Value, transcript: &mut Transcript) -> Result<(), String> {
        let at = millis(value.get("timestamp"));
        transcript.info.seen(at);
        if !value.get("payload").is_some_and(Value::is_object) {
            return self.bare(value, at, transcript);
        }
        let mut payload = take(&mut value, "payload");
        match text(&value, "type") {
            Some("session_meta") => self.meta(&payload, at, transcript),
            Some("turn_context") => {
                self.model = string(&payload, "model").or(self.model.take());
                transcript.info.model = self.model.clone();
                if transcript.info.directory.is_none() {
                    transcript.info.directory = string(&payload, "cwd");
                }
            }
            Some("response_item") => self.item(payload, at, transcript)?,
            Some("event_msg") => self.event(&mut payload, transcript),
            Some("compacted") => self.compacted(payload, at),
            Some(kind @ ("world_state" | "ghost_snapshot")) => transcript.pass(kind),
            kind => transcript.skip(kind.unwrap_or("record without type")),
        }
        Ok(())
    }

    /// A line of the older form, which is the item itself.
    fn bare(&mut self, value: Value, at: Option<Millis>, transcript: &mut Transcript) -> Result<(), String> {
        if value.get("type").is_some() {
            return self.item(value, at, transcript);
        }
        if value.get("record_type").is_some() {
            transcript.pass("state");
        } else if value.get("id").is_some() {
            self.meta(&value, at, transcript);
        } else {
            transcript.skip("record without type");
        }
        Ok(())
    }

    fn meta(&mut self, meta: &Value, at: Option<Millis>, transcript: &mut Transcript) {
        let info = &mut transcript.info;
        info.seen(millis(meta.get("timestamp")));
        // A forked session repeats its parent's record behind its own.
        if info.id.is_some() {
            transcript.pass("session_meta of a parent");
            return;
        }
        info.id = string(meta, "id");
        info.directory = string(meta, "cwd").or(info.directory.take());
        info.version = string(meta, "cli_version");
        self.log.session(info.id.as_deref());
        let base = meta.get("base_instructions").and_then(|base| text(base, "text"));
        for instructions in base.into_iter().chain(text(meta, "instructions")) {
            let place = self.log.begin(Role::System, None, at);
            self.log.text(place, instructions);
        }
    }

    /// The response at hand, or a new one.
    fn response(&mut self, at: Option<Millis>) -> usize {
        let place = self.open.unwrap_or_else(|| {
            let place = self.log.begin(Role::Assistant, None, at);
            self.log.info(place).model_id = self.model.clone();
            place
        });
        (self.open, self.last) = (Some(place), Some(place));
        self.log.completed(place, at);
        place
    }

    fn item(
        &mut self,
        mut item: Value,
        at: Option<Millis>,
        transcript: &mut Transcript,
    ) -> Result<(), String> {
        let kind = string(&item, "type").unwrap_or_default();
        let call = string(&item, "call_id");
        match kind.as_str() {
            "message" => self.message(item, at, transcript)?,
            "reasoning" => {
                let (summary, _) = flatten(take(&mut item, "summary"));
                let (content, _) = flatten(take(&mut item, "content"));
                let sealed = text(&item, "encrypted_content").map(|sealed| {
                    json!({ "openai": { "itemId": item.get("id"), "reasoningEncryptedContent": sealed } })
                });
                let place = self.response(at);
                self.log.reasoning(place, if content.is_empty() { summary } else { content }, sealed);
            }
            "function_call" | "tool_search_call" => {
                let input = match take(&mut item, "arguments") {
                    Value::String(text) => arguments(text),
                    other => other,
                };
                let place = self.response(at);
                self.log.call(place, call.as_deref(), text(&item, "name").unwrap_or("tool_search"), input);
            }
            "custom_tool_call" => {
                let input = json!({ "input": take(&mut item, "input") });
                let place = self.response(at);
                self.log.call(place, call.as_deref(), text(&item, "name").unwrap_or_default(), input);
            }
            "local_shell_call" => {
                let place = self.response(at);
                let call = call.or_else(|| string(&item, "id"));
                self.log.call(place, call.as_deref(), "local_shell", take(&mut item, "action"));
            }
            // The provider's own tools: what they found is not in the file.
            "web_search_call" | "image_generation_call" => {
                let tool = kind.trim_end_matches("_call");
                let (id, action) = (string(&item, "id"), take(&mut item, "action"));
                let place = self.response(at);
                self.log.call(place, id.as_deref(), tool, action);
                if let Some(call) = self.log.waiting(place) {
                    // It was asked for just now, so it waits.
                    let _ = self.log.answer(&call, Answer { at, ..Answer::default() });
                }
            }
            "function_call_output" | "custom_tool_call_output" | "tool_search_output" => {
                let output = if kind == "tool_search_output" { "tools" } else { "output" };
                let answer = output_of(take(&mut item, output), at);
                self.open = None;
                self.log
                    .answer_or_keep(&call.unwrap_or_default(), answer, |log| log.begin(Role::User, None, at));
            }
            "ghost_snapshot" | "compaction" | "compaction_summary" => transcript.pass(kind),
            _ => transcript.skip(format!("response_item/{kind}")),
        }
        Ok(())
    }

    fn message(
        &mut self,
        mut item: Value,
        at: Option<Millis>,
        transcript: &mut Transcript,
    ) -> Result<(), String> {
        let content = blocks(take(&mut item, "content"))?;
        let role = match text(&item, "role") {
            Some("assistant") => Role::Assistant,
            Some("user") => Role::User,
            Some("developer" | "system") => Role::System,
            other => {
                transcript.skip(format!("message of role {}", other.unwrap_or("(none)")));
                return Ok(());
            }
        };
        let is_user = role == Role::User;
        let place = if role == Role::Assistant {
            self.response(at)
        } else {
            self.open = None;
            self.log.begin(role, string(&item, "id"), at)
        };
        for mut block in content {
            match text(&block, "type") {
                Some("input_text" | "output_text" | "text") => {
                    let text = take_text(&mut block, "text");
                    let synthetic = is_user && SYNTHETIC.iter().any(|start| text.starts_with(start));
                    self.log.said(place, text, synthetic);
                }
                Some("refusal") => self.log.text(place, take_text(&mut block, "refusal")),
                kind => match file(&block) {
                    Some(file) => self.log.file(place, file),
                    None => transcript.skip(format!("message block {}", kind.unwrap_or("without type"))),
                },
            }
        }
        Ok(())
    }

    fn event(&mut self, payload: &mut Value, transcript: &mut Transcript) {
        let kind = string(payload, "type").unwrap_or_default();
        if kind != "token_count" {
            // What they tell stands in the items as well, or is for people only.
            transcript.pass(format!("event_msg/{kind}"));
            return;
        }
        let mut info = take(payload, "info");
        let total = take(&mut info, "total_token_usage");
        let usage = take(&mut info, "last_token_usage");
        // The same count comes again whenever the limits of the account change.
        if !usage.is_object() || self.counted.as_ref() == Some(&total) {
            return;
        }
        self.counted = Some(total);
        self.open = None;
        if let Some(place) = self.last {
            self.log.info(place).tokens = Some(usage_of(&usage));
        }
    }

    fn compacted(&mut self, mut payload: Value, at: Option<Millis>) {
        let mut text = take_text(&mut payload, "message");
        if text.trim().is_empty() {
            let history = take(&mut payload, "replacement_history");
            let items = history.as_array().map(Vec::as_slice).unwrap_or_default();
            let last = items.iter().rev().find(|item| self::text(item, "type") == Some("message"));
            text = last
                .map(|item| flatten(item.get("content").cloned().unwrap_or_default()).0)
                .unwrap_or_default();
        }
        if text.trim().is_empty() {
            text = SEALED.to_owned();
        }
        (self.open, self.last) = (None, None);
        self.log.compaction(Compaction { at, text, ..Compaction::default() });
    }
}

/// Cached input is part of the input here, and reasoning part of the output.
fn usage_of(usage: &Value) -> Usage {
    let number = |key: &str| Tokens(usage.get(key).and_then(Value::as_u64).unwrap_or(0));
    let (cached, reasoning) = (number("cached_input_tokens"), number("reasoning_output_tokens"));
    let input = number("input_tokens").saturating_sub(cached);
    let mut tokens = Usage::new(input, number("output_tokens").saturating_sub(reasoning));
    (tokens.cache_read, tokens.reasoning) = (cached, reasoning);
    tokens.total = usage.get("total_tokens").and_then(Value::as_u64).map(Tokens);
    tokens
}

fn output_of(output: Value, at: Option<Millis>) -> Answer {
    let is_error = output.get("success") == Some(&Value::Bool(false));
    let (text, attachments) = flatten(output);
    Answer { text, attachments, is_error, at, ..Answer::default() }
}
