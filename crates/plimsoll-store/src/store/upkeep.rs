//! Keeping a store in order.

use plimsoll::{Message, SessionId};

use super::session::{Damage, Findings};
use crate::error::StoreError;

/// What is done on the side, now and then, in steps that keep the writer for a moment only. Methods block; see the
/// [module](super).
pub trait Upkeep {
    /// One step of bringing the index for searches up to date, from where the step before ended; 0 is the beginning.
    fn index_step(&self, from: u64) -> Result<IndexStep, StoreError>;

    /// Bring the index for searches up to date, step by step; gives how many parts were added.
    fn index(&self) -> Result<u64, StoreError> {
        let (mut added, mut next) = (0, Some(0));
        while let Some(from) = next {
            let step = self.index_step(from)?;
            (added, next) = (added + step.added, step.next);
        }
        Ok(added)
    }

    /// Delete what is left of sessions whose removal was cut off, because the process died. Gives how many there were.
    fn finish_removals(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Gives space that nothing needs any more back to the file system. Returns how many bytes.
    fn give_back(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Forget old changes so that about `keep` are left; a small step of it. Gives how many were forgotten, 0 when
    /// there is nothing left to do.
    fn trim_feed(&self, keep: u64) -> Result<u64, StoreError>;

    /// Lets `read` go through a session as often as it takes. All runs see the session as it is now, whatever is written
    /// meanwhile.
    fn read_session(
        &self,
        session: &SessionId,
        read: &mut dyn FnMut(&dyn SessionReader) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// [Damage](SessionReader::damage) in what a session is made of.
    fn damage(&self, session: &SessionId) -> Result<Vec<Damage>, StoreError> {
        let mut damage = Vec::new();
        self.read_session(session, &mut |reader| {
            damage = reader.damage()?;
            Ok(())
        })?;
        Ok(damage)
    }

    /// Look for damage.
    fn check(&self) -> Result<Findings, StoreError>;

    /// Forgets losses that were recorded: neither opening the database nor a check tells them any more. Returns how many.
    fn accept_losses(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}

/// One session, at one moment.
pub trait SessionReader {
    /// Hands out all messages, oldest first. One of them is held at a time.
    fn each(&self, sink: &mut dyn FnMut(Message)) -> Result<(), StoreError>;

    /// Looks for damage in what the session is made of, also in what it shares with those it was forked from. An export is
    /// only sound if there is none.
    fn damage(&self) -> Result<Vec<Damage>, StoreError>;

    /// Reads a damaged session: hands out everything that can still be read, oldest first. Returns what is damaged or missing.
    fn salvage(&self, sink: &mut dyn FnMut(Message)) -> Result<Vec<Damage>, StoreError>;
}

/// What a step of indexing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStep {
    /// Parts that were added.
    pub added: u64,
    /// Where the next step begins, if there is more to do.
    pub next: Option<u64>,
}
