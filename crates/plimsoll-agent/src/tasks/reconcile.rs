//! Tasks whose process has gone, and ends that were not told.

use std::sync::Arc;

use plimsoll::SessionId;

use super::board::TaskBoard;
use super::error::TaskError;
use super::status::TaskStatus;
use super::task::{Task, TaskChange};

impl TaskBoard {
    /// Look after the tasks of a session, or all: those whose process has gone are marked as interrupted, ends that were
    /// not told yet are, and a resume that waits behind a run that has ended is taken up. Gives the tasks that were marked.
    ///
    /// A task that another living process runs is recognised by the lease of its session and left alone.
    pub async fn reconcile(self: &Arc<Self>, parent: Option<&SessionId>) -> Result<Vec<Task>, TaskError> {
        let parent = parent.cloned();
        let (marked, pending) = self.blocking(move |board| board.reconcile_now(parent.as_ref())).await?;
        for task in pending {
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

    fn reconcile_now(&self, parent: Option<&SessionId>) -> Result<(Vec<Task>, Vec<Task>), TaskError> {
        let (mut marked, mut pending) = (Vec::new(), Vec::new());
        for task in self.load_all(parent)? {
            if self.local().contains_key(&task.id) {
                continue;
            }
            let task = match task.status.is_active() {
                true => match self.mark_if_gone(&task)? {
                    Some(task) => {
                        marked.push(task.clone());
                        // Whatever it had launched ran in the same process.
                        marked.extend(self.reconcile_now(Some(&task.id))?.0);
                        task
                    }
                    None => continue,
                },
                false => task,
            };
            self.tell(&task);
            if task.data.pending.is_some() && task.status != TaskStatus::Interrupted {
                pending.push(task);
            }
        }
        Ok((marked, pending))
    }

    /// Mark an active task as interrupted if no process runs it.
    fn mark_if_gone(&self, task: &Task) -> Result<Option<Task>, TaskError> {
        let _claiming = self.claiming();
        if self.local().contains_key(&task.id) {
            return Ok(None);
        }
        let lease = match self.lease_free(&task.id) {
            Ok(None) => return Ok(None),
            Err(TaskError::SessionGone) => None,
            lease => lease?,
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
