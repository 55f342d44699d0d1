//! `plimsoll watch`: a status line that shows how full a session's window is, updated while the session is written.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use plimsoll_host::{Follower, Host, HostError, WindowStatus};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio_util::sync::CancellationToken;

use crate::args::WatchArgs;
use crate::error::CommandResult;
use crate::interrupt;
use crate::output::{self, Output, printable};

/// Number of checks after which a newer session of the directory is looked for.
const LOOK_AROUND: u32 = 5;

/// Number of consecutive failed reads after which the session counts as gone.
const MAX_FAILED: u32 = 5;

/// Formats the status line. The session comes last, because a narrow page cuts the end.
fn status_line(status: &WindowStatus, width: usize) -> String {
    let about = if status.measured { "" } else { "about " };
    let far = match (status.percent, status.line) {
        (Some(percent), Some(line)) if status.tokens > line => {
            format!("{percent} % of the line, {about}{}, {} over {line}", status.tokens, status.tokens - line)
        }
        (Some(percent), Some(line)) => {
            let left = line - status.tokens;
            format!("{percent} % of the line, {about}{} of {line}, {left} left", status.tokens)
        }
        _ => format!("{about}{} tokens", status.tokens),
    };
    let of = [status.model.as_deref(), status.title.as_deref().or(status.session.as_deref())];
    let all: Vec<String> = std::iter::once(far).chain(of.into_iter().flatten().map(printable)).collect();
    let one_line = all.join(" · ").split_whitespace().collect::<Vec<_>>().join(" ");
    console::truncate_str(&one_line, width, "…").into_owned()
}

/// Prints the status once, or whenever it changes until Ctrl-C.
pub(crate) fn run(args: &WatchArgs, host: &Host, output: &mut Output) -> CommandResult {
    let config = host.config(&args.input.policy.flags())?;
    let spec = || args.input.spec();
    let mut follower = Follower::new(host, &config, &spec);
    let mut view = View { output, shown: None, is_open: false };
    view.update(&follower.read()?)?;
    if args.once {
        view.end()?;
        return Ok(ExitCode::SUCCESS);
    }
    // Notes about the session are printed once, not at each reading.
    output::mute_notes();
    let cancel = CancellationToken::new();
    interrupt::cancel_first(cancel.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let result = runtime.block_on(follow(args, &mut follower, &mut view, &cancel));
    view.end()?;
    result.map(|()| ExitCode::SUCCESS)
}

/// Updates the line until cancelled, the pipe is closed, or the session is gone.
async fn follow(
    args: &WatchArgs,
    follower: &mut Follower<'_>,
    view: &mut View<'_>,
    cancel: &CancellationToken,
) -> Result<(), HostError> {
    let interval = Duration::from_secs_f64(args.interval);
    let mut last_search = Instant::now();
    let mut failed = 0;
    loop {
        // Biased, so that Ctrl-C ends the command even if an interval has passed at the same time.
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(()),
            () = tokio::time::sleep(interval) => {}
        }
        if view.is_left() {
            return Ok(());
        }
        view.redraw()?;
        let is_due = last_search.elapsed() >= interval * LOOK_AROUND;
        if is_due {
            last_search = Instant::now();
        }
        match follower.poll(is_due) {
            None => {}
            Some(Ok(status)) => {
                failed = 0;
                view.update(&status)?;
            }
            // A file that is being replaced, or cannot be read for a moment, is tried again next time.
            Some(Err(_)) if failed < MAX_FAILED => failed += 1,
            Some(Err(error)) => return Err(error),
        }
    }
}

/// Status line on a terminal, or lines in a pipe.
struct View<'a> {
    output: &'a mut Output,
    shown: Option<(WindowStatus, usize)>,
    /// Whether the current line on the terminal has no newline yet.
    is_open: bool,
}

impl View<'_> {
    /// Prints the status if it changed.
    fn update(&mut self, now: &WindowStatus) -> Result<(), HostError> {
        let width = self.output.width();
        // A pipe gets one line for each change, so an unchanged status must not be printed again.
        if self.shown.as_ref().is_some_and(|(shown, _)| shown == now) {
            return Ok(());
        }
        if self.output.json {
            self.output.json(now)?;
        } else if self.output.is_terminal() {
            // Overwrites the previous line. The last column stays empty, because some terminals wrap when it is written.
            let line = status_line(now, width.saturating_sub(1));
            self.output.bytes(format!("\r\u{1b}[2K{line}").as_bytes())?;
            self.is_open = true;
        } else {
            self.output.text(&status_line(now, width))?;
        }
        self.shown = Some((now.clone(), width));
        Ok(self.output.flush()?)
    }

    /// Prints the line again if the width of the terminal changed.
    fn redraw(&mut self) -> Result<(), HostError> {
        let width = self.output.width();
        match self.shown.take_if(|(_, shown)| *shown != width && self.is_open) {
            Some((shown, _)) => self.update(&shown),
            None => Ok(()),
        }
    }

    /// Whether the other end of the pipe was closed. While a session does not change nothing is written, so a failed write
    /// would not show it.
    fn is_left(&self) -> bool {
        let stdout = std::io::stdout();
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let closed = PollFlags::ERR | PollFlags::HUP;
        poll(&mut watched, Some(&at_once)).is_ok() && watched[0].revents().intersects(closed)
    }

    fn end(&mut self) -> Result<(), HostError> {
        if std::mem::take(&mut self.is_open) {
            self.output.bytes(b"\n")?;
        }
        Ok(self.output.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::Tokens;
    use plimsoll_host::WindowStatus;

    use super::status_line;

    fn status(tokens: u64) -> WindowStatus {
        let mut status = WindowStatus::default();
        status.session = Some("ses_1".to_owned());
        status.title = Some("Mend\nthe \u{1b}[31mparser".to_owned());
        status.model = Some("claude-sonnet-4-5".to_owned());
        status.tokens = Tokens(tokens);
        status.line = Some(Tokens(100_000));
        status.percent = Some(tokens / 1_000);
        status.measured = true;
        status
    }

    #[test]
    fn the_line_fits_its_page_and_has_no_terminal_controls() {
        let line = status_line(&status(62_000), 200);
        assert!(
            line.starts_with(
                "62 % of the line, 62,000 of 100,000, 38,000 left · claude-sonnet-4-5 · Mend the "
            )
        );
        assert!(!line.contains(['\u{1b}', '\n']));
        assert_eq!(status_line(&status(62_000), 40), "62 % of the line, 62,000 of 100,000, 38…");
        assert!(
            status_line(&status(120_000), 200)
                .starts_with("120 % of the line, 120,000, 20,000 over 100,000 · ")
        );
        let mut unknown = status(9);
        (unknown.line, unknown.percent, unknown.measured) = (None, None, false);
        assert!(status_line(&unknown, 200).starts_with("about 9 tokens · "));
    }
}
