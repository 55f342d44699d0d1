//! Learning what a provider charges.
//!
//! No vocabulary is published for Claude, and even where one is, nobody publishes how messages are framed or how
//! long the system prompt of the tool in front is. But every response says what its request cost. [`Calibration`]
//! learns from that:
//!
//! ```text
//! tokens = factor · base + perBlock · blocks + exact + constant
//! ```
//!
//! `base` is an o200k count, `blocks` the number of content blocks it is spread over. `exact` is the part whose
//! price is known already: a reply comes back in the next request for the output tokens it was billed with,
//! hidden reasoning included. `constant` is what goes with every request and the transcript does not show.
//!
//! ## How it learns
//!
//! Consecutive requests share their beginning, so their errors do too. Only the *increment* between two requests
//! is news, and in it the constant cancels. `factor` and `perBlock` are therefore fitted to increments, by
//! recursive least squares from a prior, with slow forgetting. `constant` follows from the line's slope and a
//! moving centre of the observations, and the first response fixes it at once.
//!
//! ## What it may not do
//!
//! It may not be poisoned. Usage is often wrong in the wild: zero, without its cached part, or with that part
//! counted twice. Zero is refused. A number far from the prediction is held back until the next one agrees with
//! it. A surprise that is merely large (a web search whose results nobody sees, a compaction that nobody reported)
//! moves the constant and leaves the factor alone. The factor never leaves a plausible range.

use std::ops::Deref;

use plimsoll::{Counter, Tokens};
use serde::{Deserialize, Serialize};

use crate::counter::Calibrated;
use crate::fit::{Fit, Step};
use crate::measure::{ABSURD, Measure};

/// Usage that many times above or below the prediction is not believed the first time.
const DOUBT: f64 = 2.5;
/// How close to a doubted observation the next must come to confirm it.
const AGREE: f64 = 1.2;
/// Half the width of the error bar in standard deviations. Real errors have long tails: of a bell curve two would
/// hold nineteen of twenty; of long real sessions they held nine of ten, of short ones with web searches fewer.
const BAR: f64 = 2.0;

/// A number of tokens and the bar in which the real one mostly lies: nine times of ten, unless much is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// The best guess.
    pub tokens: Tokens,
    /// Where the bar begins.
    pub low: Tokens,
    /// Where it ends. What must not overflow is compared with this.
    pub high: Tokens,
}

impl Estimate {
    fn new(tokens: f64, variance: f64, least: f64) -> Estimate {
        let bar = BAR * variance.sqrt();
        let whole = |tokens: f64| Tokens(tokens.max(least).round() as u64);
        Estimate { tokens: whole(tokens), low: whole(tokens - bar), high: whole(tokens + bar) }
    }
}

/// What became of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Observed {
    /// Everything was learned from it.
    Learned,
    /// It was far off, so it moved the constant only: something hidden came or went.
    Reanchored,
    /// It was too far off to be believed. If the next one agrees with it, it will be.
    Doubted,
    /// It cannot be true and left no trace.
    Refused,
}

/// What is known about one model's way of counting.
///
/// ```
/// use plimsoll::Tokens;
/// use plimsoll_tokens::{Calibration, Measure};
///
/// let mut calibration = Calibration::new("claude-sonnet-4-6");
/// // The first response tells what the system prompt costs …
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

/// [`Calibration`] as it was read, before anyone looked whether it can be true.
#[derive(Deserialize)]
struct Stored {
    model: String,
    fit: Fit,
    last: Option<Point>,
    doubted: Option<Point>,
    observations: u64,
}

/// One observation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Point {
    measure: Measure,
    actual: Tokens,
}

impl Point {
    fn is_sane(&self) -> bool {
        let Measure { base, blocks, exact } = self.measure;
        (1..=ABSURD).contains(&self.actual.0) && base.0.max(blocks).max(exact.0) <= ABSURD
    }
}

impl From<Stored> for Calibration {
    fn from(Stored { model, fit, last, doubted, observations }: Stored) -> Calibration {
        let sane = fit.is_sane() && [last, doubted].iter().flatten().all(Point::is_sane);
        if !sane {
            return Calibration::new(&model);
        }
        Calibration { model, fit, last, doubted, observations }
    }
}

impl Calibration {
    /// What one believes of a model before it has answered once.
    pub fn new(model: &str) -> Calibration {
        let fit = Fit::prior(model);
        Calibration { model: model.to_owned(), fit, last: None, doubted: None, observations: 0 }
    }

    /// Learn from a response: `measure` is what was sent, `actual` all input tokens charged for it, cached ones
    /// included once.
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
                self.fit.learn(Step::between(last.measure, measure), measure, tokens, error, confirmed)
            }
        };
        self.last = Some(point);
        if surprising { Observed::Reanchored } else { Observed::Learned }
    }

    /// A request predicted without reference to the last one: for a window that was compacted, forked or resumed.
    pub fn estimate(&self, measure: Measure) -> Estimate {
        let (tokens, variance) = self.fit.whole(measure);
        Estimate::new(tokens, variance, self.fit.least(measure))
    }

    /// The next request predicted from the last one that was believed: its exact usage, and an estimate of what
    /// has come or gone since. Without a last one, the same as [`Calibration::estimate`].
    pub fn next(&self, measure: Measure) -> Estimate {
        let Some(last) = self.last else { return self.estimate(measure) };
        let (more, variance) = self.fit.step(Step::between(last.measure, measure));
        Estimate::new(last.actual.0 as f64 + more, variance, 0.0)
    }

    /// The same where only the difference is at hand: what was added since that last one, its reply among it.
    pub fn since(&self, added: Measure) -> Estimate {
        self.next(self.last.map_or(added, |last| last.measure + added))
    }

    /// Another session with the same model begins: keep how it counts, forget where the last session stood. The
    /// constant stays as a guess until the first response corrects it.
    pub fn begin_session(&mut self) {
        self.last = None;
        self.doubted = None;
    }

    /// A counter with what is known by now, for the engine. It does not change when more is learned.
    pub fn counter<B: Deref<Target: Counter>>(&self, base: B) -> Calibrated<B> {
        Calibrated::new(base, self.factor(), self.per_block())
    }

    /// The model this is about.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Tokens of the model for one of the base counter.
    pub fn factor(&self) -> f64 {
        self.fit.factor
    }

    /// Tokens for the wrapping of a block.
    pub fn per_block(&self) -> f64 {
        self.fit.per_block
    }

    /// What every request carries unseen. Zero until the first response; below zero where content was counted
    /// that is not sent.
    pub fn constant(&self) -> f64 {
        self.fit.constant()
    }

    /// How many observations were believed.
    pub fn observations(&self) -> u64 {
        self.observations
    }

    /// The request `measure` as predicted from an earlier one.
    fn ahead(&self, from: &Point, measure: Measure) -> f64 {
        from.actual.0 as f64 + self.fit.step(Step::between(from.measure, measure)).0
    }

    fn is_doubtful(&self, Point { measure, actual }: Point) -> bool {
        match self.last {
            Some(last) => off(actual, self.ahead(&last, measure)) > DOUBT,
            // Any system prompt may be in front of a session, so only too little can be told from the truth.
            None => (actual.0 as f64) * DOUBT < self.fit.step(Step::to(measure)).0,
        }
    }
}

/// How many times too large or too small a prediction was.
fn off(actual: Tokens, predicted: f64) -> f64 {
    let (actual, predicted) = (actual.0.max(1) as f64, predicted.max(1.0));
    (actual / predicted).max(predicted / actual)
}
