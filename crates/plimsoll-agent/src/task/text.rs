//! Texts about tasks for models and users. Pure functions of tasks and the time.

use std::time::Duration;

use plimsoll::{Message, Millis};

use super::ids::short_id;
use super::record::{ForkReceipt, ForkWay, Task, TaskPhase, TaskRun};
use super::status::TaskStatus;
use super::transcript::{TranscriptFilter, transcript_text};

/// Error for a fork of an existing task.
pub const FORK_AND_RESUME: &str = "Cannot use fork and resume together. Use fork for new tasks with context, resume for \
                                   continuing existing tasks.";
/// Error for a launch without an agent.
pub const AGENT_REQUIRED: &str = "Agent parameter is required. Specify which agent to use.";
/// Error for a resume without a prompt.
pub const PROMPT_REQUIRED: &str = "Prompt is required when resuming a task";
/// Note about ignored parameters of a resume.
pub const IGNORED_IN_RESUME: &str = "Note: agent and description are ignored in resume mode.";
/// Reply to a clear that finds no tasks.
pub const NOTHING_TO_CLEAR: &str = "No background tasks to clear.";
/// Maximum length of a prompt in a status, in chars.
const PROMPT_CHARS: usize = 500;
/// Maximum length of a result in the note about a run's end, if the task has been resumed since.
const RESULT_CHARS: usize = 4_000;
/// Maximum length of a description in a list, in chars.
const DESCRIPTION_CHARS: usize = 30;
/// Maximum number of ended tasks in a toast.
const TOAST_ENDED: usize = 10;

/// Formats a duration: `5s`, `2m 5s`, `1h 2m 5s`.
pub fn duration_text(length: Duration) -> String {
    let seconds = length.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m {seconds}s"),
        _ => format!("{hours}h {minutes}m {seconds}s"),
    }
}

/// A task with its siblings, for formatting.
#[derive(Clone, Copy)]
pub struct TaskView<'a> {
    /// The task.
    pub task: &'a Task,
    /// All tasks of its parent, which determine how short an ID can be.
    pub siblings: &'a [Task],
    /// The current time.
    pub now: Millis,
}

impl TaskView<'_> {
    /// Returns the shortened ID.
    pub fn short_id(&self) -> String {
        short_id(&self.task.id, self.siblings.iter().map(|task| &task.id))
    }

    fn duration(&self) -> String {
        duration_text(self.task.duration(self.now))
    }

    /// Formats the reply to a launch.
    pub fn launched(&self) -> String {
        let mut text = format!(
            "⏳ **Background task launched**\nTask ID: `{}`\n\nYou can continue working or say 'waiting' and halt.",
            self.short_id()
        );
        if let Some(warning) = self.task.data.fork.as_ref().and_then(|fork| fork.warning.as_ref()) {
            text.push_str(&format!("\n\nWarning: {warning}"));
        }
        text
    }

    /// Formats the reply to a resume.
    pub fn resumed(&self) -> String {
        let count = match self.task.resumes() {
            0 | 1 => String::new(),
            count => format!("\nResume count: {count}"),
        };
        format!(
            "⏳ **Resume initiated**\nTask ID: `{}`{count}\n\nYou will be notified when the resumed task ends.",
            self.short_id()
        )
    }

    /// Formats the reply to a queued resume.
    pub fn resume_queued(&self) -> String {
        format!(
            "⏳ **Resume queued**\nTask ID: `{}`\n\nWill execute automatically when the current run completes.",
            self.short_id()
        )
    }

    /// Formats the reply to a cancel.
    pub fn cancelled(&self) -> String {
        format!(
            "⊘ **Task cancelled**\n\nTask ID: `{}`\nDescription: {}\nStatus: ⊘ cancelled",
            self.short_id(),
            self.task.data.description
        )
    }

    /// Formats the reply to a steering message.
    pub fn steered(&self) -> String {
        format!(
            "↪ **Message sent**\nTask ID: `{}`\n\nThe task reads it before its next request.",
            self.short_id()
        )
    }

    /// Formats the result of a completed task, or the status of any other.
    pub fn output(&self) -> String {
        match self.task.status {
            TaskStatus::Completed => self.result(),
            _ => self.status() + &self.last_text(),
        }
    }

    /// Formats the last text of an unfinished run, or the result of the run before: a queued resume must not hide a
    /// result that was not read yet.
    fn last_text(&self) -> String {
        let data = &self.task.data;
        let own = data.result.as_ref().filter(|_| !self.task.status.is_active());
        let before = || data.runs.iter().rev().skip(1).find_map(|run| run.result.as_ref());
        match (own, before()) {
            (Some(own), _) => format!("\n\n## Output so far\n\n{own}"),
            (None, Some(before)) => format!("\n\n## Result of the previous run\n\n{before}"),
            (None, None) => String::new(),
        }
    }

    fn result(&self) -> String {
        let data = &self.task.data;
        let text = match &data.result {
            Some(text) => text.as_str(),
            None if data.progress.steps == 0 => "(No assistant response found)",
            None => "(No text output)",
        };
        format!(
            "✓ **Task Completed**\n\n| Field | Value |\n|-------|-------|\n| Task ID | `{}` |\n| Description | {} |\n\
             | Duration | {} |\n\n---\n\n{text}",
            self.short_id(),
            cell(&data.description),
            self.duration()
        )
    }

    fn status(&self) -> String {
        let (data, status) = (&self.task.data, self.task.status);
        let icon = status.icon();
        let mut text = format!(
            "# {icon} Task Status\n\n| Field | Value |\n|-------|-------|\n| Task ID | `{}` |\n| Description | {} |\n\
             | Agent | {} |\n| Status | {icon} **{status}** |\n| Duration | {} |\n",
            self.short_id(),
            cell(&data.description),
            cell(&data.agent),
            self.duration()
        );
        if !data.progress.last_tools.is_empty() {
            text.push_str(&format!("| Last tools | {} |\n", cell(&data.progress.last_tools.join(" → "))));
        }
        if let Some(fork) = &data.fork {
            text.push_str(&format!("| Context | {} |\n", cell(&fork_text(fork))));
        }
        let id = self.short_id();
        let note = match status {
            TaskStatus::Queued | TaskStatus::Running | TaskStatus::Resumed | TaskStatus::Completed => {
                "> **Note**: No need to wait explicitly. You will be notified when this task ends.".to_owned()
            }
            TaskStatus::Error => {
                let error = data.error.as_deref().unwrap_or("Unknown error");
                format!("> **Failed**: {}", error.replace('\n', "\n> "))
            }
            TaskStatus::Cancelled => match &data.error {
                None => "> **Cancelled**: The task was cancelled before it was finished.".to_owned(),
                Some(why) => format!("> **Cancelled**: {}", why.replace('\n', "\n> ")),
            },
            TaskStatus::Interrupted => format!(
                "> **Interrupted**: The process that ran the task is gone. Resume it with \
                 background_task(resume: \"{id}\", prompt: \"...\")."
            ),
        };
        let prompt = cut(&data.prompt, PROMPT_CHARS, PROMPT_CHARS);
        let fence = fence_for(&prompt);
        text.push_str(&format!("\n{note}\n\n## Original Prompt\n\n{fence}\n{prompt}\n{fence}"));
        text
    }

    /// Formats the messages of the task's session after its status. The status comes first because a long text is cut
    /// at its end and the run then counts as reported.
    pub fn session(&self, messages: &[Message], filter: &TranscriptFilter) -> String {
        let (status, data) = (self.task.status, &self.task.data);
        let error = data.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        let mut text = format!("Status: {} {status} ({}){error}\n", status.icon(), self.duration());
        if let Some(fork) = data.fork.as_ref().filter(|_| filter.forked_for.is_some()) {
            text.push_str(&format!("Inherited context, not shown: {}\n", fork_text(fork)));
        }
        format!("{text}\n---\n\n{}", transcript_text(messages, filter))
    }

    /// Formats a row of the list.
    fn row(&self) -> String {
        let (task, data) = (self.task, &self.task.data);
        let mut id = self.short_id();
        if task.is_forked() {
            id.push_str(" (forked)");
        }
        if task.resumes() > 0 {
            id.push_str(" (resumed)");
        }
        let description = cut(&data.description, DESCRIPTION_CHARS, DESCRIPTION_CHARS - 3);
        format!(
            "| `{id}` | {} | {} | {} {} | {} | {} |",
            cell(&description),
            cell(&data.agent),
            task.status.icon(),
            task.status,
            self.duration(),
            tools_text(task)
        )
    }
}

/// Formats the tasks of a session as a table, filtered by `status`.
pub fn list_text(tasks: &[Task], status: Option<&str>, now: Millis) -> String {
    let wanted = status.map(|status| status.trim().to_lowercase()).filter(|status| !status.is_empty());
    let mut shown: Vec<&Task> = tasks
        .iter()
        .filter(|task| !task.data.cleared)
        .filter(|task| wanted.as_ref().is_none_or(|wanted| task.status.is_listed_as(wanted)))
        .collect();
    if shown.is_empty() {
        return match status.filter(|_| wanted.is_some()) {
            Some(status) => format!("No background tasks found with status \"{status}\"."),
            None => "No background tasks found.".to_owned(),
        };
    }
    // Newer IDs sort first, which keeps the order of tasks launched within one millisecond.
    shown.sort_by(|one, other| other.created.cmp(&one.created).then_with(|| one.id.cmp(&other.id)));
    let rows: Vec<String> = shown.iter().map(|task| TaskView { task, siblings: tasks, now }.row()).collect();
    format!(
        "# Background Tasks\n\n| Task ID | Description | Agent | Status | Duration | Tools |\n\
         |---------|-------------|-------|--------|----------|-------|\n{}\n\n---\n\n{}",
        rows.join("\n"),
        summary_text(&shown)
    )
}

fn summary_text(tasks: &[&Task]) -> String {
    let count = |wanted: &[TaskStatus]| tasks.iter().filter(|task| wanted.contains(&task.status)).count();
    let mut text = format!(
        "**Total: {}** | ⏳ {} running | ✓ {} completed | ✗ {} error | ⊘ {} cancelled",
        tasks.len(),
        // A resumed task counts as running; otherwise the numbers would not add up.
        count(&[TaskStatus::Running, TaskStatus::Resumed]),
        count(&[TaskStatus::Completed]),
        count(&[TaskStatus::Error]),
        count(&[TaskStatus::Cancelled]),
    );
    for status in [TaskStatus::Queued, TaskStatus::Interrupted] {
        if count(&[status]) > 0 {
            text.push_str(&format!(" | {} {} {status}", status.icon(), count(&[status])));
        }
    }
    let calls: u64 = tasks.iter().map(|task| task.data.progress.tool_calls).sum();
    text.push_str(&format!(" | 🔧{calls}"));
    text
}

fn tools_text(task: &Task) -> String {
    let progress = &task.data.progress;
    let mut tools: Vec<(&String, &u64)> = progress.tools.iter().collect();
    tools.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
    match (tools.is_empty(), progress.tool_calls) {
        (true, 0) => "-".to_owned(),
        (true, calls) => format!("🔧{calls}"),
        _ => {
            let named = tools.iter().map(|(name, count)| cell(&format!("{name}:{count}")));
            named.collect::<Vec<_>>().join(" ")
        }
    }
}

/// Formats the reply to a clear.
pub fn cleared_text(aborted: usize, total: usize) -> String {
    format!(
        "✓ **Cleared all background tasks**\nRunning tasks aborted: {aborted}\nTotal tasks cleared: {total}"
    )
}

/// Formats a fork in one line.
pub fn fork_text(fork: &ForkReceipt) -> String {
    let mut text = match (fork.way, &fork.stats) {
        (ForkWay::Nothing, _) => "none".to_owned(),
        (ForkWay::History, _) => format!("history, {} messages shared", fork.shared.unwrap_or_default()),
        (ForkWay::Digest, None) => "digest".to_owned(),
        (ForkWay::Digest, Some(stats)) => format!(
            "digest of {} of {} messages, {} chars, {} results cut, {} messages removed",
            stats.final_count,
            stats.original_count,
            stats.total_chars.0,
            stats.truncated_results,
            stats.removed_messages
        ),
    };
    if let Some(tokens) = fork.tokens {
        text.push_str(&format!(", about {tokens} tokens"));
    }
    for (name, words) in [("", &fork.why), ("warning: ", &fork.warning)] {
        if let Some(words) = words {
            text.push_str(&format!("; {name}{words}"));
        }
    }
    text
}

/// A run that ended, as reported to the parent.
pub struct EndedRun<'a> {
    /// The task.
    pub task: &'a Task,
    /// Number of the run, from 1.
    pub run: u32,
}

/// State after a run has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextRun {
    /// No further run.
    None,
    /// A resume is queued.
    InLine,
    /// The task was resumed.
    Begun,
}

impl EndedRun<'_> {
    fn of_run(&self) -> Option<&TaskRun> {
        self.task.data.runs.get(usize::try_from(self.run).ok()?.checked_sub(1)?)
    }

    fn end(&self) -> TaskStatus {
        self.of_run().and_then(|run| run.end).unwrap_or(self.task.status)
    }

    /// Returns the state after this run.
    fn next(&self) -> NextRun {
        match self.run < self.task.run() {
            true => NextRun::Begun,
            false if self.task.data.pending.is_some() => NextRun::InLine,
            false => NextRun::None,
        }
    }

    /// Returns the text that only the model receives. `id` is the shortened ID.
    fn hints(&self, id: &str) -> Vec<String> {
        let (run, next) = (self.of_run(), self.next());
        let since = match next {
            NextRun::None => "",
            NextRun::InLine => " A resume is queued and starts automatically.",
            NextRun::Begun => " It has been resumed since.",
        };
        let mut hints = Vec::new();
        match self.end() {
            TaskStatus::Error => {
                let error = run.and_then(|run| run.error.as_deref()).unwrap_or("Unknown error");
                hints.push(format!(
                    "Task failed: {error}\nUse background_output(task_id: \"{id}\") for details.{since}"
                ));
            }
            TaskStatus::Interrupted => {
                let again = format!(" Resume it with background_task(resume: \"{id}\", prompt: \"...\").");
                let again = if next == NextRun::None { &again } else { since };
                hints.push(format!("Task interrupted: the process that ran it is gone.{again}"));
            }
            // Once the next run has ended, `background_output` no longer returns this result.
            TaskStatus::Completed if next != NextRun::None => {
                let newest = self.task.data.result.as_ref().filter(|_| next == NextRun::InLine);
                let result = newest.or_else(|| run?.result.as_ref());
                let result = result.map_or("(No text output)", String::as_str);
                let result = cut(result, RESULT_CHARS, RESULT_CHARS);
                hints
                    .push(format!("Task `{id}` completed this run.{since} The result of the run:\n{result}"));
            }
            _ => {}
        }
        if let Some(run) = run {
            let parents = run.unread.iter().map(|words| ("your message", words));
            let persons = run.unread_of_user.iter().map(|words| ("the user's message", words));
            let unread = parents.chain(persons);
            hints
                .extend(unread.map(|(what, words)| format!("The task ended before it read {what}: {words}")));
        }
        hints
    }

    /// Formats the line that the user sees.
    pub fn line(&self, now: Millis) -> String {
        let (end, description) = (self.end(), &self.task.data.description);
        let time = duration_text(self.of_run().map(|run| run.duration(now)).unwrap_or_default());
        let how = |finished: &str| match end {
            TaskStatus::Error => format!("failed in {time}"),
            TaskStatus::Cancelled => format!("cancelled after {time}"),
            TaskStatus::Interrupted => format!("interrupted after {time}"),
            _ => format!("{finished} in {time}"),
        };
        match self.run {
            0 | 1 => format!("{} **Agent \"{description}\" {}.**", end.icon(), how("finished")),
            run => format!(
                "{} **Agent \"{description}\": Resume #{} {}.**",
                end.icon(),
                run - 1,
                how("completed")
            ),
        }
    }
}

/// Formats the note about ended runs: the text that the user sees, and the text that only the model receives.
pub fn ended_text(ended: &[EndedRun<'_>], siblings: &[Task], now: Millis) -> (String, String) {
    let counted: Vec<&Task> = siblings.iter().filter(|task| !task.data.cleared).collect();
    let active = counted.iter().filter(|task| task.status.is_active()).count();
    let mut lines: Vec<String> = ended.iter().map(|run| run.line(now)).collect();
    // Another process may have cleared all of them.
    if !counted.is_empty() {
        lines.push(format!("Task Progress: {}/{}", counted.len() - active, counted.len()));
    }
    let name = |run: &EndedRun<'_>| TaskView { task: run.task, siblings, now }.short_id();
    let fetch = |run: &EndedRun<'_>| format!("background_output(task_id: \"{}\")", name(run));
    let mut hints: Vec<String> = ended.iter().flat_map(|run| run.hints(&name(run))).collect();
    let is_fetched = |run: &&EndedRun<'_>| run.end() == TaskStatus::Completed && run.next() == NextRun::None;
    let done = ended.iter().filter(is_fetched).map(fetch).collect::<Vec<_>>().join(", ");
    match (done.is_empty(), active) {
        (false, 0) => {
            hints.push(format!("{}\nUse {done} to see their results.", all_ended_text(&counted)));
        }
        (false, _) => hints.push(format!(
            "To see the result now, use {done}.\n{active} more still running: you can wait, you will be notified.\n\
             Leave no result unread before you finish."
        )),
        (true, 0) if !counted.is_empty() => hints.push(all_ended_text(&counted)),
        (true, _) => {}
    }
    (lines.join("\n"), hints.join("\n"))
}

fn all_ended_text(tasks: &[&Task]) -> String {
    let interrupted = tasks.iter().filter(|task| task.status == TaskStatus::Interrupted).count();
    match (interrupted, tasks.len()) {
        (0, all) => format!("All {all} tasks finished."),
        (some, all) => format!("No task is running any more; {some} of {all} were interrupted."),
    }
}

/// Formats the active tasks for a model whose window lost their launches to a summary.
pub(super) fn reminder_text(active: &[&Task], siblings: &[Task], now: Millis) -> String {
    let line = |task: &&Task| {
        let view = TaskView { task, siblings, now };
        format!(
            "- `{}` ({}): {} for {}",
            view.short_id(),
            task.data.description,
            task.status,
            view.duration()
        )
    };
    let lines: Vec<String> = active.iter().map(line).collect();
    format!(
        "Background tasks that you launched before the summary and that are still running:\n{}\nDo not launch them again. \
         You will be notified when each ends.",
        lines.join("\n")
    )
}

/// Formats all tasks of a session for the user: a title and a body.
pub fn toast_text(tasks: &[Task], now: Millis) -> (String, String) {
    let tasks: Vec<&Task> = tasks.iter().filter(|task| !task.data.cleared).collect();
    let (active, mut ended): (Vec<&Task>, Vec<&Task>) =
        tasks.iter().copied().partition(|task| task.status.is_active());
    let siblings: Vec<_> = tasks.iter().map(|task| &task.id).collect();
    let line = |task: &&Task| {
        let progress = &task.data.progress;
        let id = short_id(&task.id, siblings.iter().copied());
        let icon = match (task.status.is_active(), progress.phase) {
            (true, TaskPhase::Waiting) => "○",
            (true, TaskPhase::Tool | TaskPhase::Streaming) => "◉",
            (false, _) => task.status.icon(),
        };
        let mut text = format!(
            "{icon} [{}#{id}] {} ({})",
            task.data.agent,
            task.data.description,
            duration_text(task.duration(now))
        );
        if let Some((last, before)) = progress.last_tools.split_last().filter(|_| task.status.is_active()) {
            let before: String = before.iter().map(|tool| format!("{tool} > ")).collect();
            text.push_str(&format!(" - {before}｢{last}｣ 🔧{}", progress.tool_calls));
        }
        text
    };
    ended.sort_by_key(|task| {
        std::cmp::Reverse(task.data.runs.last().and_then(|run| run.ended).map(|ended| ended.0))
    });
    let mut lines: Vec<String> = active.iter().map(line).collect();
    lines.extend(ended.iter().take(TOAST_ENDED).map(line));
    if ended.len() > TOAST_ENDED {
        lines.push(format!("   ... and {} more finished", ended.len() - TOAST_ENDED));
    }
    let (done, total) = (ended.len(), tasks.len().max(1));
    let filled = 10 * done / total;
    let bar: String = (0..10).map(|cell| if cell < filled { '█' } else { '░' }).collect();
    let calls: u64 = tasks.iter().map(|task| task.data.progress.tool_calls).sum();
    lines.push(String::new());
    lines.push(format!(
        "[{bar}] {done}/{} agents ({}%) | 🔧{calls}{}",
        tasks.len(),
        100 * done / total,
        top_tools(&tasks)
    ));
    let title = if active.is_empty() { "✓ Tasks complete" } else { "⛭ Background tasks" };
    (title.to_owned(), lines.join("\n"))
}

fn top_tools(tasks: &[&Task]) -> String {
    let mut all = std::collections::BTreeMap::<&str, u64>::new();
    for (tool, count) in tasks.iter().flat_map(|task| &task.data.progress.tools) {
        *all.entry(tool).or_default() += count;
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
    let named: Vec<String> = all.iter().take(3).map(|(tool, count)| format!("{tool}:{count}")).collect();
    match (named.is_empty(), all.len().saturating_sub(3)) {
        (true, _) => String::new(),
        (false, 0) => format!(" ({})", named.join(" ")),
        (false, more) => format!(" ({} +{more} more)", named.join(" ")),
    }
}

/// Escapes a text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// Returns the first `keep` chars and an ellipsis if there are more than `most`.
fn cut(text: &str, most: usize, keep: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(keep).collect::<String>() + "..."
}

/// Returns a fence that is longer than any in the text.
fn fence_for(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(3.max(longest + 1))
}
