//! IDs of new tasks.

use plimsoll::{Millis, SessionId};

use super::board::{Local, TaskBoard};
use crate::task::{PREFIX, SHORTEST, Task, TaskData, TaskError, bare, beginning};

/// Number of milliseconds whose IDs share the first [`SHORTEST`] digits.
const SHOWN_MILLIS: u64 = 16;
/// Maximum number of such steps that an ID may be ahead of the clock. Beyond that it is shown longer.
const MAX_AHEAD: u64 = 500;

impl TaskBoard {
    /// Chooses the ID of a new task and reserves its entry. No other session has the same short ID: IDs begin with the
    /// time, and a model that launches two tasks in one answer receives the first ID before the second exists, so the
    /// first would be ambiguous later. So the time in an ID may be slightly ahead of the clock. Another process that
    /// launches within the same milliseconds is not detected; the error for an ambiguous ID then lists both.
    pub(super) fn reserve(&self, parent: &SessionId, data: TaskData) -> Result<Task, TaskError> {
        let _claiming = self.claiming();
        let (now, mut ids) = (self.now(), plimsoll_store::random_ids());
        let mut id = ids.session(now);
        for ahead in 1..=MAX_AHEAD {
            if !self.is_short_id_taken(&id)? {
                break;
            }
            id = ids.session(Millis(now.0 + ahead * SHOWN_MILLIS));
        }
        let task = Task::new(id, parent.clone(), data, &self.holder, now);
        self.local().insert(task.id.clone(), Local::reserved(&task));
        Ok(task)
    }

    /// Returns whether a stored session or a task in launch has the same short ID.
    fn is_short_id_taken(&self, id: &SessionId) -> Result<bool, TaskError> {
        let shown = beginning(bare(id.as_str()), SHORTEST);
        if self.local().keys().any(|other| bare(other.as_str()).starts_with(shown)) {
            return Ok(true);
        }
        Ok(!self.archive.store().sessions_like(&format!("{PREFIX}{shown}"), 1)?.is_empty())
    }
}
