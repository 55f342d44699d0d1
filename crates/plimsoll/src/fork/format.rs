//! The digest's text.
//!
//! What a message will look like is kept as borrowed pieces with known lengths, so that the budget can be
//! settled by adding numbers, and only what stays is ever copied.

use crate::chars::{Chars, Text, head};
use crate::log::{Message, Role};
use crate::window::PLACEHOLDER;

/// The opening tag.
pub const OPEN: &str = "<inherited_context>";
/// The closing tag.
pub const CLOSE: &str = "</inherited_context>";

/// What one message shows.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    label: String,
    lines: Vec<Line<'a>>,
}

/// One piece of a message.
#[derive(Clone, Debug)]
pub enum Line<'a> {
    /// Text as it is.
    Text(&'a Text),
    /// A tool call, with as much of its input as its tier allows.
    Call {
        /// The tool.
        tool: &'a str,
        /// Its input as compact JSON.
        input: Option<&'a Text>,
        /// How much of that is shown.
        limit: Chars,
    },
    /// A whole result.
    Result(&'a Text),
    /// A result that was cleared before.
    Cleared,
    /// A result with a gap in it.
    Cut {
        /// Its beginning.
        head: &'a str,
        /// How many chars are missing.
        missing: Chars,
        /// Its end, where that is kept.
        tail: Option<&'a str>,
    },
    /// The beginning of a result behind a note.
    Prefixed {
        /// Its beginning.
        text: &'a str,
        /// How many chars it had.
        original: Chars,
    },
}

impl<'a> Lines<'a> {
    pub(super) fn new(message: &'a Message) -> Lines<'a> {
        let label = match &message.info.role {
            Some(Role::User) => "User".to_owned(),
            Some(Role::Assistant) => "Agent".to_owned(),
            None => "Unknown".to_owned(),
            Some(other) => capitalised(other.name()),
        };
        Lines { label, lines: Vec::with_capacity(message.parts.len()) }
    }

    pub(super) fn push(&mut self, line: Line<'a>) {
        self.lines.push(line);
    }

    pub(super) fn extend(&mut self, lines: impl IntoIterator<Item = Line<'a>>) {
        self.lines.extend(lines);
    }

    /// The message's length in the digest, the newline before it included.
    pub fn chars(&self) -> Chars {
        // Newline, label, colon; then a newline before each piece.
        let pieces: Chars = self.lines.iter().map(|line| Chars(1) + line.chars()).sum();
        Chars(2) + Chars::of(&self.label) + pieces
    }

    /// Write the message behind what is there.
    pub fn write(&self, out: &mut String) {
        out.push('\n');
        out.push_str(&self.label);
        out.push(':');
        for line in &self.lines {
            out.push('\n');
            line.write(out);
        }
    }
}

fn capitalised(role: &str) -> String {
    let mut letters = role.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => "Unknown".to_owned(),
    }
}

const RESULT: &str = "[Tool result]\n";

impl Line<'_> {
    fn chars(&self) -> Chars {
        let result = Chars(RESULT.len() as u64);
        match self {
            Line::Text(text) => text.chars(),
            Line::Result(text) => result + text.chars(),
            Line::Cleared => result + Chars(PLACEHOLDER.len() as u64),
            // Short by construction; writing them is cheaper than a second set of rules.
            Line::Call { .. } | Line::Cut { .. } | Line::Prefixed { .. } => {
                let mut text = String::new();
                self.write(&mut text);
                Chars::of(&text)
            }
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Line::Text(text) => out.push_str(text),
            Line::Call { tool, input, limit } => {
                out.push_str(&format!("[Tool: {tool}]"));
                if let Some(input) = input {
                    let shown = head(input, *limit);
                    out.push(' ');
                    out.push_str(shown);
                    if shown.len() < input.len() {
                        out.push_str("...");
                    }
                }
            }
            Line::Result(text) => {
                out.push_str(RESULT);
                out.push_str(text);
            }
            Line::Cleared => {
                out.push_str(RESULT);
                out.push_str(PLACEHOLDER);
            }
            Line::Cut { head, missing, tail } => {
                out.push_str(RESULT);
                out.push_str(head);
                out.push_str(&format!("\n...[truncated {} chars]...", missing.0));
                if let Some(tail) = tail {
                    out.push('\n');
                    out.push_str(tail);
                }
            }
            Line::Prefixed { text, original } => {
                out.push_str(RESULT);
                out.push_str(&format!("[Tool result truncated - original {} chars]\n{text}...", original.0));
            }
        }
    }
}

/// All messages between the tags; nothing for no messages.
pub fn format(messages: &[&Lines<'_>]) -> String {
    if messages.is_empty() {
        return String::new();
    }
    let chars: Chars = messages.iter().map(|message| message.chars()).sum();
    let mut out = String::with_capacity(chars.0 as usize + OPEN.len() + CLOSE.len() + 1);
    out.push_str(OPEN);
    for message in messages {
        message.write(&mut out);
    }
    out.push('\n');
    out.push_str(CLOSE);
    out
}
