//! Messages and parts, in memory.

use plimsoll::log::{Effect, Mark, MessageUpdate};
use plimsoll::{Log, Message, MessageId, Millis, Part, PartId, SessionId, VisibleRange};

use super::MemoryStore;
use crate::counts::PartCounts;
use crate::error::StoreError;
use crate::recall::{Hit, INPUT, Recalled, Selection, input_text, part_text, tool_of};
use crate::store::{ChangeKind, Claim, Logs, Page, PageRequest, Snapshot};
use crate::{repeated_delta, text_in_pieces};

impl Logs for MemoryStore {
    fn append(&self, claim: &Claim, messages: Vec<Message>, now: Millis) -> Result<(), StoreError> {
        let mut state = self.state();
        if let (Some(first), Some(held)) = (messages.first(), state.held_by(claim)?) {
            held.index.cover(&held.messages);
            if held.index.messages.contains_key(&first.info.id) {
                return held.same_messages(&messages);
            }
        }
        let ids: Vec<MessageId> = messages.iter().map(|message| message.info.id.clone()).collect();
        state.append(claim, messages, now)?;
        for id in ids {
            state.note(&claim.session, ChangeKind::Appended, Some(id), None);
        }
        Ok(())
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
        let held = state.claimed(claim)?;
        let place = held.own(held.place(message)?, shared, message.as_str())?;
        if let Some((at, there)) = held.part(&part.id) {
            let same = at == place && there.clone().without_marks() == part.clone().without_marks();
            return if same { Ok(()) } else { Err(StoreError::duplicate("part", &part.id)) };
        }
        let id = part.id.clone();
        state.update(claim, now, |held| held.with_log(|log| Ok(log.append_part(message, part)?)))?;
        state.note(&claim.session, ChangeKind::PartAppended, Some(message.clone()), Some(id));
        Ok(())
    }

    fn advance_all(&self, claim: &Claim, parts: Vec<Part>, now: Millis) -> Result<(), StoreError> {
        let mut state = self.state();
        let shared = state.shared(&claim.session);
        let held = state.claimed(claim)?;
        let mut log = held.log();
        let mut advanced = Vec::new();
        for part in parts {
            let (place, _) = held.part(&part.id).ok_or_else(|| StoreError::missing("part", &part.id))?;
            held.own(place, shared, part.id.as_str())?;
            let (id, before) = (part.id.clone(), log.part(&part.id)?.clone());
            log.advance(part)?;
            if *log.part(&id)? != before {
                advanced.push((held.messages[place].info.id.clone(), id));
            }
        }
        if advanced.is_empty() {
            return Ok(());
        }
        state.update(claim, now, |held| {
            held.messages = log.messages().to_vec();
            Ok(())
        })?;
        for (message, part) in advanced {
            state.note(&claim.session, ChangeKind::Advanced, Some(message), Some(part));
        }
        Ok(())
    }

    fn extend(
        &self,
        claim: &Claim,
        part: &PartId,
        from: u64,
        more: &str,
        _: Millis,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let shared = state.shared(&claim.session);
        let held = state.claimed(claim)?;
        let (place, there) = held.part(part).ok_or_else(|| StoreError::missing("part", part))?;
        held.own(place, shared, part.as_str())?;
        if text_in_pieces(there).map(|text| text.len() as u64) != Some(from) {
            return repeated_delta(there, from, more);
        }
        let mut log = held.log();
        log.extend(part, more)?;
        if more.is_empty() {
            return Ok(());
        }
        let message = held.messages[place].info.id.clone();
        state.update(claim, Millis(0), |held| {
            held.messages = log.messages().to_vec();
            Ok(())
        })?;
        state.note(&claim.session, ChangeKind::Extended, Some(message), Some(part.clone()));
        Ok(())
    }

    fn record(
        &self,
        claim: &Claim,
        message: &MessageId,
        update: MessageUpdate,
        now: Millis,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let shared = state.shared(&claim.session);
        let held = state.claimed(claim)?;
        let place = held.own(held.place(message)?, shared, message.as_str())?;
        let before = held.messages[place].info.clone();
        let mut log = held.log();
        log.record(message, update, now)?;
        if log[place].info == before {
            return Ok(());
        }
        state.update(claim, now, |held| {
            held.messages = log.messages().to_vec();
            held.recount(&before, place);
            Ok(())
        })?;
        state.note(&claim.session, ChangeKind::Recorded, Some(message.clone()), None);
        Ok(())
    }

    fn window(&self, session: &SessionId) -> Result<Snapshot, StoreError> {
        let state = self.state();
        let held = state.held(session)?;
        let places = VisibleRange::of(&held.messages).needed(&held.messages);
        let log = Log::from_messages(places.into_iter().map(|place| held.messages[place].clone()));
        Ok(Snapshot { log, revision: held.session.revision })
    }

    fn outline(&self, session: &SessionId) -> Result<Snapshot, StoreError> {
        // Everything is in memory already; an outline would save nothing.
        self.window(session)
    }

    fn page(&self, session: &SessionId, request: &PageRequest) -> Result<Page, StoreError> {
        self.state().held(session)?.page(request)
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

    fn keep_counts(&self, _: &SessionId, _: Vec<PartCounts>) -> Result<(), StoreError> {
        // Texts are shared, and carry their counts.
        Ok(())
    }

    fn search(&self, session: &SessionId, wanted: &Selection) -> Result<Vec<Hit>, StoreError> {
        if wanted.search.is_none() {
            return Err(StoreError::Refused("a search needs a pattern".into()));
        }
        let state = self.state();
        let messages = &state.held(session)?.messages;
        let visible = VisibleRange::of(messages);
        let start = visible.pivot.map_or(0, |pivot| pivot.tail.unwrap_or(pivot.marker));
        let mut hits = Vec::new();
        for (place, message) in messages.iter().enumerate() {
            wanted.stop.check()?;
            for part in &message.parts {
                let hides = |mark: &Mark| {
                    matches!(
                        mark.effect,
                        Effect::Hide | Effect::Replace(_) | Effect::Edit(_) | Effect::ClearInput(_)
                    )
                };
                let hidden = |mark: &Mark| mark.is_active() && hides(mark);
                let is_hidden = place < start || part.all_marks().iter().any(hidden);
                let is_out = place < start || part.is_text_reduced();
                let input = input_text(part).filter(|_| is_hidden);
                let text = part_text(part).filter(|_| is_out).map(|text| text.as_str().to_owned());
                for (text, ending) in [(input, INPUT), (text, "")] {
                    let Some(text) = text else { continue };
                    let found = Recalled::of(&text, wanted)?;
                    if found.matches > 0 {
                        let tool = tool_of(part).map(str::to_owned);
                        let (handle, message) =
                            (format!("{}{ending}", part.id), Some(message.info.id.clone()));
                        hits.push(Hit { handle, message, tool, found, unsearched: None });
                    }
                }
            }
        }
        Ok(hits)
    }
}
