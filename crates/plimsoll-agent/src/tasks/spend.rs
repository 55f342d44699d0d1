//! What runs spend, and the limits that this is held against: a run's own and those of the runs that launched it.
//!
//! A run that hands work on would otherwise hand its limit on as well, once for each task. So every run has a meter that
//! knows the meter of the run that launched it, and what is charged to one is charged to all above it. The limits are
//! looked at along the same way before each request: a task ends when the run that launched it has spent what it may, also
//! where that run only waits. Sums over the task records would hold across processes, but a parent that waits makes no
//! request at which it could look at them, and a task looks at its own alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use plimsoll::{SessionId, Usage};
use serde::Serialize;

use super::board::TaskBoard;
use super::task::Task;
use crate::agent::RunLimits;
use crate::event::UsageFigures;
use crate::run::RunReport;

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

    fn add(&mut self, other: &Spend) {
        self.usage.add_figures(&other.usage);
        self.cost += other.cost;
    }
}

/// What the tasks of a session have spent, those that they launched themselves included, whether they are listed or not.
/// `all` are all tasks that there are.
pub fn spend_below(session: &SessionId, all: &[Task]) -> Spend {
    let mut sum = Spend::default();
    // A record that names itself as its parent, or one below it, must not keep this from ending.
    let mut reached: Vec<&SessionId> = vec![session];
    let mut at = 0;
    while let Some(parent) = reached.get(at).copied() {
        for task in all.iter().filter(|task| task.parent == *parent) {
            if !reached.contains(&&task.id) {
                let progress = &task.data.progress;
                sum.add(&Spend { usage: progress.usage, cost: progress.cost });
                reached.push(&task.id);
            }
        }
        at += 1;
    }
    sum
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

fn reached(tokens: Option<u64>, cost: Option<f64>, spend: &Spend) -> Option<Reached> {
    let tokens = tokens.filter(|most| spend.usage.total() >= *most).map(Reached::Tokens);
    tokens.or_else(|| cost.filter(|most| spend.cost >= *most).map(Reached::Cost))
}

/// Which limit ended a run: its own, or one of a run above it.
pub(super) fn limit_words(limits: &RunLimits, report: &RunReport, above: Option<&SpendMeter>) -> String {
    let mut spend = Spend { usage: report.usage, cost: report.cost };
    spend.add(&report.tasks);
    let own = reached(limits.tokens, limits.cost, &spend);
    let above = || Some((above?.reached_here_or_above()?, " of the run that launched it"));
    match own.map(|own| (own, "")).or_else(above) {
        Some((Reached::Tokens(most), whose)) => format!("The limit of {most} tokens{whose} was reached."),
        Some((Reached::Cost(most), whose)) => format!("The limit of {most} dollars{whose} was reached."),
        None => "A limit was reached.".to_owned(),
    }
}

impl TaskBoard {
    /// A run of a session has begun, which the tasks that are launched or resumed for it are charged to.
    pub(crate) fn note_meter(&self, session: &SessionId, meter: &Arc<SpendMeter>) {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        // A meter lives as long as its run and the tasks of that.
        meters.retain(|_, meter| meter.strong_count() > 0);
        meters.insert(session.clone(), Arc::downgrade(meter));
    }

    /// The meter of a session's newest run, if it still goes on or one of its tasks does.
    pub(super) fn meter_of(&self, session: &SessionId) -> Option<Arc<SpendMeter>> {
        let meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meters.get(session).and_then(Weak::upgrade)
    }
}
