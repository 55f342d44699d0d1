//! Live list of tasks: redrawn in place on a terminal, one JSON line per change otherwise.

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use plimsoll::SessionId;
use plimsoll_agent::tasks::{Task, TaskStatus};
use plimsoll_host::{HostError, TaskFilter, TaskSession, current_tasks};
use tokio_util::sync::CancellationToken;

use super::list::{summary, table};
use super::progress_text;
use crate::error::CommandResult;
use crate::interrupt;
use crate::output::{Output, printable};
use crate::style::{QUIET, paint};
use crate::when;

/// Interval at which times are updated.
const TICK: Duration = Duration::from_secs(1);
/// Minimum time between two updates.
const REST: Duration = Duration::from_millis(100);
/// Interval at which the processes of tasks are checked for having exited.
const LOOK_AFTER: Duration = Duration::from_secs(5);
const HIDE_CURSOR: &str = "\u{1b}[?25l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";

/// When a live list ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Only with Ctrl-C.
    Left,
    /// Also when no task is active any more.
    AllEnded,
}

/// Shows the list until it ends.
pub(super) fn run(
    task_session: &TaskSession,
    filter: &TaskFilter,
    until: Until,
    output: &mut Output,
) -> CommandResult {
    let cancel = CancellationToken::new();
    interrupt::cancel_first(cancel.clone());
    let mut view = View::new(output);
    let done = task_session.runtime.block_on(view.follow(task_session, filter, until, &cancel));
    view.end()?;
    done.map(|()| ExitCode::SUCCESS)
}

struct View<'a> {
    output: &'a mut Output,
    /// Widths of the lines on the terminal.
    drawn: Vec<usize>,
    /// Last state of each task that was printed as JSON.
    printed: HashMap<SessionId, Task>,
}

impl View<'_> {
    fn new(output: &mut Output) -> View<'_> {
        View { output, drawn: Vec::new(), printed: HashMap::new() }
    }

    async fn follow(
        &mut self,
        task_session: &TaskSession,
        filter: &TaskFilter,
        until: Until,
        cancel: &CancellationToken,
    ) -> Result<(), HostError> {
        let mut changes = task_session.board.watch();
        let mut last_check = None;
        loop {
            changes.borrow_and_update();
            let is_due = last_check.is_none_or(|check: Instant| check.elapsed() >= LOOK_AFTER);
            let all = if is_due {
                last_check = Some(Instant::now());
                current_tasks(&task_session.board).await?
            } else {
                task_session.board.tasks(None).await?
            };
            let (shown, more) = task_session.choose(filter, &all)?;
            let is_over = until == Until::AllEnded && !shown.iter().any(|task| task.status.is_active());
            if self.output.json {
                self.print_changes(&shown)?;
            } else {
                self.draw(&shown, more, &all, is_over)?;
            }
            if is_over {
                return Ok(());
            }
            let change = async {
                tokio::select! {
                    // The board outlives this loop, so its watch channel cannot close.
                    _ = changes.changed() => {}
                    () = tokio::time::sleep(TICK) => {}
                }
                tokio::time::sleep(REST).await;
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                () = change => {}
            }
        }
    }

    /// Prints a JSON line for each task that has changed.
    fn print_changes(&mut self, tasks: &[&Task]) -> Result<(), HostError> {
        for task in tasks.iter().rev() {
            if self.printed.get(&task.id) != Some(task) {
                self.output.json(task)?;
                self.printed.insert(task.id.clone(), (*task).clone());
            }
        }
        Ok(self.output.flush()?)
    }

    fn draw(&mut self, tasks: &[&Task], more: usize, all: &[Task], is_over: bool) -> Result<(), HostError> {
        let (height, width) = self.output.size();
        // Erasing to the end of a line that reaches the last column erases its last character in some terminals.
        let mut lines = lines(tasks, more, all, width.saturating_sub(1), is_over);
        // Lines that have scrolled away cannot be redrawn.
        let room = height.saturating_sub(2).max(3);
        if lines.len() > room {
            let left_out = lines.len() - room + 1;
            // The last line, the summary, stays.
            let last = lines.split_off(lines.len() - 1);
            lines.truncate(room - 2);
            lines.push(paint(QUIET, &format!("… {left_out} more lines; enlarge the terminal to see them")));
            lines.extend(last);
        }
        let lines: Vec<String> = lines.iter().map(|line| self.output.styled(line)).collect();
        // Lines that were drawn on a wider terminal wrap on a narrower one.
        let rows: usize = self.drawn.iter().map(|drawn| drawn.div_ceil(width.max(1)).max(1)).sum();
        // The whole page in one write, so that it does not flicker.
        let mut text = HIDE_CURSOR.to_owned();
        if rows > 0 {
            text.push_str(&format!("\u{1b}[{rows}A\r"));
        }
        for line in &lines {
            text.push_str(&format!("{line}\u{1b}[K\n"));
        }
        text.push_str("\u{1b}[J");
        self.drawn = lines.iter().map(|line| console::measure_text_width(line)).collect();
        self.output.bytes(text.as_bytes())?;
        Ok(self.output.flush()?)
    }

    fn end(&mut self) -> Result<(), HostError> {
        if !self.output.json {
            self.output.bytes(SHOW_CURSOR.as_bytes())?;
            self.output.flush()?;
        }
        Ok(())
    }
}

/// Formats the page: a table with the progress of each active task, and a summary.
fn lines(tasks: &[&Task], more: usize, all: &[Task], width: usize, is_over: bool) -> Vec<String> {
    let page = table(tasks, all, when::now()).lines(width);
    let mut lines = Vec::new();
    for (at, line) in page.into_iter().enumerate() {
        // The first line is the headings.
        match at.checked_sub(1).and_then(|at| tasks.get(at)) {
            Some(task) if task.status == TaskStatus::Queued => lines.push(line),
            Some(task) if task.status.is_active() => {
                lines.push(line);
                let progress = printable(&progress_text(&task.data.progress));
                let progress = console::truncate_str(&progress, width.saturating_sub(4), "…").into_owned();
                lines.push(paint(QUIET, &format!("  └ {progress}")));
            }
            Some(_) => lines.push(paint(QUIET, &line)),
            None => lines.push(line),
        }
    }
    if more > 0 {
        lines.push(paint(
            QUIET,
            &format!("{} more; raise `--limit` to list them", plimsoll::Tokens(more as u64)),
        ));
    }
    let leave = if is_over { "" } else { " · Ctrl-C quits, the tasks continue" };
    let last = format!("{}{leave}", summary(tasks));
    lines.push(console::truncate_str(&last, width, "…").into_owned());
    lines
}
