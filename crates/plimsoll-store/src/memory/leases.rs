//! Leases, in memory.

use std::time::Duration;

use plimsoll::log::MessageUpdate;
use plimsoll::{Millis, SessionId};

use super::{MemoryStore, StoredSession};
use crate::error::StoreError;
use crate::holder::holder_is_gone;
use crate::is_unfinished;
use crate::store::{ChangeKind, Claim, Epoch, Lease, LeaseRecord, Leases, Settled, TakeOver, settle_calls};

impl MemoryStore {
    pub(super) fn take_lease(
        &self,
        session: &SessionId,
        holder: &str,
        ttl: Duration,
        take_over: &TakeOver,
    ) -> Result<Lease, StoreError> {
        let mut state = self.state();
        let (until, now) = (self.clock.after(ttl), self.clock.now());
        let epoch = state.held(session)?.epoch;
        let held = state.leases.get(session).cloned();
        let other = held.filter(|(other, until)| other != holder && *until > now);
        let taken_from = match other {
            Some((holder, until)) if !take_over.allows(&holder) && !holder_is_gone(&holder) => {
                return Err(StoreError::Leased { session: session.clone(), holder, until, now });
            }
            other => other.map(|(holder, _)| holder),
        };
        state.leases.insert(session.clone(), (holder.to_owned(), until));
        let claim = Claim { session: session.clone(), epoch };
        let epoch = Epoch(epoch.0 + 1);
        let settled = state.update(&claim, Millis(0), |held| {
            held.epoch = epoch;
            held.settle(now)
        })?;
        state.note(session, ChangeKind::Leased, None, None);
        let (session, holder) = (session.clone(), holder.to_owned());
        Ok(Lease { session, holder, epoch, until, settled, taken_from })
    }
}

impl StoredSession {
    /// Marks unfinished work as interrupted.
    pub(super) fn settle(&mut self, now: Millis) -> Result<Settled, StoreError> {
        let mut settled = Settled::default();
        let own = &mut self.messages[self.inherited..];
        settled.calls = own.iter_mut().map(|message| settle_calls(message, now)).sum();
        let open = own.iter().filter(|message| is_unfinished(message)).map(|message| message.info.id.clone());
        for id in open.collect::<Vec<_>>() {
            let update = MessageUpdate::aborted(crate::INTERRUPTED_ANSWER);
            self.with_log(|log| Ok(log.record(&id, update, now)?))?;
            settled.answers += 1;
        }
        Ok(settled)
    }
}

impl Leases for MemoryStore {
    fn lease(&self, session: &SessionId, holder: &str, ttl: Duration) -> Result<Lease, StoreError> {
        self.take_lease(session, holder, ttl, &TakeOver::Never)
    }

    fn break_lease(&self, session: &SessionId, holder: &str, ttl: Duration) -> Result<Lease, StoreError> {
        self.take_lease(session, holder, ttl, &TakeOver::Always)
    }

    fn inherit_lease(
        &self,
        session: &SessionId,
        holder: &str,
        ttl: Duration,
        from: &str,
    ) -> Result<Lease, StoreError> {
        self.take_lease(session, holder, ttl, &TakeOver::From(from.to_owned()))
    }

    fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Lease, StoreError> {
        let mut state = self.state();
        state.claimed(&lease.claim())?;
        let until = self.clock.after(ttl);
        state.leases.insert(lease.session.clone(), (lease.holder.clone(), until));
        Ok(Lease { until, settled: Settled::default(), taken_from: None, ..lease.clone() })
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.claimed(&lease.claim()).is_err() {
            return Ok(());
        }
        state.leases.remove(&lease.session);
        state.update(&lease.claim(), Millis(0), |held| {
            held.epoch = Epoch(held.epoch.0 + 1);
            Ok(())
        })?;
        state.note(&lease.session, ChangeKind::Released, None, None);
        Ok(())
    }

    fn leases(&self, after: Option<&SessionId>, most: u64) -> Result<Vec<LeaseRecord>, StoreError> {
        let state = self.state();
        let left = state.leases.iter().filter(|(session, _)| after.is_none_or(|after| *session > after));
        let records = left.map(|(session, (holder, until))| LeaseRecord {
            session: session.clone(),
            holder: holder.clone(),
            until: *until,
        });
        let most = if most == 0 { 100 } else { most };
        Ok(records.take(usize::try_from(most).unwrap_or(usize::MAX)).collect())
    }
}
