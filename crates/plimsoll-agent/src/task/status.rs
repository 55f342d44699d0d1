//! Where a task stands, and where it may go from there.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// It waits for a slot.
    Queued,
    /// It works on its prompt.
    Running,
    /// It has come to its end.
    Completed,
    /// It failed, or a limit ended it.
    Error,
    /// It was cancelled.
    Cancelled,
    /// The process that ran it has gone.
    Interrupted,
    /// It was taken up again, and waits for a slot or works.
    Resumed,
}

use TaskStatus::{Cancelled, Completed, Error, Interrupted, Queued, Resumed, Running};

/// Every move there is.
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
    /// All of them.
    pub const ALL: [TaskStatus; 7] = [Queued, Running, Completed, Error, Cancelled, Interrupted, Resumed];

    /// Whether a task may go from here to there.
    pub fn may_become(self, next: TaskStatus) -> bool {
        MOVES.iter().any(|(from, to)| *from == self && to.contains(&next))
    }

    /// Whether something still happens by itself. A task that was resumed is as active as one that runs.
    pub fn is_active(self) -> bool {
        matches!(self, Queued | Running | Resumed)
    }

    /// Whether it is listed where tasks of the status of this name are asked for: a task that was resumed runs.
    pub fn is_listed_as(self, name: &str) -> bool {
        self.name() == name || (self == Resumed && name == Running.name())
    }

    /// Its name.
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

    /// The sign people and models know it by.
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
