//! pi's JSONL: a tree of entries, or a list in files of the first version.

use std::borrow::Cow;
use std::io::{self, BufRead, Seek};

use plimsoll::log::{At, CompactionPart, TextPart};
use plimsoll::{MessageId, Millis, PartBody, Role, Tokens, Usage};
use serde_json::{Number, json};

use super::{Sink, choose};
use crate::assembly::{Answer, Assembly, Compaction, MAX_HELD};
use crate::blocks::{blocks, file, finish, flatten};
use crate::field_errors::FieldErrors;
use crate::hash::{HashMap64, Hasher};
use crate::json::{Json, Take, error_text};
use crate::lines::{Lines, Place};
use crate::restart::Restart;
use crate::time::millis;
use crate::transcript::{Chain, SessionInfo, Transcript};
use crate::tree::{Names, Parent};

/// Fields that identify the kind of an entry without a type.
const ENTRIES: [(&str, &str); 3] =
    [("message", "message"), ("firstKeptEntryId", "compaction"), ("cwd", "session")];
/// Fields that identify the role of a message without one.
const ROLES: [(&str, &str); 4] = [
    ("toolCallId", "toolResult"),
    ("command", "bashExecution"),
    ("stopReason", "assistant"),
    ("usage", "assistant"),
];
/// Fields that identify the kind of a block without a type.
const BLOCKS: [(&str, &str); 3] = [("arguments", "toolCall"), ("thinking", "thinking"), ("text", "text")];

pub(super) fn read(
    lines: &mut Lines<impl BufRead + Seek>,
    transcript: &mut Transcript,
    (wanted, from): (Option<&str>, Option<&Restart>),
    sink: Sink,
) -> io::Result<()> {
    let mut index = Index::default();
    lines.each(transcript, |text, place, transcript| {
        index.entry(&Json::parse_some(text, outline)?, place, transcript);
        Ok(())
    })?;
    if index.offsets.is_empty() {
        return Ok(());
    }
    // If a file contains several sessions, the last is read by default.
    let mut infos = Vec::new();
    for &header in index.session_starts.iter().filter(|_| index.session_starts.len() > 1) {
        let header = Json::parse(lines.again(index.offsets[header as usize])?).unwrap_or_default();
        let (id, directory) = (header.string("id"), header.string("cwd"));
        infos.push(SessionInfo { id, directory, ..SessionInfo::default() });
    }
    let chosen = choose(wanted, &infos).or(infos.len().checked_sub(1));
    let start = |number: usize| index.session_starts.get(number).copied();
    let session = chosen.and_then(start).unwrap_or(0);
    let session_end = chosen.and_then(|number| start(number + 1)).unwrap_or(index.offsets.len() as u32);
    let others = infos.into_iter().enumerate().filter(|(number, _)| Some(*number) != chosen);
    transcript.other_sessions.extend(others.map(|(_, info)| info));
    let leaf = session_end.saturating_sub(1);
    let (tree, repeated, kept) = std::mem::take(&mut index.names).resolve(&index.kept);
    repeated.iter().for_each(|_| transcript.skip("repeated entry"));
    let entries = index.entries();
    let tails = Tails::new(&index, &kept, &entries);
    let all: Vec<u32> = (0..index.offsets.len() as u32).collect();
    let mut path = vec![false; all.len()];
    tree.path(leaf, &all, &mut path, transcript);

    let mut sink = |message| sink(Chain::Main, message);
    let mut log = Assembly::new(&mut sink, MAX_HELD);
    log.resume(from);
    let mut reading = PiReader { log, tails };
    for (place, &offset) in index.offsets.iter().enumerate() {
        let is_other = !(session..session_end).contains(&(place as u32));
        if is_other || !path[place] && index.headers.binary_search(&(place as u32)).is_err() {
            let what = if is_other { "entry of another session" } else { "entry of another branch" };
            transcript.pass(what);
            continue;
        }
        let text = lines.again(offset)?;
        reading.log.record(place, text.len(), place, None);
        reading.log.offer_restart(offset);
        let (before, line) = (reading.log.len(), u64::from(index.lines[place]));
        match Json::parse(text) {
            Ok(entry) => {
                reading.entry(entry, &At::In(&Place { line, offset }), transcript);
                reading.log.settle(&mut transcript.notes);
            }
            Err(error) => transcript.broken_line(line, error_text(&error)),
        }
        if reading.log.len() > before {
            reading.tails.began(entries[place], &reading.log.message(before).info.id);
        }
    }
    transcript.restart = reading.log.restart(transcript.format);
    reading.log.finish();
    Ok(())
}

/// Selects the fields for the tree.
fn outline(_: &[(Cow<str>, Json)], depth: u8, key: &str) -> Take {
    let wanted =
        ["type", "id", "parentId", "timestamp", "firstKeptEntryId", "firstKeptEntryIndex"].contains(&key);
    if depth == 0 && wanted { Take::Whole } else { Take::Skip }
}

/// Data of all entries until the tree is known, by position in the file.
#[derive(Default)]
struct Index {
    hasher: Hasher,
    names: Names,
    offsets: Vec<u64>,
    lines: Vec<u32>,
    headers: Vec<u32>,
    /// Starts of sessions: headers whose id differs from the previous one.
    session_starts: Vec<u32>,
    session_ids: Vec<u64>,
    /// Entries that compactions kept from, by id and by position.
    kept: Vec<u64>,
    kept_places: Vec<u32>,
}

impl Index {
    fn entry(&mut self, entry: &Json, place: Place, transcript: &mut Transcript) {
        transcript.info.note_time(millis(entry.get("timestamp")));
        let is_header = entry.text("type") == Some("session");
        if is_header {
            let place = self.offsets.len() as u32;
            self.headers.push(place);
            let id = entry.text("id").map_or(0, |id| self.hasher.hash(id));
            if self.session_ids.last() != Some(&id) {
                self.session_ids.push(id);
                self.session_starts.push(place);
            }
        }
        let (at, mut field_errors) = (At::In(&place), FieldErrors::default());
        let id = if is_header { None } else { field_errors.name(entry, &at, "id") };
        let parent = match (field_errors.name(entry, &at, "parentId"), entry.get("parentId")) {
            (Some(parent), _) => Parent::Named(self.hasher.hash(parent)),
            (None, Some(Json::Null)) => Parent::Root,
            (None, None) if is_header || id.is_some() => Parent::Root,
            // An invalid parent must not hide all earlier entries.
            (None, _) => Parent::Before,
        };
        field_errors.report(&mut transcript.notes, None);
        self.names.add(id.map(|id| self.hasher.hash(id)), parent);
        self.offsets.push(place.offset);
        self.lines.push(u32::try_from(place.line).unwrap_or(u32::MAX));
        self.kept.extend(entry.text("firstKeptEntryId").map(|id| self.hasher.hash(id)));
        self.kept_places
            .extend(entry.number("firstKeptEntryIndex").and_then(|index| u32::try_from(index).ok()));
    }
}

impl Index {
    /// Returns the number that each entry had when it was written, by which older compactions refer to entries: one per
    /// line, with the header as 0. Lines that cannot be read count, and so does a missing header.
    fn entries(&self) -> Vec<u32> {
        // If the file has no header and no line in its place, entry 1 is on line 1.
        let has_header = self.headers.first() == Some(&0) || self.lines.first().is_some_and(|line| *line > 1);
        let first = u32::from(has_header);
        self.lines.iter().map(|line| line.saturating_sub(first)).collect()
    }
}

/// First messages of the tails of compactions.
struct Tails<'a> {
    hasher: &'a Hasher,
    names: HashMap64<u32>,
    /// Numbers of entries that were kept from, ascending, and the first message from there on.
    kept: Vec<u32>,
    begun: Vec<MessageId>,
}

impl Tails<'_> {
    fn new<'a>(index: &'a Index, places: &[Option<u32>], entries: &[u32]) -> Tails<'a> {
        let named = index.kept.iter().zip(places);
        let named = named.filter_map(|(name, place)| Some((*name, *entries.get((*place)? as usize)?)));
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

    /// Returns the first message of a compaction's tail.
    fn of(&self, compaction: &Json) -> Option<MessageId> {
        let id = compaction.text("firstKeptEntryId").map(|id| self.hasher.hash(id));
        let named = id.and_then(|id| self.names.get(&id).copied());
        let place = named.or_else(|| u32::try_from(compaction.number("firstKeptEntryIndex")?).ok())?;
        self.begun.get(self.kept.binary_search(&place).ok()?).cloned()
    }
}

struct PiReader<'a> {
    log: Assembly<'a>,
    tails: Tails<'a>,
}

impl PiReader<'_> {
    fn entry(&mut self, mut entry: Json, at: &At, transcript: &mut Transcript) {
        let field_errors = &mut self.log.field_errors;
        let time = field_errors.time(&entry, at, "timestamp");
        let info = &mut transcript.info;
        let kind = field_errors.kind(&entry, at, "type", &ENTRIES).map(str::to_owned);
        // The first pass reported invalid ids.
        let id = entry.string("id");
        match kind.as_deref() {
            Some("session") => {
                info.id = field_errors.string(&entry, at, "id");
                info.directory = field_errors.string(&entry, at, "cwd");
                info.model = field_errors.string(&entry, at, "modelId").or(info.model.take());
                self.log.session(info.id.as_deref());
            }
            Some("model_change") => {
                info.model = field_errors.string(&entry, at, "modelId").or(info.model.take());
            }
            Some("session_info") => {
                info.title = field_errors.string(&entry, at, "name").or(info.title.take());
            }
            Some("message") => {
                self.message(id, entry.take("message"), time, &At::Key(at, "message"), transcript);
            }
            Some("compaction") => self.compaction(id, &mut entry, time, at),
            Some("branch_summary") => {
                let text = field_errors.take_words(&mut entry, at, "summary");
                self.add_host_text(id, text, time);
            }
            Some("custom_message") => self.add_host_text(id, flatten(entry.take("content")).0, time),
            Some(kind @ ("thinking_level_change" | "custom" | "label")) => transcript.pass(kind),
            kind => transcript.skip(kind.unwrap_or("entry without type")),
        }
    }

    fn add_host_text(&mut self, id: Option<String>, text: String, time: Option<Millis>) {
        let place = self.log.begin(Role::User, id, time);
        self.log.user_text(place, text, true);
    }

    fn compaction(&mut self, id: Option<String>, entry: &mut Json, time: Option<Millis>, at: &At) {
        let field_errors = &mut self.log.field_errors;
        field_errors.text(entry, at, "firstKeptEntryId");
        field_errors.number(entry, at, "firstKeptEntryIndex");
        let part = CompactionPart {
            tail_start: self.tails.of(entry),
            tokens: field_errors.number(entry, at, "tokensBefore"),
            ..CompactionPart::default()
        };
        let marker = id.as_ref().map(|id| format!("{id}.marker"));
        let text = field_errors.take_words(entry, at, "summary");
        self.log.compaction(Compaction { marker, summary: id, at: time, text, part });
    }

    fn message(
        &mut self,
        id: Option<String>,
        mut message: Json,
        time: Option<Millis>,
        at: &At,
        transcript: &mut Transcript,
    ) {
        let log = &mut self.log;
        if !log.field_errors.is_object(&message, at) {
            return;
        }
        let time = log.field_errors.time(&message, at, "timestamp").or(time);
        let role = log.field_errors.kind(&message, at, "role", &ROLES).map(str::to_owned);
        match role.as_deref() {
            None | Some("user") => {
                let place = log.begin(role.map(|_| Role::User), id, time);
                add_content(log, place, &mut message, at, transcript);
            }
            Some("assistant") => {
                let place = log.begin(Role::Assistant, id, time);
                add_content(log, place, &mut message, at, transcript);
                about(log, place, &message, at);
                transcript.info.model = message.string("model").or(transcript.info.model.take());
            }
            Some("toolResult") => {
                let (text, attachments) = flatten(message.take("content"));
                let is_error = log.field_errors.is(&message, at, "isError");
                let answer = Answer { text, attachments, is_error, at: time, ..Answer::default() };
                let call = log.field_errors.string(&message, at, "toolCallId").unwrap_or_default();
                log.answer_or_keep(&call, answer, |log| log.begin(Role::User, id, time));
            }
            Some("bashExecution") => {
                let [command, output] =
                    ["command", "output"].map(|key| log.field_errors.take_words(&mut message, at, key));
                let hidden = log.field_errors.is(&message, at, "excludeFromContext");
                let place = log.begin(Role::User, id, time);
                let text = format!("Ran `{command}`\n```\n{output}\n```").into();
                let body = TextPart { text, synthetic: None, ignored: hidden.then_some(true) };
                log.part(place, PartBody::Text(body)).set_user_command(&command);
            }
            Some("custom" | "hookMessage" | "branchSummary") => {
                let (content, _) = flatten(message.take("content"));
                let summary = log.field_errors.take_words(&mut message, at, "summary");
                self.add_host_text(id, if content.is_empty() { summary } else { content }, time);
            }
            Some(other) => transcript.skip(format!("message of role {other}")),
        }
    }
}

/// Adds the content of a message to the one at `place`.
fn add_content(log: &mut Assembly, place: usize, message: &mut Json, at: &At, transcript: &mut Transcript) {
    let inside = At::Key(at, "content");
    let content = blocks(message.take("content"), &mut log.field_errors, &inside);
    for (index, block) in content.into_iter().enumerate() {
        block_of(log, place, block, &At::Index(&inside, index), transcript);
    }
}

fn block_of(log: &mut Assembly, place: usize, mut block: Json, at: &At, transcript: &mut Transcript) {
    match log.field_errors.kind(&block, at, "type", &BLOCKS) {
        Some("text") => {
            let text = log.field_errors.take_words(&mut block, at, "text");
            log.text(place, text);
        }
        Some("thinking") => {
            let signature = log.field_errors.text(&block, at, "thinkingSignature");
            let metadata = signature.map(|signature| json!({ "anthropic": { "signature": signature } }));
            let text = log.field_errors.take_words(&mut block, at, "thinking");
            log.reasoning(place, text, metadata);
        }
        Some("toolCall") => {
            let input = block.take("arguments").into_value();
            let id = log.field_errors.text(&block, at, "id");
            let name = log.field_errors.text(&block, at, "name").unwrap_or_default();
            log.call(place, id, name, input);
        }
        kind => match file(&block) {
            Some(file) => log.file(place, file),
            None => transcript.skip(format!("message block {}", kind.unwrap_or("without type"))),
        },
    }
}

/// Sets the model, its usage and the finish reason.
fn about(log: &mut Assembly, place: usize, message: &Json, at: &At) {
    let field_errors = &mut log.field_errors;
    let model = field_errors.string(message, at, "model");
    let reason = field_errors.text(message, at, "stopReason");
    let usage = field_errors
        .object(message, at, "usage")
        .map(|usage| usage_of(usage, field_errors, &At::Key(at, "usage")));
    let info = log.info(place);
    info.model_id = model;
    if let Some((tokens, cost)) = usage {
        (info.tokens, info.cost) = (Some(tokens), cost);
    }
    info.finish = reason.map(|reason| finish(reason).to_owned());
    if matches!(reason, Some("aborted" | "error")) {
        let name = if reason == Some("aborted") { "MessageAbortedError" } else { "APIError" };
        info.error = Some(json!({ "name": name, "data": { "message": message.text("errorMessage") } }));
    }
}

fn usage_of(usage: &Json, field_errors: &mut FieldErrors, at: &At) -> (Usage, Option<Number>) {
    let total = field_errors.number(usage, at, "totalTokens").map(Tokens);
    let cost = field_errors.object(usage, at, "cost");
    let cost = cost.and_then(|cost| field_errors.any_number(cost, &At::Key(at, "cost"), "total"));
    let mut number = |key: &str| Tokens(field_errors.number(usage, at, key).unwrap_or(0));
    let mut tokens = Usage::new(number("input"), number("output"));
    (tokens.cache_read, tokens.cache_write) = (number("cacheRead"), number("cacheWrite"));
    tokens.total = total;
    (tokens, cost)
}
