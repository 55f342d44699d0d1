//! Status of a task and its transitions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TaskStatus {
    /// Waiting for a slot.
    Queued,
    /// Working on its prompt.
    Running,
    /// Finished.
    Completed,
    /// Failed, or ended by a limit.
    Error,
    /// Cancelled.
    Cancelled,
    /// The process that ran it exited.
    Interrupted,
    /// Resumed: waiting for a slot or working.
    Resumed,
}

use TaskStatus::{Cancelled, Completed, Error, Interrupted, Queued, Resumed, Running};

/// All valid transitions.
const MOVES: [(TaskStatus, &[TaskStatus]); 7] = [
    (Queued, &[Running, Error, Cancelled, Interrupted]),
    (Running, &[Completed, Error, Cancelled, Interrupted]),
    (Resumed, &[Completed, Error, Cancelled, Interrupted]),
    (Completed, &[Resumed]),
    (Error, &[Resumed]),
    (Cancelled, &[Resumed]),
    (Interrupted, &[Resumed]),
];

impl TaskStatus {
    /// All statuses.
    pub const ALL: [TaskStatus; 7] = [Queued, Running, Completed, Error, Cancelled, Interrupted, Resumed];

    /// Returns whether a transition is valid.
    pub fn may_become(self, next: TaskStatus) -> bool {
        MOVES.iter().any(|(from, to)| *from == self && to.contains(&next))
    }

    /// Returns whether the task is waiting or working. A resumed task is as active as a running one.
    pub fn is_active(self) -> bool {
        matches!(self, Queued | Running | Resumed)
    }

    /// Returns whether the task is listed under the status with this name: a resumed task counts as running.
    pub fn is_listed_as(self, name: &str) -> bool {
        self.name() == name || (self == Resumed && name == Running.name())
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Queued => "queued",
            Running => "running",
            Completed => "completed",
            Error => "error",
            Cancelled => "cancelled",
            Interrupted => "interrupted",
            Resumed => "resumed",
        }
    }

    /// Returns the symbol shown to users and models.
    pub fn icon(self) -> &'static str {
        match self {
            Queued => "○",
            Running => "⏳",
            Completed => "✓",
            Error => "✗",
            Cancelled => "⊘",
            Interrupted => "⏸",
            Resumed => "↻",
        }
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TaskStatus {
    type Err = ();

    fn from_str(name: &str) -> Result<TaskStatus, ()> {
        TaskStatus::ALL.into_iter().find(|status| status.name() == name).ok_or(())
    }
}
