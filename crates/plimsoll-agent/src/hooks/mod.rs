//! Hooks: callbacks that observe and change what an agent does.
//!
//! An embedder implements [`Hooks`]; a configuration names commands, each of which becomes a [`CommandHook`]. Replies
//! of hooks are untrusted: permissions are checked against a changed input, text for a summary is bounded and marked by
//! the engine, and a replaced output stays in the store. A failed hook is reported and otherwise ignored: permissions
//! protect the user, not hooks.
//!
//! A configured command runs in the sandbox of the agent's commands, with its own grants. Its code may have been
//! changed by a command of the agent. Comparing files before every start was tried and cannot be complete, because a
//! command line does not show what the program loads.

mod command;
mod own;

use std::future::Future;
use std::pin::Pin;

use plimsoll::compact::HookText;
use plimsoll::{PartId, SessionId};
use plimsoll_config::HookEvent;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::figures::{CallStatus, ReceiptFigures};

pub use command::CommandHook;
pub(crate) use own::hook_notices;

/// Future of a hook's reply.
pub type HookFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, HookError>> + Send + 'a>>;

/// Reason why a hook has no usable reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct HookError(pub String);

/// Call that is passed to a hook.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HookedCall {
    /// ID of the session.
    pub session: SessionId,
    /// Name of the agent.
    pub agent: String,
    /// ID of the call's part.
    pub part: PartId,
    /// Name of the tool.
    pub tool: String,
    /// Input of the tool.
    pub input: Value,
}

/// Result that is passed to a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HookedResult<'a> {
    /// Whether the call succeeded.
    pub status: CallStatus,
    /// Text for the model: the truncated output, or the error.
    pub output: &'a str,
}

/// Compaction that is passed to a hook.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionContext {
    /// ID of the session.
    pub session: SessionId,
    /// Name of the agent.
    pub agent: String,
    /// Reason for the compaction: `auto`, `early` (prepared while the turn continues) or `manual`.
    pub trigger: &'static str,
    /// Receipts, once something was reduced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<ReceiptFigures>,
}

/// Decision about a call before it is made.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BeforeTool {
    /// The call is made unchanged.
    Go,
    /// The call is made with another input, against which permissions are checked.
    Change(Value),
    /// The call is denied; the model receives the reason.
    Refuse(String),
}

/// Decision about a result before the model receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterTool {
    /// The result is unchanged.
    Keep,
    /// The text is appended.
    Append(String),
    /// The text replaces the result, and the original is stored. It is appended to an error instead.
    Replace(String),
}

/// Callbacks of a host. The default of every method changes nothing.
pub trait Hooks: Send + Sync {
    /// Returns a name for messages.
    fn name(&self) -> String {
        "hook".to_owned()
    }

    /// Returns whether the hook handles this event, for calls of this tool if the event is about one.
    fn is_for(&self, _event: HookEvent, _tool: Option<&str>) -> bool {
        true
    }

    /// Called before permissions are checked and the call is made.
    fn before_tool<'a>(&'a self, _call: &'a HookedCall) -> HookFuture<'a, BeforeTool> {
        Box::pin(async { Ok(BeforeTool::Go) })
    }

    /// Called after a call.
    fn after_tool<'a>(
        &'a self,
        _call: &'a HookedCall,
        _result: HookedResult<'a>,
    ) -> HookFuture<'a, AfterTool> {
        Box::pin(async { Ok(AfterTool::Keep) })
    }

    /// Called before a summary is requested. The returned text is added to the instruction or replaces it.
    fn compacting<'a>(&'a self, _compaction: &'a CompactionContext) -> HookFuture<'a, HookText> {
        Box::pin(async { Ok(HookText::default()) })
    }

    /// Called after a compaction during a turn. Returns whether the turn continues.
    fn autocontinue<'a>(&'a self, _compaction: &'a CompactionContext) -> HookFuture<'a, bool> {
        Box::pin(async { Ok(true) })
    }

    /// Called after a compaction.
    fn compacted<'a>(&'a self, _compaction: &'a CompactionContext) -> HookFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}
