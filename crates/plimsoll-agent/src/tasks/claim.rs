//! Claims the right to run a task again: its lease, its record and its prompt, in this order.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plimsoll::{Fnv, Ids, Message, SessionId};
use plimsoll_store::{Lease, StoreError};

use super::board::{Local, TaskBoard};
use crate::task::{Task, TaskChange, TaskError, TaskPoint};

/// How long to wait for a session that another process is releasing.
pub(super) const LEASE_PATIENCE: Duration = Duration::from_secs(3);

/// Separator between the name of a process and that of its board in the name of a holder.
pub(super) const BOARD_MARK: &str = ", tasks ";

/// Returns whether the holder of a lease is a board, which runs tasks, and not a chat with a task.
pub(super) fn is_board(holder: &str) -> bool {
    holder.contains(BOARD_MARK)
}

impl TaskBoard {
    /// Takes the lease of a task's session and then makes its record active. In this order, because an active record
    /// without a lease would count as one whose process is gone. Waits for a process that is releasing the session.
    pub(super) fn claim(
        &self,
        session: &SessionId,
        patience: Duration,
        change: &TaskChange,
    ) -> Result<(Task, Lease), TaskError> {
        let begun = Instant::now();
        loop {
            let claiming = self.claiming();
            // A separate statement: in the `match`, the lock would be held to its end.
            let own_run = self.local().get(session).map(|local| local.run);
            let held = match own_run {
                Some(run) => self.still_running(session, run)?,
                None => match self.lease_free(session) {
                    Ok(lease) => return self.claim_under(lease, change),
                    Err(TaskError::Store(held @ StoreError::Leased { .. })) => TaskError::Store(held),
                    Err(error) => return Err(error),
                },
            };
            drop(claiming);
            if begun.elapsed() >= patience {
                return Err(held);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn claim_under(&self, lease: Lease, change: &TaskChange) -> Result<(Task, Lease), TaskError> {
        let made = self.change(&lease.session, change).and_then(|task| {
            self.pass(TaskPoint::Resumed);
            self.drop_unread(&lease.claim())?;
            self.ensure_prompt(&lease, &task)?;
            Ok(task)
        });
        match made {
            Ok(task) => {
                // Still under the lock of `claim`: a search for lost tasks must find the entry.
                self.local().insert(lease.session.clone(), Local::reserved(&task));
                self.pass(TaskPoint::Claimed);
                Ok((task, lease))
            }
            Err(error) => {
                let _ = self.archive.store().release(&lease);
                Err(error)
            }
        }
    }

    /// Makes sure that the prompt of a resume is in the session. The record is written first, and the message's ID is
    /// derived from it: if the process dies in between, the next one adds the message, once.
    pub(super) fn ensure_prompt(&self, lease: &Lease, task: &Task) -> Result<(), TaskError> {
        let Some(run) = task.data.runs.last() else { return Ok(()) };
        let Some(prompt) = &run.prompt else { return Ok(()) };
        let mut ids = ids_of_run(task);
        let message =
            Message::user(ids.message(run.asked), ids.part(run.asked), prompt.as_str()).at(run.asked);
        Ok(self.archive.store().append(&lease.claim(), vec![message], self.now())?)
    }

    /// Returns the error for a task that this board still runs. If its run has ended and only has to be cleaned up, the
    /// caller retries; otherwise the resume is rejected. The lease is not requested, because all runs of this board
    /// have the same holder name, and it would be taken from the run.
    fn still_running(&self, session: &SessionId, run: u32) -> Result<TaskError, TaskError> {
        let task = self.load(session)?;
        if task.status.is_active() && task.run() >= run {
            return Err(TaskError::Moved { status: task.status });
        }
        Ok(TaskError::Internal("the task's previous run has not been cleaned up yet; retry".into()))
    }

    /// Returns the lease of a session, if no living process has it.
    pub(super) fn lease_free(&self, session: &SessionId) -> Result<Lease, TaskError> {
        let store = self.archive.store();
        match store.lease(session, &self.holder, self.lease) {
            Err(StoreError::Missing { .. }) => Err(TaskError::SessionGone),
            Err(StoreError::Leased { holder, .. }) if self.is_gone_holder(&holder) => {
                Ok(store.inherit_lease(session, &self.holder, self.lease, &holder)?)
            }
            lease => Ok(lease?),
        }
    }

    /// Locks the taking of leases: all runs here have the same holder name, so concurrent threads would take leases
    /// from each other.
    pub(super) fn claiming(&self) -> MutexGuard<'_, ()> {
        self.claiming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_gone_holder(&self, holder: &str) -> bool {
        let process = holder.rsplit_once(BOARD_MARK).map_or(holder, |(process, _)| process);
        (self.is_gone)(process)
    }
}

/// Returns IDs that are always the same for the same run.
fn ids_of_run(task: &Task) -> Ids {
    // The standard library's hashes may differ between the versions that find a run and that began it.
    let mut state = Fnv::of(format!("{}:{}", task.id, task.run()).as_bytes());
    Ids::new(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    })
}
