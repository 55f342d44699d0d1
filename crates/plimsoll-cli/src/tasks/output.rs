//! `plimsoll tasks output`: what a task came to, on standard output alone.

use std::process::ExitCode;
use std::time::Duration;

use plimsoll_agent::tasks::{Task, TaskStatus, TranscriptFilter, transcript_text};
use plimsoll_host::{Host, HostError, TaskSession, current_tasks};
use plimsoll_store::StoreError;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::progress_text;
use crate::args::OutputArgs;
use crate::error::CommandResult;
use crate::interrupt;
use crate::notices::task_end;
use crate::output::{Output, note};

/// How often it is looked whether the process of the task has gone.
const LOOK_AFTER: Duration = Duration::from_secs(5);

/// Print what a task came to.
pub(super) fn run(args: &OutputArgs, host: &Host, output: &mut Output) -> CommandResult {
    let desk = super::open(host)?;
    let (mut task, _) = desk.find(&args.task)?;
    if let (Some(longest), true) = (args.wait, task.status.is_active()) {
        let waited = host.during("waiting for the task", || wait(&desk, &task, longest))?;
        let Some(waited) = waited else { return Ok(ExitCode::from(interrupt::INTERRUPTED_CODE)) };
        task = waited;
    }
    if args.full {
        print_messages(args, &task, &desk, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let data = &task.data;
    if output.json {
        let told =
            json!({ "id": task.id, "status": task.status, "result": data.result, "error": data.error });
        output.json(&told)?;
    } else if let Some(result) = data.result.as_deref().filter(|_| !task.status.is_active()) {
        output.words(result.trim_end())?;
        output.flush()?;
    }
    if task.status == TaskStatus::Completed {
        if data.result.is_none() && !output.json {
            note("the task has finished without a word");
        }
        return Ok(ExitCode::SUCCESS);
    }
    note(&why_none(&task));
    Ok(ExitCode::from(1))
}

/// Why there is no result.
pub(super) fn why_none(task: &Task) -> String {
    let error = task.data.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    match task.status {
        TaskStatus::Queued => "the task waits for its turn".to_owned(),
        TaskStatus::Running | TaskStatus::Resumed => {
            format!("the task is at work: {}", progress_text(&task.data.progress))
        }
        status => format!("the task {}{error}", task_end(status)),
    }
}

/// Wait until a task has ended, or the time is over; none if the wait was interrupted.
fn wait(desk: &TaskSession, task: &Task, longest: Option<u64>) -> Result<Option<Task>, HostError> {
    let cancel = CancellationToken::new();
    interrupt::cancel_first(cancel.clone());
    let until = longest.map(|seconds| std::time::Instant::now() + Duration::from_secs(seconds));
    desk.runtime.block_on(async {
        loop {
            let left = until.map(|until| until.saturating_duration_since(std::time::Instant::now()));
            let longest = left.map_or(LOOK_AFTER, |left| left.min(LOOK_AFTER));
            let now = desk.board.wait(&task.id, longest, &cancel).await?;
            if cancel.is_cancelled() {
                return Ok(None);
            }
            if !now.status.is_active() || left.is_some_and(|left| left <= longest) {
                return Ok(Some(now));
            }
            // A task whose process was killed ends nowhere else.
            current_tasks(&desk.board).await?;
        }
    })
}

fn print_messages(
    args: &OutputArgs,
    task: &Task,
    desk: &TaskSession,
    output: &mut Output,
) -> Result<(), HostError> {
    let filter = TranscriptFilter {
        since: args.since.clone(),
        most: Some(args.messages),
        thinking: args.thinking,
        results: args.results,
        // A person may not know what the parent knew.
        forked_for: None,
    };
    let messages = match filter.read(&desk.opened.archive, &task.id) {
        Ok(messages) => messages,
        // The session of a task may have been removed.
        Err(StoreError::Missing { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if output.json {
        let first = messages.len().saturating_sub(args.messages);
        return Ok(output.json(&&messages[first..])?);
    }
    Ok(output.words(&transcript_text(&messages, &filter))?)
}
