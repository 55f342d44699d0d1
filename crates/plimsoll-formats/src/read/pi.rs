//! pi's JSONL: a tree of entries, or in files of its first version a list.

use std::borrow::Cow;
use std::io::{self, BufRead, Seek};

use plimsoll::log::CompactionPart;
use plimsoll::{MessageId, Millis, PartBody, Role, Tokens, Usage};
use serde_json::json;

use super::Sink;
use crate::assembly::{Answer, Assembly, Compaction, MOST_HELD};
use crate::blocks::{blocks, file, finish, flatten};
use crate::hash::{HashMap64, Hasher};
use crate::json::{Json, Take};
use crate::lines::{Lines, Place};
use crate::time::millis;
use crate::transcript::{Chain, Transcript};
use crate::tree::{Names, Parent};

pub(super) fn read(
    lines: &mut Lines<impl BufRead + Seek>,
    transcript: &mut Transcript,
    sink: Sink,
) -> io::Result<()> {
    let mut index = Index::default();
    lines.each(transcript, |text, place, transcript| {
        index.entry(&Json::parse_some(text, outline)?, place, transcript);
        Ok(())
    })?;
    let Some(leaf) = index.offsets.len().checked_sub(1) else { return Ok(()) };
    let (tree, repeated, kept) = std::mem::take(&mut index.names).resolve(&index.kept);
    repeated.iter().for_each(|_| transcript.skip("repeated entry"));
    let tails = Tails::new(&index, &kept);
    let all: Vec<u32> = (0..index.offsets.len() as u32).collect();
    let mut path = vec![false; all.len()];
    tree.path(leaf as u32, &all, &mut path, transcript);

    let mut sink = |message| sink(Chain::Main, message);
    let log = Assembly::new(&mut sink, MOST_HELD);
    let mut reading = Reading { log, tails };
    for (place, &offset) in index.offsets.iter().enumerate() {
        if !path[place] && index.headers.binary_search(&(place as u32)).is_err() {
            transcript.pass("entry of another branch");
            continue;
        }
        let text = lines.again(offset)?;
        reading.log.record(place, text.len(), place, None);
        let before = reading.log.len();
        let read = Json::parse(text).map_err(|error| error.to_string());
        if let Err(problem) = read.and_then(|entry| reading.entry(entry, transcript)) {
            transcript.broken_line(u64::from(index.lines[place]), problem);
        }
        if reading.log.len() > before {
            reading.tails.began(place as u32, &reading.log.message(before).info.id);
        }
    }
    reading.log.finish();
    Ok(())
}

/// The fields that tell how entries hang together.
fn outline(_: &[(Cow<str>, Json)], depth: u8, key: &str) -> Take {
    let wanted =
        ["type", "id", "parentId", "timestamp", "firstKeptEntryId", "firstKeptEntryIndex"].contains(&key);
    if depth == 0 && wanted { Take::Whole } else { Take::Skip }
}

/// What is kept of all entries until the tree is known, by place in the file.
#[derive(Default)]
struct Index {
    hasher: Hasher,
    names: Names,
    offsets: Vec<u64>,
    lines: Vec<u32>,
    headers: Vec<u32>,
    /// The entries that compactions kept from, by name and by place.
    kept: Vec<u64>,
    kept_places: Vec<u32>,
}

impl Index {
    fn entry(&mut self, entry: &Json, place: Place, transcript: &mut Transcript) {
        transcript.info.seen(millis(entry.get("timestamp")));
        let is_header = entry.text("type") == Some("session");
        if is_header {
            self.headers.push(self.offsets.len() as u32);
        }
        let id = if is_header { None } else { entry.text("id") };
        let parent = match entry.get("parentId") {
            Some(Json::Text(parent)) => Parent::Named(self.hasher.hash(parent)),
            Some(_) => Parent::Root,
            None if is_header || id.is_some() => Parent::Root,
            None => Parent::Before,
        };
        self.names.add(id.map(|id| self.hasher.hash(id)), parent);
        self.offsets.push(place.offset);
        self.lines.push(u32::try_from(place.line).unwrap_or(u32::MAX));
        self.kept.extend(entry.text("firstKeptEntryId").map(|id| self.hasher.hash(id)));
        self.kept_places
            .extend(entry.number("firstKeptEntryIndex").and_then(|index| u32::try_from(index).ok()));
    }
}

/// The messages with which the tails of compactions begin.
struct Tails<'a> {
    hasher: &'a Hasher,
    names: HashMap64<u32>,
    /// The places that entries kept from, ascending, and the first message begun there or later.
    kept: Vec<u32>,
    begun: Vec<MessageId>,
}

impl Tails<'_> {
    fn new<'a>(index: &'a Index, places: &[Option<u32>]) -> Tails<'a> {
        let named = index.kept.iter().zip(places).filter_map(|(name, place)| Some((*name, (*place)?)));
        let names: HashMap64<u32> = named.collect();
        let mut kept: Vec<u32> = names.values().chain(&index.kept_places).copied().collect();
        kept.sort_unstable();
        kept.dedup();
        Tails { hasher: &index.hasher, names, kept, begun: Vec::new() }
    }

    fn began(&mut self, place: u32, message: &MessageId) {
        while self.kept.get(self.begun.len()).is_some_and(|kept| *kept <= place) {
            self.begun.push(message.clone());
        }
    }

    /// The message with which the tail of this compaction begins.
    fn of(&self, compaction: &Json) -> Option<MessageId> {
        let id = compaction.text("firstKeptEntryId").map(|id| self.hasher.hash(id));
        let named = id.and_then(|id| self.names.get(&id).copied());
        let place = named.or_else(|| u32::try_from(compaction.number("firstKeptEntryIndex")?).ok())?;
        self.begun.get(self.kept.binary_search(&place).ok()?).cloned()
    }
}

struct Reading<'a> {
    log: Assembly<'a>,
    tails: Tails<'a>,
}

impl Reading<'_> {
    fn entry(&mut self, mut entry: Json, transcript: &mut Transcript) -> Result<(), String> {
        let at = millis(entry.get("timestamp"));
        let info = &mut transcript.info;
        if entry.text("type") == Some("session") {
            info.id = entry.string("id");
            info.directory = entry.string("cwd");
            info.model = entry.string("modelId").or(info.model.take());
            self.log.session(info.id.as_deref());
            return Ok(());
        }
        let id = entry.string("id");
        match entry.text("type") {
            Some("model_change") => info.model = entry.string("modelId").or(info.model.take()),
            Some("session_info") => info.title = entry.string("name").or(info.title.take()),
            Some("message") => return self.message(id, entry.take("message"), at, transcript),
            Some("compaction") => self.compaction(id, &mut entry, at),
            Some("branch_summary") => self.host_said(id, entry.take_text("summary"), at),
            Some("custom_message") => self.host_said(id, flatten(entry.take("content")).0, at),
            Some(kind @ ("thinking_level_change" | "custom" | "label")) => transcript.pass(kind),
            kind => transcript.skip(kind.unwrap_or("entry without type")),
        }
        Ok(())
    }

    fn host_said(&mut self, id: Option<String>, text: String, at: Option<Millis>) {
        let place = self.log.begin(Role::User, id, at);
        self.log.said(place, text, true);
    }

    fn compaction(&mut self, id: Option<String>, entry: &mut Json, at: Option<Millis>) {
        let part = CompactionPart {
            tail_start: self.tails.of(entry),
            tokens: entry.number("tokensBefore"),
            ..CompactionPart::default()
        };
        let marker = id.as_ref().map(|id| format!("{id}.marker"));
        let text = entry.take_text("summary");
        self.log.compaction(Compaction { marker, summary: id, at, text, part });
    }

    fn message(
        &mut self,
        id: Option<String>,
        mut message: Json,
        at: Option<Millis>,
        transcript: &mut Transcript,
    ) -> Result<(), String> {
        let log = &mut self.log;
        let at = millis(message.get("timestamp")).or(at);
        match message.text("role") {
            Some("user") => {
                let content = blocks(message.take("content"))?;
                let place = log.begin(Role::User, id, at);
                content.into_iter().for_each(|block| block_of(log, place, block, transcript));
            }
            Some("assistant") => {
                let content = blocks(message.take("content"))?;
                let place = log.begin(Role::Assistant, id, at);
                content.into_iter().for_each(|block| block_of(log, place, block, transcript));
                about(log, place, &message);
                transcript.info.model = message.string("model").or(transcript.info.model.take());
            }
            Some("toolResult") => {
                let (text, attachments) = flatten(message.take("content"));
                let is_error = message.is("isError");
                let answer = Answer { text, attachments, is_error, at, ..Answer::default() };
                let call = message.take_text("toolCallId");
                log.answer_or_keep(&call, answer, |log| log.begin(Role::User, id, at));
            }
            Some("bashExecution") => {
                let (command, output) = (message.take_text("command"), message.take_text("output"));
                let place = log.begin(Role::User, id, at);
                log.said(place, format!("Ran `{command}`\n```\n{output}\n```"), false);
                let hidden = message.is("excludeFromContext");
                if hidden && let Some(PartBody::Text(text)) = log.last_part(place) {
                    text.ignored = Some(true);
                }
            }
            Some("custom" | "hookMessage" | "branchSummary") => {
                let (content, _) = flatten(message.take("content"));
                let summary = message.take_text("summary");
                self.host_said(id, if content.is_empty() { summary } else { content }, at);
            }
            other => transcript.skip(format!("message of role {}", other.unwrap_or("(none)"))),
        }
        Ok(())
    }
}

fn block_of(log: &mut Assembly, place: usize, mut block: Json, transcript: &mut Transcript) {
    match block.text("type") {
        Some("text") => log.text(place, block.take_text("text")),
        Some("thinking") => {
            let signature = block.text("thinkingSignature");
            let metadata = signature.map(|signature| json!({ "anthropic": { "signature": signature } }));
            log.reasoning(place, block.take_text("thinking"), metadata);
        }
        Some("toolCall") => {
            let (id, input) = (block.string("id"), block.take("arguments").into_value());
            log.call(place, id.as_deref(), &block.take_text("name"), input);
        }
        kind => match file(&block) {
            Some(file) => log.file(place, file),
            None => transcript.skip(format!("message block {}", kind.unwrap_or("without type"))),
        },
    }
}

/// The model, its tokens, and how it ended.
fn about(log: &mut Assembly, place: usize, message: &Json) {
    let info = log.info(place);
    info.model_id = message.string("model");
    if let Some(usage) = message.get("usage") {
        let number = |key: &str| Tokens(usage.number(key).unwrap_or(0));
        let mut tokens = Usage::new(number("input"), number("output"));
        (tokens.cache_read, tokens.cache_write) = (number("cacheRead"), number("cacheWrite"));
        tokens.total = usage.number("totalTokens").map(Tokens);
        info.tokens = Some(tokens);
        info.cost = match usage.get("cost").and_then(|cost| cost.get("total")) {
            Some(Json::Number(cost)) => Some(cost.clone()),
            _ => None,
        };
    }
    let reason = message.text("stopReason");
    info.finish = reason.map(|reason| finish(reason).to_owned());
    if matches!(reason, Some("aborted" | "error")) {
        let name = if reason == Some("aborted") { "MessageAbortedError" } else { "APIError" };
        info.error = Some(json!({ "name": name, "data": { "message": message.text("errorMessage") } }));
    }
}
