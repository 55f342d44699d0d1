//! Content of files, kept before an agent changes them.
//!
//! It is a spill like the output of a tool: a blob named by its content, and a row that names session and part. So it goes
//! with its session, is destroyed by a purge, and expires by the rules of retention, which a sweep reports. Only its handle
//! is of another kind: searches for what has left the window do not look into old versions of files.

use std::io::Read;

use plimsoll::{Millis, PartId, SessionId};

use super::Archive;
use crate::error::StoreError;
use crate::recall::Scope;
use crate::store::{Claim, HandleMatch, HandleTarget, SpillRecord};

/// How the handle of a file's kept content begins.
pub const KEPT: &str = "kept_";

/// What is known of content that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// The address it is brought back by; begins with [`KEPT`].
    pub handle: String,
    /// The part that tells of the change.
    pub part: PartId,
    /// What changes the file: the name of a tool, or `revert`.
    pub tool: String,
    /// The file, for people.
    pub shown: String,
}

impl Archive {
    /// Keep content for good, before the file that holds it is changed. Unlike the output of a tool, which is given whatever
    /// fails, this fails if the content is not safe: the caller then leaves the file as it is.
    pub fn keep(
        &self,
        claim: &Claim,
        keeping: Keeping,
        content: &mut dyn Read,
        now: Millis,
    ) -> Result<(), StoreError> {
        let blobs = self.blobs.as_ref().map_err(|why| StoreError::Refused(why.clone()))?;
        let mut staged = blobs.stage(content)?;
        staged.put()?;
        let blob = staged.blob().clone();
        let Keeping { handle, part, tool, shown } = keeping;
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
        // The lock is given back after the row is there: no sweep takes the blob for a leftover. Without a row it is one.
        self.store.add_spill(claim, record)
    }

    /// The record of kept content that a session can see.
    pub fn kept(&self, session: &SessionId, handle: &str) -> Result<Option<SpillRecord>, StoreError> {
        let found = self.store.find_handles(Scope::Session(session), handle, 2)?;
        let is_it = |found: HandleMatch| match found.target {
            HandleTarget::Spill(spill) if spill.handle == handle => Some(*spill),
            _ => None,
        };
        Ok(found.into_iter().find_map(is_it))
    }

    /// Kept content, held against its hash.
    pub fn read_kept(&self, kept: &SpillRecord) -> Result<Vec<u8>, StoreError> {
        self.read_spill(kept, |reader| {
            let mut content = Vec::new();
            reader.read_to_end(&mut content).map_err(StoreError::io("cannot read kept content"))?;
            Ok(content)
        })
    }
}

/// What the content of a handle is, in a few words.
pub(super) fn what_of(handle: &str, tool: &str) -> String {
    match handle.starts_with(KEPT) {
        true => format!("file before {tool}"),
        false => format!("output of {tool}"),
    }
}
