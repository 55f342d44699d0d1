//! Points in a task's life at which a process may die, for tests that let it.

use std::sync::Arc;

/// Called at every point.
pub(crate) type Probe = Arc<dyn Fn(TaskPoint) + Send + Sync>;

/// A point between two writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub enum TaskPoint {
    /// Session, record and lease of a new task are stored.
    Born,
    /// A resume is recorded, and its prompt is not in the session yet.
    Resumed,
    /// A run may begin.
    Claimed,
    /// A run has got its slot and its session.
    Started,
    /// The model has said its last word, and it was not looked yet whether something was said to it meanwhile.
    Spoken,
    /// The model has said its last word, and the end is not recorded.
    Worked,
    /// The end is recorded with its note.
    Ended,
    /// The parent's message that tells notes is stored, and they are not taken yet.
    Told,
    /// The notes are taken.
    Taken,
}
