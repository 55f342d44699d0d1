//! Records of spilled outputs, in memory.

use plimsoll::{Millis, Receipt, SessionId};

use super::{MemoryStore, State};
use crate::error::StoreError;
use crate::store::{Claim, ExpiredSpill, SpillPage, SpillRecord, Spills};

impl State {
    fn insert_spill(&mut self, session: &SessionId, spill: SpillRecord) {
        let same = |record: &SpillRecord| record.hash == spill.hash && record.expired.is_none();
        let mut older: Vec<String> = Vec::new();
        for (_, record) in self.spills.iter_mut().filter(|(_, record)| same(record)) {
            older.push(std::mem::replace(&mut record.blob, spill.blob.clone()));
        }
        let mine =
            |(owner, record): &(SessionId, SpillRecord)| owner == session && record.handle == spill.handle;
        match self.spills.iter().position(mine) {
            Some(place) => {
                let record = &mut self.spills[place].1;
                (record.created, record.expired) = (spill.created, None);
                (record.blob, record.shown) = (spill.blob, spill.shown);
            }
            None => self.spills.push((session.clone(), spill)),
        }
        self.mark_deleting(older);
    }

    fn needs(&self, blob: &str) -> bool {
        self.spills.iter().any(|(_, spill)| spill.blob == blob && spill.expired.is_none())
    }

    pub(super) fn mark_deleting(&mut self, blobs: Vec<String>) -> Vec<String> {
        let marked: Vec<String> = blobs.into_iter().filter(|blob| !self.needs(blob)).collect();
        self.deleting.extend(marked.iter().cloned());
        marked
    }
}

impl Spills for MemoryStore {
    fn add_spill(&self, claim: &Claim, spill: SpillRecord) -> Result<(), StoreError> {
        let mut state = self.state();
        state.claimed(claim)?;
        state.insert_spill(&claim.session, spill);
        Ok(())
    }

    fn spills(&self, session: &SessionId, after: u64, most: usize) -> Result<SpillPage, StoreError> {
        let state = self.state();
        let held = state.held(session)?;
        let forked_from =
            |child: &SessionId| state.forks.iter().find(|(_, _, of)| of == child).map(|(from, ..)| from);
        let line: Vec<&SessionId> =
            std::iter::successors(Some(session), |child| forked_from(child)).collect();
        // Of inherited spills, a session sees those that its messages show.
        let seen = |owner: &SessionId, spill: &SpillRecord| {
            let shown = || spill.part.as_ref().is_none_or(|part| held.part(part).is_some());
            owner == session || (line.contains(&owner) && shown())
        };
        let own = (1..).zip(&state.spills).filter(|(seq, (owner, spill))| *seq > after && seen(owner, spill));
        let own: Vec<(u64, SpillRecord)> = own.map(|(seq, (_, spill))| (seq, spill.clone())).collect();
        let next = own.get(most.wrapping_sub(1)).map(|(seq, _)| *seq).filter(|_| own.len() > most);
        Ok(SpillPage { spills: own.into_iter().take(most).map(|(_, spill)| spill).collect(), next })
    }

    fn all_spills(&self, after: u64, most: usize) -> Result<Vec<(u64, SessionId, SpillRecord)>, StoreError> {
        let state = self.state();
        let later = (1..).zip(&state.spills).filter(|(seq, _)| *seq > after).take(most);
        Ok(later.map(|(seq, (session, spill))| (seq, session.clone(), spill.clone())).collect())
    }

    fn record_late(
        &self,
        session: &SessionId,
        spill: Option<SpillRecord>,
        receipt: Option<Receipt>,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        state.held(session)?;
        if let Some(spill) = spill {
            state.insert_spill(session, spill);
        }
        if let Some(receipt) = receipt
            && !state.receipts.iter().any(|(_, other)| other.id == receipt.id)
        {
            state.receipts.push((session.clone(), receipt));
        }
        Ok(())
    }

    fn expire_spills(
        &self,
        before: Option<Millis>,
        max_bytes: Option<u64>,
        now: Millis,
        most: usize,
    ) -> Result<Vec<ExpiredSpill>, StoreError> {
        let mut state = self.state();
        // The age of a blob is that of its newest spill.
        let mut blobs: Vec<(u64, String, u64)> = Vec::new();
        for (_, spill) in state.spills.iter().filter(|(_, spill)| spill.expired.is_none()) {
            match blobs.iter_mut().find(|(_, blob, _)| *blob == spill.blob) {
                Some(known) => known.0 = known.0.max(spill.created.0),
                None => blobs.push((spill.created.0, spill.blob.clone(), spill.stored)),
            }
        }
        blobs.sort();
        let total: u128 = blobs.iter().map(|(_, _, stored)| u128::from(*stored)).sum();
        let mut over = max_bytes.map_or(0, |most| total.saturating_sub(u128::from(most)));
        let mut expired = Vec::new();
        let mut gone = Vec::new();
        for (newest, blob, stored) in blobs.into_iter().take(most) {
            if over == 0 && before.is_none_or(|before| newest >= before.0) {
                break;
            }
            over = over.saturating_sub(u128::from(stored));
            for (session, spill) in state.spills.iter_mut().filter(|(_, spill)| spill.blob == blob) {
                spill.expired = spill.expired.or(Some(now));
                expired.push(ExpiredSpill {
                    session: session.clone(),
                    handle: spill.handle.clone(),
                    tool: spill.tool.clone(),
                    bytes: spill.bytes,
                    created: spill.created,
                });
            }
            gone.push(blob);
        }
        state.mark_deleting(gone);
        Ok(expired)
    }

    fn unneeded(&self, blobs: Vec<String>) -> Result<Vec<String>, StoreError> {
        let state = self.state();
        Ok(blobs.into_iter().filter(|blob| !state.needs(blob)).collect())
    }

    fn mark_deleting(&self, blobs: Vec<String>, _: Millis) -> Result<Vec<String>, StoreError> {
        Ok(self.state().mark_deleting(blobs))
    }

    fn deleting(&self, most: usize) -> Result<Vec<String>, StoreError> {
        Ok(self.state().deleting.iter().take(most).cloned().collect())
    }

    fn confirm_deleted(&self, blobs: Vec<String>) -> Result<(), StoreError> {
        self.state().deleting.retain(|blob| !blobs.contains(blob));
        Ok(())
    }
}
