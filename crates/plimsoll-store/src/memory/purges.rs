//! Destroying content, in memory.

use plimsoll::receipt::PurgePlan;
use plimsoll::{Ids, Millis, Part, Receipt, SessionId};

use super::{MemoryStore, State};
use crate::error::StoreError;
use crate::purge::Scrubber;
use crate::recall::what_of;
use crate::store::{ChangeKind, Claim, PurgeItem, PurgeReport, PurgeTarget, Purges};

impl State {
    /// The parts of a session with something to be destroyed, and what is left of them.
    fn scrubbed(
        &self,
        session: &SessionId,
        target: &PurgeTarget,
    ) -> Result<Vec<(PurgeItem, Part)>, StoreError> {
        let scrubber = Scrubber::new(target)?;
        let mut found = Vec::new();
        for part in self.held(session)?.messages.iter().flat_map(|message| &message.parts) {
            if matches!(target, PurgeTarget::Part(only) if *only != part.id) {
                continue;
            }
            let mut value = serde_json::to_value(part.clone().without_marks())?;
            let places = scrubber.scrub_value(&mut value);
            if places > 0 {
                let mut scrubbed: Part = serde_json::from_value(value)?;
                scrubbed.id = part.id.clone();
                let scrubbed = scrubbed.with_marks(part.all_marks().to_vec());
                let (session, handle, what) = (session.clone(), part.id.to_string(), what_of(part));
                found.push((PurgeItem { session, handle, what, places }, scrubbed));
            }
        }
        Ok(found)
    }
}

impl Purges for MemoryStore {
    fn plan_purge(&self, session: &SessionId, target: &PurgeTarget) -> Result<PurgeReport, StoreError> {
        let items = self.state().scrubbed(session, target)?.into_iter().map(|(item, _)| item).collect();
        Ok(PurgeReport { items, ..PurgeReport::default() })
    }

    fn purge(
        &self,
        claim: &Claim,
        target: &PurgeTarget,
        spills: Vec<String>,
        now: Millis,
    ) -> Result<Receipt, StoreError> {
        let mut state = self.state();
        state.claimed(claim)?;
        let found = state.scrubbed(&claim.session, target)?;
        let State { sessions, removed, .. } = &mut *state;
        // A fork has a copy of what it shares.
        for held in sessions.values_mut().chain(removed.values_mut()) {
            for part in held.messages.iter_mut().flat_map(|message| &mut message.parts) {
                if let Some((_, scrubbed)) = found.iter().find(|(_, scrubbed)| scrubbed.id == part.id) {
                    *part = scrubbed.clone();
                }
            }
        }
        let mut handles = Vec::new();
        for (_, spill) in state.spills.iter_mut().filter(|(_, spill)| spills.contains(&spill.hash)) {
            spill.expired = spill.expired.or(Some(now));
            handles.push((spill.handle.clone(), spill.blob.clone()));
        }
        state.mark_deleting(handles.iter().map(|(_, blob)| blob.clone()).collect());
        let plan = PurgePlan {
            parts: found.iter().map(|(_, part)| part.id.clone()).collect(),
            places: found.iter().map(|(item, _)| item.places).sum::<u64>() + handles.len() as u64,
            spills: handles.into_iter().map(|(handle, _)| handle).collect(),
            sessions: Vec::new(),
        };
        let mut drawn = state.written;
        let mut ids = Ids::new(move || {
            drawn += 1;
            drawn
        });
        let receipt = Receipt::of_purge(plan, "purge", &mut ids, now);
        state.receipts.push((claim.session.clone(), receipt.clone()));
        if let Some(held) = state.sessions.get_mut(&claim.session) {
            held.session.revision.0 += 1;
            held.shaped = held.session.revision;
        }
        state.note(&claim.session, ChangeKind::Purged, None, None);
        Ok(receipt)
    }

    fn finish_purges(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}
