//! Line input on a terminal without cursor movement (`TERM=dumb`), where the editor cannot draw. The terminal itself edits
//! the line and delivers it on Enter.

use std::ffi::OsStr;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::editor::{EditorWaker, Input, POLL, READING};
use super::screen::Screen;

/// Whether a terminal of this name cannot move the cursor.
pub(super) fn is_dumb(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| term == "dumb")
}

/// Reads a line. `before` runs once the terminal is free.
pub(super) fn read_line(prompt: &str, screen: &Screen, wake: &EditorWaker, before: impl FnOnce()) -> Input {
    let _one_at_a_time = READING.lock().unwrap_or_else(PoisonError::into_inner);
    before();
    screen.prompt(prompt);
    let (stdin, mut bytes) = (io::stdin(), [0; 4_096]);
    loop {
        if wake.break_reading.swap(false, Ordering::AcqRel) {
            screen.prompt("\n");
            return if wake.is_over() { Input::End } else { Input::Woken };
        }
        let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
        // Bypasses the buffer of the standard library, because its content would be invisible to `poll`.
        let read = match poll(&mut watched, Timespec::try_from(POLL).ok().as_ref()) {
            Ok(0) => continue,
            Ok(_) => rustix::io::read(&stdin, &mut bytes),
            Err(error) => Err(error),
        };
        match read {
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return Input::End,
            Ok(length) => {
                let line = String::from_utf8_lossy(&bytes[..length]);
                return Input::Line(line.trim_end_matches(['\n', '\r']).to_owned());
            }
        }
    }
}
