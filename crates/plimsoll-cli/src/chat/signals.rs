//! Ctrl-C, a request to end, and a terminal that hangs up.
//!
//! While a line is read Ctrl-C is a key and comes through the editor. While the agent works it is a signal: the first
//! cancels the turn, a second one quits once that is done, a third quits at once.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{self, InputModes, LocalModes, OptionalActions, Termios};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::pager;
use crate::interrupt::{INTERRUPTED_CODE, ignores_hang_up, release};

/// Two interrupts within this time are one wish: to quit.
const TWICE: Duration = Duration::from_secs(2);

/// So long a turn may take to end once the process was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// What interrupts do.
pub(super) struct Interrupts {
    state: Mutex<State>,
    /// Ends a line that is being read.
    pub(super) break_reading: Arc<AtomicBool>,
    /// Whether the chat is to end.
    pub(super) quits: Arc<AtomicBool>,
    /// Whether a line that is being read can be broken off; one that comes from a pipe cannot.
    can_break: bool,
    /// Whether the terminal is gone.
    has_lost_terminal: AtomicBool,
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Stop the turn.
    Stop,
    /// End.
    End,
    /// End; the terminal is gone.
    EndWithoutTerminal,
}

#[derive(Default)]
struct State {
    turn: Option<CancellationToken>,
    last: Option<Instant>,
}

impl Interrupts {
    /// Take the signals of this process from now on.
    pub(super) fn watch(runtime: &Handle, can_break: bool) -> Arc<Interrupts> {
        let interrupts = Arc::new(Interrupts {
            state: Mutex::default(),
            break_reading: Arc::default(),
            quits: Arc::default(),
            can_break,
            has_lost_terminal: AtomicBool::new(false),
        });
        if can_break {
            let watched = Arc::clone(&interrupts);
            // Without this thread a hang-up is known by its signal alone.
            let watch = move || watch_terminal(&watched);
            drop(std::thread::Builder::new().name("plimsoll-terminal".into()).spawn(watch));
        }
        let _inside = runtime.enter();
        let kinds = [
            (SignalKind::interrupt(), Wish::Stop),
            (SignalKind::terminate(), Wish::End),
            (SignalKind::hangup(), Wish::EndWithoutTerminal),
        ];
        for (kind, wish) in kinds {
            if wish == Wish::EndWithoutTerminal && ignores_hang_up() {
                // A terminal that is gone still ends the chat: there is nothing more to be read from it.
                continue;
            }
            // Where a signal cannot be taken, it does what it always does: the store is whole at any time.
            let Ok(mut signals) = signal(kind) else { continue };
            let interrupts = Arc::clone(&interrupts);
            runtime.spawn(async move {
                while signals.recv().await.is_some() {
                    interrupts.interrupt(wish);
                }
            });
        }
        interrupts
    }

    /// A turn begins: the next interrupt cancels it.
    pub(super) fn begin_turn(&self) -> CancellationToken {
        let cancel = CancellationToken::new();
        self.state().turn = Some(cancel.clone());
        if self.quits() {
            cancel.cancel();
        }
        cancel
    }

    /// The turn is over.
    pub(super) fn end_turn(&self) {
        self.state().turn = None;
    }

    /// Cancel the turn, as Ctrl-C does.
    pub(super) fn cancel_turn(&self) {
        let mut state = self.state();
        state.last = Some(Instant::now());
        if let Some(turn) = &state.turn {
            turn.cancel();
        }
    }

    /// Whether the chat is to end.
    pub(super) fn quits(&self) -> bool {
        self.quits.load(Ordering::Acquire)
    }

    /// Whether the terminal is gone, so that nothing can be read any more.
    pub(super) fn has_lost_terminal(&self) -> bool {
        self.has_lost_terminal.load(Ordering::Acquire)
    }

    /// Ctrl-C was pressed at an empty prompt; says whether it was pressed just before, too.
    pub(super) fn pressed_twice(&self) -> bool {
        let now = Instant::now();
        let last = self.state().last.replace(now);
        last.is_some_and(|last| now.duration_since(last) < TWICE)
    }

    /// Ctrl-C has cleared a line, which is a wish of its own.
    pub(super) fn forget_press(&self) {
        self.state().last = None;
    }

    fn interrupt(&self, wish: Wish) {
        // A hang-up is told by a signal, by the shell that passes it on, and by the terminal itself. It is one wish: taken
        // for a second one, it would cut off the turn that is being ended.
        if wish == Wish::EndWithoutTerminal && self.has_lost_terminal.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut state = self.state();
        state.last = Some(Instant::now());
        let is_reading = state.turn.is_none();
        let was_cancelled = state.turn.as_ref().is_none_or(CancellationToken::is_cancelled);
        if let Some(turn) = &state.turn {
            turn.cancel();
        }
        drop(state);
        if wish == Wish::Stop && !was_cancelled {
            return;
        }
        // A line that is read from a terminal that is gone never comes, and the editor would ask for it without end.
        let is_lost = is_reading && (!self.can_break || wish == Wish::EndWithoutTerminal);
        if self.quits.swap(true, Ordering::AcqRel) || is_lost {
            quit_now();
        }
        if wish != Wish::Stop {
            // Whatever keeps the turn from ending, a process that was asked to end does.
            std::thread::spawn(|| {
                std::thread::sleep(GRACE);
                quit_now();
            });
        }
        self.break_reading.store(true, Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wait until the terminal hangs up. The kernel sends a signal for that only to processes that have it as their controlling
/// terminal. Others are told by the end of their input, which the editor's library reads again and again without end.
fn watch_terminal(interrupts: &Interrupts) {
    let stdin = io::stdin();
    loop {
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        match poll(&mut watched, None) {
            Err(Errno::INTR) => {}
            Ok(_) if watched[0].revents().contains(PollFlags::HUP) => {
                return interrupts.interrupt(Wish::EndWithoutTerminal);
            }
            // A terminal that cannot be watched.
            Ok(_) | Err(_) => return,
        }
    }
}

/// End the process: the terminal as it was, sessions given back.
pub(super) fn quit_now() -> ! {
    restore();
    release();
    std::process::exit(i32::from(INTERRUPTED_CODE));
}

/// The terminal as it was before the chat.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// A terminal that does not show what is typed while the agent works; what is typed waits for the next prompt. Dropping
/// it gives the terminal back.
pub(super) struct QuietTerminal;

impl QuietTerminal {
    pub(super) fn enter() -> QuietTerminal {
        // A terminal that cannot be told shows keys in the middle of answers, which is all that happens.
        if let Ok(before) = termios::tcgetattr(io::stdin()) {
            let mut quiet = before.clone();
            quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON;
            // Enter stays what it is for the editor; as a newline it would begin a new line of the prompt.
            quiet.input_modes -= InputModes::ICRNL;
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &quiet);
            *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        }
        QuietTerminal
    }
}

impl Drop for QuietTerminal {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    pager::leave();
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &before);
        // The line of what is waited for, and brackets around what is pasted.
        let _ = io::stdout().write_all(b"\r\x1b[K\x1b[?2004l");
        let _ = io::stdout().flush();
    }
}
