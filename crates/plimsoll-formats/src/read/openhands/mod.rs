//! OpenHands' events, as a list, one per line, or as the history in the output of an evaluation.
//!
//! An action is what the agent does, an observation its result. Versions before 1 identify both by what they do
//! (`action: "run"`), later ones by their kind (`kind: "ActionEvent"`).

mod event;
mod named;

use std::collections::HashMap;

use plimsoll::log::{At, CompactionPart};
use plimsoll::{MessageId, Millis, Role};

use super::{Sink, choose};
use crate::assembly::{Assembly, Compaction};
use crate::document::Document;
use crate::error::FormatError;
use crate::field_errors::FieldErrors;
use crate::json::{Json, Take};
use crate::transcript::{Chain, SessionInfo, Transcript};

pub(super) fn read(
    document: &Document,
    transcript: &mut Transcript,
    wanted: Option<&str>,
    sink: Sink,
) -> Result<(), FormatError> {
    let mut sink = |message| sink(Chain::Main, message);
    let mut reading = OpenhandsReader::new(Assembly::new(&mut sink, usize::MAX));
    let list = document.list("history");
    if !document.is_list() {
        let header = document.header(|_, depth, key| match key {
            "history" if depth == 0 => Take::Skip,
            _ => Take::Whole,
        })?;
        if header.get("instance_id").is_some() {
            about(&header, &At::Root, &mut reading.log.field_errors, &mut transcript.info);
            reading.begin(transcript);
            document.each(transcript.format, "history", |position, event| {
                reading.event(event, &At::Index(&list, position), transcript);
                Ok(())
            })?;
        } else {
            // A single event: OpenHands stores each in a separate file.
            reading.event(header, &At::Root, transcript);
        }
        reading.log.finish();
        return Ok(());
    }
    let runs = runs(document, transcript)?;
    let chosen = choose(wanted, &runs).or(runs.len().checked_sub(1));
    let mut run = 0;
    document.each(transcript.format, "", |position, mut record| {
        let at = At::Index(&list, position);
        if record.get("instance_id").is_none() {
            reading.event(record, &at, transcript);
            return Ok(());
        }
        run += 1;
        if Some(run - 1) != chosen {
            let events = record.get("history").and_then(Json::as_list).map_or(0, <[Json]>::len) as u64;
            *transcript.unused.entry("event of another session".into()).or_default() += events;
            return Ok(());
        }
        about(&record, &at, &mut reading.log.field_errors, &mut transcript.info);
        let inside = At::Key(&at, "history");
        let events = reading.log.field_errors.take_list(&mut record, &at, "history");
        reading.begin(transcript);
        for (index, event) in events.into_iter().enumerate() {
            reading.event(event, &At::Index(&inside, index), transcript);
        }
        Ok(())
    })?;
    let others = runs.into_iter().enumerate().filter(|(number, _)| Some(*number) != chosen);
    transcript.other_sessions.extend(others.map(|(_, info)| info));
    reading.log.finish();
    Ok(())
}

/// Returns the runs in the output of an evaluation, one per line.
fn runs(document: &Document, transcript: &Transcript) -> Result<Vec<SessionInfo>, FormatError> {
    let mut runs = Vec::new();
    document.each(transcript.format, "", |_, record| {
        if record.get("instance_id").is_some() {
            runs.push(SessionInfo { id: record.string("instance_id"), ..SessionInfo::default() });
        }
        Ok(())
    })?;
    Ok(runs)
}

/// Reads the metadata of a run in the output of an evaluation.
fn about(record: &Json, at: &At, field_errors: &mut FieldErrors, info: &mut SessionInfo) {
    info.id = field_errors.string(record, at, "instance_id");
    info.title.clone_from(&info.id);
    if let Some(metadata) = field_errors.object(record, at, "metadata") {
        let at = &At::Key(at, "metadata");
        if let Some(config) = field_errors.object(metadata, at, "llm_config") {
            info.model = field_errors.string(config, &At::Key(at, "llm_config"), "model");
        }
    }
}

/// Reads events in order.
struct OpenhandsReader<'s> {
    log: Assembly<'s>,
    /// The current response and its id.
    open: Option<(usize, Option<String>)>,
    /// The message of each event by the event's id, because condensations refer to events.
    messages: HashMap<String, MessageId>,
    position: usize,
}

impl<'s> OpenhandsReader<'s> {
    fn new(log: Assembly<'s>) -> OpenhandsReader<'s> {
        OpenhandsReader { log, open: None, messages: HashMap::new(), position: 0 }
    }

    fn begin(&mut self, transcript: &mut Transcript) {
        self.log.settle(&mut transcript.notes);
        self.log.session(transcript.info.id.as_deref());
    }

    fn event(&mut self, event: Json, at: &At, transcript: &mut Transcript) {
        let open = self.open.as_ref().map(|(place, _)| *place);
        self.log.record(self.position, 0, self.position, open);
        self.position += 1;
        if self.log.field_errors.is_object(&event, at) {
            let time = self.log.field_errors.time(&event, at, "timestamp");
            transcript.info.note_time(time);
            let (before, name) = (self.log.len(), event_name(&event));
            if name.is_none() {
                self.log.field_errors.text(&event, at, "id");
            }
            if event.get("kind").is_some() {
                self.named_event(event, time, at, transcript);
            } else {
                self.plain_event(event, time, at, transcript);
            }
            let place = if self.log.len() > before { Some(before) } else { self.log.len().checked_sub(1) };
            if let (Some(name), Some(place)) = (name, place.filter(|place| self.log.holds(*place))) {
                self.messages.insert(name, self.log.message(place).info.id.clone());
            }
        }
        self.log.settle(&mut transcript.notes);
    }

    /// Returns the message for the model's content: calls of one response share its id.
    fn response(&mut self, id: Option<String>, time: Option<Millis>) -> usize {
        let same =
            self.open.take().filter(|(place, known)| id.is_some() && *known == id && self.log.holds(*place));
        let place = same.map_or_else(|| self.log.begin(Role::Assistant, None, time), |(place, _)| place);
        self.open = Some((place, id));
        place
    }

    fn user_said(&mut self, text: String, synthetic: bool, time: Option<Millis>) -> usize {
        self.open = None;
        let place = self.log.begin(Role::User, None, time);
        self.log.user_text(place, text, synthetic);
        place
    }

    /// Adds a condensation: events are removed and replaced by a summary. The tail is what follows the last of them.
    /// OpenHands also keeps the first few events, which are in the log but not in the window.
    fn condense(&mut self, forgotten: Option<String>, text: String, time: Option<Millis>) {
        self.open = None;
        let last = forgotten.and_then(|event| self.messages.get(&event).cloned());
        let tail_start = last.and_then(|last| {
            let mut behind = self.messages.values().filter(|id| **id > last).collect::<Vec<_>>();
            behind.sort();
            behind.first().map(|id| (*id).clone())
        });
        let text = if text.is_empty() { "[The condensed events have no summary]".to_owned() } else { text };
        let part = CompactionPart { tail_start, ..CompactionPart::default() };
        self.log.compaction(Compaction { marker: None, summary: None, at: time, text, part });
    }
}

/// Returns the id of an event, which is a number in older versions.
fn event_name(event: &Json) -> Option<String> {
    event.string("id").or_else(|| event.number("id").map(|id| id.to_string()))
}
