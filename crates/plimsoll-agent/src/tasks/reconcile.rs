//! Tasks whose process has gone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_store::StoreError;

use super::board::TaskBoard;
use super::claim::is_board;
use super::limits::require_price;
use crate::task::{Task, TaskChange, TaskError, TaskStatus};

/// So many leases are looked at in one go.
const LEASES_A_PAGE: u64 = 1_000;

impl TaskBoard {
    /// Look after the tasks of a session and the tasks of its tasks, or all: those whose process has gone are marked as
    /// interrupted, and that is told. Gives the tasks that were marked.
    ///
    /// A task that another living process runs is recognised by the lease of its session and left alone. Only active tasks
    /// are looked at, and nothing is written for those that are well. The first time, ends that an older version has
    /// recorded and may not have told are told too. What a process that has gone left half done in the session of a task that
    /// has ended is marked as interrupted there.
    pub async fn reconcile(self: &Arc<Self>, parent: Option<&SessionId>) -> Result<Vec<Task>, TaskError> {
        let parent = parent.cloned();
        self.blocking(move |board| board.reconcile_now(parent.as_ref())).await
    }

    /// Like [`reconcile`](TaskBoard::reconcile), and take up resumes that wait behind a run that has ended: its process may
    /// have gone before it could. Only for hosts that stay long enough for the tasks, and only
    /// those of tasks that work in the host's directory.
    pub async fn look_after(self: &Arc<Self>, parent: &SessionId) -> Result<Vec<Task>, TaskError> {
        let marked = self.reconcile(Some(parent)).await?;
        for task in self.tasks(Some(parent)).await? {
            if task.status.is_active() || task.data.pending.is_none() || self.is_local(&task.id) {
                continue;
            }
            let agent = self.agent_again(None, &task).await;
            let fired = match agent.and_then(|agent| require_price(&agent).map(|()| agent)) {
                Ok(agent) => {
                    if !self.works_in(&task.id, &agent.directory).await? {
                        continue;
                    }
                    let told = Arc::clone(&agent.events);
                    // Not waited for: another process may be giving it back, and will take it up itself.
                    self.try_fire(&task, agent, &told, Duration::ZERO).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = fired {
                tracing::info!(task = %task.id, %error, "a queued resume cannot begin yet");
            }
        }
        Ok(marked)
    }

    /// Whether a task works in this directory. One that was launched elsewhere is not taken up here: the paths that it knows
    /// and the rules that it was launched under are of there.
    async fn works_in(self: &Arc<Self>, id: &SessionId, directory: &Path) -> Result<bool, TaskError> {
        let (id, here) = (id.clone(), directory.display().to_string());
        self.blocking(move |board| match board.archive.store().session(&id) {
            Ok(session) => Ok(session.directory.is_none_or(|own| own == here)),
            // Taking it up finds that it is gone.
            Err(StoreError::Missing { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        })
        .await
    }

    pub(super) fn is_local(&self, id: &SessionId) -> bool {
        self.local().contains_key(id)
    }

    fn reconcile_now(&self, parent: Option<&SessionId>) -> Result<Vec<Task>, TaskError> {
        if !self.has_looked_back.swap(true, Ordering::SeqCst) {
            self.tell_untold()?;
        }
        let mut marked = Vec::new();
        for task in self.load_active()? {
            if !self.is_local(&task.id) && self.is_below(&task, parent)? {
                marked.extend(self.mark_if_gone(&task)?);
            }
        }
        self.settle_ended(parent)?;
        Ok(marked)
    }

    /// Settle sessions of tasks that have ended and whose process has gone before it gave them back, such as one that was
    /// killed while a cancelled task wound down: an answer and calls without their ends would stay in the log until the
    /// session is opened. They are found by their leases, which are few, and not by the records of all that ever ended.
    fn settle_ended(&self, parent: Option<&SessionId>) -> Result<(), TaskError> {
        let store = self.archive.store();
        let mut after = None;
        loop {
            let page = store.leases(after.as_ref(), LEASES_A_PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.session.clone());
            // A person who talks to a task and has paused for longer than the lease goes on later: only runs are settled.
            for left in page.iter().filter(|lease| is_board(&lease.holder)) {
                match self.load(&left.session) {
                    Ok(task) if !task.status.is_active() && self.is_below(&task, parent)? => {
                        self.settle_if_gone(&task.id)?;
                    }
                    Ok(_) | Err(TaskError::NotFound(_) | TaskError::Unreadable(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Take a session's lease and give it back, which marks as interrupted what was left half done; not from a process that
    /// lives.
    fn settle_if_gone(&self, session: &SessionId) -> Result<(), TaskError> {
        let _claiming = self.claiming();
        if self.is_local(session) {
            return Ok(());
        }
        match self.lease_free(session) {
            Ok(lease) => {
                let _ = self.archive.store().release(&lease);
                Ok(())
            }
            Err(TaskError::Store(StoreError::Leased { .. }) | TaskError::SessionGone) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Tell ends whose records do not say that they were: an older version could die between the two. A note that was sent
    /// is not sent again, so that what was told after all is not told twice.
    fn tell_untold(&self) -> Result<(), TaskError> {
        for task in self.load_all(None)? {
            let is_untold = task.data.runs.iter().any(|run| run.end.is_some() && !run.noted);
            if is_untold
                && !task.data.cleared
                && let Err(error) = self.change(&task.id, &TaskChange::Tell)
            {
                tracing::warn!(task = %task.id, %error, "the end of a task could not be told");
            }
        }
        Ok(())
    }

    /// Whether a task stands below a session, however deep: the one between may have ended in another way.
    fn is_below(&self, task: &Task, parent: Option<&SessionId>) -> Result<bool, TaskError> {
        let Some(parent) = parent else { return Ok(true) };
        let mut at = task.parent.clone();
        loop {
            if at == *parent {
                return Ok(true);
            }
            match self.load(&at) {
                Ok(task) => at = task.parent,
                Err(TaskError::NotFound(_)) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Mark an active task as interrupted if no process runs it.
    pub(super) fn mark_if_gone(&self, task: &Task) -> Result<Option<Task>, TaskError> {
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
        // As it is now that the lease is ours: it may have ended, and have been resumed, since it was read.
        let marked = self.load(&task.id).and_then(|now| {
            if let Some(lease) = lease.as_ref().filter(|_| now.status.is_active() && now.run() == task.run())
            {
                self.ensure_prompt(lease, &now)?;
            }
            self.change(&task.id, &change)
        });
        if let Some(lease) = lease {
            let _ = self.archive.store().release(&lease);
        }
        match marked {
            Ok(task) => Ok(Some(task)),
            // It ended just now, by its own process.
            Err(TaskError::Moved { .. } | TaskError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
