//! Background tasks, as records. The store does not run them.

use plimsoll::{Millis, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Claim, NewNote};
use crate::error::StoreError;

/// Tasks and their statuses. Methods block; see [`Store`](super::Store).
///
/// A task is not fenced by a lease: its parent, its runner and a user who cancels it all change it. Each change names
/// the status it starts from, so that concurrent changes cannot overwrite each other.
pub trait Tasks {
    /// Creates a task. Repeating it changes nothing.
    fn put_task(&self, task: NewTask, now: Millis) -> Result<TaskRecord, StoreError>;

    /// Returns a task.
    fn task(&self, id: &str) -> Result<TaskRecord, StoreError>;

    /// Tasks, oldest first.
    fn tasks(&self, filter: &TaskFilter) -> Result<Vec<TaskRecord>, StoreError>;

    /// Moves a task from one status to another and optionally replaces its data. Returns
    /// [`TaskMoved`](StoreError::TaskMoved) if it does not have the expected status or data. Repeating the same move
    /// changes nothing.
    fn move_task(&self, id: &str, step: TaskMove, now: Millis) -> Result<TaskRecord, StoreError>;
}

/// A task to create.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewTask {
    /// Id.
    pub id: String,
    /// The session it works for.
    pub parent: SessionId,
    /// The session it runs in, if it has one already.
    pub session: Option<SessionId>,
    /// First status, such as `pending`. The store does not interpret statuses.
    pub status: String,
    /// Data of the task's runner, opaque to the store.
    pub data: Value,
}

/// A stored task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskRecord {
    /// Id.
    pub id: String,
    /// The session it works for.
    pub parent: SessionId,
    /// The session it runs in.
    pub session: Option<SessionId>,
    /// Current status.
    pub status: String,
    /// Data of the task's runner, opaque to the store.
    pub data: Value,
    /// Time of creation.
    pub created: Millis,
    /// Time of the last change.
    pub updated: Millis,
}

/// A change of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskMove {
    /// The expected status.
    pub from: String,
    /// The new status.
    pub to: String,
    /// The expected data, if it matters. Parent, runner and users all change a task, and none may overwrite data it has
    /// not read.
    pub over: Option<Value>,
    /// The session it runs in from now on; `None` keeps the current one.
    pub session: Option<SessionId>,
    /// New data; `None` keeps the current one.
    pub data: Option<Value>,
    /// Notes that are sent with the change or not at all, each to a session: the end of a task is reported even if its
    /// process dies right after. A note to a session that was removed is dropped.
    pub notes: Vec<(SessionId, NewNote)>,
    /// The claim under which the task's own process makes the change: a process whose session was taken over must not
    /// decide how the run of another process ended.
    pub under: Option<Claim>,
}

/// Selects tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskFilter {
    /// Only tasks of this session.
    pub parent: Option<SessionId>,
    /// Only tasks with this status.
    pub status: Option<String>,
    /// Start after this task, the last one of the previous page.
    pub after: Option<String>,
    /// Maximum number of tasks; 0 means 100.
    pub most: u64,
}

impl TaskRecord {
    /// Whether this is the result of creating `new`.
    pub(crate) fn was_begun_as(&self, new: &NewTask) -> bool {
        let NewTask { id, parent, session, status, data } = new;
        (id, parent, session, status, data)
            == (&self.id, &self.parent, &self.session, &self.status, &self.data)
    }

    /// Whether the change applies to the current status and data.
    pub(crate) fn can_move_by(&self, step: &TaskMove) -> bool {
        self.status == step.from && step.over.as_ref().is_none_or(|over| self.data == *over)
    }

    /// Whether the change was already made.
    pub(crate) fn was_moved_by(&self, step: &TaskMove) -> bool {
        let is_visible = step.from != step.to || (step.over.is_some() && step.over != step.data);
        self.status == step.to
            && is_visible
            && step.session.as_ref().is_none_or(|session| self.session.as_ref() == Some(session))
            && step.data.as_ref().is_none_or(|data| self.data == *data)
    }
}
