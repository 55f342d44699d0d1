//! Claude Code's JSONL: a tree of records, of which the path to the newest leaf is the session.
//!
//! The path alone is not enough. Calls made in parallel hang their results on different branches, so records off
//! the path belong to the session too if they carry a block of a response on it, or the result of a call on it.
//!
//! The file is read twice: first for how its records hang together, which takes a few numbers for each, then for
//! what stands in those that make up the session.

use std::borrow::Cow;
use std::io::{self, BufRead, Seek};

use plimsoll::log::{At, CompactionPart, FilePart};
use plimsoll::{Message, MessageId, Millis, Role, Text};
use serde_json::{Value, json};

use super::Sink;
use crate::assembly::{Assembly, Compaction, MOST_HELD};
use crate::blocks::{SHAPES, anthropic_usage, blocks, file, finish, flatten, small, spoken, tool_result};
use crate::hash::{HashMap64, HashSet64, Hasher};
use crate::json::{Json, Take, told};
use crate::lines::{Lines, Place};
use crate::misfits::Misfits;
use crate::time::millis;
use crate::transcript::{Chain, Transcript};
use crate::tree::{Names, Parent, Tree};

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

/// Kinds of system records, which are for people; a compaction's is read.
const SYSTEM: [&str; 20] = [
    "agents_killed",
    "api_error",
    "api_metrics",
    "away_summary",
    "bridge_status",
    "file_snapshot",
    "hook_error",
    "hook_response",
    "hook_started",
    "informational",
    "init",
    "local_command",
    "memory_saved",
    "microcompact_boundary",
    "permission_retry",
    "scheduled_task_fire",
    "status",
    "stop_hook_summary",
    "thinking",
    "turn_duration",
];
/// Kinds of attachments that are shown to the model.
const SHOWN: [&str; 22] = [
    "agent_listing_delta",
    "async_hook_response",
    "compact_file_reference",
    "critical_system_reminder",
    "deferred_tools_delta",
    "directory",
    "edited_text_file",
    "file",
    "hook_additional_context",
    "hook_blocking_error",
    "invoked_skills",
    "mcp_instructions_delta",
    "mcp_resource",
    "nested_memory",
    "opened_file_in_ide",
    "plan_file_reference",
    "queued_command",
    "relevant_memories",
    "selected_lines_in_ide",
    "skill_listing",
    "task_reminder",
    "todo_reminder",
];
/// Kinds of attachments that are not.
const HIDDEN: [&str; 10] = [
    "already_read_file",
    "command_permissions",
    "dynamic_skill",
    "hook_cancelled",
    "hook_error_during_execution",
    "hook_non_blocking_error",
    "hook_permission_decision",
    "hook_success",
    "hook_system_message",
    "structured_output",
];

pub(super) fn read(
    lines: &mut Lines<impl BufRead + Seek>,
    transcript: &mut Transcript,
    sink: Sink,
) -> io::Result<()> {
    let mut index = Index::default();
    lines.each(transcript, |text, place, transcript| {
        index.record(&Json::parse_some(text, outline)?, place, transcript);
        Ok(())
    })?;
    let (tree, repeated, _) = std::mem::take(&mut index.names).resolve(&[]);
    // A resumed session repeats records; the later copy stands.
    for place in repeated {
        transcript.pass("repeated record");
        index.kinds[place as usize] = Kind::Link;
    }
    Visit { lines, index: &index, tree: &tree, keys: Vec::new(), marks: vec![false; tree.len()] }
        .all(transcript, sink)
}

/// The fields that tell how records hang together.
fn outline(_: &[(Cow<str>, Json)], depth: u8, key: &str) -> Take {
    if depth == 0 && key == "attachment" {
        return Take::Raw;
    }
    let wanted = match depth {
        0 => matches!(
            key,
            "type"
                | "subtype"
                | "uuid"
                | "parentUuid"
                | "logicalParentUuid"
                | "timestamp"
                | "sessionId"
                | "cwd"
                | "version"
                | "isSidechain"
                | "isCompactSummary"
                | "message"
                | "compactMetadata"
                | "aiTitle"
                | "customTitle"
                | "summary"
        ),
        // Of a message, of its blocks, and of a compaction.
        1 => matches!(key, "id" | "role" | "content" | "preservedSegment"),
        _ => matches!(key, "id" | "tool_use_id" | "headUuid"),
    };
    if wanted { Take::Whole } else { Take::Skip }
}

/// The fields that are read of a record of the session.
fn whole(_: &[(Cow<str>, Json)], depth: u8, key: &str) -> Take {
    match key {
        "toolUseResult" if depth == 0 => Take::Raw,
        "type" | "uuid" | "timestamp" | "agentId" | "isMeta" | "isApiErrorMessage" | "message"
        | "attachment" | "compactMetadata" => Take::Whole,
        _ if depth == 0 => Take::Skip,
        _ => Take::Whole,
    }
}

/// What a record is to the conversation.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    User,
    /// What the host shows the model.
    Attachment,
    Summary,
    Assistant,
    Boundary,
    /// Only a link between others.
    Link,
}

/// What is kept of all records until the tree is known, by place in the file.
#[derive(Default)]
struct Index {
    hasher: Hasher,
    names: Names,
    kinds: Vec<Kind>,
    side: Vec<bool>,
    lines: Vec<u32>,
    offsets: Vec<u64>,
    /// The response a record is a piece of; 0 for none.
    responses: Vec<u64>,
    /// Calls made (by the model) or answered (by the user), and where those of each record end.
    calls: Vec<u64>,
    ends: Vec<u32>,
    /// The records that compactions kept from.
    heads: HashSet64,
}

impl Index {
    fn record(&mut self, record: &Json, place: Place, transcript: &mut Transcript) {
        let (at, mut misfits) = (At::In(&place), Misfits::default());
        note(record, &at, &mut misfits, transcript);
        self.link(record, &at, &mut misfits, place, transcript);
        misfits.tell(&mut transcript.notes, None);
    }

    fn link(
        &mut self,
        record: &Json,
        at: &At,
        misfits: &mut Misfits,
        place: Place,
        transcript: &mut Transcript,
    ) {
        let uuid = misfits.name(record, at, "uuid");
        let speaks = record.get("message").is_some_and(Json::is_object);
        if uuid.is_none() && !speaks {
            count(record, transcript);
            return;
        }
        let parent = misfits.name(record, at, "parentUuid");
        let parent = parent.or_else(|| misfits.name(record, at, "logicalParentUuid"));
        // A parent that cannot be read is no reason to lose all that was said before, nor is a missing name.
        let is_absent = |key: &str| matches!(record.get(key), None | Some(Json::Null));
        let is_root = uuid.is_some() && is_absent("parentUuid") && is_absent("logicalParentUuid");
        let parent = match parent {
            Some(parent) => Parent::Named(self.hasher.hash(parent)),
            None if is_root => Parent::Root,
            None => Parent::Before,
        };
        self.names.add(uuid.map(|uuid| self.hasher.hash(uuid)), parent);
        self.side.push(misfits.is(record, at, "isSidechain"));
        self.lines.push(u32::try_from(place.line).unwrap_or(u32::MAX));
        self.offsets.push(place.offset);
        let kind = kind(record, at, misfits, transcript);
        self.kinds.push(kind);
        let message = record.get("message");
        let response = message.filter(|_| kind == Kind::Assistant).and_then(|message| message.text("id"));
        self.responses.push(response.map_or(0, |id| self.hasher.hash(id)));
        let blocks = message.and_then(|message| message.get("content")).and_then(Json::as_list);
        let key = match kind {
            Kind::Assistant => "id",
            Kind::User => "tool_use_id",
            _ => "",
        };
        let calls = blocks.unwrap_or_default().iter().filter_map(|block| block.text(key));
        self.calls.extend(calls.map(|call| self.hasher.hash(call)));
        self.ends.push(self.calls.len() as u32);
        if kind == Kind::Boundary
            && let Some(head) = kept(record)
        {
            self.heads.insert(self.hasher.hash(head));
        }
    }

    fn kind(&self, place: u32) -> Kind {
        self.kinds[place as usize]
    }

    fn place(&self, place: u32) -> Place {
        Place { line: u64::from(self.lines[place as usize]), offset: self.offsets[place as usize] }
    }

    fn response(&self, place: u32) -> Option<u64> {
        Some(self.responses[place as usize]).filter(|response| *response != 0)
    }

    fn calls(&self, place: u32) -> &[u64] {
        let place = place as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.calls[start as usize..self.ends[place] as usize]
    }
}

/// The first record that a compaction kept word for word.
fn kept<'a>(record: &'a Json) -> Option<&'a str> {
    record.get("compactMetadata")?.get("preservedSegment")?.text("headUuid")
}

/// What a record says about the session as a whole.
fn note(record: &Json, at: &At, misfits: &mut Misfits, transcript: &mut Transcript) {
    fn keep(known: &mut Option<String>, said: Option<&str>) {
        if said.is_some() && known.as_deref() != said {
            *known = said.map(str::to_owned);
        }
    }
    let info = &mut transcript.info;
    info.seen(millis(record.get("timestamp")));
    let session = misfits.text(record, at, "sessionId");
    if info.id.is_none() {
        info.id = session.map(str::to_owned);
    }
    let directory = misfits.text(record, at, "cwd");
    if info.directory.is_none() {
        info.directory = directory.map(str::to_owned);
    }
    keep(&mut info.version, misfits.text(record, at, "version"));
    let title = match record.text("type") {
        Some("ai-title") => misfits.text(record, at, "aiTitle"),
        Some("custom-title") => misfits.text(record, at, "customTitle"),
        Some("summary") => misfits.text(record, at, "summary"),
        _ => None,
    };
    keep(&mut info.title, title);
}

fn count(record: &Json, transcript: &mut Transcript) {
    match record.text("type") {
        Some("ai-title") => {}
        Some(kind) if UNUSED.contains(&kind) => transcript.pass(kind),
        Some(kind @ ("user" | "assistant" | "system")) => transcript.skip(format!("{kind} without uuid")),
        kind => transcript.skip(kind.unwrap_or("record without type")),
    }
}

fn kind(record: &Json, at: &At, misfits: &mut Misfits, transcript: &mut Transcript) -> Kind {
    // A record that does not say what it is may say who speaks in it.
    let shapes: &[_] = match record.get("message").and_then(|message| message.text("role")) {
        Some("user") => &[("message", "user")],
        Some("assistant") => &[("message", "assistant")],
        _ => &[],
    };
    match misfits.kind(record, at, "type", shapes) {
        Some("user") if misfits.is(record, at, "isCompactSummary") => Kind::Summary,
        Some("user") => Kind::User,
        Some("assistant") => Kind::Assistant,
        Some("system") => match record.text("subtype") {
            Some("compact_boundary") => Kind::Boundary,
            subtype => {
                let kind = format!("system/{}", subtype.unwrap_or_default());
                // The oldest versions had no subtypes.
                let known = subtype.is_none_or(|subtype| SYSTEM.contains(&subtype));
                if known {
                    transcript.pass(kind);
                } else {
                    transcript.skip(kind);
                }
                Kind::Link
            }
        },
        Some("attachment") => attachment(record, transcript),
        _ => {
            count(record, transcript);
            Kind::Link
        }
    }
}

fn attachment(record: &Json, transcript: &mut Transcript) -> Kind {
    let attachment = match record.get("attachment") {
        Some(Json::Raw(raw)) => Json::parse(raw).unwrap_or_default(),
        _ => Json::Null,
    };
    let kind = attachment.string("type").unwrap_or_default();
    let is_shown = SHOWN.contains(&kind.as_str()) || is_context(&attachment);
    let is_known = is_shown || HIDDEN.contains(&kind.as_str());
    let (text, files) = shown(attachment);
    match text.trim().is_empty() && files.is_empty() {
        false if is_shown => return Kind::Attachment,
        false if !is_known => transcript.skip(format!("attachment/{kind}")),
        _ => transcript.pass("attachment"),
    }
    Kind::Link
}

/// Whether it is the output of a hook of the two kinds whose output the model is shown.
fn is_context(attachment: &Json) -> bool {
    attachment.text("type") == Some("hook_success")
        && matches!(attachment.text("hookEvent"), Some("SessionStart" | "UserPromptSubmit"))
}

/// The text of an attachment and the images in it, wherever its kind puts them.
fn shown(mut attachment: Json) -> (String, Vec<FilePart>) {
    const TEXTS: [&str; 10] = [
        "content",
        "prompt",
        "snippet",
        "addedBlocks",
        "addedLines",
        "addedNames",
        "planContent",
        "skills",
        "memories",
        "blockingError",
    ];
    let name = attachment.string("filename").or_else(|| attachment.string("path"));
    let has_lines = ["addedBlocks", "addedLines"].iter().any(|key| attachment.get(key).is_some());
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for key in TEXTS {
        // The blocks and lines name them.
        if key == "addedNames" && has_lines {
            continue;
        }
        let mut content = attachment.take(key);
        if content.get("file").is_some() {
            content = content.take("file");
        }
        if let Some(data) = content.text("base64") {
            let mime = content.text("type").unwrap_or("application/octet-stream");
            let url = Some(Text::from(format!("data:{mime};base64,{data}")));
            files.push(FilePart { mime: Some(mime.to_owned()), filename: name.clone(), url });
            continue;
        }
        if content.get("blockingError").is_some() {
            content = content.take("blockingError");
        }
        if let Json::List(items) = &mut content {
            let images: Vec<FilePart> = items.iter().filter_map(file).collect();
            items.retain(|item| file(item).is_none());
            files.extend(images);
        }
        let (text, _) = flatten(content);
        if !text.trim().is_empty() {
            texts.push(text);
        }
    }
    if let Some(name) = name.filter(|_| !texts.is_empty()) {
        texts.insert(0, format!("{name}:"));
    }
    (texts.join("\n"), files)
}

/// The second reading.
struct Visit<'a, R> {
    lines: &'a mut Lines<R>,
    index: &'a Index,
    tree: &'a Tree,
    /// Room for each record, used again for each chain.
    keys: Vec<u32>,
    marks: Vec<bool>,
}

impl<R: BufRead + Seek> Visit<'_, R> {
    /// Tell the session from its sub-agents. A sub-agent's own file consists of nothing but side chain.
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
            transcript.side_chains.push(child);
        }
        Ok(())
    }

    /// The transcript of the sub-agent whose first record this is.
    fn child(&mut self, root: u32, parent: &Transcript) -> io::Result<Transcript> {
        let mut child = Transcript::new(parent.format);
        let place = self.index.place(root);
        let record = Json::parse_some(self.lines.again(place.offset)?, whole).unwrap_or_default();
        let mut misfits = Misfits::default();
        let agent = misfits.string(&record, &At::In(&place), "agentId");
        misfits.tell(&mut child.notes, None);
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
        let until = self.until(&chosen);
        let mut log = Assembly::new(sink, MOST_HELD);
        log.session(transcript.info.id.as_deref());
        let mut reading = Reading { log, index: self.index, heads: HashMap64::default(), boundary: None };
        for (position, place) in chosen.into_iter().enumerate() {
            let (kind, place) = (self.index.kind(place), self.index.place(place));
            let text = self.lines.again(place.offset)?;
            reading.log.record(position, text.len(), until[position] as usize, None);
            match Json::parse_some(text, whole) {
                Ok(record) => {
                    reading.record(record, kind, &At::In(&place), transcript);
                    reading.log.settle(&mut transcript.notes);
                }
                Err(error) => transcript.broken_line(place.line, told(&error)),
            }
        }
        if reading.boundary.is_some() {
            transcript.skip("compact_boundary without summary");
        }
        reading.log.finish();
        Ok(())
    }

    /// Which of `all` make up the conversation, oldest first.
    fn choose(&mut self, all: &[u32], transcript: &mut Transcript) -> Vec<u32> {
        let Visit { index, tree, marks, .. } = self;
        let speaks = |place: &&u32| index.kind(**place) != Kind::Link;
        let said = |place: &&u32| speaks(place) && index.kind(**place) != Kind::Attachment;
        let Some(&newest) = all.iter().rev().find(said).or_else(|| all.iter().rev().find(speaks)) else {
            return Vec::new();
        };
        // An attachment makes no branch the newest, but may be the last record of that one.
        let mut leaf = newest;
        let behind = &all[all.partition_point(|place| *place <= newest)..];
        marks[newest as usize] = true;
        for &place in behind {
            marks[place as usize] = tree.parent(place).is_some_and(|parent| marks[parent as usize]);
            if marks[place as usize] && index.kind(place) == Kind::Attachment {
                leaf = place;
            }
        }
        behind.iter().chain([&newest]).for_each(|place| marks[*place as usize] = false);
        tree.path(leaf, all, marks, transcript);
        let marked = |marks: &[bool], place: &&u32| marks[**place as usize];
        let path = all.iter().filter(|place| marked(marks, place));
        let responses: HashSet64 = path.filter_map(|place| index.response(*place)).collect();
        for &place in all {
            marks[place as usize] |= index.response(place).is_some_and(|id| responses.contains(&id));
        }
        let is_user = |place: u32| index.kind(place) == Kind::User;
        let mut open = HashSet64::default();
        for &place in all.iter().filter(|place| marked(marks, place) && !is_user(**place)) {
            open.extend(index.calls(place));
        }
        for &place in all.iter().filter(|place| marked(marks, place) && is_user(**place)) {
            for call in index.calls(place) {
                open.remove(call);
            }
        }
        for &place in all.iter().filter(|place| is_user(**place)) {
            if !marks[place as usize] && index.calls(place).iter().any(|call| open.remove(call)) {
                marks[place as usize] = true;
            }
        }
        let mut chosen: Vec<u32> = Vec::new();
        for &place in all {
            if std::mem::take(&mut marks[place as usize]) {
                chosen.push(place);
            } else if index.kind(place) != Kind::Link {
                transcript.pass("record of another branch");
            }
        }
        tree.order(&mut chosen, &mut self.keys);
        chosen
    }

    /// For each of the chosen, the position of the last one that is a piece of the same response.
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

struct Reading<'a> {
    log: Assembly<'a>,
    index: &'a Index,
    /// The messages that compactions kept from, by the record they began with.
    heads: HashMap64<MessageId>,
    /// A compaction whose summary is still to come.
    boundary: Option<(String, CompactionPart)>,
}

/// What all records have.
struct Head {
    uuid: String,
    at: Option<Millis>,
}

impl Reading<'_> {
    fn record(&mut self, mut record: Json, kind: Kind, at: &At, transcript: &mut Transcript) {
        let before = self.log.len();
        let misfits = &mut self.log.misfits;
        let head = Head { uuid: record.take_text("uuid"), at: misfits.time(&record, at, "timestamp") };
        transcript.info.seen(head.at);
        let inside = At::Key(at, "message");
        let mut message = record.take("message");
        match kind {
            Kind::Link => {}
            Kind::User => {
                let structured = small(record.get("toolUseResult").unwrap_or(&Json::Null));
                let meta = misfits.is(&record, at, "isMeta");
                self.user(&head, message, structured, meta, &inside, transcript);
            }
            Kind::Attachment => {
                let (text, files) = shown(record.take("attachment"));
                let place = self.log.begin(Role::User, Some(head.uuid.clone()), head.at);
                self.log.said(place, text, true);
                files.into_iter().for_each(|file| self.log.file(place, file));
            }
            Kind::Assistant => {
                let error = misfits.is(&record, at, "isApiErrorMessage");
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

    fn boundary(&mut self, head: &Head, record: &Json, at: &At) {
        let misfits = &mut self.log.misfits;
        let metadata = misfits.object(record, at, "compactMetadata").unwrap_or(&Json::Null);
        let inside = At::Key(at, "compactMetadata");
        let tail = kept(record).map(|uuid| self.index.hasher.hash(uuid));
        let part = CompactionPart {
            auto: misfits.text(metadata, &inside, "trigger").map(|trigger| trigger == "auto"),
            tokens: misfits.number(metadata, &inside, "preTokens"),
            tail_start: tail.and_then(|uuid| self.heads.get(&uuid).cloned()),
            ..CompactionPart::default()
        };
        if let Some(segment) = misfits.object(metadata, &inside, "preservedSegment") {
            misfits.text(segment, &At::Key(&inside, "preservedSegment"), "headUuid");
        }
        self.boundary = Some((head.uuid.clone(), part));
    }

    /// The blocks of a message. One that is no object is taken for its content.
    fn content<'a>(&mut self, message: &mut Json<'a>, at: &At) -> Vec<Json<'a>> {
        match message {
            Json::Object(_) => {
                blocks(message.take("content"), &mut self.log.misfits, &At::Key(at, "content"))
            }
            Json::Null => Vec::new(),
            other => {
                let text = self.log.misfits.as_text(std::mem::take(other), at, "an object");
                blocks(Json::Text(text.into()), &mut self.log.misfits, at)
            }
        }
    }

    fn user(
        &mut self,
        head: &Head,
        mut message: Json,
        mut structured: Value,
        meta: bool,
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
        for (index, mut block) in content.into_iter().enumerate() {
            let at = &At::Index(&inside, index);
            match log.misfits.kind(&block, at, "type", &SHAPES) {
                Some("tool_result") => {
                    let (call, answer) = tool_result(block, head.at, structured.take(), &mut log.misfits, at);
                    log.answer_or_keep(&call, answer, &mut here);
                }
                Some("text") => {
                    let place = here(log);
                    let text = log.misfits.take_words(&mut block, at, "text");
                    log.said(place, text, meta);
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
    }

    fn assistant(
        &mut self,
        head: &Head,
        mut message: Json,
        error: bool,
        at: &At,
        transcript: &mut Transcript,
    ) {
        let content = self.content(&mut message, at);
        let log = &mut self.log;
        let response = log.misfits.text(&message, at, "id");
        let known = response.and_then(|id| log.response(id));
        let place = known.unwrap_or_else(|| log.begin(Role::Assistant, Some(head.uuid.clone()), head.at));
        if let Some(response) = response {
            log.set_response(response, place);
        }
        log.completed(place, head.at);
        let model = log.misfits.text(&message, at, "model");
        // What the host says in the model's name has a model of this name.
        if let Some(model) = model.filter(|model| *model != "<synthetic>") {
            log.info(place).model_id = Some(model.to_owned());
            transcript.info.model = Some(model.to_owned());
        }
        if let Some(reason) = log.misfits.text(&message, at, "stop_reason") {
            log.info(place).finish = Some(finish(reason).to_owned());
        }
        if !error && let Some(usage) = log.misfits.object(&message, at, "usage") {
            let usage = anthropic_usage(usage, &mut log.misfits, &At::Key(at, "usage"));
            log.info(place).tokens = Some(usage);
        }
        let inside = At::Key(at, "content");
        for (index, block) in content.into_iter().enumerate() {
            if let Err(kind) = spoken(log, place, block, &At::Index(&inside, index)) {
                transcript.skip(format!("assistant block {kind}"));
            }
        }
        if error {
            let said = log.message(place).text();
            let info = log.info(place);
            info.finish = Some("error".into());
            info.error = Some(json!({ "name": "APIError", "data": { "message": said } }));
        }
    }
}
