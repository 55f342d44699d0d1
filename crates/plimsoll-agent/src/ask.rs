//! Asking a person whether a call may be made.

use std::future::Future;
use std::pin::Pin;

use plimsoll::{PartId, SessionId};
use plimsoll_config::PermissionRule;
use tokio_util::sync::CancellationToken;

/// Asks a person whether a call may be made. A host that has a person at hand gives the agent one.
pub trait Asker: Send + Sync {
    /// Ask. Where the run is cancelled meanwhile the answer does not matter any more.
    fn ask<'a>(
        &'a self,
        question: &'a PermissionQuestion,
        cancel: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send + 'a>>;
}

/// What a person is asked.
#[derive(Clone, Debug)]
pub struct PermissionQuestion {
    /// The session that asks.
    pub session: SessionId,
    /// The agent that makes the call.
    pub agent: String,
    /// The call's part.
    pub part: PartId,
    /// The tool.
    pub tool: String,
    /// Exactly what would be run, opened, fetched or given to the tool. It comes from a model: control characters in it are not harmless.
    pub what: String,
    /// What would be done in detail, such as the change of a file; all of it, however long.
    pub preview: Option<Preview>,
    /// Why it is asked.
    pub why: &'static str,
    /// What [`Always`](PermissionAnswer::Always) would allow from now on.
    pub always: PermissionRule,
}

/// What a call would do in detail, for a person who is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preview {
    /// A file would be changed: a unified diff.
    Change(String),
    /// A file would be made: its content. Lines of it may begin as those of a diff do.
    Content(String),
}

/// What a person has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// This call may be made.
    Once,
    /// This call and all that fit the question's rule may be made, as long as the conversation is open.
    Always,
    /// It may not.
    No {
        /// What the model is told besides.
        words: Option<String>,
    },
}
