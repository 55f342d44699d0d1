#![doc = include_str!("../README.md")]

mod check;
mod command;
mod cookie;
mod cursor;
mod identifier;
mod kind;
mod name;
mod named;
mod pattern;
mod reader;
mod search;
mod shape;
mod table;
mod value;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write;

use kind::MARK;
pub use kind::{Found, SecretKind};

/// A text without secrets of known shapes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redacted {
    /// The text with each secret replaced by `[redacted: …]`.
    pub text: String,
    /// The secrets that were replaced.
    pub found: Vec<Found>,
}

/// Maximum number of searches. Removing a secret can make the text around it look like another one; except in hostile
/// texts, the second search finds nothing new.
const ROUNDS: usize = 4;

/// Replaces every secret of a known shape. Idempotent.
///
/// A cut can leave half a secret that no longer looks like one, so a text is redacted first and cut afterwards.
pub fn redact(text: &str) -> Redacted {
    let mut redacted = Redacted { text: text.to_owned(), found: Vec::new() };
    for _ in 0..ROUNDS {
        let spans = search::search(&redacted.text);
        if spans.is_empty() {
            break;
        }
        redacted.text = replace(&redacted.text, &spans);
        redacted.found.extend(spans.into_iter().map(|span| span.found));
    }
    redacted
}

/// The services whose tokens are known by their shape, each once, in order.
pub fn services() -> impl Iterator<Item = &'static str> {
    let by_clue = table::TABLE.rows.iter().filter_map(|row| row.service);
    let names: BTreeSet<&str> = by_clue.chain(table::TABLE.shapes.iter().copied()).collect();
    names.into_iter()
}

fn replace(text: &str, spans: &[search::Span]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for span in spans {
        out.push_str(&text[at..span.range.start]);
        // Writing to a string does not fail.
        let _ = write!(out, "{MARK}{}]", span.found.kind);
        at = span.range.end;
    }
    out.push_str(&text[at..]);
    out
}
