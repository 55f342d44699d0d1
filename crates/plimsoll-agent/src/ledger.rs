//! What the model knows of files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The contents of files as the model last saw them, by their hashes.
#[derive(Debug, Default)]
pub struct FileLedger {
    seen: Mutex<HashMap<PathBuf, [u8; 32]>>,
}

impl FileLedger {
    /// The model has seen a file with content of this hash.
    pub fn note(&self, path: &Path, hash: [u8; 32]) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), hash);
    }

    /// The hash of the content that the model last saw.
    pub fn seen(&self, path: &Path) -> Option<[u8; 32]> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }
}
