//! Why a run did not come to its end.

use plimsoll::compact::accept::Rejection;
use plimsoll::compact::ladder::Burden;
use plimsoll_providers::{BuildError, ProviderError};
use plimsoll_session::SessionError;
use thiserror::Error;

/// Why a run did not come to its end. What was said and done until then is stored, and the session can go on.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The session could not be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The provider gave no answer.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// No request could be built from the window.
    #[error("cannot build the request: {0}")]
    Build(#[from] BuildError),
    /// No request can be made that fits the model's window.
    #[error("{0}")]
    CannotFit(Box<Burden>),
    /// The provider refused every request as too long, however much it was reduced.
    #[error("the provider refused {times} requests as too long, and no smaller one could be made: {last}")]
    Refused {
        /// How many.
        times: u32,
        /// What it said last.
        last: String,
    },
    /// The session had to be summarised, and no summary was taken. The history is unchanged.
    #[error("the session could not be summarised: {0}")]
    NotSummarised(Rejection),
    /// Something inside the process failed that cannot fail, such as a thread that panicked.
    #[error("{0}")]
    Internal(String),
}

impl AgentError {
    /// A short name for the kind of error, as scripts and logs want it.
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
