//! The temporary directory of commands, and removal of those that killed processes have left.
//!
//! A directory is removed with its sandbox. One whose process was killed stays, so later processes look for them: each
//! is locked by its owner while that lives. A process ID in its name would not do, because a container may share `/tmp`
//! with its host but not the IDs.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use tempfile::TempDir;

/// Prefix of the names. No directory of a user should have it.
const PREFIX: &str = "plimsoll-commands-";
/// Age below which a directory may not be locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// Default directories for temporary files, in addition to the one of the environment.
const USUAL_PARENTS: [&str; 2] = ["/tmp", "/var/tmp"];

/// A directory that is removed when dropped.
pub(super) struct TemporaryDirectory {
    directory: TempDir,
    /// Holds the lock, and still refers to this directory if a command replaces its path with a link.
    handle: File,
}

impl TemporaryDirectory {
    /// Creates a directory, outside of these writable directories if possible.
    pub(super) fn create(writable: &[PathBuf]) -> io::Result<TemporaryDirectory> {
        let usual = USUAL_PARENTS.iter().map(PathBuf::from);
        let parents: Vec<PathBuf> = [std::env::temp_dir()]
            .into_iter()
            .chain(usual)
            .filter_map(|parent| parent.canonicalize().ok())
            .collect();
        let is_writable = |parent: &PathBuf| writable.iter().any(|directory| parent.starts_with(directory));
        let (inside, outside): (Vec<_>, Vec<_>) = parents.into_iter().partition(is_writable);
        let mut result = Err(io::Error::from(io::ErrorKind::NotFound));
        // Outside of writable directories first: inside, a command can move the directory away.
        for parent in outside.iter().chain(&inside) {
            result = TemporaryDirectory::create_in(parent);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn create_in(parent: &Path) -> io::Result<TemporaryDirectory> {
        // Other users of this machine must not read files of commands.
        let private = std::fs::Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir_in(parent)?;
        let handle = open(directory.path())?;
        flock(&handle, FlockOperation::NonBlockingLockExclusive)?;
        Ok(TemporaryDirectory { directory, handle })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn handle(&self) -> &File {
        &self.handle
    }

    /// Returns whether the path still leads to the directory. A command can move it away if it may write to its parent.
    pub(super) fn is_in_place(&self) -> bool {
        let found =
            crate::files::open_directory(self.path()).and_then(|directory| File::from(directory).metadata());
        let (Ok(found), Ok(own)) = (found, self.handle.metadata()) else { return false };
        (found.dev(), found.ino()) == (own.dev(), own.ino())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Removes directories that killed processes have left, on a new thread.
pub(super) fn sweep_in_background() {
    let sweep = || sweep(&std::env::temp_dir(), YOUNG);
    // If no thread can be spawned now, another process sweeps later.
    let _ = std::thread::Builder::new().name("plimsoll-sweep".into()).spawn(sweep);
}

/// Removes directories of this user whose owners are gone.
fn sweep(parent: &Path, young: Duration) {
    let own = rustix::process::getuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(directory) = open(&entry.path()) else { continue };
        let Ok(about) = directory.metadata() else { continue };
        let age = about.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
        // A young directory may belong to a process that is just about to lock it.
        if about.uid() != own || age.is_none_or(|age| age < young) {
            continue;
        }
        if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            tracing::info!(path = %entry.path().display(), "removing what a killed agent has left");
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{PREFIX, TemporaryDirectory, sweep};

    #[test]
    fn only_directories_without_an_owner_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let living = TemporaryDirectory::create_in(parent.path()).unwrap();
        // As a killed process leaves it: the directory is there, the lock went with the process.
        let left = parent.path().join(format!("{PREFIX}left"));
        std::fs::create_dir_all(left.join("deep")).unwrap();
        std::fs::write(left.join("deep/file"), "x").unwrap();
        std::fs::create_dir(parent.path().join("plimsoll-mine")).unwrap();
        std::os::unix::fs::symlink(parent.path(), parent.path().join(format!("{PREFIX}link"))).unwrap();
        sweep(parent.path(), Duration::from_secs(60));
        assert!(left.exists(), "it may be about to be locked");
        sweep(parent.path(), Duration::ZERO);
        assert!(!left.exists());
        assert!(living.path().exists() && parent.path().join("plimsoll-mine").exists());
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
