//! Events of a turn on the screen as they happen: the answer, calls with their outcome, reductions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anstyle::{AnsiColor, Style};
use plimsoll::PartId;
use plimsoll_agent::{CallStatus, Event};
use plimsoll_host::{HostError, size};
use serde_json::Value;

use super::screen::Screen;
use super::tasks::ActiveTasks;
use super::text::{one_line, wrap};
use crate::error::error_text;
use crate::notices::{Commands, call_subject, event_notice, reduction_notice};
use crate::style::{ERROR, QUIET, paint};

const DONE: Style = AnsiColor::Green.on_default();
const ENDED: Style = AnsiColor::Yellow.on_default().bold();
/// Colour of reductions: important, but not errors.
const NOTICE: Style = AnsiColor::Blue.on_default();

/// Shows events on the screen.
pub(super) struct EventView {
    screen: Arc<Screen>,
    thinking: bool,
    calls: Mutex<HashMap<PartId, Call>>,
    /// Running background tasks.
    pub(super) active: Arc<ActiveTasks>,
}

struct Call {
    what: String,
    started: Instant,
}

impl EventView {
    pub(super) fn new(screen: &Arc<Screen>, thinking: bool) -> EventView {
        EventView { screen: Arc::clone(screen), thinking, calls: Mutex::default(), active: Arc::default() }
    }

    /// Records the subject of a call that the user is asked about, in case it is denied.
    pub(super) fn record_question(&self, part: &PartId, what: &str) {
        self.calls().insert(part.clone(), Call { what: what.to_owned(), started: Instant::now() });
    }

    /// Shows an event.
    pub(super) fn event(&self, event: &Event) {
        let screen = &self.screen;
        self.active.update(event);
        match event {
            Event::Text { delta } => screen.words(delta),
            Event::Thinking { delta } if self.thinking => screen.thoughts(delta),
            Event::Thinking { .. } => screen.wait("thinking"),
            Event::Requested { model, .. } => {
                screen.end_text();
                screen.wait(&format!("waiting for {model}"));
            }
            Event::Answered { .. } | Event::Ended { .. } => screen.end_text(),
            Event::CallStarted { part, tool, input } => {
                let what = short_input(input);
                screen.end_text();
                screen.wait(&format!("{tool} {what}"));
                self.calls().insert(part.clone(), Call { what, started: Instant::now() });
            }
            Event::CallEnded { part, tool, status, bytes, error } => {
                let call = self.calls().remove(part);
                self.call_line(tool, call.as_ref(), *status, *bytes, error.as_deref());
            }
            Event::Denied { part, hint, asked: false, .. } => {
                let what = self.calls().get(part).map(|call| call.what.clone()).unwrap_or_default();
                let what = if what.is_empty() { String::new() } else { format!(" ({what})") };
                self.notice(&format!("denied{what}: {}", one_line(hint, 500)));
            }
            Event::Summarising { chunk, of, early, .. } => {
                let piece = if *of > 1 { format!(" (part {chunk} of {of})") } else { String::new() };
                let what = if *early { "preparing a summary" } else { "summarising older messages" };
                screen.wait(&format!("{what}{piece}"));
            }
            Event::Summarised { error: Some(error), .. } => {
                self.notice(&format!(
                    "the summary failed, using one without a model: {}",
                    one_line(error, 200)
                ));
            }
            Event::Reduced(figures) => {
                if let Some(notice) = reduction_notice(figures, Commands::Chat) {
                    self.reduction(&notice);
                }
            }
            Event::TaskLaunched { agent, description, .. } => {
                let (agent, what) = (one_line(agent, 40), one_line(description, 200));
                self.notice(&format!("task started ({agent}): {what}"));
            }
            Event::TaskEnded { description, status, error, .. } => {
                let why =
                    error.as_ref().map(|error| format!(": {}", one_line(error, 200))).unwrap_or_default();
                self.notice(&format!("task {status}: {}{why}", one_line(description, 200)));
            }
            other => {
                if let Some(notice) = event_notice(other) {
                    self.notice(&one_line(&notice, 600));
                }
            }
        }
    }

    /// Shows a notice.
    pub(super) fn notice(&self, text: &str) {
        self.aside(QUIET, &format!("· {text}"));
    }

    /// Shows that content left the window or came back.
    pub(super) fn reduction(&self, text: &str) {
        self.aside(NOTICE, &format!("◦ {text}"));
    }

    /// Shows text between the lines of the conversation, wrapped to the page.
    fn aside(&self, style: Style, text: &str) {
        let lines = wrap(text, self.screen.width().saturating_sub(1), 2);
        let painted: Vec<String> = lines.lines().map(|line| paint(style, line)).collect();
        self.screen.lines(&painted.join("\n"));
    }

    /// Shows an error.
    pub(super) fn failure(&self, error: &HostError) {
        let lines = wrap(error_text(error).trim_end(), self.screen.width().saturating_sub(1), 2);
        self.screen.lines(&lines);
    }

    fn call_line(
        &self,
        tool: &str,
        call: Option<&Call>,
        status: CallStatus,
        bytes: u64,
        error: Option<&str>,
    ) {
        let (mark, outcome) = match (status, error) {
            (CallStatus::Completed, Some(ending)) => {
                (paint(ENDED, "!"), format!("{} · {}", one_line(ending, 60), output_size(bytes)))
            }
            (CallStatus::Completed, None) => (paint(DONE, "✓"), output_size(bytes)),
            (CallStatus::Failed, _) => (paint(ERROR, "✗"), "failed".to_owned()),
            (CallStatus::Denied, _) => (paint(ERROR, "✗"), "denied".to_owned()),
            _ => (paint(QUIET, "✗"), "stopped".to_owned()),
        };
        let time = call.filter(|_| status == CallStatus::Completed || status == CallStatus::Failed);
        let time = time.map(|call| format!(" · {:.1} s", call.started.elapsed().as_secs_f64()));
        let outcome = format!("{outcome}{}", time.unwrap_or_default());
        let tool = one_line(tool, 40);
        let width = self.screen.width();
        // The outcome is never cut; the subject of the call gets the rest of the line.
        let used = console::measure_text_width(&tool) + console::measure_text_width(&outcome) + 8;
        let what =
            call.map(|call| one_line(&call.what, width.saturating_sub(used).max(8))).unwrap_or_default();
        let what = if what.is_empty() { String::new() } else { format!(" {what}") };
        let mut line = format!("{mark} {tool}{what} {}", paint(QUIET, &format!("· {outcome}")));
        if let (CallStatus::Failed, Some(error)) = (status, error) {
            let error = one_line(error, width.saturating_sub(5).max(20));
            line.push_str(&format!("\n  {}", paint(QUIET, &error)));
        }
        self.screen.lines(&line);
        if !self.calls().is_empty() {
            self.screen.wait("working");
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<PartId, Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Formats the size of a tool's output.
fn output_size(bytes: u64) -> String {
    if bytes == 0 { "no output".to_owned() } else { size(bytes) }
}

/// Summarises a to-do list: its progress and the current item.
fn short_todos(todos: &[Value]) -> String {
    let with = |status: &'static str| todos.iter().filter(move |item| item["status"] == status);
    let now = with("in_progress").next().and_then(|item| item["content"].as_str());
    let now = now.map(|now| format!(": {}", one_line(now, 200))).unwrap_or_default();
    format!("{} of {} done{now}", with("completed").count(), todos.len())
}

/// Formats the input of a call on one line.
fn short_input(input: &Value) -> String {
    if let Some(todos) = input.get("todos").and_then(Value::as_array) {
        return short_todos(todos);
    }
    let is_empty = input.as_object().is_some_and(serde_json::Map::is_empty);
    if is_empty { String::new() } else { one_line(&call_subject(input), 400) }
}
