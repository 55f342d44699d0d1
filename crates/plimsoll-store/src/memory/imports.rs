//! In-memory storage of imports.

use std::time::Duration;

use plimsoll::{Message, Millis, SessionId};

use super::{Index, MemoryStore, State, StoredSession};
use crate::error::StoreError;
use crate::holder::holder_is_gone;
use crate::store::{
    ChangeKind, Conversation, Epoch, GrownMessage, Import, ImportRecord, Imported, Imports, StagedPiece,
};

/// An imported conversation.
#[derive(Clone)]
pub(super) struct HeldImport {
    record: ImportRecord,
    /// Number of messages that imports and reductions added.
    pub(super) taken: u64,
}

/// Staged messages.
pub(super) struct HeldStage {
    stage: String,
    conversation: usize,
    touched: Millis,
    messages: Vec<Message>,
}

impl Imports for MemoryStore {
    fn imports(&self, source: &str) -> Result<Vec<ImportRecord>, StoreError> {
        Ok(self.state().records(|record| record.source == source))
    }

    fn import_of(&self, session: &SessionId) -> Result<Vec<ImportRecord>, StoreError> {
        Ok(self.state().records(|record| record.root == *session))
    }

    fn stage(&self, piece: StagedPiece) -> Result<(), StoreError> {
        let (mut state, now) = (self.state(), self.clock.now());
        let is_wanted =
            |held: &HeldStage| held.stage == piece.stage && held.conversation == piece.conversation;
        let place = state.stages.iter().position(is_wanted);
        if place.map_or(0, |place| state.stages[place].messages.len()) as u64 != piece.after {
            return Err(swept(&piece.stage));
        }
        let StagedPiece { stage, conversation, messages, .. } = piece;
        match place {
            Some(place) => state.stages[place].messages.extend(messages),
            None => {
                let stage = stage.clone();
                state.stages.push(HeldStage { stage, conversation, touched: now, messages });
            }
        }
        state.stages.iter_mut().filter(|held| held.stage == stage).for_each(|held| held.touched = now);
        Ok(())
    }

    fn import(&self, import: Import) -> Result<Imported, StoreError> {
        let (mut state, now) = (self.state(), self.clock.now());
        if let Some(known) = &import.known {
            let mut roots: Vec<SessionId> = state
                .records(|record| record.source == import.source)
                .into_iter()
                .map(|it| it.root)
                .collect();
            roots.dedup();
            if roots != *known {
                return Ok(Imported::Outdated);
            }
        }
        // All sessions are prepared before any is stored, so that a refused one leaves no other behind.
        let root = import.conversations.first().map(|first| first.session.id.clone()).unwrap_or_default();
        let mut ready = Vec::new();
        for (place, conversation) in import.conversations.iter().enumerate() {
            let held = match &conversation.before {
                None => state.begun(&import, place)?,
                Some(before) => match state.existing(conversation, before, now)? {
                    Ok(held) => held,
                    Err(refused) => return Ok(refused),
                },
            };
            ready.push(added(held, conversation)?);
        }
        for (mut held, conversation) in ready.into_iter().zip(&import.conversations) {
            let id = conversation.session.id.clone();
            let brings_nothing = conversation.grown.is_none() && conversation.messages.is_empty();
            let kind = match &conversation.before {
                None => Some(ChangeKind::Created),
                Some(_) if brings_nothing => None,
                Some(_) => Some(ChangeKind::Imported),
            };
            if kind == Some(ChangeKind::Imported) {
                held.session.revision.0 += 1;
            }
            let record = ImportRecord {
                session: id.clone(),
                root: root.clone(),
                source: import.source.clone(),
                conversation: conversation.conversation.clone(),
                state: conversation.state.clone(),
                is_continued: false,
            };
            let taken = held.session.messages;
            match state.imports.iter_mut().find(|other| other.record.session == id) {
                Some(other) => *other = HeldImport { record, taken },
                None => state.imports.push(HeldImport { record, taken }),
            }
            state.written += 1;
            held.written = state.written;
            state.sessions.insert(id.clone(), held);
            if let Some(kind) = kind {
                state.note(&id, kind, None, None);
            }
        }
        if let Some(stage) = &import.stage {
            state.stages.retain(|held| held.stage != *stage);
        }
        Ok(Imported::Stored)
    }

    fn unstage(&self, stage: &str) -> Result<(), StoreError> {
        self.state().stages.retain(|held| held.stage != stage);
        Ok(())
    }

    fn sweep_stages(&self, idle: Duration) -> Result<u64, StoreError> {
        let (mut state, before) = (self.state(), self.clock.before(idle));
        let old = |held: &&HeldStage| held.touched < before;
        let mut stages: Vec<String> =
            state.stages.iter().filter(old).map(|held| held.stage.clone()).collect();
        stages.sort();
        stages.dedup();
        state.stages.retain(|held| held.touched >= before);
        Ok(stages.len() as u64)
    }
}

impl State {
    /// Records that a reduction added messages to a session. They do not count as continuing it.
    pub(super) fn note_reduction(&mut self, session: &SessionId, messages: usize) {
        let imported = self.imports.iter_mut().filter(|held| held.record.session == *session);
        imported.for_each(|held| held.taken += messages as u64);
    }

    /// Forgets the import of a removed session.
    pub(super) fn forget_import(&mut self, session: &SessionId) {
        self.imports.retain(|held| held.record.session != *session);
    }

    fn records(&self, is_wanted: impl Fn(&ImportRecord) -> bool) -> Vec<ImportRecord> {
        let wanted = self.imports.iter().filter(|held| is_wanted(&held.record));
        let found = wanted.filter_map(|held| {
            let messages = self.sessions.get(&held.record.session)?.session.messages;
            Some(ImportRecord { is_continued: messages != held.taken, ..held.record.clone() })
        });
        let all: Vec<ImportRecord> = found.collect();
        // Grouped by session, oldest session first.
        let mut roots: Vec<SessionId> = Vec::new();
        for record in &all {
            if !roots.contains(&record.root) {
                roots.push(record.root.clone());
            }
        }
        let of_root =
            |root: &SessionId| all.iter().filter(|it| it.root == *root).cloned().collect::<Vec<_>>();
        roots.iter().flat_map(of_root).collect()
    }

    /// Returns a new session with its staged messages.
    fn begun(&self, import: &Import, place: usize) -> Result<StoredSession, StoreError> {
        let conversation = &import.conversations[place];
        let id = &conversation.session.id;
        let is_wanted =
            |held: &&HeldStage| import.stage.as_deref() == Some(&held.stage) && held.conversation == place;
        let staged = self.stages.iter().find(is_wanted).map(|held| held.messages.clone()).unwrap_or_default();
        if staged.len() as u64 != conversation.staged {
            return Err(swept(import.stage.as_deref().unwrap_or_default()));
        }
        if self.needed(id) {
            return Err(StoreError::duplicate("session", id));
        }
        // Created in a separate state, so that nothing is left here if a later conversation is refused.
        let mut apart = State::default();
        let held = apart.insert(conversation.session.clone(), conversation.created)?;
        held.append(staged)?;
        held.session.updated = conversation.updated;
        Ok(held.clone())
    }

    /// Returns the session to extend, or why it is not extended.
    fn existing(
        &self,
        conversation: &Conversation,
        before: &str,
        now: Millis,
    ) -> Result<Result<StoredSession, Imported>, StoreError> {
        let id = &conversation.session.id;
        let record = self.records(|record| record.session == *id).pop();
        if !record.is_some_and(|record| record.state == before && !record.is_continued) {
            return Ok(Err(Imported::Outdated));
        }
        let mut held = self.held(id)?.clone();
        if conversation.grown.is_none() && conversation.messages.is_empty() {
            return Ok(Ok(held));
        }
        if let Some((holder, until)) =
            self.leases.get(id).filter(|(holder, until)| *until > now && !holder_is_gone(holder))
        {
            let (session, holder, until) = (id.clone(), holder.clone(), *until);
            return Err(StoreError::Leased { session, holder, until, now });
        }
        if let Some(grown) = &conversation.grown
            && held.place(&grown.message.info.id)? < self.shared(id)
        {
            return Ok(Err(Imported::Shared));
        }
        held.epoch = Epoch(held.epoch.0 + 1);
        Ok(Ok(held))
    }
}

fn swept(stage: &str) -> StoreError {
    StoreError::Refused(format!("the stage `{stage}` no longer exists; import again"))
}

/// Returns the session with the imported messages.
fn added(mut held: StoredSession, conversation: &Conversation) -> Result<StoredSession, StoreError> {
    held.session.tool = conversation.session.tool.clone().or(held.session.tool);
    held.session.context = conversation.session.context.or(held.session.context);
    if let Some(GrownMessage { message, parts }) = &conversation.grown {
        let place = held.place(&message.info.id)?;
        let old = &mut held.messages[place];
        let before = old.info.clone();
        (old.info, old.extra) = (message.info.clone(), message.extra.clone());
        for (ord, part) in parts {
            if *ord < old.parts.len() {
                let marks = old.parts[*ord].marks.clone();
                old.parts[*ord] = part.clone().with_marks(marks.to_vec());
            } else {
                old.parts.push(part.clone());
            }
        }
        held.recount(&before, place);
        held.index = Index::default();
    }
    held.append(conversation.messages.clone())?;
    if conversation.grown.is_some() || !conversation.messages.is_empty() {
        held.session.updated = held.session.updated.max(conversation.updated);
    }
    Ok(held)
}
