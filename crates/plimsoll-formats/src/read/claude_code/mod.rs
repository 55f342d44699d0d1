//! Claude Code's JSONL: a tree of records, of which the path to the newest leaf is the session.
//!
//! The path by itself is incomplete. Parallel calls have their results on different branches, so records off the path
//! belong to the session too if they contain a block of a response on it, or the result of a call on it.
//!
//! The file is read in two passes: the first builds the tree from a few numbers per record, and the second reads the
//! records of the session.

mod index;
mod kinds;
mod path;

use std::borrow::Cow;
use std::io::{self, BufRead, Seek};

use plimsoll::log::{At, CompactionPart};
use plimsoll::{Message, MessageId, Millis, Role};
use serde_json::{Value, json};

use self::index::{Index, first_kept, merge, outline};
use self::kinds::{Kind, is_typed, shown};
use self::path::Path;
use super::anthropic::push_assistant;
use super::{Sink, choose};
use crate::assembly::{Assembly, Compaction, MAX_HELD};
use crate::blocks::{UserBlock, anthropic_usage, blocks, finish, flatten, push_user_block, small};
use crate::field_errors::FieldErrors;
use crate::hash::HashMap64;
use crate::json::{Json, Take, error_text};
use crate::lines::Lines;
use crate::restart::Restart;
use crate::transcript::{Chain, Transcript};
use crate::tree::Tree;

/// Model name in text of the host that is written as the model's.
const SYNTHETIC: &str = "<synthetic>";

pub(super) fn read(
    lines: &mut Lines<impl BufRead + Seek>,
    transcript: &mut Transcript,
    (wanted, from): (Option<&str>, Option<&Restart>),
    sink: Sink,
) -> io::Result<()> {
    let mut index = Index::default();
    lines.each(transcript, |text, place, transcript| {
        index.record(&Json::parse_some(text, outline)?, place, transcript);
        Ok(())
    })?;
    let (tree, repeated, _) = std::mem::take(&mut index.names).resolve(&[]);
    // A resumed session repeats records; the later copy counts.
    for place in repeated {
        transcript.pass("repeated record");
        index.kinds[place as usize] = Kind::Link;
    }
    let wanted = choose(wanted, index.sessions()).map(|number| number as u32);
    let marks = vec![false; tree.len()];
    Visit { lines, index: &index, tree: &tree, wanted, from, keys: Vec::new(), marks }.all(transcript, sink)
}

/// Selects the fields of a session's record.
fn whole(_: &[(Cow<str>, Json)], depth: u8, key: &str) -> Take {
    match key {
        "toolUseResult" if depth == 0 => Take::Raw,
        "type" | "uuid" | "timestamp" | "agentId" | "isMeta" | "isApiErrorMessage" | "message" | "origin"
        | "attachment" | "compactMetadata" => Take::Whole,
        _ if depth == 0 => Take::Skip,
        _ => Take::Whole,
    }
}

/// Whether the host reports the end of a background task. Older versions did so in attachments.
fn is_notification(record: &Json) -> bool {
    record.get("origin").and_then(|origin| origin.text("kind")) == Some("task-notification")
}

/// The second pass.
struct Visit<'a, R> {
    lines: &'a mut Lines<R>,
    index: &'a Index,
    tree: &'a Tree,
    /// Number of the requested session; `None` for the newest.
    wanted: Option<u32>,
    /// Restart of an earlier reading of the session. Sub-agents come after the session and are always read in full.
    from: Option<&'a Restart>,
    /// Scratch space for each record, shared by all chains.
    keys: Vec<u32>,
    marks: Vec<bool>,
}

impl<R: BufRead + Seek> Visit<'_, R> {
    /// Separates the session from its sub-agents. A sub-agent's own file only contains a side chain.
    fn all(mut self, transcript: &mut Transcript, sink: Sink) -> io::Result<()> {
        let side = &self.index.side;
        let only_side = side.iter().all(|side| *side);
        let is_side = |place: u32| !only_side && side[place as usize];
        let places = 0..side.len() as u32;
        let main: Vec<u32> = places.clone().filter(|place| !is_side(*place)).collect();
        let mut chains: Vec<(u32, u32)> = Vec::new();
        if main.len() < side.len() {
            let roots = self.tree.roots(is_side);
            chains.extend(places.filter(|place| is_side(*place)).map(|place| (roots[place as usize], place)));
            chains.sort_unstable();
        }
        self.chain(&main, transcript, &mut |message| sink(Chain::Main, message))?;
        for chain in chains.chunk_by(|a, b| a.0 == b.0) {
            let mut child = self.child(chain[0].0, transcript)?;
            let number = transcript.side_chains.len();
            let places: Vec<u32> = chain.iter().map(|(_, place)| *place).collect();
            self.chain(&places, &mut child, &mut |message| sink(Chain::Side(number), message))?;
            child.restart = None;
            transcript.side_chains.push(child);
        }
        Ok(())
    }

    /// Returns the transcript of a sub-agent by its first record.
    fn child(&mut self, root: u32, parent: &Transcript) -> io::Result<Transcript> {
        let mut child = Transcript::new(parent.format);
        let place = self.index.place(root);
        let record = Json::parse_some(self.lines.again(place.offset)?, whole).unwrap_or_default();
        let mut field_errors = FieldErrors::default();
        let agent = field_errors.string(&record, &At::In(&place), "agentId");
        field_errors.report(&mut child.notes, None);
        child.info.id = agent.or_else(|| record.string("uuid"));
        child.info.directory = parent.info.directory.clone();
        child.info.version = parent.info.version.clone();
        Ok(child)
    }

    fn chain(
        &mut self,
        all: &[u32],
        transcript: &mut Transcript,
        sink: &mut dyn FnMut(Message),
    ) -> io::Result<()> {
        let chosen = self.choose(all, transcript);
        self.note_sessions(all, &chosen, transcript);
        let until = self.until(&chosen);
        let mut log = Assembly::new(sink, MAX_HELD);
        log.session(transcript.info.id.as_deref());
        log.resume(self.from.take());
        let mut reading =
            ClaudeCodeReader { log, index: self.index, heads: HashMap64::default(), boundary: None };
        for (position, place) in chosen.into_iter().enumerate() {
            let (kind, is_expanded) = (self.index.kind(place), self.index.is_expanded(place));
            let place = self.index.place(place);
            let text = self.lines.again(place.offset)?;
            reading.log.record(position, text.len(), until[position] as usize, None);
            reading.log.offer_restart(place.offset);
            match Json::parse_some(text, whole) {
                Ok(record) => {
                    reading.record(record, (kind, is_expanded), &At::In(&place), transcript);
                    reading.log.settle(&mut transcript.notes);
                }
                Err(error) => transcript.broken_line(place.line, error_text(&error)),
            }
        }
        if reading.boundary.is_some() {
            transcript.skip("compact_boundary without summary");
        }
        transcript.restart = reading.log.restart(transcript.format);
        reading.log.finish();
        Ok(())
    }

    /// Returns the records of the conversation among `all`, oldest first.
    fn choose(&mut self, all: &[u32], transcript: &mut Transcript) -> Vec<u32> {
        let Visit { index, tree, marks, wanted, .. } = self;
        let mut chosen = Path { index, tree, all, wanted: *wanted, marks }.choose(transcript);
        tree.order(&mut chosen, &mut self.keys);
        chosen
    }

    /// Sets the metadata of the session, and counts the records that do not belong to it.
    fn note_sessions(&self, all: &[u32], chosen: &[u32], transcript: &mut Transcript) {
        let index = self.index;
        let mut is_ours = vec![chosen.is_empty(); index.session_count() as usize];
        chosen.iter().for_each(|place| is_ours[index.session_of(*place) as usize] = true);
        let mut speaks = vec![false; is_ours.len()];
        let mut rest = chosen.to_vec();
        rest.sort_unstable();
        let mut rest = rest.into_iter().peekable();
        for &place in all {
            if rest.next_if_eq(&place).is_some() || index.kind(place) == Kind::Link {
                continue;
            }
            let session = index.session_of(place) as usize;
            speaks[session] = true;
            let what =
                if is_ours[session] { "record of another branch" } else { "record of another session" };
            transcript.pass(what);
        }
        // A sub-agent has its own id, and its parent's session.
        let is_child = transcript.info.id.is_some();
        if !is_child {
            transcript.recorded.retain(|place| is_ours[index.session_of_response(place) as usize]);
        }
        for number in (0..index.session_count()).filter(|_| !is_child) {
            let info = index.session_info(number);
            if is_ours[number as usize] || !speaks[number as usize] && info.id.is_none() {
                merge(&mut transcript.info, info);
            } else if speaks[number as usize] {
                transcript.other_sessions.push(info.clone());
            }
        }
    }

    /// Returns, for each chosen record, the position of the last one of the same response.
    fn until(&self, chosen: &[u32]) -> Vec<u32> {
        let mut last: HashMap64<u32> = HashMap64::default();
        let mut until: Vec<u32> = (0..chosen.len() as u32).collect();
        for (position, place) in chosen.iter().enumerate().rev() {
            if let Some(response) = self.index.response(*place) {
                until[position] = *last.entry(response).or_insert(position as u32);
            }
        }
        until
    }
}

struct ClaudeCodeReader<'a> {
    log: Assembly<'a>,
    index: &'a Index,
    /// Messages that compactions kept from, by their first record.
    heads: HashMap64<MessageId>,
    /// A compaction whose summary has not come yet.
    boundary: Option<(String, CompactionPart)>,
}

/// Fields of all records.
struct RecordHead {
    uuid: String,
    at: Option<Millis>,
}

impl ClaudeCodeReader<'_> {
    fn record(
        &mut self,
        mut record: Json,
        (kind, is_expanded): (Kind, bool),
        at: &At,
        transcript: &mut Transcript,
    ) {
        let before = self.log.len();
        let field_errors = &mut self.log.field_errors;
        let head =
            RecordHead { uuid: record.take_text("uuid"), at: field_errors.time(&record, at, "timestamp") };
        transcript.info.note_time(head.at);
        let inside = At::Key(at, "message");
        let mut message = record.take("message");
        match kind {
            Kind::Link => {}
            Kind::User => {
                let structured = small(record.get("toolUseResult").unwrap_or(&Json::Null));
                let is_host =
                    field_errors.is(&record, at, "isMeta") || is_notification(&record) || is_expanded;
                self.user(&head, message, structured, is_host, &inside, transcript);
            }
            Kind::Attachment => {
                let attachment = record.take("attachment");
                let is_host = !is_typed(&attachment);
                let (text, files) = shown(attachment);
                let place = self.log.begin(Role::User, Some(head.uuid.clone()), head.at);
                self.log.user_text(place, text, is_host);
                files.into_iter().for_each(|file| self.log.file(place, file));
            }
            Kind::Assistant => {
                let error = field_errors.is(&record, at, "isApiErrorMessage");
                self.assistant(&head, message, error, &inside, transcript);
            }
            Kind::Boundary => self.boundary(&head, &record, at),
            Kind::Summary => {
                let (marker, part) = self.boundary.take().unzip();
                let (text, _) = flatten(Json::List(self.content(&mut message, &inside)));
                self.log.compaction(Compaction {
                    marker: marker.or_else(|| Some(format!("{}.marker", head.uuid))),
                    summary: Some(head.uuid.clone()),
                    at: head.at,
                    text,
                    part: part.unwrap_or_default(),
                });
            }
        }
        let uuid = self.index.hasher.hash(&head.uuid);
        if self.log.len() > before && self.index.heads.contains(&uuid) {
            let id = self.log.message(before).info.id.clone();
            self.heads.insert(uuid, id);
        }
    }

    fn boundary(&mut self, head: &RecordHead, record: &Json, at: &At) {
        let field_errors = &mut self.log.field_errors;
        let metadata = field_errors.object(record, at, "compactMetadata").unwrap_or(&Json::Null);
        let inside = At::Key(at, "compactMetadata");
        let tail = first_kept(record).map(|uuid| self.index.hasher.hash(uuid));
        let part = CompactionPart {
            auto: field_errors.text(metadata, &inside, "trigger").map(|trigger| trigger == "auto"),
            tokens: field_errors.number(metadata, &inside, "preTokens"),
            tail_start: tail.and_then(|uuid| self.heads.get(&uuid).cloned()),
            ..CompactionPart::default()
        };
        if let Some(segment) = field_errors.object(metadata, &inside, "preservedSegment") {
            field_errors.text(segment, &At::Key(&inside, "preservedSegment"), "headUuid");
        }
        self.boundary = Some((head.uuid.clone(), part));
    }

    /// Returns the blocks of a message. A message that is not an object is taken as its content.
    fn content<'a>(&mut self, message: &mut Json<'a>, at: &At) -> Vec<Json<'a>> {
        match message {
            Json::Object(_) => {
                blocks(message.take("content"), &mut self.log.field_errors, &At::Key(at, "content"))
            }
            Json::Null => Vec::new(),
            other => {
                let text = self.log.field_errors.as_text(std::mem::take(other), at, "an object");
                blocks(Json::Text(text.into()), &mut self.log.field_errors, at)
            }
        }
    }

    fn user(
        &mut self,
        head: &RecordHead,
        mut message: Json,
        mut structured: Value,
        is_synthetic: bool,
        at: &At,
        transcript: &mut Transcript,
    ) {
        let content = self.content(&mut message, at);
        let inside = At::Key(at, "content");
        let mut place = None;
        let log = &mut self.log;
        let mut here = |log: &mut Assembly| {
            *place.get_or_insert_with(|| log.begin(Role::User, Some(head.uuid.clone()), head.at))
        };
        for (index, block) in content.into_iter().enumerate() {
            let structured = Some(&mut structured);
            let block = UserBlock { block, time: head.at, is_synthetic, structured };
            if let Err(kind) = push_user_block(log, block, &At::Index(&inside, index), &mut here) {
                transcript.skip(format!("user block {kind}"));
            }
        }
    }

    fn assistant(
        &mut self,
        head: &RecordHead,
        mut message: Json,
        error: bool,
        at: &At,
        transcript: &mut Transcript,
    ) {
        let mut content = self.content(&mut message, at);
        let log = &mut self.log;
        let response = log.field_errors.text(&message, at, "id");
        let known = response.and_then(|id| log.response(id));
        let place = known.unwrap_or_else(|| log.begin(Role::Assistant, Some(head.uuid.clone()), head.at));
        if let Some(response) = response {
            log.set_response(response, place);
        }
        log.completed(place, head.at);
        let model = log.field_errors.text(&message, at, "model");
        if let Some(model) = model.filter(|model| *model != SYNTHETIC) {
            log.info(place).model_id = Some(model.to_owned());
            transcript.info.model = Some(model.to_owned());
        }
        let reason = log.field_errors.text(&message, at, "stop_reason");
        if let Some(reason) = reason {
            log.info(place).finish = Some(finish(reason).to_owned());
        }
        // An export of a session with an unknown model also has this name, but with the finish reasons of real answers.
        let is_placeholder =
            model == Some(SYNTHETIC) && !error && !matches!(reason, Some("end_turn" | "tool_use"));
        if !error
            && !is_placeholder
            && let Some(usage) = log.field_errors.object(&message, at, "usage")
        {
            let usage = anthropic_usage(usage, &mut log.field_errors, &At::Key(at, "usage"));
            log.info(place).tokens = Some(usage);
        }
        let inside = At::Key(at, "content");
        if is_placeholder {
            let is_text = |block: &Json| block.text("type") == Some("text");
            for mut block in content.extract_if(.., |block| is_text(block)) {
                log.user_text(place, block.take_text("text"), true);
            }
        }
        push_assistant(log, place, content, &inside, transcript);
        if error {
            let said = log.message(place).text();
            let info = log.info(place);
            info.finish = Some("error".into());
            info.error = Some(json!({ "name": "APIError", "data": { "message": said } }));
        }
    }
}
