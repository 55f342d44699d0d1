//! Events of a running agent.
//!
//! Events are not stored. Stored changes (messages, parts, reductions) also appear in the store's change feed, which
//! any process can read with [`Follower`](crate::Follower).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll::{MessageId, PartId, SessionId, Tokens};
use plimsoll_config::HookEvent;
use plimsoll_sandbox::Confinement;
use serde::Serialize;
use serde_json::Value;

use crate::figures::{CallStatus, ReceiptFigures, UsageFigures};
use crate::report::{RevertReport, RunEnd};
use crate::task::{TaskProgress, TaskStatus};
use crate::todo::TodoItem;

/// Receives every event of a run. It must not block, because the run waits for it.
pub type EventSink = Arc<dyn Fn(&Event) + Send + Sync>;

/// Event of a run.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Event {
    /// A session was opened.
    Opened {
        /// ID of the session.
        session: SessionId,
        /// Model, as `provider/model`.
        model: String,
        /// Name of the agent.
        agent: String,
    },
    /// A message about the configuration for the user, sent when a session is opened or its servers have started.
    Notice {
        /// The message.
        text: String,
    },
    /// A prompt was stored.
    Prompted {
        /// ID of the prompt's message.
        message: MessageId,
    },
    /// The next request was counted and is ready.
    Weighed {
        /// Number of the step in the run, from 1.
        step: u64,
        /// Estimated size of the request.
        tokens: Tokens,
        /// Limit of the request, if the model's window is known.
        line: Option<Tokens>,
        /// Number of leading blocks that the provider's cache should contain.
        unchanged_blocks: usize,
    },
    /// A summary is being requested.
    Summarising {
        /// Number of the chunk, from 1.
        chunk: usize,
        /// Number of chunks.
        of: usize,
        /// Estimated size of the request.
        tokens: Tokens,
        /// Whether it is prepared while the turn continues.
        early: bool,
    },
    /// A summary was accepted, failed or was rejected.
    Summarised {
        /// Reason why the request failed or the summary was rejected; `None` if it was accepted.
        error: Option<String>,
        /// Usage that the provider reported.
        usage: Option<UsageFigures>,
        /// Cost in dollars.
        cost: Option<f64>,
        /// Whether it is prepared while the turn continues.
        early: bool,
    },
    /// The window was reduced.
    Reduced(ReceiptFigures),
    /// A request was sent.
    Requested {
        /// Number of the step in the run, from 1.
        step: u64,
        /// Model, as `provider/model`.
        model: String,
    },
    /// A request failed before the answer began, and is sent again.
    Retrying {
        /// Number of the retry, from 1.
        retry: u32,
        /// Delay before the retry.
        wait_ms: u64,
        /// The failure.
        error: String,
    },
    /// The provider rejected a request as too long. The window is reduced and the request is sent again.
    Refused {
        /// The window that the provider named, if any.
        window: Option<Tokens>,
    },
    /// The provider rejected replayed reasoning. The request is sent again without it.
    RefusedThoughts,
    /// Text of the answer.
    Text {
        /// The added text.
        delta: String,
    },
    /// Reasoning.
    Thinking {
        /// The added reasoning.
        delta: String,
    },
    /// An answer is complete.
    Answered {
        /// ID of the answer's message.
        message: MessageId,
        /// The provider's reason for the end of the answer.
        finish: String,
        /// Usage that the provider reported.
        usage: Option<UsageFigures>,
        /// Cost in dollars.
        cost: Option<f64>,
        /// Time from the request to the end of the answer.
        latency_ms: u64,
    },
    /// An answer was interrupted.
    BrokenOff {
        /// ID of the answer's message.
        message: MessageId,
        /// The error.
        error: String,
    },
    /// A tool was started for a call.
    CallStarted {
        /// ID of the call's part.
        part: PartId,
        /// Name of the tool.
        tool: String,
        /// Input of the call.
        input: Value,
    },
    /// A call has ended.
    CallEnded {
        /// ID of the call's part.
        part: PartId,
        /// Name of the tool.
        tool: String,
        /// Outcome of the call.
        status: CallStatus,
        /// Size of the output in bytes, before truncation.
        bytes: u64,
        /// The error, if any. For a command that failed this is its exit, such as `exit code 1`.
        error: Option<String>,
    },
    /// The content of a file was saved, and the file is about to be changed.
    FileKept {
        /// ID of the call's part.
        part: PartId,
        /// Path of the file.
        path: PathBuf,
        /// Handle of the saved content.
        handle: String,
    },
    /// The to-do list was changed.
    Todos {
        /// ID of the call's part.
        part: PartId,
        /// The new list.
        todos: Vec<TodoItem>,
    },
    /// A file is about to be restored.
    Reverting {
        /// Path of the file.
        path: PathBuf,
    },
    /// Files were restored.
    Reverted(RevertReport),
    /// The first command of a conversation is about to run.
    Confined {
        /// Tool that runs the command.
        tool: String,
        /// Guards that are enforced and guards that are not.
        #[serde(flatten)]
        confinement: Confinement,
    },
    /// The user is asked to permit a call.
    Asked {
        /// ID of the call's part.
        part: PartId,
        /// Name of the tool.
        tool: String,
    },
    /// The user permitted a call.
    Permitted {
        /// ID of the call's part.
        part: PartId,
        /// Name of the tool.
        tool: String,
        /// Whether similar calls are permitted from now on.
        always: bool,
    },
    /// A call was denied.
    Denied {
        /// ID of the call's part.
        part: PartId,
        /// Name of the tool.
        tool: String,
        /// Hint for the user about how to allow it.
        hint: String,
        /// Flag that would allow it, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        allow: Option<String>,
        /// Line of `plimsoll.toml` that would allow it.
        #[serde(skip_serializing_if = "Option::is_none")]
        setting: Option<String>,
        /// Further line of `plimsoll.toml` that is needed.
        #[serde(skip_serializing_if = "Option::is_none")]
        also: Option<String>,
        /// Rule that decided, with its source; `None` if no rule matches.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// Whether the user was asked and declined.
        asked: bool,
    },
    /// A call returned the same result repeatedly, and the model was warned.
    Repeating {
        /// Name of the tool.
        tool: String,
        /// Number of times.
        times: u32,
    },
    /// A hook changed something or failed. Hooks that return nothing are not reported.
    Hooked {
        /// Name of the hook.
        hook: String,
        /// Event that the hook ran for.
        event: HookEvent,
        /// Effect of the hook.
        outcome: HookOutcome,
    },
    /// The state of an MCP server changed.
    McpServer {
        /// Name of the server.
        server: String,
        /// The change.
        change: McpChange,
    },
    /// The session got a title.
    Titled {
        /// The title.
        title: String,
    },
    /// A background task was launched or resumed.
    TaskLaunched {
        /// ID of the task and of its session.
        task: SessionId,
        /// ID of the parent session.
        parent: SessionId,
        /// Name of the task's agent.
        agent: String,
        /// Description of the task.
        description: String,
        /// Whether the task received its parent's context.
        forked: bool,
        /// Number of the run, from 1.
        run: u32,
    },
    /// A background task made progress.
    TaskProgress {
        /// ID of the task and of its session.
        task: SessionId,
        /// ID of the parent session.
        parent: SessionId,
        /// The progress.
        progress: Box<TaskProgress>,
    },
    /// A background task has ended.
    TaskEnded {
        /// ID of the task and of its session.
        task: SessionId,
        /// ID of the parent session.
        parent: SessionId,
        /// Description of the task.
        description: String,
        /// Final status.
        status: TaskStatus,
        /// Number of the run, from 1.
        run: u32,
        /// Duration of the run.
        duration_ms: u64,
        /// The error, if any.
        error: Option<String>,
        /// Summary of all tasks of the session, for the user.
        toast: String,
    },
    /// The run has ended.
    Ended {
        /// Reason for the end.
        end: RunEnd,
        /// Number of answered requests.
        steps: u64,
        /// Charged usage, summaries included.
        usage: UsageFigures,
        /// Cost in dollars, as far as prices are known.
        cost: f64,
    },
}

/// Effect of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum HookOutcome {
    /// Replaced the input of a call. Permissions are checked against the new input.
    ChangedInput,
    /// Denied a call.
    Refused {
        /// Reason that the hook gave.
        words: String,
    },
    /// Appended text to a result.
    AddedText,
    /// Replaced a result in the window. The original is stored.
    ReplacedOutput,
    /// Changed the summary instructions.
    ChangedSummary,
    /// Ended the turn after a compaction.
    Stopped,
    /// Failed. The run continues as if the hook did not exist.
    Failed {
        /// The error.
        error: String,
    },
}

/// A phrase that follows the hook's name.
impl fmt::Display for HookOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HookOutcome::ChangedInput => write!(formatter, "changed the input of a call"),
            HookOutcome::Refused { words } => write!(formatter, "denied a call: {words}"),
            HookOutcome::AddedText => write!(formatter, "appended text to a result"),
            HookOutcome::ReplacedOutput => write!(formatter, "replaced a result; the original is kept"),
            HookOutcome::ChangedSummary => write!(formatter, "changed the summary instructions"),
            HookOutcome::Stopped => write!(formatter, "ended the turn after the compaction"),
            HookOutcome::Failed { error } => write!(formatter, "failed: {error}"),
        }
    }
}

/// Change of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum McpChange {
    /// Started or connected.
    Started {
        /// Number of its tools.
        tools: usize,
    },
    /// Failed to start, to connect or to respond.
    Failed {
        /// The error.
        error: String,
    },
    /// Exited or disconnected during a call.
    Died {
        /// Diagnostics.
        error: String,
    },
    /// Restarted for a call after it had exited.
    Restarted,
    /// Offers other tools than in the last turn. Declaring them invalidates the prompt cache.
    ToolsChanged {
        /// New tools.
        added: Vec<String>,
        /// Removed tools.
        removed: Vec<String>,
    },
    /// A tool that cannot be declared.
    LeftOut {
        /// The tool's name on the server.
        tool: String,
        /// The reason.
        reason: String,
    },
}

/// A phrase that follows the server's name.
impl fmt::Display for McpChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |names: &[String]| match names {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        match self {
            McpChange::Started { tools } => write!(formatter, "started with {tools} tools"),
            McpChange::Failed { error } => write!(formatter, "cannot be used: {error}"),
            McpChange::Died { error } => write!(formatter, "stopped: {error}"),
            McpChange::Restarted => write!(formatter, "was restarted"),
            McpChange::ToolsChanged { added, removed } => {
                write!(formatter, "changed its tools: added {}, removed {}", listed(added), listed(removed))
            }
            McpChange::LeftOut { tool, reason } => {
                write!(formatter, "has a tool `{tool}` that cannot be used: {reason}")
            }
        }
    }
}
