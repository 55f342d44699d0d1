//! Tools that a model may call: the trait, a call, and a set of them.
//!
//! A tool blocks, and prints into a writer that cuts and spills while it prints (layer 1), so that an output of any size
//! needs little memory. The loop runs it on a thread of its own.

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

/// Something that a model can call.
pub trait Tool: Send + Sync {
    /// How it is declared to the model.
    fn spec(&self) -> &ToolSpec;

    /// What it does to the world.
    fn access(&self) -> Access;

    /// What a call with this input is about, as permissions are held against it.
    fn subject(&self, input: &Value, directory: &Path) -> Result<Subject, ToolError>;

    /// What a call would do, in detail, for a person who is asked, if that is more than what it is about.
    fn preview(&self, _input: &Value, _subject: &Subject, _directory: &Path) -> Option<Preview> {
        None
    }

    /// Why a call would fail as things are, so that no person is asked about it. Only told of files that may be read.
    fn foresee(
        &self,
        _input: &Value,
        _subject: &Subject,
        _directory: &Path,
        _files: &FileLedger,
    ) -> Result<(), ToolError> {
        Ok(())
    }

    /// The setting that such a call needs besides being allowed, as a line of `plimsoll.toml`.
    fn also_needs(&self, _subject: &Subject) -> Option<String> {
        None
    }

    /// What the calls of it are held to by the system, where it confines them.
    fn confinement(&self) -> Option<&Confinement> {
        None
    }

    /// The MCP server that it belongs to, if it belongs to one.
    fn server(&self) -> Option<&str> {
        None
    }

    /// A call of an earlier process is still in the window: what it opened to the model is open again.
    fn reopen(&self, _input: &Value, _files: &FileLedger) {}

    /// Whether calls of it may run beside others.
    fn is_parallel(&self) -> bool {
        self.access() != Access::Act
    }

    /// Run one call, and write its output to `out`.
    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Output) -> Result<(), ToolError>;
}

/// A call that is being made.
pub struct ToolCall<'a> {
    /// The agent whose model has made the call.
    pub agent: &'a Agent,
    /// Its session.
    pub session: &'a SessionId,
    /// The call's part.
    pub part: &'a PartId,
    /// What the model gave.
    pub input: &'a Value,
    /// What the call is about, as it was held against the permissions. A tool opens this and resolves no path again, so that
    /// a link made after the check leads nowhere else.
    pub subject: &'a Subject,
    /// What the model knows of files.
    pub files: &'a FileLedger,
    /// The project's directory, with links resolved.
    pub directory: &'a Path,
    /// Recorder of the call, with a handle of its session.
    pub record: &'a plimsoll_session::ToolCall,
    /// For tools that have to wait for something asynchronous.
    pub runtime: &'a Handle,
    /// Receives events of the call.
    pub events: &'a EventSink,
    /// Set when the run is cancelled or given up; a tool ends soon after.
    pub cancel: &'a CancellationToken,
    /// Whether a file that is met on the way may be read: a tool that walks a directory asks for each.
    pub may_read: &'a (dyn Fn(&Path) -> bool + Sync),
    /// What the rules say of another address that is met on the way: a tool that is redirected asks for each.
    pub judge_address: &'a (dyn Fn(&str) -> Action + Sync),
}

impl ToolCall<'_> {
    /// The path that the call is about, with links resolved.
    pub(crate) fn path(&self) -> Result<&Path, ToolError> {
        match self.subject {
            Subject::Path { real, .. } => Ok(real),
            _ => Err(ToolError::Failed("the call names no path".into())),
        }
    }
}

impl ToolCall<'_> {
    /// The model has been shown a file. It is recorded with the call, so that another process knows it too.
    pub(crate) fn note_seen(&self, path: &Path, hash: blake3::Hash) -> Result<(), ToolError> {
        self.files.note(path, *hash.as_bytes());
        let Some(name) = path.to_str() else { return Ok(()) };
        let hash = hash.to_hex();
        let noted = self.record.note_seen(name, hash.as_str());
        self.runtime.block_on(noted).map_err(|error| ToolError::Failed(error.to_string()))
    }
}

/// Why a tool has no answer, in words that let the model do better.
#[derive(Debug, Error)]
pub enum ToolError {
    /// What the model gave makes no sense.
    #[error("{0}")]
    Input(String),
    /// It did not work.
    #[error("{0}")]
    Failed(String),
    /// The tool itself does not allow it.
    #[error("{why}")]
    Denied {
        /// Why, for the model.
        why: String,
        /// The line of `plimsoll.toml` that would allow it.
        setting: String,
    },
    /// The run was cancelled.
    #[error("Interrupted: the run was cancelled while this call was being made.")]
    Cancelled,
    /// The output could not be taken.
    #[error("the output could not be kept: {0}")]
    Output(#[from] io::Error),
}

/// The tools of an agent, in the order in which they are declared.
#[derive(Clone, Default)]
pub struct ToolSet(Vec<Arc<dyn Tool>>);

impl ToolSet {
    /// No tools.
    pub fn new() -> ToolSet {
        ToolSet::default()
    }

    /// These and one more. One of the same name is replaced.
    pub fn with(self, tool: impl Tool + 'static) -> ToolSet {
        self.with_shared(Arc::new(tool))
    }

    /// Like [`with`](ToolSet::with), for a tool that is shared.
    pub fn with_shared(mut self, tool: Arc<dyn Tool>) -> ToolSet {
        self.0.retain(|known| known.spec().name != tool.spec().name);
        self.0.push(tool);
        self
    }

    /// These and more. One of the same name is replaced.
    pub(crate) fn with_all(mut self, tools: Vec<Arc<dyn Tool>>) -> ToolSet {
        self.0.retain(|known| tools.iter().all(|tool| known.spec().name != tool.spec().name));
        self.0.extend(tools);
        self
    }

    /// Each of them, or another in its place.
    pub(crate) fn map(self, change: impl Fn(Arc<dyn Tool>) -> Arc<dyn Tool>) -> ToolSet {
        ToolSet(self.0.into_iter().map(change).collect())
    }

    /// Without those of MCP servers, which each conversation starts for itself.
    pub(crate) fn without_servers(mut self) -> ToolSet {
        self.0.retain(|tool| tool.server().is_none());
        self
    }

    /// Only those that `keep` wants.
    pub fn filter(mut self, keep: impl Fn(&str) -> bool) -> ToolSet {
        self.0.retain(|tool| keep(&tool.spec().name));
        self
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.iter().find(|tool| tool.spec().name == name)
    }

    /// What the calls of a log have opened to the model is open again.
    pub(crate) fn reopen(&self, log: &[plimsoll::Message], files: &FileLedger) {
        let calls = log.iter().flat_map(|message| &message.parts).filter_map(|part| part.as_tool());
        for call in calls.filter(|call| call.state.status == plimsoll::ToolStatus::Completed) {
            if let (Some(tool), Some(input)) = (self.get(&call.tool), &call.state.input) {
                tool.reopen(input.value(), files);
            }
        }
    }

    /// How they are declared.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.0.iter().map(|tool| tool.spec().clone()).collect()
    }

    /// Their names.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|tool| tool.spec().name.as_str()).collect()
    }
}

/// A field of the input that must be a text.
pub(crate) fn text<'v>(input: &'v Value, field: &str) -> Result<&'v str, ToolError> {
    match input.get(field) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
        Some(Value::String(_)) | Some(Value::Null) | None => {
            Err(ToolError::Input(format!("`{field}` is missing: it must be a text")))
        }
        Some(other) => Err(ToolError::Input(format!("`{field}` must be a text, not {other}"))),
    }
}

/// A field that may be left out.
pub(crate) fn optional_text<'v>(input: &'v Value, field: &str) -> Result<Option<&'v str>, ToolError> {
    match input.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(_) => text(input, field).map(Some),
    }
}

/// A number that may be left out. Models write numbers in quotes now and then.
pub(crate) fn number(input: &Value, field: &str) -> Result<Option<u64>, ToolError> {
    let bad = |found: &Value| ToolError::Input(format!("`{field}` must be a whole number, not {found}"));
    match input.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(found @ Value::String(text)) => text.trim().parse().map(Some).map_err(|_| bad(found)),
        Some(found) => found.as_u64().map(Some).ok_or_else(|| bad(found)),
    }
}
