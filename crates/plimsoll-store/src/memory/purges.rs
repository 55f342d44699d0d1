//! Destroying content, in memory.

use std::collections::BTreeSet;

use plimsoll::log::Mark;
use plimsoll::plan::PurgePlan;
use plimsoll::{Ids, MessageId, Millis, Part, PartBody, PartId, Receipt, SessionId};

use super::{MemoryStore, State, StoredSession};
use crate::error::StoreError;
use crate::purge::{Quoted, Scrubber, TOMBSTONE};
use crate::recall::describe;
use crate::store::{ChangeKind, Claim, PurgeItem, PurgeReport, PurgeTarget, Purges};

/// Matches of a purge, and the parts and messages that contain them.
#[derive(Default)]
struct Found {
    items: Vec<PurgeItem>,
    parts: Vec<PartId>,
    quoted: Quoted,
    /// The messages with a match.
    touched: BTreeSet<MessageId>,
}

impl State {
    /// Returns a session and those it was forked from, oldest first.
    fn line(&self, session: &SessionId) -> Vec<SessionId> {
        let forked_from =
            |child: &SessionId| self.forks.iter().find(|(_, _, of)| of == child).map(|fork| fork.0.clone());
        let mut line: Vec<SessionId> =
            std::iter::successors(Some(session.clone()), |child| forked_from(child)).collect();
        line.reverse();
        line
    }

    /// Finds what a purge would destroy in a session's log.
    fn find(&self, session: &SessionId, target: &PurgeTarget) -> Result<Found, StoreError> {
        let scrubber = Scrubber::new(target)?;
        let mut found = Found::default();
        let held = self.held(session)?;
        if let PurgeTarget::Part(part) = target {
            let (place, _) = held.part(part).ok_or_else(|| StoreError::missing("part", part))?;
            found.quoted.parts.insert(part.clone());
            found.quoted.messages.insert(held.messages[place].info.id.clone());
        }
        for message in &held.messages {
            for part in &message.parts {
                if matches!(target, PurgeTarget::Part(only) if *only != part.id) {
                    continue;
                }
                let (_, places) = scrubber.scrub_part(part)?;
                if places > 0 {
                    let (session, handle, what) = (session.clone(), part.id.to_string(), describe(part));
                    found.items.push(PurgeItem { session, handle, what, places });
                    found.parts.push(part.id.clone());
                    found.quoted.parts.insert(part.id.clone());
                    found.quoted.messages.insert(message.info.id.clone());
                    found.touched.insert(message.info.id.clone());
                }
            }
            if matches!(target, PurgeTarget::Match(_)) {
                let places = scrubber.scrub_info(&mut message.clone())?;
                if places > 0 {
                    let (session, handle) = (session.clone(), message.info.id.to_string());
                    found.items.push(PurgeItem { session, handle, what: "message".into(), places });
                    found.touched.insert(message.info.id.clone());
                }
            }
        }
        Ok(found)
    }

    /// Returns the other sessions with the same content.
    fn sharers(&self, session: &SessionId, found: &Found) -> Vec<SessionId> {
        let shows = |held: &&StoredSession| {
            held.session.id != *session
                && held.messages.iter().any(|message| found.touched.contains(&message.info.id))
        };
        self.sessions.values().filter(shows).map(|held| held.session.id.clone()).collect()
    }
}

impl Found {
    /// Destroys content in a session; `is_line` says whether it is the purged session or one it was forked from.
    fn destroy_in(
        &self,
        held: &mut StoredSession,
        scrubber: &Scrubber,
        target: &PurgeTarget,
        is_line: bool,
    ) -> Result<(), StoreError> {
        let is_match = matches!(target, PurgeTarget::Match(_));
        for message in &mut held.messages {
            if is_match && self.touched.contains(&message.info.id) {
                scrubber.scrub_info(message)?;
            }
            for part in &mut message.parts {
                let mut marks: Vec<Mark> = part.all_marks();
                if self.quoted.parts.contains(&part.id) || (is_match && is_line) {
                    marks.iter_mut().try_for_each(|mark| scrubber.scrub_mark(mark).map(drop))?;
                }
                let mut bare: Part = part.clone();
                if self.parts.contains(&part.id) {
                    (bare, _) = scrubber.scrub_part(part)?;
                    // A compaction that was undone stays undone. The database has a separate row for that.
                    if let (PartBody::Compaction(left), PartBody::Compaction(was)) =
                        (&mut bare.body, &part.body)
                    {
                        left.set_aside.clone_from(&was.set_aside);
                    }
                }
                *part = bare.with_marks(marks);
            }
        }
        if is_match && is_line {
            scrubber.scrub(&mut held.session.title);
        }
        Ok(())
    }
}

impl Purges for MemoryStore {
    fn plan_purge(&self, session: &SessionId, target: &PurgeTarget) -> Result<PurgeReport, StoreError> {
        let state = self.state();
        let found = state.find(session, target)?;
        let sessions = state.sharers(session, &found);
        Ok(PurgeReport { items: found.items, sessions, ..PurgeReport::default() })
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
        let scrubber = Scrubber::new(target)?;
        let found = state.find(&claim.session, target)?;
        let line = state.line(&claim.session);
        let mut sharers = state.sharers(&claim.session, &found);
        let is_match = matches!(target, PurgeTarget::Match(_));
        let State { sessions, removed, receipts, notes, tasks, spills: known, .. } = &mut *state;
        // A fork has a copy of what it shares.
        for held in sessions.values_mut().chain(removed.values_mut()) {
            let is_line = line.contains(&held.session.id);
            found.destroy_in(held, &scrubber, target, is_line)?;
        }
        for (owner, receipt) in receipts.iter_mut() {
            let is_whole = is_match && line.contains(owner);
            if is_whole || line.contains(owner) || sharers.contains(owner) {
                scrubber.scrub_receipt(receipt, (!is_whole).then_some(&found.quoted));
            }
        }
        if is_match {
            notes.iter_mut().filter(|held| line.contains(&held.session)).for_each(|held| {
                scrubber.scrub_value(&mut held.note.data);
            });
            tasks.iter_mut().filter(|task| line.contains(&task.parent)).for_each(|task| {
                scrubber.scrub_value(&mut task.data);
            });
            known.iter_mut().filter(|(owner, _)| line.contains(owner)).for_each(|(_, spill)| {
                scrubber.scrub(&mut spill.shown);
            });
        }
        let mut handles = Vec::new();
        for (owner, spill) in known.iter_mut().filter(|(_, spill)| spills.contains(&spill.hash)) {
            spill.expired = spill.expired.or(Some(now));
            spill.shown = TOMBSTONE.to_owned();
            handles.push((spill.handle.clone(), spill.blob.clone()));
            sharers.push(owner.clone());
        }
        state.mark_deleting(handles.iter().map(|(_, blob)| blob.clone()).collect());
        sharers.retain(|other| *other != claim.session);
        sharers.sort();
        sharers.dedup();
        handles.sort();
        handles.dedup();
        let mut plan = PurgePlan::default();
        plan.places = found.items.iter().map(|item| item.places).sum::<u64>() + handles.len() as u64;
        plan.parts = found.parts;
        plan.spills = handles.into_iter().map(|(handle, _)| handle).collect();
        plan.sessions.clone_from(&sharers);
        let mut drawn = state.written;
        let mut ids = Ids::new(move || {
            drawn += 1;
            drawn
        });
        let receipt = Receipt::of_purge(plan, "purge", &mut ids, now);
        state.receipts.push((claim.session.clone(), receipt.clone()));
        for session in std::iter::once(&claim.session).chain(&sharers) {
            state.written += 1;
            let written = state.written;
            let Some(held) = state.sessions.get_mut(session) else { continue };
            held.written = written;
            held.session.updated = held.session.updated.max(now);
            held.session.revision.0 += 1;
            held.shaped = held.session.revision;
            state.note(session, ChangeKind::Purged, None, None);
        }
        Ok(receipt)
    }

    fn finish_purges(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}
