//! Points in a task's life at which tests kill the process.

use std::sync::Arc;

/// Callback for every point.
pub(crate) type Probe = Arc<dyn Fn(TaskPoint) + Send + Sync>;

/// A point between two writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
#[non_exhaustive]
pub enum TaskPoint {
    /// Session, record and lease of a new task are stored.
    Born,
    /// A resume is recorded; its prompt is not in the session yet.
    Resumed,
    /// A run may begin.
    Claimed,
    /// A run has its slot and its session.
    Started,
    /// The last answer is complete; steering messages that arrived meanwhile were not checked yet.
    Spoken,
    /// The last answer is complete; the end is not recorded.
    Worked,
    /// The end is recorded with its note.
    Ended,
    /// The parent's message about notes is stored; the notes are still in the inbox.
    Told,
    /// The notes are removed from the inbox.
    Taken,
}
