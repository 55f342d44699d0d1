//! The first reading: how records hang together, and what the file says of sessions and usage.

use std::borrow::Cow;

use plimsoll::log::At;

use super::SYNTHETIC;
use super::kinds::{Kind, count, kind};
use crate::blocks::anthropic_usage;
use crate::hash::{HashMap64, HashSet64, Hasher};
use crate::json::{Json, Take};
use crate::lines::Place;
use crate::misfits::Misfits;
use crate::recorded::Recorded;
use crate::time::millis;
use crate::transcript::{SessionInfo, Transcript};
use crate::tree::{Names, Parent};

/// The fields that tell how records hang together.
pub(super) fn outline(_: &[(Cow<str>, Json)], depth: u8, key: &str) -> Take {
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
                | "requestId"
        ),
        // Of a message, of its blocks and its usage, and of a compaction.
        1 => matches!(key, "id" | "role" | "content" | "preservedSegment" | "model" | "usage"),
        _ => matches!(key, "id" | "tool_use_id" | "headUuid" | "cache_creation") || key.ends_with("_tokens"),
    };
    if wanted { Take::Whole } else { Take::Skip }
}

/// What is kept of all records until the tree is known, by place in the file.
#[derive(Default)]
pub(super) struct Index {
    pub(super) hasher: Hasher,
    pub(super) names: Names,
    pub(super) kinds: Vec<Kind>,
    pub(super) side: Vec<bool>,
    lines: Vec<u32>,
    offsets: Vec<u64>,
    /// The response a record is a piece of; 0 for none.
    responses: Vec<u64>,
    /// Calls made (by the model) or answered (by the user), and where those of each record end.
    calls: Vec<u64>,
    ends: Vec<u32>,
    /// The records that compactions kept from.
    pub(super) heads: HashSet64,
    /// Slash commands whose text the host expands, by the names of their records.
    commands: HashSet64,
    /// Whether a record is the text of such a command.
    expanded: Vec<bool>,
    /// The sessions that records say they belong to, and which of them each record belongs to.
    sessions: Vec<SessionInfo>,
    session_numbers: HashMap64<u32>,
    session_of: Vec<u32>,
    current: u32,
    /// The responses whose usage was noted, by the names of response and request.
    counted: HashMap64<u32>,
    /// The session of each response whose usage was noted.
    counted_for: Vec<u32>,
}

impl Index {
    pub(super) fn record(&mut self, record: &Json, place: Place, transcript: &mut Transcript) {
        let (at, mut misfits) = (At::In(&place), Misfits::default());
        let session = self.session(record, &at, &mut misfits);
        note(record, &at, &mut misfits, &mut self.sessions[session as usize]);
        self.link(record, &at, &mut misfits, place, transcript);
        self.session_of.resize(self.kinds.len(), session);
        misfits.tell(&mut transcript.notes, None);
    }

    /// The number of the session that a record belongs to: where it does not say, the one of the record before.
    fn session(&mut self, record: &Json, at: &At, misfits: &mut Misfits) -> u32 {
        let Some(id) = misfits.text(record, at, "sessionId") else {
            if self.sessions.is_empty() {
                self.sessions.push(SessionInfo::default());
            }
            return self.current;
        };
        let next = match self.sessions.as_slice() {
            // What came before the first name is about the session of that name.
            [only] if only.id.is_none() => 0,
            all => all.len() as u32,
        };
        let number = *self.session_numbers.entry(self.hasher.hash(id)).or_insert(next);
        if number as usize == self.sessions.len() {
            self.sessions.push(SessionInfo::default());
        }
        self.sessions[number as usize].id.get_or_insert_with(|| id.to_owned());
        self.current = number;
        number
    }

    /// The session that a record belongs to, by number.
    pub(super) fn session_of(&self, place: u32) -> u32 {
        self.session_of[place as usize]
    }

    /// What is known of all sessions, by number.
    pub(super) fn sessions(&self) -> &[SessionInfo] {
        &self.sessions
    }

    /// What is known of a session.
    pub(super) fn session_info(&self, number: u32) -> &SessionInfo {
        &self.sessions[number as usize]
    }

    /// The session of a response whose usage was noted.
    pub(super) fn session_of_response(&self, place: usize) -> u32 {
        self.counted_for[place]
    }

    /// How many sessions there are.
    pub(super) fn session_count(&self) -> u32 {
        self.sessions.len() as u32
    }

    /// Note the usage of a response, once however many records it has.
    fn usage(&mut self, record: &Json, message: &Json, recorded: &mut Recorded) {
        let model = message.text("model");
        let Some(usage) = message.get("usage").filter(|_| model != Some(SYNTHETIC)) else { return };
        // The second reading tells of values that are no numbers, for records of the session.
        let usage = anthropic_usage(usage, &mut Misfits::default(), &At::Root);
        let Some(id) = message.text("id") else {
            recorded.add(model, &usage, None);
            return;
        };
        let key = self.hasher.hash(&format!("{id} {}", record.text("requestId").unwrap_or_default()));
        match self.counted.get(&key) {
            Some(place) => recorded.again(*place as usize, &usage),
            None => {
                let place = recorded.add(model, &usage, None).and_then(|place| u32::try_from(place).ok());
                self.counted.extend(place.map(|place| (key, place)));
            }
        }
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
        let content = record.get("message").and_then(|message| message.get("content"));
        let is_expanded = matches!(&parent, Parent::Named(name) if self.commands.contains(name))
            && content.is_some_and(|content| content.as_list().is_some());
        self.expanded.push(is_expanded);
        if let Some(uuid) = uuid.filter(|_| content.and_then(Json::as_str).is_some_and(is_expanding)) {
            self.commands.insert(self.hasher.hash(uuid));
        }
        self.names.add(uuid.map(|uuid| self.hasher.hash(uuid)), parent);
        self.side.push(misfits.is(record, at, "isSidechain"));
        self.lines.push(u32::try_from(place.line).unwrap_or(u32::MAX));
        self.offsets.push(place.offset);
        let kind = kind(record, at, misfits, transcript);
        self.kinds.push(kind);
        let message = record.get("message");
        let response = message.filter(|_| kind == Kind::Assistant).and_then(|message| message.text("id"));
        self.responses.push(response.map_or(0, |id| self.hasher.hash(id)));
        if let Some(message) = message.filter(|_| kind == Kind::Assistant) {
            self.usage(record, message, &mut transcript.recorded);
            self.counted_for.resize(transcript.recorded.len(), self.current);
        }
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

    pub(super) fn kind(&self, place: u32) -> Kind {
        self.kinds[place as usize]
    }

    /// Whether a record holds the text that the host expanded a slash command to.
    pub(super) fn is_expanded(&self, place: u32) -> bool {
        self.expanded[place as usize]
    }

    pub(super) fn place(&self, place: u32) -> Place {
        Place { line: u64::from(self.lines[place as usize]), offset: self.offsets[place as usize] }
    }

    pub(super) fn response(&self, place: u32) -> Option<u64> {
        Some(self.responses[place as usize]).filter(|response| *response != 0)
    }

    pub(super) fn calls(&self, place: u32) -> &[u64] {
        let place = place as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.calls[start as usize..self.ends[place] as usize]
    }
}

/// Whether a text is a slash command that the host expands. Commands that the host runs itself name the command first.
fn is_expanding(text: &str) -> bool {
    text.trim_start().starts_with("<command-message>")
}

/// The first record that a compaction kept word for word.
pub(super) fn kept<'a>(record: &'a Json) -> Option<&'a str> {
    record.get("compactMetadata")?.get("preservedSegment")?.text("headUuid")
}

/// What a record says about its session as a whole.
fn note(record: &Json, at: &At, misfits: &mut Misfits, info: &mut SessionInfo) {
    info.seen(millis(record.get("timestamp")));
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

fn keep(known: &mut Option<String>, said: Option<&str>) {
    if said.is_some() && known.as_deref() != said {
        *known = said.map(str::to_owned);
    }
}

/// Add what a later session of the same conversation says: a resumed one has another id than what it goes on from.
pub(super) fn merge(info: &mut SessionInfo, later: &SessionInfo) {
    info.seen(later.started);
    info.seen(later.updated);
    keep(&mut info.version, later.version.as_deref());
    keep(&mut info.title, later.title.as_deref());
    for (known, said) in [(&mut info.id, &later.id), (&mut info.directory, &later.directory)] {
        if known.is_none() {
            known.clone_from(said);
        }
    }
}
