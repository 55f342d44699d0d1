//! The line: the most tokens a request may have, given the model's limits and the policy.

use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::log::Usage;
use crate::policy::{LineRule, OverflowPolicy, UsageSum};
use crate::tokens::Tokens;

/// The line of a model under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// The tokens at the line.
    pub at: Tokens,
    /// Whether a load equal to it is over the line.
    pub inclusive: bool,
}

impl Line {
    /// Returns whether a load is over the line.
    pub fn is_over(self, load: Tokens) -> bool {
        if self.inclusive { load >= self.at } else { load > self.at }
    }

    /// Returns the largest load that is not over the line.
    pub fn room(self) -> Tokens {
        if self.inclusive { self.at - Tokens(1) } else { self.at }
    }
}

impl OverflowPolicy {
    /// Returns the tokens that are reserved for the answer.
    pub fn reserve(&self, limits: Limits) -> Tokens {
        let output = if limits.output == Tokens::ZERO { self.default_output } else { limits.output };
        let most = limits.context.share(self.max_reserve_share);
        output.min(self.output_cap).min(most)
    }

    /// Returns the line of a model; `None` if its context window is unknown.
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

    /// Returns the line above which a compaction may be prepared; `None` if the policy has no such share.
    pub fn soft_line(&self, limits: Limits) -> Option<Line> {
        let (line, share) = (self.line(limits)?, self.soft_share?);
        Some(Line { at: line.at.share(share), ..line })
    }

    /// Returns how far over the line a request is assumed to be after this many rejections in a row. It doubles each time: a host
    /// retries a few times, and if an answer needs half of the window, steps of 5 % would not get there.
    pub fn margin_of(&self, refusals: u32) -> f64 {
        let doublings = refusals.saturating_sub(1).min(31);
        (self.refused_margin * f64::from(1_u32 << doublings)).min(1.0)
    }

    /// Returns the load by a response's usage.
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
