//! `plimsoll tasks show`.

use std::process::ExitCode;

use plimsoll_agent::tasks::{Spend, Task, duration_text, fork_text, spend_below};
use plimsoll_host::Host;
use serde::Serialize;

use super::{name, tools_text};
use crate::error::CommandResult;
use crate::figures::{cost_after, spend_text, usage_text};
use crate::output::{Output, first_words, note, printable};
use crate::when;

/// Maximum number of characters of a text in a row.
const WORDS: usize = 400;

/// Shows the details of a task.
pub(super) fn run(id: &str, host: &Host, output: &mut Output) -> CommandResult {
    let task_session = super::open(host)?;
    let (task, all) = task_session.find(id)?;
    if output.json {
        output.json(&TaskPage { tasks_spend: spend_below(&task.id, &all), task: &task })?;
        return Ok(ExitCode::SUCCESS);
    }
    output.report(&page(&task, &all))?;
    output.flush()?;
    note(&next_step(&task, &name(&task, &all)));
    Ok(ExitCode::SUCCESS)
}

/// Details of a task as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskPage<'a> {
    #[serde(flatten)]
    task: &'a Task,
    /// Usage and cost of the tasks that it started, directly or indirectly.
    tasks_spend: Spend,
}

/// Formats the details of a task.
pub(crate) fn page(task: &Task, all: &[Task]) -> String {
    let children = all.iter().filter(|other| other.parent == task.id).map(|child| name(child, all));
    let children: Vec<String> = children.collect();
    let (data, now) = (&task.data, when::now());
    let mut text = format!("{}\n", task.id);
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("  {name:<13}{}\n", first_words(value, WORDS)));
        }
    };
    let cleared = if data.cleared { ", cleared" } else { "" };
    row("description", &data.description);
    row("status", &format!("{}, {}{cleared}", task.status, duration_text(task.duration(now))));
    row("error", data.error.as_deref().unwrap_or_default());
    row("agent", &data.agent);
    row("model", &data.model);
    row("task of", task.parent.as_str());
    row("tasks", &children.join(", "));
    row("context", &data.fork.as_ref().map(fork_text).unwrap_or_default());
    row("started", &format!("{}, {}", when::utc(task.created), when::ago(task.created)));
    row("tools", &tools_text(&data.progress));
    let usage = &data.progress.usage;
    let usage = [usage.input, usage.output, usage.reasoning, usage.cache_read, usage.cache_write];
    row("usage", &usage_text(usage));
    row("cost", &cost_after("", data.progress.cost));
    let below = spend_below(&task.id, all);
    if !below.is_none() {
        row("its tasks", &spend_text(&below));
    }
    row("queued", data.pending.as_deref().unwrap_or_default());
    if data.runs.len() > 1 {
        text.push_str("\nRuns\n");
        for (at, run) in data.runs.iter().enumerate() {
            let end = run.end.map_or(task.status, |end| end);
            let time = duration_text(run.duration(now));
            let prompt = run.prompt.as_deref().unwrap_or(&data.prompt);
            let line = format!(
                "{:>3}  {}  {end}, {time}: {}",
                at + 1,
                when::utc(run.asked),
                first_words(prompt, 60)
            );
            text.push_str(&format!("  {}\n", line.trim_start()));
        }
    }
    section(&mut text, "Prompt", &data.prompt);
    for (at, run) in data.runs.iter().enumerate().take(data.runs.len().saturating_sub(1)) {
        let result = run.result.as_deref().unwrap_or_default();
        section(&mut text, &format!("Result of run {}", at + 1), result);
    }
    section(&mut text, "Result", data.result.as_deref().unwrap_or_default());
    text.trim_end().to_owned()
}

/// Appends a heading and an indented text.
fn section(text: &mut String, heading: &str, content: &str) {
    if content.trim().is_empty() {
        return;
    }
    text.push_str(&format!("\n{heading}\n"));
    for line in printable(content.trim_end()).lines() {
        text.push_str(&format!("  {line}\n"));
    }
}

fn next_step(task: &Task, name: &str) -> String {
    match task.status.is_active() {
        true => format!(
            "wait with `plimsoll tasks output {name} --wait`, send a message with `steer {name}`, stop it with `cancel {name}`"
        ),
        false => format!(
            "resume it with `plimsoll tasks resume {name} \"…\"`, or continue it with `plimsoll chat --session {}`",
            task.id
        ),
    }
}
