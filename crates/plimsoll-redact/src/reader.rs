//! Readers: they find the end of a value.

use std::ops::Range;

use crate::cursor::{Cursor, Quote, between_others, never};
use crate::pattern::Pattern;

/// How the value is read. `patterns.txt` explains the names.
#[derive(Debug)]
pub(crate) enum Reader {
    /// Everything from the clue on.
    Whole,
    /// Everything after the clue.
    Rest,
    Word,
    Item,
    Value,
    Text,
    Literal,
    /// The credentials of a header.
    Credential,
    /// A parameter of a URL.
    Parameter,
    /// The value of a variable that a line sets.
    Variable,
    Pattern(Pattern),
}

/// The value that a reader found.
#[derive(Clone, Debug)]
pub(crate) struct ReadValue {
    pub(crate) range: Range<usize>,
    pub(crate) quote: Option<Quote>,
}

impl Reader {
    pub(crate) fn parse(column: Option<&'static str>) -> Reader {
        match column {
            None => Reader::Whole,
            Some("item") => Reader::Item,
            Some("value") => Reader::Value,
            Some("text") => Reader::Text,
            Some("literal") => Reader::Literal,
            Some("credential") => Reader::Credential,
            Some("parameter") => Reader::Parameter,
            Some("variable") => Reader::Variable,
            Some(column) => match column.strip_prefix('/').and_then(|source| source.strip_suffix('/')) {
                Some(source) => Reader::Pattern(Pattern::new(source)),
                None => Reader::Word,
            },
        }
    }

    /// The value that begins at `at`.
    pub(crate) fn read(&self, text: &str, at: usize) -> Option<ReadValue> {
        let mut cursor = Cursor::new(text, at);
        let word = |stops| Some(ReadValue { range: Cursor::new(text, at).word(stops), quote: None });
        match self {
            Reader::Whole | Reader::Rest => None,
            Reader::Word => word(never),
            Reader::Item => word(between_others),
            Reader::Credential => word(ends_credential),
            Reader::Parameter => word(ends_parameter),
            Reader::Variable => word(ends_assignment),
            Reader::Pattern(pattern) => {
                let found = pattern.match_at(text, at)?;
                Some(ReadValue { range: found.group.unwrap_or(found.range), quote: None })
            }
            Reader::Value | Reader::Text | Reader::Literal => match cursor.quote() {
                Some(quote) => {
                    let quoted = cursor.quoted(quote);
                    if quoted.closed || !matches!(self, Reader::Literal) {
                        return Some(ReadValue { range: quoted.range, quote: Some(quote) });
                    }
                    // The text was cut after the word, or this is not an opening quote.
                    let range = Cursor::new(text, quoted.range.start).word(between_others);
                    let is_cut = Cursor::new(text, range.end).line(1).is_empty();
                    is_cut.then_some(ReadValue { range, quote: Some(quote) })
                }
                None if matches!(self, Reader::Value) => word(between_others),
                None if matches!(self, Reader::Text) => word(never),
                None => None,
            },
        }
    }
}

fn ends_credential(line: &str, at: usize) -> bool {
    matches!(line.as_bytes()[at], b',' | b';' | b')' | b'}' | b']' | b'<' | b'>' | b'|')
}

fn ends_parameter(line: &str, at: usize) -> bool {
    ends_credential(line, at) || matches!(line.as_bytes()[at], b'&' | b'#')
}

/// For [`Cursor::word`]: what ends the value of a variable in a shell or a file of variables.
fn ends_assignment(line: &str, at: usize) -> bool {
    let rest = &line[at..];
    rest.starts_with("&&") || rest.starts_with("||") || rest.starts_with("; ") || rest == ";"
}
