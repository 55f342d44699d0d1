//! Reading lines from a terminal that shows text and nothing else, as `TERM=dumb` says: without an editor, which would
//! move about on a screen that has no places. The terminal itself gives a line once Enter was pressed.

use std::ffi::OsStr;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::editor::{Input, POLL, READING, Wake};
use super::screen::Screen;

/// Whether a terminal of this name can only show text.
pub(super) fn is_dumb(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| term == "dumb")
}

/// Read a line. `before` is done once the terminal is free for it.
pub(super) fn read_line(prompt: &str, screen: &Screen, wake: &Wake, before: impl FnOnce()) -> Input {
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
        // Not through the buffer of the standard library: whether more is in there, nothing tells.
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
