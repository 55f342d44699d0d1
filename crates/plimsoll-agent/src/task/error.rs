//! Why something cannot be done with a task.

use plimsoll_session::SessionError;
use plimsoll_store::StoreError;
use thiserror::Error;

use super::status::TaskStatus;
use crate::error::AgentError;

/// Why something cannot be done with a task.
#[derive(Debug, Error)]
pub enum TaskError {
    /// There is no such task.
    #[error("Task not found: {0}")]
    NotFound(String),
    /// The beginning of an id is that of several.
    #[error("Task ID `{given}` is ambiguous. It could be: {}", .candidates.join(", "))]
    Ambiguous {
        /// What was given.
        given: String,
        /// Those that begin so, with their descriptions.
        candidates: Vec<String>,
    },
    /// Only an active task can be cancelled.
    #[error("Cannot cancel task: current status is \"{status}\". Only running tasks can be cancelled.")]
    NotRunning {
        /// Where it stands.
        status: TaskStatus,
    },
    /// Only an active task can be told something.
    #[error("Cannot steer task: current status is \"{status}\". Only running tasks can be steered.")]
    NotSteerable {
        /// Where it stands.
        status: TaskStatus,
    },
    /// One resume waits already.
    #[error("Task already has a pending resume queued. Wait for current execution to complete.")]
    ResumePending,
    /// Its session is gone.
    #[error("Session expired or was deleted. Start a new background_task to continue.")]
    SessionGone,
    /// It has moved on meanwhile.
    #[error("the task is \"{status}\" by now")]
    Moved {
        /// Where it stands.
        status: TaskStatus,
    },
    /// There are too many tasks above it.
    #[error("background tasks may be nested {most} deep, and this one would be at {depth}")]
    TooDeep {
        /// How deep it would be.
        depth: u32,
        /// How deep it may be.
        most: u32,
    },
    /// What it costs cannot be held against its limit.
    #[error(
        "the price of `{model}` is not known, so that the limit of {most} dollars cannot be held. Use another model, or \
         have its prices set under `[providers.NAME.models.ID]`"
    )]
    NoPrice {
        /// The model, as `provider/model`.
        model: String,
        /// The limit.
        most: f64,
    },
    /// Its agent cannot be set up.
    #[error("{0}")]
    Agent(String),
    /// What bounds it cannot be told.
    #[error(
        "the agent `{agent}` that stands above the task cannot be set up, so what the task may do is not known: {error}"
    )]
    Unbounded {
        /// The agent.
        agent: String,
        /// Why it cannot be set up.
        error: String,
    },
    /// The run that launches it was cancelled.
    #[error("the launch was cancelled")]
    Cancelled,
    /// Its session cannot be made.
    #[error("Failed to create background session: {0}")]
    NoSession(String),
    /// The record was written by something else.
    #[error("{0}")]
    Unreadable(String),
    /// The record cannot be read or written.
    #[error("the record of the task cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A session failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Something inside the process failed that cannot fail, such as a thread that panicked.
    #[error("{0}")]
    Internal(String),
}

impl From<TaskError> for SessionError {
    fn from(error: TaskError) -> SessionError {
        match error {
            TaskError::Session(error) => error,
            TaskError::Store(error) => error.into(),
            _ => SessionError::OutOfOrder("a background task could not be read"),
        }
    }
}

impl From<TaskError> for AgentError {
    fn from(error: TaskError) -> AgentError {
        match error {
            TaskError::Session(error) => AgentError::Session(error),
            TaskError::Store(error) => AgentError::Session(error.into()),
            other => AgentError::Internal(other.to_string()),
        }
    }
}
