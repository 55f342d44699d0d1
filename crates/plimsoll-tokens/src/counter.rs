//! A calibration as a counter for the engine.

use std::ops::Deref;

use plimsoll::{Counter, Text, Tokens};

/// A counter for the engine: a base counter's tokens times the factor that a [`crate::Calibration`] had when this was
/// made.
///
/// Counts depend on that factor, so it must not be put *into* a [`plimsoll::Memo`], which remembers counts by name. Put
/// the memo inside: the expensive base is then counted once per text, and the factor is applied outside.
///
/// ```
/// use plimsoll::{Counter, Memo, Text, Tokens};
/// use plimsoll_tokens::{Bpe, Calibration};
///
/// let base = Memo::new(Bpe::O200k);
/// let text = Text::from("hello world");
/// let before = Calibration::new("claude-opus-4-7").counter(&base).count_text(&text);
/// let plain = Calibration::new("gpt-5").counter(&base).count_text(&text);
/// assert_eq!((before, plain), (Tokens(3), Tokens(2)));
/// assert_eq!(base.computed(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibrated<B> {
    base: B,
    factor: f64,
    per_block: Tokens,
    /// Fewest tokens of the model for one of the base counter.
    least: f64,
}

impl<B> Calibrated<B> {
    pub(crate) fn new(base: B, factor: f64, per_block: f64, least: f64) -> Calibrated<B> {
        Calibrated { base, factor, per_block: Tokens(per_block.round() as u64), least }
    }

    fn scale(&self, base: Tokens) -> Tokens {
        Tokens((base.0 as f64 * self.factor).ceil() as u64)
    }
}

impl<B: Deref<Target: Counter> + Send + Sync> Counter for Calibrated<B> {
    fn name(&self) -> &'static str {
        "calibrated"
    }

    fn count(&self, text: &str) -> Tokens {
        self.scale(self.base.count(text))
    }

    fn count_text(&self, text: &Text) -> Tokens {
        self.scale(self.base.count_text(text))
    }

    fn message_overhead(&self) -> Tokens {
        self.per_block
    }

    // The bound is a share of the base counter's tokens, whatever was learned: usage that is too low must not lower it.
    fn least_share(&self) -> Option<f64> {
        self.base.least_share().map(|_| self.least / self.factor)
    }
}
