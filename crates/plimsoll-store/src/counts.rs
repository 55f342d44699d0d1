//! Exact counts of tokens that are kept with the parts of a stored session.
//!
//! Counting all texts of a long session takes longer than reading it. A text that is read from the store comes with the
//! count that was stored for it, and [`plimsoll::Memo`] does not count it again. [`CountWatch`] finds the texts that were
//! counted for the first time and stores their counts.
//!
//! Counts are derived data: a change of a part deletes its count, storing one changes no revision, and failing to store
//! one is no failure.

use plimsoll::{Input, Message, Part, PartBody, PartId, SessionId, Text, Tokens};

use crate::store::Store;

/// Counters whose counts are stored, by name.
const COUNTERS: [&str; 2] = ["o200k", "cl100k"];
/// Counts that are stored in one transaction.
const BATCH: usize = 5_000;
/// Bytes of text that must have been counted before it pays to write to the store.
const MIN_BYTES: usize = 64 << 10;

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
fn texts(part: &Part) -> (Option<&Text>, Option<&Text>) {
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

/// Texts of a session that were read without a count.
#[derive(Debug, Default)]
pub struct CountWatch {
    waiting: Vec<(PartId, Option<Text>, Option<Text>)>,
    counted: Vec<PartCounts>,
    bytes: usize,
    /// Maximum number of parts that wait, zero for no limit: they hold their texts in memory.
    max_waiting: usize,
}

impl CountWatch {
    /// A watch over all messages of a session.
    pub fn of(messages: &[Message]) -> CountWatch {
        let mut watch = CountWatch::default();
        messages.iter().for_each(|message| watch.watch(message));
        watch
    }

    /// A watch that holds the texts of at most so many parts.
    pub fn new(max_waiting: usize) -> CountWatch {
        CountWatch { max_waiting, ..CountWatch::default() }
    }

    /// Remembers the texts of a message that have no count yet. One that is still being written is left out.
    pub fn watch(&mut self, message: &Message) {
        if crate::is_being_written(message) {
            return;
        }
        for part in &message.parts {
            let (input, text) = texts(part);
            let is_new = |text: &&Text| !text.is_empty() && count_of(text).is_none();
            if input.iter().chain(&text).any(is_new) {
                self.waiting.push((part.id.clone(), input.cloned(), text.cloned()));
            }
        }
    }

    /// Takes the counts that were made since, and stores them once there are enough. Texts that were still not counted stay
    /// watched.
    pub fn settle(&mut self, store: &dyn Store, session: &SessionId) {
        let (counted, bytes) = (&mut self.counted, &mut self.bytes);
        self.waiting.retain(|(part, input, text)| {
            let texts = || input.iter().chain(text).filter(|text| !text.is_empty());
            let Some(counter) = texts().find_map(count_of).map(|(counter, _)| counter) else { return true };
            if !texts().all(|text| text.count_by(counter).is_some()) {
                return true;
            }
            *bytes += texts().map(|text| text.len()).sum::<usize>();
            let tokens = |text: &Option<Text>| text.as_ref().and_then(|text| text.count_by(counter));
            let chars = |text: &Option<Text>| text.as_ref().map_or(0, |text| text.chars().0);
            counted.push(PartCounts {
                part: part.clone(),
                counter,
                input: tokens(input).unwrap_or_default(),
                text: tokens(text).unwrap_or_default(),
                chars: (chars(input), chars(text)),
            });
            false
        });
        let excess = self.waiting.len().saturating_sub(self.max_waiting);
        if self.max_waiting > 0 && excess > 0 {
            self.waiting.drain(..excess);
        }
        if self.counted.len() >= BATCH {
            self.store(store, session);
        }
    }

    /// The same, and stores what there is.
    pub fn finish(&mut self, store: &dyn Store, session: &SessionId) {
        self.settle(store, session);
        self.store(store, session);
    }

    fn store(&mut self, store: &dyn Store, session: &SessionId) {
        if self.bytes >= MIN_BYTES && !self.counted.is_empty() {
            // Without them the texts are counted again the next time.
            let _ = store.keep_counts(session, std::mem::take(&mut self.counted));
        }
    }
}

fn count_of(text: &Text) -> Option<(&'static str, Tokens)> {
    COUNTERS.into_iter().find_map(|counter| Some((counter, text.count_by(counter)?)))
}
