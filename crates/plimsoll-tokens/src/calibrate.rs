//! Learns what a provider charges.
//!
//! No vocabulary is published for Claude, and for other models the framing of messages and the length of a tool's
//! system prompt are unknown. But every response contains the usage of its request. [`Calibration`] learns from that:
//!
//! ```text
//! tokens = factor · base + perBlock · blocks + exact + constant
//! ```
//!
//! `base` is an o200k count, `blocks` its number of content blocks. `exact` is the part with a known price: a reply is
//! part of the next request for the output tokens it was billed with, hidden reasoning included. `constant` is what
//! every request contains and the transcript does not.
//!
//! ## How it learns
//!
//! Consecutive requests share their beginning, and so their errors. Only the *increment* between two requests is new
//! information, and in it the constant cancels out. `factor` and `perBlock` are therefore fitted to increments, by
//! recursive least squares from a prior, with slow forgetting. `constant` follows from the line's slope and a moving
//! centre of the observations, and the first response fixes it at once.
//!
//! ## Protection against wrong usage
//!
//! Recorded usage is often wrong: zero, without its cached part, or with that part counted twice. Zero is rejected. A
//! number far from the prediction is held back until the next one agrees with it. An error that is merely large (a web
//! search with hidden results, an unrecorded compaction) moves the constant and not the factor. The factor
//! never leaves a plausible range.

use std::ops::Deref;

use plimsoll::floor::Floor;
use plimsoll::{Counter, Tokens};
use serde::{Deserialize, Serialize};

use crate::counter::Calibrated;
use crate::fit::{Fit, Increment, least_factor};
use crate::measure::{ABSURD, Measure};

/// Usage that differs from the prediction by this factor is not trusted the first time.
const DOUBT: f64 = 2.5;
/// Factor within which the next observation confirms a doubted one.
const AGREE: f64 = 1.2;
/// Half the width of the error bar in standard deviations. Real errors have long tails: with a normal distribution, two
/// would contain 19 of 20; in long real sessions they contained 9 of 10, in short ones with web searches fewer.
const BAR: f64 = 2.0;

/// A number of tokens with an error bar, which contains the real number in about nine of ten cases, unless much is
/// hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Estimate {
    /// Best estimate.
    pub tokens: Tokens,
    /// Lower end of the bar.
    pub low: Tokens,
    /// Upper end of the bar. Compare this value with limits.
    pub high: Tokens,
}

impl Estimate {
    fn new(tokens: f64, variance: f64, least: f64) -> Estimate {
        let bar = BAR * variance.sqrt();
        let whole = |tokens: f64| Tokens(tokens.max(least).round() as u64);
        Estimate { tokens: whole(tokens), low: whole(tokens - bar), high: whole(tokens + bar) }
    }
}

/// Result of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Observed {
    /// Everything was learned.
    Learned,
    /// Far off. Only the constant was moved, because something hidden was added or removed.
    Reanchored,
    /// Too far off to be trusted, unless the next one agrees.
    Doubted,
    /// Impossible, and ignored.
    Refused,
}

/// How one model counts.
///
/// ```
/// use plimsoll::Tokens;
/// use plimsoll_tokens::{Calibration, Measure};
///
/// let mut calibration = Calibration::new("claude-sonnet-4-6");
/// // The first response shows what the system prompt costs …
/// let first = Measure::new(Tokens(1_000), 1);
/// calibration.observe(first, Tokens(19_000));
/// // … and from then on, the last usage is exact and only what came since is estimated.
/// let since = Measure::new(Tokens(2_000), 1).with_exact(Tokens(300));
/// let next = calibration.since(since);
/// assert!(next.low > Tokens(19_300 + 1_500) && next.high < Tokens(19_300 + 4_500));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "Stored")]
pub struct Calibration {
    model: String,
    fit: Fit,
    last: Option<Point>,
    doubted: Option<Point>,
    observations: u64,
}

/// A [`Calibration`] before validation.
#[derive(Deserialize)]
struct Stored {
    model: String,
    fit: Fit,
    last: Option<Point>,
    doubted: Option<Point>,
    observations: u64,
}

/// An observation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Point {
    measure: Measure,
    actual: Tokens,
}

impl Point {
    fn is_sane(&self) -> bool {
        let Measure { base, blocks, exact, least: _ } = self.measure;
        (1..=ABSURD).contains(&self.actual.0) && base.0.max(blocks).max(exact.0) <= ABSURD
    }
}

impl From<Stored> for Calibration {
    fn from(Stored { model, fit, last, doubted, observations }: Stored) -> Calibration {
        let sane = fit.is_sane() && [last, doubted].iter().flatten().all(Point::is_sane);
        if !sane {
            // A stored calibration may be damaged or from another version. The prior is a safe start.
            return Calibration::new(&model);
        }
        Calibration { model, fit, last, doubted, observations }
    }
}

impl Calibration {
    /// The prior for a model.
    pub fn new(model: &str) -> Calibration {
        let fit = Fit::prior(model);
        Calibration { model: model.to_owned(), fit, last: None, doubted: None, observations: 0 }
    }

    /// Learns from a response: `measure` is what was sent, `actual` all input tokens charged for it, with cached ones
    /// counted once.
    pub fn observe(&mut self, measure: Measure, actual: Tokens) -> Observed {
        let point = Point { measure, actual };
        if !point.is_sane() {
            return Observed::Refused;
        }
        let doubted = self.doubted.take();
        let confirmed = doubted.is_some_and(|earlier| off(actual, self.ahead(&earlier, measure)) < AGREE);
        if !confirmed && self.is_doubtful(point) {
            self.doubted = Some(point);
            return Observed::Doubted;
        }
        self.observations = self.observations.saturating_add(1);
        let tokens = actual.0 as f64;
        let surprising = match self.last {
            None => {
                self.fit.anchor(measure, tokens);
                false
            }
            Some(last) => {
                let error = tokens - self.ahead(&last, measure);
                self.fit.learn(Increment::between(last.measure, measure), measure, tokens, error, confirmed)
            }
        };
        self.last = Some(point);
        if surprising { Observed::Reanchored } else { Observed::Learned }
    }

    /// Predicts a request without reference to the last one: for a window that was compacted, forked or resumed.
    pub fn estimate(&self, measure: Measure) -> Estimate {
        let (tokens, variance) = self.fit.whole(measure);
        Estimate::new(tokens, variance, self.fit.least(measure))
    }

    /// Predicts the next request from the last trusted one: its exact usage, and an estimate of the difference. Without
    /// a last one, like [`Calibration::estimate`].
    pub fn next(&self, measure: Measure) -> Estimate {
        let Some(last) = self.last else { return self.estimate(measure) };
        let (more, variance) = self.fit.step(Increment::between(last.measure, measure));
        Estimate::new(last.actual.0 as f64 + more, variance, 0.0)
    }

    /// Like [`next`](Calibration::next), if only the difference is known: what was added since, including the reply.
    pub fn since(&self, added: Measure) -> Estimate {
        self.next(self.last.map_or(added, |last| last.measure + added))
    }

    /// Starts another session with the same model: keeps how it counts, forgets the last request. The constant is kept
    /// as a guess until the first response corrects it.
    pub fn begin_session(&mut self) {
        self.last = None;
        self.doubted = None;
    }

    /// A counter with the current factor, for the engine. It does not change with later observations.
    pub fn counter<B: Deref<Target: Counter>>(&self, base: B) -> Calibrated<B> {
        Calibrated::new(base, self.factor(), self.per_block(), least_factor(&self.model))
    }

    /// Returns the fewest tokens that the model can count for some content, measured by o200k.
    pub fn least(&self, floor: Floor) -> Tokens {
        floor.tokens(least_factor(&self.model))
    }

    /// The model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Tokens of the model per token of the base counter.
    pub fn factor(&self) -> f64 {
        self.fit.factor
    }

    /// Tokens for the framing of a block.
    pub fn per_block(&self) -> f64 {
        self.fit.per_block
    }

    /// Hidden tokens of every request. Zero until the first response; negative if content was counted that is not sent.
    pub fn constant(&self) -> f64 {
        self.fit.constant()
    }

    /// Number of trusted observations.
    pub fn observations(&self) -> u64 {
        self.observations
    }

    /// Predicts `measure` from an earlier request.
    fn ahead(&self, from: &Point, measure: Measure) -> f64 {
        from.actual.0 as f64 + self.fit.step(Increment::between(from.measure, measure)).0
    }

    fn is_doubtful(&self, Point { measure, actual }: Point) -> bool {
        match self.last {
            Some(last) => off(actual, self.ahead(&last, measure)) > DOUBT,
            // Any system prompt may precede a session, so only too small numbers are recognised as wrong.
            None => (actual.0 as f64) * DOUBT < self.fit.step(Increment::to(measure)).0,
        }
    }
}

/// Factor by which a prediction was too large or too small.
fn off(actual: Tokens, predicted: f64) -> f64 {
    let (actual, predicted) = (actual.0.max(1) as f64, predicted.max(1.0));
    (actual / predicted).max(predicted / actual)
}
