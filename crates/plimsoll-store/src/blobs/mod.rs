//! Storage of spilled content, and how content is added and removed without being lost or left over.
//!
//! A blob's name is the hash of its content and a random **generation**. A name by content alone was tried first, and
//! it loses data: one process finds that no spill needs `abc` and is about to remove it; another stores the same
//! output, sees that `abc` exists and commits a spill that names it; then the first removes the file. With a
//! generation, no name is ever used twice, so an unreferenced name stays unreferenced, and removing it is safe. The
//! same content is written again, all spills that had it are moved to the new name in the same transaction, and the
//! older name is deleted.
//!
//! - **Adding:** stage the content, [`put`](Staged::put) it under its name, commit the row that names it. A living
//!   [`Staged`] holds a lock, so that a sweep can tell a blob whose row is about to be committed from one whose process
//!   died before.
//! - **Removing:** commit that the name is being deleted, remove the blob, confirm. Each step can be repeated.
//!
//! A kill at any point leaves at most a staged file, a blob without a row, or a row in `deleting`; the next sweep finds
//! each of them.

mod directory;
mod memory;
mod ownership;

use std::io::Read;
use std::path::PathBuf;

use crate::error::StoreError;

pub use directory::Directory;
pub use memory::MemoryBlobs;

/// A stored blob.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blob {
    /// Name: the hash and a generation.
    pub name: String,
    /// The blake3 hash of the content, in hex.
    pub hash: String,
    /// Size of the content in bytes.
    pub bytes: u64,
    /// Stored size in bytes.
    pub stored: u64,
}

/// Storage of blobs. It belongs to exactly one database.
pub trait Blobs: Send + Sync {
    /// Stages content as it arrives. The only possible error is that of writing it.
    fn stage(&self, content: &mut dyn Read) -> Result<Box<dyn Staged>, StoreError>;

    /// Returns a reader of the content; `None` if it does not exist.
    fn get(&self, name: &str) -> Result<Option<Box<dyn Read + Send>>, StoreError>;

    /// Removes content. Does nothing if it does not exist.
    fn remove(&self, name: &str) -> Result<(), StoreError>;

    /// Names after `after`, sorted, about `most` of them; empty at the end.
    fn list(&self, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError>;

    /// Whether a living process has put this blob and may still commit the row that names it.
    fn is_being_added(&self, name: &str) -> bool;

    /// Removes what dead processes staged, however long ago. Returns the number of files. What a living process stages
    /// stays, however long its tool is silent.
    fn sweep(&self) -> Result<u64, StoreError>;

    /// Stores a record that the store could not take.
    fn put_pending(&self, id: &str, record: &[u8]) -> Result<(), StoreError>;

    /// Records that the store could not take, with their ids, at most `most`.
    fn pending(&self, most: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// Removes such a record.
    fn remove_pending(&self, id: &str) -> Result<(), StoreError>;

    /// Also stores a blob as a plain file, for readers that do not know handles. Returns its path; `None` if this
    /// storage has no files.
    fn copy_out(&self, _handle: &str, _name: &str) -> Result<Option<PathBuf>, StoreError> {
        Ok(None)
    }

    /// Path of a handle's plain file, whether or not it exists.
    fn copy_path(&self, _handle: &str) -> Option<PathBuf> {
        None
    }

    /// Handles of all plain files.
    fn copies(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// Removes the plain file of a handle, if it exists.
    fn remove_copy(&self, _handle: &str) -> Result<(), StoreError> {
        Ok(())
    }

    /// Removes copies of content that are stored besides the blobs of this database: its plain file, or what an older
    /// layout left in place when it was taken over.
    fn remove_copies(&self, hash: &str) -> Result<(), StoreError>;
}

/// Returns the handle of spilled content with this hash.
pub(crate) fn spill_handle(hash: &str) -> String {
    format!("{SPILL}{}", hash.get(..SPILL_DIGITS).unwrap_or(hash))
}

/// Whether this is the handle of spilled content, and so safe in a path.
fn is_spill_handle(handle: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    handle
        .strip_prefix(SPILL)
        .is_some_and(|digits| digits.len() == SPILL_DIGITS && digits.bytes().all(is_digit))
}

const SPILL: &str = "spill_";
const SPILL_DIGITS: usize = 32;

/// Staged content. Dropping it before [`put`](Staged::put) leaves no trace.
pub trait Staged: Send {
    /// Returns the blob.
    fn blob(&self) -> &Blob;

    /// Puts the blob under its name, durably. No sweep removes it while this value lives.
    fn put(&mut self) -> Result<(), StoreError>;
}

/// Whether this is the name of a blob: 64 hex digits, and 16 more unless it is from the layout without generations.
pub(crate) fn is_name(name: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match name.split_once('-') {
        Some((hash, generation)) => {
            hash.len() == 64 && generation.len() == 16 && is_hex(hash) && is_hex(generation)
        }
        None => name.len() == 64 && is_hex(name),
    }
}
