//! `plimsoll tasks list`.

use std::process::ExitCode;

use plimsoll::Millis;
use plimsoll_agent::tasks::{ForkFigures, Task, duration_text};
use plimsoll_host::{Flags, Host, HostError, TaskFilter, TaskSession};

use super::{name, watch};
use crate::args::TaskList;
use crate::error::CommandResult;
use crate::output::{Holds, Output, Table, counted, note};
use crate::when;

/// When a list is printed once instead of live.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Once {
    Always,
    /// If no task is active, or standard output is not a terminal.
    UnlessActive,
}

/// Lists tasks.
pub(super) fn run(args: &TaskList, once: Once, host: &Host, output: &mut Output) -> CommandResult {
    if args.watch && !output.json && !output.is_terminal() {
        return Err(HostError::usage("`--watch` needs a terminal")
            .hint("use `plimsoll tasks --watch --json` for a line per change"));
    }
    let Some(opened) = host.open_existing(&host.config(&Flags::default())?)? else {
        // Without a database there are no tasks, which is a result and not an error.
        if output.json && !args.watch {
            output.json(&Vec::<Task>::new())?;
        } else {
            note("no background tasks");
        }
        return Ok(ExitCode::SUCCESS);
    };
    let task_session = TaskSession::new(opened)?;
    let task_filter = filter(args, &task_session, host)?;
    if args.watch {
        return watch::run(&task_session, &task_filter, watch::Until::Left, output);
    }
    let all = task_session.tasks()?;
    let (tasks, more) = task_session.choose(&task_filter, &all)?;
    if output.json {
        output.json(&tasks)?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_active = tasks.iter().any(|task| task.status.is_active());
    if once == Once::UnlessActive && is_active && output.is_terminal() {
        return watch::run(&task_session, &task_filter, watch::Until::AllEnded, output);
    }
    if tasks.is_empty() {
        note(&nothing(&task_filter, host));
        return Ok(ExitCode::SUCCESS);
    }
    if args.session.is_none() && !args.all {
        note(&format!("tasks of `{}`; `--all` lists every directory", host.short(host.directory())));
    }
    output.table(&table(&tasks, &all, when::now()))?;
    if let Some(forks) = forks_text(&ForkFigures::of(tasks.iter().copied())) {
        note(&forks);
    }
    if more > 0 {
        note(&format!("{} more; raise `--limit` to list them", plimsoll::Tokens(more as u64)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the filter that the arguments describe.
fn filter(args: &TaskList, task_session: &TaskSession, host: &Host) -> Result<TaskFilter, HostError> {
    let parent = args.session.as_deref().map(|id| task_session.opened.session(id, host)).transpose()?;
    let is_here = !args.all && parent.is_none();
    Ok(TaskFilter {
        parent: parent.map(|session| session.id),
        directory: host.directory().to_str().filter(|_| is_here).map(str::to_owned),
        status: args.status.map(|status| status.name().to_owned()),
        cleared: args.cleared,
        limit: args.limit,
    })
}

/// Describes an empty list.
fn nothing(filter: &TaskFilter, host: &Host) -> String {
    let status = filter.status.as_ref().map(|status| format!(" with the status `{status}`"));
    let status = status.unwrap_or_default();
    match (&filter.parent, &filter.directory) {
        (Some(parent), _) => format!("`{parent}` has no background tasks{status}"),
        (None, Some(_)) => format!(
            "no background tasks{status} in `{}`; use `--all` to list every directory",
            host.short(host.directory())
        ),
        (None, None) => format!("no background tasks{status}"),
    }
}

/// Formats tasks as a table. Ids are abbreviated so that they are unique among all tasks, because any of them can be used.
pub(crate) fn table(tasks: &[&Task], all: &[Task], now: Millis) -> Table {
    let mut table = Table::of([
        ("ID", Holds::Names),
        ("STATUS", Holds::Names),
        ("AGENT", Holds::Names),
        ("AGE", Holds::Numbers),
        ("TIME", Holds::Numbers),
        ("CALLS", Holds::Numbers),
        ("DESCRIPTION", Holds::Words(8)),
    ]);
    for task in tasks {
        table.row([
            marked_name(task, all),
            task.status.to_string(),
            task.data.agent.clone(),
            when::age(now.0.saturating_sub(task.created.0)),
            duration_text(task.duration(now)),
            plimsoll::Tokens(task.data.progress.tool_calls).to_string(),
            task.data.description.clone(),
        ]);
    }
    table
}

/// Formats an id with its flags, like agents see it.
fn marked_name(task: &Task, all: &[Task]) -> String {
    let forked = if task.is_forked() { " (forked)" } else { "" };
    let resumed = if task.resumes() > 0 { " (resumed)" } else { "" };
    format!("{}{forked}{resumed}", name(task, all))
}

/// Formats how often tasks received their parent's context, how much of it, and how often the budget cut it.
fn forks_text(figures: &ForkFigures) -> Option<String> {
    let ForkFigures { forks, digests, histories, without, cut, tokens, largest, .. } = *figures;
    if forks == 0 {
        return None;
    }
    let kinds = [(digests, "digest"), (histories, "history"), (without, "without content")];
    let kinds = kinds.iter().filter(|(count, _)| *count > 0);
    let kinds: Vec<String> = kinds.map(|(count, kind)| format!("{count} {kind}")).collect();
    let cut = if cut > 0 { format!("; the budget cut {cut} of them") } else { String::new() };
    Some(format!(
        "{}: {}; about {} tokens, the largest {} tokens{cut}",
        counted(forks, "fork"),
        kinds.join(", "),
        plimsoll::Tokens(tokens),
        plimsoll::Tokens(largest)
    ))
}

/// Formats the number of tasks by status.
pub(super) fn summary(tasks: &[&Task]) -> String {
    use plimsoll_agent::tasks::TaskStatus;
    let count = |status: TaskStatus| tasks.iter().filter(|task| task.status == status).count();
    let named = TaskStatus::ALL.map(|status| (count(status), status));
    let named = named.iter().filter(|(count, _)| *count > 0);
    let named: Vec<String> = named.map(|(count, status)| format!("{count} {status}")).collect();
    format!("{}: {}", counted(tasks.len(), "task"), named.join(", "))
}
