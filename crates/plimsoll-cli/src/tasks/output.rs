//! `plimsoll tasks output`: the result of a task on standard output.

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

/// Interval at which the process of a task is checked for having exited.
const LOOK_AFTER: Duration = Duration::from_secs(5);

/// Prints the result of a task.
pub(super) fn run(args: &OutputArgs, host: &Host, output: &mut Output) -> CommandResult {
    let task_session = super::open(host)?;
    let (mut task, _) = task_session.find(&args.task)?;
    if let (Some(longest), true) = (args.wait, task.status.is_active()) {
        let waited = host.during("waiting for the task", || wait(&task_session, &task, longest))?;
        let Some(waited) = waited else { return Ok(ExitCode::from(interrupt::INTERRUPTED_CODE)) };
        task = waited;
    }
    if args.full {
        print_messages(args, &task, &task_session, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let data = &task.data;
    if output.json {
        let value =
            json!({ "id": task.id, "status": task.status, "result": data.result, "error": data.error });
        output.json(&value)?;
    } else if let Some(result) = data.result.as_deref().filter(|_| !task.status.is_active()) {
        output.words(result.trim_end())?;
        output.flush()?;
    }
    if task.status == TaskStatus::Completed {
        if data.result.is_none() && !output.json {
            note("the task completed without an answer");
        }
        return Ok(ExitCode::SUCCESS);
    }
    note(&missing_result(&task));
    Ok(ExitCode::from(1))
}

/// Explains why there is no result.
pub(super) fn missing_result(task: &Task) -> String {
    let error = task.data.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    match task.status {
        TaskStatus::Queued => "the task is queued".to_owned(),
        TaskStatus::Running | TaskStatus::Resumed => {
            format!("the task is still running: {}", progress_text(&task.data.progress))
        }
        status => format!("the task {}{error}", task_end(status)),
    }
}

/// Waits until a task has ended or the time is up; `None` if interrupted.
fn wait(task_session: &TaskSession, task: &Task, longest: Option<u64>) -> Result<Option<Task>, HostError> {
    let cancel = CancellationToken::new();
    interrupt::cancel_first(cancel.clone());
    let until = longest.map(|seconds| std::time::Instant::now() + Duration::from_secs(seconds));
    task_session.runtime.block_on(async {
        loop {
            let left = until.map(|until| until.saturating_duration_since(std::time::Instant::now()));
            let longest = left.map_or(LOOK_AFTER, |left| left.min(LOOK_AFTER));
            let now = task_session.board.wait(&task.id, longest, &cancel).await?;
            if cancel.is_cancelled() {
                return Ok(None);
            }
            if !now.status.is_active() || left.is_some_and(|left| left <= longest) {
                return Ok(Some(now));
            }
            // The end of a task whose process was killed is only recorded here.
            current_tasks(&task_session.board).await?;
        }
    })
}

fn print_messages(
    args: &OutputArgs,
    task: &Task,
    task_session: &TaskSession,
    output: &mut Output,
) -> Result<(), HostError> {
    let filter = TranscriptFilter {
        since: args.since.clone(),
        most: Some(args.messages),
        thinking: args.thinking,
        results: args.results,
        // The user may not know what the parent knew, so inherited messages are included.
        forked_for: None,
    };
    let messages = match filter.read(&task_session.opened.archive, &task.id) {
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
