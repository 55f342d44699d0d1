//! pi's JSONL: a tree of entries, or in files of its first version a list.

use std::io::{self, BufRead};

use plimsoll::log::CompactionPart;
use plimsoll::{MessageId, Millis, PartBody, Role, Tokens, Usage};
use serde_json::{Value, json};

use crate::assembly::{Answer, Assembly, Compaction};
use crate::blocks::{blocks, file, finish, flatten};
use crate::json::{string, take, take_text, text};
use crate::lines::Lines;
use crate::time::millis;
use crate::transcript::Transcript;
use crate::tree::{Parent, Tree};

struct Entry {
    line: u64,
    id: Option<String>,
    value: Value,
}

pub(super) fn read(lines: &mut Lines<impl BufRead>, transcript: &mut Transcript) -> io::Result<()> {
    let mut tree = Tree::default();
    let mut entries: Vec<Entry> = Vec::new();
    while let Some((line, value)) = lines.next(transcript)? {
        transcript.info.seen(millis(value.get("timestamp")));
        let is_header = text(&value, "type") == Some("session");
        let id = if is_header { None } else { string(&value, "id") };
        let parent = match value.get("parentId") {
            Some(Value::String(parent)) => Parent::Named(parent.clone()),
            Some(_) => Parent::Root,
            None if is_header || id.is_some() => Parent::Root,
            None => Parent::Before,
        };
        if tree.add(id.as_deref(), parent).is_some() {
            transcript.skip("repeated entry");
        }
        entries.push(Entry { line, id, value });
    }
    let Some(leaf) = entries.len().checked_sub(1) else { return Ok(()) };
    let all: Vec<usize> = (0..entries.len()).collect();
    let path = tree.path(leaf, &all, transcript);
    let mut reading = Reading { ids: vec![None; entries.len()], ..Reading::default() };
    for (place, entry) in entries.into_iter().enumerate() {
        let is_header = text(&entry.value, "type") == Some("session");
        if !path.contains(&place) && !is_header {
            transcript.pass("entry of another branch");
            continue;
        }
        let before = reading.log.len();
        let line = entry.line;
        if let Err(problem) = reading.entry(entry, &tree, transcript) {
            transcript.broken_line(line, problem);
        }
        if reading.log.len() > before {
            reading.ids[place] = Some(reading.log.message(before).info.id.clone());
        }
    }
    transcript.messages = reading.log.finish();
    Ok(())
}

#[derive(Default)]
struct Reading {
    log: Assembly,
    /// The message each entry began, by place in the file.
    ids: Vec<Option<MessageId>>,
}

impl Reading {
    fn entry(&mut self, entry: Entry, tree: &Tree, transcript: &mut Transcript) -> Result<(), String> {
        let Entry { id, mut value, .. } = entry;
        let at = millis(value.get("timestamp"));
        let info = &mut transcript.info;
        match text(&value, "type") {
            Some("session") => {
                info.id = string(&value, "id");
                info.directory = string(&value, "cwd");
                info.model = string(&value, "modelId").or(info.model.take());
                self.log.session(info.id.as_deref());
            }
            Some("model_change") => info.model = string(&value, "modelId").or(info.model.take()),
            Some("session_info") => info.title = string(&value, "name").or(info.title.take()),
            Some("message") => return self.message(id, take(&mut value, "message"), at, transcript),
            Some("compaction") => self.compaction(id, &mut value, at, tree),
            Some("branch_summary") => self.host_said(id, take_text(&mut value, "summary"), at),
            Some("custom_message") => self.host_said(id, flatten(take(&mut value, "content")).0, at),
            Some(kind @ ("thinking_level_change" | "custom" | "label")) => transcript.pass(kind),
            kind => transcript.skip(kind.unwrap_or("entry without type")),
        }
        Ok(())
    }

    fn host_said(&mut self, id: Option<String>, text: String, at: Option<Millis>) {
        let place = self.log.begin(Role::User, id, at);
        self.log.said(place, text, true);
    }

    fn compaction(&mut self, id: Option<String>, value: &mut Value, at: Option<Millis>, tree: &Tree) {
        let named = text(value, "firstKeptEntryId").and_then(|id| tree.place(id));
        let index = value.get("firstKeptEntryIndex").and_then(Value::as_u64);
        let kept = named.or_else(|| usize::try_from(index?).ok());
        // The entry itself may have begun no message: then the next one that did.
        let tail = kept.and_then(|kept| self.ids.get(kept..)?.iter().flatten().next().cloned());
        let part = CompactionPart {
            tail_start: tail,
            tokens: value.get("tokensBefore").and_then(Value::as_u64),
            ..CompactionPart::default()
        };
        let marker = id.as_ref().map(|id| format!("{id}.marker"));
        let text = take_text(value, "summary");
        self.log.compaction(Compaction { marker, summary: id, at, text, part });
    }

    fn message(
        &mut self,
        id: Option<String>,
        mut message: Value,
        at: Option<Millis>,
        transcript: &mut Transcript,
    ) -> Result<(), String> {
        let log = &mut self.log;
        let at = millis(message.get("timestamp")).or(at);
        match text(&message, "role") {
            Some("user") => {
                let content = blocks(take(&mut message, "content"))?;
                let place = log.begin(Role::User, id, at);
                content.into_iter().for_each(|block| block_of(log, place, block, transcript));
            }
            Some("assistant") => {
                let content = blocks(take(&mut message, "content"))?;
                let place = log.begin(Role::Assistant, id, at);
                content.into_iter().for_each(|block| block_of(log, place, block, transcript));
                about(log, place, &message);
                transcript.info.model = string(&message, "model").or(transcript.info.model.take());
            }
            Some("toolResult") => {
                let (text, attachments) = flatten(take(&mut message, "content"));
                let is_error = message.get("isError") == Some(&Value::Bool(true));
                let answer = Answer { text, attachments, is_error, at, ..Answer::default() };
                let call = take_text(&mut message, "toolCallId");
                log.answer_or_keep(&call, answer, |log| log.begin(Role::User, id, at));
            }
            Some("bashExecution") => {
                let (command, output) =
                    (take_text(&mut message, "command"), take_text(&mut message, "output"));
                let place = log.begin(Role::User, id, at);
                log.said(place, format!("Ran `{command}`\n```\n{output}\n```"), false);
                let hidden = message.get("excludeFromContext") == Some(&Value::Bool(true));
                if hidden && let Some(PartBody::Text(text)) = log.last_part(place) {
                    text.ignored = Some(true);
                }
            }
            Some("custom" | "hookMessage" | "branchSummary") => {
                let (content, _) = flatten(take(&mut message, "content"));
                let summary = take_text(&mut message, "summary");
                self.host_said(id, if content.is_empty() { summary } else { content }, at);
            }
            other => transcript.skip(format!("message of role {}", other.unwrap_or("(none)"))),
        }
        Ok(())
    }
}

fn block_of(log: &mut Assembly, place: usize, mut block: Value, transcript: &mut Transcript) {
    match text(&block, "type") {
        Some("text") => log.text(place, take_text(&mut block, "text")),
        Some("thinking") => {
            let signature = text(&block, "thinkingSignature");
            let metadata = signature.map(|signature| json!({ "anthropic": { "signature": signature } }));
            log.reasoning(place, take_text(&mut block, "thinking"), metadata);
        }
        Some("toolCall") => {
            let (id, input) = (string(&block, "id"), take(&mut block, "arguments"));
            log.call(place, id.as_deref(), &take_text(&mut block, "name"), input);
        }
        kind => match file(&block) {
            Some(file) => log.file(place, file),
            None => transcript.skip(format!("message block {}", kind.unwrap_or("without type"))),
        },
    }
}

/// The model, its tokens, and how it ended.
fn about(log: &mut Assembly, place: usize, message: &Value) {
    let info = log.info(place);
    info.model_id = string(message, "model");
    if let Some(usage) = message.get("usage") {
        let number = |key: &str| Tokens(usage.get(key).and_then(Value::as_u64).unwrap_or(0));
        let mut tokens = Usage::new(number("input"), number("output"));
        (tokens.cache_read, tokens.cache_write) = (number("cacheRead"), number("cacheWrite"));
        tokens.total = usage.get("totalTokens").and_then(Value::as_u64).map(Tokens);
        info.tokens = Some(tokens);
        info.cost = match usage.get("cost").and_then(|cost| cost.get("total")) {
            Some(Value::Number(cost)) => Some(cost.clone()),
            _ => None,
        };
    }
    let reason = text(message, "stopReason");
    info.finish = reason.map(|reason| finish(reason).to_owned());
    if matches!(reason, Some("aborted" | "error")) {
        let name = if reason == Some("aborted") { "MessageAbortedError" } else { "APIError" };
        info.error = Some(json!({ "name": name, "data": { "message": text(message, "errorMessage") } }));
    }
}
