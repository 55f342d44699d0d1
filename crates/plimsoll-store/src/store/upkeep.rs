//! Maintenance of a store.

use plimsoll::{Message, SessionId};

use super::session::{Damage, Findings};
use crate::error::StoreError;

/// Maintenance, in steps that hold the writer only briefly. Methods block; see [`Store`](super::Store).
pub trait Upkeep {
    /// Makes one step of updating the search index, from the end of the previous step; 0 is the beginning.
    fn index_step(&self, from: u64) -> Result<IndexStep, StoreError>;

    /// Updates the search index step by step. Returns the number of parts that were added.
    fn index(&self) -> Result<u64, StoreError> {
        let (mut added, mut next) = (0, Some(0));
        while let Some(from) = next {
            let step = self.index_step(from)?;
            (added, next) = (added + step.added, step.next);
        }
        Ok(added)
    }

    /// Deletes the rest of sessions whose removal was interrupted by the death of its process. Returns their number.
    fn finish_removals(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Returns free space to the file system. Returns the number of bytes.
    fn give_back(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Deletes some of the oldest changes, so that about `keep` remain. Returns their number, 0 when nothing is left to
    /// do.
    fn trim_feed(&self, keep: u64) -> Result<u64, StoreError>;

    /// Calls `read` with a reader of the session, which may go through it several times. All passes see the session as
    /// it is now, whatever is written meanwhile.
    fn read_session(
        &self,
        session: &SessionId,
        read: &mut dyn FnMut(&dyn SessionReader) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Returns the [damage](SessionReader::damage) of a session.
    fn damage(&self, session: &SessionId) -> Result<Vec<Damage>, StoreError> {
        let mut damage = Vec::new();
        self.read_session(session, &mut |reader| {
            damage = reader.damage()?;
            Ok(())
        })?;
        Ok(damage)
    }

    /// Checks the whole store for damage.
    fn check(&self) -> Result<Findings, StoreError>;

    /// Deletes the recorded losses: neither opening the database nor a check reports them any more. Returns their
    /// number.
    fn accept_losses(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}

/// A session at one moment.
pub trait SessionReader {
    /// Passes all messages to `sink`, oldest first. One of them is held at a time.
    fn each(&self, sink: &mut dyn FnMut(Message)) -> Result<(), StoreError>;

    /// Checks the records of the session, including those it shares with the sessions it was forked from. An export is
    /// only sound if there is no damage.
    fn damage(&self) -> Result<Vec<Damage>, StoreError>;

    /// Reads a damaged session: passes everything that is still readable to `sink`, oldest first. Returns what is
    /// damaged or missing.
    fn salvage(&self, sink: &mut dyn FnMut(Message)) -> Result<Vec<Damage>, StoreError>;
}

/// Result of one step of indexing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexStep {
    /// Number of parts that were added.
    pub added: u64,
    /// Start of the next step, if there is more to do.
    pub next: Option<u64>,
}
