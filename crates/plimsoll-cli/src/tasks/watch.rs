//! A list of tasks that is kept up to date: redrawn in place on a terminal, a line for each change for machines.

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

/// Times move on so often, also where nothing else does.
const TICK: Duration = Duration::from_secs(1);
/// It is drawn no more often than this.
const REST: Duration = Duration::from_millis(100);
/// How often it is looked whether the process of a task has gone.
const LOOK_AFTER: Duration = Duration::from_secs(5);
const HIDE_CURSOR: &str = "\u{1b}[?25l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";

/// When a live list ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// With Ctrl-C alone.
    Left,
    /// When no task is at work any more, too.
    AllEnded,
}

/// Keep a list up to date.
pub(super) fn run(
    desk: &TaskSession,
    wanted: &TaskFilter,
    until: Until,
    output: &mut Output,
) -> CommandResult {
    let cancel = CancellationToken::new();
    interrupt::cancel_first(cancel.clone());
    let mut view = View::new(output);
    let done = desk.runtime.block_on(view.keep(desk, wanted, until, &cancel));
    view.end()?;
    done.map(|()| ExitCode::SUCCESS)
}

struct View<'a> {
    output: &'a mut Output,
    /// How wide the lines are that stand on the terminal.
    drawn: Vec<usize>,
    /// What machines were told last.
    told: HashMap<SessionId, Task>,
}

impl View<'_> {
    fn new(output: &mut Output) -> View<'_> {
        View { output, drawn: Vec::new(), told: HashMap::new() }
    }

    async fn keep(
        &mut self,
        desk: &TaskSession,
        wanted: &TaskFilter,
        until: Until,
        cancel: &CancellationToken,
    ) -> Result<(), HostError> {
        let mut changes = desk.board.watch();
        let mut looked = None;
        loop {
            changes.borrow_and_update();
            let is_due = looked.is_none_or(|looked: Instant| looked.elapsed() >= LOOK_AFTER);
            let all = if is_due {
                looked = Some(Instant::now());
                current_tasks(&desk.board).await?
            } else {
                desk.board.tasks(None).await?
            };
            let (shown, more) = desk.choose(wanted, &all)?;
            let is_over = until == Until::AllEnded && !shown.iter().any(|task| task.status.is_active());
            if self.output.json {
                self.tell(&shown)?;
            } else {
                self.draw(&shown, more, &all, is_over)?;
            }
            if is_over {
                return Ok(());
            }
            let moved = async {
                tokio::select! {
                    // The board outlives this loop, so that its watch cannot end before.
                    _ = changes.changed() => {}
                    () = tokio::time::sleep(TICK) => {}
                }
                tokio::time::sleep(REST).await;
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                () = moved => {}
            }
        }
    }

    /// A line for each task that has changed.
    fn tell(&mut self, tasks: &[&Task]) -> Result<(), HostError> {
        for task in tasks.iter().rev() {
            if self.told.get(&task.id) != Some(task) {
                self.output.json(task)?;
                self.told.insert(task.id.clone(), (*task).clone());
            }
        }
        Ok(self.output.flush()?)
    }

    fn draw(&mut self, tasks: &[&Task], more: usize, all: &[Task], is_over: bool) -> Result<(), HostError> {
        let (height, width) = self.output.size();
        // Erasing to the end of a line that reaches the last column erases its last character in some terminals.
        let mut lines = lines(tasks, more, all, width.saturating_sub(1), is_over);
        // What has scrolled away cannot be redrawn.
        let room = height.saturating_sub(2).max(3);
        if lines.len() > room {
            let left_out = lines.len() - room + 1;
            let last = lines.split_off(lines.len() - 1);
            lines.truncate(room - 2);
            lines.push(paint(QUIET, &format!("… {left_out} more lines; a taller window shows them")));
            lines.extend(last);
        }
        let lines: Vec<String> = lines.iter().map(|line| self.output.styled(line)).collect();
        // Lines that were drawn on a wider terminal take several rows of a narrower one.
        let rows: usize = self.drawn.iter().map(|drawn| drawn.div_ceil(width.max(1)).max(1)).sum();
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

/// The page: a table, below each task that is at work how far it has come, and how many there are.
fn lines(tasks: &[&Task], more: usize, all: &[Task], width: usize, is_over: bool) -> Vec<String> {
    let page = table(tasks, all, when::now()).lines(width);
    let mut lines = Vec::new();
    for (at, line) in page.into_iter().enumerate() {
        // The first line is the headings.
        match at.checked_sub(1).and_then(|at| tasks.get(at)) {
            Some(task) if task.status == TaskStatus::Queued => lines.push(line),
            Some(task) if task.status.is_active() => {
                lines.push(line);
                let far = printable(&progress_text(&task.data.progress));
                let far = console::truncate_str(&far, width.saturating_sub(4), "…").into_owned();
                lines.push(paint(QUIET, &format!("  └ {far}")));
            }
            Some(_) => lines.push(paint(QUIET, &line)),
            None => lines.push(line),
        }
    }
    if more > 0 {
        lines.push(paint(QUIET, &format!("{} more; `--limit` lists them", plimsoll::Tokens(more as u64))));
    }
    let leave = if is_over { "" } else { " · Ctrl-C leaves, the tasks go on" };
    let last = format!("{}{leave}", summary(tasks));
    lines.push(console::truncate_str(&last, width, "…").into_owned());
    lines
}
