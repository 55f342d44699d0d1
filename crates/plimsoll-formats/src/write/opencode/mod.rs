//! Writes OpenCode's export so that `opencode import` accepts it.
//!
//! The log already has OpenCode's structure. This module adds the fields that OpenCode requires ([`complete`]), ids that it
//! accepts ([`names`]), and content that OpenCode's rules cannot derive from the log: texts that were cut or left out, pins, and
//! compactions that were undone ([`shape`]).

mod complete;
mod names;
mod shape;

use std::collections::HashMap;

use plimsoll::{Message, MessageId, Millis, Role, SessionId};
use serde_json::{Value, json};

use super::{ConversionLoss, EachMessage};
use crate::format::Format;
use crate::transcript::SessionInfo;

use complete::CompletionContext;
use names::{NameCheck, NewNames};
use shape::Shape;

/// Title of a session without one.
const TITLE: &str = "Imported session";

/// A session that is ready to be written, message by message: neither its log nor its JSON is held.
pub(super) struct Export<'a> {
    info: &'a SessionInfo,
    shape: Shape,
    /// The seed of new ids, and the new ids of messages by their old ones; `None` if they keep theirs.
    renamed: Option<(u64, HashMap<MessageId, MessageId>)>,
    session: SessionId,
    /// Start of the last message.
    last: Option<Millis>,
}

impl<'a> Export<'a> {
    pub(super) fn of<E>(info: &'a SessionInfo, each: EachMessage<'_, E>) -> Result<Export<'a>, E> {
        let shape = Shape::of(each)?;
        let started = info.started.unwrap_or_default();
        let (mut times, mut check) = (Times::new(started), NameCheck::new(info));
        shape.each(each, &mut |message| check.check(&times.set(message)))?;
        let mut export = Export {
            info,
            renamed: None,
            session: SessionId::new(info.id.as_deref().unwrap_or("ses_imported")),
            last: check.last_time(),
            shape,
        };
        if let Some(seed) = check.seed(&export.shape.reductions) {
            let (mut times, mut names) = (Times::new(started), NewNames::new(seed, started));
            let mut given = HashMap::new();
            export.shape.each(each, &mut |message| {
                let mut message = times.set(message);
                let before = names.assign(&mut message);
                given.insert(before, message.info.id.clone());
            })?;
            (export.session, export.renamed) = (names.session, Some((seed, given)));
        }
        Ok(export)
    }

    fn directory(&self) -> &str {
        self.info.directory.as_deref().unwrap_or(".")
    }

    /// Returns OpenCode's metadata of the session.
    pub(super) fn head(&self) -> Value {
        let info = self.info;
        let started = info.started.unwrap_or_default();
        let title = info.title.as_deref().unwrap_or(TITLE);
        let updated = info.updated.or(self.last).unwrap_or(started);
        let mut head = json!({
            "id": self.session,
            "slug": slug(title),
            "projectID": "global",
            "directory": self.directory(),
            "title": title,
            "version": info.version.as_deref().unwrap_or("0"),
            "time": { "created": started.0, "updated": updated.0 },
        });
        // An id that is not in OpenCode's format would make the import fail.
        if let Some(parent) = info.parent.as_deref().filter(|parent| parent.starts_with("ses")) {
            head["parentID"] = parent.into();
        }
        head
    }

    /// Passes on the messages as JSON, one at a time. Returns what they do not contain.
    pub(super) fn each<E>(
        &self,
        each: EachMessage<'_, E>,
        sink: &mut dyn FnMut(Value),
    ) -> Result<Vec<ConversionLoss>, E> {
        let around = CompletionContext {
            session: &self.session,
            model: self.info.model.as_deref().unwrap_or("unknown"),
            directory: self.directory(),
            is_new: self.renamed.is_some(),
        };
        let started = self.info.started.unwrap_or_default();
        let mut names = self.renamed.as_ref().map(|(seed, given)| (NewNames::new(*seed, started), given));
        let (mut times, mut parent, mut unknown) = (Times::new(started), None, 0);
        let (mut lost, _) = self.shape.each(each, &mut |message| {
            let mut message = times.set(message);
            if let Some((names, given)) = &mut names {
                names.assign(&mut message);
                names::update_references(&mut message, given);
            }
            if message.info.role == Some(Role::User) {
                parent = Some(message.info.id.clone());
            }
            // A message that answers no user message names itself: OpenCode requires the field.
            let parent = parent.as_ref().unwrap_or(&message.info.id);
            let (message, dropped) = around.complete(&message, parent);
            unknown += dropped;
            sink(message);
        })?;
        lost.extend(ConversionLoss::new(
            unknown,
            "part of a kind OpenCode does not know",
            "parts of kinds OpenCode does not know",
        ));
        Ok(lost)
    }
}

pub(super) fn write<E>(
    format: Format,
    info: &SessionInfo,
    each: EachMessage<'_, E>,
) -> Result<(Value, Vec<ConversionLoss>), E> {
    let (export, mut written) = (Export::of(info, each)?, Vec::new());
    let lost = export.each(each, &mut |message| written.push(message))?;
    Ok(match format {
        Format::OpencodeMessages => (written.into(), lost),
        _ => (json!({ "info": export.head(), "messages": written }), lost),
    })
}

/// Sets the time of every message, none before its predecessor's: OpenCode sorts by time.
struct Times {
    last: Millis,
    is_first: bool,
}

impl Times {
    fn new(started: Millis) -> Times {
        Times { last: started, is_first: true }
    }

    fn set(&mut self, mut message: Message) -> Message {
        let created = message.info.time.as_ref().and_then(|time| time.created);
        // The first message may be older than the metadata of the session.
        let time =
            created.map_or(self.last, |created| if self.is_first { created } else { created.max(self.last) });
        if created != Some(time) {
            message.info.time.get_or_insert_default().created = Some(time);
        }
        (self.last, self.is_first) = (time, false);
        message
    }
}

/// Creates a readable name from the title: letters, digits and dashes.
fn slug(title: &str) -> String {
    let plain: String =
        title.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' }).collect();
    let words: Vec<&str> = plain.split_whitespace().take(6).collect();
    if words.is_empty() { slug(TITLE) } else { words.join("-") }
}
