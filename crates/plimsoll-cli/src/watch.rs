//! `plimsoll watch`: one line that says how far a session is from the line, kept up to date while it is written.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use plimsoll_host::{Follower, Host, HostError, WindowStatus};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio_util::sync::CancellationToken;

use crate::args::WatchArgs;
use crate::error::CommandResult;
use crate::interrupt;
use crate::output::{self, Output, printable};

/// At every so many looks it is looked for a newer session of the directory, where none was named.
const LOOK_AROUND: u32 = 5;

/// A session that could not be read so often in a row is not there any more.
const MOST_FAILED: u32 = 5;

/// One line for a status bar. The session comes last, because it is cut if the page is narrow.
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

/// Shows the status once, or whenever it changes until Ctrl-C.
pub(crate) fn run(args: &WatchArgs, host: &Host, output: &mut Output) -> CommandResult {
    let config = host.config(&args.input.policy.flags())?;
    let spec = || args.input.spec();
    let mut follower = Follower::new(host, &config, &spec);
    let mut view = View { output, told: None, is_open: false };
    view.tell(&follower.read()?)?;
    if args.once {
        view.end()?;
        return Ok(ExitCode::SUCCESS);
    }
    // What was said of the session once is not said again at each reading.
    output::mute_notes();
    let cancel = CancellationToken::new();
    interrupt::cancel_first(cancel.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let kept = runtime.block_on(keep(args, &mut follower, &mut view, &cancel));
    view.end()?;
    kept.map(|()| ExitCode::SUCCESS)
}

/// Keep the line up to date until it is cancelled, nothing reads it any more, or the session is gone.
async fn keep(
    args: &WatchArgs,
    follower: &mut Follower<'_>,
    view: &mut View<'_>,
    cancel: &CancellationToken,
) -> Result<(), HostError> {
    let every = Duration::from_secs_f64(args.every);
    let mut looked = Instant::now();
    let mut failed = 0;
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(()),
            () = tokio::time::sleep(every) => {}
        }
        if view.is_left() {
            return Ok(());
        }
        view.redraw()?;
        let is_due = looked.elapsed() >= every * LOOK_AROUND;
        if is_due {
            looked = Instant::now();
        }
        match follower.look(is_due) {
            None => {}
            Some(Ok(status)) => {
                failed = 0;
                view.tell(&status)?;
            }
            // What is being replaced, or cannot be read for a moment, is looked at again the next time.
            Some(Err(_)) if failed < MOST_FAILED => failed += 1,
            Some(Err(error)) => return Err(error),
        }
    }
}

/// The line as it stands on a terminal, or the lines that went into a pipe.
struct View<'a> {
    output: &'a mut Output,
    told: Option<(WindowStatus, usize)>,
    /// Whether a line stands on the terminal that was not ended.
    is_open: bool,
}

impl View<'_> {
    /// Write the line if it is another one.
    fn tell(&mut self, now: &WindowStatus) -> Result<(), HostError> {
        let width = self.output.width();
        if self.told.as_ref().is_some_and(|(told, _)| told == now) {
            return Ok(());
        }
        if self.output.json {
            self.output.json(now)?;
        } else if self.output.is_terminal() {
            // Over the line before it, so that one line stays. The last column stays free: some terminals go on to the
            // next line behind it.
            let line = status_line(now, width.saturating_sub(1));
            self.output.bytes(format!("\r\u{1b}[2K{line}").as_bytes())?;
            self.is_open = true;
        } else {
            self.output.text(&status_line(now, width))?;
        }
        self.told = Some((now.clone(), width));
        Ok(self.output.flush()?)
    }

    /// Write the line again if the terminal has another width now.
    fn redraw(&mut self) -> Result<(), HostError> {
        let width = self.output.width();
        match self.told.take_if(|(_, told)| *told != width && self.is_open) {
            Some((told, _)) => self.tell(&told),
            None => Ok(()),
        }
    }

    /// Whether the other end of the pipe was closed. Nothing is written while a session rests, so that a failed write does
    /// not tell.
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
    fn the_line_fits_its_page_and_the_terminal_obeys_nothing_in_it() {
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
