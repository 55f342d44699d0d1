//! Claude Code's JSONL: a tree of records, of which the path to the newest leaf is the session.
//!
//! The path alone is not enough. Calls made in parallel hang their results on different branches, so records off
//! the path belong to the session too if they carry a block of a response on it, or the result of a call on it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, BufRead};

use plimsoll::log::CompactionPart;
use plimsoll::{MessageId, Millis, Role};
use serde_json::{Value, json};

use crate::assembly::{Assembly, Compaction};
use crate::blocks::{anthropic_usage, blocks, file, finish, small, spoken, tool_result};
use crate::json::{string, take, take_text, text};
use crate::lines::Lines;
use crate::time::millis;
use crate::transcript::Transcript;
use crate::tree::{Parent, Tree};

/// Kinds of records that say nothing to a model.
const UNUSED: [&str; 12] = [
    "attachment",
    "custom-title",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "summary",
    "tag",
    "worktree-state",
];

/// What is kept of a record until the tree is known.
struct Record {
    line: u64,
    uuid: String,
    at: Option<Millis>,
    side: bool,
    agent: Option<String>,
    body: Body,
}

enum Body {
    User {
        content: Value,
        structured: Value,
        meta: bool,
    },
    Summary {
        content: Value,
    },
    Assistant {
        message: Value,
        error: bool,
    },
    Boundary {
        metadata: Value,
    },
    /// Only a link between others.
    Link,
}

pub(super) fn read(lines: &mut Lines<impl BufRead>, transcript: &mut Transcript) -> io::Result<()> {
    let mut tree = Tree::default();
    let mut records: Vec<Record> = Vec::new();
    while let Some((line, mut value)) = lines.next(transcript)? {
        note(&value, transcript);
        let Some(uuid) = string(&value, "uuid") else {
            count(&value, transcript);
            continue;
        };
        let parent = text(&value, "parentUuid").or_else(|| text(&value, "logicalParentUuid"));
        let parent = parent.map_or(Parent::Root, |parent| Parent::Named(parent.to_owned()));
        let (at, agent) = (millis(value.get("timestamp")), string(&value, "agentId"));
        let side = value.get("isSidechain") == Some(&Value::Bool(true));
        let body = body(&mut value, transcript);
        // A resumed session repeats records; the later copy stands.
        if let Some(earlier) = tree.add(Some(&uuid), parent) {
            transcript.pass("repeated record");
            records[earlier].body = Body::Link;
        }
        records.push(Record { line, uuid, at, side, agent, body });
    }
    split(records, &tree, transcript);
    Ok(())
}

/// What a record says about the session as a whole.
fn note(value: &Value, transcript: &mut Transcript) {
    let info = &mut transcript.info;
    info.seen(millis(value.get("timestamp")));
    if info.id.is_none() {
        info.id = string(value, "sessionId");
    }
    if info.directory.is_none() {
        info.directory = string(value, "cwd");
    }
    info.version = string(value, "version").or(info.version.take());
    let title = match text(value, "type") {
        Some("ai-title") => text(value, "aiTitle"),
        Some("custom-title") => text(value, "customTitle"),
        Some("summary") => text(value, "summary"),
        _ => None,
    };
    info.title = title.map(str::to_owned).or(info.title.take());
}

fn count(value: &Value, transcript: &mut Transcript) {
    match text(value, "type") {
        Some("ai-title") => {}
        Some(kind) if UNUSED.contains(&kind) => transcript.pass(kind),
        Some(kind @ ("user" | "assistant" | "system")) => transcript.skip(format!("{kind} without uuid")),
        kind => transcript.skip(kind.unwrap_or("record without type")),
    }
}

fn body(value: &mut Value, transcript: &mut Transcript) -> Body {
    let is = |value: &Value, key: &str| value.get(key) == Some(&Value::Bool(true));
    match text(value, "type") {
        Some("user") => {
            let content =
                value.get_mut("message").map(|message| take(message, "content")).unwrap_or_default();
            if is(value, "isCompactSummary") {
                return Body::Summary { content };
            }
            let meta = is(value, "isMeta");
            Body::User { content, structured: small(take(value, "toolUseResult")), meta }
        }
        Some("assistant") => {
            let error = is(value, "isApiErrorMessage");
            Body::Assistant { message: take(value, "message"), error }
        }
        Some("system") => {
            let kind = string(value, "subtype").unwrap_or_default();
            if kind == "compact_boundary" {
                return Body::Boundary { metadata: take(value, "compactMetadata") };
            }
            transcript.pass(format!("system/{kind}"));
            Body::Link
        }
        _ => {
            count(value, transcript);
            Body::Link
        }
    }
}

/// Tell the session from its sub-agents. A sub-agent's own file consists of nothing but side chain.
fn split(mut records: Vec<Record>, tree: &Tree, transcript: &mut Transcript) {
    if records.iter().all(|record| record.side) {
        records.iter_mut().for_each(|record| record.side = false);
    }
    let side: Vec<usize> = (0..records.len()).filter(|place| records[*place].side).collect();
    let mut chains: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let roots = tree.roots(&side);
    for place in side {
        chains.entry(roots[&place]).or_default().push(place);
    }
    let main: Vec<usize> = (0..records.len()).filter(|place| !records[*place].side).collect();
    assemble(&main, &mut records, tree, transcript);
    for (root, chain) in chains {
        let mut child = Transcript::new(transcript.format);
        child.info.id = records[root].agent.clone().or_else(|| Some(records[root].uuid.clone()));
        child.info.directory = transcript.info.directory.clone();
        child.info.version = transcript.info.version.clone();
        chain.iter().for_each(|place| child.info.seen(records[*place].at));
        assemble(&chain, &mut records, tree, &mut child);
        transcript.side_chains.push(child);
    }
}

impl Record {
    /// The response a record of the model is a piece of.
    fn response(&self) -> Option<&str> {
        match &self.body {
            Body::Assistant { message, .. } => text(message, "id"),
            _ => None,
        }
    }

    /// The ids of calls made (by the model) or answered (by the user) in this record.
    fn calls(&self) -> impl Iterator<Item = &str> {
        let (content, key) = match &self.body {
            Body::Assistant { message, .. } => (message.get("content"), "id"),
            Body::User { content, .. } => (Some(content), "tool_use_id"),
            _ => (None, ""),
        };
        content.and_then(Value::as_array).into_iter().flatten().filter_map(move |block| text(block, key))
    }
}

/// Which of `all` make up the conversation, oldest first.
fn choose(all: &[usize], records: &[Record], tree: &Tree, transcript: &mut Transcript) -> Vec<usize> {
    let speaks = |place: &&usize| !matches!(records[**place].body, Body::Link);
    let Some(&leaf) = all.iter().rev().find(speaks) else { return Vec::new() };
    let mut path = tree.path(leaf, all, transcript);
    let responses: HashSet<&str> = path.iter().filter_map(|place| records[*place].response()).collect();
    path.extend(
        all.iter()
            .filter(|place| records[**place].response().is_some_and(|response| responses.contains(response))),
    );
    let is_user = |place: &usize| matches!(records[*place].body, Body::User { .. });
    let (answered, called): (Vec<usize>, Vec<usize>) = path.iter().copied().partition(is_user);
    let mut open: HashSet<&str> = called.iter().flat_map(|place| records[*place].calls()).collect();
    answered.iter().flat_map(|place| records[*place].calls()).for_each(|call| {
        open.remove(call);
    });
    for place in all.iter().filter(|place| is_user(place)) {
        if !path.contains(place) && records[*place].calls().any(|call| open.remove(call)) {
            path.insert(*place);
        }
    }
    let (mut chosen, left): (Vec<usize>, Vec<usize>) = all.iter().partition(|place| path.contains(place));
    for place in left {
        if !matches!(records[place].body, Body::Link) {
            transcript.pass("record of another branch");
        }
    }
    tree.order(&mut chosen);
    chosen
}

fn assemble(all: &[usize], records: &mut [Record], tree: &Tree, transcript: &mut Transcript) {
    let chosen = choose(all, records, tree, transcript);
    let mut log = Assembly::default();
    log.session(transcript.info.id.as_deref());
    let mut reading = Reading { log, ..Reading::default() };
    for place in chosen {
        let record = &mut records[place];
        let body = std::mem::replace(&mut record.body, Body::Link);
        if let Err(problem) = reading.record(record, body, transcript) {
            transcript.broken_line(record.line, problem);
        }
    }
    if reading.boundary.is_some() {
        transcript.skip("compact_boundary without summary");
    }
    transcript.messages = reading.log.finish();
}

#[derive(Default)]
struct Reading {
    log: Assembly,
    /// The messages of responses, by the provider's id.
    responses: HashMap<String, usize>,
    /// The message each record went into.
    messages: HashMap<String, MessageId>,
    /// A compaction whose summary is still to come.
    boundary: Option<(String, CompactionPart)>,
}

impl Reading {
    fn record(&mut self, record: &Record, body: Body, transcript: &mut Transcript) -> Result<(), String> {
        let before = self.log.len();
        match body {
            Body::Link => {}
            Body::User { content, structured, meta } => {
                self.user(record, content, structured, meta, transcript)?;
            }
            Body::Assistant { message, error } => self.assistant(record, message, error, transcript)?,
            Body::Boundary { metadata } => self.boundary(record, &metadata),
            Body::Summary { content } => {
                let (marker, part) = self.boundary.take().unzip();
                let (text, _) = crate::blocks::flatten(content);
                self.log.compaction(Compaction {
                    marker: marker.or_else(|| Some(format!("{}.marker", record.uuid))),
                    summary: Some(record.uuid.clone()),
                    at: record.at,
                    text,
                    part: part.unwrap_or_default(),
                });
            }
        }
        if self.log.len() > before {
            let id = self.log.message(before).info.id.clone();
            self.messages.insert(record.uuid.clone(), id);
        }
        Ok(())
    }

    fn boundary(&mut self, record: &Record, metadata: &Value) {
        let kept = metadata.get("preservedSegment").and_then(|kept| text(kept, "headUuid"));
        let part = CompactionPart {
            auto: text(metadata, "trigger").map(|trigger| trigger == "auto"),
            tokens: metadata.get("preTokens").and_then(Value::as_u64),
            tail_start: kept.and_then(|uuid| self.messages.get(uuid).cloned()),
            ..CompactionPart::default()
        };
        self.boundary = Some((record.uuid.clone(), part));
    }

    fn user(
        &mut self,
        record: &Record,
        content: Value,
        mut structured: Value,
        meta: bool,
        transcript: &mut Transcript,
    ) -> Result<(), String> {
        let mut place = None;
        let log = &mut self.log;
        let mut here = |log: &mut Assembly| {
            *place.get_or_insert_with(|| log.begin(Role::User, Some(record.uuid.clone()), record.at))
        };
        for mut block in blocks(content)? {
            match text(&block, "type") {
                Some("tool_result") => {
                    let (call, answer) = tool_result(block, record.at, structured.take());
                    log.answer_or_keep(&call, answer, &mut here);
                }
                Some("text") => {
                    let place = here(log);
                    log.said(place, take_text(&mut block, "text"), meta);
                }
                kind => match file(&block) {
                    Some(file) => {
                        let place = here(log);
                        log.file(place, file);
                    }
                    None => transcript.skip(format!("user block {}", kind.unwrap_or("without type"))),
                },
            }
        }
        Ok(())
    }

    fn assistant(
        &mut self,
        record: &Record,
        mut message: Value,
        error: bool,
        transcript: &mut Transcript,
    ) -> Result<(), String> {
        let content = blocks(take(&mut message, "content"))?;
        let response = string(&message, "id");
        let known = response.as_ref().and_then(|response| self.responses.get(response).copied());
        let log = &mut self.log;
        let place = known.unwrap_or_else(|| log.begin(Role::Assistant, Some(record.uuid.clone()), record.at));
        if let Some(response) = response {
            self.responses.insert(response, place);
        }
        log.completed(place, record.at);
        let info = log.info(place);
        // What the host says in the model's name has a model of this name.
        if let Some(model) = text(&message, "model").filter(|model| *model != "<synthetic>") {
            info.model_id = Some(model.to_owned());
            transcript.info.model = Some(model.to_owned());
        }
        if let Some(reason) = text(&message, "stop_reason") {
            info.finish = Some(finish(reason).to_owned());
        }
        if !error && let Some(usage) = message.get("usage").filter(|usage| usage.is_object()) {
            info.tokens = Some(anthropic_usage(usage));
        }
        for block in content {
            if let Err(kind) = spoken(log, place, block) {
                transcript.skip(format!("assistant block {kind}"));
            }
        }
        if error {
            let said = log.message(place).text();
            let info = log.info(place);
            info.finish = Some("error".into());
            info.error = Some(json!({ "name": "APIError", "data": { "message": said } }));
        }
        Ok(())
    }
}
