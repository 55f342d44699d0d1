//! Content of files, stored before an agent changes them.
//!
//! It is stored like a spilled output: as a blob named by its content, and a row that names session and part. So it is
//! removed with its session, destroyed by a purge, and expires by retention. Only its handle has another prefix, so
//! that searches for what has left the window do not look into old versions of files.

use std::io::Read;

use plimsoll::{Millis, PartId, SessionId};

use super::Archive;
use crate::error::StoreError;
use crate::recall::Scope;
use crate::store::{Claim, HandleMatch, HandleTarget, SpillRecord};

/// Prefix of the handle of a stored file.
pub const KEPT_PREFIX: &str = "kept_";

/// A file's content to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    /// Address for recall; starts with [`KEPT_PREFIX`].
    pub handle: String,
    /// The part that records the change.
    pub part: PartId,
    /// Name of the tool that changes the file, or `revert`.
    pub tool: String,
    /// Path of the file for users.
    pub shown: String,
}

impl Archive {
    /// Stores content durably before the file that holds it is changed. Unlike for a tool's output, a failure is an
    /// error: the caller must not change the file if its content is not stored.
    pub fn keep_file(
        &self,
        claim: &Claim,
        file: KeptFile,
        content: &mut dyn Read,
        now: Millis,
    ) -> Result<(), StoreError> {
        let blobs = self.blobs.as_ref().map_err(|why| StoreError::Refused(why.clone()))?;
        let mut staged = blobs.stage(content)?;
        staged.put()?;
        let blob = staged.blob().clone();
        let KeptFile { handle, part, tool, shown } = file;
        let record = SpillRecord {
            handle,
            hash: blob.hash,
            blob: blob.name,
            part: Some(part),
            tool,
            bytes: blob.bytes,
            stored: blob.stored,
            created: now,
            shown,
            expired: None,
        };
        // The blob's lock is held until the row exists: a sweep treats an unlocked blob without a row as a leftover.
        self.store.add_spill(claim, record)
    }

    /// Returns the record of a stored file that a session can see.
    pub fn kept_file(&self, session: &SessionId, handle: &str) -> Result<Option<SpillRecord>, StoreError> {
        let found = self.store.find_handles(Scope::Session(session), handle, 2)?;
        let is_it = |found: HandleMatch| match found.target {
            HandleTarget::Spill(spill) if spill.handle == handle => Some(*spill),
            _ => None,
        };
        Ok(found.into_iter().find_map(is_it))
    }

    /// Reads the content of a stored file and verifies its hash.
    pub fn read_kept_file(&self, kept: &SpillRecord) -> Result<Vec<u8>, StoreError> {
        self.read_spill(kept, |reader| {
            let mut content = Vec::new();
            reader.read_to_end(&mut content).map_err(StoreError::io("cannot read kept content"))?;
            Ok(content)
        })
    }
}

/// Describes the content of a handle.
pub(super) fn describe(handle: &str, tool: &str) -> String {
    match handle.starts_with(KEPT_PREFIX) {
        true => format!("file before {tool}"),
        false => format!("output of {tool}"),
    }
}
