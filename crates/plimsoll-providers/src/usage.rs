//! Converts providers' usage into one convention: input without cache reads and writes, output without reasoning.
//!
//! A usage without any input becomes `None`: it says nothing about the window, and would make a full window look empty.

use plimsoll::{Tokens, Usage};
use serde_json::Value;

use crate::{anthropic, chat, responses};

/// Counts as a provider reported them, in the engine's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    total: Option<u64>,
    input: u64,
    output: u64,
    reasoning: u64,
    cache_read: u64,
    cache_write: u64,
}

impl Counts {
    fn usage(self) -> Option<Usage> {
        if self.input == 0 && self.cache_read == 0 && self.cache_write == 0 {
            return None;
        }
        let mut usage = Usage::new(Tokens(self.input), Tokens(self.output));
        usage.total = self.total.filter(|total| *total > 0).map(Tokens);
        usage.reasoning = Tokens(self.reasoning);
        usage.cache_read = Tokens(self.cache_read);
        usage.cache_write = Tokens(self.cache_write);
        Some(usage)
    }

    /// Converts OpenAI's convention, in which input includes cached tokens and output includes reasoning.
    fn inclusive(
        input: Option<u64>,
        output: Option<u64>,
        total: Option<u64>,
        details: Details,
    ) -> Option<Usage> {
        let output = output.unwrap_or(0);
        let input = input.or_else(|| total?.checked_sub(output)).unwrap_or(0);
        let Details { cache_read, cache_write, reasoning } = details;
        // Some servers (xAI, Gemini's compatible one) count reasoning in addition to the output: then only the sum of
        // all three equals the total.
        let sum = input.saturating_add(output);
        let beside = reasoning > output || (reasoning > 0 && total == Some(sum.saturating_add(reasoning)));
        let counts = Counts {
            total,
            input: input.saturating_sub(cache_read).saturating_sub(cache_write),
            output: if beside { output } else { output - reasoning },
            reasoning,
            // Cached tokens cannot exceed the input, and the sum must stay the input.
            cache_read: cache_read.min(input),
            cache_write: cache_write.min(input.saturating_sub(cache_read)),
        };
        counts.usage()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Details {
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
}

impl anthropic::wire::Usage {
    /// Converts to the engine's terms; `None` if no input was counted.
    pub fn normalise(&self) -> Option<Usage> {
        let by_ttl = self.cache_creation.as_ref().map(|written| {
            written.ephemeral_5m_input_tokens.saturating_add(written.ephemeral_1h_input_tokens)
        });
        let thoughts = self.extra.get("output_tokens_details").and_then(|it| it.get("thinking_tokens"));
        let reasoning = thoughts.and_then(Value::as_u64).unwrap_or(0);
        let output = self.output_tokens.unwrap_or(0);
        let counts = Counts {
            total: None,
            input: self.input_tokens.unwrap_or(0),
            output: output.saturating_sub(reasoning),
            reasoning: reasoning.min(output),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: self.cache_creation_input_tokens.or(by_ttl).unwrap_or(0),
        };
        counts.usage()
    }

    /// Takes over the counts of a later event. They are totals since the beginning, but some may be missing, and
    /// gateways send zeros for unknown ones.
    pub(crate) fn update(&mut self, later: anthropic::wire::Usage) {
        fn newer(old: &mut Option<u64>, new: Option<u64>) {
            if new.is_some_and(|new| new > 0 || old.is_none()) {
                *old = new;
            }
        }
        newer(&mut self.input_tokens, later.input_tokens);
        newer(&mut self.output_tokens, later.output_tokens);
        newer(&mut self.cache_creation_input_tokens, later.cache_creation_input_tokens);
        newer(&mut self.cache_read_input_tokens, later.cache_read_input_tokens);
        self.cache_creation = later.cache_creation.or(self.cache_creation.take());
        self.extra.extend(later.extra);
    }
}

fn details(input: Option<&chat::wire::InputDetails>, output: Option<&chat::wire::OutputDetails>) -> Details {
    Details {
        cache_read: input.and_then(|input| input.cached_tokens).unwrap_or(0),
        cache_write: input.and_then(|input| input.cache_write_tokens).unwrap_or(0),
        reasoning: output.and_then(|output| output.reasoning_tokens).unwrap_or(0),
    }
}

impl chat::wire::Usage {
    /// Converts to the engine's terms; `None` if no input was counted.
    pub fn normalise(&self) -> Option<Usage> {
        let mut details =
            details(self.prompt_tokens_details.as_ref(), self.completion_tokens_details.as_ref());
        if details.cache_read == 0 {
            // DeepSeek's name of the field.
            let hit = self.extra.get("prompt_cache_hit_tokens").and_then(Value::as_u64);
            details.cache_read = hit.unwrap_or(0);
        }
        Counts::inclusive(self.prompt_tokens, self.completion_tokens, self.total_tokens, details)
    }
}

impl responses::wire::Usage {
    /// Converts to the engine's terms; `None` if no input was counted.
    pub fn normalise(&self) -> Option<Usage> {
        let details = details(self.input_tokens_details.as_ref(), self.output_tokens_details.as_ref());
        Counts::inclusive(self.input_tokens, self.output_tokens, self.total_tokens, details)
    }
}
