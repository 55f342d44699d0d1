//! Blobs as compressed files, in a directory that is private to its owner.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::ownership::{self, UNFINISHED};
use super::{Blob, Blobs, Staged, is_name, is_spill_handle, spill_handle};
use crate::error::StoreError;

/// The directory of one database.
///
/// `<place>/<id>/<first two digits>/<name>.zst`: a directory for each pair of digits, so that names are listed in
/// pieces. Older versions kept the files of all databases in `<place>` itself. When a database is opened, the files
/// that it needs are linked into its own directory; until then they are read from the old place. They are never removed
/// there, because another database that was not opened since may need them.
///
/// **Invariant:** every path consists of the directory and a name of hex digits; links are not followed.
#[derive(Debug)]
pub struct Directory {
    place: PathBuf,
    own: PathBuf,
}

/// Compression level: fast, and still three to ten times smaller on tool outputs.
const LEVEL: i32 = 3;
/// Subdirectory of plain files, for readers that do not know handles.
const PLAIN: &str = "plain";
/// Subdirectory of records that the database could not take.
const PENDING: &str = "pending";

impl Directory {
    /// Creates the storage of the database with this id. The directory is created on first use.
    pub fn new(place: impl Into<PathBuf>, id: &str) -> Directory {
        let place = place.into();
        // An id from a manipulated database must not point outside the place.
        let name: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
        let own = place.join(if name.is_empty() { "0" } else { &name });
        Directory { place, own }
    }

    fn make(&self) -> Result<(), StoreError> {
        ownership::claim(&self.place)?;
        ownership::make_own(&self.own)
    }

    /// Path of the blob; `None` if the name is not valid.
    fn path(&self, name: &str) -> Option<PathBuf> {
        is_name(name).then(|| self.own.join(&name[..2]).join(format!("{name}.zst")))
    }

    /// Path of the blob in the layout of older versions.
    fn older_path(&self, name: &str) -> Option<PathBuf> {
        (is_name(name) && name.len() == 64).then(|| self.place.join(format!("{name}.zst")))
    }

    /// Whether older versions left anything in the place.
    pub(crate) fn has_older(&self) -> bool {
        let Ok(mut entries) = fs::read_dir(&self.place) else { return false };
        entries.any(|entry| {
            let name = entry.map(|entry| entry.file_name().to_string_lossy().into_owned());
            name.is_ok_and(|name| name.strip_suffix(".zst").is_some_and(is_name))
        })
    }

    /// Links a blob of an older layout, or of the database that this one is a copy of, into this directory. Returns
    /// whether it exists here now.
    pub(crate) fn take_over(&self, name: &str, from: Option<&Directory>) -> Result<bool, StoreError> {
        let Some(path) = self.path(name) else { return Ok(false) };
        if path.exists() {
            return Ok(true);
        }
        let older = from.map_or_else(|| self.older_path(name), |from| from.path(name));
        let Some(older) =
            older.filter(|older| fs::symlink_metadata(older).is_ok_and(|found| found.is_file()))
        else {
            return Ok(false);
        };
        let failed = StoreError::io(format!("cannot take `{}` over", older.display()));
        self.make()?;
        let done = self.make_directory(&path).and_then(|()| match fs::hard_link(&older, &path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // Some file systems do not support links.
            Err(_) => {
                let mut copy = self.temporary()?;
                io::copy(&mut ownership::open_without_links(&older)?, copy.as_file_mut())?;
                copy.as_file().sync_data()?;
                copy.persist(&path).map(drop).map_err(|error| error.error)
            }
        });
        done.map(|()| true).map_err(failed)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(directory) if !directory.is_dir() => {
                ownership::make_private(directory)?;
                ownership::sync_directory(directory)
            }
            _ => Ok(()),
        }
    }

    /// Creates a locked file. If a sweep removed it between creation and locking, it is created again.
    fn temporary(&self) -> io::Result<NamedTempFile> {
        loop {
            let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.own)?;
            // On file systems without locks, a sweep cannot lock either and keeps all such files.
            if file.as_file().lock().is_err() || ownership::is_named(file.path(), file.as_file()) {
                return Ok(file);
            }
        }
    }

    /// Names in a directory, sorted.
    fn names_in(&self, directory: &Path, ending: &str) -> Result<Vec<String>, StoreError> {
        let failed =
            |source| StoreError::Io { what: format!("cannot list `{}`", directory.display()), source };
        let entries = match fs::read_dir(directory) {
            // Nothing was stored yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(ending).map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }
}

struct StagedFile {
    blob: Blob,
    path: PathBuf,
    state: State,
    parent: PathBuf,
}

enum State {
    /// A temporary file, removed when this is dropped.
    Staged(NamedTempFile),
    /// In place, and locked as long as this lives.
    Put { _lock: File },
    /// Could not be put in place.
    Lost,
}

impl Staged for StagedFile {
    fn blob(&self) -> &Blob {
        &self.blob
    }

    fn put(&mut self) -> Result<(), StoreError> {
        let failed = |source| StoreError::Io { what: "cannot keep the whole output".into(), source };
        let State::Staged(file) = std::mem::replace(&mut self.state, State::Lost) else { return Ok(()) };
        let directory = self.parent.clone();
        if !directory.is_dir() {
            ownership::make_private(&directory).map_err(failed)?;
            ownership::sync_directory(&directory).map_err(failed)?;
        }
        let lock = file.persist(&self.path).map_err(|error| failed(error.error))?;
        self.state = State::Put { _lock: lock };
        ownership::sync_directory(&self.path).map_err(failed)
    }
}

impl Blobs for Directory {
    fn stage(&self, content: &mut dyn Read) -> Result<Box<dyn Staged>, StoreError> {
        let failed = |source| StoreError::Io { what: "cannot keep the whole output".into(), source };
        // The directory may have been removed since.
        self.make()?;
        let file = self.temporary().map_err(failed)?;
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
            // The hash is of the uncompressed content, so it does not depend on the compression.
            hasher.update(&buffer[..count]);
            writer.write_all(&buffer[..count]).map_err(failed)?;
            bytes += count as u64;
        }
        let file = writer.finish().map_err(failed)?;
        // On disk before the blob gets its name: after a power cut, a name must not lead to half a file.
        file.as_file().sync_data().map_err(failed)?;
        let hash = hasher.finalize().to_hex().to_string();
        let name = format!("{hash}-{}", crate::random::random_hex());
        let path = self.path(&name).ok_or(StoreError::Closed)?;
        let stored = file.as_file().metadata().map_err(failed)?.len();
        let blob = Blob { name, hash, bytes, stored };
        let parent = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(Box::new(StagedFile { blob, path, state: State::Staged(file), parent }))
    }

    fn get(&self, name: &str) -> Result<Option<Box<dyn Read + Send>>, StoreError> {
        for path in [self.path(name), self.older_path(name)].into_iter().flatten() {
            let file = match ownership::open_without_links(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(StoreError::io(format!("cannot open `{}`", path.display()))(error));
                }
            };
            let reader = zstd::Decoder::new(file).map_err(StoreError::io("cannot read spilled content"))?;
            return Ok(Some(Box::new(reader)));
        }
        Ok(None)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.path(name).map_or(Ok(()), |path| remove_file(&path))
    }

    fn list(&self, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError> {
        let mut names = Vec::new();
        let first = after.and_then(|after| after.get(..2)).unwrap_or("");
        for directory in self.names_in(&self.own, "")? {
            if directory.len() != 2 || directory.as_str() < first || names.len() >= most {
                continue;
            }
            let found = self.names_in(&self.own.join(&directory), ".zst")?.into_iter();
            names.extend(
                found.filter(|name| is_name(name) && after.is_none_or(|after| name.as_str() > after)),
            );
        }
        names.truncate(most);
        Ok(names)
    }

    fn is_being_added(&self, name: &str) -> bool {
        let Some(file) = self.path(name).and_then(|path| ownership::open_without_links(&path).ok()) else {
            return false;
        };
        // If locking fails for another reason, the file is kept.
        file.try_lock().is_err()
    }

    fn sweep(&self) -> Result<u64, StoreError> {
        let mut removed = 0;
        for name in self.names_in(&self.own, "")?.iter().filter(|name| name.starts_with(UNFINISHED)) {
            let path = self.own.join(name);
            let Ok(file) = ownership::open_without_links(&path) else { continue };
            match file.try_lock() {
                // Its process is dead. The lock is held until the file is gone, so that a process that has just created
                // the file and waits for the lock sees that it must create another.
                Ok(()) => removed += u64::from(fs::remove_file(&path).is_ok()),
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
            }
        }
        Ok(removed)
    }

    fn put_pending(&self, id: &str, record: &[u8]) -> Result<(), StoreError> {
        let failed = |source| StoreError::Io { what: "cannot keep a record for later".into(), source };
        let Some(path) = self.pending_path(id) else { return Ok(()) };
        self.make()?;
        self.make_directory(&path).map_err(failed)?;
        let mut file = self.temporary().map_err(failed)?;
        file.write_all(record).and_then(|()| file.as_file().sync_data()).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        ownership::sync_directory(&path).map_err(failed)
    }

    fn pending(&self, most: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut names = self.names_in(&self.own.join(PENDING), ".json")?;
        names.truncate(most);
        let mut records = Vec::new();
        for name in names {
            // A record that is gone was taken by another process.
            if let Some(path) = self.pending_path(&name)
                && let Ok(mut file) = ownership::open_without_links(&path)
            {
                let mut record = Vec::new();
                file.read_to_end(&mut record)
                    .map_err(StoreError::io(format!("cannot read `{}`", path.display())))?;
                records.push((name, record));
            }
        }
        Ok(records)
    }

    fn remove_pending(&self, id: &str) -> Result<(), StoreError> {
        self.pending_path(id).map_or(Ok(()), |path| remove_file(&path))
    }

    fn copy_out(&self, handle: &str, name: &str) -> Result<Option<PathBuf>, StoreError> {
        let failed = |source| StoreError::Io { what: "cannot keep the output as a file".into(), source };
        let (Some(path), Some(mut content)) = (self.copy_path(handle), self.get(name)?) else {
            return Ok(None);
        };
        self.make()?;
        self.make_directory(&path).map_err(failed)?;
        let mut file = self.temporary().map_err(failed)?;
        io::copy(&mut content, file.as_file_mut()).map_err(failed)?;
        file.as_file().sync_data().map_err(failed)?;
        // The name follows from the content, so an existing file of that name has the same content.
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(Some(path))
    }

    fn copy_path(&self, handle: &str) -> Option<PathBuf> {
        is_spill_handle(handle).then(|| self.own.join(PLAIN).join(format!("{handle}.txt")))
    }

    fn copies(&self) -> Result<Vec<String>, StoreError> {
        let names = self.names_in(&self.own.join(PLAIN), ".txt")?;
        Ok(names.into_iter().filter(|name| is_spill_handle(name)).collect())
    }

    fn remove_copy(&self, handle: &str) -> Result<(), StoreError> {
        self.copy_path(handle).map_or(Ok(()), |path| remove_file(&path))
    }

    fn remove_copies(&self, hash: &str) -> Result<(), StoreError> {
        self.remove_copy(&spill_handle(hash))?;
        self.older_path(hash).map_or(Ok(()), |path| remove_file(&path))
    }
}

impl Directory {
    fn pending_path(&self, id: &str) -> Option<PathBuf> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        let is_id = !id.is_empty() && id.len() < 200 && id.chars().all(is_plain);
        is_id.then(|| self.own.join(PENDING).join(format!("{id}.json")))
    }
}

fn remove_file(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io(format!("cannot remove `{}`", path.display()))(error))
        }
        _ => Ok(()),
    }
}
