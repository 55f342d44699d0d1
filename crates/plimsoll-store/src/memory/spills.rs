//! The names of spilled outputs, in memory.

use plimsoll::{Millis, SessionId};

use super::{Held, MemoryStore};
use crate::error::StoreError;
use crate::store::{Claim, Forgetter, Keeper, SpillRecord, Spills};

impl Spills for MemoryStore {
    fn owner(&self, id: &str) -> Result<SessionId, StoreError> {
        let state = self.state();
        let has = |held: &&Held| {
            held.messages[held.inherited..].iter().any(|message| {
                message.info.id.as_str() == id || message.parts.iter().any(|part| part.id.as_str() == id)
            })
        };
        let owner =
            state.sessions.values().filter(has).max_by_key(|held| (held.session.updated, held.written));
        let owner = owner.map(|held| held.session.id.clone());
        owner.ok_or_else(|| StoreError::missing("part, message or spilled output", id))
    }

    fn add_spill(&self, claim: &Claim, spill: SpillRecord, keep: Keeper) -> Result<(), StoreError> {
        let mut state = self.state();
        state.claimed(claim)?;
        keep()?;
        let session = &claim.session;
        state.spills.retain(|(owner, other)| owner != session || other.handle != spill.handle);
        state.spills.push((session.clone(), spill));
        Ok(())
    }

    fn spills(&self, session: &SessionId) -> Result<Vec<SpillRecord>, StoreError> {
        let state = self.state();
        state.held(session)?;
        let own = state.spills.iter().filter(|(owner, _)| owner == session);
        Ok(own.map(|(_, spill)| spill.clone()).collect())
    }

    fn spill(&self, handle: &str) -> Result<SpillRecord, StoreError> {
        let state = self.state();
        let found = state.spills.iter().rev().filter(|(_, spill)| spill.handle == handle);
        let best = found.min_by_key(|(_, spill)| spill.expired.is_some());
        best.map(|(_, spill)| spill.clone()).ok_or_else(|| StoreError::missing("spilled output", handle))
    }

    fn expire_spills(
        &self,
        before: Option<Millis>,
        most: Option<u64>,
        now: Millis,
    ) -> Result<u64, StoreError> {
        let mut state = self.state();
        let mut expired = 0;
        let mut live: Vec<&mut SpillRecord> =
            state.spills.iter_mut().map(|(_, spill)| spill).filter(|spill| spill.expired.is_none()).collect();
        live.sort_by_key(|spill| std::cmp::Reverse(spill.created));
        let mut total = 0;
        for spill in live {
            total = spill.stored.saturating_add(total);
            if before.is_some_and(|before| spill.created < before) || most.is_some_and(|most| total > most) {
                spill.expired = Some(now);
                expired += 1;
            }
        }
        Ok(expired)
    }

    fn forget(&self, hashes: Vec<String>, mut remove: Forgetter) -> Result<u64, StoreError> {
        let state = self.state();
        let needed = |hash: &String| {
            state.spills.iter().any(|(_, spill)| spill.hash == *hash && spill.expired.is_none())
        };
        let mut removed = 0;
        for hash in hashes.iter().filter(|hash| !needed(hash)) {
            remove(hash)?;
            removed += 1;
        }
        Ok(removed)
    }
}
