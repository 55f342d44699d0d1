//! Spilled content: named by what it is, compressed, in a directory nobody else may look into.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use plimsoll::Millis;
use tempfile::NamedTempFile;

use crate::error::StoreError;

/// Content that was put away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The blake3 hash of the content, in hex.
    pub hash: String,
    /// Its size.
    pub bytes: u64,
    /// What it takes where it is kept.
    pub stored: u64,
}

/// A place for content that is named by its hash. Putting the same content twice keeps it once.
pub trait Blobs: Send + Sync {
    /// Take content in. It is kept only once [`Staged::keep`] was called, which is done together with telling the
    /// store its name, or a sweep could take it for left over.
    fn stage(&self, content: &mut dyn Read) -> Result<Box<dyn Staged>, StoreError>;

    /// Read content back; nothing if it is not there.
    fn get(&self, hash: &str) -> Result<Option<Box<dyn Read>>, StoreError>;

    /// Let content go. It is no error if it is gone.
    fn remove(&self, hash: &str) -> Result<(), StoreError>;

    /// The hashes of everything that is kept.
    fn list(&self) -> Result<Vec<String>, StoreError>;

    /// Sweep away what was taken in before a time and never kept.
    fn sweep(&self, before: Millis) -> Result<(), StoreError>;
}

/// Content that was taken in and is not kept yet.
pub trait Staged: Send {
    /// What it is.
    fn blob(&self) -> &Blob;

    /// Keep it; it is there for good when this returns.
    fn keep(self: Box<Self>) -> Result<(), StoreError>;
}

struct StagedFile {
    blob: Blob,
    file: NamedTempFile,
    path: PathBuf,
}

impl Staged for StagedFile {
    fn blob(&self) -> &Blob {
        &self.blob
    }

    fn keep(self: Box<Self>) -> Result<(), StoreError> {
        let failed = |source| StoreError::Io { what: "cannot keep the whole output".into(), source };
        self.file.persist(&self.path).map_err(|error| failed(error.error))?;
        sync_folder(&self.path).map_err(failed)
    }
}

/// A directory of files, each compressed.
///
/// **Invariant:** every path is the directory and a name made of hex digits; links are not followed.
#[derive(Debug)]
pub struct Directory {
    root: PathBuf,
}

/// Fast, and still three to ten times smaller on what tools print.
const LEVEL: i32 = 3;
/// Files of this beginning are being written.
const UNFINISHED: &str = ".new-";

impl Directory {
    /// A directory. It is made when something is first kept in it, readable by its owner only.
    pub fn at(root: impl Into<PathBuf>) -> Directory {
        Directory { root: root.into() }
    }

    fn make(&self) -> Result<(), StoreError> {
        let failed = || format!("cannot use `{}` for spills", self.root.display());
        match fs::symlink_metadata(&self.root) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                let why = io::Error::new(io::ErrorKind::NotADirectory, "it is a link or a file");
                return Err(StoreError::io(failed())(why));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_private(&self.root).map_err(StoreError::io(failed()))?;
            }
            Err(error) => return Err(StoreError::io(failed())(error)),
        }
        restrict(&self.root).map_err(StoreError::io(failed()))
    }

    /// Where content of that hash lies. What is no hash has no place.
    fn path(&self, hash: &str) -> Option<PathBuf> {
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hash.then(|| self.root.join(format!("{hash}.zst")))
    }
}

impl Blobs for Directory {
    fn stage(&self, content: &mut dyn Read) -> Result<Box<dyn Staged>, StoreError> {
        let failed = |source| StoreError::Io { what: "cannot keep the whole output".into(), source };
        // The directory may have been swept away since.
        self.make()?;
        let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.root).map_err(failed)?;
        let mut hasher = blake3::Hasher::new();
        let mut bytes = 0;
        let mut writer = zstd::Encoder::new(file, LEVEL).map_err(failed)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            hasher.update(&buffer[..count]);
            writer.write_all(&buffer[..count]).map_err(failed)?;
            bytes += count as u64;
        }
        let file = writer.finish().map_err(failed)?;
        file.as_file().sync_data().map_err(failed)?;
        let hash = hasher.finalize().to_hex().to_string();
        let path = self.path(&hash).ok_or(StoreError::Closed)?;
        let stored = file.as_file().metadata().map_err(failed)?.len();
        Ok(Box::new(StagedFile { blob: Blob { hash, bytes, stored }, file, path }))
    }

    fn get(&self, hash: &str) -> Result<Option<Box<dyn Read>>, StoreError> {
        let Some(path) = self.path(hash) else { return Ok(None) };
        let file = match open_without_links(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io(format!("cannot open `{}`", path.display()))(error)),
        };
        let reader = zstd::Decoder::new(file).map_err(StoreError::io("cannot read spilled content"))?;
        Ok(Some(Box::new(reader)))
    }

    fn remove(&self, hash: &str) -> Result<(), StoreError> {
        let Some(path) = self.path(hash) else { return Ok(()) };
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io(format!("cannot remove `{}`", path.display()))(error))
            }
            _ => Ok(()),
        }
    }

    fn list(&self) -> Result<Vec<String>, StoreError> {
        let older = self.older(Millis(u64::MAX))?.into_iter();
        let hashes = older.filter_map(|name| name.strip_suffix(".zst").map(str::to_owned));
        Ok(hashes.filter(|hash| self.path(hash).is_some()).collect())
    }

    fn sweep(&self, before: Millis) -> Result<(), StoreError> {
        for name in self.older(before)?.iter().filter(|name| name.starts_with(UNFINISHED)) {
            // Somebody else may be sweeping as well.
            let _ = fs::remove_file(self.root.join(name));
        }
        Ok(())
    }
}

impl Directory {
    /// The names of files that were last written before a time.
    fn older(&self, before: Millis) -> Result<Vec<String>, StoreError> {
        let failed =
            |source| StoreError::Io { what: format!("cannot list `{}`", self.root.display()), source };
        let mut names = Vec::new();
        let entries = match fs::read_dir(&self.root) {
            // Nothing was ever kept.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let modified = entry.metadata().ok().and_then(|found| found.modified().ok());
            let age = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            if age.is_none_or(|age| age.as_millis() < u128::from(before.0)) {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort();
        Ok(names)
    }
}

/// A name survives a power cut only once its directory is on disk.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(unix)]
fn restrict(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::symlink_metadata(path)?.permissions().mode() & 0o777;
    // Somebody may have opened it to others; what is spilled is nobody else's business.
    if mode & 0o077 == 0 { Ok(()) } else { fs::set_permissions(path, fs::Permissions::from_mode(0o700)) }
}

#[cfg(unix)]
fn open_without_links(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

#[cfg(not(unix))]
fn make_private(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

#[cfg(not(unix))]
fn restrict(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn open_without_links(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::other("it is a link"));
    }
    OpenOptions::new().read(true).open(path)
}
