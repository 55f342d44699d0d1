//! Asks the user whether a call may be made.

use std::future::Future;
use std::pin::Pin;

use plimsoll::{PartId, SessionId};
use plimsoll_config::PermissionRule;
use tokio_util::sync::CancellationToken;

/// Asks the user whether a call may be made. Interactive hosts provide one.
pub trait Asker: Send + Sync {
    /// Asks a question. If the run is cancelled meanwhile, the answer is ignored.
    fn ask<'a>(
        &'a self,
        question: &'a PermissionQuestion,
        cancel: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send + 'a>>;
}

/// A question to the user.
#[derive(Clone, Debug)]
pub struct PermissionQuestion {
    /// ID of the session.
    pub session: SessionId,
    /// Name of the agent.
    pub agent: String,
    /// ID of the call's part.
    pub part: PartId,
    /// Name of the tool.
    pub tool: String,
    /// The exact command, path, address or input. It comes from a model, so control characters in it must be escaped.
    pub what: String,
    /// Details, such as the change of a file. They are complete, however long.
    pub preview: Option<Preview>,
    /// Reason for the question.
    pub why: &'static str,
    /// Rule that [`Always`](PermissionAnswer::Always) would add.
    pub always: PermissionRule,
}

/// Details of a call for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preview {
    /// A change of a file, as a unified diff.
    Change(String),
    /// Content of a new file. Its lines may begin like those of a diff.
    Content(String),
}

/// Answer of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// The call is permitted.
    Once,
    /// The call and all others that match the question's rule are permitted while the conversation is open.
    Always,
    /// The call is denied.
    No {
        /// Message for the model.
        words: Option<String>,
    },
}
