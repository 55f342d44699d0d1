//! OpenCode's export, as `opencode import` accepts it.
//!
//! The log has OpenCode's shape already. What is added is what OpenCode does not do without ([`complete`]), names it
//! takes ([`names`]), and what its own rules do not tell from the log: texts that were cut or left out, pins, a
//! compaction that was undone ([`shape`]).

mod complete;
mod names;
mod shape;

use plimsoll::{Message, Millis, Role};
use serde_json::{Value, json};

use super::Lost;
use crate::detect::Format;
use crate::transcript::SessionInfo;

use complete::Circumstances;
use names::Names;

/// The title of a session without one.
const TITLE: &str = "Imported session";

pub(super) fn write(format: Format, info: &SessionInfo, messages: &[Message]) -> (Value, Vec<Lost>) {
    let stored = messages;
    let (mut messages, mut lost) = shape::shape(stored);
    let started = info.started.unwrap_or_default();
    set_times(&mut messages, started);
    let names = Names::of(info, stored, &messages);
    let is_new = matches!(names, Names::New(_));
    let id = names.give(&mut messages, info.id.as_deref(), started);
    let last = messages.last().and_then(|message| message.info.time.as_ref()?.created);
    let around = Circumstances {
        session: &id,
        model: info.model.as_deref().unwrap_or("unknown"),
        directory: info.directory.as_deref().unwrap_or("."),
        is_new,
    };
    let mut parent = None;
    let mut unknown = 0;
    let mut written = Vec::with_capacity(messages.len());
    for message in &messages {
        if message.info.role == Some(Role::User) {
            parent = Some(message.info.id.clone());
        }
        // One that answers no user's message answers itself: OpenCode wants a name there.
        let parent = parent.as_ref().unwrap_or(&message.info.id);
        let (message, dropped) = around.complete(message, parent);
        unknown += dropped;
        written.push(message);
    }
    lost.extend(Lost::new(
        unknown,
        "part of a kind OpenCode does not know",
        "parts of kinds OpenCode does not know",
    ));
    if format == Format::OpencodeMessages {
        return (written.into(), lost);
    }
    let title = info.title.as_deref().unwrap_or(TITLE);
    let updated = info.updated.or(last).unwrap_or(started);
    let mut export = json!({
        "info": {
            "id": id,
            "slug": slug(title),
            "projectID": "global",
            "directory": around.directory,
            "title": title,
            "version": info.version.as_deref().unwrap_or("0"),
            "time": { "created": started.0, "updated": updated.0 },
        },
        "messages": written,
    });
    // A name that OpenCode does not take as a session's would make the import fail.
    if let Some(parent) = info.parent.as_deref().filter(|parent| parent.starts_with("ses")) {
        export["info"]["parentID"] = parent.into();
    }
    (export, lost)
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
