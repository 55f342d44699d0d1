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

/// So much of a text is shown in one line.
const WORDS: usize = 400;

/// Show everything about a task.
pub(super) fn run(given: &str, host: &Host, output: &mut Output) -> CommandResult {
    let desk = super::open(host)?;
    let (task, all) = desk.find(given)?;
    if output.json {
        output.json(&TaskPage { tasks_spend: spend_below(&task.id, &all), task: &task })?;
        return Ok(ExitCode::SUCCESS);
    }
    output.report(&page(&task, &all))?;
    output.flush()?;
    note(&next_step(&task, &name(&task, &all)));
    Ok(ExitCode::SUCCESS)
}

/// Everything about a task, for machines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskPage<'a> {
    #[serde(flatten)]
    task: &'a Task,
    /// What its own tasks and theirs were charged, beside what it was.
    tasks_spend: Spend,
}

/// Everything about a task, as a page for people.
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
    row("launched", &format!("{}, {}", when::utc(task.created), when::ago(task.created)));
    row("tools", &tools_text(&data.progress));
    let usage = &data.progress.usage;
    let usage = [usage.input, usage.output, usage.reasoning, usage.cache_read, usage.cache_write];
    row("usage", &usage_text(usage));
    row("cost", &cost_after("", data.progress.cost));
    let below = spend_below(&task.id, all);
    if !below.is_none() {
        row("its tasks", &spend_text(&below));
    }
    row("in line", data.pending.as_deref().unwrap_or_default());
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

/// A heading and a text below it, every line of it set in.
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
            "`plimsoll tasks output {name} --wait` waits for it, `steer {name}` says something to it, `cancel {name}` ends it"
        ),
        false => format!(
            "`plimsoll tasks resume {name} \"…\"` takes it up again, `plimsoll chat --session {}` talks to it",
            task.id
        ),
    }
}
