//! Destroying content in the log, in spilled outputs, and in the files of both.

use std::io::Read;

use plimsoll::{Millis, Receipt, SessionId};
use regex::bytes::Regex;

use super::{Archive, KEPT_PREFIX};
use crate::error::StoreError;
use crate::store::{Claim, PurgeItem, PurgeReport, PurgeTarget, SpillRecord};

/// Result of a purge.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Purged {
    /// Receipt, which cannot be undone.
    pub receipt: Receipt,
    /// Why some of the destroyed content may still be in the files of the store, although nothing shows it any more:
    /// for example, another process reads the database. The next sweep tries again.
    pub unfinished: Option<String>,
}

impl Archive {
    /// Returns what [`purge`](Archive::purge) would destroy.
    pub fn plan_purge(&self, session: &SessionId, target: &PurgeTarget) -> Result<PurgeReport, StoreError> {
        let mut report = self.store.plan_purge(session, target)?;
        for (spill, places) in self.spills_with(session, target)? {
            let what = match spill.handle.starts_with(KEPT_PREFIX) {
                true => format!("kept file before {}, as a whole", spill.tool),
                false => format!("spilled output of {}, as a whole", spill.tool),
            };
            report.items.push(PurgeItem { session: session.clone(), handle: spill.handle, what, places });
        }
        Ok(report)
    }

    /// Destroys content of a session: in its log, in what its forks share of it, in spilled outputs as a whole, in the
    /// search index, in free pages and the write-ahead log, and in copies from before upgrades. The receipt cannot be
    /// undone.
    ///
    /// If the process dies, calling this again or a sweep finishes the rest. The database file is rewritten in the end,
    /// which blocks other writers for that long.
    pub fn purge(&self, claim: &Claim, target: &PurgeTarget, now: Millis) -> Result<Purged, StoreError> {
        // A pending record that is entered later would bring back destroyed content.
        self.record_pending()?;
        let spills: Vec<SpillRecord> =
            self.spills_with(&claim.session, target)?.into_iter().map(|(spill, _)| spill).collect();
        // Plain copies are removed first: once the rows are committed, nothing names them any more.
        if let Ok(blobs) = &self.blobs {
            for spill in &spills {
                blobs.remove_copies(&spill.hash)?;
            }
        }
        let hashes = spills.into_iter().map(|spill| spill.hash).collect();
        let receipt = self.store.purge(claim, target, hashes, now)?;
        // From here on the content is destroyed even if a later step fails, so such a failure is reported but is not an
        // error.
        let unfinished = self.finish_purges(now).err().map(|error| error.to_string());
        Ok(Purged { receipt, unfinished })
    }

    /// Finishes purges whose process died. Returns their number. A sweep does this too.
    pub fn finish_purges(&self, now: Millis) -> Result<u64, StoreError> {
        self.finish_deleting()?;
        // Blobs that a dead process staged or put are not named by any row.
        self.remove_leftovers(now)?;
        if let Ok(blobs) = &self.blobs {
            blobs.sweep()?;
        }
        self.store.finish_purges()
    }

    /// Returns the spilled outputs that contain something to destroy.
    fn spills_with(
        &self,
        session: &SessionId,
        target: &PurgeTarget,
    ) -> Result<Vec<(SpillRecord, u64)>, StoreError> {
        let mut found = Vec::new();
        let mut next = Some(0);
        while let Some(after) = next {
            let page = self.store.spills(session, after, 100)?;
            next = page.next;
            for spill in page.spills.into_iter().filter(|spill| spill.expired.is_none()) {
                let places = match target {
                    PurgeTarget::Part(part) => u64::from(spill.part.as_ref() == Some(part)),
                    PurgeTarget::Match(pattern) => {
                        let pattern = Regex::new(pattern)
                            .map_err(|error| StoreError::Refused(format!("invalid pattern: {error}")))?;
                        match self.read_spill(&spill, |reader| is_match(reader, &pattern)) {
                            Ok(found) => u64::from(found),
                            // Content that cannot be read cannot be searched. It is destroyed, because it might match.
                            Err(StoreError::Lost { .. }) => 1,
                            Err(error) => return Err(error),
                        }
                    }
                };
                if places > 0 {
                    found.push((spill, places));
                }
            }
        }
        Ok(found)
    }
}

/// Number of bytes that are searched at once, and overlap with the next piece. Matches may span lines, as a private key
/// does, so lines are unsuitable as pieces.
const PIECE: usize = 4 << 20;
const SEAM: usize = 256 << 10;

/// Whether content matches. It is read to its end in any case, so that its hash is verified.
fn is_match(reader: &mut dyn Read, pattern: &Regex) -> Result<bool, StoreError> {
    let mut piece: Vec<u8> = Vec::new();
    let mut is_found = false;
    loop {
        let room = (PIECE - piece.len()) as u64;
        let read = Read::take(&mut *reader, room).read_to_end(&mut piece);
        let count = read.map_err(StoreError::io("cannot read spilled content"))?;
        is_found = is_found || pattern.is_match(&piece);
        if count == 0 {
            return Ok(is_found);
        }
        let seam = piece.len().saturating_sub(SEAM);
        piece.drain(..seam);
    }
}
