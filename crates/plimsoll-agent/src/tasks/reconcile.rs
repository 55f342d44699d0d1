//! Tasks whose process has gone, and ends that were not told.

use std::sync::Arc;

use plimsoll::SessionId;
use plimsoll_store::StoreError;

use super::board::TaskBoard;
use super::error::TaskError;
use super::status::TaskStatus;
use super::task::{Task, TaskChange};

impl TaskBoard {
    /// Look after the tasks of a session, or all: those whose process has gone are marked as interrupted, and ends that
    /// were not told yet are. Gives the tasks that were marked.
    ///
    /// A task that another living process runs is recognised by the lease of its session and left alone.
    pub async fn reconcile(self: &Arc<Self>, parent: Option<&SessionId>) -> Result<Vec<Task>, TaskError> {
        let parent = parent.cloned();
        self.blocking(move |board| board.reconcile_now(parent.as_ref())).await
    }

    /// Like [`reconcile`](TaskBoard::reconcile), and take up resumes that wait behind a run that has ended: its process may
    /// have gone before it could. Only for hosts that stay long enough for the tasks.
    pub async fn look_after(self: &Arc<Self>, parent: &SessionId) -> Result<Vec<Task>, TaskError> {
        let marked = self.reconcile(Some(parent)).await?;
        for task in self.tasks(Some(parent)).await? {
            if task.status.is_active() || task.data.pending.is_none() || self.is_local(&task.id) {
                continue;
            }
            match self.agent_again(None, &task).await {
                Ok(agent) => {
                    let told = Arc::clone(&agent.events);
                    self.fire_pending(&task, agent, &told).await;
                }
                Err(error) => tracing::warn!(task = %task.id, %error, "a queued resume has no agent"),
            }
        }
        Ok(marked)
    }

    fn is_local(&self, id: &SessionId) -> bool {
        self.local().contains_key(id)
    }

    fn reconcile_now(&self, parent: Option<&SessionId>) -> Result<Vec<Task>, TaskError> {
        let mut marked = Vec::new();
        for task in self.load_all(parent)? {
            if !task.status.is_active() {
                // Also one that ended here just now: its end is recorded before it is told.
                self.tell(&task);
            } else if self.is_local(&task.id) {
                continue;
            } else if let Some(task) = self.mark_if_gone(&task)? {
                self.tell(&task);
                // Whatever it had launched ran in the same process.
                let below = self.reconcile_now(Some(&task.id))?;
                marked.push(task);
                marked.extend(below);
            }
        }
        Ok(marked)
    }

    /// Mark an active task as interrupted if no process runs it.
    fn mark_if_gone(&self, task: &Task) -> Result<Option<Task>, TaskError> {
        let _claiming = self.claiming();
        if self.is_local(&task.id) {
            return Ok(None);
        }
        let lease = match self.lease_free(&task.id) {
            Ok(lease) => Some(lease),
            Err(TaskError::Store(StoreError::Leased { .. })) => return Ok(None),
            Err(TaskError::SessionGone) => None,
            Err(error) => return Err(error),
        };
        let (status, error) = match lease {
            Some(_) => (TaskStatus::Interrupted, "The process that ran it has gone."),
            None => (TaskStatus::Cancelled, "Session deleted"),
        };
        let change = TaskChange::End {
            run: task.run(),
            status,
            error: Some(error.to_owned()),
            result: None,
            progress: None,
        };
        let marked = self.change(&task.id, &change);
        if let Some(lease) = lease {
            let _ = self.archive.store().release(&lease);
        }
        match marked {
            Ok(task) => Ok(Some(task)),
            // It ended just now, by its own process.
            Err(TaskError::Moved { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
