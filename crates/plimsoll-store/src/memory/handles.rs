//! Resolving handles, in memory.

use plimsoll::{Message, MessageId, Part, PartId, SessionId};

use super::{MemoryStore, State, StoredSession};
use crate::error::StoreError;
use crate::recall::Scope;
use crate::store::{HandleMatch, HandleTarget, Handles, Page, PageRequest, SpillRecord};

impl State {
    /// Returns a session, including a removed one that is still needed.
    fn any(&self, id: &SessionId) -> Result<&StoredSession, StoreError> {
        self.held(id).or_else(|error| self.removed.get(id).ok_or(error))
    }

    /// The sessions that a session was forked from, transitively.
    fn origins(&self, session: &SessionId) -> Vec<SessionId> {
        let origin = |id: &SessionId| Some(self.any(id).ok()?.session.forked_from.as_ref()?.session.clone());
        std::iter::successors(origin(session), origin).collect()
    }

    /// Returns the sessions that a session can see: itself, those it was forked from, and those that started any of them.
    fn visible(&self, session: &SessionId) -> Result<Vec<SessionId>, StoreError> {
        self.held(session)?;
        let mut visible: Vec<SessionId> = Vec::new();
        let mut next = vec![session.clone()];
        while let Some(id) = next.pop() {
            if let Ok(held) = self.any(&id)
                && !visible.contains(&id)
            {
                next.extend(held.session.parent.clone());
                // A fork has a copy of the inherited messages. Spills are not copied and belong to the original
                // session.
                for origin in self.origins(&id) {
                    next.extend(self.any(&origin).ok().and_then(|held| held.session.parent.clone()));
                }
                visible.push(id);
            }
        }
        Ok(visible)
    }
}

impl Handles for MemoryStore {
    fn find_handles(
        &self,
        scope: Scope<'_>,
        handle: &str,
        most: usize,
    ) -> Result<Vec<HandleMatch>, StoreError> {
        let state = self.state();
        let visible = match scope {
            Scope::Session(session) => state.visible(session)?,
            Scope::Everywhere => {
                let mut all: Vec<&StoredSession> = state.sessions.values().collect();
                all.sort_by_key(|held| std::cmp::Reverse((held.session.updated, held.written)));
                all.into_iter().map(|held| held.session.id.clone()).collect()
            }
        };
        if handle.is_empty() {
            return Ok(Vec::new());
        }
        for is_whole in [true, false] {
            let fits = |name: &str| if is_whole { name == handle } else { name.starts_with(handle) };
            let mut found: Vec<HandleMatch> = Vec::new();
            let mut add = |session: &SessionId, name: &str, target: HandleTarget| {
                if fits(name) && found.len() < most && !found.iter().any(|other| other.handle == name) {
                    found.push(HandleMatch { session: session.clone(), handle: name.to_owned(), target });
                }
            };
            for session in &visible {
                let messages = &state.any(session)?.messages;
                for message in messages {
                    for part in &message.parts {
                        add(session, part.id.as_str(), HandleTarget::Part);
                    }
                    add(session, message.info.id.as_str(), HandleTarget::Message);
                }
                let shows = |part: &PartId| {
                    messages.iter().flat_map(|message| &message.parts).any(|other| other.id == *part)
                };
                let origins = state.origins(session);
                // Of inherited spills, only those that the messages show.
                let seen = |(owner, spill): &&(SessionId, _)| {
                    let spill: &SpillRecord = spill;
                    owner == session || (origins.contains(owner) && spill.part.as_ref().is_none_or(shows))
                };
                for (_, spill) in state.spills.iter().rev().filter(seen) {
                    add(session, &spill.handle, HandleTarget::Spill(Box::new(spill.clone())));
                }
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    fn handle_part(&self, session: &SessionId, id: &PartId) -> Result<Part, StoreError> {
        let state = self.state();
        let mut parts = state.any(session)?.messages.iter().flat_map(|message| &message.parts);
        let found = parts.find(|part| part.id == *id);
        found.cloned().ok_or_else(|| StoreError::missing("part", id))
    }

    fn handle_message(&self, session: &SessionId, id: &MessageId) -> Result<Message, StoreError> {
        let state = self.state();
        let held = state.any(session)?;
        Ok(held.messages[held.place(id)?].clone())
    }

    fn handle_page(&self, session: &SessionId, request: &PageRequest) -> Result<Page, StoreError> {
        self.state().any(session)?.page(request)
    }
}
