//! The blocks of a window, added up by kind, tool, file and turn.

use std::collections::BTreeMap;

use plimsoll::facts::{ReadLines, SeenLines, ShellReads, file_reads, paths};
use plimsoll::{
    Block, Counter, Message, Part, Policy, Scale, Tokens, ToolState, Window, WindowMessage, block_tokens,
    first_words, log,
};

use super::describe::{Describer, LONGEST};
use super::kind::{ContentKind, is_user_prompt, part_id};
use super::ranking::Ranking;
use super::report::{Item, Repeated, WindowReport};

/// Maximum number of rows in a list.
const MAX_ROWS: usize = 20;

/// A file's content in the window, or a part of it.
struct FileRead {
    /// The lines that were asked for.
    lines: ReadLines,
    /// Tokens that are freed if it is cleared; zero if its output shows something else too, which would be lost.
    tokens: Tokens,
}

/// Policy, counter and scale for the blocks of a window.
pub(crate) struct BlockScale<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) counter: &'a dyn Counter,
    /// Converts counts to the tokens that are shown.
    pub(crate) scale: Scale,
    pub(crate) describer: Describer<'a>,
}

#[derive(Default)]
struct Tally {
    kinds: Ranking,
    tools: Ranking,
    files: Ranking,
    turns: Ranking,
    items: BTreeMap<(usize, String), Item>,
    reads: BTreeMap<String, Vec<FileRead>>,
    /// Names of turns: the number and the first words of the prompt.
    prompts: BTreeMap<u32, String>,
    visible: Tokens,
}

impl BlockScale<'_> {
    /// Adds up the window of these messages, each with its turn. `earlier` was weighed before and is not held. The
    /// report contains only recorded content; the caller adds the rest.
    pub(crate) fn add_up(&self, messages: &[Message], turns: &[u32], earlier: Tokens) -> WindowReport {
        let window = Window::of(messages, self.policy);
        let mut tally = Tally { visible: earlier, prompts: prompts(messages, turns), ..Tally::default() };
        tally.kinds.add(ContentKind::Earlier.label(), earlier);
        for said in &window.messages {
            let message = said.place.and_then(|place| messages.get(place));
            let turn = said.place.and_then(|place| turns.get(place)).copied().unwrap_or(0);
            for (number, block) in said.blocks.iter().enumerate() {
                // The overhead of a message counts towards its first block.
                let wrapping = if number == 0 { self.counter.message_overhead() } else { Tokens::ZERO };
                let tokens = self.scale.piece(block_tokens(block, self.counter) + wrapping);
                self.block(&mut tally, said, message, turn, block, tokens);
            }
        }
        let pins = log::pins(messages).map(|(_, _, text)| self.scale.piece(self.counter.count_text(text)));
        WindowReport {
            request_messages: window.messages.len(),
            has_summary: window.pivot.is_some(),
            pinned: pins.sum(),
            ..tally.report()
        }
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
        let kind = ContentKind::of_block(said.role, message, block).label();
        tally.visible += tokens;
        tally.kinds.add(kind, tokens);
        let name = tally.prompts.entry(turn).or_insert_with(|| turn.to_string());
        tally.turns.add(name, tokens);
        let id = part_id(block);
        let part = message.and_then(|message| message.parts.iter().find(|part| Some(&part.id) == id));
        let tool = part.and_then(Part::as_tool);
        let (name, about) = match (block, tool) {
            (Block::Call { tool: name, .. } | Block::Result { tool: name, .. }, Some(tool)) => {
                // A call and its result count as one occurrence.
                if matches!(block, Block::Call { .. }) {
                    tally.tools.add(name, tokens);
                } else {
                    tally.tools.add_to(name, tokens);
                }
                self.files(tally, name, &tool.state, block, tokens);
                (
                    name.as_str(),
                    self.describer.call(name, tool.state.input.as_ref().map(|input| input.value())),
                )
            }
            (Block::File { filename, mime, .. }, _) => {
                (kind, filename.as_deref().or(mime.as_deref()).unwrap_or("unnamed").to_owned())
            }
            (Block::Text { text, .. } | Block::Reasoning { text, .. }, _) => {
                (kind, self.describer.words(text))
            }
            (Block::Result { tool, text, .. }, None) => (tool.as_str(), first_words(text, LONGEST)),
            (Block::Call { tool, input, .. }, None) => (tool.as_str(), first_words(input.json(), LONGEST)),
            (Block::Provider { value, .. }, _) => (kind, first_words(value.json(), LONGEST)),
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
        // The share of each file in one output is unknown, so it is divided evenly.
        let each = |count: usize| Tokens(tokens.0 / count.max(1) as u64);
        for path in named.iter().map(|path| self.describer.relative(path)) {
            tally.add_file(&path, each(named.len()), is_call);
        }
        if named.is_empty() {
            let paths = files.iter().map(|read| self.describer.relative(&read.path));
            paths.for_each(|path| tally.add_file(&path, each(files.len()), is_call));
        }
        if is_shown {
            // Counts only outputs that show one file: clearing others would lose the output of the other commands.
            let clears = match (is_all, files.len()) {
                (true, 1) => tokens,
                (true, count) if !named.is_empty() => each(count),
                _ => Tokens::ZERO,
            };
            for read in files {
                let path = self.describer.relative(&read.path);
                tally.reads.entry(path).or_default().push(FileRead { lines: read.lines, tokens: clears });
            }
        }
    }
}

impl Tally {
    /// Adds to a file's tokens. A call and its result count as one.
    fn add_file(&mut self, path: &str, tokens: Tokens, is_call: bool) {
        if is_call {
            self.files.add(path, tokens);
        } else {
            self.files.add_to(path, tokens);
        }
    }

    fn report(self) -> WindowReport {
        let mut items: Vec<Item> = self.items.into_values().collect();
        let item_count = items.len();
        items.sort_by_key(|item| std::cmp::Reverse(item.tokens));
        items.truncate(MAX_ROWS);
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
        repeated.truncate(MAX_ROWS);
        WindowReport {
            by_kind: self.kinds.rows(MAX_ROWS),
            by_tool: self.tools.rows(MAX_ROWS),
            by_file: self.files.rows(MAX_ROWS),
            by_turn: self.turns.rows(MAX_ROWS),
            items,
            item_count,
            repeated,
            visible: self.visible,
            ..WindowReport::default()
        }
    }
}

/// Returns the tokens of reads of one file that a later read shows again: the same lines, more of them, or all. Another
/// part of a long file is not a repetition, and clearing it would lose it.
fn superseded(reads: &[FileRead]) -> Tokens {
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

/// Returns a name for each turn whose prompt is held.
fn prompts(messages: &[Message], turns: &[u32]) -> BTreeMap<u32, String> {
    let begun = messages.iter().zip(turns).filter(|(message, _)| is_user_prompt(message));
    begun
        .map(|(message, turn)| (*turn, format!("{turn}: {}", first_words(&message.text(), LONGEST))))
        .collect()
}

#[cfg(test)]
mod tests {
    use plimsoll::Tokens;
    use plimsoll::facts::file_reads;
    use serde_json::json;

    use super::{FileRead, ReadLines, superseded};

    #[test]
    fn a_read_of_other_lines_is_not_a_repetition() {
        let read = |input: serde_json::Value| {
            let lines = file_reads("read", &input).files.remove(0).lines;
            FileRead { lines, tokens: Tokens(10) }
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
        let read = |first, last| FileRead { lines: ReadLines::Range(first, last), tokens: Tokens(10) };
        assert_eq!(superseded(&[read(1, 80), read(1, 120)]), Tokens(10));
        assert_eq!(superseded(&[read(1, 120), read(1, 80)]), Tokens(0));
    }
}
