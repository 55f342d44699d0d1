//! What providers counted, as a file records it.

use std::sync::Arc;

use plimsoll::{Message, Tokens, Usage};

/// What a file records of its responses, oldest first. A response that is written down in several records is one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    responses: Vec<RecordedResponse>,
    /// The newest model, so that a name is held once and not for each response.
    model: Option<Arc<str>>,
}

/// What was counted for one response. It holds a few numbers: there is one for each response of a file.
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

    /// The same as the engine has it.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::new(self.input, self.output);
        (usage.cache_read, usage.cache_write) = (self.cache_read, self.cache_write);
        usage.cache_write_hour = self.cache_write_hour;
        usage
    }
}

impl Recorded {
    /// The responses that something was counted for.
    pub fn responses(&self) -> &[RecordedResponse] {
        &self.responses
    }

    /// Take the usage of a response; one that counts nothing is no record. Returns its place.
    pub fn add(&mut self, model: Option<&str>, usage: &Usage, cost: Option<f64>) -> Option<usize> {
        let counted = usage.input + usage.cache_read + usage.cache_write + usage.output + usage.reasoning;
        if counted == Tokens::ZERO {
            return None;
        }
        let model = self.shared(model);
        self.responses.push(RecordedResponse {
            model,
            input: usage.input,
            output: usage.output + usage.reasoning,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            cache_write_hour: usage.cache_write_hour,
            cost,
        });
        Some(self.responses.len() - 1)
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
        let Some(known) = self.responses.get_mut(place) else { return };
        let output = usage.output + usage.reasoning;
        if output >= known.output {
            known.output = output;
            known.input = usage.input;
            known.cache_read = usage.cache_read;
            known.cache_write = usage.cache_write;
            known.cache_write_hour = usage.cache_write_hour;
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

    fn shared(&mut self, model: Option<&str>) -> Option<Arc<str>> {
        let model = model?;
        if self.model.as_deref() != Some(model) {
            self.model = Some(Arc::from(model));
        }
        self.model.clone()
    }
}
