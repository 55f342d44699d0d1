//! What tasks spend: their sums, the meters they are charged to, and the limit that ended a run.

use std::sync::{Arc, PoisonError, Weak};

use plimsoll::SessionId;

use super::board::TaskBoard;
use crate::report::RunReport;
use crate::spend::{Reached, RunLimits, Spend, SpendMeter, reached};
use crate::task::Task;

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
