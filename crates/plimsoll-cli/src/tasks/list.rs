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

/// When a list is printed once and not kept up to date.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Once {
    /// Whatever the tasks do.
    Always,
    /// Where none is at work, or no person sees it.
    UnlessActive,
}

/// List tasks.
pub(super) fn run(args: &TaskList, once: Once, host: &Host, output: &mut Output) -> CommandResult {
    if args.watch && !output.json && !output.is_terminal() {
        return Err(HostError::usage("a live list needs a terminal")
            .hint("`plimsoll tasks --watch --json` prints a line for each change"));
    }
    let Some(opened) = host.open_existing(&host.config(&Flags::default())?)? else {
        // Where nothing was stored yet there are no tasks, which is an answer.
        if output.json && !args.watch {
            output.json(&Vec::<Task>::new())?;
        } else {
            note("there are no background tasks");
        }
        return Ok(ExitCode::SUCCESS);
    };
    let desk = TaskSession::new(opened)?;
    let wanted = filter(args, &desk, host)?;
    if args.watch {
        return watch::run(&desk, &wanted, watch::Until::Left, output);
    }
    let all = desk.tasks()?;
    let (tasks, more) = desk.choose(&wanted, &all)?;
    if output.json {
        output.json(&tasks)?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_active = tasks.iter().any(|task| task.status.is_active());
    if once == Once::UnlessActive && is_active && output.is_terminal() {
        return watch::run(&desk, &wanted, watch::Until::AllEnded, output);
    }
    if tasks.is_empty() {
        note(&nothing(&wanted, host));
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
        note(&format!("{} more; `--limit` lists them", plimsoll::Tokens(more as u64)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Which tasks are wanted.
fn filter(args: &TaskList, desk: &TaskSession, host: &Host) -> Result<TaskFilter, HostError> {
    let parent = args.session.as_deref().map(|id| desk.opened.session(id, host)).transpose()?;
    let is_here = !args.all && parent.is_none();
    Ok(TaskFilter {
        parent: parent.map(|session| session.id),
        directory: host.directory().to_str().filter(|_| is_here).map(str::to_owned),
        status: args.status.map(|status| status.name().to_owned()),
        cleared: args.cleared,
        limit: args.limit,
    })
}

/// Says that there is nothing to list.
fn nothing(filter: &TaskFilter, host: &Host) -> String {
    let status = filter.status.as_ref().map(|status| format!(" with the status `{status}`"));
    let status = status.unwrap_or_default();
    match (&filter.parent, &filter.directory) {
        (Some(parent), _) => format!("`{parent}` has no background tasks{status}"),
        (None, Some(_)) => format!(
            "there are no background tasks{status} in `{}`; `--all` lists every directory",
            host.short(host.directory())
        ),
        (None, None) => format!("there are no background tasks{status}"),
    }
}

/// Tasks as a table. Ids are kept apart among all there are, because any of them can be named.
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

/// An id and what is to be known of it at a glance, in the words and the order that agents are shown.
fn marked_name(task: &Task, all: &[Task]) -> String {
    let forked = if task.is_forked() { " (forked)" } else { "" };
    let resumed = if task.resumes() > 0 { " (resumed)" } else { "" };
    format!("{}{forked}{resumed}", name(task, all))
}

/// How often tasks were given their parent's context, how much of it and how often the budget cut it, in a line.
fn forks_text(figures: &ForkFigures) -> Option<String> {
    let ForkFigures { forks, digests, histories, without, cut, tokens, largest } = *figures;
    if forks == 0 {
        return None;
    }
    let ways = [(digests, "digest"), (histories, "history"), (without, "with nothing")];
    let ways = ways.iter().filter(|(count, _)| *count > 0);
    let ways: Vec<String> = ways.map(|(count, way)| format!("{count} {way}")).collect();
    let cut = if cut > 0 { format!("; the budget cut {cut} of them") } else { String::new() };
    Some(format!(
        "{}: {}; about {} tokens, the largest {} tokens{cut}",
        counted(forks, "fork"),
        ways.join(", "),
        plimsoll::Tokens(tokens),
        plimsoll::Tokens(largest)
    ))
}

/// How many tasks stand where, in a line.
pub(super) fn summary(tasks: &[&Task]) -> String {
    use plimsoll_agent::tasks::TaskStatus;
    let standing = |status: TaskStatus| tasks.iter().filter(|task| task.status == status).count();
    let named = TaskStatus::ALL.map(|status| (standing(status), status));
    let named = named.iter().filter(|(count, _)| *count > 0);
    let named: Vec<String> = named.map(|(count, status)| format!("{count} {status}")).collect();
    format!("{}: {}", counted(tasks.len(), "task"), named.join(", "))
}
