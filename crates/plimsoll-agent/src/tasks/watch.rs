//! Waits for tasks and detects changes by other processes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_store::{ChangeKind, Sequence, StoreError};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::board::{Local, StopReason, TaskBoard};
use crate::task::{Task, TaskError, TaskStatus};

/// Interval at which changes by other processes are checked.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl TaskBoard {
    /// Changes whenever a task changes or a note arrives, here or in another process.
    pub fn watch(self: &Arc<Self>) -> watch::Receiver<u64> {
        self.begin_watching();
        self.changes.subscribe()
    }

    /// Waits until a task has ended or the time is over, and returns the task. Detects meanwhile if another process
    /// that runs it is gone.
    pub async fn wait(
        self: &Arc<Self>,
        id: &SessionId,
        longest: Duration,
        cancel: &CancellationToken,
    ) -> Result<Task, TaskError> {
        let mut changes = self.watch();
        let over = tokio::time::sleep(longest);
        tokio::pin!(over);
        let mut look = tokio::time::interval(self.supervise_interval());
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            changes.borrow_and_update();
            let task = self.task(id).await?;
            if !task.status.is_active() {
                return Ok(task);
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(task),
                () = &mut over => return Ok(task),
                _ = look.tick() => {
                    self.blocking(move |board| board.mark_if_gone(&task)).await?;
                }
                changed = changes.changed() => if changed.is_err() { return Ok(task) },
            }
        }
    }

    /// Lets a session that is itself a task wait without its slot, which its own tasks may need. Several of its calls
    /// may wait at once: the slot is free until the last of them returns, because only then the run continues. A call
    /// that took the slot back earlier would keep it from the task that another call waits for.
    pub(crate) async fn without_slot<T>(&self, session: &SessionId, wait: impl Future<Output = T>) -> T {
        let waiting = Waiting::begin(self, session);
        let done = wait.await;
        let Some(cancel) = waiting.end() else { return done };
        tokio::select! {
            biased;
            // A run that is to stop needs no slot.
            () = cancel.cancelled() => {}
            permit = Arc::clone(&self.slots).acquire_owned() => {
                // If another call waits by now, the slot stays free for the task that it waits for.
                if let Some(local) = self.local().get_mut(session).filter(|local| local.waiting == 0) {
                    local.permit = permit.ok();
                }
            }
        }
        done
    }

    /// Starts the check for changes by other processes, on first use.
    pub(super) fn begin_watching(self: &Arc<Self>) {
        if !self.is_watching.swap(true, Ordering::SeqCst) {
            tokio::spawn(watch_store(Arc::downgrade(self)));
        }
    }

    /// Returns the newest change, and whether a task or an inbox has changed since.
    fn look(&self, since: Option<Sequence>) -> Result<(Sequence, bool), StoreError> {
        let store = self.archive.store();
        let Some(mut since) = since else { return Ok((store.newest_change()?, true)) };
        let mut is_ours = false;
        loop {
            let page = store.changes(since, 0)?;
            is_ours |= page.gap
                || page
                    .changes
                    .iter()
                    .any(|change| matches!(change.kind, ChangeKind::Task | ChangeKind::Noted));
            if page.next == since {
                return Ok((since, is_ours));
            }
            since = page.next;
        }
    }

    /// Stops runs whose tasks were ended by other processes.
    fn obey_records(&self) {
        let ids: Vec<(SessionId, u32)> =
            self.local().iter().map(|(id, local)| (id.clone(), local.run)).collect();
        for (id, run) in ids {
            let over = match self.load(&id) {
                Ok(task) if task.run() == run && task.status.is_active() => None,
                Ok(task) if task.run() == run && task.status == TaskStatus::Cancelled => {
                    Some(StopReason::Cancelled)
                }
                // It was marked as gone although it runs, for example after the machine slept.
                Ok(_) => Some(StopReason::Lost),
                // A task in launch has no record yet.
                Err(TaskError::NotFound(_)) if !self.is_begun(&id) => None,
                Err(TaskError::NotFound(_)) => Some(StopReason::Lost),
                Err(_) => None,
            };
            let is_same = |local: &Local| local.run == run;
            if let Some(reason) = over.filter(|_| self.local().get(&id).is_some_and(is_same)) {
                self.stop_local(&id, reason);
            }
        }
    }
}

/// A call of a session that waits for tasks.
struct Waiting<'a> {
    board: &'a TaskBoard,
    session: &'a SessionId,
    has_ended: bool,
}

impl<'a> Waiting<'a> {
    /// Releases the slot with the first waiting call.
    fn begin(board: &'a TaskBoard, session: &'a SessionId) -> Waiting<'a> {
        let permit = board.local().get_mut(session).and_then(|local| {
            local.waiting += 1;
            local.permit.take()
        });
        drop(permit);
        Waiting { board, session, has_ended: false }
    }

    /// Requests a slot after the last waiting call. Returns the token that stops the run meanwhile.
    fn end(mut self) -> Option<CancellationToken> {
        self.has_ended = true;
        let mut local = self.board.local();
        let local = local.get_mut(self.session)?;
        local.waiting = local.waiting.saturating_sub(1);
        (local.waiting == 0).then(|| local.cancel.clone())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // A dropped call no longer waits for tasks.
        if !self.has_ended
            && let Some(local) = self.board.local().get_mut(self.session)
        {
            local.waiting = local.waiting.saturating_sub(1);
        }
    }
}

async fn watch_store(board: Weak<TaskBoard>) {
    let mut since = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(board) = board.upgrade() else { return };
        let looked = board
            .blocking(move |board| {
                let (next, is_ours) = board.look(since)?;
                if is_ours {
                    board.obey_records();
                }
                Ok((next, is_ours))
            })
            .await;
        // A busy store is read again later.
        if let Ok((next, is_ours)) = looked {
            since = Some(next);
            if is_ours {
                board.note_change();
            }
        }
    }
}
