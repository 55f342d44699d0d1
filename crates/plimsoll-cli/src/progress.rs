//! Notices and progress on standard error. Progress is shown for work that takes over half a second, only on a terminal, and
//! is cleared before the result is printed.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll_host::{Notice, Progress, Reporter, Work};

use crate::output::{are_notes_muted, note, printable};

/// Delay before progress is shown.
const PATIENCE: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(100);
/// Whether a bar exists.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Reports on standard error.
pub(crate) struct Terminal;

impl Reporter for Terminal {
    fn notice(&self, notice: &Notice) {
        note(&notice.to_string());
    }

    fn progress(&self, what: &str, work: Work) -> Box<dyn Progress> {
        let (all, template) = match work {
            Work::Bytes(Some(all)) => (Some(all), "{spinner} {msg}  {wide_bar}  {bytes} of {total_bytes}"),
            Work::Bytes(None) => (None, "{spinner} {msg}  {bytes}"),
            Work::Items(all) => (Some(all), "{spinner} {msg}  {wide_bar}  {pos} of {len}"),
            _ => (None, "{spinner} {msg}"),
        };
        Box::new(Bar::start(what, all, template, is_visible()))
    }
}

/// Progress of running work. Dropping it clears the line.
struct Bar {
    bar: ProgressBar,
    /// Thread that shows the bar after the delay, and the channel that stops it.
    waiting: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Bar {
    fn start(what: &str, all: Option<u64>, template: &str, visible: bool) -> Bar {
        let bar = ProgressBar::with_draw_target(all, ProgressDrawTarget::hidden());
        // Of concurrent work, only the first is shown.
        if !visible || SHOWN.swap(true, Ordering::AcqRel) {
            return Bar { bar, waiting: None };
        }
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("█▌ "));
        }
        bar.set_message(printable(what));
        let (waiting, done) = mpsc::channel::<()>();
        let shown = bar.clone();
        let waiter = std::thread::spawn(move || {
            if done.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(TICK);
            }
        });
        Bar { bar, waiting: Some((waiting, waiter)) }
    }
}

impl Progress for Bar {
    fn at(&self, place: u64) {
        self.bar.set_position(place);
    }

    fn step(&self) {
        self.bar.inc(1);
    }

    fn more(&self, count: u64) {
        self.bar.inc_length(count);
    }

    fn rename(&self, what: &str) {
        self.bar.set_message(printable(what));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some((waiting, waiter)) = self.waiting.take() {
            SHOWN.store(false, Ordering::Release);
            drop(waiting);
            // The thread cannot panic; if it did, only the bar would be missing.
            let _ = waiter.join();
        }
        self.bar.finish_and_clear();
    }
}

/// Whether progress can be seen.
fn is_visible() -> bool {
    io::stderr().is_terminal()
        && !are_notes_muted()
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
