//! Progress of a run on the terminal or as JSON lines.
//!
//! The answer goes to standard output and everything else to standard error, so that a pipe gets only the answer. A
//! terminal gets the text as it streams; a pipe gets the last answer.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll::{SessionId, Tokens};
use plimsoll_agent::metrics::TokenMetrics;
use plimsoll_agent::tasks::{duration_text, short_id};
use plimsoll_agent::{AgentError, CallStatus, Event, Follower, RunReport, UsageFigures};
use plimsoll_store::Archive;
use serde_json::{Value, json};

use crate::figures::{cost_after, spend_text};
use crate::notices::{Commands, call_subject, end_notice, event_notice, reduction_notice, task_end};
use crate::output::{counted, first_words, printable, write_json};
use crate::style::{QUIET, paint};

/// Interval at which stored content is polled.
const POLL: Duration = Duration::from_millis(50);
/// Time after an answer without a call after which the answer counts as complete for now.
const CALLS_BEGIN: Duration = Duration::from_millis(500);
/// Maximum number of characters of a call's input.
const SHOWN: usize = 100;

/// Prints the events of a run.
pub(crate) struct RunProgress {
    json: bool,
    thinking: bool,
    is_live: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether standard output is in the middle of a line.
    in_line: bool,
    /// Whether reasoning is being written.
    in_thought: bool,
    /// Background tasks that were started and have not ended.
    tasks: BTreeSet<SessionId>,
    /// Time of the model's last text, if no event followed.
    answered: Option<Instant>,
}

impl RunProgress {
    pub(crate) fn new(json: bool, thinking: bool) -> RunProgress {
        RunProgress { json, thinking, is_live: !json && io::stdout().is_terminal(), state: Mutex::default() }
    }

    /// Prints an event.
    pub(crate) fn event(&self, event: &Event) {
        if self.json {
            return self.line(&serde_json::to_value(event).unwrap_or_default());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Text { delta } if self.is_live => state.words(delta),
            Event::Thinking { delta } if self.thinking => state.thoughts(delta),
            Event::Text { .. } | Event::Thinking { .. } => {}
            other => {
                state.count_tasks(other);
                if let Some(line) = event_line(other) {
                    state.note(&line);
                }
            }
        }
    }

    /// Prints stored content as JSON lines until the result is dropped; `None` without `--json`.
    pub(crate) fn follow(
        self: &Arc<RunProgress>,
        archive: &Arc<Archive>,
        session: &SessionId,
    ) -> Option<Following> {
        if !self.json {
            return None;
        }
        let mut follower = Follower::from_now(Arc::clone(archive), Some(session.clone())).ok()?;
        let (progress, stop) = (Arc::clone(self), Arc::new(AtomicBool::new(false)));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            loop {
                // Reads once more after the stop, so that nothing stored before it is missed.
                let is_last = stopping.load(Ordering::Acquire);
                for stored in follower.read().unwrap_or_default() {
                    let mut value = serde_json::to_value(&stored).unwrap_or_default();
                    if let Value::Object(fields) = &mut value {
                        fields.insert("type".into(), "stored".into());
                    }
                    progress.line(&value);
                }
                if is_last {
                    return;
                }
                std::thread::sleep(POLL);
            }
        });
        Some(Following { stop, thread: Some(thread) })
    }

    /// Prints the summary of a finished run.
    pub(crate) fn finish(&self, report: &RunReport) {
        if self.json {
            let mut value = serde_json::to_value(report).unwrap_or_default();
            if let Value::Object(fields) = &mut value {
                fields.insert("type".into(), "report".into());
            }
            return self.line(&value);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_live && !report.text.trim().is_empty() {
            write_out(&format!("{}\n", printable(report.text.trim_end())));
        }
        state.end_line();
        let cost = cost_after(", ", report.cost);
        let steps = if report.steps == 1 { "step" } else { "steps" };
        let UsageFigures { input, output, reasoning, cache_read, cache_write, .. } = report.usage;
        let tasks = match report.tasks.is_none() {
            true => String::new(),
            false => format!("; its tasks {}", spend_text(&report.tasks)),
        };
        let summary = format!(
            "{} {steps}, {} tokens in ({} from the cache), {} out{cost}{tasks}; session {}",
            report.steps,
            Tokens(input) + Tokens(cache_read) + Tokens(cache_write),
            Tokens(cache_read),
            Tokens(output) + Tokens(reasoning),
            report.session
        );
        state.note(&summary);
        if let Some(reduced) = metrics_text(&report.metrics) {
            state.note(&reduced);
        }
        if let Some(why) = end_notice(&report.end, Commands::Shell) {
            state.note(&why);
        }
    }

    /// Prints a failed run as JSON; as text the caller prints the error.
    pub(crate) fn failed(&self, error: &AgentError) {
        if self.json {
            self.line(&json!({ "type": "error", "name": error.name(), "message": error.to_string() }));
        } else {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).end_line();
        }
    }

    fn line(&self, value: &Value) {
        let _one_at_a_time = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = Vec::new();
        if write_json(&mut line, value).is_ok() {
            write_out(&String::from_utf8_lossy(&line));
        }
    }
}

impl State {
    fn words(&mut self, words: &str) {
        if self.in_thought {
            self.end_line();
        }
        write_out(&printable(words));
        self.in_line = !words.ends_with('\n');
    }

    fn thoughts(&mut self, words: &str) {
        write_err(&paint(QUIET, &printable(words)));
        (self.in_line, self.in_thought) = (!words.ends_with('\n'), true);
    }

    /// Counts background tasks, and notes once when the run only waits for them.
    fn count_tasks(&mut self, event: &Event) {
        match event {
            Event::TaskLaunched { task, .. } => drop(self.tasks.insert(task.clone())),
            Event::TaskEnded { task, .. } => drop(self.tasks.remove(task)),
            Event::Answered { .. } => self.answered = Some(Instant::now()),
            // Progress of a task between an answer and its calls does not mean that the run waits.
            Event::TaskProgress { .. } if self.answered.is_some_and(|at| at.elapsed() > CALLS_BEGIN) => {
                self.answered = None;
                self.note(&format!("· waiting for {}", counted(self.tasks.len(), "background task")));
            }
            Event::TaskProgress { .. } => {}
            // A call or a request: the model continues.
            _ => self.answered = None,
        }
    }

    fn end_line(&mut self) {
        if self.in_line {
            if self.in_thought { write_err("\n") } else { write_out("\n") }
        }
        (self.in_line, self.in_thought) = (false, false);
    }

    fn note(&mut self, text: &str) {
        self.end_line();
        write_err(&format!("{}\n", paint(QUIET, &printable(text))));
    }
}

/// Follows stored content until it is dropped.
pub(crate) struct Following {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Formats an event as a line of text; `None` if it needs none.
pub(crate) fn event_line(event: &Event) -> Option<String> {
    match event {
        Event::CallStarted { tool, input, .. } => {
            Some(format!("· {tool} {}", first_words(&call_subject(input), SHOWN)))
        }
        Event::CallEnded { tool, status: CallStatus::Failed, error, .. } => {
            let why = first_words(error.as_deref().unwrap_or_default(), SHOWN);
            Some(format!("  {tool} failed: {why}"))
        }
        Event::Denied { tool, hint, .. } => Some(format!("  {tool} was denied; {hint}")),
        Event::Summarising { chunk, of, early, .. } => {
            let piece = if *of > 1 { format!(" (part {chunk} of {of})") } else { String::new() };
            let when = if *early { "preparing a summary" } else { "summarising earlier messages" };
            Some(format!("· {when}{piece}"))
        }
        Event::Summarised { error: Some(error), .. } => Some(format!("  the summary failed: {error}")),
        Event::TaskLaunched { task, agent, description, forked, run, .. } => {
            let id = short_id(task, []);
            let verb = if *run > 1 { "resumed" } else { "started" };
            let forked = if *forked { ", forked" } else { "" };
            Some(format!("· task {id} {verb} ({agent}{forked}): {}", first_words(description, SHOWN)))
        }
        Event::TaskEnded { task, description, status, duration_ms, error, .. } => {
            let (id, time) = (short_id(task, []), duration_text(Duration::from_millis(*duration_ms)));
            let how = task_end(*status);
            let about = first_words(description, SHOWN);
            let why = error.as_deref().map(|error| format!(": {}", first_words(error, SHOWN)));
            Some(format!("· task {id} {how} after {time} ({about}){}", why.unwrap_or_default()))
        }
        Event::Reduced(figures) => {
            reduction_notice(figures, Commands::Shell).map(|notice| format!("· {notice}"))
        }
        other => event_notice(other).map(|notice| format!("· {notice}")),
    }
}

/// Formats what a run reduced; `None` if nothing.
fn metrics_text(metrics: &TokenMetrics) -> Option<String> {
    let bytes = plimsoll_host::size;
    let of = |count: u64, noun: &str| counted(count as usize, noun);
    let truncated = format!(
        "{} truncated by {} ({} stored in {})",
        of(metrics.total_truncations, "output"),
        bytes(metrics.bytes_truncated),
        bytes(metrics.spill_bytes_written),
        of(metrics.spill_files_created, "file")
    );
    let pruned =
        format!("{} ({} tokens)", of(metrics.total_prunings, "prune"), Tokens(metrics.tokens_pruned));
    let compacted = format!(
        "{} ({} tokens)",
        of(metrics.total_compactions, "compaction"),
        Tokens(metrics.tokens_compacted)
    );
    let parts = [
        (metrics.total_truncations, truncated),
        (metrics.total_prunings, pruned),
        (metrics.total_compactions, compacted),
    ];
    let parts: Vec<String> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
    (!parts.is_empty()).then(|| format!("reduced: {}", parts.join(", ")))
}

fn write_out(text: &str) {
    let mut out = anstream::stdout().lock();
    // If the reader closes the pipe, the run continues: its work is stored.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn write_err(text: &str) {
    let _ = anstream::stderr().write_all(text.as_bytes());
}
