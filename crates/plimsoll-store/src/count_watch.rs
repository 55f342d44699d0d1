//! Finds texts that were counted for the first time, and stores their counts.

use plimsoll::{Message, PartId, SessionId, Text};

use crate::counts::{PartCounts, count_of, texts};
use crate::store::Store;

/// Number of counts that are stored in one transaction.
const BATCH: usize = 5_000;
/// Minimum size of newly counted text, in bytes, for which a transaction is worth its cost.
const MIN_BYTES: usize = 64 << 10;

/// Texts of a session that were read without a count.
#[derive(Debug, Default)]
pub struct CountWatch {
    waiting: Vec<(PartId, Option<Text>, Option<Text>)>,
    counted: Vec<PartCounts>,
    bytes: usize,
    /// Maximum number of parts that are watched, because they hold their texts in memory; 0 means no limit.
    max_waiting: usize,
}

impl CountWatch {
    /// Watches all messages of a session.
    pub fn of(messages: &[Message]) -> CountWatch {
        let mut watch = CountWatch::default();
        messages.iter().for_each(|message| watch.watch(message));
        watch
    }

    /// Watches the texts of at most `max_waiting` parts.
    pub fn new(max_waiting: usize) -> CountWatch {
        CountWatch { max_waiting, ..CountWatch::default() }
    }

    /// Watches the texts of a message that have no count. A message that is still being written is skipped.
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

    /// Collects new counts and stores them if there are enough. Texts without a count stay watched.
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

    /// Like [`settle`](CountWatch::settle), and stores all counts.
    pub fn finish(&mut self, store: &dyn Store, session: &SessionId) {
        self.settle(store, session);
        self.store(store, session);
    }

    fn store(&mut self, store: &dyn Store, session: &SessionId) {
        if self.bytes >= MIN_BYTES && !self.counted.is_empty() {
            // If this fails, the texts are counted again the next time.
            let _ = store.keep_counts(session, std::mem::take(&mut self.counted));
        }
    }
}
