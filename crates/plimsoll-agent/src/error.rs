//! Errors of a run and of the set-up of an agent.

use plimsoll::compact::{OverflowBreakdown, Rejection};
use plimsoll_config::SetupError;
use plimsoll_providers::{BuildError, ProviderError};
use plimsoll_session::SessionError;
use thiserror::Error;

/// Error of a run. Everything up to then is stored, and the session can be continued.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The session could not be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The provider did not answer.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// No request could be built from the window.
    #[error("cannot build the request: {0}")]
    Build(#[from] BuildError),
    /// The window cannot be reduced enough to fit the model.
    #[error("{0}")]
    CannotFit(Box<OverflowBreakdown>),
    /// The provider rejected every request as too long.
    #[error(
        "the provider rejected {times} requests as too long, and the window could not be reduced further: {last}"
    )]
    Refused {
        /// Number of rejected requests.
        times: u32,
        /// The last error.
        last: String,
    },
    /// A summary was required, and none was accepted. The history is unchanged.
    #[error("the session could not be summarised: {0}")]
    NotSummarised(Rejection),
    /// Internal error, such as a thread that panicked.
    #[error("{0}")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl AgentError {
    /// Returns a short name of the error, for scripts and logs.
    pub fn name(&self) -> &'static str {
        match self {
            AgentError::Session(_) => "SessionError",
            AgentError::Provider(error) => error.name(),
            AgentError::Build(_) => "RequestError",
            AgentError::CannotFit(_) => "CannotFit",
            AgentError::Refused { .. } => "ContextOverflowError",
            AgentError::NotSummarised(_) => "SummaryError",
            AgentError::Internal(_) => "InternalError",
        }
    }
}

/// Reason why an agent cannot be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AgentSetupError {
    /// There is no usable model.
    #[error(transparent)]
    Model(#[from] SetupError),
    /// The model's client cannot be created.
    #[error(transparent)]
    Client(#[from] ProviderError),
    /// No agent has this name.
    #[error("unknown agent `{name}` (available: {})", known.join(", "))]
    UnknownAgent {
        /// The name.
        name: String,
        /// Available agents.
        known: Vec<String>,
    },
    /// Commands must be confined, and this system cannot confine them.
    #[error("{0}")]
    NotConfined(String),
    /// A setting of the agent refers to a variable or a file that does not exist.
    #[error(transparent)]
    BadReference(SetupError),
}

impl AgentSetupError {
    pub(crate) fn bad_reference(problem: &str) -> AgentSetupError {
        AgentSetupError::BadReference(SetupError::BadReference { problem: problem.to_owned() })
    }
}
