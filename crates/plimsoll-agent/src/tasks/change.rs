//! Changes task records. Each change is written in one transaction with its notes.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll::SessionId;
use plimsoll_store::{Claim, NewNote, Note, StoreError, TaskMove};
use serde_json::json;

use super::board::{StopReason, TaskBoard};
use crate::task::{ENDED, STEER, Task, TaskChange, TaskError, note_id};

/// Maximum number of notes read from an inbox.
const MAX_NOTES: u64 = 1_000;
/// Reasons for cancelling tasks that a task launched.
pub(super) const LAUNCHER_CANCELLED: &str = "The task that launched it was cancelled.";
pub(super) const LAUNCHER_ENDED: &str = "The task that launched it has ended.";

/// Author of a steering message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Speaker {
    /// The model that launched the task.
    Parent,
    /// The user.
    User,
}

impl Speaker {
    fn name(self) -> &'static str {
        match self {
            Speaker::Parent => "parent",
            Speaker::User => "user",
        }
    }
}

impl TaskBoard {
    /// Applies a change to the current record, retrying if the record changes concurrently.
    pub(super) fn change(&self, id: &SessionId, change: &TaskChange) -> Result<Task, TaskError> {
        self.change_with(id, change, None, &[])
    }

    /// Applies a change as the process that runs the task, only while it holds the lease.
    pub(super) fn change_under(
        &self,
        id: &SessionId,
        change: &TaskChange,
        under: Option<&Claim>,
    ) -> Result<Task, TaskError> {
        self.change_with(id, change, under, &[])
    }

    /// Applies a change and sends notes. The end of a task is reported to its parent in the same transaction: a process
    /// that dies in between would otherwise leave an unreported end.
    fn change_with(
        &self,
        id: &SessionId,
        change: &TaskChange,
        under: Option<&Claim>,
        sent: &[(SessionId, NewNote)],
    ) -> Result<Task, TaskError> {
        loop {
            let record = match self.archive.store().task(id.as_str()) {
                Err(StoreError::Missing { .. }) => return Err(TaskError::NotFound(id.to_string())),
                record => record?,
            };
            let before = Task::try_from(record)?;
            let now = self.now();
            let mut next = before.apply(change.clone(), now)?;
            if next == before {
                return Ok(next);
            }
            let has_ended = before.status.is_active() && !next.status.is_active();
            if let Some(run) = next.data.runs.last_mut().filter(|_| has_ended) {
                // Read after the record: a message that arrives later changes the record, and the end is then computed
                // again.
                (run.unread, run.unread_of_user) = self.unread(id)?;
            }
            let notes_of_ends = next.noted_since(&before);
            let notes_of_ends =
                notes_of_ends.into_iter().map(|run| (next.parent.clone(), ended_note(&next.id, run)));
            let step = TaskMove {
                notes: sent.iter().cloned().chain(notes_of_ends).collect(),
                under: under.cloned(),
                ..next.step_from(&before)?
            };
            match self.archive.store().move_task(id.as_str(), step, now) {
                Ok(record) => {
                    self.note_change();
                    return Task::try_from(record);
                }
                Err(StoreError::TaskMoved { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the unread steering messages of a task: its parent's and the user's.
    fn unread(&self, id: &SessionId) -> Result<(Vec<String>, Vec<String>), TaskError> {
        let waiting = match self.archive.store().notes(id, MAX_NOTES) {
            Err(StoreError::Missing { .. }) => return Ok(Default::default()),
            waiting => waiting?,
        };
        let steers = waiting.iter().filter(|note| note.kind == STEER);
        let (persons, parents): (Vec<_>, Vec<_>) =
            steers.partition(|note| note.data["by"] == Speaker::User.name());
        let words = |notes: Vec<&Note>| {
            notes.into_iter().filter_map(|note| note.data["text"].as_str().map(str::to_owned)).collect()
        };
        Ok((words(parents), words(persons)))
    }

    /// Removes steering messages that an earlier run did not read. They were returned to the parent when that run
    /// ended.
    pub(super) fn drop_unread(&self, claim: &Claim) -> Result<(), TaskError> {
        let store = self.archive.store();
        let waiting = store.notes(&claim.session, MAX_NOTES)?;
        let steers = waiting.into_iter().filter(|note| note.kind == STEER);
        let ids: Vec<String> = steers.map(|note| note.id).collect();
        if !ids.is_empty() {
            store.take_notes(claim, &ids, self.now())?;
        }
        Ok(())
    }

    pub(super) fn note_change(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Cancels a task, the tasks that it has launched, and a queued resume. It is recorded at once; running work ends
    /// soon after, in this process or in another.
    pub async fn cancel(self: &Arc<Self>, id: &SessionId) -> Result<Task, TaskError> {
        let id = id.clone();
        self.blocking(move |board| board.cancel_now(&id, None)).await
    }

    pub(super) fn cancel_now(&self, id: &SessionId, why: Option<&str>) -> Result<Task, TaskError> {
        let cancelled = self.change(id, &TaskChange::Cancel { why: why.map(str::to_owned) })?;
        self.stop_local(id, StopReason::Cancelled);
        self.cancel_children(id, LAUNCHER_CANCELLED);
        Ok(cancelled)
    }

    /// Cancels all tasks below a task, except those that have ended meanwhile.
    ///
    /// Also below a task that is already cancelled: its run cancels its tasks too, and may not have reached all of them.
    pub(super) fn cancel_children(&self, parent: &SessionId, why: &str) {
        // A damaged record may name itself as its parent.
        let mut visited = BTreeSet::new();
        let mut parents = vec![(parent.clone(), why)];
        while let Some((parent, why)) = parents.pop() {
            if !visited.insert(parent.clone()) {
                continue;
            }
            for child in self.load_all(Some(&parent)).unwrap_or_default() {
                if child.status.is_active() || child.data.pending.is_some() {
                    let cancel = TaskChange::Cancel { why: Some(why.to_owned()) };
                    if self.change(&child.id, &cancel).is_ok() {
                        self.stop_local(&child.id, StopReason::Cancelled);
                    }
                }
                parents.push((child.id, LAUNCHER_CANCELLED));
            }
        }
    }

    pub(super) fn stop_local(&self, id: &SessionId, reason: StopReason) {
        if let Some(local) = self.local().get_mut(id) {
            local.stop.get_or_insert(reason);
            local.cancel.cancel();
        }
    }

    /// Sends a steering message to an active task, whose model reads it before its next request. If the run ends
    /// before, the message is returned to the parent.
    pub async fn steer(
        self: &Arc<Self>,
        id: &SessionId,
        message: &str,
        speaker: Speaker,
    ) -> Result<Task, TaskError> {
        let (id, message) = (id.clone(), message.to_owned());
        self.blocking(move |board| {
            let name = plimsoll_store::random_ids().message(board.now());
            let note = NewNote {
                id: format!("steer:{name}"),
                kind: STEER.to_owned(),
                data: json!({ "text": message, "by": speaker.name() }),
            };
            let sent = [(id.clone(), note)];
            board.change_with(&id, &TaskChange::Steer, None, &sent)
        })
        .await
    }

    /// Cancels the active tasks of a session and removes all of its tasks from lists. Records stay, and each task can
    /// be resumed by its ID. Returns the cancelled and the cleared tasks.
    pub async fn clear(self: &Arc<Self>, parent: &SessionId) -> Result<(Vec<Task>, Vec<Task>), TaskError> {
        let parent = parent.clone();
        self.blocking(move |board| {
            let (mut aborted, mut cleared) = (Vec::new(), Vec::new());
            for task in board.load_all(Some(&parent))? {
                if task.data.cleared {
                    continue;
                }
                if task.status.is_active() {
                    match board.cancel_now(&task.id, None) {
                        Ok(task) => aborted.push(task),
                        Err(TaskError::NotRunning { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
                match board.change(&task.id, &TaskChange::Clear) {
                    Ok(task) => cleared.push(task),
                    // The task was resumed meanwhile, and stays listed.
                    Err(TaskError::Moved { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok((aborted, cleared))
        })
        .await
    }
}

/// Returns the note that reports the end of a run. Sending it again has no effect, even if it was received long ago.
fn ended_note(task: &SessionId, run: u32) -> NewNote {
    NewNote { id: note_id(task, run), kind: ENDED.to_owned(), data: json!({ "task": task, "run": run }) }
}
