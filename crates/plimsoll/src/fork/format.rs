//! The digest's text.
//!
//! What a message will look like is kept as borrowed pieces with known lengths, so that the budget can be
//! settled by adding numbers, and only what stays is ever copied.
//!
//! The digest stands between two tags. Content that names them (a file about this very format, a page written to
//! mislead) must not end the block early, so a backslash is put behind the `<` of every such tag in content.

use std::ops::Range;

use super::TierDistribution;
use crate::chars::{Chars, Text, head};
use crate::compact::facts::is_typed;
use crate::log::{Message, Part, PartBody, Role};
use crate::window::PLACEHOLDER;
use crate::work;

/// The opening tag.
pub const OPEN: &str = "<inherited_context>";
/// The closing tag.
pub const CLOSE: &str = "</inherited_context>";
/// The name in both tags.
const TAG: &[u8] = b"inherited_context";

/// What one message shows.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    label: String,
    lines: Vec<Line<'a>>,
    chars: Chars,
    /// Whether a person said it.
    are_words: bool,
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
    /// A result.
    Result {
        /// Its age.
        tier: Tier,
        /// What is left of it.
        shown: Shown<'a>,
    },
    /// A result that was cleared before.
    Cleared {
        /// Its age.
        tier: Tier,
    },
}

/// The age of a tool result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Among the newest.
    First,
    /// Among the next.
    Second,
    /// Older.
    Third,
}

/// How much of a tool result a digest shows.
#[derive(Clone, Copy, Debug)]
pub enum Shown<'a> {
    /// All of it.
    Whole(&'a Text),
    /// A part, with a gap.
    Cut {
        /// Its beginning.
        head: &'a str,
        /// How many chars are missing.
        missing: Chars,
        /// Its end, where that is kept.
        tail: Option<&'a str>,
    },
    /// Its beginning behind a note.
    Prefixed {
        /// Its beginning.
        text: &'a str,
        /// How many chars it had.
        original: Chars,
    },
}

/// What became of the tool results in a digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Results by age, cut or not.
    pub distribution: TierDistribution,
    /// Results that were cleared before, which are not among those.
    pub cleared: TierDistribution,
    /// Those that were cut for their age.
    pub cut: TierDistribution,
    /// Those that were cut, or cut further, because a message did not fit the budget.
    pub squeezed: usize,
    /// Cut results that keep their end as well.
    pub head_tail: usize,
}

impl Results {
    /// All results that were cut, each counted once.
    pub fn truncated(&self) -> usize {
        self.cut.total() + self.squeezed
    }

    fn add(&mut self, tier: Tier, shown: &Shown<'_>, squeezed: Option<Squeezed>) {
        *self.distribution.of(tier) += 1;
        let (is_cut, keeps_end) = match shown {
            Shown::Whole(_) => (false, true),
            Shown::Cut { tail, .. } => (true, tail.is_some()),
            Shown::Prefixed { .. } => (true, false),
        };
        let head_tail = match squeezed {
            Some(squeezed) => {
                self.squeezed += 1;
                squeezed.keeps_both_ends && keeps_end
            }
            None => {
                *self.cut.of(tier) += usize::from(is_cut);
                is_cut && keeps_end
            }
        };
        self.head_tail += usize::from(head_tail);
    }
}

/// A result that lost something when its message was cut.
struct Squeezed {
    keeps_both_ends: bool,
}

impl<'a> Lines<'a> {
    /// An empty message with its label. With `labels_host`, texts that a host wrote in the user's name are not the user's.
    pub(super) fn new(message: &'a Message, labels_host: bool) -> Lines<'a> {
        let label = match &message.info.role {
            Some(Role::User) if labels_host && Lines::is_host_alone(message) => "Host".to_owned(),
            Some(Role::User) => "User".to_owned(),
            Some(Role::Assistant) => "Agent".to_owned(),
            None => "Unknown".to_owned(),
            Some(other) => {
                let mut label = String::new();
                push_harmless(&mut label, &capitalised(other.name()));
                label
            }
        };
        // Newline, label, colon.
        let chars = Chars(2) + Chars::of(&label);
        let are_words = Lines::are_words_in(message);
        Lines { label, lines: Vec::with_capacity(message.parts.len()), chars, are_words }
    }

    /// Whether a person said something in a message.
    pub(super) fn are_words_in(message: &Message) -> bool {
        let is_shown = |part: &Part| part.replaced().is_none();
        message.starts_turn() && message.parts.iter().any(|part| is_shown(part) && is_typed(part))
    }

    /// Whether a message has nothing but texts of a host.
    fn is_host_alone(message: &Message) -> bool {
        let is_text = |part: &Part| matches!(part.body, PartBody::Text(_));
        !message.parts.is_empty() && message.parts.iter().all(|part| is_text(part) && !is_typed(part))
    }

    pub(super) fn push(&mut self, line: Line<'a>) {
        // A newline stands before each piece.
        self.chars += Chars(1) + line.chars();
        self.lines.push(line);
    }

    /// The message's length in the digest, the newline before it included.
    pub fn chars(&self) -> Chars {
        self.chars
    }

    /// Whether a person said this.
    pub(super) fn are_words(&self) -> bool {
        self.are_words
    }

    /// Write the message behind what is there.
    pub fn write(&self, out: &mut String) {
        self.write_each(out, |_, _| {});
    }

    fn write_each(&self, out: &mut String, mut wrote: impl FnMut(&Line<'a>, Range<usize>)) {
        out.push('\n');
        out.push_str(&self.label);
        out.push(':');
        for line in &self.lines {
            out.push('\n');
            let start = out.len();
            line.write(out);
            wrote(line, start..out.len());
        }
    }

    /// Count the results of the message as it is.
    pub(super) fn count(&self, results: &mut Results) {
        for line in &self.lines {
            match line {
                Line::Result { tier, shown } => results.add(*tier, shown, None),
                Line::Cleared { tier } => *results.cleared.of(*tier) += 1,
                Line::Text(_) | Line::Call { .. } => {}
            }
        }
    }

    /// Count the results of the message with those bytes of its text missing.
    pub(super) fn count_without(&self, missing: &Range<usize>, results: &mut Results) {
        let mut text = String::new();
        self.write_each(&mut text, |line, range| {
            let Line::Result { tier, shown } = line else { return };
            let body = range.start + RESULT.len()..range.end;
            let hit = missing.start < body.end && body.start < missing.end;
            let keeps_both_ends = body.start < missing.start && missing.end < body.end;
            results.add(*tier, shown, hit.then_some(Squeezed { keeps_both_ends }));
        });
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
            Line::Text(text) => harmless_chars(text),
            Line::Result { shown: Shown::Whole(text), .. } => result + harmless_chars(text),
            Line::Cleared { .. } => result + Chars(PLACEHOLDER.len() as u64),
            // Short by construction; writing them is cheaper than a second set of rules.
            Line::Call { .. } | Line::Result { .. } => {
                let mut text = String::new();
                self.write(&mut text);
                Chars::of(&text)
            }
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Line::Text(text) => push_harmless(out, text),
            Line::Call { tool, input, limit } => {
                out.push_str("[Tool: ");
                push_harmless(out, tool);
                out.push(']');
                if let Some(input) = input {
                    let shown = head(input, *limit);
                    out.push(' ');
                    push_harmless(out, shown);
                    if shown.len() < input.len() {
                        out.push_str("...");
                    }
                }
            }
            Line::Cleared { .. } => {
                out.push_str(RESULT);
                out.push_str(PLACEHOLDER);
            }
            Line::Result { shown, .. } => {
                out.push_str(RESULT);
                shown.write(out);
            }
        }
    }
}

impl Shown<'_> {
    fn write(&self, out: &mut String) {
        match self {
            Shown::Whole(text) => push_harmless(out, text),
            Shown::Cut { head, missing, tail } => {
                push_harmless(out, head);
                out.push_str(&format!("\n...[truncated {} chars]...", missing.0));
                if let Some(tail) = tail {
                    out.push('\n');
                    push_harmless(out, tail);
                }
            }
            Shown::Prefixed { text, original } => {
                out.push_str(&format!("[Tool result truncated - original {} chars]\n", original.0));
                push_harmless(out, text);
                out.push_str("...");
            }
        }
    }
}

/// Where the names of the digest's tags begin in a text, behind their `<`.
///
/// A model is less strict than a parser, so case and blanks do not matter, and neither does how the tag ends.
fn tags(text: &str) -> impl Iterator<Item = usize> + '_ {
    let bytes = work::read(text).as_bytes();
    memchr::memchr_iter(b'<', bytes).map(|at| at + 1).filter(|at| {
        let rest = bytes[*at..].trim_ascii_start();
        let name = rest.strip_prefix(b"/").map_or(rest, <[u8]>::trim_ascii_start);
        name.get(..TAG.len()).is_some_and(|name| name.eq_ignore_ascii_case(TAG))
    })
}

fn harmless_chars(text: &Text) -> Chars {
    text.chars() + Chars(tags(text).count() as u64)
}

/// Write content so that it does not close the block it stands in.
pub(super) fn push_harmless(out: &mut String, text: &str) {
    let mut done = 0;
    for at in tags(text) {
        out.push_str(&text[done..at]);
        out.push('\\');
        done = at;
    }
    out.push_str(&text[done..]);
}
