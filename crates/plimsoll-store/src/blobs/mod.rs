//! Spilled content: where it is kept, and how it gets there and away without being lost or left over.
//!
//! A blob's name is the hash of its content and a **generation**, a number drawn anew each time content is taken in. A
//! name by content alone was tried first, and it loses: one process finds that no spill needs `abc` and is about to
//! remove it, another takes the same output in, sees that `abc` is there, commits a spill that names it, and then the
//! first removes the file. With a generation no name is ever used twice, so a name that nothing refers to will stay
//! unreferenced, and removing it cannot hurt. The same content again is written again, all spills that had it are moved
//! to the new name in the same transaction, and the older name is let go.
//!
//! - **Adding:** stage the content, [`put`](Staged::put) it under its name, commit the row that names it. As long as the
//!   [`Staged`] lives it holds a lock, so a sweep can tell a blob whose row is about to be committed from one whose
//!   process died before.
//! - **Removing:** commit that the name is being deleted, remove the blob, confirm. Each step can be done again.
//!
//! A death at any point leaves at worst a staged file, a blob without a row, or a row in `deleting`; the next sweep finds
//! each of them.

mod directory;
mod memory;
mod ownership;

use std::io::Read;
use std::path::PathBuf;

use crate::error::StoreError;

pub use directory::Directory;
pub use memory::MemoryBlobs;

/// Content that was put away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// What it is read back by: the hash and a generation.
    pub name: String,
    /// The blake3 hash of the content, in hex.
    pub hash: String,
    /// Its size.
    pub bytes: u64,
    /// What it takes where it is kept.
    pub stored: u64,
}

/// A place for content. It belongs to one database; two never share one.
pub trait Blobs: Send + Sync {
    /// Take content in, as it comes. Nothing but the error of writing it is an error here.
    fn stage(&self, content: &mut dyn Read) -> Result<Box<dyn Staged>, StoreError>;

    /// Read content back, as it is asked for; nothing if it is not there.
    fn get(&self, name: &str) -> Result<Option<Box<dyn Read + Send>>, StoreError>;

    /// Let content go. It is no error if it is gone.
    fn remove(&self, name: &str) -> Result<(), StoreError>;

    /// The names after one, in order, about so many at a time; none at the end.
    fn list(&self, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError>;

    /// Whether a living process has put this blob and may still commit the row that names it.
    fn is_being_added(&self, name: &str) -> bool;

    /// Remove what was staged by processes that died, however long ago; gives how many. What a living process stages
    /// stays, however long its tool is silent.
    fn sweep(&self) -> Result<u64, StoreError>;

    /// Keep a record that the store could not take.
    fn put_pending(&self, id: &str, record: &[u8]) -> Result<(), StoreError>;

    /// Records that the store could not take, with their ids, the first so many.
    fn pending(&self, most: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// Let such a record go.
    fn remove_pending(&self, id: &str) -> Result<(), StoreError>;

    /// Also keeps a blob as a plain file, for readers that open files and know no handles. Returns its path; `None` if this
    /// place has no files.
    fn copy_out(&self, _handle: &str, _name: &str) -> Result<Option<PathBuf>, StoreError> {
        Ok(None)
    }

    /// The path of the plain file of a handle, whether or not it exists.
    fn copy_path(&self, _handle: &str) -> Option<PathBuf> {
        None
    }

    /// The handles of all plain files.
    fn copies(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// Remove the plain file of a handle, if it exists.
    fn remove_copy(&self, _handle: &str) -> Result<(), StoreError> {
        Ok(())
    }

    /// Remove content, by its hash, that is kept here besides the blobs of this database, such as its plain file, or what an
    /// older layout left where it was when it was taken over.
    fn remove_copies(&self, hash: &str) -> Result<(), StoreError>;
}

/// The handle of spilled content with this hash.
pub(crate) fn spill_handle(hash: &str) -> String {
    format!("{SPILL}{}", hash.get(..SPILL_DIGITS).unwrap_or(hash))
}

/// Whether this is the handle of spilled content: a name that is safe in a path.
fn is_spill_handle(handle: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    handle
        .strip_prefix(SPILL)
        .is_some_and(|digits| digits.len() == SPILL_DIGITS && digits.bytes().all(is_digit))
}

const SPILL: &str = "spill_";
const SPILL_DIGITS: usize = 32;

/// Content that was taken in. Dropped before [`put`](Staged::put) it leaves nothing.
pub trait Staged: Send {
    /// What it is.
    fn blob(&self) -> &Blob;

    /// Put it under its name; it is there for good when this returns. No sweep takes it while this value lives.
    fn put(&mut self) -> Result<(), StoreError>;
}

/// Whether this is the name of a blob: 64 hex digits, and unless it is of the layout without generations 16 more.
pub(crate) fn is_name(name: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match name.split_once('-') {
        Some((hash, generation)) => {
            hash.len() == 64 && generation.len() == 16 && is_hex(hash) && is_hex(generation)
        }
        None => name.len() == 64 && is_hex(name),
    }
}
