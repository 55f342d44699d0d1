//! First pass: the tree of records, and the metadata of sessions and usage.

use std::borrow::Cow;

use plimsoll::log::At;

use super::SYNTHETIC;
use super::kinds::{Kind, count, kind};
use crate::blocks::anthropic_usage;
use crate::field_errors::FieldErrors;
use crate::hash::{HashMap64, HashSet64, Hasher};
use crate::json::{Json, Take};
use crate::lines::Place;
use crate::recorded::Recorded;
use crate::time::millis;
use crate::transcript::{SessionInfo, Transcript};
use crate::tree::{Names, Parent};

/// Selects the fields for the tree.
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
        // Of a message, its blocks, its usage, and a compaction.
        1 => matches!(key, "id" | "role" | "content" | "preservedSegment" | "model" | "usage"),
        _ => matches!(key, "id" | "tool_use_id" | "headUuid" | "cache_creation") || key.ends_with("_tokens"),
    };
    if wanted { Take::Whole } else { Take::Skip }
}

/// Data of all records until the tree is known, by position in the file.
#[derive(Default)]
pub(super) struct Index {
    pub(super) hasher: Hasher,
    pub(super) names: Names,
    pub(super) kinds: Vec<Kind>,
    pub(super) side: Vec<bool>,
    lines: Vec<u32>,
    offsets: Vec<u64>,
    /// The response of each record; 0 for none.
    responses: Vec<u64>,
    /// Calls (of the model) or answered calls (of the user), and where those of each record end.
    calls: Vec<u64>,
    ends: Vec<u32>,
    /// First records that compactions kept verbatim.
    pub(super) heads: HashSet64,
    /// Slash commands whose text the host expands, by record.
    commands: HashSet64,
    /// Whether a record is the text of such a command.
    expanded: Vec<bool>,
    /// All sessions in the file, and the session of each record.
    sessions: Vec<SessionInfo>,
    session_numbers: HashMap64<u32>,
    session_of: Vec<u32>,
    current: u32,
    /// Responses whose usage was recorded, by the ids of response and request.
    counted: HashMap64<u32>,
    /// Session of each response whose usage was recorded.
    counted_for: Vec<u32>,
}

impl Index {
    pub(super) fn record(&mut self, record: &Json, place: Place, transcript: &mut Transcript) {
        let (at, mut field_errors) = (At::In(&place), FieldErrors::default());
        let session = self.session(record, &at, &mut field_errors);
        note(record, &at, &mut field_errors, &mut self.sessions[session as usize]);
        self.link(record, &at, &mut field_errors, place, transcript);
        self.session_of.resize(self.kinds.len(), session);
        field_errors.report(&mut transcript.notes, None);
    }

    /// Returns the number of a record's session; that of the previous record if it has none.
    fn session(&mut self, record: &Json, at: &At, field_errors: &mut FieldErrors) -> u32 {
        let Some(id) = field_errors.text(record, at, "sessionId") else {
            if self.sessions.is_empty() {
                self.sessions.push(SessionInfo::default());
            }
            return self.current;
        };
        let next = match self.sessions.as_slice() {
            // Records before the first session id belong to that session.
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

    /// Returns the number of a record's session.
    pub(super) fn session_of(&self, place: u32) -> u32 {
        self.session_of[place as usize]
    }

    /// Returns the metadata of all sessions.
    pub(super) fn sessions(&self) -> &[SessionInfo] {
        &self.sessions
    }

    /// Returns the metadata of a session.
    pub(super) fn session_info(&self, number: u32) -> &SessionInfo {
        &self.sessions[number as usize]
    }

    /// Returns the session of a response whose usage was recorded.
    pub(super) fn session_of_response(&self, place: usize) -> u32 {
        self.counted_for[place]
    }

    /// Returns the number of sessions.
    pub(super) fn session_count(&self) -> u32 {
        self.sessions.len() as u32
    }

    /// Records the usage of a response, once for all of its records.
    fn usage(&mut self, record: &Json, message: &Json, recorded: &mut Recorded) {
        let model = message.text("model");
        let Some(usage) = message.get("usage").filter(|_| model != Some(SYNTHETIC)) else { return };
        // The second pass reports invalid numbers, for records of the session.
        let usage = anthropic_usage(usage, &mut FieldErrors::default(), &At::Root);
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
        field_errors: &mut FieldErrors,
        place: Place,
        transcript: &mut Transcript,
    ) {
        let uuid = field_errors.name(record, at, "uuid");
        let speaks = record.get("message").is_some_and(Json::is_object);
        if uuid.is_none() && !speaks {
            count(record, transcript);
            return;
        }
        let parent = field_errors.name(record, at, "parentUuid");
        let parent = parent.or_else(|| field_errors.name(record, at, "logicalParentUuid"));
        // An invalid parent or a missing id must not hide all earlier records.
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
        self.side.push(field_errors.is(record, at, "isSidechain"));
        self.lines.push(u32::try_from(place.line).unwrap_or(u32::MAX));
        self.offsets.push(place.offset);
        let kind = kind(record, at, field_errors, transcript);
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
            && let Some(head) = first_kept(record)
        {
            self.heads.insert(self.hasher.hash(head));
        }
    }

    pub(super) fn kind(&self, place: u32) -> Kind {
        self.kinds[place as usize]
    }

    /// Whether a record contains the expansion of a slash command.
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

/// Whether a text is a slash command that the host expands. In commands that the host runs itself, the command's name
/// comes first.
fn is_expanding(text: &str) -> bool {
    text.trim_start().starts_with("<command-message>")
}

/// Returns the first record that a compaction kept verbatim.
pub(super) fn first_kept<'a>(record: &'a Json) -> Option<&'a str> {
    record.get("compactMetadata")?.get("preservedSegment")?.text("headUuid")
}

/// Reads a record's metadata of the session.
fn note(record: &Json, at: &At, field_errors: &mut FieldErrors, info: &mut SessionInfo) {
    info.note_time(millis(record.get("timestamp")));
    let directory = field_errors.text(record, at, "cwd");
    if info.directory.is_none() {
        info.directory = directory.map(str::to_owned);
    }
    keep(&mut info.version, field_errors.text(record, at, "version"));
    let title = match record.text("type") {
        Some("ai-title") => field_errors.text(record, at, "aiTitle"),
        Some("custom-title") => field_errors.text(record, at, "customTitle"),
        Some("summary") => field_errors.text(record, at, "summary"),
        _ => None,
    };
    keep(&mut info.title, title);
}

fn keep(known: &mut Option<String>, said: Option<&str>) {
    if said.is_some() && known.as_deref() != said {
        *known = said.map(str::to_owned);
    }
}

/// Merges the metadata of a later session of the same conversation: a resumed one has a new id.
pub(super) fn merge(info: &mut SessionInfo, later: &SessionInfo) {
    info.note_time(later.started);
    info.note_time(later.updated);
    keep(&mut info.version, later.version.as_deref());
    keep(&mut info.title, later.title.as_deref());
    for (known, said) in [(&mut info.id, &later.id), (&mut info.directory, &later.directory)] {
        if known.is_none() {
            known.clone_from(said);
        }
    }
}
