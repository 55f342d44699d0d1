//! OpenCode's export, as `opencode import` accepts it.
//!
//! The log has OpenCode's shape already. What is added is what OpenCode does not do without ([`complete`]), names it
//! takes ([`names`]), and what its own rules do not tell from the log: texts that were cut or left out, pins, a
//! compaction that was undone ([`shape`]).

mod complete;
mod names;
mod shape;

use std::collections::HashMap;

use plimsoll::{Message, MessageId, Millis, Role, SessionId};
use serde_json::{Value, json};

use super::{EachMessage, Lost};
use crate::format::Format;
use crate::transcript::SessionInfo;

use complete::Circumstances;
use names::{NameCheck, NewNames};
use shape::Shape;

/// The title of a session without one.
const TITLE: &str = "Imported session";

/// A session that is ready to be written, message by message: neither its log nor its JSON is held.
pub(super) struct Export<'a> {
    info: &'a SessionInfo,
    shape: Shape,
    /// The seed of new names, and the names that messages get, by those they had; `None` if they keep theirs.
    renamed: Option<(u64, HashMap<MessageId, MessageId>)>,
    session: SessionId,
    /// When the last message was begun.
    last: Option<Millis>,
}

impl<'a> Export<'a> {
    pub(super) fn of<E>(info: &'a SessionInfo, each: EachMessage<'_, E>) -> Result<Export<'a>, E> {
        let shape = Shape::of(each)?;
        let started = info.started.unwrap_or_default();
        let (mut times, mut check) = (Times::new(started), NameCheck::new(info));
        shape.each(each, &mut |message| check.see(&times.set(message)))?;
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
                let before = names.give(&mut message);
                given.insert(before, message.info.id.clone());
            })?;
            (export.session, export.renamed) = (names.session, Some((seed, given)));
        }
        Ok(export)
    }

    fn directory(&self) -> &str {
        self.info.directory.as_deref().unwrap_or(".")
    }

    /// What OpenCode wants to know about the session.
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
        // A name that OpenCode does not take as a session's would make the import fail.
        if let Some(parent) = info.parent.as_deref().filter(|parent| parent.starts_with("ses")) {
            head["parentID"] = parent.into();
        }
        head
    }

    /// Hands out the messages as JSON, one at a time. Returns what is not in them.
    pub(super) fn each<E>(
        &self,
        each: EachMessage<'_, E>,
        sink: &mut dyn FnMut(Value),
    ) -> Result<Vec<Lost>, E> {
        let around = Circumstances {
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
                names.give(&mut message);
                names::follow(&mut message, given);
            }
            if message.info.role == Some(Role::User) {
                parent = Some(message.info.id.clone());
            }
            // One that answers no user's message answers itself: OpenCode wants a name there.
            let parent = parent.as_ref().unwrap_or(&message.info.id);
            let (message, dropped) = around.complete(&message, parent);
            unknown += dropped;
            sink(message);
        })?;
        lost.extend(Lost::new(
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
) -> Result<(Value, Vec<Lost>), E> {
    let (export, mut written) = (Export::of(info, each)?, Vec::new());
    let lost = export.each(each, &mut |message| written.push(message))?;
    Ok(match format {
        Format::OpencodeMessages => (written.into(), lost),
        _ => (json!({ "info": export.head(), "messages": written }), lost),
    })
}

/// Gives every message a time, none before the one that stands ahead of it: OpenCode sorts by time.
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
        // The first may be older than what the file says of its session.
        let time =
            created.map_or(self.last, |created| if self.is_first { created } else { created.max(self.last) });
        if created != Some(time) {
            message.info.time.get_or_insert_default().created = Some(time);
        }
        (self.last, self.is_first) = (time, false);
        message
    }
}

/// A name for people, made of the title: letters, digits and dashes.
fn slug(title: &str) -> String {
    let plain: String =
        title.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' }).collect();
    let words: Vec<&str> = plain.split_whitespace().take(6).collect();
    if words.is_empty() { slug(TITLE) } else { words.join("-") }
}
