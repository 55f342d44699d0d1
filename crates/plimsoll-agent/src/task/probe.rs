//! Points at which tests kill the process of a task.

use std::sync::Arc;

/// Callback for every point.
pub(crate) type Probe = Arc<dyn Fn(TaskPoint) + Send + Sync>;

/// A point between two writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
#[non_exhaustive]
pub enum TaskPoint {
    /// Session, record and lease of a new task are stored.
    Created,
    /// A resume is recorded; its prompt is not in the session yet.
    Resumed,
    /// A run may begin.
    Claimed,
    /// A run has its slot and its session.
    Started,
    /// The last answer is complete; steering messages that arrived meanwhile were not checked yet.
    Answered,
    /// The last answer is complete; the end is not recorded.
    Finished,
    /// The end is recorded with its note.
    Ended,
    /// The parent's message about notes is stored; the notes are still in the inbox.
    NotesStored,
    /// The notes are removed from the inbox.
    NotesRemoved,
}
