//! The window: what the model is given. A pure function of the log, its marks and the policy.
//!
//! Marker, summary, tail, later messages, in this order. The result is always a legal conversation, whatever
//! the log holds: it starts with a user's message, every tool call has exactly one result right after it, and
//! no message is empty. Appending to the log never changes what the window showed before, because provider
//! caches live on that; only a call that is still open is shown as interrupted until its result comes.

mod gained;
mod inputs;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use serde::Serialize;
use serde_json::{Value, json};
use thiserror::Error;

use crate::chars::{Chars, Text, cut_middle, head, thousands};
use crate::log::{
    Cut, FilePart, Input, Message, MessageId, Part, PartBody, PartId, Role, ToolPart, ToolResultPart,
    ToolStatus,
};
use crate::pairs::{Place, separate_pairs};
use crate::pin::pins;
use crate::pivot::{Pivot, Visible, messages_before};
use crate::policy::{ClearedView, Policy, SummaryAs};
pub(crate) use gained::gained;
use inputs::{cut_input, map_strings};

/// Stands in the window for a tool result that was cleared.
pub const PLACEHOLDER: &str = "[Old tool result content cleared]";
/// The same for a result whose part has a handle: what stands before the handle.
const PLACEHOLDER_WITH_HANDLE: &str = "[Old tool result content cleared; recall ";
/// Precedes the names that stay of a result or an input that was cleared.
const NAMES: &str = "Names in it: ";
/// How much of the first line of a text that is cleared from an input stays.
const FIRST_LINE: Chars = Chars(120);
/// Stands before texts that are pinned and whose messages are out of view.
pub const PINNED: &str = "Pinned earlier in this conversation, to be kept to word for word:";
/// Stands before a pinned text whose part is cut or cleared.
const PINNED_HERE: &str = "[Pinned, word for word]";
/// How a compaction marker reads to the model.
pub const MARKER_QUESTION: &str = "What did we do so far?";
/// The result of a call that never got one.
pub const INTERRUPTED: &str = "[Tool execution was interrupted]";
/// The result of a call that answered with nothing.
pub const NO_OUTPUT: &str = "(no output)";
/// Opens a conversation in which the model speaks first.
pub const OPENING: &str = "[The conversation starts with the assistant]";
const USER_RAN_TOOL: &str = "The following tool was executed by the user";

/// What the model is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// The conversation, oldest first.
    pub messages: Vec<WindowMessage>,
    /// The marker message of the pivot that stands at its beginning.
    pub pivot: Option<MessageId>,
}

/// One message of the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowMessage {
    /// Who speaks.
    pub role: WindowRole,
    /// The message of the log it comes from; none for text the window itself supplies.
    pub message: Option<MessageId>,
    /// Where that message stands in the log.
    #[serde(skip)]
    pub place: Option<usize>,
    /// What is said. Never empty.
    pub blocks: Vec<Block>,
    /// How many signed thoughts the provider gave with this answer. As long as any of its calls is shown, all of
    /// them must be.
    #[serde(skip)]
    pub signed: usize,
}

/// Who speaks in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WindowRole {
    /// The host.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The tools the message before has called.
    Tool,
}

/// One piece of a window message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Block {
    /// Words.
    Text {
        /// What is said; never blank.
        text: Text,
        /// The part it comes from.
        part: Option<PartId>,
    },
    /// Thoughts of the model, with what the provider needs to recognise them.
    Reasoning {
        /// What was thought.
        text: Text,
        /// The provider's own data, such as a signature. It is never changed.
        metadata: Option<Value>,
        /// The part it comes from.
        part: PartId,
    },
    /// A tool call.
    Call {
        /// Unique in the window.
        id: String,
        /// The tool.
        tool: String,
        /// What it is given.
        input: Input,
        /// The part it comes from.
        part: PartId,
    },
    /// The result of the call of the same id in the message before.
    Result {
        /// The call's id.
        id: String,
        /// The tool.
        tool: String,
        /// What it answered; never empty.
        text: Text,
        /// Whether the answer is an error.
        is_error: bool,
        /// Files that came with the answer.
        #[serde(skip_serializing_if = "no_files")]
        files: Arc<Vec<Value>>,
        /// Whether the real answer was cleared and this is what stands for it.
        cleared: bool,
        /// The part it comes from.
        part: PartId,
    },
    /// A block of the model's answer that the engine knows nothing of. It is given back to the provider that made it.
    Provider {
        /// The block, under the provider's name.
        value: Input,
        /// The part it comes from.
        part: PartId,
    },
    /// A file the user attached.
    File {
        /// Its media type.
        mime: Option<String>,
        /// Its name.
        filename: Option<String>,
        /// Where it is.
        url: Option<Text>,
        /// The part it comes from.
        part: PartId,
    },
}

/// The kind of a part that holds a provider's block as it came, in its field `block`.
pub const PROVIDER_BLOCK: &str = "provider-block";

fn no_files(files: &Arc<Vec<Value>>) -> bool {
    files.is_empty()
}

/// How a conversation breaks the rules of providers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("window message {at}: {rule}")]
pub struct Illegal {
    /// The place in the window.
    pub at: usize,
    /// The rule that is broken.
    pub rule: &'static str,
}

impl Window {
    /// The window over a log.
    ///
    /// ```
    /// use plimsoll::{Message, Policy, Window};
    /// let log = [Message::user("msg_1".into(), "prt_1".into(), "hello")];
    /// let window = Window::of(&log, &Policy::default());
    /// assert_eq!(window.messages.len(), 1);
    /// window.check()?;
    /// # Ok::<(), plimsoll::Illegal>(())
    /// ```
    pub fn of(messages: &[Message], policy: &Policy) -> Window {
        Window::of_visible(messages, &Visible::of(messages), policy)
    }

    /// The window over a log whose visible part is known.
    pub(crate) fn of_visible(messages: &[Message], visible: &Visible, policy: &Policy) -> Window {
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
        let pins = view.pins_out_of_view();
        view.done.splice(after_pivot..after_pivot, pins);
        let pivot = visible.pivot.map(|pivot| messages[pivot.marker].info.id.clone());
        Window { messages: view.done, pivot }
    }

    /// Whether this is a conversation that providers accept.
    pub fn check(&self) -> Result<(), Illegal> {
        let illegal = |at, rule| Err(Illegal { at, rule });
        let first = self.messages.iter().position(|message| message.role != WindowRole::System);
        if let Some(at) = first.filter(|at| self.messages[*at].role != WindowRole::User) {
            return illegal(at, "a conversation starts with a user's message");
        }
        let mut ids = BTreeSet::new();
        let mut open: Vec<&str> = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            if message.blocks.is_empty() {
                return illegal(at, "a message must not be empty");
            }
            if !open.is_empty() && message.role != WindowRole::Tool {
                return illegal(at - 1, "every call needs its result in the next message");
            }
            let mut results = Vec::new();
            let mut calls = Vec::new();
            for block in &message.blocks {
                match (message.role, block) {
                    (_, Block::Text { text, .. }) if text.trim().is_empty() => {
                        return illegal(at, "a text must not be blank");
                    }
                    (WindowRole::Assistant, Block::Call { id, .. }) => {
                        if !ids.insert(id.as_str()) {
                            return illegal(at, "call ids must be unique");
                        }
                        calls.push(id.as_str());
                    }
                    (WindowRole::Tool, Block::Result { id, text, .. }) => {
                        if text.is_empty() {
                            return illegal(at, "a result must not be empty");
                        }
                        results.push(id.as_str());
                    }
                    (WindowRole::Tool, _) => return illegal(at, "a tool message holds results only"),
                    (_, Block::Call { .. }) => return illegal(at, "only the assistant calls tools"),
                    (_, Block::Result { .. }) => return illegal(at, "results stand in tool messages"),
                    _ => {}
                }
            }
            if results != open {
                return illegal(at, "results must be those of the calls right before, each once");
            }
            let is_thought = |block: &&Block| matches!(block, Block::Reasoning { .. });
            if message.blocks.iter().all(|block| is_thought(&block)) {
                return illegal(at, "a message needs more than reasoning");
            }
            if !calls.is_empty() && message.signed > 0 {
                let is_signed = |block: &&Block| matches!(block, Block::Reasoning { metadata: Some(_), .. });
                if message.blocks.iter().filter(is_signed).count() != message.signed {
                    return illegal(at, "signed reasoning must be given back with the calls it led to");
                }
                if !message.blocks.first().is_some_and(|block| is_thought(&block)) {
                    return illegal(at, "the reasoning of a message that calls tools must come first");
                }
            }
            open = calls;
        }
        if open.is_empty() { Ok(()) } else { illegal(self.messages.len() - 1, "the last call has no result") }
    }
}

/// Builds the window message by message.
struct View<'a> {
    messages: &'a [Message],
    policy: &'a Policy,
    /// For each separate call its separate result, and the results that found their call.
    pairs: BTreeMap<Place, Place>,
    answered: BTreeSet<Place>,
    ids: BTreeSet<Cow<'a, str>>,
    /// The last number given to a call id that was taken.
    numbers: BTreeMap<String, u64>,
    /// Whether the conversation has begun: something other than a system message is in it.
    is_opened: bool,
    done: Vec<WindowMessage>,
}

impl<'a> View<'a> {
    fn new(messages: &'a [Message], places: &[usize], policy: &'a Policy) -> View<'a> {
        let pairs = separate_pairs(messages, places);
        let answered = pairs.values().copied().collect();
        let (ids, numbers) = Default::default();
        // An answer and its results are two. A list that grows step by step is the larger part of the time in a long session.
        let done = Vec::with_capacity(2 * places.len());
        View { messages, policy, pairs, answered, ids, numbers, is_opened: false, done }
    }

    fn push(&mut self, role: WindowRole, place: Option<usize>, mut blocks: Vec<Block>) {
        // Most messages have one block, and a list that grew has room for four.
        blocks.shrink_to_fit();
        if blocks.iter().all(|block| matches!(block, Block::Reasoning { .. })) {
            return;
        }
        if !self.is_opened && matches!(role, WindowRole::Assistant | WindowRole::Tool) {
            self.done.push(said(WindowRole::User, OPENING));
        }
        self.is_opened |= role != WindowRole::System;
        let message = place.map(|place| self.messages[place].info.id.clone());
        self.done.push(WindowMessage { role, message, place, blocks, signed: 0 });
    }

    /// Pinned texts that are not shown where they stand: their messages are behind a summary, or never shown.
    fn pins_out_of_view(&self) -> Option<WindowMessage> {
        let mut pins: Vec<(&PartId, &Text)> =
            pins(self.messages).map(|(_, part, pin)| (&part.id, pin)).collect();
        if pins.is_empty() {
            return None;
        }
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
        let mut told = BTreeSet::new();
        pins.retain(|(part, pin)| !shown.contains(&(*part, pin.as_str())) && told.insert(pin.as_str()));
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
            // Marks on the words cut the lead too, so that every window can be made smaller.
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
            // What a summary stands for is told by the summary.
            let is_missed = |part: &&Part| is_out(part) && part.replaced().is_none();
            blocks.extend(left_out(message, message.parts.iter().filter(is_missed).count()));
        }
        self.push(role, Some(place), blocks);
    }

    /// An assistant's message is one answer of the model, or several where the source marks where a step begins.
    /// What the model says between two calls of one answer stays between them: the answer is given back as it
    /// came, its results after it.
    fn assistant(&mut self, place: usize) {
        let message = &self.messages[place];
        if is_lost(message) {
            return;
        }
        let mut step = Step::default();
        for (index, part) in message.parts.iter().enumerate() {
            if part.replaced().is_some() {
                // A call behind a summary keeps its id, so that later calls of the same id are numbered as before.
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

    fn flush(&mut self, step: &mut Step, place: usize) {
        let Step { blocks, results, signed, hidden } = std::mem::take(step);
        // A thought that was to be left out stays as long as a call does that it led to: providers refuse the
        // call without it.
        let calls = !results.is_empty();
        let kept = blocks.into_iter().filter(|(_, is_kept)| *is_kept || calls).map(|(block, _)| block);
        let mut said: Vec<Block> = kept.collect();
        let is_thought = |block: &Block| matches!(block, Block::Reasoning { .. });
        // Providers want an answer that calls tools to begin with its reasoning.
        if calls
            && signed > 0
            && let Some(first) = said.iter().position(is_thought)
        {
            said[..=first].rotate_right(1);
        }
        let after_thoughts = said.iter().position(|block| !is_thought(block)).unwrap_or(said.len());
        if let Some(notice) = left_out(&self.messages[place], hidden).filter(|_| !said.is_empty()) {
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

    /// What stands in the place of a part.
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

    /// An input whose long texts are reduced to their first line and a placeholder, of the same shape as before. The names
    /// follow the first of them.
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

    /// A result whose call is not there, or has another result already, cannot stand as a result; it is told.
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

    /// Providers refuse a call id that occurs twice; a later one gets a number.
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

/// A tail that begins in the middle of a turn is led by the words of the user that the turn answers, so that no
/// answer stands without its question. Gives the place of that turn and the words, cut to what a lead may take.
pub(crate) fn lead_of(messages: &[Message], first: usize, policy: &Policy) -> Option<(usize, Text)> {
    if !messages[first].is_assistant() {
        return None;
    }
    // Where these words were left out, nothing leads: an older question would be one that the tail does not answer, and
    // leaving out a short one could put a long one in its place, so that the window grew.
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

/// One answer of an assistant: what it thinks, says and calls, in order, and what comes back.
#[derive(Default)]
struct Step {
    /// Each with whether it stays when no call does.
    blocks: Vec<(Block, bool)>,
    results: Vec<Block>,
    signed: usize,
    /// Parts that are left out.
    hidden: usize,
}

impl Step {
    fn call(&mut self, block: Block) {
        self.blocks.push((block, true));
    }
}

/// Whether a part is left out of the window. What is pinned stays, in as few words as can be.
fn is_out(part: &Part) -> bool {
    part.is_hidden() && part.pins().next().is_none()
}

/// Whether another text stands in the place of a part.
fn is_replaced(part: &Part) -> bool {
    part.replaced().is_some_and(|text| !text.is_empty())
}

/// What is shown of a part, completed by what is pinned of it.
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

/// Says that parts of a message are not shown, and how to bring them back.
fn left_out(message: &Message, parts: usize) -> Option<Block> {
    if parts == 0 {
        return None;
    }
    let plural = if parts == 1 { "part" } else { "parts" };
    let text = format!("[{parts} {plural} of this message left out to fit; recall {}]", message.info.id);
    Some(Block::Text { text: Text::from(text), part: None })
}

/// A placeholder, followed by the names that stay of the result it replaces.
pub(crate) fn placeholder_with_names(placeholder: &str, part: &Part) -> String {
    let names = part.names_of_result();
    if names.is_empty() { placeholder.to_owned() } else { format!("{placeholder}\n{NAMES}{names}") }
}

/// Whether a text is what the window shows instead of a cleared result.
pub fn is_placeholder(text: &str) -> bool {
    let first = text
        .split_once('\n')
        .map_or(text, |(first, names)| if names.starts_with(NAMES) { first } else { text });
    first == PLACEHOLDER || placeholder_handle(first).is_some()
}

/// Whether a text is a placeholder that keeps no names.
pub fn is_bare_placeholder(text: &str) -> bool {
    is_placeholder(text) && !text.contains('\n')
}

/// The handle that a placeholder names, if the text is one that names a handle.
///
/// ```
/// use plimsoll::window::placeholder_handle;
/// assert_eq!(placeholder_handle("[Old tool result content cleared; recall prt_1]"), Some("prt_1"));
/// assert_eq!(placeholder_handle("[Old tool result content cleared]"), None);
/// ```
pub fn placeholder_handle(text: &str) -> Option<&str> {
    let (first, names) = text.split_once('\n').unwrap_or((text, NAMES));
    first.strip_prefix(PLACEHOLDER_WITH_HANDLE)?.strip_suffix(']').filter(|_| names.starts_with(NAMES))
}

fn said(role: WindowRole, text: &str) -> WindowMessage {
    let blocks = vec![Block::Text { text: Text::from(text), part: None }];
    WindowMessage { role, message: None, place: None, blocks, signed: 0 }
}

/// An answer that failed is not shown, unless it was broken off after it had said or done something.
pub(crate) fn is_lost(message: &Message) -> bool {
    let Some(error) = &message.info.error else { return false };
    let aborted = error.get("name").and_then(Value::as_str) == Some("MessageAbortedError");
    let did_something = message.parts.iter().any(|part| match &part.body {
        PartBody::Reasoning(_) => false,
        PartBody::Other(kind) => kind != "step-start",
        _ => true,
    });
    !(aborted && did_something)
}

/// Nothing is known of it but that it is whole, so it is shown whole or not at all.
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
