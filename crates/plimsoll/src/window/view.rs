//! Builds a window from messages and their marks.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::inputs::{cut_input, map_strings};
use super::placeholder::{NAMES, PLACEHOLDER, PLACEHOLDER_WITH_HANDLE, placeholder_with_names};
use super::{
    Block, INTERRUPTED, MARKER_QUESTION, NO_OUTPUT, OPENING, PINNED, PROVIDER_BLOCK, Window, WindowMessage,
    WindowRole,
};
use crate::chars::{Chars, Text, cut_middle, head};
use crate::log::{
    Cut, FilePart, Input, Message, Part, PartBody, PartId, Role, ToolPart, ToolResultPart, ToolStatus, pins,
};
use crate::numbers::thousands;
use crate::pairs::{Place, is_lost, separate_pairs};
use crate::pivot::{Pivot, VisibleRange, messages_before};
use crate::policy::{ClearedView, Policy, SummaryAs};

/// Maximum length of the first line that stays of a text cleared from an input.
const FIRST_LINE: Chars = Chars(120);
/// Precedes a pinned text whose part is cut or cleared.
const PINNED_HERE: &str = "[Pinned, word for word]";
const USER_RAN_TOOL: &str = "The following tool was executed by the user";

impl Window {
    /// Builds the window over a log whose visible part is known.
    pub(crate) fn of_visible(messages: &[Message], visible: &VisibleRange, policy: &Policy) -> Window {
        let mut view = View::new(messages, &visible.places, policy);
        for &place in &visible.system {
            view.message(place);
        }
        if let Some(pivot) = visible.pivot {
            view.pivot(pivot);
        }
        let after_pivot = view.done.len();
        match (visible.pivot.and_then(|pivot| pivot.prompt), visible.places.first()) {
            (Some(prompt), _) => view.message(prompt),
            (None, Some(&first)) => view.reopen(first),
            (None, None) => {}
        }
        for &place in &visible.places {
            view.message(place);
        }
        // Done last, because only the finished window shows which pins are missing from it.
        let pins = view.pins_out_of_view();
        view.done.splice(after_pivot..after_pivot, pins);
        let pivot = visible.pivot.map(|pivot| messages[pivot.marker].info.id.clone());
        Window { messages: view.done, pivot }
    }
}

/// Builds the window message by message.
struct View<'a> {
    messages: &'a [Message],
    policy: &'a Policy,
    /// For each separate call its separate result, and the results that have a call.
    pairs: BTreeMap<Place, Place>,
    answered: BTreeSet<Place>,
    ids: BTreeSet<Cow<'a, str>>,
    /// The last number that was added to a duplicate call id.
    numbers: BTreeMap<String, u64>,
    /// Whether the conversation has begun: it has a message other than system messages.
    is_opened: bool,
    done: Vec<WindowMessage>,
}

/// Returns what messages add to the end of a window that shows something of the conversation before them.
pub(super) fn added(messages: &[Message], places: &[usize], policy: &Policy) -> Vec<WindowMessage> {
    let mut view = View { is_opened: true, ..View::new(messages, places, policy) };
    places.iter().for_each(|place| view.message(*place));
    view.done
}

impl<'a> View<'a> {
    fn new(messages: &'a [Message], places: &[usize], policy: &'a Policy) -> View<'a> {
        let pairs = separate_pairs(messages, places);
        let answered = pairs.values().copied().collect();
        let (ids, numbers) = Default::default();
        // Reserves two entries per message (an answer and its results): growing the list step by step took most of
        // the time in long sessions.
        let done = Vec::with_capacity(2 * places.len());
        View { messages, policy, pairs, answered, ids, numbers, is_opened: false, done }
    }

    fn push(&mut self, role: WindowRole, place: Option<usize>, mut blocks: Vec<Block>) {
        // Most messages have one block, and a list that grew has room for four.
        blocks.shrink_to_fit();
        // Providers reject a message without content, and one that consists only of reasoning.
        if blocks.iter().all(|block| matches!(block, Block::Reasoning { .. })) {
            return;
        }
        // Providers require the user to speak first, but a log may begin with the model.
        if !self.is_opened && matches!(role, WindowRole::Assistant | WindowRole::Tool) {
            self.done.push(said(WindowRole::User, OPENING));
        }
        self.is_opened |= role != WindowRole::System;
        let message = place.map(|place| self.messages[place].info.id.clone());
        self.done.push(WindowMessage { role, message, place, blocks, signed: 0 });
    }

    /// Returns pinned texts that are not shown in place: a summary replaced their messages, or they are never shown.
    fn pins_out_of_view(&self) -> Option<WindowMessage> {
        let mut pins: Vec<(&PartId, &Text)> =
            pins(self.messages).map(|(_, part, pin)| (&part.id, pin)).collect();
        if pins.is_empty() {
            return None;
        }
        // Only blocks of pinned parts are searched. Searching all blocks for all pins would be quadratic.
        let pinned: BTreeSet<&PartId> = pins.iter().map(|(part, _)| *part).collect();
        let mut shown: BTreeSet<(&PartId, &str)> = BTreeSet::new();
        for block in self.done.iter().flat_map(|message| &message.blocks) {
            let (Block::Text { text, part: Some(part) } | Block::Result { text, part, .. }) = block else {
                continue;
            };
            if let Some(part) = pinned.get(part) {
                let here = pins.iter().filter(|(of, pin)| of == part && text.contains(pin.as_str()));
                shown.extend(here.map(|(of, pin)| (*of, pin.as_str())));
            }
        }
        let mut listed = BTreeSet::new();
        pins.retain(|(part, pin)| !shown.contains(&(*part, pin.as_str())) && listed.insert(pin.as_str()));
        let text = |text: Text| Block::Text { text, part: None };
        let texts = std::iter::once(Text::from(PINNED)).chain(pins.iter().map(|(_, pin)| (*pin).clone()));
        let blocks = texts.map(text).collect();
        let message = WindowMessage { role: WindowRole::User, message: None, place: None, blocks, signed: 0 };
        (!pins.is_empty()).then_some(message)
    }

    fn pivot(&mut self, pivot: Pivot) {
        let (marker, summary) = (&self.messages[pivot.marker], &self.messages[pivot.summary]);
        let mut text = pivot.text(self.messages);
        let inside =
            summary.parts.iter().find(|part| part.as_compaction().is_some_and(|m| m.summary.is_some()));
        let text_part = inside.or_else(|| first_text(summary));
        if let Some(part) = text_part {
            text = self.cut(part, &text);
        }
        let part = text_part.map(|part| part.id.clone());
        match self.policy.compact.summary_as {
            SummaryAs::Marker => {
                let question = Block::Text { text: Text::from(MARKER_QUESTION), part: None };
                self.push(WindowRole::User, Some(pivot.marker), vec![question]);
                self.push(WindowRole::Assistant, Some(pivot.summary), vec![Block::Text { text, part }]);
            }
            SummaryAs::System => {
                let count = marker.marker().and_then(|part| part.messages);
                let count = count.unwrap_or_else(|| messages_before(self.messages, pivot.start()) as u64);
                let tokens = marker.marker().and_then(|part| part.tokens);
                let tokens = tokens.map(|tokens| format!(", {tokens} tokens")).unwrap_or_default();
                let text = format!(
                    "[Previous conversation compacted]\n\n{text}\n\n[End of compacted summary - {count} messages{tokens}]"
                );
                let blocks = vec![Block::Text { text: Text::from(text), part }];
                self.push(WindowRole::System, Some(pivot.summary), blocks);
            }
        }
    }

    fn reopen(&mut self, first: usize) {
        if let Some((turn, text)) = lead_of(self.messages, first, self.policy) {
            // Marks on the prompt also cut the lead, so that every window can be made smaller.
            let part = first_text(&self.messages[turn]).map(|part| part.id.clone());
            self.push(WindowRole::User, Some(turn), vec![Block::Text { text, part }]);
        }
    }

    fn message(&mut self, place: usize) {
        let message = &self.messages[place];
        match &message.info.role {
            Some(Role::Assistant) => self.assistant(place),
            Some(Role::System) => self.plain(WindowRole::System, place),
            _ => self.plain(WindowRole::User, place),
        }
    }

    fn plain(&mut self, role: WindowRole, place: usize) {
        let message = &self.messages[place];
        let parts = message.parts.iter().enumerate().filter(|(_, part)| !is_out(part));
        let blocks = parts.filter_map(|(index, part)| match &part.body {
            _ if is_replaced(part) => self.stand_in(part),
            PartBody::Text(_) => self.text(part),
            PartBody::ToolResult(result) => self.orphan((place, index), part, result),
            PartBody::File(file) if role == WindowRole::User => shown_file(part, file),
            PartBody::Other(kind) if kind == "subtask" => {
                Some(Block::Text { text: Text::from(USER_RAN_TOOL), part: Some(part.id.clone()) })
            }
            _ => None,
        });
        let mut blocks: Vec<Block> = blocks.collect();
        if !blocks.is_empty() {
            // The summary covers the messages that it replaces.
            let is_missed = |part: &&Part| is_out(part) && part.replaced().is_none();
            blocks.extend(left_out(message, message.parts.iter().filter(is_missed).count()));
        }
        self.push(role, Some(place), blocks);
    }

    /// Adds an assistant message. It is one answer of the model, or several if the source marks the beginnings of
    /// steps. Text between two calls of one answer stays there: the answer is sent back unchanged, with its results
    /// after it.
    fn assistant(&mut self, place: usize) {
        let message = &self.messages[place];
        if is_lost(message) {
            return;
        }
        let mut step = AnswerStep::default();
        for (index, part) in message.parts.iter().enumerate() {
            if part.replaced().is_some() {
                // A call that a summary replaces keeps its id, so that later calls of the same id are numbered as before.
                match &part.body {
                    PartBody::Tool(tool) => drop(self.unique(&tool.call_id)),
                    PartBody::ToolCall(call) => drop(self.unique(&call.call_id)),
                    _ => {}
                }
            }
            if is_out(part) && !matches!(part.body, PartBody::Reasoning(_)) {
                step.hidden += usize::from(part.replaced().is_none());
                continue;
            }
            match &part.body {
                _ if is_replaced(part) => step.blocks.extend(self.stand_in(part).map(|block| (block, true))),
                PartBody::Text(_) => step.blocks.extend(self.text(part).map(|block| (block, true))),
                PartBody::Reasoning(reasoning) => {
                    let metadata = part.extra.get("metadata").cloned();
                    if reasoning.text.is_empty() && metadata.is_none() {
                        continue;
                    }
                    step.signed += usize::from(metadata.is_some());
                    // A signature covers the whole text, so reasoning cannot be cut: a cut removes it.
                    let is_kept = part.cut().is_none() && !part.is_hidden();
                    let with_calls = metadata.is_some();
                    let text = reasoning.text.clone();
                    let block = Block::Reasoning { text, metadata, part: part.id.clone() };
                    if is_kept || with_calls {
                        step.blocks.push((block, is_kept));
                    }
                }
                PartBody::Tool(tool) => {
                    let id = self.unique(&tool.call_id);
                    let input = tool.state.input.clone();
                    step.call(self.call(&id, &tool.tool, input, part));
                    step.results.push(self.result_of_tool(&id, part, tool));
                }
                PartBody::ToolCall(call) => {
                    let id = self.unique(&call.call_id);
                    step.call(self.call(&id, &call.tool, call.input.clone(), part));
                    step.results.push(self.result_of_call((place, index), &id, &call.tool, part));
                }
                PartBody::ToolResult(result) => {
                    if let Some(block) = self.orphan((place, index), part, result) {
                        self.flush(&mut step, place);
                        self.push(WindowRole::User, Some(place), vec![block]);
                    }
                }
                PartBody::Other(kind) if kind == "step-start" => self.flush(&mut step, place),
                PartBody::Other(kind) if kind == PROVIDER_BLOCK => {
                    step.blocks.extend(provider_block(part).map(|block| (block, true)));
                }
                _ => {}
            }
        }
        self.flush(&mut step, place);
    }

    fn flush(&mut self, step: &mut AnswerStep, place: usize) {
        let AnswerStep { blocks, results, signed, hidden } = std::mem::take(step);
        // Hidden reasoning stays as long as a call does that it led to: providers reject the
        // call without it.
        let calls = !results.is_empty();
        let kept = blocks.into_iter().filter(|(_, is_kept)| *is_kept || calls).map(|(block, _)| block);
        let mut said: Vec<Block> = kept.collect();
        let is_thought = |block: &Block| matches!(block, Block::Reasoning { .. });
        // Providers require an answer that calls tools to begin with its reasoning.
        if calls
            && signed > 0
            && let Some(first) = said.iter().position(is_thought)
        {
            said[..=first].rotate_right(1);
        }
        let after_thoughts = said.iter().position(|block| !is_thought(block)).unwrap_or(said.len());
        if let Some(notice) = left_out(&self.messages[place], hidden).filter(|_| !said.is_empty()) {
            // After the reasoning, because providers require reasoning to come first.
            said.insert(after_thoughts, notice);
        }
        let before = self.done.len();
        self.push(WindowRole::Assistant, Some(place), said);
        if let Some(message) = self.done.get_mut(before..).and_then(<[_]>::last_mut) {
            message.signed = if calls { signed } else { 0 };
        }
        self.push(WindowRole::Tool, Some(place), results);
    }

    fn text(&self, part: &Part) -> Option<Block> {
        let PartBody::Text(said) = &part.body else { return None };
        if said.ignored == Some(true) || said.text.trim().is_empty() {
            return None;
        }
        let text =
            if part.is_hidden() { with_pins(part, Text::default()) } else { self.cut(part, &said.text) };
        Some(Block::Text { text, part: Some(part.id.clone()) })
    }

    /// Returns the block that replaces a part.
    fn stand_in(&self, part: &Part) -> Option<Block> {
        let text = self.cut(part, part.replaced().filter(|_| !part.is_hidden())?);
        Some(Block::Text { text: with_pins(part, text), part: Some(part.id.clone()) })
    }

    fn call(&self, id: &str, tool: &str, input: Option<Input>, part: &Part) -> Block {
        let input = input.unwrap_or_else(|| json!({}).into());
        let input = match (part.names_of_input(), part.cut()) {
            (Some(names), _) => self.cleared_input(&input, names, part),
            (None, Some(cut)) if input.json().chars() > cut.keep() => {
                cut_input(&input, cut.keep(), self.policy.shed.head_share)
            }
            (None, _) => input,
        };
        Block::Call { id: id.to_owned(), tool: tool.to_owned(), input, part: part.id.clone() }
    }

    fn result_of_tool(&self, id: &str, part: &Part, tool: &ToolPart) -> Block {
        let state = &tool.state;
        let interrupted = !state.status.is_final();
        // A host may keep the output of an interrupted tool in its metadata. It says more than the error.
        let partial = state.extra.get("metadata").filter(|m| m.get("interrupted") == Some(&json!(true)));
        let partial = partial.and_then(|m| m.get("output")?.as_str()).map(Text::from);
        let text = match (interrupted, partial) {
            (true, _) => Text::from(INTERRUPTED),
            (false, Some(partial)) if state.status == ToolStatus::Error => partial,
            _ => state.result().cloned().unwrap_or_default(),
        };
        let failed = interrupted || state.status == ToolStatus::Error;
        self.result(id, &tool.tool, part, text, failed, Arc::clone(&state.attachments))
    }

    fn result_of_call(&self, call: Place, id: &str, tool: &str, call_part: &Part) -> Block {
        let found = self.pairs.get(&call).map(|&(place, index)| &self.messages[place].parts[index]);
        match found.map(|part| (part, &part.body)) {
            Some((part, PartBody::ToolResult(result))) => {
                let failed = result.is_error == Some(true);
                self.result(id, tool, part, result.text.clone(), failed, Arc::default())
            }
            _ => self.result(id, tool, call_part, Text::from(INTERRUPTED), true, Arc::default()),
        }
    }

    fn result(
        &self,
        id: &str,
        tool: &str,
        part: &Part,
        text: Text,
        is_error: bool,
        files: Arc<Vec<Value>>,
    ) -> Block {
        let cleared = part.cleared().is_some() || part.is_hidden();
        let (text, files) = match (cleared, self.policy.prune.view) {
            (false, _) => (self.cut(part, &text), files),
            (true, ClearedView::Clear) => (with_pins(part, self.placeholder(part)), Arc::default()),
            (true, ClearedView::Retain) => (self.cut(part, &self.retained(text)), files),
        };
        let text = if text.is_empty() { Text::from(NO_OUTPUT) } else { text };
        let (id, tool) = (id.to_owned(), tool.to_owned());
        Block::Result { id, tool, text, is_error, files, cleared, part: part.id.clone() }
    }

    fn placeholder(&self, part: &Part) -> Text {
        // Most of a long window can be placeholders.
        static BARE: LazyLock<Text> = LazyLock::new(|| Text::from(PLACEHOLDER));
        match self.policy.prune.name_handle {
            true => {
                let placeholder = format!("{PLACEHOLDER_WITH_HANDLE}{}]", part.id);
                Text::from(placeholder_with_names(&placeholder, part))
            }
            false if part.names_of_result().is_empty() => BARE.clone(),
            false => Text::from(placeholder_with_names(PLACEHOLDER, part)),
        }
    }

    /// Returns an input of the same shape whose long texts are reduced to their first line and a placeholder. The names
    /// follow the first one.
    fn cleared_input(&self, input: &Input, names: &Text, part: &Part) -> Input {
        let mut names = Some(names).filter(|names| !names.is_empty());
        map_strings(input.value(), &mut |text| {
            let chars = Chars::of(text);
            if chars < self.policy.prune.min_input_chars {
                return None;
            }
            let first = head(text.lines().next().unwrap_or_default(), FIRST_LINE);
            let gone = thousands((chars - Chars::of(first)).0);
            let mut shown = format!("{first}\n[{gone} more characters cleared; recall {}:input]", part.id);
            if let Some(names) = names.take() {
                shown.push_str(&format!("\n{NAMES}{names}"));
            }
            Some(shown)
        })
        .into()
    }

    fn retained(&self, text: Text) -> Text {
        let keep = self.policy.prune.retain_chars;
        if text.chars() <= keep {
            return text;
        }
        Text::from(format!("{}\n\n[Output pruned: kept first {} chars]", head(&text, keep), keep.0))
    }

    /// Shows a result whose call is missing, or has another result already, as text.
    fn orphan(&self, place: Place, part: &Part, result: &ToolResultPart) -> Option<Block> {
        if self.answered.contains(&place) || result.text.trim().is_empty() {
            return None;
        }
        let cleared = part.cleared().is_some() || part.is_hidden();
        let text =
            if cleared { with_pins(part, self.placeholder(part)) } else { self.cut(part, &result.text) };
        let name = result.tool.as_deref().map(|tool| format!(" of {tool}")).unwrap_or_default();
        let text = Text::from(format!("[Tool result{name}]\n{text}"));
        Some(Block::Text { text, part: Some(part.id.clone()) })
    }

    fn cut(&self, part: &Part, text: &Text) -> Text {
        match part.cut() {
            Some(cut) => with_pins(part, cut_middle(text, cut.keep(), self.policy.shed.head_share)),
            None => text.clone(),
        }
    }

    /// Makes a call id unique by adding a number: providers reject duplicates.
    fn unique(&mut self, call_id: &'a str) -> Cow<'a, str> {
        let stem = if call_id.is_empty() { "call" } else { call_id };
        let mut id = Cow::Borrowed(stem);
        while !self.ids.insert(id.clone()) {
            let number = self.numbers.entry(stem.to_owned()).or_insert(1);
            *number += 1;
            id = Cow::Owned(format!("{stem}_{number}"));
        }
        id
    }
}

/// Returns the prompt that leads a tail which begins in the middle of a turn, so that no
/// answer appears without its question: its place and its text, cut to the limit for a lead.
pub(crate) fn lead_of(messages: &[Message], first: usize, policy: &Policy) -> Option<(usize, Text)> {
    if !messages[first].is_assistant() {
        return None;
    }
    // If that prompt is hidden, there is no lead: the tail does not answer an older question, and
    // hiding a short prompt could show a long one instead, so that the window would grow.
    let turn = messages[..first].iter().rposition(Message::is_question)?;
    let part = first_text(&messages[turn]);
    let stands_in = part.and_then(Part::replaced).map(|text| text.to_string());
    let words = stands_in.unwrap_or_else(|| messages[turn].text());
    if words.trim().is_empty() || part.is_some_and(Part::is_hidden) {
        return None;
    }
    let cut = part.and_then(Part::cut).map(Cut::keep);
    let limit = cut.map_or(policy.compact.result_chars, |keep| keep.min(policy.compact.result_chars));
    Some((turn, cut_middle(&Text::from(words), limit, policy.shed.head_share)))
}

fn first_text(message: &Message) -> Option<&Part> {
    message.parts.iter().find(|part| matches!(part.body, PartBody::Text(_)))
}

/// Answer of an assistant: reasoning, text and calls in order, and their results.
#[derive(Default)]
struct AnswerStep {
    /// Each block, and whether it stays if no call does.
    blocks: Vec<(Block, bool)>,
    results: Vec<Block>,
    signed: usize,
    /// Number of hidden parts.
    hidden: usize,
}

impl AnswerStep {
    fn call(&mut self, block: Block) {
        self.blocks.push((block, true));
    }
}

/// Returns whether a part is hidden completely. Of a part with pins, the pinned texts stay.
fn is_out(part: &Part) -> bool {
    part.is_hidden() && part.pins().next().is_none()
}

/// Returns whether another text is shown instead of a part.
fn is_replaced(part: &Part) -> bool {
    part.replaced().is_some_and(|text| !text.is_empty())
}

/// Adds the pinned texts of a part to what is shown of it.
fn with_pins(part: &Part, shown: Text) -> Text {
    let mut missing = part.pins().filter(|pin| !shown.contains(pin.as_str())).peekable();
    if missing.peek().is_none() {
        return shown;
    }
    let mut text = shown.as_str().to_owned();
    for pin in missing {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(PINNED_HERE);
        text.push('\n');
        text.push_str(pin);
    }
    Text::from(text)
}

/// Creates a notice about hidden parts of a message with their handle.
fn left_out(message: &Message, parts: usize) -> Option<Block> {
    if parts == 0 {
        return None;
    }
    let plural = if parts == 1 { "part" } else { "parts" };
    let text = format!("[{parts} {plural} of this message left out to fit; recall {}]", message.info.id);
    Some(Block::Text { text: Text::from(text), part: None })
}

fn said(role: WindowRole, text: &str) -> WindowMessage {
    let blocks = vec![Block::Text { text: Text::from(text), part: None }];
    WindowMessage { role, message: None, place: None, blocks, signed: 0 }
}

/// Shows a provider's block completely or not at all, because its structure is unknown.
fn provider_block(part: &Part) -> Option<Block> {
    let value = part.extra.get("block").filter(|_| part.cut().is_none() && !part.is_hidden())?;
    Some(Block::Provider { value: value.clone().into(), part: part.id.clone() })
}

/// Text files and directories were inlined as text when they were attached.
fn shown_file(part: &Part, file: &FilePart) -> Option<Block> {
    if matches!(file.mime.as_deref(), Some("text/plain" | "application/x-directory")) {
        return None;
    }
    let FilePart { mime, filename, url } = file.clone();
    if part.cut().is_some() {
        let (mime, name) = (mime.unwrap_or("file".into()), filename.unwrap_or("unnamed".into()));
        let text = Text::from(format!("[Attached {mime}: {name}, left out to fit the window]"));
        return Some(Block::Text { text, part: Some(part.id.clone()) });
    }
    Some(Block::File { mime, filename, url, part: part.id.clone() })
}
