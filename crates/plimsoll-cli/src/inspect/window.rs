//! What is in the window now, item by item.

use std::collections::BTreeMap;

use plimsoll::compact::extract::paths;
use plimsoll::compact::facts::{ReadLines, ShellReads, is_typed, shell_commands, shell_reads};
use plimsoll::count::block_tokens;
use plimsoll::{
    Block, Counter, Message, Part, PartBody, PartId, Policy, Tokens, ToolState, Window, WindowMessage,
    WindowRole,
};
use serde::Serialize;
use serde_json::Value;

use super::ranking::{Ranking, Share};
use super::scale::is_prompt;
use crate::output::printable;

/// How many items are listed for machines; people are shown as many as fit.
const MOST_ITEMS: usize = 20;
/// So much of what an item is about is kept.
const LONGEST: usize = 300;

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
    /// The directory of the session, from which paths are told.
    pub(crate) directory: Option<&'a str>,
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
                (name.as_str(), self.about(name, &tool.state))
            }
            (Block::File { filename, mime, .. }, _) => {
                (kind, filename.as_deref().or(mime.as_deref()).unwrap_or("unnamed").to_owned())
            }
            (Block::Text { text, .. } | Block::Reasoning { text, .. }, _) => {
                (kind, self.shorten(&first_words(text)))
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
        // What each of several files takes of one output is not known.
        let each = |count: usize| Tokens(tokens.0 / count.max(1) as u64);
        for path in named.iter().map(|path| self.relative(path)) {
            tally.add_file(&path, each(named.len()), is_call);
            if is_shown && is_reading(tool) {
                let lines = lines_asked(input);
                tally.reads.entry(path).or_default().push(Reading { lines, tokens: each(named.len()) });
            }
        }
        let ShellReads { files, is_all } = shell_reads(tool, input);
        if !named.is_empty() || files.is_empty() {
            return;
        }
        let each = each(files.len());
        let clears = if is_all && files.len() == 1 { tokens } else { Tokens::ZERO };
        for read in files {
            let path = self.relative(&read.path);
            tally.add_file(&path, each, is_call);
            if is_shown {
                tally.reads.entry(path).or_default().push(Reading { lines: read.lines, tokens: clears });
            }
        }
    }

    /// What a call is about: its command, its path, or whatever it was given first.
    fn about(&self, tool: &str, state: &ToolState) -> String {
        let Some(input) = &state.input else { return String::new() };
        let value = input.value();
        let commands = shell_commands(tool, value);
        if !commands.is_empty() {
            return first_words(&self.shorten(&commands.join("; ")));
        }
        if let Some(path) = paths(value).first() {
            return self.relative(path);
        }
        let fields =
            ["command", "cmd", "script", "pattern", "query", "url", "description", "prompt", "input"];
        let named = fields.iter().find_map(|key| words(value.get(*key)?));
        let any = || value.as_object()?.values().find_map(words);
        first_words(&self.shorten(&named.or_else(any).unwrap_or_default()))
    }

    /// A path as it is from the session's directory.
    pub(super) fn relative(&self, path: &str) -> String {
        let Some(directory) = self.directory.map(|directory| directory.trim_end_matches(['/', '\\'])) else {
            return path.to_owned();
        };
        match path.strip_prefix(directory).filter(|_| !directory.is_empty()) {
            Some("") => ".".to_owned(),
            Some(rest) => rest.strip_prefix(['/', '\\']).unwrap_or(path).to_owned(),
            None => path.to_owned(),
        }
    }

    /// A command with the session's directory left out of its paths.
    fn shorten(&self, command: &str) -> String {
        let directory = self.directory.map(|directory| directory.trim_end_matches(['/', '\\']));
        let Some(directory) = directory.filter(|directory| directory.len() > 1) else {
            return command.to_owned();
        };
        let mut short = String::with_capacity(command.len());
        let mut rest = command;
        while let Some(at) = rest.find(directory) {
            let (before, after) = (&rest[..at], &rest[at + directory.len()..]);
            short.push_str(before);
            // Inside a longer path it is another directory.
            let begins = !short.ends_with(|c: char| c.is_alphanumeric() || "/\\._-~".contains(c));
            match after.strip_prefix(['/', '\\']).filter(|_| begins) {
                Some(inside) => rest = inside,
                None => {
                    short.push_str(directory);
                    rest = after;
                }
            }
        }
        short + rest
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
    let is_repeated =
        |(at, read): &(usize, &Reading)| reads[at + 1..].iter().any(|later| later.lines.cover(&read.lines));
    reads.iter().enumerate().filter(is_repeated).map(|(_, read)| read.tokens).sum()
}

/// Which lines of a file a tool was asked for, as its input names them.
fn lines_asked(input: &Value) -> ReadLines {
    let fields = input.as_object().into_iter().flatten().filter(|(name, value)| {
        let name = name.to_ascii_lowercase();
        let asks =
            ["offset", "limit", "line", "range", "start", "end"].iter().any(|word| name.contains(word));
        asks && !value.is_null()
    });
    let picked: String = fields.map(|(name, value)| format!("{name}={value};")).collect();
    if picked.is_empty() { ReadLines::All } else { ReadLines::Picked(picked) }
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

/// Whether a tool shows a file's content, by its name.
fn is_reading(tool: &str) -> bool {
    let tool = tool.to_ascii_lowercase();
    ["read", "view", "cat", "open"].iter().any(|word| tool.contains(word))
}

/// The text of a value: a string, or a list of strings as commands are written.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Array(items) => {
            let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            words.filter(|words| !words.is_empty()).map(|words| words.join(" "))
        }
        _ => None,
    }
}

fn first_words(text: &str) -> String {
    let start: String = text.chars().take(4 * LONGEST).collect();
    let words = printable(&start).split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll::{CharCounter, Policy, Tokens};
    use serde_json::json;

    use super::{ReadLines, Reading, Weigher, lines_asked, superseded};

    #[test]
    fn commands_name_paths_from_the_directory() {
        let (policy, counter) = (Policy::default(), CharCounter::default());
        let shorten = |directory: &str, command: &str| {
            Weigher { policy: &policy, counter: &counter, directory: Some(directory) }.shorten(command)
        };
        for (directory, command, short) in [
            ("/srv/app", "cat /srv/app/src/a.rs '/srv/app/b'", "cat src/a.rs 'b'"),
            ("/srv/app/", "cat /backup/srv/app/a /srv/app2/b", "cat /backup/srv/app/a /srv/app2/b"),
            ("/srv/app", "cd /srv/app && ls", "cd /srv/app && ls"),
            (r"C:\repos\game", r"Get-Content C:\repos\game\src\a.ts", r"Get-Content src\a.ts"),
        ] {
            assert_eq!(shorten(directory, command), short);
        }
    }

    #[test]
    fn a_read_of_other_lines_is_no_repetition() {
        let read = |input: serde_json::Value| Reading { lines: lines_asked(&input), tokens: Tokens(10) };
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
