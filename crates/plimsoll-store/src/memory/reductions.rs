//! Reductions and receipts, in memory.

use plimsoll::{Ids, Message, MessageId, Millis, Receipt, ReceiptId, Reduction, SessionId, Tokens};

use super::{MemoryStore, page_after};
use crate::error::StoreError;
use crate::store::{ChangeKind, Claim, CompactionRecord, Reductions, Revision};

impl Reductions for MemoryStore {
    fn reduce(
        &self,
        claim: &Claim,
        reduction: Reduction,
        planned_on: Option<Revision>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let reduced_in = state.claimed(claim)?.shaped;
        if let Some(first) = reduction.receipts.first() {
            let there = state.receipts.iter().find(|(_, receipt)| receipt.id == first.id);
            match there {
                Some((session, there)) if *session == claim.session && there == first => return Ok(()),
                Some(_) => return Err(StoreError::duplicate("receipt", &first.id)),
                None => {}
            }
        }
        if let Some(planned_on) = planned_on.filter(|planned_on| reduced_in > *planned_on) {
            return Err(StoreError::Stale { session: claim.session.clone(), planned_on, reduced_in });
        }
        let has_marks = reduction.receipts.iter().any(|receipt| !receipt.plan.effects().is_empty());
        let shapes = has_marks || !reduction.appended.is_empty();
        let appended = reduction.appended.len();
        if let Some(held) = state.sessions.get_mut(&claim.session) {
            held.reduce(&reduction)?;
            let new = held.messages.len() - appended;
            held.count(new);
            if shapes {
                held.shaped = Revision(held.session.revision.0 + 1);
            }
        }
        state.revise(claim, now);
        for message in &reduction.appended {
            state.note(&claim.session, ChangeKind::Appended, Some(message.info.id.clone()), None);
        }
        state.note(&claim.session, ChangeKind::Reduced, None, None);
        state.note_reduction(&claim.session, appended);
        state.receipts.extend(reduction.receipts.into_iter().map(|receipt| (claim.session.clone(), receipt)));
        Ok(())
    }

    fn receipts(
        &self,
        session: &SessionId,
        after: Option<&ReceiptId>,
        most: u64,
    ) -> Result<Vec<Receipt>, StoreError> {
        let state = self.state();
        state.held(session)?;
        let own = state.receipts.iter().filter(|(owner, _)| owner == session).map(|(_, receipt)| receipt);
        page_after(own.cloned(), after, |receipt| &receipt.id, most, "receipt")
    }

    fn newest_receipts(&self, session: &SessionId, most: u64) -> Result<Vec<Receipt>, StoreError> {
        let state = self.state();
        state.held(session)?;
        let own = state.receipts.iter().rev().filter(|(owner, _)| owner == session);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(own.map(|(_, receipt)| receipt.clone()).take(most).collect())
    }

    fn receipt(&self, id: &ReceiptId) -> Result<(SessionId, Receipt), StoreError> {
        let state = self.state();
        let found = state.receipts.iter().find(|(_, receipt)| receipt.id == *id);
        found.cloned().ok_or_else(|| StoreError::missing("receipt", id))
    }

    fn receipts_like(&self, prefix: &str, most: usize) -> Result<Vec<ReceiptId>, StoreError> {
        let state = self.state();
        let known = state.receipts.iter().filter(|(owner, _)| state.held(owner).is_ok());
        let mut found: Vec<ReceiptId> = known.map(|(_, receipt)| receipt.id.clone()).collect();
        found.retain(|id| id.as_str().starts_with(prefix));
        found.sort();
        found.truncate(most);
        Ok(found)
    }

    fn undo(&self, claim: &Claim, id: &ReceiptId, now: Millis) -> Result<Receipt, StoreError> {
        let (session, receipt) = self.receipt(id)?;
        if session != claim.session {
            return Err(StoreError::missing("receipt", id));
        }
        let mut state = self.state();
        state.claimed(claim)?;
        let done = state.receipts.iter().find(|(_, other)| other.undoes.as_ref() == Some(id));
        if let Some((_, done)) = done {
            return Err(StoreError::Undone { receipt: id.clone(), by: done.id.clone() });
        }
        let mut drawn = state.written;
        let mut ids = Ids::new(move || {
            drawn += 1;
            drawn
        });
        let undone = state.update(claim, now, |held| {
            held.shaped = Revision(held.session.revision.0 + 1);
            held.with_log(|log| Ok(receipt.undo(log, &mut ids, now)?))
        })?;
        state.note(&claim.session, ChangeKind::Undone, None, None);
        state.receipts.push((session, undone.clone()));
        Ok(undone)
    }

    fn resize_receipt(
        &self,
        claim: &Claim,
        id: &ReceiptId,
        before: Tokens,
        after: Tokens,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        state.claimed(claim)?;
        let own = state
            .receipts
            .iter_mut()
            .find(|(session, receipt)| *session == claim.session && receipt.id == *id);
        let (_, receipt) = own.ok_or_else(|| StoreError::missing("receipt", id))?;
        (receipt.before, receipt.after) = (before, after);
        Ok(())
    }

    fn compactions(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: u64,
    ) -> Result<Vec<CompactionRecord>, StoreError> {
        let state = self.state();
        let messages = &state.held(session)?.messages;
        let mut records = Vec::new();
        for (place, message) in messages.iter().enumerate() {
            let Some(marker) = message.marker() else { continue };
            let answers = |other: &&Message| {
                other.is_finished_summary() && other.info.parent_id.as_ref() == Some(&message.info.id)
            };
            let summary =
                if marker.summary.is_some() { Some(message) } else { messages[place..].iter().find(answers) };
            let Some(summary) = summary else { continue };
            let time = summary.info.time.as_ref();
            records.push(CompactionRecord {
                marker: message.info.id.clone(),
                summary: summary.info.id.clone(),
                tail: marker.tail_start.clone(),
                messages: marker.messages,
                tokens: marker.tokens,
                created: time.and_then(|time| time.completed.or(time.created)).unwrap_or_default(),
                set_aside: marker.set_aside.as_ref().map(|moment| moment.at),
            });
        }
        page_after(records.into_iter(), after, |record| &record.marker, most, "compaction")
    }
}
