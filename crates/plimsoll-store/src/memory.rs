//! A store in memory: for tests, and for sessions that nobody needs afterwards. It is also what the real one is
//! held against, so it is written to be obviously right rather than fast: a fork copies, a window is computed from
//! the whole log.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use plimsoll::pivot::Visible;
use plimsoll::{
    Ids, Log, LogError, Message, MessageId, Millis, Part, PartBody, PartId, Receipt, ReceiptId, Reduction,
    SessionId, Text, ToolStatus, Usage,
};

use crate::error::StoreError;
use crate::recall::{Ask, Hit, Recalled, part_text};
use crate::session::{
    Change, CompactionRecord, Filter, Findings, ForkPoint, Lease, NewSession, Page, PageRequest, Session,
};
use crate::store::{Forgetter, Keeper, SpillRecord, Store};
use crate::{inherited, is_being_written};

/// Sessions in memory.
#[derive(Default)]
pub struct MemoryStore(Mutex<State>);

#[derive(Default)]
struct State {
    sessions: BTreeMap<SessionId, Held>,
    receipts: Vec<(SessionId, Receipt)>,
    spills: Vec<(SessionId, SpillRecord)>,
    leases: BTreeMap<SessionId, (String, Millis)>,
    /// Parent, how many messages are shared, child.
    forks: Vec<(SessionId, usize, SessionId)>,
    /// Counts writes, for the order of sessions.
    written: u64,
}

#[derive(Clone)]
struct Held {
    session: Session,
    messages: Vec<Message>,
    /// How many of the messages came from the session this was forked from.
    inherited: usize,
    written: u64,
}

impl Held {
    fn log(&self) -> Log {
        Log::from_messages(self.messages.iter().cloned())
    }

    fn place(&self, id: &MessageId) -> Result<usize, StoreError> {
        let found = self.messages.iter().position(|message| message.info.id == *id);
        found.ok_or_else(|| StoreError::missing("message", id))
    }

    /// Whether a message can be changed; `shared` of them are also those of forks.
    fn own(&self, place: usize, shared: usize, what: &str) -> Result<usize, StoreError> {
        match place {
            place if place < self.inherited => Err(inherited(what)),
            place if place < shared => Err(crate::shared(what)),
            place => Ok(place),
        }
    }

    /// Change the log by the log's own rules.
    fn with_log<T>(
        &mut self,
        change: impl FnOnce(&mut Log) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut log = self.log();
        let done = change(&mut log)?;
        self.messages = log.messages().to_vec();
        Ok(done)
    }

    fn append(&mut self, messages: Vec<Message>) -> Result<(), StoreError> {
        let new = self.messages.len();
        self.with_log(|log| Ok(messages.into_iter().try_for_each(|message| log.append(message))?))?;
        self.count(new);
        Ok(())
    }

    /// Take the messages from that place on into the session's figures.
    fn count(&mut self, new: usize) {
        for message in &self.messages[new..] {
            if let Some(tokens) = &message.info.tokens {
                self.session.usage.add(tokens);
            }
            let cost = message.info.cost.as_ref().and_then(serde_json::Number::as_f64);
            let cost = self.session.cost + cost.unwrap_or_default();
            self.session.cost = cost.clamp(-f64::MAX, f64::MAX);
            self.session.model = message.info.model_id.clone().or(self.session.model.take());
            self.session.messages += 1;
        }
    }
}

impl MemoryStore {
    /// An empty one.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread cannot have left a change half done: states are replaced whole.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    fn held(&self, id: &SessionId) -> Result<&Held, StoreError> {
        self.sessions.get(id).ok_or_else(|| StoreError::missing("session", id))
    }

    /// How many of a session's messages some fork shares.
    fn shared(&self, id: &SessionId) -> usize {
        let live = self.forks.iter().filter(|(parent, _, child)| parent == id && self.needed(child));
        live.map(|(_, shared, _)| *shared).max().unwrap_or(0)
    }

    /// Whether a session is there, or was removed and a fork of it is.
    fn needed(&self, id: &SessionId) -> bool {
        self.sessions.contains_key(id)
            || self.forks.iter().any(|(parent, _, child)| parent == id && self.needed(child))
    }

    /// Change a session; nothing of it if the change fails.
    fn update<T>(
        &mut self,
        id: &SessionId,
        now: Millis,
        change: impl FnOnce(&mut Held) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut held = self.held(id)?.clone();
        let done = change(&mut held)?;
        self.written += 1;
        held.written = self.written;
        held.session.updated = held.session.updated.max(now);
        self.sessions.insert(id.clone(), held);
        Ok(done)
    }

    fn insert(&mut self, new: NewSession, now: Millis) -> Result<&mut Held, StoreError> {
        let NewSession { id, parent, title, agent, model, directory, version } = new;
        if id.is_empty() {
            return Err(StoreError::Refused("a session needs an id; make one with `Ids`".into()));
        }
        if self.sessions.contains_key(&id) {
            return Err(StoreError::Log(LogError::Duplicate { kind: "session", id: id.to_string() }));
        }
        self.written += 1;
        let session = Session {
            id: id.clone(),
            parent,
            title,
            agent,
            model,
            directory,
            version,
            created: now,
            updated: now,
            ..Session::default()
        };
        let held = Held { session, messages: Vec::new(), inherited: 0, written: self.written };
        Ok(self.sessions.entry(id).or_insert(held))
    }
}

impl Store for MemoryStore {
    fn create(&self, session: NewSession, now: Millis) -> Result<Session, StoreError> {
        Ok(self.state().insert(session, now)?.session.clone())
    }

    fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        Ok(self.state().held(id)?.session.clone())
    }

    fn sessions(&self, filter: &Filter) -> Result<Vec<Session>, StoreError> {
        let state = self.state();
        let wanted = |held: &&Held| {
            let session = &held.session;
            let of_directory = filter.directory.is_none() || session.directory == filter.directory;
            let of_parent = match &filter.parent {
                Some(parent) => session.parent.as_ref() == Some(parent),
                None => filter.all || session.parent.is_none(),
            };
            of_directory && of_parent
        };
        let mut held: Vec<&Held> = state.sessions.values().filter(wanted).collect();
        held.sort_by_key(|held| std::cmp::Reverse((held.session.updated, held.written)));
        let most = filter.most.map_or(usize::MAX, |most| most as usize);
        Ok(held.into_iter().take(most).map(|held| held.session.clone()).collect())
    }

    fn change(&self, id: &SessionId, change: Change, now: Millis) -> Result<Session, StoreError> {
        self.state().update(id, now, |held| {
            let session = &mut held.session;
            session.title = change.title.unwrap_or(std::mem::take(&mut session.title));
            session.agent = change.agent.or(session.agent.take());
            session.model = change.model.or(session.model.take());
            Ok(())
        })?;
        self.session(id)
    }

    fn fork(
        &self,
        parent: &SessionId,
        upto: Option<&MessageId>,
        child: NewSession,
        now: Millis,
    ) -> Result<Session, StoreError> {
        let mut state = self.state();
        let held = state.held(parent)?;
        let shared = match upto {
            Some(id) => {
                let place = held.place(id)?;
                if is_being_written(&held.messages[place]) {
                    return Err(StoreError::Refused(format!(
                        "message `{id}` is still being written; fork before it"
                    )));
                }
                place + 1
            }
            None => held
                .messages
                .iter()
                .rposition(|message| !is_being_written(message))
                .map_or(0, |place| place + 1),
        };
        let messages = held.messages[..shared].to_vec();
        let message = messages.last().map(|message| message.info.id.clone());
        let point = ForkPoint { session: parent.clone(), message };
        let fork = (parent.clone(), shared, child.id.clone());
        let child = state.insert(child, now)?;
        (child.inherited, child.messages, child.session.forked_from) = (shared, messages, Some(point));
        let child = child.session.clone();
        state.forks.push(fork);
        Ok(child)
    }

    fn remove(&self, id: &SessionId, _: Millis) -> Result<(), StoreError> {
        let mut state = self.state();
        state.held(id)?;
        let mut going = vec![id.clone()];
        while let Some(id) = going.pop() {
            state.sessions.remove(&id);
            state.leases.remove(&id);
            state.receipts.retain(|(session, _)| *session != id);
            state.spills.retain(|(session, _)| *session != id);
            let tasks = state.sessions.values().filter(|held| held.session.parent.as_ref() == Some(&id));
            going.extend(tasks.map(|held| held.session.id.clone()));
        }
        Ok(())
    }

    fn append(&self, session: &SessionId, messages: Vec<Message>, now: Millis) -> Result<(), StoreError> {
        self.state().update(session, now, |held| held.append(messages))
    }

    fn append_part(
        &self,
        session: &SessionId,
        message: &MessageId,
        part: Part,
        now: Millis,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let shared = state.shared(session);
        state.update(session, now, |held| {
            held.own(held.place(message)?, shared, message.as_str())?;
            held.with_log(|log| Ok(log.append_part(message, part)?))
        })
    }

    fn advance(&self, session: &SessionId, part: Part, now: Millis) -> Result<(), StoreError> {
        let mut state = self.state();
        let shared = state.shared(session);
        state.update(session, now, |held| {
            let holds = |message: &Message| message.parts.iter().any(|other| other.id == part.id);
            let place = held.messages.iter().position(holds);
            let place = place.ok_or_else(|| StoreError::missing("part", &part.id))?;
            held.own(place, shared, part.id.as_str())?;
            held.with_log(|log| Ok(log.advance(part)?))
        })
    }

    fn finish(
        &self,
        session: &SessionId,
        message: &MessageId,
        finish: &str,
        usage: Option<Usage>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        let shared = state.shared(session);
        state.update(session, now, |held| {
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

    fn reduce(&self, session: &SessionId, reduction: Reduction, now: Millis) -> Result<(), StoreError> {
        let mut state = self.state();
        state.update(session, now, |held| {
            let appended = reduction.appended.len();
            held.with_log(|log| Ok(reduction.commit(log)?))?;
            let new = held.messages.len() - appended;
            held.count(new);
            Ok(())
        })?;
        state.receipts.extend(reduction.receipts.into_iter().map(|receipt| (session.clone(), receipt)));
        Ok(())
    }

    fn receipts(&self, session: &SessionId) -> Result<Vec<Receipt>, StoreError> {
        let state = self.state();
        state.held(session)?;
        let own = state.receipts.iter().filter(|(owner, _)| owner == session);
        Ok(own.map(|(_, receipt)| receipt.clone()).collect())
    }

    fn receipt(&self, id: &ReceiptId) -> Result<(SessionId, Receipt), StoreError> {
        let state = self.state();
        let found = state.receipts.iter().find(|(_, receipt)| receipt.id == *id);
        found.cloned().ok_or_else(|| StoreError::missing("receipt", id))
    }

    fn undo(&self, id: &ReceiptId, now: Millis) -> Result<(SessionId, Receipt), StoreError> {
        let (session, receipt) = self.receipt(id)?;
        let mut state = self.state();
        let done = state.receipts.iter().find(|(_, other)| other.undoes.as_ref() == Some(id));
        if let Some((_, done)) = done {
            return Err(StoreError::Refused(format!("receipt `{id}` was undone before, by `{}`", done.id)));
        }
        let mut drawn = state.written;
        let mut ids = Ids::new(move || {
            drawn += 1;
            drawn
        });
        let undone =
            state.update(&session, now, |held| held.with_log(|log| Ok(receipt.undo(log, &mut ids, now)?)))?;
        state.receipts.push((session.clone(), undone.clone()));
        Ok((session, undone))
    }

    fn compactions(&self, session: &SessionId) -> Result<Vec<CompactionRecord>, StoreError> {
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
        Ok(records)
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
        if !is_ours {
            state.update(session, Millis(0), |held| {
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
        Ok(Lease { session: session.clone(), holder: holder.to_owned(), until, interrupted })
    }

    fn release(&self, session: &SessionId, holder: &str) -> Result<(), StoreError> {
        let mut state = self.state();
        state.held(session)?;
        if state.leases.get(session).is_some_and(|(other, _)| other == holder) {
            state.leases.remove(session);
        }
        Ok(())
    }

    fn owner(&self, id: &str) -> Result<SessionId, StoreError> {
        let state = self.state();
        let has = |held: &&Held| {
            held.messages[held.inherited..].iter().any(|message| {
                message.info.id.as_str() == id || message.parts.iter().any(|part| part.id.as_str() == id)
            })
        };
        let owner =
            state.sessions.values().filter(has).max_by_key(|held| (held.session.updated, held.written));
        let owner = owner.map(|held| held.session.id.clone());
        owner.ok_or_else(|| StoreError::missing("part, message or spilled output", id))
    }

    fn add_spill(&self, session: &SessionId, spill: SpillRecord, keep: Keeper) -> Result<(), StoreError> {
        let mut state = self.state();
        state.held(session)?;
        keep()?;
        state.spills.retain(|(owner, other)| owner != session || other.handle != spill.handle);
        state.spills.push((session.clone(), spill));
        Ok(())
    }

    fn spills(&self, session: &SessionId) -> Result<Vec<SpillRecord>, StoreError> {
        let state = self.state();
        state.held(session)?;
        let own = state.spills.iter().filter(|(owner, _)| owner == session);
        Ok(own.map(|(_, spill)| spill.clone()).collect())
    }

    fn spill(&self, handle: &str) -> Result<SpillRecord, StoreError> {
        let state = self.state();
        let found = state.spills.iter().rev().filter(|(_, spill)| spill.handle == handle);
        let best = found.min_by_key(|(_, spill)| spill.expired.is_some());
        best.map(|(_, spill)| spill.clone()).ok_or_else(|| StoreError::missing("spilled output", handle))
    }

    fn expire_spills(
        &self,
        before: Option<Millis>,
        most: Option<u64>,
        now: Millis,
    ) -> Result<u64, StoreError> {
        let mut state = self.state();
        let mut expired = 0;
        let mut live: Vec<&mut SpillRecord> =
            state.spills.iter_mut().map(|(_, spill)| spill).filter(|spill| spill.expired.is_none()).collect();
        live.sort_by_key(|spill| std::cmp::Reverse(spill.created));
        let mut total = 0;
        for spill in live {
            total = spill.stored.saturating_add(total);
            if before.is_some_and(|before| spill.created < before) || most.is_some_and(|most| total > most) {
                spill.expired = Some(now);
                expired += 1;
            }
        }
        Ok(expired)
    }

    fn forget(&self, hashes: Vec<String>, mut remove: Forgetter) -> Result<u64, StoreError> {
        let state = self.state();
        let needed = |hash: &String| {
            state.spills.iter().any(|(_, spill)| spill.hash == *hash && spill.expired.is_none())
        };
        let mut removed = 0;
        for hash in hashes.iter().filter(|hash| !needed(hash)) {
            remove(hash)?;
            removed += 1;
        }
        Ok(removed)
    }

    fn index(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn check(&self) -> Result<Findings, StoreError> {
        let state = self.state();
        let messages = || state.sessions.values().flat_map(|held| &held.messages[held.inherited..]);
        Ok(Findings {
            sessions: state.sessions.len() as u64,
            messages: messages().count() as u64,
            parts: messages().map(|message| message.parts.len() as u64).sum(),
            spills: state.spills.len() as u64,
            problems: Vec::new(),
        })
    }
}
