//! Upkeep, in memory.

use plimsoll::{Message, SessionId};

use super::MemoryStore;
use crate::error::StoreError;
use crate::store::{Damage, Findings, IndexStep, SessionReader, Upkeep};

/// Messages in memory cannot be damaged.
struct MemoryReader(Vec<Message>);

impl SessionReader for MemoryReader {
    fn each(&self, sink: &mut dyn FnMut(Message)) -> Result<(), StoreError> {
        self.0.iter().cloned().for_each(sink);
        Ok(())
    }

    fn damage(&self) -> Result<Vec<Damage>, StoreError> {
        Ok(Vec::new())
    }

    fn salvage(&self, sink: &mut dyn FnMut(Message)) -> Result<Vec<Damage>, StoreError> {
        self.each(sink)?;
        self.damage()
    }
}

impl Upkeep for MemoryStore {
    fn index_step(&self, _: u64) -> Result<IndexStep, StoreError> {
        Ok(IndexStep::default())
    }

    fn trim_feed(&self, keep: u64) -> Result<u64, StoreError> {
        let mut state = self.state();
        let keep = usize::try_from(keep.max(1)).unwrap_or(usize::MAX);
        let over = state.changes.len().saturating_sub(keep);
        state.changes.drain(..over);
        Ok(over as u64)
    }

    fn read_session(
        &self,
        session: &SessionId,
        read: &mut dyn FnMut(&dyn SessionReader) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // A copy, so that `read` may write to this store.
        let messages = self.state().held(session)?.messages.to_vec();
        read(&MemoryReader(messages))
    }

    fn check(&self) -> Result<Findings, StoreError> {
        let state = self.state();
        let messages = || state.sessions.values().flat_map(|held| &held.messages[held.inherited..]);
        Ok(Findings {
            sessions: state.sessions.len() as u64,
            messages: messages().count() as u64,
            parts: messages().map(|message| message.parts.len() as u64).sum(),
            spills: state.spills.len() as u64,
            unverified: 0,
            problems: Vec::new(),
            open_calls: Vec::new(),
        })
    }
}
