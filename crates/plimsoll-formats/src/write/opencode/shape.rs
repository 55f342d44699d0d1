//! Converts the log so that OpenCode's own rules show the same as the window.
//!
//! OpenCode supports cleared outputs, and a summary with a tail after it. It does not support texts that were cut or
//! left out, pins, the prompt that is kept between summary and tail, and undone summaries. These are written as the
//! window shows them.
//!
//! A log is iterated several times and never held: [`Shape::of`] keeps messages that depend on others or were reduced,
//! and [`Shape::each`] converts one message after the other by the window over those.

use std::collections::{BTreeMap, HashMap, HashSet};

use plimsoll::log::{CompactionPart, ToolPart, ToolResultPart};
use plimsoll::window::is_bare_placeholder;
use plimsoll::{
    Block, Message, MessageId, Part, PartBody, PartId, Pivot, Policy, Role, ToolState, ToolStatus,
    VisibleRange, Window,
};
use serde_json::{Value, json};

use super::names::StoredReduction;
use crate::write::{ConversionLoss, EachMessage};

/// Data about a log that is needed to convert its first message.
pub(super) struct Shape {
    view: View,
    /// Index of the first visible message, and later messages that only carry a compaction.
    start: usize,
    scaffolding: HashSet<usize>,
    pivot: Option<PlacedPivot>,
    /// Messages that come before the tail, and the index of the message that they precede.
    lead: Vec<Message>,
    lead_at: Option<usize>,
    undone: HashSet<MessageId>,
    results: HashMap<String, (PartId, ToolResultPart)>,
    /// Number of messages, and of those from the host.
    messages: usize,
    systems: usize,
    /// Messages of the host after the last user message.
    trailing: Option<Trailing>,
    /// Reductions in effect, oldest message first.
    pub(super) reductions: Vec<StoredReduction>,
}

/// The newest pivot, by indices in the log.
#[derive(Clone, Copy)]
struct PlacedPivot {
    marker: usize,
    summary: usize,
    tail: Option<usize>,
}

/// System messages that are not followed by a user message.
struct Trailing {
    texts: Vec<String>,
    /// Index of the written message that includes them; `None` if they need a separate one.
    with: Option<usize>,
}

/// Messages that are held for converting others, by index.
#[derive(Default)]
struct HeldMessages {
    messages: BTreeMap<usize, Message>,
    places: HashMap<MessageId, usize>,
    /// Whether the last user message is a marker.
    is_behind_marker: bool,
}

impl HeldMessages {
    fn see(&mut self, place: usize, message: Message) {
        self.places.insert(message.info.id.clone(), place);
        let is_scaffold = message.marker().is_some() || message.info.summary;
        // A summary without a parent answers the marker before it, unless a user message came between.
        let ends_marker = message.is_user() && self.is_behind_marker;
        if message.is_user() {
            self.is_behind_marker = message.marker().is_some();
        }
        if is_scaffold || ends_marker || is_special(&message) {
            self.messages.insert(place, message);
        }
    }

    /// Returns the newest pivot, and the indices of the tails and prompts of all pivots.
    fn pivot(&self) -> (Option<PlacedPivot>, HashSet<usize>) {
        let markers = self.messages.iter().filter_map(|(place, message)| Some((*place, message.marker()?)));
        let named = markers.flat_map(|(place, marker)| {
            let before = move |id: &MessageId| self.places.get(id).copied().filter(|at| *at < place);
            marker.tail_start.iter().chain(&marker.prompt).filter_map(before)
        });
        let named: HashSet<usize> = named.collect();
        // Only the ids of tails and prompts matter here.
        let mut stubs: BTreeMap<usize, Message> = self.messages.clone();
        let ids = self.places.iter().filter(|(_, place)| named.contains(place));
        for (id, place) in ids {
            stubs.entry(*place).or_insert_with(|| Message::assistant(id.clone(), Vec::new()));
        }
        let (places, stubs): (Vec<usize>, Vec<Message>) = stubs.into_iter().unzip();
        let placed = Pivot::newest(&stubs).map(|pivot| PlacedPivot {
            marker: places[pivot.marker],
            summary: places[pivot.summary],
            tail: pivot.tail.map(|tail| places[tail]),
        });
        (placed, named)
    }
}

/// Whether a message is written differently depending on the window: it was reduced, or has calls and results as
/// separate parts.
fn is_special(message: &Message) -> bool {
    message.parts.iter().any(|part| {
        let is_separate = matches!(part.body, PartBody::ToolCall(_) | PartBody::ToolResult(_));
        is_separate || !part.marks.is_empty() || part.cleared().is_some()
    })
}

impl Shape {
    /// Reads a log whose messages have unique ids, like those of a [`Log`](plimsoll::Log).
    pub(super) fn of<E>(each: EachMessage<'_, E>) -> Result<Shape, E> {
        let (mut held, mut messages, mut systems) = (HeldMessages::default(), 0, 0);
        each(&mut |message| {
            systems += usize::from(message.info.role == Some(Role::System));
            held.see(messages, message);
            messages += 1;
        })?;
        let (pivot, named) = held.pivot();
        let HeldMessages { messages: mut kept, .. } = held;
        let start = pivot.map_or(0, |pivot| pivot.tail.unwrap_or(pivot.marker));
        if pivot.is_some() {
            keep_beginning(each, &mut kept, &named, start)?;
        }
        let (places, kept): (Vec<usize>, Vec<Message>) = kept.into_iter().unzip();
        let visible = VisibleRange::of(&kept);
        let window = Window::of(&kept, &Policy::default());
        let in_view: HashSet<usize> = visible.places.iter().map(|place| places[*place]).collect();
        let marks = kept.iter().flat_map(|message| &message.parts).flat_map(|part| &part.marks);
        let mut shape = Shape {
            view: View::of(&window),
            start,
            scaffolding: places.iter().copied().filter(|place| !in_view.contains(place)).collect(),
            pivot,
            lead: lead(&window, &visible),
            lead_at: pivot.map(|pivot| pivot.tail.unwrap_or(pivot.summary + 1)),
            undone: undone(&kept),
            results: results(&kept),
            messages,
            systems,
            trailing: None,
            reductions: marks.filter_map(StoredReduction::of).collect(),
        };
        if systems > 0 {
            let (mut last_user, mut count) = (None, 0);
            let (_, texts) = shape.each(each, &mut |message| {
                last_user = if message.is_user() { Some(count) } else { last_user };
                count += 1;
            })?;
            shape.trailing = (!texts.is_empty()).then_some(Trailing { texts, with: last_user });
        }
        Ok(shape)
    }

    /// Passes on the messages to write. Returns what is missing from them, and the messages of the host after all user
    /// messages.
    pub(super) fn each<E>(
        &self,
        each: EachMessage<'_, E>,
        sink: &mut dyn FnMut(Message),
    ) -> Result<(Vec<ConversionLoss>, Vec<String>), E> {
        let mut shaping = Shaper { shape: self, used: HashSet::new(), cut: 0 };
        let (mut place, mut count, mut system) = (0, 0, Vec::new());
        let mut put = |mut message: Message| {
            if let Some(Trailing { texts, with }) = &self.trailing
                && *with == Some(count)
            {
                put_system(&mut message, &mut texts.clone());
            }
            count += 1;
            sink(message);
        };
        if let Some(Trailing { texts, with: None }) = &self.trailing {
            let mut message = Message::user("msg_system".into(), "prt_system".into(), "");
            message.parts.clear();
            put_system(&mut message, &mut texts.clone());
            put(message);
        }
        each(&mut |message| {
            // Messages that were appended meanwhile are not part of the export.
            if place >= self.messages {
                return;
            }
            if self.lead_at == Some(place) {
                self.lead.iter().cloned().for_each(&mut put);
            }
            place += 1;
            if self.undone.contains(&message.info.id) {
                return;
            }
            if message.info.role == Some(Role::System) {
                system.push(message.text());
                return;
            }
            let Some(mut message) = shaping.message(place - 1, message) else { return };
            if let Some(pivot) = self.pivot.filter(|pivot| pivot.marker == place - 1) {
                begin_tail(&mut message, &self.lead, pivot);
            }
            if message.info.role != Some(Role::Assistant) {
                if message.info.role != Some(Role::User) {
                    message.info.role = Some(Role::User);
                }
                put_system(&mut message, &mut system);
            }
            let inside = inside_summary(&mut message);
            put(message);
            inside.into_iter().for_each(&mut put);
        })?;
        if self.lead_at.is_some_and(|at| at >= place) {
            self.lead.iter().cloned().for_each(&mut put);
        }
        let lost = [
            ConversionLoss::new(self.undone.len() / 2, "undone summary", "undone summaries"),
            ConversionLoss::new(
                shaping.cut,
                "text beyond what the window shows of it",
                "texts beyond what the window shows of them",
            ),
            ConversionLoss::new(
                self.systems,
                "system message (kept, but not sent)",
                "system messages (kept, but not sent)",
            ),
        ];
        Ok((lost.into_iter().flatten().collect(), system))
    }

    fn is_in_view(&self, place: usize) -> bool {
        place >= self.start && !self.scaffolding.contains(&place)
    }
}

/// Keeps the messages at the beginning of the window after a pivot: the tail's first message, the question that it
/// answers, and the messages that markers refer to.
fn keep_beginning<E>(
    each: EachMessage<'_, E>,
    kept: &mut BTreeMap<usize, Message>,
    named: &HashSet<usize>,
    start: usize,
) -> Result<(), E> {
    let (mut place, mut question, mut first) = (0, None, None);
    each(&mut |message| {
        let only_carries = message.marker().is_some() || message.info.summary;
        if first.is_none() && place >= start && !only_carries {
            first = Some((place, message.clone()));
        } else if first.is_none() && message.is_question() {
            question = Some((place, message.clone()));
        }
        if named.contains(&place) {
            kept.insert(place, message);
        }
        place += 1;
    })?;
    kept.extend(question.into_iter().chain(first));
    Ok(())
}

/// Returns the markers of undone compactions and their summaries: OpenCode would use them.
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

/// Returns what the window shows between summary and tail: pins, the prompt, the question that the tail answers.
fn lead(window: &Window, visible: &VisibleRange) -> Vec<Message> {
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

/// Creates a text of the host, not the user.
fn synthetic(id: String, text: plimsoll::Text) -> Part {
    let mut part = Part::text(PartId::new(id), text);
    if let PartBody::Text(text) = &mut part.body {
        text.synthetic = Some(true);
    }
    part.extra.insert("metadata".into(), json!({ "plimsoll": { "copy": true } }));
    part
}

/// Sets the tail of a marker to the messages that precede it.
fn begin_tail(marker: &mut Message, lead: &[Message], pivot: PlacedPivot) {
    let first = lead.first().filter(|_| pivot.tail.is_some());
    for part in &mut marker.parts {
        if let (PartBody::Compaction(marker), Some(first)) = (&mut part.body, first) {
            marker.tail_start = Some(first.info.id.clone());
            marker.prompt = None;
        }
    }
}

/// Moves a summary out of its marker into a separate message, where OpenCode expects it.
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

/// Moves system messages to the user message, where OpenCode has them.
fn put_system(message: &mut Message, system: &mut Vec<String>) {
    if !system.is_empty() {
        let mut said = std::mem::take(system);
        // At the end of a session, the last user message may already have some.
        if let Some(known) = message.info.extra.get("system").and_then(Value::as_str) {
            said.insert(0, known.to_owned());
        }
        message.info.extra.insert("system".into(), said.join("\n\n").into());
    }
}

/// Returns results that are separate parts, by their calls.
fn results(messages: &[Message]) -> HashMap<String, (PartId, ToolResultPart)> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let results = parts.filter_map(|part| match &part.body {
        PartBody::ToolResult(result) => Some((result.call_id.clone(), (part.id.clone(), result.clone()))),
        _ => None,
    });
    results.collect()
}

/// Visible content of each part.
#[derive(Default)]
struct View {
    texts: HashMap<PartId, plimsoll::Text>,
    calls: HashMap<PartId, plimsoll::log::Input>,
    results: HashMap<PartId, (plimsoll::Text, bool)>,
    thoughts: HashSet<PartId>,
    /// Notices in messages with hidden parts.
    notices: HashMap<MessageId, plimsoll::Text>,
    shown: HashSet<MessageId>,
}

impl View {
    fn of(window: &Window) -> View {
        let mut view = View::default();
        for message in &window.messages {
            view.shown.extend(message.message.clone());
            for block in &message.blocks {
                match (block, &message.message) {
                    (Block::Text { text, part: Some(part) }, _) => {
                        view.texts.insert(part.clone(), text.clone());
                    }
                    (Block::Text { text, part: None }, Some(id)) => {
                        view.notices.insert(id.clone(), text.clone());
                    }
                    (Block::Call { input, part, .. }, _) => {
                        view.calls.insert(part.clone(), input.clone());
                    }
                    (Block::Result { text, part, cleared, .. }, _) => {
                        view.results.insert(part.clone(), (text.clone(), *cleared));
                    }
                    (Block::Reasoning { part, .. }, _) => {
                        view.thoughts.insert(part.clone());
                    }
                    _ => {}
                }
            }
        }
        view
    }
}

/// A pass over the log that converts it.
struct Shaper<'a> {
    shape: &'a Shape,
    /// Calls that were joined with their results.
    used: HashSet<String>,
    /// Number of texts of which more is stored than written.
    cut: usize,
}

impl Shaper<'_> {
    /// Converts a message; `None` if nothing of it is left.
    fn message(&mut self, place: usize, message: Message) -> Option<Message> {
        if !is_special(&message) {
            return Some(message);
        }
        let (shape, id) = (self.shape, &message.info.id);
        // A visible message may have no visible content: a range's summary is in one of its messages, and OpenCode must
        // not receive the others.
        let is_shown = shape.view.shown.contains(id) || shape.is_in_view(place);
        let mut parts = Vec::with_capacity(message.parts.len());
        for part in &message.parts {
            let mut part = part.clone();
            let mut result = part.id.clone();
            if let PartBody::ToolCall(call) = &part.body {
                let input = call.input.clone().unwrap_or_else(|| json!({}).into());
                let mut state = match shape.results.get(&call.call_id) {
                    Some((_, answer)) if answer.is_error == Some(true) => {
                        ToolState::failed(input, answer.text.clone())
                    }
                    Some((_, answer)) => ToolState::completed(input, answer.text.clone()),
                    None => ToolState::pending(input),
                };
                if let Some((id, answer)) = shape.results.get(&call.call_id) {
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
                // A result without a call becomes a text, which is what the model sees.
                let text = shape.view.texts.get(&part.id).unwrap_or(&answer.text).clone();
                part = Part::text(part.id, text);
            }
            if !is_shown || self.as_shown(&mut part, &result) {
                parts.push(part);
            }
        }
        if let Some(notice) =
            shape.view.notices.get(&message.info.id).filter(|_| parts.len() < message.parts.len())
        {
            parts.push(synthetic(format!("prt_left_{}", message.info.id), notice.clone()));
        }
        // Steps and snapshots are not content: a message with only these is left out.
        let is_behind = message.parts.iter().any(|part| part.replaced().is_some_and(|text| text.is_empty()));
        let is_empty = parts.iter().all(|part| matches!(part.body, PartBody::Other(_)));
        let is_left = !(is_shown && is_behind && is_empty) && (!parts.is_empty() || message.parts.is_empty());
        is_left.then(|| Message { parts: parts.into(), ..message })
    }

    /// Replaces the text of a visible part by that in the window. Returns whether the part is visible.
    fn as_shown(&mut self, part: &mut Part, result: &PartId) -> bool {
        if let (true, Some(text)) = (part.is_edited(), self.shape.view.texts.get(&part.id)) {
            self.cut += 1;
            if let PartBody::Text(said) = &mut part.body {
                said.text = text.clone();
                part.marks.clear();
                return true;
            }
        }
        if part.replaced().is_some() {
            // A summary replaces it or another part.
            self.cut += 1;
            let Some(text) = self.shape.view.texts.get(&part.id) else { return false };
            *part = synthetic(part.id.to_string(), text.clone());
            return true;
        }
        let is_cut = part.cut().is_some() || part.is_hidden();
        let is_pinned = part.pins().next().is_some();
        // OpenCode shows a plain placeholder for cleared outputs: pins and names must be written out.
        let has_more = is_pinned || !part.names_of_result().is_empty();
        let is_changed = is_cut || part.names_of_input().is_some() || (has_more && part.cleared().is_some());
        if !is_changed {
            return true;
        }
        let view = &self.shape.view;
        let is_shown = match &mut part.body {
            PartBody::Text(text) => view.texts.get(&part.id).map(|shown| text.text = shown.clone()).is_some(),
            PartBody::File(_) => match view.texts.get(&part.id) {
                Some(text) => {
                    *part = synthetic(part.id.to_string(), text.clone());
                    true
                }
                None => !part.is_hidden(),
            },
            PartBody::Reasoning(_) => view.thoughts.contains(&part.id),
            PartBody::Tool(tool) => {
                let call = view.calls.get(&part.id);
                if let Some(input) = call {
                    tool.state.input = Some(input.clone());
                }
                if let Some((text, cleared)) = view.results.get(result) {
                    show_result(&mut tool.state, text, *cleared);
                }
                call.is_some()
            }
            _ => !part.is_hidden(),
        };
        self.cut += 1;
        // The text is already reduced; applying the marks again would cut it again.
        part.marks.retain(|mark| !matches!(mark.effect.name(), "cut" | "hide" | "clear" | "clear-input"));
        is_shown
    }
}

/// A cleared output stays unchanged: OpenCode supports that mark and keeps the output with it.
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
