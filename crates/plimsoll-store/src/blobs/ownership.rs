//! Ownership of directories. A directory with files of another program is refused, and nothing in it is touched, not
//! even its permissions.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::is_name;
use crate::error::StoreError;

/// Marks a directory as a place for spills.
pub(super) const MARKER: &str = "PLIMSOLL-SPILLS.txt";

const WORDS: &str = "This directory belongs to Plimsoll. Each directory in it holds tool outputs that were too long for a \
window, of one database.\nWhat a session still needs is removed with the session; `plimsoll sessions gc` removes the rest.\n";

/// Prefix of files that are being written.
pub(super) const UNFINISHED: &str = ".new-";

/// Creates a directory for the spills of databases, or checks that it is one.
pub(super) fn claim(root: &Path) -> Result<(), StoreError> {
    let failed = || format!("cannot use `{}` for spills", root.display());
    let refused = |why: &str| StoreError::io(failed())(io::Error::other(why.to_owned()));
    match fs::symlink_metadata(root) {
        Ok(found) if found.is_dir() => {
            if !is_ours(root).map_err(StoreError::io(failed()))? {
                return Err(refused(
                    "it exists and holds files that are not Plimsoll's; set another directory",
                ));
            }
        }
        Ok(_) => return Err(refused("it is a link or a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_private(root).map_err(StoreError::io(failed()))?;
        }
        Err(error) => return Err(StoreError::io(failed())(error)),
    }
    mark(root).map_err(StoreError::io(failed()))
}

/// Creates the private directory of one database in a claimed place.
pub(super) fn make_own(own: &Path) -> Result<(), StoreError> {
    let failed = || format!("cannot use `{}` for spills", own.display());
    match fs::symlink_metadata(own) {
        // Its name is a random number for this database, in a place that is ours.
        Ok(found) if found.is_dir() => restrict(own).map_err(StoreError::io(failed())),
        Ok(_) => Err(StoreError::io(failed())(io::Error::other("it is a link or a file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_private(own).and_then(|()| sync_directory(own)).map_err(StoreError::io(failed()))
        }
        Err(error) => Err(StoreError::io(failed())(error)),
    }
}

/// Whether a directory is ours: it is marked, it is empty, or it only has files of older versions.
fn is_ours(root: &Path) -> io::Result<bool> {
    let is_marked = || fs::symlink_metadata(root.join(MARKER)).is_ok_and(|marker| marker.is_file());
    if is_marked() {
        return Ok(true);
    }
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let is_older = name.strip_suffix(".zst").is_some_and(is_name);
        if !is_older && !name.starts_with(UNFINISHED) {
            // Another process may have claimed the directory after the first check. It marks a directory before it puts
            // anything else there, so a second check decides.
            return Ok(is_marked());
        }
    }
    Ok(true)
}

fn mark(root: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).open(root.join(MARKER)) {
        Ok(mut file) => file.write_all(WORDS.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Syncs the directory of a path: a new name only survives a power cut once its directory is on disk.
#[cfg(unix)]
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

#[cfg(not(unix))]
pub(super) fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(unix)]
fn restrict(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::symlink_metadata(path)?.permissions().mode() & 0o777;
    // Another program may have opened it to other users since; spilled outputs are private.
    if mode & 0o077 == 0 { Ok(()) } else { fs::set_permissions(path, fs::Permissions::from_mode(0o700)) }
}

#[cfg(unix)]
pub(super) fn open_without_links(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Whether a path still names this open file.
#[cfg(unix)]
pub(super) fn is_named(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let key = |found: fs::Metadata| (found.dev(), found.ino());
    match (fs::symlink_metadata(path), file.metadata()) {
        (Ok(named), Ok(open)) => key(named) == key(open),
        _ => false,
    }
}

#[cfg(not(unix))]
pub(super) fn is_named(path: &Path, _: &File) -> bool {
    path.exists()
}

#[cfg(not(unix))]
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

#[cfg(not(unix))]
fn restrict(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn open_without_links(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::other("it is a link"));
    }
    OpenOptions::new().read(true).open(path)
}
