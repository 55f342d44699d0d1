//! Hooks: a say in what an agent does, for those who run it.
//!
//! An embedder implements [`Hooks`]; a configuration names commands, each of which is a [`CommandHook`]. What hooks say is
//! untrusted where it matters: a changed input is held against the permissions like any other, text for a summary is
//! bounded and set apart by the engine, and an output that is replaced stays reachable. A hook that fails is told of, and
//! everything goes on as if it were not there: hooks are a help, and permissions are the guard.
//!
//! A command of the configuration runs in the sandbox of the agent's commands, with the grants that stand beside it. What it runs
//! may have been changed by an agent's command: comparing files before every start was tried and cannot be complete, because
//! what a command loads is not in its words.

mod command;
mod own;

use std::future::Future;
use std::pin::Pin;

use plimsoll::compact::request::HookText;
use plimsoll::{PartId, SessionId};
use plimsoll_config::HookEvent;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::figures::{CallStatus, ReceiptFigures};

pub use command::CommandHook;
pub(crate) use own::hook_notices;

/// What a hook says, when it has.
pub type HookFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, HookError>> + Send + 'a>>;

/// Why a hook has nothing to say that can be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct HookError(pub String);

/// A call that a hook is told of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookedCall {
    /// The session.
    pub session: SessionId,
    /// The agent.
    pub agent: String,
    /// The call's part.
    pub part: PartId,
    /// The tool.
    pub tool: String,
    /// What the tool is given.
    pub input: Value,
}

/// What a call gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookedResult<'a> {
    /// Whether it worked.
    pub status: CallStatus,
    /// What the model would see: the output after layer 1, or the error.
    pub output: &'a str,
}

/// A compaction that a hook is told of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionContext {
    /// The session.
    pub session: SessionId,
    /// The agent.
    pub agent: String,
    /// Why there is one: `auto`, `early` (prepared beside the turn) or `manual`.
    pub trigger: &'static str,
    /// What was reduced, once it was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<ReceiptFigures>,
}

/// What becomes of a call before it is made.
#[derive(Clone, Debug, PartialEq)]
pub enum BeforeTool {
    /// It goes on as it is.
    Go,
    /// It goes on with another input, which is held against the permissions.
    Change(Value),
    /// It is not made; the model is told why.
    Refuse(String),
}

/// What becomes of a result before the model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterTool {
    /// It stays as it is.
    Keep,
    /// This is shown after it.
    Append(String),
    /// This is shown in its place, and the original is kept beside the window. Of an error it is shown after it.
    Replace(String),
}

/// A say in what an agent does. Every method has a default that says nothing.
pub trait Hooks: Send + Sync {
    /// A name for people.
    fn name(&self) -> String {
        "hook".to_owned()
    }

    /// Whether it has something to say at this moment, for a call of this tool if it is about one.
    fn is_for(&self, _event: HookEvent, _tool: Option<&str>) -> bool {
        true
    }

    /// A call is about to be judged and made.
    fn before_tool<'a>(&'a self, _call: &'a HookedCall) -> HookFuture<'a, BeforeTool> {
        Box::pin(async { Ok(BeforeTool::Go) })
    }

    /// A call was made.
    fn after_tool<'a>(
        &'a self,
        _call: &'a HookedCall,
        _result: HookedResult<'a>,
    ) -> HookFuture<'a, AfterTool> {
        Box::pin(async { Ok(AfterTool::Keep) })
    }

    /// A summary is about to be asked for: what is added to the instruction, or replaces it.
    fn compacting<'a>(&'a self, _compaction: &'a CompactionContext) -> HookFuture<'a, HookText> {
        Box::pin(async { Ok(HookText::default()) })
    }

    /// There was a compaction in the middle of a turn: whether the turn goes on.
    fn autocontinue<'a>(&'a self, _compaction: &'a CompactionContext) -> HookFuture<'a, bool> {
        Box::pin(async { Ok(true) })
    }

    /// There was a compaction.
    fn compacted<'a>(&'a self, _compaction: &'a CompactionContext) -> HookFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}
