//! Opens files by paths that were checked, without following links.
//!
//! A path is resolved once, matched against the rules, and opened later. In between, a command that runs at the same
//! time or another program may replace a directory of the path by a link. So nothing here follows a link anywhere in a
//! path: a path that contains one since it was resolved is an error. On Linux `openat2` does this in one call. If the
//! kernel or a seccomp filter does not have it, each directory of the path is opened in the one before.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, RawMode, RenameFlags, XattrFlags};
use rustix::io::Errno;
use thiserror::Error;

/// Size limit of files that are read as a whole or changed. A change keeps the old content in memory.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// Prefix of temporary file names.
const UNFINISHED: &str = ".plimsoll-";
/// Age in seconds after which a temporary file counts as orphaned. A change takes no longer than writing the file.
const ABANDONED: i64 = 3600;
/// Maximum number of entries of a directory that are searched for orphaned files.
const MAX_SWEPT: usize = 20_000;
/// Linux's limit for the names of a file's extended attributes, and for one value.
const MAX_ATTRIBUTES: usize = 64 << 10;

/// Opens a regular file for reading.
pub fn open_file(path: &Path) -> io::Result<File> {
    // Without this, opening a pipe would wait for a writer.
    let file = File::from(open(path, OFlags::RDONLY | OFlags::NONBLOCK)?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

/// Fails unless a path exists and contains no link.
pub fn require_no_links(path: &Path) -> io::Result<()> {
    open(path, reachable()).map(drop)
}

/// Opens a path that must contain no link, for a rule about it.
#[cfg(target_os = "linux")]
pub(crate) fn open_place(path: &Path) -> io::Result<OwnedFd> {
    open(path, reachable())
}

/// Flags that open even what cannot be read, if the system has them.
fn reachable() -> OFlags {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return OFlags::PATH;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return OFlags::RDONLY | OFlags::NONBLOCK;
}

/// Opens a directory whose path must contain no link.
pub(crate) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    match open(path, OFlags::RDONLY | OFlags::DIRECTORY) {
        // A directory that may be entered but not listed is good enough.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open(path, reachable() | OFlags::DIRECTORY)
        }
        other => other,
    }
}

fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), rustix::fs::ResolveFlags::NO_SYMLINKS) {
        // Seccomp filters answer with one of these, such as the sandbox's own; `openat2` itself does not.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return opened.and_then(require_no_link).map_err(path_error),
    }
    walk_without_links(path, flags).and_then(require_no_link).map_err(path_error)
}

/// Returns an error for a link, which `O_PATH` opens instead of rejecting.
fn require_no_link(opened: OwnedFd) -> Result<OwnedFd, Errno> {
    match FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode) {
        FileType::Symlink => Err(Errno::LOOP),
        _ => Ok(opened),
    }
}

/// Opens each directory of a path in the one before.
fn walk_without_links(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let steps = reachable() | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let names: Vec<Component<'_>> = path.components().filter(|part| *part != Component::RootDir).collect();
    let root = if path.is_absolute() { "/" } else { "." };
    let mut at = rustix::fs::openat(CWD, root, if names.is_empty() { flags } else { steps }, Mode::empty())?;
    for (place, name) in names.iter().enumerate() {
        let flags = if place + 1 == names.len() { flags } else { steps };
        at = rustix::fs::openat(&at, name.as_os_str(), flags, Mode::empty())?;
    }
    Ok(at)
}

/// Converts an error. The system's own message would be about too many links.
fn path_error(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => io::Error::other("its path contains a symbolic link"),
        other => other.into(),
    }
}

/// Content of a file, with what a change of the file has to preserve.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileContent {
    /// The content.
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    owner: (u32, u32),
}

impl FileContent {
    /// Returns the BLAKE3 hash of the content.
    pub fn hash(&self) -> blake3::Hash {
        blake3::hash(&self.bytes)
    }
}

/// An existing or future file: its opened directory, and its name there.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use plimsoll_sandbox::{FileEntry, ReplaceError};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().canonicalize()?.join("notes.txt");
/// let entry = FileEntry::create_directories(&path)?;
/// entry.replace(None, b"one", None)?;
/// let seen = entry.read()?;
/// std::fs::write(&path, "changed by another program")?;
/// assert!(matches!(entry.replace(seen.as_ref(), b"two", None), Err(ReplaceError::Changed)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FileEntry {
    directory: OwnedFd,
    name: OsString,
}

/// Reason why a file was not replaced or removed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// The content differs from the one that was read.
    #[error("the file has changed since it was read")]
    Changed,
    /// The file could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl FileEntry {
    /// Opens the directory of a path; `None` if it does not exist.
    pub fn find(path: &Path) -> io::Result<Option<FileEntry>> {
        let (directory, name) = parts_of(path)?;
        match open_directory(directory) {
            Ok(directory) => Ok(Some(FileEntry { directory, name })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the directories of a path that do not exist, the outermost first.
    pub fn missing_directories(path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut missing = Vec::new();
        for directory in path.ancestors().skip(1) {
            match open_directory(directory) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(directory.to_owned()),
                Err(error) => return Err(error),
            }
        }
        missing.reverse();
        Ok(missing)
    }

    /// Opens the directory of a path, and creates missing directories.
    pub fn create_directories(path: &Path) -> io::Result<FileEntry> {
        let missing = FileEntry::missing_directories(path)?;
        let (directory, name) = parts_of(path)?;
        let Some(first) = missing.first() else {
            return Ok(FileEntry { directory: open_directory(directory)?, name });
        };
        let mut at = open_directory(first.parent().unwrap_or(Path::new("/")))?;
        for directory in &missing {
            let name = directory.file_name().unwrap_or_default();
            match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o777)) {
                Err(Errno::EXIST) | Ok(()) => {}
                Err(error) => return Err(path_error(error)),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            at = rustix::fs::openat(&at, name, flags, Mode::empty()).map_err(path_error)?;
        }
        Ok(FileEntry { directory: at, name })
    }

    /// Reads the file; `None` if it does not exist. Fails unless it is a regular file of at most [`MAX_FILE_BYTES`].
    pub fn read(&self) -> io::Result<Option<FileContent>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => File::from(file.map_err(path_error)?),
        };
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let too_large = || {
            let most = MAX_FILE_BYTES >> 20;
            io::Error::other(format!("it is larger than {most} MB, the limit for changes"))
        };
        if about.len() > MAX_FILE_BYTES {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        // The file may grow while it is read.
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(too_large());
        }
        let mode = about.permissions().mode() & 0o7777;
        Ok(Some(FileContent { bytes, mode, owner: (about.uid(), about.gid()) }))
    }

    /// Returns whether the permissions of the file let this process write it. Replacing it does not check them.
    pub fn may_write(&self) -> bool {
        rustix::fs::accessat(&self.directory, &self.name, Access::WRITE_OK, AtFlags::empty()).is_ok()
    }

    /// Replaces the file atomically: the new content is written to a temporary file, which is then renamed. `old` is
    /// the content that was read; a file whose content has changed since is not written. `mode` sets other permissions
    /// than those of `old`.
    ///
    /// A hard link to the file keeps the old content. Writing into the file itself could leave half of it after a
    /// crash.
    pub fn replace(
        &self,
        old: Option<&FileContent>,
        bytes: &[u8],
        mode: Option<u32>,
    ) -> Result<(), ReplaceError> {
        let mode = mode.or(old.map(|old| old.mode));
        self.sweep(ABANDONED);
        let unfinished = self.write_temporary(bytes, mode, old.map(|old| old.owner))?;
        let (directory, name) = (&self.directory, &self.name);
        let Some(old) = old else {
            match self.give_name(&unfinished.name, name) {
                Ok(()) => unfinished.forget(),
                Err(Errno::EXIST) => return Err(ReplaceError::Changed),
                Err(error) => return Err(path_error(error).into()),
            }
            self.sync();
            return Ok(());
        };
        // The two files are exchanged, so that the replaced content can be checked: otherwise a change that another
        // program saved just now would be lost.
        match rustix::fs::renameat_with(directory, &*unfinished.name, directory, name, RenameFlags::EXCHANGE)
        {
            Ok(()) => {
                let replaced = FileEntry { directory: directory.try_clone()?, name: unfinished.name.clone() };
                if replaced.read().ok().flatten().is_none_or(|found| found.bytes != old.bytes) {
                    rustix::fs::renameat_with(
                        directory,
                        &*unfinished.name,
                        directory,
                        name,
                        RenameFlags::EXCHANGE,
                    )
                    .map_err(path_error)?;
                    return Err(ReplaceError::Changed);
                }
            }
            Err(Errno::NOENT) => return Err(ReplaceError::Changed),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                // Not every file system can exchange files. Without that, a change between this check and the rename is
                // lost.
                if self.read()?.is_none_or(|found| found.bytes != old.bytes) {
                    return Err(ReplaceError::Changed);
                }
                rustix::fs::renameat(directory, &*unfinished.name, directory, name).map_err(path_error)?;
                unfinished.forget();
            }
            Err(error) => return Err(path_error(error).into()),
        }
        self.sync();
        Ok(())
    }

    /// Removes the file if it still has the content that was read.
    pub fn remove(&self, old: &FileContent) -> Result<(), ReplaceError> {
        self.remove_after(old, || {})
    }

    /// Like [`remove`](FileEntry::remove), and calls `moved_aside` while the file has no name.
    fn remove_after(&self, old: &FileContent, moved_aside: impl FnOnce()) -> Result<(), ReplaceError> {
        // Moved aside first, so that the removed content can be checked, as in `replace`.
        let aside = Unfinished { directory: self.directory.as_fd(), name: unfinished_name(), is_there: true };
        rustix::fs::renameat(&self.directory, &self.name, &self.directory, &*aside.name)
            .map_err(path_error)?;
        moved_aside();
        let moved = FileEntry { directory: self.directory.try_clone()?, name: aside.name.clone() };
        if moved.read().ok().flatten().is_some_and(|found| found.bytes == old.bytes) {
            // Dropping it removes the file.
            drop(aside);
            self.sync();
            return Ok(());
        }
        match self.give_name(&aside.name, &self.name) {
            Ok(()) => {}
            // Another program has created the file again: both contents are kept.
            Err(Errno::EXIST) => {
                let mut kept = self.name.clone();
                kept.push(
                    aside
                        .name
                        .clone()
                        .into_string()
                        .map_or_else(|_| ".kept".into(), |name| name.replace(".tmp", ".kept")),
                );
                self.give_name(&aside.name, &kept).map_err(path_error)?;
                aside.forget();
                let message = format!(
                    "another program has just created it again; its old content is in `{}` in the same directory",
                    kept.to_string_lossy()
                );
                return Err(ReplaceError::Io(io::Error::other(message)));
            }
            Err(error) => return Err(path_error(error).into()),
        }
        aside.forget();
        Err(ReplaceError::Changed)
    }

    /// Renames a file of the directory without replacing another.
    fn give_name(&self, from: &OsString, to: &OsString) -> Result<(), Errno> {
        let directory = &self.directory;
        match rustix::fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
            // Not every file system supports this. A hard link does not replace anything either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())?;
                rustix::fs::unlinkat(directory, from, AtFlags::empty())
            }
            renamed => renamed,
        }
    }

    fn write_temporary(
        &self,
        bytes: &[u8],
        mode: Option<u32>,
        owner: Option<(u32, u32)>,
    ) -> Result<Unfinished<'_>, ReplaceError> {
        let name = unfinished_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Narrow permissions are set before the file has any content.
        let first = Mode::from_raw_mode(if mode.is_some() { 0o600 } else { 0o666 });
        let mut file =
            File::from(rustix::fs::openat(&self.directory, &name, flags, first).map_err(path_error)?);
        let unfinished = Unfinished { directory: self.directory.as_fd(), name, is_there: true };
        let own = file.metadata()?;
        if let Some((user, group)) = owner.filter(|owner| *owner != (own.uid(), own.gid())) {
            let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
            // Only root may change the owner. Otherwise the file belongs to the writer, as with other editors.
            let _ = rustix::fs::fchown(&file, Some(user), Some(group));
        }
        // After the owner, because changing that clears the set-ID bits.
        if let Some(mode) = mode {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode as RawMode)).map_err(path_error)?;
        }
        if owner.is_some() {
            self.copy_attributes(&file);
        }
        file.write_all(bytes)?;
        // Before the rename: after a power cut, the name must not lead to an empty file.
        file.sync_all()?;
        Ok(unfinished)
    }

    /// Copies the extended attributes of the file, such as access control lists, to its replacement. Attributes that
    /// the system does not let this process set are left out, as with other editors.
    fn copy_attributes(&self, new: &File) {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(old) = rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty()) else { return };
        let mut names = vec![0; MAX_ATTRIBUTES];
        let Ok(count) = rustix::fs::flistxattr(&old, &mut names) else { return };
        for name in names[..count].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            // These describe the content, and the system removes them when a file is written to.
            let is_of_content = ["security.capability", "security.ima", "security.evm"];
            if is_of_content.iter().any(|known| known.as_bytes() == name) {
                continue;
            }
            let mut value = vec![0; MAX_ATTRIBUTES];
            if let Ok(count) = rustix::fs::fgetxattr(&old, name, &mut value) {
                let _ = rustix::fs::fsetxattr(new, name, &value[..count], XattrFlags::empty());
            }
        }
    }

    /// Removes the temporary files of processes that were killed during a change.
    fn sweep(&self, abandoned: i64) {
        let Ok(entries) = rustix::fs::Dir::read_from(&self.directory) else { return };
        for entry in entries.take(MAX_SWEPT).flatten() {
            let name = entry.file_name().to_bytes();
            if !name.starts_with(UNFINISHED.as_bytes()) || !name.ends_with(b".tmp") {
                continue;
            }
            let name = OsStr::from_bytes(name);
            let Ok(about) = rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            // Renaming updates the time of the last status change, while the modification time may be old.
            let since = about.st_ctime;
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            if i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(since) >= abandoned {
                let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
            }
        }
    }

    /// Syncs the directory, so that a rename survives a power cut, if the file system supports it.
    fn sync(&self) {
        let _ = rustix::fs::fsync(&self.directory);
    }
}

/// Removes an empty directory that is not a link.
pub fn remove_empty_directory(path: &Path) -> io::Result<()> {
    let (parent, name) = parts_of(path)?;
    let parent = open_directory(parent)?;
    rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(path_error)
}

fn parts_of(path: &Path) -> io::Result<(&Path, OsString)> {
    match (path.parent(), path.file_name()) {
        (Some(directory), Some(name)) => Ok((directory, name.to_owned())),
        _ => Err(io::Error::other("not the name of a file")),
    }
}

/// Returns a new temporary name. It is hidden, so that listings and searches leave it out.
fn unfinished_name() -> OsString {
    let random = RandomState::new().build_hasher().finish();
    format!("{UNFINISHED}{random:016x}{:08x}.tmp", std::process::id()).into()
}

/// A file that is removed unless it gets its final name.
struct Unfinished<'a> {
    directory: std::os::fd::BorrowedFd<'a>,
    name: OsString,
    is_there: bool,
}

impl Unfinished<'_> {
    fn forget(mut self) {
        self.is_there = false;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.is_there {
            let _ = rustix::fs::unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::OFlags;

    use super::{FileEntry, ReplaceError, open_file, walk_without_links};

    /// Both ways to open a path detect a link anywhere in it.
    #[test]
    fn no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("a")).unwrap();
        std::fs::write(root.join("a/file"), "x").unwrap();
        symlink("a", root.join("b")).unwrap();
        symlink("file", root.join("a/link")).unwrap();
        let walked = |path: &str| {
            walk_without_links(&root.join(path), OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC).is_ok()
        };
        for (path, is_open) in [("a/file", true), ("b/file", false), ("a/link", false), ("a/none", false)] {
            assert_eq!(open_file(&root.join(path)).is_ok(), is_open, "{path}");
            assert_eq!(walked(path), is_open, "{path}, walked");
        }
        assert!(FileEntry::find(&root.join("b/file")).is_err());
        assert!(
            FileEntry::create_directories(&root.join("b/c/file")).is_err(),
            "no directory is created through a link"
        );
        assert!(!root.join("a/c").exists());
        let linked = FileEntry::find(&root.join("a/link")).unwrap().unwrap();
        assert!(linked.read().is_err(), "a link is not the file it leads to");
    }

    #[test]
    fn files_changed_at_the_last_moment_are_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("file");
        std::fs::write(&path, "old").unwrap();
        let place = FileEntry::find(&path).unwrap().unwrap();
        let old = place.read().unwrap().unwrap();
        std::fs::write(&path, "saved meanwhile").unwrap();
        assert!(matches!(place.replace(Some(&old), b"new", None), Err(ReplaceError::Changed)));
        assert!(matches!(place.remove(&old), Err(ReplaceError::Changed)));
        assert!(matches!(place.replace(None, b"new", None), Err(ReplaceError::Changed)));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "saved meanwhile");
        let old = place.read().unwrap().unwrap();
        place.replace(Some(&old), b"new", None).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        place.remove(&place.read().unwrap().unwrap()).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "no other file is left");
    }

    /// A file that another program creates while the old one is moved aside stays, and so does the old one.
    #[test]
    fn a_file_created_during_a_removal_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("file");
        std::fs::write(&path, "old").unwrap();
        let place = FileEntry::find(&path).unwrap().unwrap();
        let old = place.read().unwrap().unwrap();
        std::fs::write(&path, "saved meanwhile").unwrap();
        let failed = place.remove_after(&old, || std::fs::write(&path, "made anew").unwrap());
        let Err(ReplaceError::Io(error)) = failed else { panic!("{failed:?}") };
        assert!(error.to_string().contains("just created it again"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "made anew");
        let names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().flatten().collect();
        let kept = names.iter().find(|entry| entry.path() != path).unwrap().path();
        assert!(kept.extension().is_some_and(|kind| kind == "kept"), "{kept:?}");
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "saved meanwhile");
    }

    #[test]
    fn leftovers_of_a_killed_process_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let directory_path = directory.path().canonicalize().unwrap();
        for name in [".plimsoll-left.tmp", ".plimsoll-other", "a.tmp"] {
            std::fs::write(directory_path.join(name), "x").unwrap();
        }
        let place = FileEntry::find(&directory_path.join("file")).unwrap().unwrap();
        place.sweep(3600);
        assert!(directory_path.join(".plimsoll-left.tmp").exists(), "it may be in use");
        place.sweep(0);
        let mut names: Vec<_> =
            std::fs::read_dir(&directory_path).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".plimsoll-other", "a.tmp"]);
    }

    #[test]
    fn extended_attributes_are_copied_to_a_replaced_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("file");
        std::fs::write(&path, "old").unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(&path, "user.plimsoll", b"kept", flags).is_err() {
            return;
        }
        let place = FileEntry::find(&path).unwrap().unwrap();
        let old = place.read().unwrap().unwrap();
        place.replace(Some(&old), b"new", None).unwrap();
        let mut value = [0; 16];
        let count = rustix::fs::getxattr(&path, "user.plimsoll", &mut value).unwrap();
        assert_eq!(&value[..count], b"kept");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    }
}
