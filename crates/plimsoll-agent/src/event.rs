//! What happens while an agent runs, as it happens.
//!
//! These events are gone once they were told. What is stored (messages, parts, reductions) is told by the store's change
//! feed too, to readers in any process: see [`Follower`](crate::Follower).

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

/// Receives every event of a run. It must not block: the run waits for it.
pub type EventSink = Arc<dyn Fn(&Event) + Send + Sync>;

/// Something that happened in a run.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Event {
    /// A session was opened.
    Opened {
        /// The session.
        session: SessionId,
        /// The model, as `provider/model`.
        model: String,
        /// The agent.
        agent: String,
    },
    /// Something about the set-up that its user should know, told when a session is opened or its servers are there.
    Notice {
        /// What, in a sentence.
        text: String,
    },
    /// A prompt was stored.
    Prompted {
        /// Its message.
        message: MessageId,
    },
    /// The next request was weighed and is ready.
    Weighed {
        /// Which step of the run, from 1.
        step: u64,
        /// What the request weighs.
        tokens: Tokens,
        /// The line it is under, if the model's window is known.
        line: Option<Tokens>,
        /// How much of it the provider's cache should hold, in blocks.
        unchanged_blocks: usize,
    },
    /// A summary is being asked for.
    Summarising {
        /// Which chunk, from 1.
        chunk: usize,
        /// Of how many.
        of: usize,
        /// What the request weighs.
        tokens: Tokens,
        /// Whether it is prepared beside the running turn.
        early: bool,
    },
    /// A summary was taken, failed or was rejected.
    Summarised {
        /// Why the call failed or its answer was rejected; `None` if the summary was taken.
        error: Option<String>,
        /// What the provider counted.
        usage: Option<UsageFigures>,
        /// What it cost, in dollars.
        cost: Option<f64>,
        /// Whether it is prepared beside the running turn.
        early: bool,
    },
    /// Something left the window.
    Reduced(ReceiptFigures),
    /// A request was sent.
    Requested {
        /// Which step of the run, from 1.
        step: u64,
        /// The model, as `provider/model`.
        model: String,
    },
    /// A request failed before anything was said, and is sent again.
    Retrying {
        /// Which retry, from 1.
        retry: u32,
        /// How long until then.
        wait_ms: u64,
        /// Why.
        error: String,
    },
    /// The provider refused a request as too long. The window is reduced, and the request is made again.
    Refused {
        /// The window that the provider named.
        window: Option<Tokens>,
    },
    /// The provider refused thoughts that were given back to it. The request is made again without them.
    RefusedThoughts,
    /// More words of the answer.
    Text {
        /// The words.
        delta: String,
    },
    /// More thoughts.
    Thinking {
        /// The thoughts.
        delta: String,
    },
    /// The answer is whole.
    Answered {
        /// Its message.
        message: MessageId,
        /// Why the model stopped, in the provider's words.
        finish: String,
        /// What the provider counted.
        usage: Option<UsageFigures>,
        /// What it cost, in dollars.
        cost: Option<f64>,
        /// From the request to the end of the answer.
        latency_ms: u64,
    },
    /// The answer broke off.
    BrokenOff {
        /// Its message.
        message: MessageId,
        /// Why.
        error: String,
    },
    /// A tool begins to work on a call.
    CallStarted {
        /// The call's part.
        part: PartId,
        /// The tool.
        tool: String,
        /// What it was given.
        input: Value,
    },
    /// A call is answered.
    CallEnded {
        /// The call's part.
        part: PartId,
        /// The tool.
        tool: String,
        /// How it ended.
        status: CallStatus,
        /// What it printed, in bytes, before layer 1.
        bytes: u64,
        /// What went wrong, if something did; of a command that ran, how it ended if not well, such as `exit code 1`.
        error: Option<String>,
    },
    /// What a file holds was kept, and the file is about to be changed.
    FileKept {
        /// The call's part.
        part: PartId,
        /// The file.
        path: PathBuf,
        /// What brings the content back.
        handle: String,
    },
    /// The list of things to do was written.
    Todos {
        /// The call's part.
        part: PartId,
        /// The list as it is now.
        todos: Vec<TodoItem>,
    },
    /// A file is about to be put back as it was.
    Reverting {
        /// The file.
        path: PathBuf,
    },
    /// Files were put back.
    Reverted(RevertReport),
    /// The first command of a conversation is about to run: this is what it is held to.
    Confined {
        /// The tool that runs it.
        tool: String,
        /// What is enforced and what is not.
        #[serde(flatten)]
        confinement: Confinement,
    },
    /// A person is asked whether a call may be made.
    Asked {
        /// The call's part.
        part: PartId,
        /// The tool.
        tool: String,
    },
    /// A person has allowed a call.
    Permitted {
        /// The call's part.
        part: PartId,
        /// The tool.
        tool: String,
        /// Whether calls like it are allowed from now on.
        always: bool,
    },
    /// A call was not allowed.
    Denied {
        /// The call's part.
        part: PartId,
        /// The tool.
        tool: String,
        /// What would allow it, in words for a person.
        hint: String,
        /// The flag that would allow it, if one would.
        #[serde(skip_serializing_if = "Option::is_none")]
        allow: Option<String>,
        /// The line of `plimsoll.toml` that would.
        #[serde(skip_serializing_if = "Option::is_none")]
        setting: Option<String>,
        /// The line of `plimsoll.toml` that is needed besides.
        #[serde(skip_serializing_if = "Option::is_none")]
        also: Option<String>,
        /// The rule that decided, with where it stands; none where no rule fits.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// Whether a person was asked and said no.
        asked: bool,
    },
    /// The same call gave the same result again and again, and the model was told.
    Repeating {
        /// The tool.
        tool: String,
        /// How often.
        times: u32,
    },
    /// A hook has changed something, or failed. One that says nothing is not told of.
    Hooked {
        /// The hook.
        hook: String,
        /// When it was run.
        event: HookEvent,
        /// What came of it.
        outcome: HookOutcome,
    },
    /// Something happened to an MCP server.
    McpServer {
        /// The server.
        server: String,
        /// What.
        change: McpChange,
    },
    /// The session has a title.
    Titled {
        /// The title.
        title: String,
    },
    /// A background task was launched, or taken up again.
    TaskLaunched {
        /// The task, which is its session.
        task: SessionId,
        /// The session it works for.
        parent: SessionId,
        /// Its agent.
        agent: String,
        /// What it is about.
        description: String,
        /// Whether it was given its parent's context.
        forked: bool,
        /// Which run of it this is, from 1.
        run: u32,
    },
    /// A background task has come further.
    TaskProgress {
        /// The task.
        task: SessionId,
        /// The session it works for.
        parent: SessionId,
        /// How far.
        progress: Box<TaskProgress>,
    },
    /// A background task has ended.
    TaskEnded {
        /// The task.
        task: SessionId,
        /// The session it works for.
        parent: SessionId,
        /// What it is about.
        description: String,
        /// How it ended.
        status: TaskStatus,
        /// Which run of it, from 1.
        run: u32,
        /// How long that run took.
        duration_ms: u64,
        /// What went wrong.
        error: Option<String>,
        /// All tasks of the session in a few lines, for a person.
        toast: String,
    },
    /// The run is over.
    Ended {
        /// How.
        end: RunEnd,
        /// How many requests were answered.
        steps: u64,
        /// What was charged, summaries included.
        usage: UsageFigures,
        /// What it cost in dollars, as far as prices are known.
        cost: f64,
    },
}

/// What came of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum HookOutcome {
    /// It gave a call another input, which is held against the permissions.
    ChangedInput,
    /// It refused a call.
    Refused {
        /// Why.
        words: String,
    },
    /// It added to what the model sees of a result.
    AddedText,
    /// It replaced what the model sees of a result; the original is kept.
    ReplacedOutput,
    /// It has a say in how the summary is asked for.
    ChangedSummary,
    /// It ended the turn after a compaction.
    Stopped,
    /// It failed, and everything goes on as if it were not there.
    Failed {
        /// Why.
        error: String,
    },
}

/// In words that go on from the hook's name.
impl fmt::Display for HookOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HookOutcome::ChangedInput => write!(formatter, "changed the input of a call"),
            HookOutcome::Refused { words } => write!(formatter, "refused a call: {words}"),
            HookOutcome::AddedText => write!(formatter, "added to a result"),
            HookOutcome::ReplacedOutput => write!(formatter, "replaced a result; the original is kept"),
            HookOutcome::ChangedSummary => write!(formatter, "changed how the summary is asked for"),
            HookOutcome::Stopped => write!(formatter, "ended the turn after the compaction"),
            HookOutcome::Failed { error } => write!(formatter, "failed: {error}"),
        }
    }
}

/// What happened to an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum McpChange {
    /// It was started or reached.
    Started {
        /// So many tools it has.
        tools: usize,
    },
    /// It could not be started or reached, or does not answer.
    Failed {
        /// Why.
        error: String,
    },
    /// It went away in the middle of a call.
    Died {
        /// What is known about it.
        error: String,
    },
    /// It had gone away, and was started again for a call.
    Restarted,
    /// It has other tools since the last turn. They are declared from now on, which the prompt cache has to learn.
    ToolsChanged {
        /// Those that came.
        added: Vec<String>,
        /// Those that went.
        removed: Vec<String>,
    },
    /// One of its tools cannot be declared.
    LeftOut {
        /// The tool, by the server's name for it.
        tool: String,
        /// Why.
        reason: String,
    },
}

/// In words that go on from the server's name.
impl fmt::Display for McpChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |names: &[String]| match names {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        match self {
            McpChange::Started { tools } => write!(formatter, "is there, with {tools} tools"),
            McpChange::Failed { error } => write!(formatter, "cannot be used: {error}"),
            McpChange::Died { error } => write!(formatter, "went away: {error}"),
            McpChange::Restarted => write!(formatter, "was started again"),
            McpChange::ToolsChanged { added, removed } => {
                write!(formatter, "has other tools now: new {}, gone {}", listed(added), listed(removed))
            }
            McpChange::LeftOut { tool, reason } => {
                write!(formatter, "has a tool `{tool}` that is left out: {reason}")
            }
        }
    }
}
