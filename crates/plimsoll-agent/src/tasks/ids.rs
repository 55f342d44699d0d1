//! Ids of tasks as people and models see and write them.

use plimsoll::{Millis, SessionId};

use super::board::{Local, TaskBoard};
use super::error::TaskError;
use super::task::{Task, TaskData};

/// So much of an id is shown at least.
const SHORTEST: usize = 8;
const PREFIX: &str = "ses_";
/// Ids of so many milliseconds begin with the same [`SHORTEST`] digits.
const SHOWN_MILLIS: u64 = 16;
/// So many of these steps a new id may be ahead of the clock; then it is one that has to be shown longer.
const MOST_AHEAD: u64 = 500;
/// So many candidates are named where an id is ambiguous.
const MOST_CANDIDATES: usize = 10;

/// An id without its prefix.
fn bare(id: &str) -> &str {
    id.strip_prefix(PREFIX).unwrap_or(id)
}

/// The beginning of `length` chars.
fn beginning(id: &str, length: usize) -> &str {
    id.char_indices().nth(length).map_or(id, |(end, _)| &id[..end])
}

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

/// An id as it is shown: without its prefix, as short as the siblings allow.
pub fn short_id<'a>(id: &SessionId, siblings: impl IntoIterator<Item = &'a SessionId>) -> String {
    let own = bare(id.as_str());
    let others: Vec<&str> =
        siblings.into_iter().filter(|other| *other != id).map(|other| bare(other.as_str())).collect();
    let total = own.chars().count();
    let is_unique = |length: &usize| {
        let beginning = beginning(own, *length);
        !others.iter().any(|other| other.starts_with(beginning))
    };
    let length = (SHORTEST..total).find(is_unique).unwrap_or(total);
    beginning(own, length).to_owned()
}

/// The task that a text names: a whole id or the beginning of one, with or without `ses_`.
pub fn find_task<'a>(tasks: &'a [Task], given: &str) -> Result<&'a Task, TaskError> {
    let wanted = bare(given.trim());
    let mut found = tasks.iter().filter(|task| bare(task.id.as_str()).starts_with(wanted));
    let (first, is_several) = match (found.next(), found.next()) {
        _ if wanted.is_empty() => (None, false),
        (first, second) => (first, second.is_some()),
    };
    if let Some(exact) = tasks.iter().find(|task| bare(task.id.as_str()) == wanted) {
        return Ok(exact);
    }
    if is_several {
        let fitting = tasks.iter().filter(|task| bare(task.id.as_str()).starts_with(wanted));
        let name = |task: &Task| {
            let short = short_id(&task.id, tasks.iter().map(|task| &task.id));
            format!("`{short}` ({})", task.data.description)
        };
        let candidates = fitting.take(MOST_CANDIDATES).map(name).collect();
        return Err(TaskError::Ambiguous { given: given.to_owned(), candidates });
    }
    first.ok_or_else(|| TaskError::NotFound(given.to_owned()))
}
