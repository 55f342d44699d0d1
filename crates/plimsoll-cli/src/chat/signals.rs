//! Ctrl-C, termination, and a terminal that hangs up.
//!
//! While a line is read, Ctrl-C is a key and comes through the editor. While the agent works it is a signal: the first
//! cancels the turn, a second one quits once the turn has ended, a third quits at once.

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

/// Time within which a second interrupt means to quit.
const TWICE: Duration = Duration::from_secs(2);

/// Time that a turn has to end after a request to terminate.
const GRACE: Duration = Duration::from_secs(5);

/// State of interrupts.
pub(super) struct Interrupts {
    state: Mutex<State>,
    /// Interrupts the line that is being read.
    pub(super) break_reading: Arc<AtomicBool>,
    /// Whether the chat is ending.
    pub(super) quits: Arc<AtomicBool>,
    /// Whether a read can be interrupted; a read from a pipe cannot.
    can_break: bool,
    /// Whether the terminal is gone.
    has_lost_terminal: AtomicBool,
}

/// Request of a signal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
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
    /// Handles the signals of this process from now on.
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
            // Without this thread, only the signal reports a hang-up.
            let watch = move || watch_terminal(&watched);
            drop(std::thread::Builder::new().name("plimsoll-terminal".into()).spawn(watch));
        }
        let _inside = runtime.enter();
        let kinds = [
            (SignalKind::interrupt(), Request::Stop),
            (SignalKind::terminate(), Request::End),
            (SignalKind::hangup(), Request::EndWithoutTerminal),
        ];
        for (kind, request) in kinds {
            if request == Request::EndWithoutTerminal && ignores_hang_up() {
                // A lost terminal still ends the chat, because there is no more input.
                continue;
            }
            // Without a handler the signal has its default effect, which is safe: the store is always consistent.
            let Ok(mut signals) = signal(kind) else { continue };
            let interrupts = Arc::clone(&interrupts);
            runtime.spawn(async move {
                while signals.recv().await.is_some() {
                    interrupts.interrupt(request);
                }
            });
        }
        interrupts
    }

    /// Begins a turn: the next interrupt cancels it.
    pub(super) fn begin_turn(&self) -> CancellationToken {
        let cancel = CancellationToken::new();
        self.state().turn = Some(cancel.clone());
        // A request to quit that came before this turn found nothing to cancel.
        if self.quits() {
            cancel.cancel();
        }
        cancel
    }

    /// Ends the turn.
    pub(super) fn end_turn(&self) {
        self.state().turn = None;
    }

    /// Cancels the turn, as Ctrl-C does.
    pub(super) fn cancel_turn(&self) {
        let mut state = self.state();
        state.last = Some(Instant::now());
        if let Some(turn) = &state.turn {
            turn.cancel();
        }
    }

    /// Whether the chat is ending.
    pub(super) fn quits(&self) -> bool {
        self.quits.load(Ordering::Acquire)
    }

    /// Whether the terminal is gone, so that nothing can be read.
    pub(super) fn has_lost_terminal(&self) -> bool {
        self.has_lost_terminal.load(Ordering::Acquire)
    }

    /// Records Ctrl-C at an empty prompt; returns whether it was pressed just before, too.
    pub(super) fn pressed_twice(&self) -> bool {
        let now = Instant::now();
        let last = self.state().last.replace(now);
        last.is_some_and(|last| now.duration_since(last) < TWICE)
    }

    /// Forgets the last Ctrl-C, which only cleared a line.
    pub(super) fn forget_press(&self) {
        self.state().last = None;
    }

    fn interrupt(&self, request: Request) {
        // A hang-up arrives as a signal, from the shell and from the terminal itself. It counts once: a second request
        // would cut off the turn that is being ended.
        if request == Request::EndWithoutTerminal && self.has_lost_terminal.swap(true, Ordering::AcqRel) {
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
        if request == Request::Stop && !was_cancelled {
            return;
        }
        // A read from a lost terminal never returns, and the editor would retry it forever.
        let is_lost = is_reading && (!self.can_break || request == Request::EndWithoutTerminal);
        if self.quits.swap(true, Ordering::AcqRel) || is_lost {
            quit_now();
        }
        if request != Request::Stop {
            // The process ends even if the turn does not.
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

/// Waits until the terminal hangs up. The kernel only signals processes that have it as their controlling terminal. Others
/// see the end of their input, which the editor's library would read forever.
fn watch_terminal(interrupts: &Interrupts) {
    let stdin = io::stdin();
    loop {
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        match poll(&mut watched, None) {
            Err(Errno::INTR) => {}
            Ok(_) if watched[0].revents().contains(PollFlags::HUP) => {
                return interrupts.interrupt(Request::EndWithoutTerminal);
            }
            // The terminal cannot be watched.
            Ok(_) | Err(_) => return,
        }
    }
}

/// Ends the process, restoring the terminal and releasing sessions.
pub(super) fn quit_now() -> ! {
    // The terminal first, because the release of leases waits for writes under way.
    restore();
    release();
    std::process::exit(i32::from(INTERRUPTED_CODE));
}

/// Modes of the terminal before the chat.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Turns off echo while the agent works; typed text waits for the next prompt. Dropping it restores the terminal.
pub(super) struct QuietTerminal;

impl QuietTerminal {
    pub(super) fn enter() -> QuietTerminal {
        // If this fails, typed keys appear within answers, and nothing else happens.
        if let Ok(before) = termios::tcgetattr(io::stdin()) {
            let mut quiet = before.clone();
            quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON;
            // Enter must stay a carriage return for the editor; as a newline it would add a line to the prompt.
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
        // Clears the status line and turns off bracketed paste.
        let _ = io::stdout().write_all(b"\r\x1b[K\x1b[?2004l");
        let _ = io::stdout().flush();
    }
}
