//! Errors of background tasks.

use plimsoll_session::SessionError;
use plimsoll_store::StoreError;
use thiserror::Error;

use super::status::TaskStatus;
use crate::error::{AgentError, AgentSetupError};

/// Reason why a roster has no agent of a name.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RosterError {
    /// No agent has this name.
    #[error("Agent \"{name}\" not found. Make sure the agent is registered. Available agents: {}.", available.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The names that exist.
        available: Vec<String>,
    },
    /// The agent cannot be set up.
    #[error(transparent)]
    Setup(Box<AgentSetupError>),
    /// The roster of an embedder failed.
    #[error("{0}")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<AgentSetupError> for RosterError {
    fn from(error: AgentSetupError) -> RosterError {
        match error {
            AgentSetupError::UnknownAgent { name, known } => RosterError::Unknown { name, available: known },
            other => RosterError::Setup(Box::new(other)),
        }
    }
}

impl From<String> for RosterError {
    fn from(problem: String) -> RosterError {
        RosterError::Other(problem.into())
    }
}

/// Reason why an operation on a task failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TaskError {
    /// No task has this ID.
    #[error("Task not found: {0}")]
    NotFound(String),
    /// Several IDs have this prefix.
    #[error("Task ID `{given}` is ambiguous. It could be: {}", .candidates.join(", "))]
    Ambiguous {
        /// The prefix.
        given: String,
        /// The matching tasks, with their descriptions.
        candidates: Vec<String>,
    },
    /// Only an active task can be cancelled.
    #[error("Cannot cancel task: current status is \"{status}\". Only running tasks can be cancelled.")]
    NotRunning {
        /// Current status.
        status: TaskStatus,
    },
    /// Only an active task can be steered.
    #[error("Cannot steer task: current status is \"{status}\". Only running tasks can be steered.")]
    NotSteerable {
        /// Current status.
        status: TaskStatus,
    },
    /// A resume is already queued.
    #[error("Task already has a pending resume queued. Wait for current execution to complete.")]
    ResumePending,
    /// The task's session was deleted.
    #[error("Session expired or was deleted. Start a new background_task to continue.")]
    SessionGone,
    /// The task's status changed concurrently.
    #[error("the task's status has changed to \"{status}\"")]
    Moved {
        /// Current status.
        status: TaskStatus,
    },
    /// The nesting limit is exceeded.
    #[error("background tasks can be nested {most} deep, and this task would be at depth {depth}")]
    TooDeep {
        /// Depth that the task would have.
        depth: u32,
        /// The limit.
        most: u32,
    },
    /// The cost limit cannot be enforced because the model's price is unknown.
    #[error(
        "the price of `{model}` is unknown, so the limit of {most} dollars cannot be enforced. Use another model, or \
         have its prices set under `[providers.NAME.models.ID]`"
    )]
    NoPrice {
        /// Model, as `provider/model`.
        model: String,
        /// The limit, in dollars.
        most: f64,
    },
    /// The agent of the task cannot be set up.
    #[error(transparent)]
    Agent(#[from] RosterError),
    /// The permissions of an agent above the task are unknown.
    #[error(
        "the agent `{agent}` above the task cannot be set up, so the task's permissions are unknown: {error}"
    )]
    Unbounded {
        /// Name of the agent.
        agent: String,
        /// The reason.
        #[source]
        error: RosterError,
    },
    /// The run that launches the task was cancelled.
    #[error("the launch was cancelled")]
    Cancelled,
    /// The task's session could not be created.
    #[error("Failed to create background session: {0}")]
    NoSession(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The record was written by another program.
    #[error("{0}")]
    Unreadable(String),
    /// The record is not valid JSON.
    #[error("the record of the task cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A session failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Internal error, such as a thread that panicked.
    #[error("{0}")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
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
            other => AgentError::Internal(Box::new(other)),
        }
    }
}
