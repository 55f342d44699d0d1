//! What background tasks of a session have left on the disk, and that none of them goes on while files are put back.
//!
//! A task's record says when each of its runs was asked for, so a run belongs to the turn that asked for it, and whatever
//! the task wrote until its next run belongs to that run. The same holds for tasks that tasks have launched: their runs
//! belong to the run that asked for them, however deep.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll::{Millis, SessionId};
use plimsoll_session::{CallTrace, ChangeHistory, SessionError};
use plimsoll_store::{Archive, Lease, StoreError, TaskFilter};

use super::{RevertError, TOOLS};
use crate::report::RevertedTask;
use crate::task::Task;

/// A task that has just ended is still being put away; it is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// For how long the sessions of tasks are held while files are put back.
const LEASE: Duration = Duration::from_secs(60);
/// So many records are read at a time.
const PAGE: u64 = 1_000;

/// The time from which on something belongs to a turn, until the next.
#[derive(Clone, Copy)]
struct Window {
    from: Millis,
    turn: usize,
}

/// The turn that a time belongs to.
fn turn_at(windows: &[Window], at: Millis) -> Option<usize> {
    windows.iter().rev().find(|window| window.from <= at).map(|window| window.turn)
}

/// What the tasks of a session have done, by its turns.
#[derive(Default)]
pub(super) struct TaskTraces {
    /// The tasks with the turns of their runs.
    tasks: Vec<(RevertedTask, Vec<usize>)>,
    /// What each of them has left.
    traces: Vec<Vec<CallTrace>>,
}

impl TaskTraces {
    /// Follow the records of tasks from the turns of a session.
    pub(super) fn read(archive: &Archive, history: &ChangeHistory) -> Result<TaskTraces, RevertError> {
        let mut found = TaskTraces::default();
        let windows: Vec<Window> =
            history.turns.iter().enumerate().map(|(turn, head)| Window { from: head.asked, turn }).collect();
        let (mut session, mut until) = (history.session.clone(), Millis(u64::MAX));
        loop {
            found.follow(archive, &session, &windows, until)?;
            // A session that goes on from another shares its turns, and with them the tasks that they launched.
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
                    // What came before the first run was taken over from its parent, and is the parent's.
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

    /// Add what they have done to the history of the session.
    pub(super) fn merge_into(&mut self, history: &mut ChangeHistory) {
        std::mem::take(&mut self.traces).into_iter().for_each(|traces| history.merge(traces));
    }

    /// The tasks that were launched or resumed from a turn on.
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
            // The session that this one goes on from may have been removed.
            Err(StoreError::Missing { kind: "session", .. }) => return Ok(tasks),
            page => page?,
        };
        let Some(last) = page.last() else { return Ok(tasks) };
        filter.after = Some(last.id.clone());
        // A record of something else, or of a newer version, is not understood here.
        tasks.extend(page.into_iter().filter_map(|record| Task::try_from(record).ok()));
    }
}

/// Holds the sessions of tasks, so that none goes on while files are put back. Its lease says that a task runs, and not its
/// record: that of a process which was killed is active until another looks after it.
pub(super) struct HeldTasks {
    archive: Arc<Archive>,
    leases: Vec<Lease>,
}

impl HeldTasks {
    /// Take all of them, or say which are at work.
    pub(super) fn take(
        archive: &Arc<Archive>,
        session: &SessionId,
        tasks: &[RevertedTask],
    ) -> Result<HeldTasks, RevertError> {
        let mut held = HeldTasks { archive: Arc::clone(archive), leases: Vec::new() };
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

impl Drop for HeldTasks {
    fn drop(&mut self) {
        for lease in &self.leases {
            // One that is not given back runs out.
            let _ = self.archive.store().release(lease);
        }
    }
}
