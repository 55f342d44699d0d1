//! `plimsoll tasks cancel`, `steer` and `clear`, for tasks of any process.

use std::process::ExitCode;

use plimsoll_agent::tasks::{Speaker, Task, TaskStatus};
use plimsoll_host::{Host, HostError, TaskFilter};
use serde_json::json;

use super::name;
use crate::args::ClearArgs;
use crate::error::{CommandResult, print_all_but_worst};
use crate::output::{Output, counted, first_words, note};

/// Maximum number of characters of a description that are shown.
const WORDS: usize = 60;

/// Cancels tasks.
pub(super) fn cancel(ids: &[String], host: &Host, output: &mut Output) -> CommandResult {
    let task_session = super::open(host)?;
    let (mut cancelled, mut failed) = (Vec::new(), Vec::new());
    for id in ids {
        let done = task_session.find(id).and_then(|(task, all)| {
            let shown = name(&task, &all);
            let was_active = task.status.is_active();
            let task = task_session.runtime.block_on(task_session.board.cancel(&task.id))?;
            Ok((task, shown, was_active))
        });
        match done {
            Ok((task, shown, was_active)) => {
                if !output.json {
                    let what = match was_active && task.status == TaskStatus::Cancelled {
                        true => format!("cancelled {shown}"),
                        // The task had ended; only a queued resume was left.
                        false => {
                            format!("cancelled the queued resume of {shown}, which is {}", task.status)
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
    // A task that has already ended does not keep the others from being cancelled.
    print_all_but_worst(failed).map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Sends a message to a task.
pub(super) fn steer(id: &str, message: &str, host: &Host, output: &mut Output) -> CommandResult {
    if message.trim().is_empty() {
        return Err(HostError::usage("the message is empty"));
    }
    let task_session = super::open(host)?;
    let (task, all) = task_session.find(id)?;
    let task_now =
        task_session.runtime.block_on(task_session.board.steer(&task.id, message, Speaker::User))?;
    if output.json {
        output.json(&task_now)?;
    } else {
        let sent = about(&format!("sent to {}", name(&task, &all)), &task);
        output.text(&format!("{sent}; the task reads it before its next step"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Hides tasks from the list.
pub(super) fn clear(args: &ClearArgs, host: &Host, output: &mut Output) -> CommandResult {
    let task_session = super::open(host)?;
    let all = task_session.tasks()?;
    let parent = args.session.as_ref().map(|id| task_session.opened.session(id, host)).transpose()?;
    let parent = parent.map(|session| session.id);
    let directory = host.directory().to_str().filter(|_| parent.is_none()).map(str::to_owned);
    let filter = TaskFilter { parent, directory, limit: usize::MAX, ..TaskFilter::default() };
    let (tasks, _) = task_session.choose(&filter, &all)?;
    let active: Vec<String> =
        tasks.iter().rev().filter(|task| task.status.is_active()).map(|task| name(task, &all)).collect();
    if !active.is_empty() && !args.cancel {
        let message = format!("{} running: {}", counted_are(active.len()), active.join(", "));
        return Err(HostError::negative(message).hint("`--cancel` cancels running tasks and clears them too"));
    }
    let (cancelled, cleared) = task_session.clear(&tasks)?;
    if output.json {
        output.json(&json!({ "cancelled": cancelled, "cleared": cleared }))?;
    } else if cleared == 0 {
        note("no background tasks to clear");
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
