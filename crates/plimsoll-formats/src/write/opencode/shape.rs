//! The log as OpenCode reads it: what OpenCode's own rules would make of the result is what the window shows.
//!
//! OpenCode knows outputs that were cleared, and a summary with a tail behind it. It knows nothing of texts that were
//! cut or left out, of pins, of the prompt that is kept between summary and tail, and of a summary that was undone. So
//! those are written as what the window makes of them.

use std::collections::{HashMap, HashSet};

use plimsoll::log::{CompactionPart, ToolPart, ToolResultPart};
use plimsoll::pivot::{Pivot, Visible};
use plimsoll::window::is_bare_placeholder;
use plimsoll::{
    Block, Log, Message, MessageId, Part, PartBody, PartId, Policy, Role, ToolState, ToolStatus, Window,
};
use serde_json::{Value, json};

use crate::write::Lost;

/// The messages to write, and what is not among them.
pub(super) fn shape(messages: &[Message]) -> (Vec<Message>, Vec<Lost>) {
    let log = Log::from_messages(messages.iter().cloned());
    let messages = log.messages();
    let visible = Visible::of(messages);
    let window = Window::of(messages, &Policy::default());
    let undone = undone(messages);
    let mut shaping = Shaping {
        view: View::of(&window),
        in_view: visible.places.iter().map(|place| messages[*place].info.id.clone()).collect(),
        results: results(messages),
        used: HashSet::new(),
        out: Vec::with_capacity(messages.len()),
        cut: 0,
    };
    let lead = lead(&window, &visible);
    let lead_at = visible.pivot.map(|pivot| pivot.tail.unwrap_or(pivot.summary + 1));
    let (mut system, mut systems) = (Vec::new(), 0);
    for (place, message) in messages.iter().enumerate() {
        if lead_at == Some(place) {
            shaping.out.extend(lead.iter().cloned());
        }
        if undone.contains(&message.info.id) {
            continue;
        }
        if message.info.role == Some(Role::System) {
            system.push(message.text());
            systems += 1;
            continue;
        }
        let Some(mut message) = shaping.message(message) else { continue };
        if let Some(pivot) = visible.pivot.filter(|pivot| pivot.marker == place) {
            begin_tail(&mut message, &lead, pivot);
        }
        if message.info.role != Some(Role::Assistant) {
            message.info.role = Some(Role::User);
            put_system(&mut message, &mut system);
        }
        let inside = inside_summary(&mut message);
        shaping.out.push(message);
        shaping.out.extend(inside);
    }
    if lead_at.is_some_and(|at| at >= messages.len()) {
        shaping.out.extend(lead);
    }
    if !system.is_empty() {
        // What no user's message follows stands with the last one there is, or alone.
        match shaping.out.iter_mut().rev().find(|message| message.is_user()) {
            Some(last) => put_system(last, &mut system),
            None => {
                let mut message = Message::user("msg_system".into(), "prt_system".into(), "");
                message.parts.clear();
                put_system(&mut message, &mut system);
                shaping.out.insert(0, message);
            }
        }
    }
    let undone = undone.len() / 2;
    let lost = [
        Lost::new(undone, "undone summary", "undone summaries"),
        Lost::new(
            shaping.cut,
            "text beyond what the window shows of it",
            "texts beyond what the window shows of them",
        ),
        Lost::new(systems, "system message (kept, but not sent)", "system messages (kept, but not sent)"),
    ];
    (shaping.out, lost.into_iter().flatten().collect())
}

/// Markers of compactions that were undone, and their summaries: OpenCode would take them for ones that count.
fn undone(messages: &[Message]) -> HashSet<MessageId> {
    let mut undone = HashSet::new();
    let mut marker = None;
    for message in messages {
        let id = &message.info.id;
        if message.is_user() {
            marker = message.marker().map(|_| id);
        }
        if message.marker().is_some_and(|marker| marker.set_aside.is_some()) {
            undone.insert(id.clone());
        }
        let asked = message.info.parent_id.as_ref().or(marker);
        if message.info.summary && message.is_assistant() && asked.is_some_and(|id| undone.contains(id)) {
            undone.insert(id.clone());
        }
    }
    undone
}

/// What the window shows between the summary and the tail: pins, the prompt, the question that the tail answers.
fn lead(window: &Window, visible: &Visible) -> Vec<Message> {
    let Some(pivot) = visible.pivot else { return Vec::new() };
    let is_pivot = |place| place == Some(pivot.marker) || place == Some(pivot.summary);
    let Some(last) = window.messages.iter().rposition(|message| is_pivot(message.place)) else {
        return Vec::new();
    };
    let behind = window.messages[last + 1..].iter();
    let lead = behind.take_while(|message| message.place.is_none_or(|place| place < pivot.start()));
    let lead = lead.enumerate().map(|(index, shown)| {
        let id = format!("msg_lead{index}_{}", window.pivot.as_ref().map_or("", MessageId::as_str));
        let texts = shown.blocks.iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.clone()),
            _ => None,
        });
        let mut message = Message::user(MessageId::new(id.clone()), PartId::default(), "");
        message.parts =
            texts.enumerate().map(|(at, text)| synthetic(format!("prt_{id}_{at}"), text)).collect();
        message
    });
    lead.filter(|message| !message.parts.is_empty()).collect()
}

/// A text that the host has put in, rather than a person.
fn synthetic(id: String, text: plimsoll::Text) -> Part {
    let mut part = Part::text(PartId::new(id), text);
    if let PartBody::Text(text) = &mut part.body {
        text.synthetic = Some(true);
    }
    part.extra.insert("metadata".into(), json!({ "plimsoll": { "copy": true } }));
    part
}

/// Let the tail begin with what leads it.
fn begin_tail(marker: &mut Message, lead: &[Message], pivot: Pivot) {
    let first = lead.first().filter(|_| pivot.tail.is_some());
    for part in &mut marker.parts {
        if let (PartBody::Compaction(marker), Some(first)) = (&mut part.body, first) {
            marker.tail_start = Some(first.info.id.clone());
            marker.prompt = None;
        }
    }
}

/// A summary that stands inside its marker becomes a message of its own, where OpenCode looks for it.
fn inside_summary(message: &mut Message) -> Option<Message> {
    let id = message.info.id.clone();
    let part = message.parts.iter_mut().find(|part| part.as_compaction().is_some())?;
    let PartBody::Compaction(CompactionPart { summary, .. }) = &mut part.body else { return None };
    let text = summary.take()?;
    let part = Part::text(PartId::new(format!("{}_summary", part.id)), text);
    let mut said = Message::assistant(MessageId::new(format!("{id}_summary")), vec![part]);
    said.info.summary = true;
    said.info.parent_id = Some(id);
    said.info.time = message.info.time.clone();
    Some(said)
}

/// Lay down what the host said where OpenCode has it: with the user's message.
fn put_system(message: &mut Message, system: &mut Vec<String>) {
    if !system.is_empty() {
        let mut said = std::mem::take(system);
        // What stands at the end of a session comes to a message that may have some.
        if let Some(known) = message.info.extra.get("system").and_then(Value::as_str) {
            said.insert(0, known.to_owned());
        }
        message.info.extra.insert("system".into(), said.join("\n\n").into());
    }
}

/// Results that are parts of their own, by the call they answer.
fn results(messages: &[Message]) -> HashMap<String, (PartId, ToolResultPart)> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let results = parts.filter_map(|part| match &part.body {
        PartBody::ToolResult(result) => Some((result.call_id.clone(), (part.id.clone(), result.clone()))),
        _ => None,
    });
    results.collect()
}

/// What the window shows of each part.
struct View<'a> {
    texts: HashMap<&'a PartId, &'a plimsoll::Text>,
    calls: HashMap<&'a PartId, &'a plimsoll::log::Input>,
    results: HashMap<&'a PartId, (&'a plimsoll::Text, bool)>,
    thoughts: HashSet<&'a PartId>,
    /// What it says of a message some parts of which are left out.
    notices: HashMap<&'a MessageId, &'a plimsoll::Text>,
    shown: HashSet<&'a MessageId>,
}

impl<'a> View<'a> {
    fn of(window: &'a Window) -> View<'a> {
        let (texts, calls, results) = Default::default();
        let (thoughts, notices, shown) = Default::default();
        let mut view = View { texts, calls, results, thoughts, notices, shown };
        for message in &window.messages {
            view.shown.extend(&message.message);
            for block in &message.blocks {
                match (block, &message.message) {
                    (Block::Text { text, part: Some(part) }, _) => {
                        view.texts.insert(part, text);
                    }
                    (Block::Text { text, part: None }, Some(id)) => {
                        view.notices.insert(id, text);
                    }
                    (Block::Call { input, part, .. }, _) => {
                        view.calls.insert(part, input);
                    }
                    (Block::Result { text, part, cleared, .. }, _) => {
                        view.results.insert(part, (text, *cleared));
                    }
                    (Block::Reasoning { part, .. }, _) => {
                        view.thoughts.insert(part);
                    }
                    _ => {}
                }
            }
        }
        view
    }
}

struct Shaping<'a> {
    view: View<'a>,
    /// Messages that no pivot stands for. The window need not show anything of them: a range's summary stands in one of its
    /// messages, and OpenCode must not be given the others.
    in_view: HashSet<MessageId>,
    results: HashMap<String, (PartId, ToolResultPart)>,
    /// Calls that were joined with their results.
    used: HashSet<String>,
    out: Vec<Message>,
    /// Texts of which more is stored than is written.
    cut: usize,
}

impl Shaping<'_> {
    /// The message as OpenCode has to have it; nothing if nothing is left of it.
    fn message(&mut self, message: &Message) -> Option<Message> {
        let id = &message.info.id;
        let is_shown = self.view.shown.contains(id) || self.in_view.contains(id);
        let mut parts = Vec::with_capacity(message.parts.len());
        for part in &message.parts {
            let mut part = part.clone();
            let mut result = part.id.clone();
            if let PartBody::ToolCall(call) = &part.body {
                let input = call.input.clone().unwrap_or_else(|| json!({}).into());
                let mut state = match self.results.get(&call.call_id) {
                    Some((_, answer)) if answer.is_error == Some(true) => {
                        ToolState::failed(input, answer.text.clone())
                    }
                    Some((_, answer)) => ToolState::completed(input, answer.text.clone()),
                    None => ToolState::pending(input),
                };
                if let Some((id, answer)) = self.results.get(&call.call_id) {
                    state.time.compacted = answer.compacted;
                    result = id.clone();
                    self.used.insert(call.call_id.clone());
                }
                let (call_id, tool) = (call.call_id.clone(), call.tool.clone());
                part.body = PartBody::Tool(ToolPart { call_id, tool, state });
            }
            if let PartBody::ToolResult(answer) = &part.body {
                if self.used.contains(&answer.call_id) {
                    continue;
                }
                // A result without a call is kept as what it is to a model: a text.
                let text = self.view.texts.get(&part.id).map_or(&answer.text, |text| *text).clone();
                part = Part::text(part.id, text);
            }
            if !is_shown || self.as_shown(&mut part, &result) {
                parts.push(part);
            }
        }
        if let Some(notice) =
            self.view.notices.get(&message.info.id).filter(|_| parts.len() < message.parts.len())
        {
            parts.push(synthetic(format!("prt_left_{}", message.info.id), (*notice).clone()));
        }
        // Steps and snapshots are no content: with nothing else left, nothing of the message is.
        let is_behind = message.parts.iter().any(|part| part.replaced().is_some_and(|text| text.is_empty()));
        let is_empty = parts.iter().all(|part| matches!(part.body, PartBody::Other(_)));
        let is_left = !(is_shown && is_behind && is_empty) && (!parts.is_empty() || message.parts.is_empty());
        is_left.then(|| Message { parts: parts.into(), ..message.clone() })
    }

    /// Give a part of a shown message the text that the window shows; whether it is shown at all.
    fn as_shown(&mut self, part: &mut Part, result: &PartId) -> bool {
        if part.replaced().is_some() {
            // A summary stands in its place, or in that of another part.
            self.cut += 1;
            let Some(text) = self.view.texts.get(&part.id) else { return false };
            *part = synthetic(part.id.to_string(), (*text).clone());
            return true;
        }
        let is_cut = part.cut().is_some() || part.is_hidden();
        let is_pinned = part.pins().next().is_some();
        // OpenCode shows a bare placeholder for what is cleared: pins and names have to be written out.
        let has_more = is_pinned || !part.names_of_result().is_empty();
        let is_changed = is_cut || part.names_of_input().is_some() || (has_more && part.cleared().is_some());
        if !is_changed {
            return true;
        }
        let view = &self.view;
        let is_shown = match &mut part.body {
            PartBody::Text(text) => {
                view.texts.get(&part.id).map(|shown| text.text = (*shown).clone()).is_some()
            }
            PartBody::File(_) => match view.texts.get(&part.id) {
                Some(text) => {
                    *part = synthetic(part.id.to_string(), (*text).clone());
                    true
                }
                None => !part.is_hidden(),
            },
            PartBody::Reasoning(_) => view.thoughts.contains(&part.id),
            PartBody::Tool(tool) => {
                let call = view.calls.get(&part.id);
                if let Some(input) = call {
                    tool.state.input = Some((*input).clone());
                }
                if let Some((text, cleared)) = view.results.get(result) {
                    show_result(&mut tool.state, text, *cleared);
                }
                call.is_some()
            }
            _ => !part.is_hidden(),
        };
        self.cut += 1;
        // The text is what they made of it; applied again they would cut what is cut already.
        part.marks.retain(|mark| !matches!(mark.effect.name(), "cut" | "hide" | "clear" | "clear-input"));
        is_shown
    }
}

/// An output that is only cleared stays as it is: OpenCode knows that mark and keeps the output beside it.
fn show_result(state: &mut ToolState, text: &plimsoll::Text, cleared: bool) {
    match state.status {
        ToolStatus::Completed if cleared && is_bare_placeholder(text) && state.time.compacted.is_some() => {}
        ToolStatus::Completed => {
            state.output = Some(text.clone());
            state.time.compacted = None;
        }
        ToolStatus::Error => state.error = Some(text.clone()),
        _ => {}
    }
}
