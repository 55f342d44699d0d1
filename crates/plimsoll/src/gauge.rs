//! Conversion between estimated tokens and those of the provider.
//!
//! The ladder converts both ways: a window's estimate to real tokens, to check whether it is over the line, and the line
//! to estimated tokens, to plan what to remove. The two must agree exactly. If planning stops at a size that the
//! check then finds one token over the line, there is nothing left to plan, and the climb fails because of that token.
//! Floats do not agree: at 24,000 real tokens for 20,007 estimated ones, a line of 16,000 divides to 13,338
//! exactly, and 13,338 multiplied back is slightly above 16,000 and is rounded up. So a factor is a ratio of
//! integers, and both directions are exact before rounding.

use serde::{Deserialize, Serialize};

use crate::load::Load;
use crate::policy::OverflowPolicy;
use crate::tokens::Tokens;

/// Real tokens per estimated token, as a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Factor {
    real: u64,
    estimated: u64,
}

impl Factor {
    const ONE: Factor = Factor { real: 1, estimated: 1 };
    /// Float factors are rounded to six decimals: 1.1 is eleven tenths, not the binary fraction above it.
    const DECIMALS: u64 = 1_000_000;

    /// Returns the ratio of `real` to `estimated`, at least one.
    fn ratio(real: Tokens, estimated: Tokens) -> Factor {
        let estimated = estimated.0.max(1);
        if real.0 > estimated { Factor { real: real.0, estimated } } else { Factor::ONE }
    }

    /// Converts a float.
    pub(crate) fn of(factor: f64) -> Factor {
        let real = (factor * Factor::DECIMALS as f64).round() as u64;
        Factor::ratio(Tokens(real), Tokens(Factor::DECIMALS))
    }

    /// Returns the factor as a float, for uses that need no exact inverse.
    pub(crate) fn as_float(self) -> f64 {
        self.real as f64 / self.estimated as f64
    }

    /// Converts estimated tokens to real ones, rounding up.
    pub(crate) fn real(self, estimate: Tokens) -> Tokens {
        let real = (u128::from(estimate.0) * u128::from(self.real)).div_ceil(u128::from(self.estimated));
        Tokens(u64::try_from(real).unwrap_or(u64::MAX))
    }

    /// Returns the largest estimate of at most `real` tokens.
    pub(crate) fn estimate(self, real: Tokens) -> Tokens {
        let estimate = u128::from(real.0) * u128::from(self.estimated) / u128::from(self.real);
        Tokens(u64::try_from(estimate).unwrap_or(u64::MAX))
    }
}

/// Correction of the estimate of a whole request: a factor, because vocabularies differ, and a hidden part,
/// because hosts add prompts and tools that the engine does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gauge {
    factor: Factor,
    hidden: Tokens,
}

impl Gauge {
    /// Estimates without correction.
    pub(crate) const EXACT: Gauge = Gauge { factor: Factor::ONE, hidden: Tokens::ZERO };

    /// Derives the correction from the difference between usage and estimate. A factor explains it up to a plausible size, the rest
    /// is hidden, up to a share of `line`: if more were hidden, no reduction could help.
    pub(crate) fn of(load: &Load, line: Tokens, policy: &OverflowPolicy) -> Gauge {
        let explained = load.estimate.0.max(1) as f64 * policy.max_factor;
        let most_hidden = line.0 as f64 * policy.max_hidden_share;
        let hidden = Tokens((load.tokens.0 as f64 - explained).clamp(0.0, most_hidden) as u64);
        Gauge { factor: Factor::ratio(load.tokens - hidden, load.estimate), hidden }
    }

    /// Returns the real tokens per estimated token.
    pub(crate) fn factor(self) -> f64 {
        self.factor.as_float()
    }

    /// Raises the factor so that `estimate` converts to at least `real`.
    pub(crate) fn at_least(self, estimate: Tokens, real: Tokens) -> Gauge {
        if self.real(estimate) >= real {
            return self;
        }
        Gauge { factor: Factor::ratio(real - self.hidden, estimate), ..self }
    }

    /// Converts the estimate of a request to real tokens.
    pub(crate) fn real(self, estimate: Tokens) -> Tokens {
        self.factor.real(estimate) + self.hidden
    }

    /// Returns the largest estimate of at most `real` tokens.
    pub(crate) fn estimate(self, real: Tokens) -> Tokens {
        self.factor.estimate(real - self.hidden)
    }
}

/// Conversion of estimates to the provider's tokens for figures that users read.
///
/// Usage and estimates of one window differ, so a receipt by estimate next to a meter by usage shows a window that does not
/// add up: 34,000 tokens, 5,000 of them cleared, 3,000 left. All figures about a session use one scale instead,
/// that of its newest usage, even after a reduction has made that usage stale.
///
/// This figure differs from the ladder's if an estimate was too high. The ladder never relies on that, because the
/// next estimate may be right; a user who reads how full the window is wants the most likely figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scale(Gauge);

impl Scale {
    /// Estimates without correction.
    pub const ESTIMATES: Scale = Scale(Gauge::EXACT);

    /// Returns the scale that converts the estimate of `load` to its best figure.
    pub(crate) fn of(load: &Load, line: Tokens, policy: &OverflowPolicy) -> Scale {
        if load.tokens >= load.estimate {
            return Scale(Gauge::of(load, line, policy));
        }
        let factor = Factor { real: load.tokens.0.max(1), estimated: load.estimate.0 };
        Scale(Gauge { factor, hidden: Tokens::ZERO })
    }

    /// Converts the estimate of a request.
    pub fn request(self, estimate: Tokens) -> Tokens {
        self.0.real(estimate)
    }

    /// Converts the estimate of a piece of a request.
    pub fn piece(self, estimate: Tokens) -> Tokens {
        self.0.factor.real(estimate)
    }

    /// Returns the tokens of every request besides its pieces: what a host or provider adds.
    pub fn hidden(self) -> Tokens {
        self.0.hidden
    }
}
