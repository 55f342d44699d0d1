//! Recorded usage of responses.

use std::sync::Arc;

use plimsoll::{Message, Tokens, Usage};
use serde::{Deserialize, Serialize};

/// Recorded usage of responses, oldest first. A response with several records counts once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    responses: Vec<Packed>,
    models: Vec<Arc<str>>,
}

/// A response in compact form, because a file may contain hundreds of thousands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u32, [u32; 5], f64)", into = "(u32, [u32; 5], f64)")]
struct Packed {
    /// Index of the model in the list, from 1; 0 for none.
    model: u32,
    /// Input, output, cache reads, cache writes, writes for an hour. No request comes near the largest number.
    counts: [u32; 5],
    /// Cost in dollars; negative for none.
    cost: f64,
}

// Serialised as a list, because field names would be most of the output.
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

/// Usage of a response.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RecordedResponse {
    /// The model that answered, if it is recorded.
    pub model: Option<Arc<str>>,
    /// Input that was neither read from nor written to the cache.
    pub input: Tokens,
    /// Output, including reasoning.
    pub output: Tokens,
    /// Cache reads.
    pub cache_read: Tokens,
    /// Cache writes.
    pub cache_write: Tokens,
    /// Part of `cache_write` that was written for an hour.
    pub cache_write_hour: Tokens,
    /// Cost in dollars, if the tool recorded it.
    pub cost: Option<f64>,
}

impl RecordedResponse {
    /// Returns all input of the request: the window, and what the host adds.
    pub fn request(&self) -> Tokens {
        self.input + self.cache_read + self.cache_write
    }

    /// Converts to the engine's type.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::new(self.input, self.output);
        (usage.cache_read, usage.cache_write) = (self.cache_read, self.cache_write);
        usage.cache_write_hour = self.cache_write_hour;
        usage
    }
}

impl Recorded {
    /// Returns the responses with any usage.
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

    /// Returns the number of responses.
    pub fn len(&self) -> usize {
        self.responses.len()
    }

    /// Whether there is no response.
    pub fn is_empty(&self) -> bool {
        self.responses.is_empty()
    }

    /// Adds the usage of a response, unless it is zero. Returns its index.
    pub fn add(&mut self, model: Option<&str>, usage: &Usage, cost: Option<f64>) -> Option<usize> {
        let counts = counts(usage);
        if counts.iter().all(|count| *count == 0) {
            return None;
        }
        let model = model.map_or(0, |model| self.number(model));
        self.responses.push(Packed { model, counts, cost: cost.unwrap_or(-1.0) });
        Some(self.responses.len() - 1)
    }

    /// Adds the responses of a later part of the same session.
    pub fn append(&mut self, later: &Recorded) {
        for (packed, response) in later.responses.iter().zip(later.responses()) {
            let model = response.model.map_or(0, |model| self.number(&model));
            self.responses.push(Packed { model, ..*packed });
        }
    }

    /// Keeps only the first `count` responses.
    pub fn truncate(&mut self, count: usize) {
        self.responses.truncate(count);
    }

    /// Adds the usage in a message.
    pub fn add_message(&mut self, message: &Message) {
        if let Some(usage) = &message.info.tokens {
            let cost = message.info.cost.as_ref().and_then(serde_json::Number::as_f64);
            self.add(message.info.model_id.as_deref(), usage, cost);
        }
    }

    /// Updates a response from another of its records. Writers repeat the usage in each record, and some write the
    /// first one before the answer is fully counted, so the one with the most output counts.
    pub(crate) fn again(&mut self, place: usize, usage: &Usage) {
        let counts = counts(usage);
        if let Some(known) = self.responses.get_mut(place).filter(|known| counts[1] >= known.counts[1]) {
            known.counts = counts;
        }
    }

    /// Keeps only responses for which `is_ours` returns true for their index.
    pub(crate) fn retain(&mut self, is_ours: impl Fn(usize) -> bool) {
        let mut place = 0;
        self.responses.retain(|_| {
            place += 1;
            is_ours(place - 1)
        });
    }

    /// Returns the number of a model. Sessions have few, and usually the model of the previous response.
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
