//! IDs of new tasks.

use plimsoll::{Millis, SessionId};

use super::board::{Local, TaskBoard};
use crate::task::{PREFIX, SHORTEST, Task, TaskData, TaskError, bare, beginning};

/// Ids of so many milliseconds begin with the same [`SHORTEST`] digits.
const SHOWN_MILLIS: u64 = 16;
/// So many of these steps a new id may be ahead of the clock; then it is one that has to be shown longer.
const MOST_AHEAD: u64 = 500;

impl TaskBoard {
    /// Choose the id of a task that is about to be launched, with its place here. No other session has the beginning that is
    /// shown: ids begin with the time, and a model that launches two tasks in one answer is told the first one's id before
    /// the second has one; the first would be ambiguous when it asks for it. So the time in an id may be ahead of the clock
    /// by a little. Another process that launches within the same few milliseconds is not seen; then the error names both.
    pub(super) fn reserve(&self, parent: &SessionId, data: TaskData) -> Result<Task, TaskError> {
        let _claiming = self.claiming();
        let (now, mut ids) = (self.now(), plimsoll_store::random_ids());
        let mut id = ids.session(now);
        for ahead in 1..=MOST_AHEAD {
            if !self.is_shown_alike(&id)? {
                break;
            }
            id = ids.session(Millis(now.0 + ahead * SHOWN_MILLIS));
        }
        let task = Task::new(id, parent.clone(), data, &self.holder, now);
        self.local().insert(task.id.clone(), Local::reserved(&task));
        Ok(task)
    }

    /// Whether the beginning that is shown of an id is that of another session, or of a task that is being launched here.
    fn is_shown_alike(&self, id: &SessionId) -> Result<bool, TaskError> {
        let shown = beginning(bare(id.as_str()), SHORTEST);
        if self.local().keys().any(|other| bare(other.as_str()).starts_with(shown)) {
            return Ok(true);
        }
        Ok(!self.archive.store().sessions_like(&format!("{PREFIX}{shown}"), 1)?.is_empty())
    }
}
