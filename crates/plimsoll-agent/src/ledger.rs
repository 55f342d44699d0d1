//! File contents that the model has seen.
//!
//! A file may be changed only if its content is what the model last saw. Contents are compared by hash, because a
//! modification time may stay the same when a file changes, and change when it does not.
//!
//! A new process restores this from the log: each call that shows or writes a file stores the hash of the content in
//! its part. Only calls in the window count; after a summary has replaced a call, the file must be read again.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll::Message;
use plimsoll_session::seen_files;

/// Hashes of the file contents that the model last saw.
#[derive(Debug, Default)]
pub struct FileLedger {
    state: Mutex<LedgerState>,
}

#[derive(Debug, Default)]
struct LedgerState {
    seen: HashMap<PathBuf, [u8; 32]>,
    /// Directories outside the project that may be read.
    opened: BTreeSet<PathBuf>,
}

impl FileLedger {
    /// Restores the contents from the calls of a log.
    pub fn of_log(log: &[Message]) -> FileLedger {
        let ledger = FileLedger::default();
        for (path, hash) in seen_files(log) {
            match hash.and_then(|hash| blake3::Hash::from_hex(hash).ok()) {
                Some(hash) => ledger.note(Path::new(&path), *hash.as_bytes()),
                None => ledger.forget(Path::new(&path)),
            }
        }
        ledger
    }

    /// Records that the model has seen content with this hash.
    pub fn note(&self, path: &Path, hash: [u8; 32]) {
        self.state().seen.insert(path.to_owned(), hash);
    }

    /// Returns the hash of the content that the model last saw.
    pub fn seen(&self, path: &Path) -> Option<[u8; 32]> {
        self.state().seen.get(path).copied()
    }

    /// Removes the record of a file.
    pub fn forget(&self, path: &Path) {
        self.state().seen.remove(path);
    }

    /// Permits reading the files of a directory, such as those of a skill that the model received.
    pub fn open_directory(&self, directory: &Path) {
        self.state().opened.insert(directory.to_owned());
    }

    /// Returns whether a path, with links resolved, is in a permitted directory.
    pub fn is_opened(&self, path: &Path) -> bool {
        self.state().opened.iter().any(|directory| path.starts_with(directory))
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
