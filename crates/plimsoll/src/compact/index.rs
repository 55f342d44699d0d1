//! The index of a summary: calls and the names in them.
//!
//! A summary describes what was done, but the next call needs the exact path, identifier or number. The index lists the
//! names in the replaced messages that nothing else in the window repeats. Each line has a handle, so the content is
//! one recall away.
//!
//! The engine writes the index, not the model: it costs no output tokens and cannot contain invented names. The index
//! of an earlier summary is carried over, because the messages it was made from are out of view.

use serde_json::Value;

use super::select::Selection;
use crate::chars::{Chars, Text, head, level};
use crate::log::{Log, Message, Part, PartBody};
use crate::mentions::{self, Mentioned};
use crate::pivot::{INDEX_HEADING, without_index};
use crate::policy::Policy;
use crate::redact::redact;
use crate::tokens::Tokens;
use crate::window::{Block, Window};

/// Maximum length of the description of a call.
const LABEL: Chars = Chars(80);
/// Minimum length of a list of names. A shorter one is not worth a line.
const LEAST: Chars = Chars(24);
/// Maximum length of the names of one call.
const MOST: Chars = Chars(4_000);

/// One line of an index.
struct Entry {
    /// The call and its handle: `read src/lib.rs (prt_1)`.
    label: String,
    names: Vec<String>,
}

/// Appends an index of at most `room` tokens to a summary of the head of `selection`.
pub(super) fn append(
    summary: &Text,
    log: &Log,
    selection: &Selection,
    policy: &Policy,
    room: Tokens,
) -> Text {
    let said = without_index(summary);
    let entries = entries(said, log, selection, policy);
    let chars = Chars(room.0.saturating_mul(policy.count.chars_per_token));
    match render(&entries, chars) {
        Some(index) => Text::from(format!("{said}\n\n{index}")),
        None => Text::from(said),
    }
}

/// The lines of the index, oldest first, with all names that would leave the window.
fn entries(said: &str, log: &Log, selection: &Selection, policy: &Policy) -> Vec<Entry> {
    let stays = |place: usize| selection.tail.contains(&place) || selection.prompt == Some(place);
    let window = Window::of(log, policy);
    let staying = window.messages.iter().filter(|message| message.place.is_none_or(stays));
    let blocks = staying.flat_map(|message| &message.blocks).filter_map(|block| match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } | Block::Result { text, .. } => Some(text),
        Block::Call { input, .. } => Some(input.json()),
        _ => None,
    });
    let said = Text::from(said);
    let mut mentioned = Mentioned::in_texts(blocks.chain([&said]));
    let mut entries = Vec::new();
    // A name is listed at its newest mention, which is the one to recall.
    for place in selection.head.iter().rev() {
        for part in log[*place].parts.iter().rev() {
            entries.extend(entry(&log[*place], part, &mut mentioned));
        }
    }
    let prior = selection.prior.map(|pivot| pivot.text(log));
    entries.extend(prior.iter().flat_map(|prior| carried(prior, &mut mentioned)));
    entries.reverse();
    entries
}

fn entry(message: &Message, part: &Part, mentioned: &mut Mentioned) -> Option<Entry> {
    let (label, texts): (String, Vec<&str>) = match &part.body {
        PartBody::Tool(tool) => {
            let input = tool.state.input.as_ref();
            let texts = input.map(|input| input.json().as_str()).into_iter();
            let texts = texts.chain(tool.state.result().map(|text| text.as_str()));
            (call_label(&tool.tool, input.map(|input| input.value())), texts.collect())
        }
        PartBody::ToolCall(call) => {
            let input = call.input.as_ref();
            let texts = input.map(|input| input.json().as_str()).into_iter().collect();
            (call_label(&call.tool, input.map(|input| input.value())), texts)
        }
        PartBody::ToolResult(result) => {
            (format!("result of {}", result.tool.as_deref().unwrap_or("a tool")), vec![result.text.as_str()])
        }
        PartBody::Text(text) if text.ignored != Some(true) => {
            let who = if message.is_assistant() { "said" } else { "user" };
            (who.to_owned(), vec![text.text.as_str()])
        }
        _ => return None,
    };
    let mut listed = Vec::new();
    for text in texts.into_iter().rev() {
        let room = Chars::of(text).min(MOST);
        if let Some(names) = mentions::list(&redact(text).text, mentioned, room) {
            listed.extend(names.split(", ").filter(|name| *name != "…").map(str::to_owned));
        }
    }
    let label = redact(&label).text;
    (!listed.is_empty()).then(|| Entry { label: format!("{label} ({})", part.id), names: listed })
}

/// Describes a call by its tool and its most important argument.
fn call_label(tool: &str, input: Option<&Value>) -> String {
    const FIELDS: [&str; 14] = [
        "filePath",
        "file_path",
        "path",
        "file",
        "notebook_path",
        "target_file",
        "command",
        "cmd",
        "pattern",
        "query",
        "regex",
        "url",
        "description",
        "name",
    ];
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => words.last().and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    let object = input.and_then(|input| FIELDS.iter().find_map(|field| text(input.get(*field)?)));
    match object.as_deref().and_then(|object| object.lines().find(|line| !line.trim().is_empty())) {
        Some(line) => format!("{tool} {}", head(line.trim(), LABEL)),
        None => tool.to_owned(),
    }
}

/// The lines of an earlier index, newest first, without names that were mentioned since.
fn carried(summary: &str, mentioned: &mut Mentioned) -> Vec<Entry> {
    let Some(at) = summary.find(INDEX_HEADING) else { return Vec::new() };
    let mut entries = Vec::new();
    for line in summary[at..].lines().rev() {
        let Some((label, names)) = line.strip_prefix("- ").and_then(|line| line.rsplit_once("): ")) else {
            continue;
        };
        let names: Vec<String> = names
            .split(", ")
            .filter(|name| *name != "…" && !mentioned.has(name))
            .map(str::to_owned)
            .collect();
        names.iter().for_each(|name| mentioned.add(name));
        if !names.is_empty() {
            entries.push(Entry { label: format!("{label})"), names });
        }
    }
    entries
}

/// Writes as many names as fit. The room is shared evenly: short lines stay whole, long ones lose their last names.
fn render(entries: &[Entry], room: Chars) -> Option<String> {
    let frame = |entry: &Entry| Chars::of(&entry.label) + Chars(6);
    let length =
        |entry: &Entry| frame(entry) + entry.names.iter().map(|name| Chars::of(name) + Chars(2)).sum();
    let room = room.saturating_sub(Chars::of(INDEX_HEADING) + Chars(1));
    let level = level(entries.iter().map(length), room);
    let mut index = INDEX_HEADING.to_owned();
    let mut lines = 0;
    for entry in entries {
        let mut left = level.saturating_sub(frame(entry));
        if left < LEAST && length(entry) > level {
            continue;
        }
        let mut names: Vec<&str> = Vec::new();
        for name in &entry.names {
            let chars = Chars::of(name) + Chars(2);
            if chars <= left {
                left = left - chars;
                names.push(name);
            }
        }
        if !names.is_empty() {
            let more = if names.len() < entry.names.len() { ", …" } else { "" };
            index.push_str(&format!("\n- {}: {}{more}", entry.label, names.join(", ")));
            lines += 1;
        }
    }
    (lines > 0).then_some(index)
}
