//! The text of a digest.
//!
//! A message is represented as borrowed pieces with known lengths, so that the budget can be applied by adding numbers,
//! and only text that stays is copied.
//!
//! The digest is between two tags. Content that contains these tags (a file about this format, or a prompt injection)
//! must not end the block early, so a backslash is inserted after the `<` of every such tag.

use std::ops::Range;

use super::TierDistribution;
use crate::chars::{Chars, Text, head};
use crate::facts::is_typed;
use crate::log::{Message, Part, PartBody, Role};
use crate::window::PLACEHOLDER;
use crate::work;

/// The opening tag.
pub(super) const OPEN: &str = "<inherited_context>";
/// The closing tag.
pub(super) const CLOSE: &str = "</inherited_context>";
/// The name in both tags.
const TAG: &[u8] = b"inherited_context";

/// The content of one message in a digest.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    label: String,
    lines: Vec<Line<'a>>,
    chars: Chars,
    /// Whether it contains text that the user typed.
    are_words: bool,
}

/// One piece of a message.
#[derive(Clone, Debug)]
pub(super) enum Line<'a> {
    /// Unchanged text.
    Text(&'a Text),
    /// A tool call, with its input cut according to its tier.
    Call {
        /// The tool.
        tool: &'a str,
        /// The input as compact JSON.
        input: Option<&'a Text>,
        /// Maximum length of the input.
        limit: Chars,
    },
    /// A tool result.
    Result {
        /// Tier of the result.
        tier: Tier,
        /// The shown part.
        shown: Shown<'a>,
    },
    /// A tool result that was cleared in the parent.
    Cleared {
        /// Tier of the result.
        tier: Tier,
    },
}

/// Tier of a tool result by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(super) enum Tier {
    /// The newest.
    First,
    /// The next newest.
    Second,
    /// All older ones.
    Third,
}

/// The part of a tool result that a digest shows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown<'a> {
    /// The whole result.
    Whole(&'a Text),
    /// The result with a gap.
    Cut {
        /// The beginning.
        head: &'a str,
        /// Number of missing chars.
        missing: Chars,
        /// The end, if it is kept.
        tail: Option<&'a str>,
    },
    /// The beginning, after a note.
    Prefixed {
        /// The beginning.
        text: &'a str,
        /// Length of the whole result.
        original: Chars,
    },
}

/// Figures about the tool results in a digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Results {
    /// Results by tier, cut or not.
    pub distribution: TierDistribution,
    /// Results that were cleared in the parent. Not included in `distribution`.
    pub cleared: TierDistribution,
    /// Results that were cut to the limit of their tier.
    pub cut: TierDistribution,
    /// Results that were cut, or cut further, because a message did not fit the budget.
    pub squeezed: usize,
    /// Cut results that keep their end as well.
    pub head_tail: usize,
}

impl Results {
    /// Number of cut results.
    pub fn truncated(&self) -> usize {
        self.cut.total() + self.squeezed
    }

    fn add(&mut self, tier: Tier, shown: &Shown<'_>, squeezed: Option<CutResult>) {
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

/// A result that was cut together with its message.
struct CutResult {
    keeps_both_ends: bool,
}

impl<'a> Lines<'a> {
    /// Creates an empty message with its label. With `labels_host`, texts that a host wrote in the user's name are
    /// labelled as the host's.
    pub(super) fn new(message: &'a Message, labels_host: bool) -> Lines<'a> {
        let label = match &message.info.role {
            Some(Role::User) if labels_host && Lines::has_only_host_text(message) => "Host".to_owned(),
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

    /// Whether a message contains text that the user typed.
    pub(super) fn are_words_in(message: &Message) -> bool {
        let is_shown = |part: &Part| part.replaced().is_none_or(|text| part.is_edited() && !text.is_empty());
        message.starts_turn() && message.parts.iter().any(|part| is_shown(part) && is_typed(part))
    }

    /// Whether a message contains only texts of the host.
    fn has_only_host_text(message: &Message) -> bool {
        let is_text = |part: &Part| matches!(part.body, PartBody::Text(_));
        !message.parts.is_empty() && message.parts.iter().all(|part| is_text(part) && !is_typed(part))
    }

    pub(super) fn push(&mut self, line: Line<'a>) {
        // Each piece follows a newline.
        self.chars += Chars(1) + line.chars();
        self.lines.push(line);
    }

    /// Length of the message in the digest, including the newline before it.
    pub fn chars(&self) -> Chars {
        self.chars
    }

    /// Whether the user typed this.
    pub(super) fn are_words(&self) -> bool {
        self.are_words
    }

    /// Appends the message to `out`.
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

    /// Counts the results of the complete message.
    pub(super) fn count(&self, results: &mut Results) {
        for line in &self.lines {
            match line {
                Line::Result { tier, shown } => results.add(*tier, shown, None),
                Line::Cleared { tier } => *results.cleared.of(*tier) += 1,
                Line::Text(_) | Line::Call { .. } => {}
            }
        }
    }

    /// Counts the results of the message without a range of its bytes.
    pub(super) fn count_without(&self, missing: &Range<usize>, results: &mut Results) {
        let mut text = String::new();
        self.write_each(&mut text, |line, range| {
            let Line::Result { tier, shown } = line else { return };
            let body = range.start + RESULT.len()..range.end;
            let hit = missing.start < body.end && body.start < missing.end;
            let keeps_both_ends = body.start < missing.start && missing.end < body.end;
            results.add(*tier, shown, hit.then_some(CutResult { keeps_both_ends }));
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
            // Always short, so writing them is simpler than duplicating the rules of `write`.
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

/// Offsets after the `<` of each of the digest's tags in a text.
///
/// A model is less strict than a parser, so case, blanks and the end of the tag are ignored.
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

/// Appends content, escaped so that it cannot close the digest's block.
pub(super) fn push_harmless(out: &mut String, text: &str) {
    let mut done = 0;
    for at in tags(text) {
        out.push_str(&text[done..at]);
        out.push('\\');
        done = at;
    }
    out.push_str(&text[done..]);
}
