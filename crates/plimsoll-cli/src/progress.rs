//! Notices and progress on standard error. Progress is shown for what takes over half a second, only on a terminal, and is
//! gone before the result comes.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll_host::{Notice, Progress, Reporter, Work};

use crate::output::{are_notes_muted, note, printable};

/// Work that ends sooner is not shown.
const PATIENCE: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(100);
/// Whether there is a bar already.
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
        Box::new(Bar::start(what, all, template, is_wanted()))
    }
}

/// Work under way. Dropping it clears the line.
struct Bar {
    bar: ProgressBar,
    /// The thread that shows the bar when patience ends, and a channel whose end tells it that all is done.
    waiting: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Bar {
    fn start(what: &str, all: Option<u64>, template: &str, wanted: bool) -> Bar {
        let bar = ProgressBar::with_draw_target(all, ProgressDrawTarget::hidden());
        // Of several kinds of work at once, the first is shown.
        if !wanted || SHOWN.swap(true, Ordering::AcqRel) {
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
            // It cannot fail, and if it did there would only be no bar.
            let _ = waiter.join();
        }
        self.bar.finish_and_clear();
    }
}

/// Whether it can be seen.
fn is_wanted() -> bool {
    io::stderr().is_terminal()
        && !are_notes_muted()
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
