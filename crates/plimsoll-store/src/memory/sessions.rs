//! Sessions as a whole, in memory.

use plimsoll::{MessageId, Millis, SessionId};

use super::{MemoryStore, State, StoredSession, page_after};
use crate::error::StoreError;
use crate::holder::holder_is_gone;
use crate::store::{
    ChangeKind, Claim, Filter, ForkPoint, NewLease, NewSession, NewTask, Session, SessionPatch, Sessions,
    TakeOver,
};
use crate::{is_being_written, still_written};

impl State {
    /// Returns the session with that id if the same call created it: then the call was repeated.
    fn same_session(&self, new: &NewSession, parent: Option<&SessionId>, now: Millis) -> Option<Session> {
        let there = &self.sessions.get(&new.id)?.session;
        there.was_begun_as(new, parent, now).then(|| there.clone())
    }
}

impl MemoryStore {
    /// Stores the task and the lease that a new session is created with. If one is refused, no session remains.
    fn equip(
        &self,
        id: &SessionId,
        (task, lease): (Option<NewTask>, Option<NewLease>),
        now: Millis,
    ) -> Result<(), StoreError> {
        if let Some(task) = task {
            let mut state = self.state();
            if let Err(error) = state.put_task(task, now) {
                state.sessions.remove(id);
                state.forks.retain(|(_, _, child)| child != id);
                return Err(error);
            }
        }
        if let Some(NewLease { holder, ttl }) = lease {
            self.take_lease(id, &holder, ttl, &TakeOver::Never)?;
        }
        Ok(())
    }
}

impl Sessions for MemoryStore {
    fn create(&self, session: NewSession, now: Millis) -> Result<Session, StoreError> {
        let mut state = self.state();
        if let Some(there) = state.same_session(&session, None, now) {
            return Ok(there);
        }
        let (id, messages) = (session.id.clone(), session.messages.clone());
        let born = (session.task.clone(), session.lease.clone());
        let held = state.insert(session, now)?;
        if let Err(error) = held.append(messages) {
            state.sessions.remove(&id);
            return Err(error);
        }
        state.note(&id, ChangeKind::Created, None, None);
        let made = state.held(&id)?.session.clone();
        drop(state);
        self.equip(&id, born, now)?;
        Ok(made)
    }

    fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        Ok(self.state().held(id)?.session.clone())
    }

    fn sessions(&self, filter: &Filter) -> Result<Vec<Session>, StoreError> {
        let state = self.state();
        let wanted = |held: &&StoredSession| {
            let session = &held.session;
            let of_directory = filter.directory.is_none() || session.directory == filter.directory;
            let of_parent = match &filter.parent {
                Some(parent) => session.parent.as_ref() == Some(parent),
                None => filter.all || session.parent.is_none(),
            };
            of_directory && of_parent
        };
        let mut held: Vec<&StoredSession> = state.sessions.values().filter(wanted).collect();
        held.sort_by_key(|held| std::cmp::Reverse((held.session.updated, held.written)));
        let sessions = held.into_iter().map(|held| held.session.clone());
        page_after(
            sessions,
            filter.after.as_ref(),
            |session| &session.id,
            filter.most.unwrap_or(u64::MAX),
            "session",
        )
    }

    fn sessions_like(&self, prefix: &str, most: u64) -> Result<Vec<Session>, StoreError> {
        let state = self.state();
        let like = state.sessions.values().filter(|held| held.session.id.as_str().starts_with(prefix));
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(like.take(most).map(|held| held.session.clone()).collect())
    }

    fn patch(&self, claim: &Claim, patch: SessionPatch, now: Millis) -> Result<Session, StoreError> {
        let mut state = self.state();
        let session = state.update(claim, now, |held| {
            let session = &mut held.session;
            session.title = patch.title.unwrap_or(std::mem::take(&mut session.title));
            session.agent = patch.agent.or(session.agent.take());
            session.model = patch.model.or(session.model.take());
            session.settings = patch.settings.unwrap_or(std::mem::take(&mut session.settings));
            Ok(())
        });
        session?;
        state.note(&claim.session, ChangeKind::Patched, None, None);
        Ok(state.held(&claim.session)?.session.clone())
    }

    fn fork(
        &self,
        parent: &SessionId,
        upto: Option<&MessageId>,
        child: NewSession,
        now: Millis,
    ) -> Result<Session, StoreError> {
        let mut state = self.state();
        if let Some(there) = state.same_session(&child, Some(parent), now) {
            return Ok(there);
        }
        let held = state.held(parent)?;
        let open = held.messages.iter().position(is_being_written);
        let shared = match upto {
            Some(id) => {
                let place = held.place(id)?;
                if let Some(open) = open.filter(|open| *open <= place) {
                    return Err(still_written(&held.messages[open].info.id, id));
                }
                place + 1
            }
            None => open.unwrap_or(held.messages.len()),
        };
        let messages = held.messages[..shared].to_vec();
        let message = messages.last().map(|message| message.info.id.clone());
        let (tool, context) = (held.session.tool.clone(), held.session.context);
        let point = ForkPoint { session: parent.clone(), message };
        let fork = (parent.clone(), shared, child.id.clone());
        let (id, own) = (child.id.clone(), child.messages.clone());
        let born = (child.task.clone(), child.lease.clone());
        let child = state.insert(child, now)?;
        (child.inherited, child.messages, child.session.forked_from) = (shared, messages, Some(point));
        child.session.tool = child.session.tool.take().or(tool);
        child.session.context = child.session.context.or(context);
        if let Err(error) = child.append(own) {
            state.sessions.remove(&id);
            return Err(error);
        }
        state.note(&id, ChangeKind::Created, None, None);
        state.forks.push(fork);
        let made = state.held(&id)?.session.clone();
        drop(state);
        self.equip(&id, born, now)?;
        Ok(made)
    }

    fn remove(&self, claim: &Claim, _: Millis) -> Result<(), StoreError> {
        let mut state = self.state();
        state.claimed(claim)?;
        let mut going = vec![claim.session.clone()];
        let mut at = 0;
        while let Some(id) = going.get(at).cloned() {
            at += 1;
            let tasks = state.sessions.values().filter(|held| held.session.parent.as_ref() == Some(&id));
            going.extend(tasks.map(|held| held.session.id.clone()));
        }
        let now = self.clock.now();
        for id in &going[1..] {
            if let Some((holder, until)) =
                state.leases.get(id).filter(|(holder, until)| *until > now && !holder_is_gone(holder))
            {
                let (session, holder) = (id.clone(), holder.clone());
                return Err(StoreError::Leased { session, holder, until: *until, now });
            }
        }
        // Tasks are removed before the sessions they belong to, in reverse order.
        for id in going.into_iter().rev() {
            if let Some(held) = state.sessions.get_mut(&id) {
                held.session.revision.0 += 1;
            }
            state.note(&id, ChangeKind::Removed, None, None);
            let held = state.sessions.remove(&id);
            state.leases.remove(&id);
            state.forget_import(&id);
            state.receipts.retain(|(session, _)| *session != id);
            // A digest that a task was given may name content of the session.
            let mut started = state.removed.values().filter(|task| task.session.parent.as_ref() == Some(&id));
            if started.next().is_some() || state.needed(&id) {
                state.removed.extend(held.map(|held| (id.clone(), held)));
            } else {
                let own = state.spills.iter().filter(|(session, _)| *session == id);
                let blobs = own.map(|(_, spill)| spill.blob.clone()).collect();
                state.spills.retain(|(session, _)| *session != id);
                state.mark_deleting(blobs);
            }
            state.notes.retain(|held| held.session != id);
            state.tasks.retain(|task| task.parent != id);
        }
        Ok(())
    }
}
