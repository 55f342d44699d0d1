//! Spending of runs, and the limits that apply: a run's own and those of the runs that launched it.
//!
//! If each task had its own limits only, a run could delegate its whole budget to each of its tasks. So every run has a
//! meter that refers to the meter of the run that launched it, and charges apply to all of them. All limits are checked
//! before each request: a task ends when the run that launched it has reached its limit, even if that run only waits.
//! Sums over task records were rejected: they would work across processes, but a waiting parent makes no requests at
//! which it could check them, and a task checks only its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll::Usage;
use serde::Serialize;

use crate::figures::UsageFigures;

/// Limits of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunLimits {
    /// Maximum number of answers.
    pub steps: u64,
    /// Token budget.
    pub tokens: Option<u64>,
    /// Cost limit in dollars, as far as prices are known.
    pub cost: Option<f64>,
    /// Number of equal results of a call after which the model is warned. If it repeats the call, the run ends. 0
    /// disables this.
    pub repeats: u32,
    /// Maximum number of consecutive interrupted answers.
    pub broken_answers: u32,
    /// Maximum number of consecutive requests that the provider rejects as too long.
    pub refusals: u32,
}

impl Default for RunLimits {
    fn default() -> RunLimits {
        RunLimits { steps: 200, tokens: None, cost: None, repeats: 3, broken_answers: 3, refusals: 5 }
    }
}

/// Charged usage and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Spend {
    /// Tokens.
    pub usage: UsageFigures,
    /// Cost in dollars, as far as prices are known.
    pub cost: f64,
}

impl Spend {
    /// Returns whether nothing was charged.
    pub fn is_none(&self) -> bool {
        self.usage.total() == 0 && self.cost == 0.0
    }

    pub(crate) fn add(&mut self, other: &Spend) {
        self.usage.add_figures(&other.usage);
        self.cost += other.cost;
    }
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SpendLimit {
    /// The token budget.
    Tokens(u64),
    /// The cost limit, in dollars.
    Cost(f64),
}

/// Spending of a run and its tasks.
#[derive(Debug)]
pub struct SpendMeter {
    tokens: Option<u64>,
    cost: Option<f64>,
    /// The run that launched this one.
    above: Option<Arc<SpendMeter>>,
    /// Charges of the run itself and of its tasks.
    sums: Mutex<(Spend, Spend)>,
}

impl SpendMeter {
    pub(crate) fn new(limits: &RunLimits, above: Option<Arc<SpendMeter>>) -> Arc<SpendMeter> {
        let (tokens, cost) = (limits.tokens, limits.cost);
        Arc::new(SpendMeter { tokens, cost, above, sums: Mutex::default() })
    }

    fn sums(&self) -> MutexGuard<'_, (Spend, Spend)> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges the run and all runs above it.
    pub(crate) fn charge(&self, usage: Option<&Usage>, cost: Option<f64>) {
        let usage = usage.map(UsageFigures::from).unwrap_or_default();
        let spend = Spend { usage, cost: cost.unwrap_or_default() };
        self.sums().0.add(&spend);
        let mut above = self.above.as_ref();
        while let Some(meter) = above {
            meter.sums().1.add(&spend);
            above = meter.above.as_ref();
        }
    }

    /// Returns the charges of the run itself.
    pub(crate) fn own(&self) -> Spend {
        self.sums().0
    }

    /// Returns the charges of its tasks.
    pub(crate) fn below(&self) -> Spend {
        self.sums().1
    }

    /// Returns the limit that this run or the nearest above it has reached.
    pub(crate) fn reached_here_or_above(&self) -> Option<SpendLimit> {
        let (mut spend, below) = *self.sums();
        spend.add(&below);
        reached(self.tokens, self.cost, &spend).or_else(|| self.above.as_ref()?.reached_here_or_above())
    }

    /// Returns the lowest cost limit that applies.
    pub(crate) fn least_cost(&self) -> Option<f64> {
        let above = self.above.as_ref().and_then(|above| above.least_cost());
        self.cost.into_iter().chain(above).reduce(f64::min)
    }
}

pub(crate) fn reached(tokens: Option<u64>, cost: Option<f64>, spend: &Spend) -> Option<SpendLimit> {
    let tokens = tokens.filter(|most| spend.usage.total() >= *most).map(SpendLimit::Tokens);
    tokens.or_else(|| cost.filter(|most| spend.cost >= *most).map(SpendLimit::Cost))
}
