//! What estimates are worth in real tokens.
//!
//! The ladder converts both ways: a window's estimate to real tokens, to see whether it is over the line, and the line
//! to estimated tokens, to plan what must go. The two must agree to the token. Planning that stops at a room which the
//! check then finds one token over the line has nothing left to do, and the climb fails for the sake of that token.
//! Floats do not agree: at 24,000 real tokens to 20,007 estimated ones, a line of 16,000 divides to a room of 13,338
//! exactly, and 13,338 multiplied back comes out a hair above 16,000 and is rounded up. So a factor is a ratio of
//! integers, and both directions are exact before they are rounded.

use serde::{Deserialize, Serialize};

use crate::count::Tokens;
use crate::load::Load;
use crate::policy::OverflowPolicy;

/// How many real tokens an estimated one is: so many real tokens to so many estimated ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Factor {
    real: u64,
    estimated: u64,
}

impl Factor {
    const ONE: Factor = Factor { real: 1, estimated: 1 };
    /// Factors that come as floats are taken to six decimals: 1.1 is eleven tenths, not the binary fraction above it.
    const DECIMALS: u64 = 1_000_000;

    /// The factor by which `real` tokens were estimated as `estimated`; one where the estimate was no lower.
    fn ratio(real: Tokens, estimated: Tokens) -> Factor {
        let estimated = estimated.0.max(1);
        if real.0 > estimated { Factor { real: real.0, estimated } } else { Factor::ONE }
    }

    /// A factor that was given as a float.
    pub(crate) fn of(factor: f64) -> Factor {
        let real = (factor * Factor::DECIMALS as f64).round() as u64;
        Factor::ratio(Tokens(real), Tokens(Factor::DECIMALS))
    }

    /// The factor as a float, for what needs no exact inverse.
    pub(crate) fn as_float(self) -> f64 {
        self.real as f64 / self.estimated as f64
    }

    /// Real tokens of so many estimated ones, rounded up.
    pub(crate) fn real(self, estimate: Tokens) -> Tokens {
        let real = (u128::from(estimate.0) * u128::from(self.real)).div_ceil(u128::from(self.estimated));
        Tokens(u64::try_from(real).unwrap_or(u64::MAX))
    }

    /// The largest estimate that is no more than `real` tokens.
    pub(crate) fn estimate(self, real: Tokens) -> Tokens {
        let estimate = u128::from(real.0) * u128::from(self.estimated) / u128::from(self.real);
        Tokens(u64::try_from(estimate).unwrap_or(u64::MAX))
    }
}

/// How an estimate of a whole request is corrected: by a factor, because vocabularies differ, and by something hidden,
/// because hosts add prompts and tools that the engine was not told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gauge {
    factor: Factor,
    hidden: Tokens,
}

impl Gauge {
    /// Estimates are right.
    pub(crate) const EXACT: Gauge = Gauge { factor: Factor::ONE, hidden: Tokens::ZERO };

    /// What the difference between usage and estimate says. A factor explains it up to a plausible size, the rest
    /// is hidden; but never more than a share of `line`, or nothing one could do would help.
    pub(crate) fn of(load: &Load, line: Tokens, policy: &OverflowPolicy) -> Gauge {
        let explained = load.estimate.0.max(1) as f64 * policy.max_factor;
        let most_hidden = line.0 as f64 * policy.max_hidden_share;
        let hidden = Tokens((load.tokens.0 as f64 - explained).clamp(0.0, most_hidden) as u64);
        Gauge { factor: Factor::ratio(load.tokens - hidden, load.estimate), hidden }
    }

    /// How many real tokens an estimated one is.
    pub(crate) fn factor(self) -> f64 {
        self.factor.as_float()
    }

    /// The same, but so that `estimate` is at least `real`.
    pub(crate) fn at_least(self, estimate: Tokens, real: Tokens) -> Gauge {
        if self.real(estimate) >= real {
            return self;
        }
        Gauge { factor: Factor::ratio(real - self.hidden, estimate), ..self }
    }

    /// Real tokens of a request with that estimate.
    pub(crate) fn real(self, estimate: Tokens) -> Tokens {
        self.factor.real(estimate) + self.hidden
    }

    /// The largest estimate that is no more than `real` tokens.
    pub(crate) fn estimate(self, real: Tokens) -> Tokens {
        self.factor.estimate(real - self.hidden)
    }
}

/// What estimates come to in the tokens that providers count; for figures that people read.
///
/// Usage and estimates of one window differ, so a receipt by estimate beside a meter by usage shows a window that does not
/// add up: 34,000 tokens, 5,000 of them set aside, 3,000 left. All figures about a session are told on one scale instead,
/// that of its newest usage, also after a reduction has made that usage stale.
///
/// It differs from what the ladder decides by where an estimate was too high. The ladder never counts on that, because the
/// next estimate may be right; a person who is told how full the window is wants the likeliest figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scale(Gauge);

impl Scale {
    /// Estimates as they are.
    pub const ESTIMATES: Scale = Scale(Gauge::EXACT);

    /// The scale on which the estimate of `load` is its best figure.
    pub(crate) fn of(load: &Load, line: Tokens, policy: &OverflowPolicy) -> Scale {
        if load.tokens >= load.estimate {
            return Scale(Gauge::of(load, line, policy));
        }
        let factor = Factor { real: load.tokens.0.max(1), estimated: load.estimate.0 };
        Scale(Gauge { factor, hidden: Tokens::ZERO })
    }

    /// What a request with that estimate weighs.
    pub fn request(self, estimate: Tokens) -> Tokens {
        self.0.real(estimate)
    }

    /// What a piece of a request with that estimate weighs.
    pub fn piece(self, estimate: Tokens) -> Tokens {
        self.0.factor.real(estimate)
    }

    /// What every request weighs besides its pieces: what a host or provider adds unseen.
    pub fn hidden(self) -> Tokens {
        self.0.hidden
    }
}
