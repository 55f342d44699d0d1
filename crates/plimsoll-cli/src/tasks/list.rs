//! `plimsoll tasks list`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use plimsoll::{Millis, SessionId};
use plimsoll_agent::tasks::{ForkFigures, Task, duration_text};
use plimsoll_store::Filter;

use super::{Desk, name, watch};
use crate::args::{PolicyArgs, TaskList};
use crate::config::Config;
use crate::error::CliError;
use crate::output::{Column, Holds, Output, Table, counted, note};
use crate::store::Opened;
use crate::surroundings::Surroundings;
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
pub(super) fn run(
    args: &TaskList,
    once: Once,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    if args.watch && !output.json && !output.is_terminal() {
        return Err(CliError::usage("a live list needs a terminal")
            .hint("`plimsoll tasks --watch --json` prints a line for each change"));
    }
    let config = Config::load(&PolicyArgs::default(), around)?;
    let Some(opened) = Opened::if_there(&config)? else {
        // Where nothing was stored yet there are no tasks, which is an answer.
        if output.json && !args.watch {
            output.json(&Vec::<Task>::new())?;
        } else {
            note("there are no background tasks");
        }
        return Ok(ExitCode::SUCCESS);
    };
    let desk = Desk::of(opened)?;
    let wanted = Wanted::new(args, &desk, around)?;
    if args.watch {
        return watch::run(&desk, &wanted, watch::Until::Left, output);
    }
    let all = desk.tasks()?;
    let shown = wanted.choose(&all, &desk)?;
    if output.json {
        output.json(&shown.tasks)?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_active = shown.tasks.iter().any(|task| task.status.is_active());
    if once == Once::UnlessActive && is_active && output.is_terminal() {
        return watch::run(&desk, &wanted, watch::Until::AllEnded, output);
    }
    if shown.tasks.is_empty() {
        note(&wanted.nothing(around));
        return Ok(ExitCode::SUCCESS);
    }
    if args.session.is_none() && !args.all {
        note(&format!("tasks of `{}`; `--all` lists every directory", around.short(&around.directory)));
    }
    output.table(&table(&shown.tasks, &all, when::now()))?;
    if let Some(forks) = forks_text(&ForkFigures::of(shown.tasks.iter().copied())) {
        note(&forks);
    }
    if shown.more > 0 {
        note(&format!("{} more; `--limit` lists them", plimsoll::Tokens(shown.more as u64)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Which tasks are wanted.
pub(super) struct Wanted {
    list: TaskList,
    /// The session whose tasks they are.
    parent: Option<SessionId>,
    directory: Option<String>,
}

/// The tasks that are shown, the newest first, and how many more there are.
pub(super) struct Shown<'a> {
    pub(super) tasks: Vec<&'a Task>,
    pub(super) more: usize,
}

impl Wanted {
    fn new(args: &TaskList, desk: &Desk, around: &Surroundings) -> Result<Wanted, CliError> {
        let parent = args.session.as_deref().map(|id| desk.opened.session(id, around)).transpose()?;
        let is_here = !args.all && parent.is_none();
        let directory = around.directory.to_str().filter(|_| is_here).map(str::to_owned);
        Ok(Wanted { list: args.clone(), parent: parent.map(|session| session.id), directory })
    }

    /// Those of all tasks that are wanted.
    pub(super) fn choose<'a>(&self, all: &'a [Task], desk: &Desk) -> Result<Shown<'a>, CliError> {
        let here = self.directory.as_deref().map(|directory| sessions_of(desk, directory)).transpose()?;
        let is_wanted = |task: &&Task| {
            (self.list.cleared || !task.data.cleared)
                && self.list.status.is_none_or(|status| task.status.is_listed_as(status.name()))
                && self.parent.as_ref().is_none_or(|parent| task.parent == *parent)
                // The session of a task may have been removed, and its parent be still there.
                && here.as_ref().is_none_or(|here| here.contains(&task.id) || here.contains(&task.parent))
        };
        let mut tasks: Vec<&Task> = all.iter().filter(is_wanted).collect();
        // Ids sort from the newest to the oldest, which keeps the order within a millisecond.
        tasks.sort_by(|one, other| other.created.cmp(&one.created).then_with(|| one.id.cmp(&other.id)));
        let more = tasks.len().saturating_sub(self.list.limit);
        tasks.truncate(self.list.limit);
        Ok(Shown { tasks, more })
    }

    /// What is said where there is nothing to list.
    pub(super) fn nothing(&self, around: &Surroundings) -> String {
        let status = self.list.status.map(|status| format!(" with the status `{status}`"));
        let status = status.unwrap_or_default();
        match (&self.parent, &self.directory) {
            (Some(parent), _) => format!("`{parent}` has no background tasks{status}"),
            (None, Some(_)) => format!(
                "there are no background tasks{status} in `{}`; `--all` lists every directory",
                around.short(&around.directory)
            ),
            (None, None) => format!("there are no background tasks{status}"),
        }
    }
}

/// The sessions of a directory, those of tasks too.
pub(super) fn sessions_of(desk: &Desk, directory: &str) -> Result<BTreeSet<SessionId>, CliError> {
    let filter = Filter { directory: Some(directory.to_owned()), all: true, ..Filter::default() };
    let sessions = desk.opened.archive.store().sessions(&filter)?;
    Ok(sessions.into_iter().map(|session| session.id).collect())
}

/// Tasks as a table. Ids are kept apart among all there are, because any of them can be named.
pub(crate) fn table(tasks: &[&Task], all: &[Task], now: Millis) -> Table {
    let column = |heading, holds| Column { heading, holds };
    let mut table = Table::new(vec![
        column("ID", Holds::Names),
        column("STATUS", Holds::Names),
        column("AGENT", Holds::Names),
        column("AGE", Holds::Numbers),
        column("TIME", Holds::Numbers),
        column("CALLS", Holds::Numbers),
        column("DESCRIPTION", Holds::Words(8)),
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
