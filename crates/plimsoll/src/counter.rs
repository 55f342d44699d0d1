//! Counters: how many tokens a text takes.
//!
//! The engine plans with an estimate that needs only lengths ([`CharCounter`]: chars divided by four, as all source systems do).
//! A host that wants better figures passes another [`Counter`]; `plimsoll-tokens` has exact BPE and one that is calibrated by
//! real usage.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::chars::{Chars, Text};
use crate::tokens::Tokens;

/// Counts the tokens of a text.
///
/// Counters are used from several threads.
pub trait Counter: Send + Sync {
    /// Name of the counter; counters of one name must return the same counts.
    fn name(&self) -> &'static str;

    /// Counts a string.
    fn count(&self, text: &str) -> Tokens;

    /// Counts a [`Text`]. Counters that need only its length override this.
    fn count_text(&self, text: &Text) -> Tokens {
        self.count(text)
    }

    /// Overhead of a message: role, separators.
    fn message_overhead(&self) -> Tokens {
        Tokens(4)
    }

    /// Overhead of each tool result after the first of a message, for counters that count every result as a separate
    /// message.
    fn result_overhead(&self) -> Tokens {
        Tokens::ZERO
    }

    /// Estimate for an image or document of unknown size.
    fn file_tokens(&self) -> Tokens {
        FILE_TOKENS
    }

    /// Share of this counter's count that every vocabulary reaches on text that is nearly all ASCII. `None` if the count bounds
    /// nothing, as that of an estimate by length. Usage that a provider reports below it is not believed.
    fn least_share(&self) -> Option<f64> {
        None
    }

    /// Whether the caller cancelled. Long work checks this periodically and returns early with any result, which the caller
    /// discards.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Providers charge 1,000 to 1,600 for a full-size image.
const FILE_TOKENS: Tokens = Tokens(1_600);

/// Rounding of fractions of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Rounding {
    /// Up, so that a sum of estimates is never too small.
    #[default]
    Ceil,
    /// Half up, as OpenCode does.
    Round,
    /// Down.
    Floor,
}

/// Estimate by length: chars divided by a constant, by default four. O(1) for a [`Text`].
///
/// ```
/// use plimsoll::{CharCounter, Counter, Tokens};
/// assert_eq!(CharCounter::default().count("abcde"), Tokens(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CharCounter {
    /// Chars for one token.
    pub chars_per_token: u64,
    /// Rounding of the fraction.
    pub rounding: Rounding,
    /// Estimate for an image or document.
    pub file_tokens: Tokens,
    /// Overhead of each parallel tool result after the first. The token management guide sends every result as a separate
    /// message, at 4 tokens each; elsewhere results of one step share the overhead of one message.
    pub result_overhead: Tokens,
}

impl Default for CharCounter {
    fn default() -> CharCounter {
        CharCounter {
            chars_per_token: 4,
            rounding: Rounding::Ceil,
            file_tokens: FILE_TOKENS,
            result_overhead: Tokens::ZERO,
        }
    }
}

impl CharCounter {
    /// Returns the estimate for a length.
    pub fn of_chars(&self, chars: Chars) -> Tokens {
        let per = self.chars_per_token.max(1);
        Tokens(match self.rounding {
            Rounding::Ceil => chars.0.div_ceil(per),
            // The sum may overflow, so the fraction is rounded separately.
            Rounding::Round => chars.0 / per + u64::from(chars.0 % per >= per.div_ceil(2)),
            Rounding::Floor => chars.0 / per,
        })
    }
}

impl Counter for CharCounter {
    fn name(&self) -> &'static str {
        match self.rounding {
            Rounding::Ceil => "chars/ceil",
            Rounding::Round => "chars/round",
            Rounding::Floor => "chars/floor",
        }
    }

    fn count(&self, text: &str) -> Tokens {
        self.of_chars(Chars::of(text))
    }

    fn count_text(&self, text: &Text) -> Tokens {
        self.of_chars(text.chars())
    }

    fn result_overhead(&self) -> Tokens {
        self.result_overhead
    }

    fn file_tokens(&self) -> Tokens {
        self.file_tokens
    }
}

/// A counter that calls the inner one only once for each text.
///
/// The count is stored with the text, so it lives as long as the text and is shared by all clones.
#[derive(Debug, Default)]
pub struct Memo<C> {
    inner: C,
    computed: AtomicU64,
}

impl<C: Clone> Clone for Memo<C> {
    fn clone(&self) -> Memo<C> {
        let computed = self.computed.load(Ordering::Relaxed);
        Memo { inner: self.inner.clone(), computed: AtomicU64::new(computed) }
    }
}

impl<C: Counter> Memo<C> {
    /// Wraps `inner`.
    pub fn new(inner: C) -> Memo<C> {
        Memo { inner, computed: AtomicU64::new(0) }
    }

    /// Returns how often the inner counter was called.
    pub fn computed(&self) -> u64 {
        self.computed.load(Ordering::Relaxed)
    }
}

impl<C: Counter> Counter for Memo<C> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn count(&self, text: &str) -> Tokens {
        self.computed.fetch_add(1, Ordering::Relaxed);
        self.inner.count(text)
    }

    fn count_text(&self, text: &Text) -> Tokens {
        text.tokens_by(self.inner.name(), || {
            self.computed.fetch_add(1, Ordering::Relaxed);
            self.inner.count_text(text)
        })
    }

    fn message_overhead(&self) -> Tokens {
        self.inner.message_overhead()
    }

    fn result_overhead(&self) -> Tokens {
        self.inner.result_overhead()
    }

    fn file_tokens(&self) -> Tokens {
        self.inner.file_tokens()
    }

    fn least_share(&self) -> Option<f64> {
        self.inner.least_share()
    }
}
