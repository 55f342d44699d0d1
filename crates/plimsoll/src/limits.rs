//! Limits of models, and the line that follows from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::count::Tokens;
use crate::log::Usage;
use crate::policy::{LineRule, OverflowPolicy, UsageSum};

/// What a model can take and give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Limits {
    /// The context window; 0 means unknown, and then nothing is ever over the line.
    pub context: Tokens,
    /// A limit on the input alone, where the model has one.
    #[serde(default)]
    pub input: Option<Tokens>,
    /// The longest answer; 0 means unknown.
    #[serde(default)]
    pub output: Tokens,
}

impl Limits {
    /// A model with a context window and an output limit.
    pub fn new(context: u64, output: u64) -> Limits {
        Limits { context: Tokens(context), input: None, output: Tokens(output) }
    }

    /// The same model with a limit on the input alone.
    pub fn with_input(self, input: u64) -> Limits {
        Limits { input: Some(Tokens(input)), ..self }
    }
}

/// The load line of a model under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Where it is.
    pub at: Tokens,
    /// Whether standing on it is already over it.
    pub inclusive: bool,
}

impl Line {
    /// Whether that load is over the line.
    pub fn is_over(self, load: Tokens) -> bool {
        if self.inclusive { load >= self.at } else { load > self.at }
    }

    /// The largest load that is not over the line.
    pub fn room(self) -> Tokens {
        if self.inclusive { self.at - Tokens(1) } else { self.at }
    }
}

impl OverflowPolicy {
    /// What is set aside for the answer.
    pub fn reserve(&self, limits: Limits) -> Tokens {
        let output = if limits.output == Tokens::ZERO { self.default_output } else { limits.output };
        let most = limits.context.share(self.max_reserve_share);
        output.min(self.output_cap).min(most)
    }

    /// The line of a model; none where its window is unknown.
    pub fn line(&self, limits: Limits) -> Option<Line> {
        if limits.context == Tokens::ZERO {
            return None;
        }
        let at = match (self.line, limits.input.filter(|input| *input > Tokens::ZERO)) {
            (LineRule::Share, _) => limits.context.share(self.share),
            (LineRule::Usable, Some(input)) => input - self.input_reserve.min(self.reserve(limits)),
            (LineRule::Usable, None) => limits.context - self.reserve(limits),
        };
        Some(Line { at, inclusive: self.inclusive })
    }

    /// The line from which on a compaction may be prepared; none where the policy has no such share.
    pub fn soft_line(&self, limits: Limits) -> Option<Line> {
        let (line, share) = (self.line(limits)?, self.soft_share?);
        Some(Line { at: line.at.share(share), ..line })
    }

    /// How far over the line a request is taken to be that was refused so often in a row. Twice as far each time: a host
    /// makes a handful of tries, and where an answer needs half of the window, steps of 5 % would not get there.
    pub fn margin_of(&self, refusals: u32) -> f64 {
        let doublings = refusals.saturating_sub(1).min(31);
        (self.refused_margin * f64::from(1_u32 << doublings)).min(1.0)
    }

    /// What a response's usage weighs.
    pub fn load(&self, usage: &Usage) -> Tokens {
        let base = usage.input + usage.cache_read + usage.output;
        match (self.usage, usage.total) {
            (UsageSum::InputCacheReadOutput, _) => base,
            (UsageSum::All, _) => base + usage.cache_write,
            (UsageSum::TotalOrAll, Some(total)) if total > Tokens::ZERO => total,
            (UsageSum::TotalOrAll, _) => base + usage.cache_write,
        }
    }
}
