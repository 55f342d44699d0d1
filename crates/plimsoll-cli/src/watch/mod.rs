//! `plimsoll watch`: one line that says how far a session is from the line, kept up to date while it is written.

mod follow;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use plimsoll::Tokens;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use self::follow::Follower;
use crate::args::WatchArgs;
use crate::config::Config;
use crate::error::CliError;
use crate::interrupt;
use crate::output::{self, Output, printable};
use crate::surroundings::Surroundings;

/// At every so many looks it is looked for a newer session of the directory, where none was named.
const LOOK_AROUND: u32 = 5;

/// A session that could not be read so often in a row is not there any more.
const MOST_FAILED: u32 = 5;

/// How far a session is from the line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Distance {
    /// The session, as its file names it.
    session: Option<String>,
    /// Its title.
    title: Option<String>,
    /// Its model.
    model: Option<String>,
    /// Tokens in the window.
    tokens: Tokens,
    /// Where the line is; none where the policy has none.
    line: Option<Tokens>,
    /// What is left until there; 0 beyond it.
    left: Option<Tokens>,
    /// How much of the way is gone, in percent.
    percent: Option<u64>,
    /// The model's window.
    context: Tokens,
    /// Messages in the log.
    messages: usize,
    /// Whether recorded usage tells, rather than an estimate.
    measured: bool,
}

impl Distance {
    /// One line for a status bar. What it is of comes last, because it gives way where the page is narrow.
    fn line(&self, width: usize) -> String {
        let about = if self.measured { "" } else { "about " };
        let far = match (self.percent, self.line) {
            (Some(percent), Some(line)) if self.tokens > line => {
                format!("{percent} % of the line, {about}{}, {} over {line}", self.tokens, self.tokens - line)
            }
            (Some(percent), Some(line)) => {
                let left = line - self.tokens;
                format!("{percent} % of the line, {about}{} of {line}, {left} left", self.tokens)
            }
            _ => format!("{about}{} tokens", self.tokens),
        };
        let of = [self.model.as_deref(), self.title.as_deref().or(self.session.as_deref())];
        let all: Vec<String> = std::iter::once(far).chain(of.into_iter().flatten().map(printable)).collect();
        let one_line = all.join(" · ").split_whitespace().collect::<Vec<_>>().join(" ");
        console::truncate_str(&one_line, width, "…").into_owned()
    }
}

/// Tell the distance once, or whenever it changes until Ctrl-C.
pub(crate) fn run(
    args: &WatchArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let config = Config::load(&args.input.policy, around)?;
    let mut follower = Follower::new(&args.input, &config, around);
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
) -> Result<(), CliError> {
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
            Some(Ok(distance)) => {
                failed = 0;
                view.tell(&distance)?;
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
    told: Option<(Distance, usize)>,
    /// Whether a line stands on the terminal that was not ended.
    is_open: bool,
}

impl View<'_> {
    /// Write the line if it is another one.
    fn tell(&mut self, now: &Distance) -> Result<(), CliError> {
        let width = self.output.width();
        if self.told.as_ref().is_some_and(|(told, _)| told == now) {
            return Ok(());
        }
        if self.output.json {
            self.output.json(now)?;
        } else if self.output.is_terminal() {
            // Over the line before it, so that one line stays. The last column stays free: some terminals go on to the
            // next line behind it.
            let line = now.line(width.saturating_sub(1));
            self.output.bytes(format!("\r\u{1b}[2K{line}").as_bytes())?;
            self.is_open = true;
        } else {
            self.output.text(&now.line(width))?;
        }
        self.told = Some((now.clone(), width));
        Ok(self.output.flush()?)
    }

    /// Write the line again if the terminal has another width now.
    fn redraw(&mut self) -> Result<(), CliError> {
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

    fn end(&mut self) -> Result<(), CliError> {
        if std::mem::take(&mut self.is_open) {
            self.output.bytes(b"\n")?;
        }
        Ok(self.output.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::Tokens;

    use super::Distance;

    fn distance(tokens: u64) -> Distance {
        Distance {
            session: Some("ses_1".to_owned()),
            title: Some("Mend\nthe \u{1b}[31mparser".to_owned()),
            model: Some("claude-sonnet-4-5".to_owned()),
            tokens: Tokens(tokens),
            line: Some(Tokens(100_000)),
            left: Some(Tokens(100_000) - Tokens(tokens)),
            percent: Some(tokens / 1_000),
            context: Tokens(200_000),
            messages: 3,
            measured: true,
        }
    }

    #[test]
    fn the_line_fits_its_page_and_the_terminal_obeys_nothing_in_it() {
        let line = distance(62_000).line(200);
        assert!(
            line.starts_with(
                "62 % of the line, 62,000 of 100,000, 38,000 left · claude-sonnet-4-5 · Mend the "
            )
        );
        assert!(!line.contains(['\u{1b}', '\n']));
        assert_eq!(distance(62_000).line(40), "62 % of the line, 62,000 of 100,000, 38…");
        assert!(
            distance(120_000).line(200).starts_with("120 % of the line, 120,000, 20,000 over 100,000 · ")
        );
        let unknown = Distance { line: None, left: None, percent: None, measured: false, ..distance(9) };
        assert!(unknown.line(200).starts_with("about 9 tokens · "));
    }
}
