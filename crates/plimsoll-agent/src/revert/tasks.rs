//! Changes of a session's background tasks, and leases that keep the tasks from running during a revert.
//!
//! A task's record has the time of each run's request, so a run belongs to the turn that requested it, and changes up
//! to the next run belong to that run. The same applies to tasks of tasks, at any depth.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll::{Millis, SessionId};
use plimsoll_session::{CallTrace, ChangeHistory, SessionError};
use plimsoll_store::{Archive, Lease, StoreError, TaskFilter};

use super::{RevertError, TOOLS};
use crate::report::RevertedTask;
use crate::task::Task;

/// How long to wait for a task that has just ended and is being cleaned up.
const PATIENCE: Duration = Duration::from_secs(3);
/// Duration of the leases during a revert.
const LEASE: Duration = Duration::from_secs(60);
/// Number of records read at a time.
const PAGE: u64 = 1_000;

/// Start of a turn's time, which lasts until the next turn.
#[derive(Clone, Copy)]
struct Window {
    from: Millis,
    turn: usize,
}

/// Returns the turn that a time belongs to.
fn turn_at(windows: &[Window], at: Millis) -> Option<usize> {
    windows.iter().rev().find(|window| window.from <= at).map(|window| window.turn)
}

/// Changes of a session's tasks, by turn.
#[derive(Default)]
pub(super) struct TaskTraces {
    /// The tasks, with the turns of their runs.
    tasks: Vec<(RevertedTask, Vec<usize>)>,
    /// The calls of each task.
    traces: Vec<Vec<CallTrace>>,
}

impl TaskTraces {
    /// Reads the records of tasks and assigns their changes to the turns of a session.
    pub(super) fn read(archive: &Archive, history: &ChangeHistory) -> Result<TaskTraces, RevertError> {
        let mut found = TaskTraces::default();
        let windows: Vec<Window> =
            history.turns.iter().enumerate().map(|(turn, head)| Window { from: head.asked, turn }).collect();
        let (mut session, mut until) = (history.session.clone(), Millis(u64::MAX));
        loop {
            found.follow(archive, &session, &windows, until)?;
            // A session that continues another shares its turns, and with them the tasks that they launched.
            let about = archive.store().session(&session)?;
            let Some(point) = about.forked_from else { return Ok(found) };
            (session, until) = (point.session, until.min(about.created));
        }
    }

    fn follow(
        &mut self,
        archive: &Archive,
        parent: &SessionId,
        windows: &[Window],
        until: Millis,
    ) -> Result<(), RevertError> {
        for task in tasks_of(archive, parent)? {
            let run_windows = |task: &Task| -> Vec<Window> {
                let asked = task.data.runs.iter().map(|run| run.asked).filter(|asked| *asked <= until);
                asked.filter_map(|from| Some(Window { from, turn: turn_at(windows, from)? })).collect()
            };
            let runs = run_windows(&task);
            let Some(first) = runs.first() else { continue };
            let mut reverted = RevertedTask {
                id: task.id.clone(),
                description: task.data.description.clone(),
                turn: first.turn,
                is_active: task.status.is_active(),
                is_gone: false,
            };
            match ChangeHistory::read(archive, &task.id, TOOLS) {
                Ok(history) => {
                    // Parts from before the first run were inherited from the parent.
                    let own = history.traces.into_iter().filter_map(|trace| {
                        let turn = turn_at(&runs, trace.at)?;
                        Some(CallTrace { turn, ..trace })
                    });
                    self.traces.push(own.collect());
                    self.follow(archive, &task.id, &runs, Millis(u64::MAX))?;
                }
                Err(SessionError::Store(StoreError::Missing { .. })) => reverted.is_gone = true,
                Err(error) => return Err(error.into()),
            }
            self.tasks.push((reverted, runs.iter().map(|run| run.turn).collect()));
        }
        Ok(())
    }

    /// Adds the tasks' changes to the history of the session.
    pub(super) fn merge_into(&mut self, history: &mut ChangeHistory) {
        std::mem::take(&mut self.traces).into_iter().for_each(|traces| history.merge(traces));
    }

    /// Returns the tasks that were launched or resumed since a turn.
    pub(super) fn since(self, turn: usize) -> Vec<RevertedTask> {
        let since = self.tasks.into_iter().filter_map(|(task, turns)| {
            let turn = turns.into_iter().filter(|run| *run >= turn).min()?;
            Some(RevertedTask { turn, ..task })
        });
        let mut since: Vec<RevertedTask> = since.collect();
        since.sort_by_key(|task| task.turn);
        since
    }
}

fn tasks_of(archive: &Archive, parent: &SessionId) -> Result<Vec<Task>, RevertError> {
    let mut filter = TaskFilter { parent: Some(parent.clone()), most: PAGE, ..TaskFilter::default() };
    let mut tasks = Vec::new();
    loop {
        let page = match archive.store().tasks(&filter) {
            // The session that this one continues may have been removed.
            Err(StoreError::Missing { kind: "session", .. }) => return Ok(tasks),
            page => page?,
        };
        let Some(last) = page.last() else { return Ok(tasks) };
        filter.after = Some(last.id.clone());
        // Records of other programs and of newer versions are skipped.
        tasks.extend(page.into_iter().filter_map(|record| Task::try_from(record).ok()));
    }
}

/// Holds the leases of tasks, so that none runs during a revert. The lease shows whether a task runs, not its record:
/// the record of a killed process stays active until another process checks it.
pub(super) struct TaskLeases {
    archive: Arc<Archive>,
    leases: Vec<Lease>,
}

impl TaskLeases {
    /// Takes the leases of all tasks, or returns the tasks that are active.
    pub(super) fn take(
        archive: &Arc<Archive>,
        session: &SessionId,
        tasks: &[RevertedTask],
    ) -> Result<TaskLeases, RevertError> {
        let mut held = TaskLeases { archive: Arc::clone(archive), leases: Vec::new() };
        let holder = format!("a revert of {session}, process {}", std::process::id());
        let mut at_work = Vec::new();
        let until = Instant::now() + PATIENCE;
        for task in tasks {
            loop {
                match archive.store().lease(&task.id, &holder, LEASE) {
                    Ok(lease) => held.leases.push(lease),
                    Err(StoreError::Leased { .. }) if !task.is_active && Instant::now() < until => {
                        std::thread::sleep(Duration::from_millis(20));
                        continue;
                    }
                    Err(StoreError::Leased { .. }) => at_work.push(task.clone()),
                    Err(StoreError::Missing { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                break;
            }
        }
        match at_work.is_empty() {
            true => Ok(held),
            false => Err(RevertError::TasksAtWork(at_work)),
        }
    }
}

impl Drop for TaskLeases {
    fn drop(&mut self) {
        for lease in &self.leases {
            // A lease that is not released expires.
            let _ = self.archive.store().release(lease);
        }
    }
}
