//! `plimsoll tasks`: background tasks of all processes that use the same database.
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

use plimsoll_agent::tasks::{Task, TaskPhase, TaskProgress, short_id};
use plimsoll_host::{Host, HostError, TaskSession};

use crate::args::{TasksArgs, TasksCommand};
use crate::error::CommandResult;
use crate::figures::cost_after;
use crate::output::Output;

pub(crate) use list::table;
pub(crate) use show::page;
pub(crate) use work::fork;

/// Lists tasks, or runs a subcommand.
pub(crate) fn run(args: &TasksArgs, host: &Host, output: &mut Output) -> CommandResult {
    match &args.command {
        None => list::run(&args.list, list::Once::UnlessActive, host, output),
        Some(TasksCommand::List(args)) => list::run(args, list::Once::Always, host, output),
        Some(TasksCommand::Show { task }) => show::run(task, host, output),
        Some(TasksCommand::Output(args)) => output::run(args, host, output),
        Some(TasksCommand::Cancel { tasks }) => act::cancel(tasks, host, output),
        Some(TasksCommand::Resume(args)) => work::resume(args, host, output),
        Some(TasksCommand::Steer { task, message }) => act::steer(task, &message.join(" "), host, output),
        Some(TasksCommand::Clear(args)) => act::clear(args, host, output),
    }
}

/// Opens the tasks of the configured database, which must exist.
fn open(host: &Host) -> Result<TaskSession, HostError> {
    TaskSession::new(host.open_default()?)
}

/// Abbreviates an id so that it is unique among all tasks.
fn name(task: &Task, all: &[Task]) -> String {
    short_id(&task.id, all.iter().map(|task| &task.id))
}

/// Formats a task's progress in a line: current activity, tools, usage and cost.
pub(crate) fn progress_text(progress: &TaskProgress) -> String {
    let now = match (progress.phase, progress.last_tools.last()) {
        (TaskPhase::Tool, Some(tool)) => tool.as_str(),
        (TaskPhase::Tool, None) => "a tool",
        (TaskPhase::Streaming, _) => "thinking",
        _ => "waiting for the model",
    };
    let mut text = now.to_owned();
    if progress.tool_calls > 0 {
        text.push_str(&format!(" · {}", tools_text(progress)));
    }
    if progress.usage.total() > 0 {
        text.push_str(&format!(" · {} tokens", plimsoll::Tokens(progress.usage.total())));
    }
    text + &cost_after(" · ", progress.cost)
}

/// Formats the number of calls by tool, the most frequent first.
fn tools_text(progress: &TaskProgress) -> String {
    let mut tools: Vec<(&String, &u64)> = progress.tools.iter().collect();
    tools.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
    let named: Vec<String> = tools.iter().map(|(name, count)| format!("{name}:{count}")).collect();
    named.join(" ")
}
