//! What runs spend, and the limits that this is held against: a run's own and those of the runs that launched it.
//!
//! A run that hands work on would otherwise hand its limit on as well, once for each task. So every run has a meter that
//! knows the meter of the run that launched it, and what is charged to one is charged to all above it. The limits are
//! looked at along the same way before each request: a task ends when the run that launched it has spent what it may, also
//! where that run only waits. Sums over the task records would hold across processes, but a parent that waits makes no
//! request at which it could look at them, and a task looks at its own alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll::Usage;
use serde::Serialize;

use crate::figures::UsageFigures;

/// When a run ends at the latest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunLimits {
    /// After so many answers of the model.
    pub steps: u64,
    /// Once so many tokens were charged.
    pub tokens: Option<u64>,
    /// Once it has cost so many dollars, as far as prices are known.
    pub cost: Option<f64>,
    /// A call that gave the same result so many times is told to the model, and ends the run when it is made again; 0 for
    /// never.
    pub repeats: u32,
    /// After so many answers in a row that broke off, the run ends.
    pub broken_answers: u32,
    /// After so many requests in a row that the provider refused as too long, the run ends.
    pub refusals: u32,
}

impl Default for RunLimits {
    fn default() -> RunLimits {
        RunLimits { steps: 200, tokens: None, cost: None, repeats: 3, broken_answers: 3, refusals: 5 }
    }
}

/// What was charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spend {
    /// Tokens.
    pub usage: UsageFigures,
    /// Dollars, as far as prices are known.
    pub cost: f64,
}

impl Spend {
    /// Whether nothing was charged.
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
pub(crate) enum Reached {
    /// So many tokens.
    Tokens(u64),
    /// So many dollars.
    Cost(f64),
}

/// What one run has spent, with what the runs of its tasks have.
#[derive(Debug)]
pub struct SpendMeter {
    tokens: Option<u64>,
    cost: Option<f64>,
    /// The run that launched this one.
    above: Option<Arc<SpendMeter>>,
    /// What the run itself was charged, and what its tasks were.
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

    /// Charge the run and all above it.
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

    /// What the run itself was charged.
    pub(crate) fn own(&self) -> Spend {
        self.sums().0
    }

    /// What its tasks were charged so far.
    pub(crate) fn below(&self) -> Spend {
        self.sums().1
    }

    /// The limit that was reached of this run, or of the nearest above it.
    pub(crate) fn reached_here_or_above(&self) -> Option<Reached> {
        let (mut spend, below) = *self.sums();
        spend.add(&below);
        reached(self.tokens, self.cost, &spend).or_else(|| self.above.as_ref()?.reached_here_or_above())
    }

    /// The least limit of cost that a charge is held against.
    pub(crate) fn least_cost(&self) -> Option<f64> {
        let above = self.above.as_ref().and_then(|above| above.least_cost());
        self.cost.into_iter().chain(above).reduce(f64::min)
    }
}

pub(crate) fn reached(tokens: Option<u64>, cost: Option<f64>, spend: &Spend) -> Option<Reached> {
    let tokens = tokens.filter(|most| spend.usage.total() >= *most).map(Reached::Tokens);
    tokens.or_else(|| cost.filter(|most| spend.cost >= *most).map(Reached::Cost))
}
