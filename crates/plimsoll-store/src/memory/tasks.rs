//! Notes and tasks, in memory.

use plimsoll::{Millis, SessionId};

use super::{MemoryStore, State};
use crate::error::StoreError;
use crate::store::{
    ChangeKind, Claim, Inbox, NewNote, NewTask, Note, TaskFilter, TaskMove, TaskRecord, Tasks,
};

/// A note in memory. Taken notes are remembered.
pub(super) struct HeldNote {
    pub(super) session: SessionId,
    pub(super) note: Note,
    is_taken: bool,
}

impl State {
    /// Writes to a session without a claim.
    fn touch(&mut self, session: &SessionId, now: Millis, kind: ChangeKind) -> Result<(), StoreError> {
        let claim = Claim { session: session.clone(), epoch: self.held(session)?.epoch };
        self.update(&claim, now, |_| Ok(()))?;
        self.note(session, kind, None, None);
        Ok(())
    }

    fn send(&mut self, session: &SessionId, new: NewNote, now: Millis) -> Result<(), StoreError> {
        self.held(session)?;
        let mut own = self.notes.iter().filter(|held| held.session == *session);
        if let Some(there) = own.find(|held| held.note.id == new.id) {
            let same = there.note.kind == new.kind && there.note.data == new.data;
            return if same { Ok(()) } else { Err(StoreError::duplicate("note", &new.id)) };
        }
        let note = Note { id: new.id, kind: new.kind, data: new.data, sent: now };
        self.notes.push(HeldNote { session: session.clone(), note, is_taken: false });
        self.touch(session, now, ChangeKind::Noted)
    }

    /// Creates a task.
    pub(super) fn put_task(&mut self, new: NewTask, now: Millis) -> Result<TaskRecord, StoreError> {
        if new.id.is_empty() {
            return Err(StoreError::Refused("a task needs an id".into()));
        }
        if let Some(there) = self.tasks.iter().find(|task| task.id == new.id) {
            let same = there.was_begun_as(&new);
            return if same { Ok(there.clone()) } else { Err(StoreError::duplicate("task", &new.id)) };
        }
        self.touch(&new.parent, now, ChangeKind::Task)?;
        let NewTask { id, parent, session, status, data } = new;
        let task = TaskRecord { id, parent, session, status, data, created: now, updated: now };
        self.tasks.push(task.clone());
        Ok(task)
    }
}

impl Inbox for MemoryStore {
    fn send(&self, session: &SessionId, new: NewNote, now: Millis) -> Result<(), StoreError> {
        self.state().send(session, new, now)
    }

    fn notes(&self, session: &SessionId, most: u64) -> Result<Vec<Note>, StoreError> {
        let state = self.state();
        state.held(session)?;
        let waiting = state.notes.iter().filter(|held| held.session == *session && !held.is_taken);
        let most = if most == 0 { 100 } else { usize::try_from(most).unwrap_or(usize::MAX) };
        Ok(waiting.take(most).map(|held| held.note.clone()).collect())
    }

    fn take_notes(&self, claim: &Claim, ids: &[String], now: Millis) -> Result<Vec<Note>, StoreError> {
        let mut state = self.state();
        state.claimed(claim)?;
        let mut taken = Vec::new();
        for id in ids {
            let mut own =
                state.notes.iter_mut().filter(|held| held.session == claim.session && !held.is_taken);
            if let Some(held) = own.find(|held| held.note.id == *id) {
                held.is_taken = true;
                taken.push(held.note.clone());
            }
        }
        if !taken.is_empty() {
            state.touch(&claim.session, now, ChangeKind::Noted)?;
        }
        Ok(taken)
    }
}

impl Tasks for MemoryStore {
    fn put_task(&self, new: NewTask, now: Millis) -> Result<TaskRecord, StoreError> {
        self.state().put_task(new, now)
    }

    fn task(&self, id: &str) -> Result<TaskRecord, StoreError> {
        let found = self.state().tasks.iter().find(|task| task.id == id).cloned();
        found.ok_or_else(|| StoreError::missing("task", id))
    }

    fn tasks(&self, filter: &TaskFilter) -> Result<Vec<TaskRecord>, StoreError> {
        let state = self.state();
        filter.parent.as_ref().map(|parent| state.held(parent).map(|_| ())).transpose()?;
        let after = match &filter.after {
            Some(id) => {
                let place = state.tasks.iter().position(|task| task.id == *id);
                place.ok_or_else(|| StoreError::missing("task", id))? + 1
            }
            None => 0,
        };
        let wanted = |task: &&TaskRecord| {
            filter.parent.as_ref().is_none_or(|parent| task.parent == *parent)
                && filter.status.as_ref().is_none_or(|status| task.status == *status)
        };
        let most = if filter.most == 0 { 100 } else { usize::try_from(filter.most).unwrap_or(usize::MAX) };
        Ok(state.tasks[after..].iter().filter(wanted).take(most).cloned().collect())
    }

    fn move_task(&self, id: &str, step: TaskMove, now: Millis) -> Result<TaskRecord, StoreError> {
        let mut state = self.state();
        if let Some(claim) = &step.under {
            state.claimed(claim)?;
        }
        let place = state.tasks.iter().position(|task| task.id == id);
        let place = place.ok_or_else(|| StoreError::missing("task", id))?;
        let mut task = state.tasks[place].clone();
        if task.was_moved_by(&step) {
            return Ok(task);
        }
        if !task.can_move_by(&step) {
            return Err(StoreError::TaskMoved { task: id.to_owned(), status: task.status });
        }
        state.touch(&task.parent, now, ChangeKind::Task)?;
        task.status = step.to;
        task.session = step.session.or(task.session);
        task.data = step.data.unwrap_or(task.data);
        task.updated = task.updated.max(now);
        state.tasks[place] = task.clone();
        for (session, note) in step.notes {
            match state.send(&session, note, now) {
                Ok(()) | Err(StoreError::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(task)
    }
}
