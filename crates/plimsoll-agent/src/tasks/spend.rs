//! Spending of tasks: sums, meters, and the limit that ended a run.

use std::sync::{Arc, PoisonError, Weak};

use plimsoll::SessionId;

use super::board::TaskBoard;
use crate::report::RunReport;
use crate::spend::{RunLimits, Spend, SpendLimit, SpendMeter, reached};
use crate::task::Task;

/// Returns the spending of a session's tasks and their tasks, whether they are listed or not. `all` are all existing
/// tasks.
pub fn spend_below(session: &SessionId, all: &[Task]) -> Spend {
    let mut sum = Spend::default();
    // A cycle of parents must not cause an endless loop.
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

/// Describes the limit that ended a run: its own, or one of a run above it.
pub(super) fn describe_limit(limits: &RunLimits, report: &RunReport, above: Option<&SpendMeter>) -> String {
    let mut spend = Spend { usage: report.usage, cost: report.cost };
    spend.add(&report.tasks);
    let own = reached(limits.tokens, limits.cost, &spend);
    let above = || Some((above?.reached_here_or_above()?, " of the run that launched it"));
    match own.map(|own| (own, "")).or_else(above) {
        Some((SpendLimit::Tokens(most), whose)) => format!("Token budget of {most}{whose} exhausted."),
        Some((SpendLimit::Cost(most), whose)) => format!("Cost limit of {most} dollars{whose} reached."),
        None => "A limit was reached.".to_owned(),
    }
}

impl TaskBoard {
    /// Registers the meter of a session's new run, which its tasks are charged to.
    pub(crate) fn note_meter(&self, session: &SessionId, meter: &Arc<SpendMeter>) {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        // A meter lives as long as its run and that run's tasks.
        meters.retain(|_, meter| meter.strong_count() > 0);
        meters.insert(session.clone(), Arc::downgrade(meter));
    }

    /// Returns the meter of a session's newest run, while it or one of its tasks runs.
    pub(super) fn meter_of(&self, session: &SessionId) -> Option<Arc<SpendMeter>> {
        let meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meters.get(session).and_then(Weak::upgrade)
    }
}
