//! Short IDs of tasks.

use plimsoll::SessionId;

use super::error::TaskError;
use super::record::Task;

/// Minimum length of a short ID.
pub(crate) const SHORTEST: usize = 8;
pub(crate) const PREFIX: &str = "ses_";
/// Maximum number of candidates listed for an ambiguous ID.
const MAX_CANDIDATES: usize = 10;

/// Returns an ID without its prefix.
pub(crate) fn bare(id: &str) -> &str {
    id.strip_prefix(PREFIX).unwrap_or(id)
}

/// Returns the first `length` chars.
pub(crate) fn beginning(id: &str, length: usize) -> &str {
    id.char_indices().nth(length).map_or(id, |(end, _)| &id[..end])
}

/// Returns an ID without its prefix, as short as the siblings allow.
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

/// Finds a task by its ID or a prefix of it, with or without `ses_`.
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
        let candidates = fitting.take(MAX_CANDIDATES).map(name).collect();
        return Err(TaskError::Ambiguous { given: given.to_owned(), candidates });
    }
    first.ok_or_else(|| TaskError::NotFound(given.to_owned()))
}
