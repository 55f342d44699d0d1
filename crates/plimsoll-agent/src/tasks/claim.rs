//! Taking the right to run a task: its lease and its record, in this order.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plimsoll::SessionId;
use plimsoll_store::{Lease, StoreError};

use super::board::{Local, TaskBoard};
use super::error::TaskError;
use super::task::Task;

/// For how long a session that another is just giving back is waited for.
const LEASE_PATIENCE: Duration = Duration::from_secs(3);

impl TaskBoard {
    /// Take the lease of a task's session and make its record active, in this order: a record that is active and not leased
    /// would be taken for one whose process is gone. One who is just giving the session back is waited for.
    pub(super) fn claim(
        &self,
        session: &SessionId,
        record: impl FnOnce(&TaskBoard) -> Result<Task, TaskError>,
    ) -> Result<(Task, Lease), TaskError> {
        let begun = Instant::now();
        loop {
            let claiming = self.claiming();
            // Not in the `match` itself, which would hold the lock to its end.
            let own_run = self.local().get(session).map(|local| local.run);
            let held = match own_run {
                Some(run) => self.still_running(session, run)?,
                None => match self.lease_free(session) {
                    Ok(lease) => {
                        let recorded = record(self);
                        return match recorded {
                            Ok(task) => {
                                self.local().insert(session.clone(), Local::reserved(&task));
                                Ok((task, lease))
                            }
                            Err(error) => {
                                let _ = self.archive.store().release(&lease);
                                Err(error)
                            }
                        };
                    }
                    Err(TaskError::Store(held @ StoreError::Leased { .. })) => TaskError::Store(held),
                    Err(error) => return Err(error),
                },
            };
            drop(claiming);
            if begun.elapsed() > LEASE_PATIENCE {
                return Err(held);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A run of ours that has ended may not be put away yet, which is worth waiting for; one that has not is refused at
    /// once. Its lease is not asked for: all of this board go by the same holder, and it would be taken from the run.
    fn still_running(&self, session: &SessionId, run: u32) -> Result<TaskError, TaskError> {
        let task = self.load(session)?;
        if task.status.is_active() && task.run() >= run {
            return Err(TaskError::Moved { status: task.status });
        }
        Ok(TaskError::Internal("the task's last run is still being put away".into()))
    }

    /// The lease of a session, if no living process has it.
    pub(super) fn lease_free(&self, session: &SessionId) -> Result<Lease, TaskError> {
        let store = self.archive.store();
        match store.lease(session, &self.holder, self.lease) {
            Err(StoreError::Missing { .. }) => Err(TaskError::SessionGone),
            Err(StoreError::Leased { holder, .. }) if self.is_gone_holder(&holder) => {
                Ok(store.break_lease(session, &self.holder, self.lease)?)
            }
            lease => Ok(lease?),
        }
    }

    /// Only one at a time takes leases here: all go by the same holder, and would take them from each other.
    pub(super) fn claiming(&self) -> MutexGuard<'_, ()> {
        self.claiming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_gone_holder(&self, holder: &str) -> bool {
        let process = holder.rsplit_once(", tasks ").map_or(holder, |(process, _)| process);
        (self.is_gone)(process)
    }
}
