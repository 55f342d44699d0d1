//! Reading files that a checkout supplies.
//!
//! A checkout chooses file types and link targets, so any of its files may be an endless device, a pipe without a
//! writer, or on a mount that does not respond. These functions read regular files only, up to a limit, and never more
//! than the file's size: `/proc/kmsg` and similar files are regular with size 0, and block when they are read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// Timeout for reading one file. A local disk needs milliseconds.
const DEADLINE: Duration = Duration::from_secs(10);

/// The beginning of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileHead {
    /// The bytes that were read.
    pub bytes: Vec<u8>,
    /// Size of the whole file when it was opened.
    pub size: u64,
}

impl FileHead {
    /// Whether the file has more bytes than were read.
    pub fn is_cut(&self) -> bool {
        self.size > self.bytes.len() as u64
    }
}

/// Reads the first `most` bytes of a regular file. Links are followed.
///
/// May block on a mount that does not respond; [`read_in_time`] does not.
pub fn read_regular(path: &Path, most: u64) -> io::Result<FileHead> {
    // Checked before opening, because opening some devices has side effects.
    require_regular(&std::fs::metadata(path)?)?;
    let file = open(path)?;
    // The file may have been replaced since the check.
    require_regular(&file.metadata()?)?;
    head_of(file, most)
}

/// Reads the first `most` bytes of an open file.
fn head_of(file: File, most: u64) -> io::Result<FileHead> {
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(most.min(size)).read_to_end(&mut bytes)?;
    // A file that shrank while it was read was still read whole.
    let size = if (bytes.len() as u64) < most.min(size) { bytes.len() as u64 } else { size };
    Ok(FileHead { bytes, size })
}

/// Like [`read_regular`], with a timeout of ten seconds.
pub fn read_in_time(path: &Path, most: u64) -> io::Result<FileHead> {
    let path = path.to_owned();
    in_time(DEADLINE, move || read_regular(&path, most))
}

/// Like [`read_in_time`], for a path whose links were resolved and checked: fails if it contains a link by now.
pub fn read_resolved(path: &Path, most: u64) -> io::Result<FileHead> {
    let path = path.to_owned();
    in_time(DEADLINE, move || {
        // Checked before opening, because opening some devices has side effects.
        require_regular(&std::fs::symlink_metadata(&path)?)?;
        head_of(plimsoll_sandbox::open_file(&path)?, most)
    })
}

/// Runs `work` on a separate thread and returns an error if it exceeds the deadline. The thread is leaked, because a
/// blocked read cannot be interrupted.
fn in_time<T: Send + 'static>(
    deadline: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (send, receive) = mpsc::sync_channel(1);
    std::thread::Builder::new().name("read".to_owned()).spawn(move || {
        // After the deadline the receiver is gone.
        let _ = send.send(work());
    })?;
    receive.recv_timeout(deadline).unwrap_or_else(|_| {
        let problem = format!("cannot be read within {} s", deadline.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, problem))
    })
}

fn require_regular(about: &std::fs::Metadata) -> io::Result<()> {
    if about.is_file() { Ok(()) } else { Err(io::Error::other("not a regular file")) }
}

/// Opens a file without waiting for the other end of a pipe, and without making a terminal the process's own.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::{in_time, read_in_time, read_regular, read_resolved};

    #[test]
    fn the_beginning_of_a_regular_file_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "0123456789").unwrap();
        for (most, bytes, is_cut) in [(4, "0123", true), (10, "0123456789", false), (99, "0123456789", false)]
        {
            let head = read_regular(&path, most).unwrap();
            assert_eq!((head.bytes.as_slice(), head.size), (bytes.as_bytes(), 10));
            assert_eq!(head.is_cut(), is_cut, "{most}");
            assert_eq!(read_in_time(&path, most).unwrap(), head);
            assert_eq!(read_resolved(&path.canonicalize().unwrap(), most).unwrap(), head);
        }
        assert_eq!(
            read_regular(&directory.path().join("none"), 9).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[cfg(unix)]
    #[test]
    fn devices_pipes_and_directories_are_rejected_also_through_links() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for path in [pipe.as_path(), &link, directory.path(), Path::new("/dev/zero"), Path::new("/dev/tty")] {
            let error = read_regular(path, 9).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file", "{}", path.display());
            let error = read_resolved(path, 9).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file", "{}", path.display());
        }
    }

    /// Such files are regular and have size 0, but reading them blocks or never ends.
    #[cfg(target_os = "linux")]
    #[test]
    fn files_without_a_size_are_empty() {
        for path in ["/proc/kmsg", "/proc/self/mem", "/proc/self/environ"] {
            if let Ok(head) = read_regular(Path::new(path), 9) {
                assert_eq!((head.bytes.len(), head.size), (0, 0), "{path}");
            }
        }
    }

    #[test]
    fn a_read_that_does_not_end_times_out() {
        let (release, blocked) = mpsc::channel::<()>();
        let read = in_time(Duration::from_millis(20), move || {
            let _ = blocked.recv();
            Ok(())
        });
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(release);
    }
}
