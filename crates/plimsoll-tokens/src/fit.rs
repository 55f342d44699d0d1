//! The line that a calibration fits: its slopes, its constant, and the spread around it.
//!
//! [`crate::calibrate`] decides which observations are trusted. This module trusts all of them, but limits how far one may
//! move the line.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::measure::{ABSURD, Measure};

/// Plausible range of a factor. Outside of it the numbers are wrong, not the vocabulary.
pub(crate) const FACTOR: RangeInclusive<f64> = 0.6..=2.5;
/// Plausible range of the price of a block's framing.
const PER_BLOCK: RangeInclusive<f64> = 0.0..=80.0;
/// Upper limits of the variances of factor and framing, which forgetting approaches.
const VAGUE: (f64, f64) = (0.1, 400.0);
/// Drift of factor and framing per observation, as standard deviations.
const DRIFT: (f64, f64) = (0.01, 0.5);
/// Number of standard deviations beyond which an error is not attributed to the factor.
const SURPRISE: f64 = 4.0;
/// Weight of a new observation in the moving averages.
const GAIN: f64 = 0.15;
/// Noise of the smallest increment, in tokens.
const FLOOR: f64 = 20.0;
/// Standard deviation of a hidden system prompt with its tools, in tokens.
const HIDDEN: f64 = 15_000.0;

/// `price = factor · base + perBlock · blocks`, and a point on the line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fit {
    pub(crate) factor: f64,
    pub(crate) per_block: f64,
    /// Variance of the factor, covariance, variance of the framing.
    variance: [f64; 3],
    /// Standard deviation of an increment, as a share of its price.
    spread: f64,
    /// Standard deviation of a whole request from the line, as a share of it.
    stray: f64,
    centre: Option<Centre>,
}

/// Moving average of the observations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Centre {
    base: f64,
    blocks: f64,
    /// Tokens charged beyond the exact ones.
    charged: f64,
}

/// The difference between two requests, which may be negative.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Increment {
    base: f64,
    blocks: f64,
    exact: f64,
}

impl Increment {
    pub(crate) fn between(from: Measure, to: Measure) -> Increment {
        let change = |from: u64, to: u64| to as f64 - from as f64;
        Increment {
            base: change(from.base.0, to.base.0),
            blocks: change(from.blocks, to.blocks),
            exact: change(from.exact.0, to.exact.0),
        }
    }

    pub(crate) fn to(measure: Measure) -> Increment {
        Increment::between(Measure::default(), measure)
    }
}

/// Returns the fewest tokens that a model counts for one of o200k. Below it, the usage is wrong and not the vocabulary.
pub(crate) fn least_factor(model: &str) -> f64 {
    // Claude's vocabularies need 1.2 times o200k's tokens and more, so half of the truth is below one.
    if is_claude(model) { 1.0 } else { *FACTOR.start() }
}

fn is_claude(model: &str) -> bool {
    let name = model.to_ascii_lowercase();
    ["claude", "opus", "sonnet", "haiku"].iter().any(|word| name.contains(word))
}

impl Fit {
    /// Claude's vocabularies need 1.2 to 1.9 times o200k's tokens; OpenAI's newer ones are o200k or close to it.
    pub(crate) fn prior(model: &str) -> Fit {
        let name = model.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let o_series =
            name.split(['/', ':']).any(|word| ["o1", "o3", "o4"].iter().any(|o| word.starts_with(o)));
        let (factor, factor_sd, per_block, per_block_sd) = if is_claude(model) {
            (1.4, 0.25, 15.0, 10.0)
        } else if o_series || has(&["gpt", "codex"]) {
            (1.0, 0.08, 6.0, 4.0)
        } else {
            (1.2, 0.25, 8.0, 6.0)
        };
        let variance = [f64::powi(factor_sd, 2), 0.0, f64::powi(per_block_sd, 2)];
        Fit { factor, per_block, variance, spread: 0.15, stray: 0.05, centre: None }
    }

    /// Whether learning can lead to these values. Stored ones may come from anywhere.
    pub(crate) fn is_sane(&self) -> bool {
        let [ff, fb, bb] = self.variance;
        let far = |number: f64| number.is_nan() || number.abs() > 100.0 * ABSURD as f64;
        FACTOR.contains(&self.factor)
            && PER_BLOCK.contains(&self.per_block)
            && (0.0..=2.0 * VAGUE.0).contains(&ff)
            && (0.0..=2.0 * VAGUE.1).contains(&bb)
            && fb * fb <= ff * bb * 1.000_001
            && (0.0..=1.0).contains(&self.spread)
            && (0.0..=1.0).contains(&self.stray)
            && self.centre.is_none_or(|at| ![at.base, at.blocks, at.charged].into_iter().any(far))
    }

    /// Tokens of every request besides its content.
    pub(crate) fn constant(&self) -> f64 {
        self.centre.map_or(0.0, |at| at.charged - self.price(at.base, at.blocks))
    }

    /// Price of an increment, and its variance.
    pub(crate) fn step(&self, step: Increment) -> (f64, f64) {
        let Increment { base, blocks, exact } = step;
        let whim = self.spread * self.price(base.abs(), blocks.abs());
        let variance = self.slope_variance(base, blocks) + whim * whim + FLOOR * FLOOR;
        (exact + self.price(base, blocks), variance)
    }

    /// Price of a whole request, and its variance.
    pub(crate) fn whole(&self, measure: Measure) -> (f64, f64) {
        let step = Increment::to(measure);
        let (price, variance) = self.step(step);
        let Some(at) = self.centre else { return (price, variance + HIDDEN * HIDDEN) };
        let tokens = self.constant() + price;
        let stray = self.stray * tokens;
        let from_centre =
            Increment { base: step.base - at.base, blocks: step.blocks - at.blocks, exact: 0.0 };
        (tokens, self.step(from_centre).1 + stray * stray)
    }

    /// Lower bound of a request's price before anything was observed: no vocabulary is that much better than the base
    /// counter's. Later observations may show that some counted content is not sent.
    pub(crate) fn least(&self, measure: Measure) -> f64 {
        let Increment { base, exact, .. } = Increment::to(measure);
        if self.centre.is_none() { exact + FACTOR.start() * base } else { 0.0 }
    }

    /// Moves the line through a point. The first response of a session shows how much is hidden.
    pub(crate) fn anchor(&mut self, measure: Measure, actual: f64) {
        let Increment { base, blocks, exact } = Increment::to(measure);
        self.centre = Some(Centre { base, blocks, charged: actual - exact });
    }

    /// Learns that `measure`, a `step` away from the last request, cost `actual`, which is `error` more than predicted.
    /// Returns whether the error was too large to attribute to the slopes.
    pub(crate) fn learn(
        &mut self,
        step: Increment,
        measure: Measure,
        actual: f64,
        error: f64,
        jumped: bool,
    ) -> bool {
        for (place, drift, vague) in [(0, DRIFT.0, VAGUE.0), (2, DRIFT.1, VAGUE.1)] {
            if self.variance[place] < vague {
                self.variance[place] += drift * drift;
            }
        }
        let from_line = (actual - self.whole(measure).0).abs();
        let surprising = jumped || error.abs() > SURPRISE * self.step(step).1.sqrt();
        // What was cut from the window had its own mixture with hidden parts, and says little about the slopes.
        if !surprising && step.base >= 0.0 && step.blocks >= 0.0 {
            self.fit(step, error);
        }
        // For a normal distribution, the standard deviation is 1.25 times the mean absolute deviation.
        let price = self.price(step.base.abs(), step.blocks.abs()).max(10.0 * FLOOR);
        self.spread += GAIN * ((1.25 * error.abs() / price).min(1.0) - self.spread);
        // With a smaller spread, an ordinary error after a few exact increments would count as a surprise. With a
        // larger one, nothing would.
        self.spread = self.spread.clamp(0.03, 0.6);
        self.stray += GAIN * ((1.25 * from_line / actual).min(1.0) - self.stray);
        if let Some(at) = &mut self.centre {
            let now = Increment::to(measure);
            if surprising {
                // Something hidden was added or removed, so the line jumps instead of drifting there.
                at.charged += error;
            }
            at.base += GAIN * (now.base - at.base);
            at.blocks += GAIN * (now.blocks - at.blocks);
            at.charged += GAIN * (actual - now.exact - at.charged);
        }
        surprising
    }

    /// One step of recursive least squares on an increment that was `error` more expensive than predicted.
    fn fit(&mut self, step: Increment, error: f64) {
        let [ff, fb, bb] = self.variance;
        let total = self.step(step).1;
        let (to_factor, to_block) = (ff * step.base + fb * step.blocks, fb * step.base + bb * step.blocks);
        self.factor = (self.factor + to_factor / total * error).clamp(*FACTOR.start(), *FACTOR.end());
        self.per_block =
            (self.per_block + to_block / total * error).clamp(*PER_BLOCK.start(), *PER_BLOCK.end());
        let ff = (ff - to_factor * to_factor / total).max(0.0);
        let bb = (bb - to_block * to_block / total).max(0.0);
        // Rounding must not make the covariance larger than the variances allow.
        let most = (ff * bb).sqrt();
        self.variance = [ff, (fb - to_factor * to_block / total).clamp(-most, most), bb];
    }

    fn price(&self, base: f64, blocks: f64) -> f64 {
        self.factor * base + self.per_block * blocks
    }

    /// Uncertainty of a price because of factor and framing.
    fn slope_variance(&self, base: f64, blocks: f64) -> f64 {
        let [ff, fb, bb] = self.variance;
        (ff * base * base + 2.0 * fb * base * blocks + bb * blocks * blocks).max(0.0)
    }
}
