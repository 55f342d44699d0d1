//! Runs in the background, as records. What runs them is not the store's business.

use plimsoll::{Millis, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Claim, NewNote};
use crate::error::StoreError;

/// Tasks and the states they move through. Methods block; see the [module](super).
///
/// A task is not fenced by a lease: parent, runner and a person who cancels it all move it. What keeps them apart is
/// that each move names the status it starts from.
pub trait Tasks {
    /// Begin a task. The same task again changes nothing.
    fn put_task(&self, task: NewTask, now: Millis) -> Result<TaskRecord, StoreError>;

    /// One task.
    fn task(&self, id: &str) -> Result<TaskRecord, StoreError>;

    /// Tasks, the oldest first.
    fn tasks(&self, filter: &TaskFilter) -> Result<Vec<TaskRecord>, StoreError>;

    /// Move a task from one status to another and perhaps give it other data. Refused as
    /// [`TaskMoved`](StoreError::TaskMoved) if it is not in the status that is named, or has other data than the move
    /// was made over; the same move again changes nothing.
    fn move_task(&self, id: &str, step: TaskMove, now: Millis) -> Result<TaskRecord, StoreError>;
}

/// A task to be begun.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewTask {
    /// Its id.
    pub id: String,
    /// The session it works for.
    pub parent: SessionId,
    /// The session it runs in, if it has one already.
    pub session: Option<SessionId>,
    /// Its status at the beginning, such as `pending`. The store gives words of its own to none.
    pub status: String,
    /// Whatever its runner wants to remember.
    pub data: Value,
}

/// A task as the store knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRecord {
    /// Its id.
    pub id: String,
    /// The session it works for.
    pub parent: SessionId,
    /// The session it runs in.
    pub session: Option<SessionId>,
    /// Where it stands.
    pub status: String,
    /// Whatever its runner wants to remember.
    pub data: Value,
    /// When it was begun.
    pub created: Millis,
    /// When it was last moved.
    pub updated: Millis,
}

/// A step of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskMove {
    /// The status it must be in.
    pub from: String,
    /// The status it will be in.
    pub to: String,
    /// The data it must have. Parent, runner and people all change a task, and none may write over what it has not seen.
    pub over: Option<Value>,
    /// The session it runs in from now on; none leaves it.
    pub session: Option<SessionId>,
    /// Other data; none leaves it.
    pub data: Option<Value>,
    /// Notes that are sent with the step or not at all, each to a session: that a task has ended is told although its
    /// process dies right after. One for a session that is gone is left out.
    pub notes: Vec<(SessionId, NewNote)>,
    /// The right under which the step is made, for the process that runs the task: one that was taken over must not
    /// decide how a run ended that is another's by now.
    pub under: Option<Claim>,
}

/// Which tasks are wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskFilter {
    /// Only of this session.
    pub parent: Option<SessionId>,
    /// Only in this status.
    pub status: Option<String>,
    /// Only after the task of this id, which ended the page before.
    pub after: Option<String>,
    /// No more than so many; 0 means 100.
    pub most: u64,
}

impl TaskRecord {
    /// Whether beginning `new` has made this.
    pub(crate) fn was_begun_as(&self, new: &NewTask) -> bool {
        let NewTask { id, parent, session, status, data } = new;
        (id, parent, session, status, data)
            == (&self.id, &self.parent, &self.session, &self.status, &self.data)
    }

    /// Whether this step can be made from here.
    pub(crate) fn can_move_by(&self, step: &TaskMove) -> bool {
        self.status == step.from && step.over.as_ref().is_none_or(|over| self.data == *over)
    }

    /// Whether this step was done already.
    pub(crate) fn was_moved_by(&self, step: &TaskMove) -> bool {
        let is_visible = step.from != step.to || (step.over.is_some() && step.over != step.data);
        self.status == step.to
            && is_visible
            && step.session.as_ref().is_none_or(|session| self.session.as_ref() == Some(session))
            && step.data.as_ref().is_none_or(|data| self.data == *data)
    }
}
