//! Exact token counts, stored with the parts of a session.
//!
//! Counting all texts of a long session takes longer than reading it. A text that is read from the store carries the
//! count that was stored for it, and [`plimsoll::Memo`] does not count it again. [`CountWatch`](crate::CountWatch)
//! finds texts that were counted for the first time and stores their counts.
//!
//! Counts are derived data: changing a part deletes its count, storing a count changes no revision, and a count that
//! cannot be stored is not an error.

use plimsoll::{Input, Part, PartBody, PartId, Text, Tokens};

/// Names of the counters whose counts are stored.
const COUNTERS: [&str; 2] = ["o200k", "cl100k"];
/// Exact token counts of a part's texts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartCounts {
    /// The part.
    pub part: PartId,
    /// The name of the counter.
    pub counter: &'static str,
    /// Tokens of the input of a call.
    pub input: Tokens,
    /// Tokens of the text, or of the output or error of a call.
    pub text: Tokens,
    /// Lengths of both texts in chars. Counts are not stored if the part's lengths have changed.
    pub(crate) chars: (u64, u64),
}

/// Returns the counted texts of a part: the input of a call, and the text that it is stored with.
pub(crate) fn texts(part: &Part) -> (Option<&Text>, Option<&Text>) {
    match &part.body {
        PartBody::Text(said) => (None, Some(&said.text)),
        PartBody::Reasoning(thought) => (None, Some(&thought.text)),
        PartBody::ToolResult(result) => (None, Some(&result.text)),
        PartBody::ToolCall(call) => (call.input.as_ref().map(Input::json), None),
        PartBody::Tool(tool) => {
            let text = tool.state.output.as_ref().or(tool.state.error.as_ref());
            (tool.state.input.as_ref().map(Input::json), text)
        }
        PartBody::File(_) | PartBody::Compaction(_) | PartBody::Other(_) | PartBody::Bare(_) => (None, None),
    }
}

/// Attaches stored counts, in [`STORED_FORM`], to the texts of a part.
pub(crate) fn restore(part: &Part, stored: &str) {
    let mut words = stored.split(' ');
    let counter = words.next().and_then(|name| COUNTERS.into_iter().find(|known| *known == name));
    let mut tokens = words.map_while(|word| word.parse().ok()).map(Tokens);
    if let (Some(counter), Some(input), Some(text)) = (counter, tokens.next(), tokens.next()) {
        let known = texts(part);
        for (known, tokens) in [(known.0, input), (known.1, text)] {
            known.inspect(|known| known.remember_count(counter, tokens));
        }
    }
}

/// SQL expression for the stored counts of a row of `part`.
pub(crate) const STORED_FORM: &str =
    "(SELECT c.counter || ' ' || c.input || ' ' || c.text FROM counted c WHERE c.part = part.seq)";

/// Returns a text's count by one of the counters, if it has been counted.
pub(crate) fn count_of(text: &Text) -> Option<(&'static str, Tokens)> {
    COUNTERS.into_iter().find_map(|counter| Some((counter, text.count_by(counter)?)))
}
