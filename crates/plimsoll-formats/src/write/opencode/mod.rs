//! OpenCode's export, as `opencode import` accepts it.
//!
//! The log has OpenCode's shape already. What is added is what OpenCode does not do without ([`complete`]), names it
//! takes ([`names`]), and what its own rules do not tell from the log: texts that were cut or left out, pins, a
//! compaction that was undone ([`shape`]).

mod complete;
mod names;
mod shape;

use std::io::{self, Write};

use plimsoll::{Message, Millis, Role, SessionId};
use serde_json::{Value, json};

use super::Lost;
use crate::format::Format;
use crate::transcript::SessionInfo;

use complete::Circumstances;
use names::Names;

/// The title of a session without one.
const TITLE: &str = "Imported session";

/// A session that is ready to be written, message by message: as JSON all of it takes many times the room of the log.
pub(super) struct Export<'a> {
    info: &'a SessionInfo,
    messages: Vec<Message>,
    session: SessionId,
    is_new: bool,
    lost: Vec<Lost>,
}

impl<'a> Export<'a> {
    pub(super) fn of(info: &'a SessionInfo, stored: &[Message]) -> Export<'a> {
        let (mut messages, lost) = shape::shape(stored);
        let started = info.started.unwrap_or_default();
        set_times(&mut messages, started);
        let names = Names::of(info, stored, &messages);
        let is_new = matches!(names, Names::New(_));
        let session = names.give(&mut messages, info.id.as_deref(), started);
        Export { info, messages, session, is_new, lost }
    }

    fn directory(&self) -> &str {
        self.info.directory.as_deref().unwrap_or(".")
    }

    /// What OpenCode wants to know about the session.
    pub(super) fn head(&self) -> Value {
        let info = self.info;
        let started = info.started.unwrap_or_default();
        let last = self.messages.last().and_then(|message| message.info.time.as_ref()?.created);
        let title = info.title.as_deref().unwrap_or(TITLE);
        let updated = info.updated.or(last).unwrap_or(started);
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
    pub(super) fn each<E>(self, mut sink: impl FnMut(Value) -> Result<(), E>) -> Result<Vec<Lost>, E> {
        let around = Circumstances {
            session: &self.session,
            model: self.info.model.as_deref().unwrap_or("unknown"),
            directory: self.directory(),
            is_new: self.is_new,
        };
        let (mut parent, mut unknown) = (None, 0);
        for message in &self.messages {
            if message.info.role == Some(Role::User) {
                parent = Some(message.info.id.clone());
            }
            // One that answers no user's message answers itself: OpenCode wants a name there.
            let parent = parent.as_ref().unwrap_or(&message.info.id);
            let (message, dropped) = around.complete(message, parent);
            unknown += dropped;
            sink(message)?;
        }
        let mut lost = self.lost;
        lost.extend(Lost::new(
            unknown,
            "part of a kind OpenCode does not know",
            "parts of kinds OpenCode does not know",
        ));
        Ok(lost)
    }
}

pub(super) fn write(format: Format, info: &SessionInfo, messages: &[Message]) -> (Value, Vec<Lost>) {
    let export = Export::of(info, messages);
    let (head, mut written) = (export.head(), Vec::with_capacity(messages.len()));
    let Ok(lost) = export.each(|message| {
        written.push(message);
        Ok::<(), std::convert::Infallible>(())
    });
    match format {
        Format::OpencodeMessages => (written.into(), lost),
        _ => (json!({ "info": head, "messages": written }), lost),
    }
}

/// Writes the same as JSON, one message at a time. Returns how many messages were written, and what is not in them.
pub(super) fn write_to(
    format: Format,
    info: &SessionInfo,
    messages: &[Message],
    out: &mut dyn Write,
) -> io::Result<(usize, Vec<Lost>)> {
    let export = Export::of(info, messages);
    let is_bare = format == Format::OpencodeMessages;
    if !is_bare {
        out.write_all(b"{\"info\":")?;
        serde_json::to_writer(&mut *out, &export.head())?;
        out.write_all(b",\"messages\":")?;
    }
    out.write_all(b"[")?;
    let mut count = 0;
    let lost = export.each(|message| {
        if count > 0 {
            out.write_all(b",")?;
        }
        count += 1;
        serde_json::to_writer(&mut *out, &message).map_err(io::Error::from)
    })?;
    out.write_all(if is_bare { b"]" } else { b"]}" })?;
    Ok((count, lost))
}

/// Give every message a time, none before the one that stands ahead of it: OpenCode sorts by time.
fn set_times(messages: &mut [Message], started: Millis) {
    let mut last = started;
    let mut is_first = true;
    for message in messages {
        let created = &mut message.info.time.get_or_insert_default().created;
        // The first may be older than what the file says of its session.
        let time = created.map_or(last, |created| if is_first { created } else { created.max(last) });
        *created = Some(time);
        (last, is_first) = (time, false);
    }
}

/// A name for people, made of the title: letters, digits and dashes.
fn slug(title: &str) -> String {
    let plain: String =
        title.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' }).collect();
    let words: Vec<&str> = plain.split_whitespace().take(6).collect();
    if words.is_empty() { slug(TITLE) } else { words.join("-") }
}
