//! `plimsoll tasks`: background tasks of all processes on the same database, seen and reached from here.
//!
//! | part | does |
//! |---|---|
//! | `list`, `watch` | tables, once or live |
//! | `show`, `output` | one task |
//! | `act` | cancel, steer, clear |
//! | `work` | run a task in this process: `tasks resume`, `fork --run` |

mod act;
mod list;
mod output;
mod show;
mod watch;
mod work;

use std::process::ExitCode;
use std::sync::Arc;

use plimsoll_agent::tasks::{RosterAgent, Task, TaskError, TaskPhase, TaskProgress, short_id};
use plimsoll_agent::{TaskBoard, TaskLimits};
use tokio::runtime::Runtime;

use crate::args::{TasksArgs, TasksCommand};
use crate::error::CliError;
use crate::output::Output;
use crate::store::{self, Opened};
use crate::surroundings::Surroundings;

pub(crate) use list::table;
pub(crate) use show::{page, spend_text};
pub(crate) use work::fork;

/// List tasks, or do something else with them.
pub(crate) fn run(
    args: &TasksArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    match &args.command {
        None => list::run(&args.list, list::Once::UnlessActive, around, output),
        Some(TasksCommand::List(args)) => list::run(args, list::Once::Always, around, output),
        Some(TasksCommand::Show { task }) => show::run(task, around, output),
        Some(TasksCommand::Output(args)) => output::run(args, around, output),
        Some(TasksCommand::Cancel { tasks }) => act::cancel(tasks, around, output),
        Some(TasksCommand::Resume(args)) => work::resume(args, around, output),
        Some(TasksCommand::Steer { task, message }) => act::steer(task, &message.join(" "), around, output),
        Some(TasksCommand::Clear(args)) => act::clear(args, around, output),
    }
}

/// The tasks of a database, for commands that run none themselves.
struct Desk {
    opened: Opened,
    board: Arc<TaskBoard>,
    runtime: Runtime,
}

impl Desk {
    /// The database that is configured, which must be there.
    fn open(around: &Surroundings) -> Result<Desk, CliError> {
        Desk::of(Opened::usual(around)?)
    }

    fn of(opened: Opened) -> Result<Desk, CliError> {
        // A board that has no agents runs nothing: a command that only looks takes no queued resume up.
        let nobody = |_: &str, _: Option<&str>| -> Result<RosterAgent, String> {
            Err("no task is run by this command".to_owned())
        };
        let archive = Arc::clone(&opened.archive);
        let board = TaskBoard::new(archive, Arc::new(nobody), TaskLimits::default(), &store::holder());
        let board = TaskBoard::knowing_gone(board, plimsoll_store::holder_is_gone);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Desk { opened, board, runtime })
    }

    /// All tasks, oldest first, after those whose process has gone were marked.
    fn tasks(&self) -> Result<Vec<Task>, TaskError> {
        self.runtime.block_on(current_tasks(&self.board))
    }

    /// The task that a text names, and all there are.
    fn find(&self, given: &str) -> Result<(Task, Vec<Task>), CliError> {
        let tasks = self.tasks()?;
        let task = plimsoll_agent::tasks::find_task(&tasks, given)?.clone();
        Ok((task, tasks))
    }
}

/// All tasks, oldest first, after those whose process has gone were marked.
async fn current_tasks(board: &Arc<TaskBoard>) -> Result<Vec<Task>, TaskError> {
    board.reconcile(None).await?;
    board.tasks(None).await
}

/// An id as it is shown among all tasks.
fn name(task: &Task, all: &[Task]) -> String {
    short_id(&task.id, all.iter().map(|task| &task.id))
}

/// How far a task has come, in a line: what it does now, its tools, what it was charged.
pub(crate) fn progress_text(progress: &TaskProgress) -> String {
    let now = match (progress.phase, progress.last_tools.last()) {
        (TaskPhase::Tool, Some(tool)) => tool.as_str(),
        (TaskPhase::Tool, None) => "a tool",
        (TaskPhase::Streaming, _) => "thinking",
        (TaskPhase::Waiting, _) => "waiting for the model",
    };
    let mut text = now.to_owned();
    if progress.tool_calls > 0 {
        text.push_str(&format!(" · {}", tools_text(progress)));
    }
    if progress.usage.total() > 0 {
        text.push_str(&format!(" · {} tokens", plimsoll::Tokens(progress.usage.total())));
    }
    if progress.cost > 0.0 {
        text.push_str(&format!(" · ${:.4}", progress.cost));
    }
    text
}

/// Calls by the names of their tools, the most frequent first.
fn tools_text(progress: &TaskProgress) -> String {
    let mut tools: Vec<(&String, &u64)> = progress.tools.iter().collect();
    tools.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
    let named: Vec<String> = tools.iter().map(|(name, count)| format!("{name}:{count}")).collect();
    named.join(" ")
}

impl From<TaskError> for CliError {
    fn from(error: TaskError) -> CliError {
        match error {
            TaskError::NotFound(id) => {
                CliError::usage(format!("no background task has an id that begins with `{id}`"))
                    .hint("`plimsoll tasks --all --cleared` lists them")
            }
            TaskError::Ambiguous { given, candidates } => {
                let list: String = candidates.iter().map(|candidate| format!("\n  {candidate}")).collect();
                CliError::usage(format!("more than one background task begins with `{given}`:{list}"))
                    .hint("give more of the id")
            }
            TaskError::NotRunning { status } => {
                CliError::no(format!("the task is {status}; only one that is at work can be cancelled"))
            }
            TaskError::NotSteerable { status } => {
                CliError::no(format!("the task is {status}; only one that is at work can be steered"))
                    .hint("`plimsoll tasks resume` takes it up again with a further prompt")
            }
            TaskError::ResumePending => CliError::no("a resume of the task waits in line already")
                .hint("`plimsoll tasks steer` says something to the run that is under way, `cancel` ends it"),
            TaskError::SessionGone => {
                CliError::no("the session of the task was removed, so it cannot go on; its result is kept")
            }
            error @ TaskError::TooDeep { .. } => CliError::no(error.to_string())
                .hint("`depth` under `[tasks]` of the configuration is the limit"),
            error @ TaskError::Agent(_) => CliError::usage(error.to_string()),
            TaskError::Store(error) => error.into(),
            TaskError::Session(error) => error.into(),
            other => CliError::failed(other.to_string()),
        }
    }
}
