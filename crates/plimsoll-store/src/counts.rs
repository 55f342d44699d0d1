//! Exact counts of tokens that are kept with the parts of a stored session.
//!
//! Counting all texts of a long session takes longer than reading it. A text that is read from the store comes with the
//! count that was stored for it, and [`plimsoll::Memo`] does not count it again. [`CountWatch`](crate::CountWatch) finds the texts that were
//! counted for the first time and stores their counts.
//!
//! Counts are derived data: a change of a part deletes its count, storing one changes no revision, and failing to store
//! one is no failure.

use plimsoll::{Input, Part, PartBody, PartId, Text, Tokens};

/// Counters whose counts are stored, by name.
const COUNTERS: [&str; 2] = ["o200k", "cl100k"];
/// The exact counts of a part's texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartCounts {
    /// The part.
    pub part: PartId,
    /// The name of the counter.
    pub counter: &'static str,
    /// Tokens of the input of a call.
    pub input: Tokens,
    /// Tokens of the text, or of the output or error of a call.
    pub text: Tokens,
    /// Lengths of both in chars. Counts of a part that has other lengths by now are not stored.
    pub(crate) chars: (u64, u64),
}

/// The texts of a part that are counted: the input of a call, and the text that it is stored with.
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

/// Gives the texts of a part the counts that were stored for it, written as [`STORED_FORM`] writes them.
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

/// The expression for the stored counts of a row of `part`.
pub(crate) const STORED_FORM: &str =
    "(SELECT c.counter || ' ' || c.input || ' ' || c.text FROM counted c WHERE c.part = part.seq)";

/// The count of a text by one of the counters, if it was made.
pub(crate) fn count_of(text: &Text) -> Option<(&'static str, Tokens)> {
    COUNTERS.into_iter().find_map(|counter| Some((counter, text.count_by(counter)?)))
}
