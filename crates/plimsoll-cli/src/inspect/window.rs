//! What is in the window now, item by item.

use std::collections::BTreeMap;

use plimsoll::compact::extract::paths;
use plimsoll::compact::facts::{ReadLines, SeenLines, ShellReads, file_reads, is_typed};
use plimsoll::count::block_tokens;
use plimsoll::{
    Block, Counter, Message, Part, PartBody, PartId, Policy, Tokens, ToolState, Window, WindowMessage,
    WindowRole,
};
use serde::Serialize;

use super::ranking::{Ranking, Share};
use super::scale::is_prompt;
use crate::about::{Describer, first_words};

/// How many items are listed for machines; people are shown as many as fit.
const MOST_ITEMS: usize = 20;

/// What is in the window.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WindowReport {
    /// What everything that the session shows comes to.
    #[serde(skip)]
    pub(crate) visible: Tokens,
    /// By who or what it came from.
    pub(crate) by_kind: Vec<Share>,
    /// By tool: inputs and outputs together.
    pub(crate) by_tool: Vec<Share>,
    /// By file, as far as tools named one.
    pub(crate) by_file: Vec<Share>,
    /// By turn of the user.
    pub(crate) by_turn: Vec<Share>,
    /// The largest items.
    pub(crate) items: Vec<Item>,
    /// Files that were read more than once and are in the window each time.
    pub(crate) repeated: Vec<Repeated>,
}

/// One thing in the window: a call with its result, a text, a file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    /// The part of the log it comes from.
    pub(crate) part: Option<PartId>,
    /// What kind of thing it is, or the tool.
    pub(crate) kind: String,
    /// The command, the path, or the first words.
    pub(crate) about: String,
    /// The turn it came in, from 1; 0 before the first.
    pub(crate) turn: u32,
    /// What it weighs.
    pub(crate) tokens: Tokens,
}

/// A file that was read again and again.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Repeated {
    /// The file.
    pub(crate) name: String,
    /// How often its content is in the window.
    pub(crate) count: u64,
    /// What all of that weighs.
    pub(crate) tokens: Tokens,
    /// What goes if those are cleared that a later read shows again.
    pub(crate) frees: Tokens,
}

/// A file's content in the window, or a part of it.
struct Reading {
    /// Which lines were asked for.
    lines: ReadLines,
    /// What goes with it if it is cleared; nothing where its output shows something else as well, which would be lost.
    tokens: Tokens,
}

/// What a window is weighed with.
pub(crate) struct Weigher<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) counter: &'a dyn Counter,
    /// Paths and commands in words.
    pub(crate) words: Describer<'a>,
}

#[derive(Default)]
struct Tally {
    kinds: Ranking,
    tools: Ranking,
    files: Ranking,
    turns: Ranking,
    items: BTreeMap<(usize, String), Item>,
    reads: BTreeMap<String, Vec<Reading>>,
    /// What turns are called: their number and the first words of their prompt.
    prompts: BTreeMap<u32, String>,
    visible: Tokens,
}

impl Weigher<'_> {
    /// Weigh the window of these messages, each with its turn. `earlier` was weighed before and is not held.
    pub(crate) fn weigh(&self, messages: &[Message], turns: &[u32], earlier: Tokens) -> WindowReport {
        let window = Window::of(messages, self.policy);
        let mut tally = Tally { visible: earlier, prompts: prompts(messages, turns), ..Tally::default() };
        tally.kinds.add("earlier messages", earlier);
        for said in &window.messages {
            let message = said.place.and_then(|place| messages.get(place));
            let turn = said.place.and_then(|place| turns.get(place)).copied().unwrap_or(0);
            for (number, block) in said.blocks.iter().enumerate() {
                // What wraps a message goes to its first block.
                let wrapping = if number == 0 { self.counter.message_overhead() } else { Tokens::ZERO };
                let tokens = block_tokens(block, self.counter) + wrapping;
                self.block(&mut tally, said, message, turn, block, tokens);
            }
        }
        tally.report()
    }

    fn block(
        &self,
        tally: &mut Tally,
        said: &WindowMessage,
        message: Option<&Message>,
        turn: u32,
        block: &Block,
        tokens: Tokens,
    ) {
        let kind = kind(said.role, message, block);
        tally.visible += tokens;
        tally.kinds.add(kind, tokens);
        let name = tally.prompts.entry(turn).or_insert_with(|| turn.to_string());
        tally.turns.add(name, tokens);
        let id = part_of(block);
        let part = message.and_then(|message| message.parts.iter().find(|part| Some(&part.id) == id));
        let tool = part.and_then(Part::as_tool);
        let (name, about) = match (block, tool) {
            (Block::Call { tool: name, .. } | Block::Result { tool: name, .. }, Some(tool)) => {
                // A call and its result are one.
                if matches!(block, Block::Call { .. }) {
                    tally.tools.add(name, tokens);
                } else {
                    tally.tools.add_to(name, tokens);
                }
                self.files(tally, name, &tool.state, block, tokens);
                (name.as_str(), self.words.call(name, tool.state.input.as_ref().map(|input| input.value())))
            }
            (Block::File { filename, mime, .. }, _) => {
                (kind, filename.as_deref().or(mime.as_deref()).unwrap_or("unnamed").to_owned())
            }
            (Block::Text { text, .. } | Block::Reasoning { text, .. }, _) => {
                (kind, self.words.shorten(&first_words(text)))
            }
            (Block::Result { tool, text, .. }, None) => (tool.as_str(), first_words(text)),
            (Block::Call { tool, input, .. }, None) => (tool.as_str(), first_words(input.json())),
            (Block::Provider { value, .. }, _) => (kind, first_words(value.json())),
        };
        let key = (said.place.unwrap_or(usize::MAX), id.map_or_else(|| about.clone(), ToString::to_string));
        let item = tally.items.entry(key).or_insert_with(|| Item {
            part: id.cloned(),
            kind: name.to_owned(),
            about,
            turn,
            tokens: Tokens::ZERO,
        });
        item.tokens += tokens;
    }

    fn files(&self, tally: &mut Tally, tool: &str, state: &ToolState, block: &Block, tokens: Tokens) {
        let Some(input) = state.input.as_ref().map(|input| input.value()) else { return };
        let is_call = matches!(block, Block::Call { .. });
        let is_shown = matches!(block, Block::Result { cleared: false, is_error: false, .. });
        let named = paths(input);
        let ShellReads { files, is_all } = file_reads(tool, input);
        // What each of several files takes of one output is not known.
        let each = |count: usize| Tokens(tokens.0 / count.max(1) as u64);
        for path in named.iter().map(|path| self.words.relative(path)) {
            tally.add_file(&path, each(named.len()), is_call);
        }
        if named.is_empty() {
            let paths = files.iter().map(|read| self.words.relative(&read.path));
            paths.for_each(|path| tally.add_file(&path, each(files.len()), is_call));
        }
        if is_shown {
            // An output of several commands would be lost with the file that one of them showed.
            let clears = match (is_all, files.len()) {
                (true, 1) => tokens,
                (true, count) if !named.is_empty() => each(count),
                _ => Tokens::ZERO,
            };
            for read in files {
                let path = self.words.relative(&read.path);
                tally.reads.entry(path).or_default().push(Reading { lines: read.lines, tokens: clears });
            }
        }
    }
}

impl Tally {
    /// Count something towards a file. A call and its result are one.
    fn add_file(&mut self, path: &str, tokens: Tokens, is_call: bool) {
        if is_call {
            self.files.add(path, tokens);
        } else {
            self.files.add_to(path, tokens);
        }
    }

    fn report(self) -> WindowReport {
        let mut items: Vec<Item> = self.items.into_values().collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.tokens));
        items.truncate(MOST_ITEMS);
        let mut repeated: Vec<Repeated> = self
            .reads
            .into_iter()
            .map(|(name, reads)| Repeated {
                name,
                count: reads.len() as u64,
                tokens: reads.iter().map(|read| read.tokens).sum(),
                frees: superseded(&reads),
            })
            .filter(|repeated| repeated.frees > Tokens::ZERO)
            .collect();
        repeated.sort_by(|a, b| b.frees.cmp(&a.frees).then_with(|| a.name.cmp(&b.name)));
        repeated.truncate(MOST_ITEMS);
        WindowReport {
            visible: self.visible,
            by_kind: self.kinds.rows(MOST_ITEMS),
            by_tool: self.tools.rows(MOST_ITEMS),
            by_file: self.files.rows(MOST_ITEMS),
            by_turn: self.turns.rows(MOST_ITEMS),
            items,
            repeated,
        }
    }
}

/// What of reads of one file a later one shows again: the same lines, more of them, or all. Another part of a long file is no
/// repetition, and clearing it would lose it.
fn superseded(reads: &[Reading]) -> Tokens {
    let mut seen = SeenLines::default();
    let mut frees = Tokens::ZERO;
    for read in reads.iter().rev() {
        if seen.cover(&read.lines) {
            frees += read.tokens;
        }
        seen.add(&read.lines);
    }
    frees
}

/// A name for each turn whose prompt is held.
fn prompts(messages: &[Message], turns: &[u32]) -> BTreeMap<u32, String> {
    let begun = messages.iter().zip(turns).filter(|(message, _)| is_prompt(message));
    begun.map(|(message, turn)| (*turn, format!("{turn}: {}", first_words(&message.text())))).collect()
}

fn part_of(block: &Block) -> Option<&PartId> {
    match block {
        Block::Text { part, .. } => part.as_ref(),
        Block::File { part, .. }
        | Block::Reasoning { part, .. }
        | Block::Call { part, .. }
        | Block::Result { part, .. }
        | Block::Provider { part, .. } => Some(part),
    }
}

fn kind(role: WindowRole, message: Option<&Message>, block: &Block) -> &'static str {
    let stands_in = |message: &Message| {
        let is_own = |part: &&Part| Some(&part.id) == part_of(block);
        message.parts.iter().find(is_own).is_some_and(|part| part.replaced().is_some())
    };
    let is_summary = message
        .is_some_and(|message| message.info.summary || message.marker().is_some() || stands_in(message));
    match (block, role) {
        (Block::Call { .. }, _) => "tool inputs",
        (Block::Result { cleared: true, .. }, _) => "cleared outputs",
        (Block::Result { .. }, _) => "tool outputs",
        (Block::Reasoning { .. }, _) => "reasoning",
        (Block::File { .. }, _) => "files",
        _ if is_summary => "summaries",
        (_, WindowRole::System) => "system messages",
        (Block::Text { part, .. }, WindowRole::User | WindowRole::Assistant) => {
            let part =
                message.and_then(|message| message.parts.iter().find(|own| Some(&own.id) == part.as_ref()));
            match role {
                WindowRole::User => part.map_or("the host", kind_of_user_part),
                _ => part.map_or("the model", kind_of_model_part),
            }
        }
        (_, WindowRole::User) => "the user",
        (_, WindowRole::Assistant | WindowRole::Tool) => "the model",
    }
}

/// What a part of a message of the user's is.
pub(super) fn kind_of_user_part(part: &Part) -> &'static str {
    match &part.body {
        // What a tool puts into the user's mouth: reminders, listings, files that were attached.
        PartBody::Text(text) if text.synthetic == Some(true) => "the host",
        _ if part.is_user_command() => "user's commands",
        PartBody::Text(_) if !is_typed(part) => "the host",
        _ => "the user",
    }
}

/// What a part of a message of the model's is.
pub(super) fn kind_of_model_part(part: &Part) -> &'static str {
    match &part.body {
        // What a tool puts into the model's mouth: a placeholder where nothing was asked.
        PartBody::Text(text) if text.synthetic == Some(true) => "the host",
        _ => "the model",
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::Tokens;
    use plimsoll::compact::facts::file_reads;
    use serde_json::json;

    use super::{ReadLines, Reading, superseded};

    #[test]
    fn a_read_of_other_lines_is_no_repetition() {
        let read = |input: serde_json::Value| {
            let lines = file_reads("read", &input).files.remove(0).lines;
            Reading { lines, tokens: Tokens(10) }
        };
        let first = || read(json!({ "file_path": "a", "offset": 1, "limit": 50 }));
        let second = || read(json!({ "file_path": "a", "offset": 51, "limit": 50 }));
        let whole = || read(json!({ "file_path": "a" }));
        assert_eq!(superseded(&[first(), second()]), Tokens(0));
        assert_eq!(superseded(&[first(), second(), first()]), Tokens(10));
        assert_eq!(superseded(&[first(), second(), whole()]), Tokens(20), "all of it shows every part");
        assert_eq!(superseded(&[whole(), first()]), Tokens(0), "a part does not show all of it");
    }

    #[test]
    fn a_longer_range_shows_a_shorter_one_again() {
        let read = |first, last| Reading { lines: ReadLines::Range(first, last), tokens: Tokens(10) };
        assert_eq!(superseded(&[read(1, 80), read(1, 120)]), Tokens(10));
        assert_eq!(superseded(&[read(1, 120), read(1, 80)]), Tokens(0));
    }
}
