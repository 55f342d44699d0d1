//! A sign of life for whatever takes over half a second.
//!
//! It is drawn on standard error, only where that is a terminal, and gone before the answer comes.

use std::io::{self, IsTerminal, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Whatever is done sooner needs no sign of life.
const PATIENCE: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(100);
/// Whether there is a bar already.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Something under way. Dropping it clears the line.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Who shows the bar when patience ends, and the line to tell them that all is done.
    waiting: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Bytes are read, so many in all if that is known.
    pub(crate) fn bytes(what: &str, all: Option<u64>) -> Progress {
        let template = match all {
            Some(_) => "{spinner} {msg}  {wide_bar}  {bytes} of {total_bytes}",
            None => "{spinner} {msg}  {bytes}",
        };
        Progress::start(what, all, template, is_wanted())
    }

    /// Things are looked at, so many in all.
    pub(crate) fn things(what: &str, all: u64) -> Progress {
        Progress::start(what, Some(all), "{spinner} {msg}  {wide_bar}  {pos} of {len}", is_wanted())
    }

    /// Something is worked out, in one go.
    pub(crate) fn during<T>(what: &str, work: impl FnOnce() -> T) -> T {
        let _shown = Progress::start(what, None, "{spinner} {msg}", is_wanted());
        work()
    }

    fn start(what: &str, all: Option<u64>, template: &str, wanted: bool) -> Progress {
        let bar = ProgressBar::with_draw_target(all, ProgressDrawTarget::hidden());
        // Of several things under way at once, the first tells of all.
        if !wanted || SHOWN.swap(true, Ordering::AcqRel) {
            return Progress { bar, waiting: None };
        }
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("█▌ "));
        }
        bar.set_message(crate::output::printable(what));
        let (waiting, done) = mpsc::channel::<()>();
        let shown = bar.clone();
        let waiter = std::thread::spawn(move || {
            if done.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(TICK);
            }
        });
        Progress { bar, waiting: Some((waiting, waiter)) }
    }

    /// Changes what is named as under way.
    pub(crate) fn name(&self, what: &str) {
        self.bar.set_message(crate::output::printable(what));
    }

    /// There are so many more things to do than was known.
    pub(crate) fn more(&self, count: u64) {
        self.bar.inc_length(count);
    }

    /// One more thing is done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// So much is done.
    pub(crate) fn at(&self, place: u64) {
        self.bar.set_position(place);
    }

    /// A reader whose bytes are counted.
    pub(crate) fn reading<R>(&self, inner: R) -> Counted<'_, R> {
        Counted { inner, bar: &self.bar }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((waiting, waiter)) = self.waiting.take() {
            SHOWN.store(false, Ordering::Release);
            drop(waiting);
            // It cannot fail, and if it did there would only be no bar.
            let _ = waiter.join();
        }
        self.bar.finish_and_clear();
    }
}

/// Whether somebody sees it.
fn is_wanted() -> bool {
    io::stderr().is_terminal()
        && !crate::output::are_notes_muted()
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A reader whose bytes are counted.
pub(crate) struct Counted<'a, R> {
    inner: R,
    bar: &'a ProgressBar,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bar.inc(count as u64);
        Ok(count)
    }
}
