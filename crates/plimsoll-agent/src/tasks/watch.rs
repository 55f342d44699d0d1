//! Waiting for tasks, and seeing what other processes do to them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_store::{ChangeKind, Sequence, StoreError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::board::{Local, StopReason, TaskBoard};
use super::error::TaskError;
use super::task::Task;

/// How often changes that other processes made are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl TaskBoard {
    /// Moves whenever a task changes or a note comes, here or in another process.
    pub fn watch(self: &Arc<Self>) -> watch::Receiver<u64> {
        self.begin_watching();
        self.changes.subscribe()
    }

    /// Wait until a task has ended or the time is over; gives it as it is then.
    pub async fn wait(
        self: &Arc<Self>,
        id: &SessionId,
        longest: Duration,
        cancel: &CancellationToken,
    ) -> Result<Task, TaskError> {
        let mut changes = self.watch();
        let over = tokio::time::sleep(longest);
        tokio::pin!(over);
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
                changed = changes.changed() => if changed.is_err() { return Ok(task) },
            }
        }
    }

    /// Let a session that is itself a task wait without its slot, which its own tasks may need.
    pub(crate) async fn without_slot<T>(&self, session: &SessionId, wait: impl Future<Output = T>) -> T {
        let taken = self
            .local()
            .get_mut(session)
            .and_then(|local| local.permit.take().map(|permit| (permit, local.cancel.clone())));
        let Some((permit, cancel)) = taken else { return wait.await };
        drop(permit);
        let done = wait.await;
        tokio::select! {
            biased;
            // A run that is to stop needs no slot for that.
            () = cancel.cancelled() => {}
            permit = Arc::clone(&self.slots).acquire_owned() => {
                if let Some(local) = self.local().get_mut(session) {
                    local.permit = permit.ok();
                }
            }
        }
        done
    }

    /// Look for what other processes do to tasks, from the first time that it matters.
    pub(super) fn begin_watching(self: &Arc<Self>) {
        if !self.is_watching.swap(true, Ordering::SeqCst) {
            tokio::spawn(watch_store(Arc::downgrade(self)));
        }
    }

    /// What came since: whether a task or an inbox has changed.
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

    /// Stop runs whose tasks were ended by others.
    fn obey_records(&self) {
        let ids: Vec<(SessionId, u32)> =
            self.local().iter().map(|(id, local)| (id.clone(), local.run)).collect();
        for (id, run) in ids {
            let is_over = match self.load(&id) {
                Ok(task) => !task.status.is_active() || task.run() != run,
                Err(TaskError::NotFound(_)) => true,
                Err(_) => false,
            };
            let is_same = |local: &Local| local.run == run;
            if is_over && self.local().get(&id).is_some_and(is_same) {
                self.stop_local(&id, StopReason::Cancelled);
            }
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
        // A store that is busy is looked at again.
        if let Ok((next, is_ours)) = looked {
            since = Some(next);
            if is_ours {
                board.note_change();
            }
        }
    }
}
