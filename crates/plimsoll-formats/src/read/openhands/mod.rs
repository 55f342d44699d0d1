//! OpenHands' events, as a list, a line each, or as the history in the output of an evaluation.
//!
//! What the agent does is an action, what comes of it an observation. Versions before 1 name both by what they do
//! (`action: "run"`), later ones by their kind (`kind: "ActionEvent"`); each event tells which it is.

mod event;
mod named;

use std::collections::HashMap;

use plimsoll::log::{At, CompactionPart};
use plimsoll::{MessageId, Millis, Role};

use super::{Sink, choose};
use crate::assembly::{Assembly, Compaction};
use crate::document::Document;
use crate::error::FormatError;
use crate::json::{Json, Take};
use crate::misfits::Misfits;
use crate::transcript::{Chain, SessionInfo, Transcript};

pub(super) fn read(
    document: &Document,
    transcript: &mut Transcript,
    wanted: Option<&str>,
    sink: Sink,
) -> Result<(), FormatError> {
    let mut sink = |message| sink(Chain::Main, message);
    let mut reading = Reading::new(Assembly::new(&mut sink, usize::MAX));
    let list = document.list("history");
    if !document.is_list() {
        let header = document.header(|_, depth, key| match key {
            "history" if depth == 0 => Take::Skip,
            _ => Take::Whole,
        })?;
        if header.get("instance_id").is_some() {
            about(&header, &At::Root, &mut reading.log.misfits, &mut transcript.info);
            reading.begin(transcript);
            document.each(transcript.format, "history", |position, event| {
                reading.event(event, &At::Index(&list, position), transcript);
                Ok(())
            })?;
        } else {
            // One event on its own: OpenHands keeps each in a file.
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
        about(&record, &at, &mut reading.log.misfits, &mut transcript.info);
        let inside = At::Key(&at, "history");
        let events = reading.log.misfits.take_list(&mut record, &at, "history");
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

/// The runs in the output of an evaluation, one on each line.
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

/// What the output of an evaluation says about a run.
fn about(record: &Json, at: &At, misfits: &mut Misfits, info: &mut SessionInfo) {
    info.id = misfits.string(record, at, "instance_id");
    info.title.clone_from(&info.id);
    if let Some(metadata) = misfits.object(record, at, "metadata") {
        let at = &At::Key(at, "metadata");
        if let Some(config) = misfits.object(metadata, at, "llm_config") {
            info.model = misfits.string(config, &At::Key(at, "llm_config"), "model");
        }
    }
}

/// Events, one after the other.
struct Reading<'s> {
    log: Assembly<'s>,
    /// The response that may go on, and its id.
    open: Option<(usize, Option<String>)>,
    /// The message an event went into, by the event's id: condensations name events.
    messages: HashMap<String, MessageId>,
    position: usize,
}

impl<'s> Reading<'s> {
    fn new(log: Assembly<'s>) -> Reading<'s> {
        Reading { log, open: None, messages: HashMap::new(), position: 0 }
    }

    fn begin(&mut self, transcript: &mut Transcript) {
        self.log.settle(&mut transcript.notes);
        self.log.session(transcript.info.id.as_deref());
    }

    fn event(&mut self, event: Json, at: &At, transcript: &mut Transcript) {
        let open = self.open.as_ref().map(|(place, _)| *place);
        self.log.record(self.position, 0, self.position, open);
        self.position += 1;
        if self.log.misfits.is_object(&event, at) {
            let time = self.log.misfits.time(&event, at, "timestamp");
            transcript.info.seen(time);
            let (before, name) = (self.log.len(), event_name(&event));
            if name.is_none() {
                self.log.misfits.text(&event, at, "id");
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

    /// The message that what the model says goes into: calls of one response have its id in common.
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
        self.log.said(place, text, synthetic);
        place
    }

    /// A condensation: events are forgotten and a summary is put in their place. The tail is what came behind the
    /// last of them; the first few events, which OpenHands keeps in front, are in the log and not in the window.
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

/// The id of an event: a number in older versions.
fn event_name(event: &Json) -> Option<String> {
    event.string("id").or_else(|| event.number("id").map(|id| id.to_string()))
}
