//! What providers counted, as a file records it.

use std::sync::Arc;

use plimsoll::{Message, Tokens, Usage};
use serde::{Deserialize, Serialize};

/// What a file records of its responses, oldest first. A response that is written down in several records is one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    responses: Vec<Packed>,
    models: Vec<Arc<str>>,
}

/// A response as it is held. There may be hundreds of thousands in a file, so it is kept small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u32, [u32; 5], f64)", into = "(u32, [u32; 5], f64)")]
struct Packed {
    /// The place of the model in the list, from 1; 0 for none.
    model: u32,
    /// Input, output, read, written, written for an hour. No request comes near the largest number.
    counts: [u32; 5],
    /// Dollars; below zero for none.
    cost: f64,
}

// As a list: the names of the fields would be most of what is written.
impl From<(u32, [u32; 5], f64)> for Packed {
    fn from((model, counts, cost): (u32, [u32; 5], f64)) -> Packed {
        Packed { model, counts, cost }
    }
}

impl From<Packed> for (u32, [u32; 5], f64) {
    fn from(packed: Packed) -> (u32, [u32; 5], f64) {
        (packed.model, packed.counts, packed.cost)
    }
}

/// What was counted for one response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedResponse {
    /// The model that answered, if the file says.
    pub model: Option<Arc<str>>,
    /// Input that was neither read from nor written to the cache.
    pub input: Tokens,
    /// The answer, reasoning included.
    pub output: Tokens,
    /// Input read from the cache.
    pub cache_read: Tokens,
    /// Input written to the cache.
    pub cache_write: Tokens,
    /// What of `cache_write` was written for an hour.
    pub cache_write_hour: Tokens,
    /// What it cost in dollars, where the tool that wrote the file says so itself.
    pub cost: Option<f64>,
}

impl RecordedResponse {
    /// All input of the request: what is in the window, and what the host sends with it.
    pub fn request(&self) -> Tokens {
        self.input + self.cache_read + self.cache_write
    }

    /// These figures in the engine's type.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::new(self.input, self.output);
        (usage.cache_read, usage.cache_write) = (self.cache_read, self.cache_write);
        usage.cache_write_hour = self.cache_write_hour;
        usage
    }
}

impl Recorded {
    /// The responses that something was counted for.
    pub fn responses(&self) -> impl ExactSizeIterator<Item = RecordedResponse> + DoubleEndedIterator {
        self.responses.iter().map(|packed| {
            let [input, output, cache_read, cache_write, cache_write_hour] =
                packed.counts.map(|count| Tokens(u64::from(count)));
            let model = (packed.model as usize).checked_sub(1);
            RecordedResponse {
                model: model.and_then(|model| self.models.get(model).cloned()),
                input,
                output,
                cache_read,
                cache_write,
                cache_write_hour,
                cost: Some(packed.cost).filter(|cost| *cost >= 0.0),
            }
        })
    }

    /// How many responses there are.
    pub fn len(&self) -> usize {
        self.responses.len()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.responses.is_empty()
    }

    /// Take the usage of a response; one that counts nothing is no record. Returns its place.
    pub fn add(&mut self, model: Option<&str>, usage: &Usage, cost: Option<f64>) -> Option<usize> {
        let counts = counts(usage);
        if counts.iter().all(|count| *count == 0) {
            return None;
        }
        let model = model.map_or(0, |model| self.number(model));
        self.responses.push(Packed { model, counts, cost: cost.unwrap_or(-1.0) });
        Some(self.responses.len() - 1)
    }

    /// Adds the responses of a later record of the same session.
    pub fn append(&mut self, later: &Recorded) {
        for (packed, response) in later.responses.iter().zip(later.responses()) {
            let model = response.model.map_or(0, |model| self.number(&model));
            self.responses.push(Packed { model, ..*packed });
        }
    }

    /// Leaves out all responses but the first `count`.
    pub fn truncate(&mut self, count: usize) {
        self.responses.truncate(count);
    }

    /// Take what a message says of itself.
    pub fn add_message(&mut self, message: &Message) {
        if let Some(usage) = &message.info.tokens {
            let cost = message.info.cost.as_ref().and_then(serde_json::Number::as_f64);
            self.add(message.info.model_id.as_deref(), usage, cost);
        }
    }

    /// Another record of a response that was taken before. Writers repeat the usage with each record, and some write
    /// the first of them while the answer is still being counted: the one with the most output stands.
    pub(crate) fn again(&mut self, place: usize, usage: &Usage) {
        let counts = counts(usage);
        if let Some(known) = self.responses.get_mut(place).filter(|known| counts[1] >= known.counts[1]) {
            known.counts = counts;
        }
    }

    /// Leave out the responses of which `is_ours` does not hold, by place.
    pub(crate) fn retain(&mut self, is_ours: impl Fn(usize) -> bool) {
        let mut place = 0;
        self.responses.retain(|_| {
            place += 1;
            is_ours(place - 1)
        });
    }

    /// The number of a model. Sessions have few, and mostly the one of the response before.
    fn number(&mut self, model: &str) -> u32 {
        let known = self.models.iter().rposition(|known| &**known == model);
        let place = known.unwrap_or_else(|| {
            self.models.push(Arc::from(model));
            self.models.len() - 1
        });
        u32::try_from(place + 1).unwrap_or(0)
    }
}

fn counts(usage: &Usage) -> [u32; 5] {
    let output = usage.output + usage.reasoning;
    [usage.input, output, usage.cache_read, usage.cache_write, usage.cache_write_hour]
        .map(|tokens| u32::try_from(tokens.0).unwrap_or(u32::MAX))
}
