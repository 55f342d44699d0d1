//! Tools that a model may call: the trait, a call, and a set of tools.
//!
//! A tool blocks and prints into a writer that truncates and spills meanwhile, so an output of any size needs little
//! memory. The loop runs it on its own thread.

use std::io::{self, Write as Output};
use std::path::Path;
use std::sync::Arc;

use plimsoll::{PartId, SessionId};
use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, Action, Confinement, Subject};
use serde_json::Value;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::Agent;
use crate::ask::Preview;
use crate::event::EventSink;
use crate::ledger::FileLedger;

/// A tool that a model can call.
pub trait Tool: Send + Sync {
    /// Returns the declaration for the model.
    fn spec(&self) -> &ToolSpec;

    /// Returns what the tool can affect.
    fn access(&self) -> Access;

    /// Returns the subject of a call, which permissions are checked against.
    fn subject(&self, input: &Value, directory: &Path) -> Result<Subject, ToolError>;

    /// Returns details of a call for the user who is asked about it; `None` if its subject is enough.
    fn preview(&self, _input: &Value, _subject: &Subject, _directory: &Path) -> Option<Preview> {
        None
    }

    /// Returns an error if the call would fail anyway, so that the user is not asked. Only called for files that may be
    /// read.
    fn precheck(
        &self,
        _input: &Value,
        _subject: &Subject,
        _directory: &Path,
        _files: &FileLedger,
    ) -> Result<(), ToolError> {
        Ok(())
    }

    /// Returns the setting that such a call needs besides permission, as a line of `plimsoll.toml`.
    fn also_needs(&self, _subject: &Subject) -> Option<String> {
        None
    }

    /// Returns how the system confines its calls, if it does.
    fn confinement(&self) -> Option<&Confinement> {
        None
    }

    /// Returns the MCP server that provides the tool, if any.
    fn server(&self) -> Option<&str> {
        None
    }

    /// Restores access that a call of an earlier process gave to the model and that is still in the window.
    fn reopen(&self, _input: &Value, _files: &FileLedger) {}

    /// Returns whether its calls may run concurrently with others.
    fn is_parallel(&self) -> bool {
        self.access() != Access::Act
    }

    /// Runs a call and writes its output to `out`.
    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Output) -> Result<(), ToolError>;
}

/// A call that is being made.
#[non_exhaustive]
pub struct ToolCall<'a> {
    /// The agent whose model made the call.
    pub agent: &'a Agent,
    /// ID of the session.
    pub session: &'a SessionId,
    /// ID of the call's part.
    pub part: &'a PartId,
    /// Input from the model.
    pub input: &'a Value,
    /// Subject of the call, against which permissions were checked. A tool opens exactly this path and never resolves
    /// one again, so that a link created after the check has no effect.
    pub subject: &'a Subject,
    /// File contents that the model has seen.
    pub files: &'a FileLedger,
    /// The project's directory, with links resolved.
    pub directory: &'a Path,
    /// Recorder of the call, with a handle of its session.
    pub record: &'a plimsoll_session::ToolCall,
    /// Runtime for asynchronous work.
    pub runtime: &'a Handle,
    /// Receives events of the call.
    pub events: &'a EventSink,
    /// Set when the run is cancelled or dropped. The tool should then end soon.
    pub cancel: &'a CancellationToken,
    /// Returns whether a file found during the call may be read. For tools that walk directories.
    pub may_read: &'a (dyn Fn(&Path) -> bool + Sync),
    /// Returns the rules' decision about another address. For tools that follow redirects.
    pub judge_address: &'a (dyn Fn(&str) -> Action + Sync),
}

impl ToolCall<'_> {
    /// Returns the path of the call's subject, with links resolved.
    pub(crate) fn path(&self) -> Result<&Path, ToolError> {
        match self.subject {
            Subject::Path { real, .. } => Ok(real),
            _ => Err(ToolError::Failed("the call names no path".into())),
        }
    }
}

impl ToolCall<'_> {
    /// Records that the model has seen a file. The record is stored with the call, so other processes know it too.
    pub(crate) fn note_seen(&self, path: &Path, hash: blake3::Hash) -> Result<(), ToolError> {
        self.files.note(path, *hash.as_bytes());
        let Some(name) = path.to_str() else { return Ok(()) };
        let hash = hash.to_hex();
        let noted = self.record.note_seen(name, hash.as_str());
        self.runtime.block_on(noted).map_err(|error| ToolError::Failed(error.to_string()))
    }
}

/// Error of a tool, worded for the model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The input is invalid.
    #[error("{0}")]
    Input(String),
    /// The call failed.
    #[error("{0}")]
    Failed(String),
    /// The tool itself denied the call.
    #[error("{why}")]
    Denied {
        /// Reason for the model.
        why: String,
        /// Line of `plimsoll.toml` that would allow it.
        setting: String,
    },
    /// The run was cancelled.
    #[error("Interrupted: the run was cancelled while this call was being made.")]
    Cancelled,
    /// The output could not be stored.
    #[error("the output could not be stored: {0}")]
    Output(#[from] io::Error),
}

/// Tools of an agent, in the order of their declaration.
#[derive(Clone, Default)]
pub struct ToolSet(Vec<Arc<dyn Tool>>);

impl ToolSet {
    /// Creates an empty set.
    pub fn new() -> ToolSet {
        ToolSet::default()
    }

    /// Adds a tool. One with the same name is replaced.
    pub fn with(self, tool: impl Tool + 'static) -> ToolSet {
        self.with_shared(Arc::new(tool))
    }

    /// Like [`with`](ToolSet::with), for a shared tool.
    pub fn with_shared(mut self, tool: Arc<dyn Tool>) -> ToolSet {
        self.0.retain(|known| known.spec().name != tool.spec().name);
        self.0.push(tool);
        self
    }

    /// Adds tools. Those with the same names are replaced.
    pub(crate) fn with_all(mut self, tools: Vec<Arc<dyn Tool>>) -> ToolSet {
        self.0.retain(|known| tools.iter().all(|tool| known.spec().name != tool.spec().name));
        self.0.extend(tools);
        self
    }

    /// Applies a function to each tool.
    pub(crate) fn map(self, change: impl Fn(Arc<dyn Tool>) -> Arc<dyn Tool>) -> ToolSet {
        ToolSet(self.0.into_iter().map(change).collect())
    }

    /// Removes the tools of MCP servers, which each conversation starts for itself.
    pub(crate) fn without_servers(mut self) -> ToolSet {
        self.0.retain(|tool| tool.server().is_none());
        self
    }

    /// Removes the tools whose names `keep` rejects.
    pub fn filter(mut self, keep: impl Fn(&str) -> bool) -> ToolSet {
        self.0.retain(|tool| keep(&tool.spec().name));
        self
    }

    /// Returns the tool with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.iter().find(|tool| tool.spec().name == name)
    }

    /// Restores access that the calls of a log gave to the model.
    pub(crate) fn reopen(&self, log: &[plimsoll::Message], files: &FileLedger) {
        let calls = log.iter().flat_map(|message| &message.parts).filter_map(|part| part.as_tool());
        for call in calls.filter(|call| call.state.status == plimsoll::ToolStatus::Completed) {
            if let (Some(tool), Some(input)) = (self.get(&call.tool), &call.state.input) {
                tool.reopen(input.value(), files);
            }
        }
    }

    /// Returns the declarations.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.0.iter().map(|tool| tool.spec().clone()).collect()
    }

    /// Returns the names.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|tool| tool.spec().name.as_str()).collect()
    }
}

/// Returns a required text field of the input.
pub(crate) fn text<'v>(input: &'v Value, field: &str) -> Result<&'v str, ToolError> {
    match input.get(field) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
        Some(Value::String(_)) | Some(Value::Null) | None => {
            Err(ToolError::Input(format!("`{field}` is missing: it must be a string")))
        }
        Some(other) => Err(ToolError::Input(format!("`{field}` must be a string, not {other}"))),
    }
}

/// Returns an optional text field.
pub(crate) fn optional_text<'v>(input: &'v Value, field: &str) -> Result<Option<&'v str>, ToolError> {
    match input.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(_) => text(input, field).map(Some),
    }
}

/// Returns an optional number. Models sometimes write numbers in quotes.
pub(crate) fn number(input: &Value, field: &str) -> Result<Option<u64>, ToolError> {
    let bad = |found: &Value| ToolError::Input(format!("`{field}` must be an integer, not {found}"));
    match input.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(found @ Value::String(text)) => text.trim().parse().map(Some).map_err(|_| bad(found)),
        Some(found) => found.as_u64().map(Some).ok_or_else(|| bad(found)),
    }
}
