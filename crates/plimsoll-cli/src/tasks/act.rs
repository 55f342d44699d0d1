//! `plimsoll tasks cancel`, `steer` and `clear`: they reach tasks in whatever process those are.

use std::collections::BTreeSet;
use std::process::ExitCode;

use plimsoll::SessionId;
use plimsoll_agent::tasks::{Speaker, Task, TaskStatus};
use serde_json::json;

use super::list::sessions_of;
use super::{Desk, name};
use crate::args::ClearArgs;
use crate::error::CliError;
use crate::output::{Output, counted, first_words, note};
use crate::surroundings::Surroundings;

/// So much of a description is shown.
const WORDS: usize = 60;

/// Cancel tasks.
pub(super) fn cancel(
    given: &[String],
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let desk = Desk::open(around)?;
    let (mut cancelled, mut failed) = (Vec::new(), Vec::new());
    for given in given {
        let done = desk.find(given).and_then(|(task, all)| {
            let shown = name(&task, &all);
            let was_active = task.status.is_active();
            let task = desk.runtime.block_on(desk.board.cancel(&task.id))?;
            Ok((task, shown, was_active))
        });
        match done {
            Ok((task, shown, was_active)) => {
                if !output.json {
                    let what = match was_active && task.status == TaskStatus::Cancelled {
                        true => format!("cancelled {shown}"),
                        // It had ended: only a resume that waited behind the end was left.
                        false => {
                            format!("dropped the resume that waited for {shown}, which is {}", task.status)
                        }
                    };
                    output.text(&about(&what, &task))?;
                    output.flush()?;
                }
                cancelled.push(task);
            }
            Err(error) => failed.push(error),
        }
    }
    if output.json {
        output.json(&cancelled)?;
    }
    // One that has ended already does not keep the others from being cancelled.
    failed.sort_by_key(CliError::is_failure);
    let Some(last) = failed.pop() else { return Ok(ExitCode::SUCCESS) };
    failed.iter().for_each(CliError::tell);
    Err(last)
}

/// Say something to a task.
pub(super) fn steer(
    given: &str,
    message: &str,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    if message.trim().is_empty() {
        return Err(CliError::usage("there is nothing to say to the task"));
    }
    let desk = Desk::open(around)?;
    let (task, all) = desk.find(given)?;
    let task_now = desk.runtime.block_on(desk.board.steer(&task.id, message, Speaker::User))?;
    if output.json {
        output.json(&task_now)?;
    } else {
        let told = about(&format!("sent to {}", name(&task, &all)), &task);
        output.text(&format!("{told}; it is read before the task's next step"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// List tasks no more.
pub(super) fn clear(
    args: &ClearArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let desk = Desk::open(around)?;
    let all = desk.tasks()?;
    let is_listed = |task: &&Task| !task.data.cleared;
    let tasks: Vec<&Task> = match &args.session {
        Some(id) => {
            let parent = desk.opened.session(id, around)?.id;
            all.iter().filter(|task| task.parent == parent).filter(is_listed).collect()
        }
        None => {
            let here = sessions_of(&desk, around.directory.to_str().unwrap_or_default())?;
            let is_here = |task: &&Task| here.contains(&task.id) || here.contains(&task.parent);
            all.iter().filter(is_here).filter(is_listed).collect()
        }
    };
    let active: Vec<String> =
        tasks.iter().filter(|task| task.status.is_active()).map(|task| name(task, &all)).collect();
    if !active.is_empty() && !args.cancel {
        let message = format!("{} at work: {}", counted_are(active.len()), active.join(", "));
        return Err(CliError::no(message).hint("`--cancel` cancels what is at work, and clears it too"));
    }
    let parents: BTreeSet<&SessionId> = tasks.iter().map(|task| &task.parent).collect();
    let (mut cancelled, mut cleared) = (0, 0);
    for parent in parents {
        let (aborted, gone) = desk.runtime.block_on(desk.board.clear(parent))?;
        cancelled += aborted.len();
        cleared += gone.len();
    }
    if output.json {
        output.json(&json!({ "cancelled": cancelled, "cleared": cleared }))?;
    } else if cleared == 0 {
        note("there are no background tasks to clear");
    } else {
        let cancelled =
            if cancelled > 0 { format!(", {cancelled} of them cancelled") } else { String::new() };
        output.text(&format!("cleared {}{cancelled}", counted(cleared, "task")))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn about(what: &str, task: &Task) -> String {
    format!("{what} ({})", first_words(&task.data.description, WORDS))
}

fn counted_are(count: usize) -> String {
    format!("{} {}", counted(count, "task"), if count == 1 { "is" } else { "are" })
}
