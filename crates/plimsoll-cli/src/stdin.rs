//! What standard input is: a file, a pipe with text, a terminal.

use std::io;

/// Whether standard input comes from a file, as with `plimsoll inspect < FILE`. A pipe is not read unless `-` says so: a
/// command started by another program may be given one that nothing is ever written to.
pub(crate) fn is_redirected_file() -> bool {
    #[cfg(unix)]
    let input = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned();
    #[cfg(windows)]
    let input = std::os::windows::io::AsHandle::as_handle(&io::stdin()).try_clone_to_owned();
    let Ok(mut input) = input.map(std::fs::File::from) else { return false };
    let Ok(metadata) = input.metadata() else { return false };
    // One that was read to its end by another command before has nothing for this one. One that was empty from the
    // beginning was meant: a session of the directory in its place would be shown as what it is not.
    let has_more = |at: u64| metadata.len() == 0 || at < metadata.len();
    metadata.is_file() && io::Seek::stream_position(&mut input).is_ok_and(has_more)
}

/// Whether a pipe has text that can be read: most likely a session that was meant to be.
pub(crate) fn has_piped_text() -> bool {
    #[cfg(unix)]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let stdin = io::stdin();
        let is_pipe = rustix::fs::fstat(&stdin)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_fifo());
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        let has_text = |ready: &[PollFd<'_>]| ready.iter().any(|one| one.revents().contains(PollFlags::IN));
        is_pipe && poll(&mut ready, Some(&Timespec::default())).is_ok() && has_text(&ready)
    }
    #[cfg(not(unix))]
    false
}
