//! Detection of standard input: a file, a pipe with text, or a terminal.

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
    // A file that an earlier command in the same shell read to its end has nothing for this one. An empty file was meant as
    // input: falling back to a session of the directory would show something else.
    let has_more = |at: u64| metadata.len() == 0 || at < metadata.len();
    metadata.is_file() && io::Seek::stream_position(&mut input).is_ok_and(has_more)
}

/// Whether a pipe has text to read: most likely a session that was meant as input.
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
