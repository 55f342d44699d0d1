//! What the model knows of files.
//!
//! A file is changed only as the model last saw it. Contents are compared by their hashes: a time of change may stay the
//! same where a file was changed, and change where it was not.
//!
//! A new process goes on with what the log says. Each call that shows or writes a file has the hash of its content in its
//! part, so what the model saw is known as surely as it was then, and the file is compared with that before it is changed.
//! Only calls that are still in the window count: what a summary has taken the place of is read again.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll::Message;
use plimsoll_session::seen_files;

/// The contents of files as the model last saw them, by their hashes.
#[derive(Debug, Default)]
pub struct FileLedger {
    state: Mutex<LedgerState>,
}

#[derive(Debug, Default)]
struct LedgerState {
    seen: HashMap<PathBuf, [u8; 32]>,
    /// Folders that may be read although they lie outside the project.
    opened: BTreeSet<PathBuf>,
}

impl FileLedger {
    /// What the calls of a log have shown and written.
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

    /// The model has seen a file with content of this hash.
    pub fn note(&self, path: &Path, hash: [u8; 32]) {
        self.state().seen.insert(path.to_owned(), hash);
    }

    /// The hash of the content that the model last saw.
    pub fn seen(&self, path: &Path) -> Option<[u8; 32]> {
        self.state().seen.get(path).copied()
    }

    /// What the model has seen of a file does not count any more.
    pub fn forget(&self, path: &Path) {
        self.state().seen.remove(path);
    }

    /// Let the files of a folder be read, such as those of a skill that the model was given.
    pub fn open_folder(&self, folder: &Path) {
        self.state().opened.insert(folder.to_owned());
    }

    /// Whether a path, with links resolved, lies in a folder that was opened.
    pub fn is_opened(&self, path: &Path) -> bool {
        self.state().opened.iter().any(|folder| path.starts_with(folder))
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
