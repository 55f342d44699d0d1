//! Arguments of `tasks`.

use clap::{Args, Subcommand, ValueEnum};
use plimsoll_agent::tasks::TaskStatus;
use plimsoll_config::{AgentFork, SandboxMode};
use plimsoll_host::{AgentOptions, Flags};

pub(super) const TASKS: &str = "\
Examples:
  plimsoll tasks                            tasks of this directory
  plimsoll tasks --status error --all
  plimsoll tasks show 1e0f                  an id prefix is enough
  plimsoll tasks output 1e0f --wait > answer.md
  plimsoll tasks steer 1e0f \"leave the tests alone\"
  plimsoll tasks cancel 1e0f
  plimsoll tasks resume 1e0f \"and now the documentation\"
  plimsoll tasks --json | jq -r '.[] | select(.status==\"running\").id'";

pub(super) const TASKS_NOTES: &str = "\
A task is a background run in its own session. An agent starts one with `background_task`, you with `plimsoll fork \
SESSION --run`. The list covers all processes that use the same database, and on a terminal it updates until all tasks \
have ended. `plimsoll chat --session TASK` continues a task that is not running; its parent is not notified.";

const SHOW: &str = "\
Examples:
  plimsoll tasks show 1e0f
  plimsoll tasks show 1e0f --json | jq .progress.tools";

const OUTPUT: &str = "\
Examples:
  plimsoll tasks output 1e0f                the result
  plimsoll tasks output 1e0f --wait=60      wait for it, at most a minute
  plimsoll tasks output 1e0f --full --results --messages 20";

const OUTPUT_NOTES: &str = "\
Exits with 1 if there is no result because the task is still running, failed, or was cancelled. Partial output is \
printed anyway.";

const CANCEL: &str = "\
Examples:
  plimsoll tasks cancel 1e0f 2a61";

const CANCEL_NOTES: &str = "\
Commands and tasks started by a task are cancelled with it, in every process.";

const RESUME: &str = "\
Examples:
  plimsoll tasks resume 1e0f \"and now the documentation\"
  plimsoll tasks resume 1e0f \"continue\" --allow 'bash:cargo *'";

const RESUME_NOTES: &str = "\
The task runs in this process with its own agent, model and context. Progress goes to standard error, the answer to \
standard output. A task that is running is resumed after its current run, by the process that runs it.

Exit codes: 0 completed or queued, 1 failed or cancelled, 130 interrupted and resumable.";

const STEER: &str = "\
Examples:
  plimsoll tasks steer 1e0f \"leave the tests alone\"";

const CLEAR: &str = "\
Examples:
  plimsoll tasks clear                      the ended tasks of this directory
  plimsoll tasks clear ses_5c --cancel      all tasks of a session";

const CLEAR_NOTES: &str = "\
Nothing is deleted: `plimsoll tasks --cleared` lists cleared tasks, and each can be resumed.";

/// Arguments of `tasks`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TasksArgs {
    /// Subcommand; lists tasks if omitted.
    #[command(subcommand)]
    pub(crate) command: Option<TasksCommand>,

    /// Filters.
    #[command(flatten)]
    pub(crate) list: TaskList,
}

/// Subcommands of `tasks`.
#[derive(Subcommand)]
pub(crate) enum TasksCommand {
    /// List tasks once, newest first.
    List(TaskList),
    /// Show the details of a task.
    #[command(before_help = SHOW)]
    Show {
        /// Task id or prefix.
        task: String,
    },
    /// Print a task's result or its messages.
    #[command(before_help = OUTPUT, after_help = OUTPUT_NOTES)]
    Output(OutputArgs),
    /// Cancel tasks and everything they started.
    #[command(before_help = CANCEL, after_help = CANCEL_NOTES)]
    Cancel {
        /// Task ids or prefixes.
        #[arg(required = true, value_name = "TASK")]
        tasks: Vec<String>,
    },
    /// Resume a task with another prompt.
    #[command(before_help = RESUME, after_help = RESUME_NOTES)]
    Resume(ResumeArgs),
    /// Send a message to a running task; its model reads it before its next step.
    #[command(before_help = STEER)]
    Steer {
        /// Task id or prefix.
        task: String,
        /// Message to send.
        #[arg(required = true)]
        message: Vec<String>,
    },
    /// Hide ended tasks from the list.
    #[command(before_help = CLEAR, after_help = CLEAR_NOTES)]
    Clear(ClearArgs),
}

/// Filters for the list of tasks.
#[derive(Args, Clone)]
pub(crate) struct TaskList {
    /// Include tasks of every directory.
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Only tasks of this session (id or prefix).
    #[arg(short, long, value_name = "ID", conflicts_with = "all")]
    pub(crate) session: Option<String>,

    /// Only this status: queued, running, completed, error, cancelled, interrupted or resumed.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<TaskStatus>,

    /// Include cleared tasks.
    #[arg(long)]
    pub(crate) cleared: bool,

    /// Maximum number of tasks.
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,

    /// Update the list until Ctrl-C; with `--json`, one line per change.
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Arguments of `tasks output`.
#[derive(Args)]
pub(crate) struct OutputArgs {
    /// Task id or prefix.
    pub(crate) task: String,

    /// Wait until the task has ended, for at most SECONDS if given.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    pub(crate) wait: Option<Option<u64>>,

    /// Print the messages of the task's session instead of its result.
    #[arg(long)]
    pub(crate) full: bool,

    /// Maximum number of messages, the newest first.
    #[arg(long, value_name = "N", requires = "full", default_value_t = 100)]
    pub(crate) messages: usize,

    /// Only messages after this one.
    #[arg(long, value_name = "MESSAGE", requires = "full")]
    pub(crate) since: Option<String>,

    /// Include the model's reasoning.
    #[arg(long, requires = "full")]
    pub(crate) thinking: bool,

    /// Include tool results.
    #[arg(long, requires = "full")]
    pub(crate) results: bool,
}

/// Arguments of `tasks resume`.
#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// Task id or prefix.
    pub(crate) task: String,

    /// Prompt for the next run.
    #[arg(required = true)]
    pub(crate) prompt: Vec<String>,

    /// Permissions and sandbox.
    #[command(flatten)]
    pub(crate) run: TaskRunArgs,
}

/// Arguments of `tasks clear`.
#[derive(Args)]
pub(crate) struct ClearArgs {
    /// Session id or prefix [default: all sessions of this directory].
    pub(crate) session: Option<String>,

    /// Cancel running tasks first; without it, running tasks are an error.
    #[arg(long)]
    pub(crate) cancel: bool,
}

/// Permissions and sandbox of a task that runs in this process.
#[derive(Args, Clone)]
pub(crate) struct TaskRunArgs {
    /// Allow a tool, a tool for matching calls, network access for commands, or everything. Repeatable.
    #[arg(long, value_name = "all|TOOL[:PATTERN]|network", help_heading = "Task options")]
    pub(crate) allow: Vec<String>,

    /// Confine commands: where possible (auto), never (off), or fail if impossible (require).
    #[arg(long, value_name = "auto|off|require", help_heading = "Task options")]
    pub(crate) sandbox: Option<SandboxMode>,
}

impl TaskRunArgs {
    /// Returns these options as the host takes them.
    pub(crate) fn options(&self) -> AgentOptions {
        let flags = Flags { sandbox: self.sandbox, ..Flags::default() };
        AgentOptions { allow: self.allow.clone(), flags, ..AgentOptions::default() }
    }
}

/// Context that a task receives from the session it is forked from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskFork {
    /// A digest of the history.
    Digest,
    /// The full history.
    History,
}

impl From<TaskFork> for AgentFork {
    fn from(way: TaskFork) -> AgentFork {
        match way {
            TaskFork::Digest => AgentFork::Digest,
            TaskFork::History => AgentFork::History,
        }
    }
}

fn status(name: &str) -> Result<TaskStatus, String> {
    let names = || TaskStatus::ALL.map(TaskStatus::name).join(", ");
    name.to_lowercase().parse().map_err(|()| format!("expected one of: {}", names()))
}
