//! Messages and parts, in memory.

use plimsoll::pivot::Visible;
use plimsoll::{Log, Message, MessageId, Millis, Part, PartId, SessionId, Usage};

use super::MemoryStore;
use crate::error::StoreError;
use crate::recall::{Ask, Hit, Recalled, part_text};
use crate::session::{Page, PageRequest};
use crate::store::{Claim, Logs};

impl Logs for MemoryStore {
    fn append(&self, claim: &Claim, messages: Vec<Message>, now: Millis) -> Result<(), StoreError> {
        self.state().update(claim, now, |held| held.append(messages))
    }

    fn append_part(
        &self,
        claim: &Claim,
        message: &MessageId,
        part: Part,
        now: Millis,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let shared = state.shared(&claim.session);
        state.update(claim, now, |held| {
            held.own(held.place(message)?, shared, message.as_str())?;
            held.with_log(|log| Ok(log.append_part(message, part)?))
        })
    }

    fn advance(&self, claim: &Claim, part: Part, now: Millis) -> Result<(), StoreError> {
        let mut state = self.state();
        let shared = state.shared(&claim.session);
        state.update(claim, now, |held| {
            let holds = |message: &Message| message.parts.iter().any(|other| other.id == part.id);
            let place = held.messages.iter().position(holds);
            let place = place.ok_or_else(|| StoreError::missing("part", &part.id))?;
            held.own(place, shared, part.id.as_str())?;
            held.with_log(|log| Ok(log.advance(part)?))
        })
    }

    fn finish(
        &self,
        claim: &Claim,
        message: &MessageId,
        finish: &str,
        usage: Option<Usage>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let shared = state.shared(&claim.session);
        state.update(claim, now, |held| {
            let place = held.own(held.place(message)?, shared, message.as_str())?;
            let before = held.messages[place].info.tokens.clone();
            held.with_log(|log| Ok(log.finish(message, finish, usage.clone(), now)?))?;
            if let Some(usage) = usage {
                held.session.usage.recount(&before.unwrap_or_default(), &usage);
            }
            Ok(())
        })
    }

    fn window(&self, session: &SessionId) -> Result<Log, StoreError> {
        let log = self.state().held(session)?.log();
        let places = Visible::of(&log).needed(&log);
        Ok(Log::from_messages(places.into_iter().map(|place| log[place].clone())))
    }

    fn outline(&self, session: &SessionId) -> Result<Log, StoreError> {
        // Everything is in memory already; there is nothing to save.
        self.window(session)
    }

    fn page(&self, session: &SessionId, request: &PageRequest) -> Result<Page, StoreError> {
        let state = self.state();
        let held = state.held(session)?;
        let mut messages: Vec<Message> = held.messages.clone();
        let mut from = request.from.as_ref().map(|id| held.place(id)).transpose()?.map(|place| place + 1);
        if !request.oldest_first {
            messages.reverse();
            from = from.map(|place| messages.len() + 1 - place);
        }
        let most = if request.most == 0 { 100 } else { request.most as usize };
        let rest: Vec<Message> = messages.into_iter().skip(from.unwrap_or(0)).collect();
        let more = rest.len() > most;
        let messages: Vec<Message> = rest.into_iter().take(most).collect();
        let next = messages.last().filter(|_| more).map(|message| message.info.id.clone());
        Ok(Page { messages, next })
    }

    fn message(&self, session: &SessionId, id: &MessageId) -> Result<Message, StoreError> {
        let state = self.state();
        let held = state.held(session)?;
        Ok(held.messages[held.place(id)?].clone())
    }

    fn part(&self, session: &SessionId, id: &PartId) -> Result<Part, StoreError> {
        let state = self.state();
        let parts = state.held(session)?.messages.iter().flat_map(|message| &message.parts);
        let mut found = parts.filter(|part| part.id == *id);
        found.next().cloned().ok_or_else(|| StoreError::missing("part", id))
    }

    fn search(&self, session: &SessionId, ask: &Ask) -> Result<Vec<Hit>, StoreError> {
        if ask.search.is_none() {
            return Err(StoreError::Refused("a search needs a pattern".into()));
        }
        let log = self.state().held(session)?.log();
        let visible = Visible::of(&log);
        let start = visible.pivot.map_or(0, |pivot| pivot.tail.unwrap_or(pivot.marker));
        let mut hits = Vec::new();
        for (place, message) in log.iter().enumerate() {
            for part in &message.parts {
                let text = part_text(part);
                let out = place < start || part.is_reduced();
                let Some(text) = text.filter(|_| out) else { continue };
                let found = Recalled::of(text, ask)?;
                if found.matches > 0 {
                    let tool = part.as_tool().map(|tool| tool.tool.clone());
                    let (handle, message) = (part.id.to_string(), Some(message.info.id.clone()));
                    hits.push(Hit { handle, message, tool, found });
                }
            }
        }
        Ok(hits)
    }
}
