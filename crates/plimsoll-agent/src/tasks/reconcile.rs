//! Tasks whose process is gone.

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

/// Number of leases read at a time.
const LEASES_A_PAGE: u64 = 1_000;

impl TaskBoard {
    /// Checks the tasks of a session and their tasks, or all: those whose process is gone are marked as interrupted,
    /// and a note is sent. Returns the marked tasks.
    ///
    /// A task of another living process is recognised by its lease and not changed. Only active tasks are read, and
    /// nothing is written for healthy ones. The first call also sends notes for ends that an older version may have
    /// recorded without one. Sessions of ended tasks that a dead process left unfinished are settled.
    pub async fn reconcile(self: &Arc<Self>, parent: Option<&SessionId>) -> Result<Vec<Task>, TaskError> {
        let parent = parent.cloned();
        self.blocking(move |board| board.reconcile_now(parent.as_ref())).await
    }

    /// Like [`reconcile`](TaskBoard::reconcile), and starts resumes that are queued after an ended run, because its
    /// process may have exited before it could. Only for hosts that run long enough, and only for tasks that work in
    /// the host's directory.
    pub async fn supervise(self: &Arc<Self>, parent: &SessionId) -> Result<Vec<Task>, TaskError> {
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
                    let events = Arc::clone(&agent.events);
                    // Not waited for: another process may be releasing it, and will start the resume itself.
                    self.try_fire(&task, agent, &events, Duration::ZERO).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = fired {
                tracing::info!(task = %task.id, %error, "a queued resume cannot begin yet");
            }
        }
        Ok(marked)
    }

    /// Returns whether a task works in this directory. One that was launched elsewhere is not resumed here, because its
    /// paths and rules are for that directory.
    async fn works_in(self: &Arc<Self>, id: &SessionId, directory: &Path) -> Result<bool, TaskError> {
        let (id, here) = (id.clone(), directory.display().to_string());
        self.blocking(move |board| match board.archive.store().session(&id) {
            Ok(session) => Ok(session.directory.is_none_or(|own| own == here)),
            // The resume reports that the session was removed.
            Err(StoreError::Missing { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        })
        .await
    }

    pub(super) fn is_local(&self, id: &SessionId) -> bool {
        self.local().contains_key(id)
    }

    fn reconcile_now(&self, parent: Option<&SessionId>) -> Result<Vec<Task>, TaskError> {
        if !self.has_checked_old_ends.swap(true, Ordering::SeqCst) {
            self.send_missing_notes()?;
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

    /// Settles sessions of ended tasks whose process exited before it released them, for example one that was killed
    /// while a cancelled task stopped. Otherwise an unfinished answer and calls would stay in the log until the session
    /// is opened. They are found by their leases, which are few, and not by the records of all ended tasks.
    fn settle_ended(&self, parent: Option<&SessionId>) -> Result<(), TaskError> {
        let store = self.archive.store();
        let mut after = None;
        loop {
            let page = store.leases(after.as_ref(), LEASES_A_PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.session.clone());
            // Only runs are settled. A user who chats with a task may pause for longer than the lease and continue.
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

    /// Takes a session's lease and releases it, which marks unfinished parts as interrupted. Does nothing if a living
    /// process has it.
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

    /// Sends notes for ends without a recorded note: an older version could exit between the two. A note that was
    /// already sent is not duplicated.
    fn send_missing_notes(&self) -> Result<(), TaskError> {
        for task in self.load_all(None)? {
            let is_unreported = task.data.runs.iter().any(|run| run.end.is_some() && !run.noted);
            if is_unreported
                && !task.data.cleared
                && let Err(error) = self.change(&task.id, &TaskChange::Notify)
            {
                tracing::warn!(task = %task.id, %error, "the end of a task could not be reported");
            }
        }
        Ok(())
    }

    /// Returns whether a task is a descendant of a session, at any depth. Tasks in between may have ended.
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

    /// Marks an active task as interrupted if no process runs it.
    pub(super) fn mark_if_gone(&self, task: &Task) -> Result<Option<Task>, TaskError> {
        let _claiming = self.claiming();
        if self.is_local(&task.id) {
            return Ok(None);
        }
        // Only after the check under the lock: the lease of a run of this board would be taken from it.
        let lease = match self.lease_free(&task.id) {
            Ok(lease) => Some(lease),
            Err(TaskError::Store(StoreError::Leased { .. })) => return Ok(None),
            Err(TaskError::SessionGone) => None,
            Err(error) => return Err(error),
        };
        let (status, error) = match lease {
            Some(_) => (TaskStatus::Interrupted, "The process that ran it is gone."),
            None => (TaskStatus::Cancelled, "Session deleted"),
        };
        let change = TaskChange::End {
            run: task.run(),
            status,
            error: Some(error.to_owned()),
            result: None,
            progress: None,
        };
        // Read again under the lease: the task may have ended and been resumed since.
        let marked = self.load(&task.id).and_then(|now| {
            if let Some(lease) = lease.as_ref().filter(|_| now.status.is_active() && now.run() == task.run())
            {
                // Its process may have died between the record of a resume and the prompt.
                self.ensure_prompt(lease, &now)?;
            }
            self.change(&task.id, &change)
        });
        if let Some(lease) = lease {
            let _ = self.archive.store().release(&lease);
        }
        match marked {
            Ok(task) => Ok(Some(task)),
            // Its own process has just ended it.
            Err(TaskError::Moved { .. } | TaskError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
