//! Leases, in memory.

use plimsoll::{Millis, Part, PartBody, SessionId, Text, ToolStatus};

use super::MemoryStore;
use crate::error::StoreError;
use crate::store::{Claim, Epoch, Lease, Leases};

impl Leases for MemoryStore {
    fn lease(
        &self,
        session: &SessionId,
        holder: &str,
        until: Millis,
        now: Millis,
    ) -> Result<Lease, StoreError> {
        let mut state = self.state();
        state.held(session)?;
        let mut is_ours = false;
        if let Some((other, until)) = state.leases.get(session) {
            if other != holder && *until > now {
                let (session, holder, until) = (session.clone(), other.clone(), *until);
                return Err(StoreError::Leased { session, holder, until });
            }
            is_ours = other == holder;
        }
        state.leases.insert(session.clone(), (holder.to_owned(), until));
        let mut settled: Vec<Part> = Vec::new();
        let mut epoch = state.held(session)?.epoch;
        if !is_ours {
            let claim = Claim { session: session.clone(), epoch };
            epoch = Epoch(epoch.0 + 1);
            state.update(&claim, Millis(0), |held| {
                held.epoch = epoch;
                let inherited = held.inherited;
                for part in held.messages[inherited..].iter_mut().flat_map(|message| &mut message.parts) {
                    let PartBody::Tool(tool) = &mut part.body else { continue };
                    if matches!(tool.state.status, ToolStatus::Pending | ToolStatus::Running) {
                        let start = tool.state.time.start.unwrap_or(now);
                        tool.state.status = ToolStatus::Error;
                        tool.state.error = Some(Text::from(crate::INTERRUPTED));
                        tool.state.time = plimsoll::log::ToolTime::ran(start, now);
                        settled.push(part.clone());
                    }
                }
                Ok(())
            })?;
        }
        let interrupted = settled.len() as u64;
        // A call that was interrupted is so for forks as well.
        for held in state.sessions.values_mut() {
            let inherited = held.inherited;
            for part in held.messages[..inherited].iter_mut().flat_map(|message| &mut message.parts) {
                if let Some(settled) = settled.iter().find(|settled| settled.id == part.id) {
                    *part = settled.clone();
                }
            }
        }
        Ok(Lease { session: session.clone(), holder: holder.to_owned(), epoch, until, interrupted })
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let mut state = self.state();
        let Ok(held) = state.held(&lease.session) else { return Ok(()) };
        if held.epoch == lease.epoch && state.leases.remove(&lease.session).is_some() {
            state.update(&lease.claim(), Millis(0), |held| {
                held.epoch = Epoch(held.epoch.0 + 1);
                Ok(())
            })?;
        }
        Ok(())
    }
}
