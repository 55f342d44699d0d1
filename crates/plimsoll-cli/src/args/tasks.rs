//! What can be asked of background tasks.

use clap::{Args, Subcommand, ValueEnum};
use plimsoll_agent::tasks::TaskStatus;
use plimsoll_config::{AgentFork, SandboxMode};
use plimsoll_host::{AgentOptions, Flags};

pub(super) const TASKS: &str = "\
Examples:
  plimsoll tasks                            those of this directory; live while some are at work
  plimsoll tasks --status error --all
  plimsoll tasks show 1e0f                  the beginning of an id is enough
  plimsoll tasks output 1e0f --wait > answer.md
  plimsoll tasks steer 1e0f \"leave the tests alone\"
  plimsoll tasks cancel 1e0f
  plimsoll tasks resume 1e0f \"and now the documentation\"
  plimsoll tasks --json | jq -r '.[] | select(.status==\"running\").id'

An agent launches tasks with `background_task`, a person with `plimsoll fork SESSION --run`. `plimsoll chat --session TASK` \
talks to one that is not at work, and its parent is not told of that.";

const SHOW: &str = "\
Examples:
  plimsoll tasks show 1e0f
  plimsoll tasks show 1e0f --json | jq .progress.tools";

const OUTPUT: &str = "\
Examples:
  plimsoll tasks output 1e0f                what the task came to
  plimsoll tasks output 1e0f --wait=60      wait for it, a minute at most
  plimsoll tasks output 1e0f --full --results --messages 20

The answer is no, exit code 1, where there is no result: the task is still at work, failed, or was cancelled. What it had \
said by then is printed all the same.";

const CANCEL: &str = "\
Examples:
  plimsoll tasks cancel 1e0f 2a61

What a task runs ends with it, and so do the tasks that it has launched, in whatever process they are.";

const RESUME: &str = "\
Examples:
  plimsoll tasks resume 1e0f \"and now the documentation\"
  plimsoll tasks resume 1e0f \"go on\" --allow 'bash:cargo *'

The task works here, with the agent, the model and the context that it has. What it does goes to standard error, its answer \
to standard output. One that is at work is resumed when its present run has ended, by the process that runs it. Exit codes: \
0 it is completed or waits in line, 1 it failed or was cancelled, 130 it was interrupted and can be resumed.";

const STEER: &str = "\
Examples:
  plimsoll tasks steer 1e0f \"leave the tests alone\"";

const CLEAR: &str = "\
Examples:
  plimsoll tasks clear                      the ended tasks of this directory
  plimsoll tasks clear ses_5c --cancel      all tasks of a session, also those at work

The records stay: `plimsoll tasks --cleared` lists them, and each can be resumed.";

/// For `tasks`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TasksArgs {
    /// What to do with them; to list them if nothing else.
    #[command(subcommand)]
    pub(crate) command: Option<TasksCommand>,

    /// Which ones.
    #[command(flatten)]
    pub(crate) list: TaskList,
}

/// What to do with tasks.
#[derive(Subcommand)]
pub(crate) enum TasksCommand {
    /// List them once, the newest first.
    List(TaskList),
    /// Show everything about a task.
    #[command(after_help = SHOW)]
    Show {
        /// The task, by its id or the beginning of it.
        task: String,
    },
    /// Print what a task came to, or what was said in it.
    #[command(after_help = OUTPUT)]
    Output(OutputArgs),
    /// Cancel tasks, with what they run and what they have launched.
    #[command(after_help = CANCEL)]
    Cancel {
        /// Tasks, by their ids or the beginnings of them.
        #[arg(required = true, value_name = "TASK")]
        tasks: Vec<String>,
    },
    /// Take a task up again with a further prompt, here.
    #[command(after_help = RESUME)]
    Resume(ResumeArgs),
    /// Say something to a task that is at work; its model reads it before its next step.
    #[command(after_help = STEER)]
    Steer {
        /// The task, by its id or the beginning of it.
        task: String,
        /// What to say.
        #[arg(required = true)]
        message: Vec<String>,
    },
    /// List the tasks of a session, or of this directory, no more.
    #[command(after_help = CLEAR)]
    Clear(ClearArgs),
}

/// Which tasks to list.
#[derive(Args, Clone)]
pub(crate) struct TaskList {
    /// Tasks of every directory, not of the current one alone.
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Tasks of this session alone, by its id or the beginning of it.
    #[arg(short, long, value_name = "ID", conflicts_with = "all")]
    pub(crate) session: Option<String>,

    /// Tasks in this status alone: queued, running, completed, error, cancelled, interrupted or resumed.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<TaskStatus>,

    /// Those that were cleared, too.
    #[arg(long)]
    pub(crate) cleared: bool,

    /// At most so many.
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,

    /// Keep the list up to date until Ctrl-C; with `--json` a line for each change.
    #[arg(long)]
    pub(crate) watch: bool,
}

/// For `tasks output`.
#[derive(Args)]
pub(crate) struct OutputArgs {
    /// The task, by its id or the beginning of it.
    pub(crate) task: String,

    /// Wait until it has ended, so many seconds at most if a number is given.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    pub(crate) wait: Option<Option<u64>>,

    /// Print the messages of its session in place of the result.
    #[arg(long)]
    pub(crate) full: bool,

    /// Only so many of the newest messages.
    #[arg(long, value_name = "N", requires = "full", default_value_t = 100)]
    pub(crate) messages: usize,

    /// Only messages after this one.
    #[arg(long, value_name = "MESSAGE", requires = "full")]
    pub(crate) since: Option<String>,

    /// What the model thinks, too.
    #[arg(long, requires = "full")]
    pub(crate) thinking: bool,

    /// What tools answered, too.
    #[arg(long, requires = "full")]
    pub(crate) results: bool,
}

/// For `tasks resume`.
#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// The task, by its id or the beginning of it.
    pub(crate) task: String,

    /// What it is asked now.
    #[arg(required = true)]
    pub(crate) prompt: Vec<String>,

    /// What it may do.
    #[command(flatten)]
    pub(crate) run: TaskRunArgs,
}

/// For `tasks clear`.
#[derive(Args)]
pub(crate) struct ClearArgs {
    /// The session, by its id or the beginning of it; all sessions of this directory if none is given.
    pub(crate) session: Option<String>,

    /// Cancel those that are at work; without it nothing is cleared while there are some.
    #[arg(long)]
    pub(crate) cancel: bool,
}

/// What a task may do that runs in this process.
#[derive(Args, Clone)]
pub(crate) struct TaskRunArgs {
    /// Allow a tool, a tool for what fits a pattern, or everything; `network` lets commands use the network. Can be given
    /// several times.
    #[arg(long, value_name = "all|TOOL[:PATTERN]|network", help_heading = "Tasks that run here")]
    pub(crate) allow: Vec<String>,

    /// Whether commands are confined: as far as the system can, not at all, or only where it can.
    #[arg(long, value_name = "auto|off|require", help_heading = "Tasks that run here")]
    pub(crate) sandbox: Option<SandboxMode>,
}

impl TaskRunArgs {
    /// These flags, as a host takes them.
    pub(crate) fn options(&self) -> AgentOptions {
        let flags = Flags { sandbox: self.sandbox, ..Flags::default() };
        AgentOptions { allow: self.allow.clone(), flags, ..AgentOptions::default() }
    }
}

/// How a task is given the session that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskFork {
    /// A digest.
    Digest,
    /// The history itself.
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
    name.to_lowercase().parse().map_err(|()| format!("there are {}", names()))
}
