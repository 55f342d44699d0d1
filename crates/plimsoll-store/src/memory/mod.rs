//! A store in memory, for tests and for sessions that are discarded afterwards. It is also the specification that the
//! SQLite store is compared with, so it is written to be obviously correct rather than fast: a fork copies, and a
//! window is computed from the whole log. Only appending and reducing, which a replay does thousands of times, avoid
//! copying the session.

mod feed;
mod handles;
mod imports;
mod leases;
mod logs;
mod purges;
mod reductions;
mod sessions;
mod spills;
mod tasks;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use plimsoll::log::Info;
use plimsoll::{
    Log, LogError, Message, MessageId, Millis, Part, PartId, Receipt, Reduction, SessionId, same_content,
};

use crate::clock::Clock;
use crate::error::StoreError;
use crate::inherited;
use crate::store::{
    Change, ChangeKind, Claim, Epoch, NewSession, Page, PageRequest, Revision, Sequence, Session,
    SpillRecord, TaskRecord,
};

/// A store in memory.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    clock: Clock,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<SessionId, StoredSession>,
    receipts: Vec<(SessionId, Receipt)>,
    spills: Vec<(SessionId, SpillRecord)>,
    /// Blobs that are marked for deletion.
    deleting: BTreeSet<String>,
    /// Sessions that were removed while others needed their content.
    removed: BTreeMap<SessionId, StoredSession>,
    leases: BTreeMap<SessionId, (String, Millis)>,
    /// Parent, number of shared messages, child.
    forks: Vec<(SessionId, usize, SessionId)>,
    imports: Vec<imports::HeldImport>,
    stages: Vec<imports::HeldStage>,
    /// Number of writes, for the order of sessions.
    written: u64,
    notes: Vec<tasks::HeldNote>,
    tasks: Vec<TaskRecord>,
    /// The change feed.
    changes: VecDeque<Change>,
    /// Position of the newest change.
    sequence: Sequence,
}

#[derive(Clone)]
struct StoredSession {
    session: Session,
    messages: Vec<Message>,
    /// Number of messages inherited from the session this was forked from.
    inherited: usize,
    written: u64,
    /// Number of times that the right to write it changed hands.
    epoch: Epoch,
    /// Revision of the newest reduction, undo or pin.
    shaped: Revision,
    /// Positions of messages and parts that were looked up.
    index: Index,
}

/// Positions of messages and parts by id, for sessions that are only appended to and reduced. Any other change discards
/// it.
#[derive(Clone, Default)]
struct Index {
    messages: HashMap<MessageId, usize>,
    parts: HashMap<PartId, usize>,
    /// Number of messages that it covers.
    covered: usize,
}

impl Index {
    fn cover(&mut self, messages: &[Message]) {
        for (place, message) in messages.iter().enumerate().skip(self.covered) {
            self.messages.insert(message.info.id.clone(), place);
            self.parts.extend(message.parts.iter().map(|part| (part.id.clone(), place)));
        }
        self.covered = messages.len();
    }
}

impl StoredSession {
    fn log(&self) -> Log {
        Log::from_messages(self.messages.iter().cloned())
    }

    fn place(&self, id: &MessageId) -> Result<usize, StoreError> {
        let found = self.messages.iter().position(|message| message.info.id == *id);
        found.ok_or_else(|| StoreError::missing("message", id))
    }

    /// Whether a message may be changed; the first `shared` messages are also those of forks.
    fn own(&self, place: usize, shared: usize, what: &str) -> Result<usize, StoreError> {
        match place {
            place if place < self.inherited => Err(inherited(what)),
            place if place < shared => Err(crate::shared(what)),
            place => Ok(place),
        }
    }

    /// Changes the log by the log's own rules.
    fn with_log<T>(
        &mut self,
        change: impl FnOnce(&mut Log) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut log = self.log();
        let done = change(&mut log)?;
        self.messages = log.messages().to_vec();
        Ok(done)
    }

    /// Returns a part and the position of its message.
    fn part(&self, id: &PartId) -> Option<(usize, &Part)> {
        let placed = |(place, message): (usize, &'_ Message)| {
            message.parts.iter().position(|part| part.id == *id).map(|at| (place, at))
        };
        let (place, at) = self.messages.iter().enumerate().find_map(placed)?;
        Some((place, &self.messages[place].parts[at]))
    }

    /// Whether messages whose ids exist are the existing ones.
    fn same_messages(&self, messages: &[Message]) -> Result<(), StoreError> {
        for message in messages {
            let place = self.place(&message.info.id).ok().filter(|place| *place >= self.inherited);
            if !place.is_some_and(|place| same_content(&self.messages[place], message)) {
                return Err(StoreError::duplicate("message", &message.info.id));
            }
        }
        Ok(())
    }

    /// Replaces the usage that was counted before for a message.
    fn recount(&mut self, before: &Info, place: usize) {
        let after = &self.messages[place].info;
        let usage = |info: &Info| info.tokens.clone().unwrap_or_default();
        let cost = |info: &Info| info.cost.as_ref().and_then(serde_json::Number::as_f64).unwrap_or_default();
        self.session.usage.recount(&usage(before), &usage(after));
        let total = self.session.cost + (cost(after) - cost(before));
        self.session.cost = total.clamp(-f64::MAX, f64::MAX);
        if before.model_id != after.model_id {
            self.session.model = after.model_id.clone().or(self.session.model.take());
        }
    }

    fn page(&self, request: &PageRequest) -> Result<Page, StoreError> {
        let mut messages: Vec<Message> = self.messages.clone();
        let mut from = request.from.as_ref().map(|id| self.place(id)).transpose()?.map(|place| place + 1);
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

    /// Appends messages. Ids are checked first so that an append cannot fail half-way. Checking a copy instead would
    /// copy the whole session for each message.
    fn append(&mut self, messages: Vec<Message>) -> Result<(), StoreError> {
        self.index.cover(&self.messages);
        let mut alone = Log::new();
        for message in &messages {
            if self.index.messages.contains_key(&message.info.id) {
                return Err(StoreError::duplicate("message", &message.info.id));
            }
            if let Some(part) = message.parts.iter().find(|part| self.index.parts.contains_key(&part.id)) {
                return Err(StoreError::duplicate("part", &part.id));
            }
            alone.append(message.clone())?;
        }
        let new = self.messages.len();
        self.messages.extend(messages);
        self.count(new);
        Ok(())
    }

    /// Commits a reduction, touching only its messages. All or nothing, as [`Reduction::commit`] is.
    fn reduce(&mut self, reduction: &Reduction) -> Result<(), StoreError> {
        self.index.cover(&self.messages);
        let of_message = |id: &MessageId| self.index.messages.get(id).copied();
        let effects = reduction.receipts.iter().flat_map(|receipt| receipt.plan.effects());
        let marked = effects.filter_map(|(part, _)| self.index.parts.get(part).copied());
        let open = reduction.open.iter().filter_map(|message| of_message(&message.info.id));
        let tails = reduction
            .appended
            .iter()
            .filter_map(|message| of_message(message.marker()?.tail_start.as_ref()?));
        // A mark names the newest message it was made after, so the last one always exists.
        let last = self.messages.len().saturating_sub(1);
        let newest = reduction.seen.as_ref().and_then(of_message).unwrap_or(last)..self.messages.len();
        let places: BTreeSet<usize> = marked.chain(open).chain(tails).chain(newest).collect();
        let mut log = Log::from_messages(places.iter().map(|place| self.messages[*place].clone()));
        reduction.commit(&mut log)?;
        let (changed, appended) = log.messages().split_at(places.len());
        places.into_iter().zip(changed).for_each(|(place, message)| self.messages[place] = message.clone());
        self.messages.extend_from_slice(appended);
        Ok(())
    }

    /// Adds the messages from this position on to the session's totals.
    fn count(&mut self, new: usize) {
        for message in &self.messages[new..] {
            if let Some(tokens) = &message.info.tokens {
                self.session.usage.add(tokens);
            }
            let cost = message.info.cost.as_ref().and_then(serde_json::Number::as_f64);
            let cost = self.session.cost + cost.unwrap_or_default();
            self.session.cost = cost.clamp(-f64::MAX, f64::MAX);
            let model = message.info.model_id.clone().filter(|_| !message.info.summary);
            self.session.model = model.or(self.session.model.take());
            self.session.messages += 1;
        }
    }
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Creates an empty store with another clock.
    pub fn with_clock(clock: Clock) -> MemoryStore {
        MemoryStore { clock, ..MemoryStore::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread cannot leave a change half done: states are replaced whole.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    fn held(&self, id: &SessionId) -> Result<&StoredSession, StoreError> {
        self.sessions.get(id).ok_or_else(|| StoreError::missing("session", id))
    }

    /// Returns the session of a valid claim.
    fn claimed(&self, claim: &Claim) -> Result<&StoredSession, StoreError> {
        let held = self.held(&claim.session)?;
        if held.epoch != claim.epoch {
            let held_by = self.leases.get(&claim.session).map(|(holder, _)| holder.clone());
            return Err(StoreError::Fenced { session: claim.session.clone(), held_by });
        }
        Ok(held)
    }

    /// Returns the session of a valid claim, to be changed.
    fn held_by(&mut self, claim: &Claim) -> Result<Option<&mut StoredSession>, StoreError> {
        self.claimed(claim)?;
        Ok(self.sessions.get_mut(&claim.session))
    }

    /// Number of a session's messages that forks share.
    fn shared(&self, id: &SessionId) -> usize {
        let live = self.forks.iter().filter(|(parent, _, child)| parent == id && self.needed(child));
        live.map(|(_, shared, _)| *shared).max().unwrap_or(0)
    }

    /// Whether a session exists, or was removed but has a fork.
    fn needed(&self, id: &SessionId) -> bool {
        self.sessions.contains_key(id)
            || self.forks.iter().any(|(parent, _, child)| parent == id && self.needed(child))
    }

    /// Changes a session. A failed change has no effect.
    fn update<T>(
        &mut self,
        claim: &Claim,
        now: Millis,
        change: impl FnOnce(&mut StoredSession) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut held = self.claimed(claim)?.clone();
        let done = change(&mut held)?;
        held.index = Index::default();
        self.sessions.insert(claim.session.clone(), held);
        self.revise(claim, now);
        Ok(done)
    }

    /// Appends to a session. A failed append has no effect.
    fn append(&mut self, claim: &Claim, messages: Vec<Message>, now: Millis) -> Result<(), StoreError> {
        self.claimed(claim)?;
        if let Some(held) = self.sessions.get_mut(&claim.session) {
            held.append(messages)?;
        }
        self.revise(claim, now);
        Ok(())
    }

    /// Increments a session's revision.
    fn revise(&mut self, claim: &Claim, now: Millis) {
        self.written += 1;
        if let Some(held) = self.sessions.get_mut(&claim.session) {
            held.written = self.written;
            held.session.updated = held.session.updated.max(now);
            held.session.revision.0 += 1;
        }
    }

    /// Adds a session's newest revision to the feed.
    fn note(
        &mut self,
        session: &SessionId,
        kind: ChangeKind,
        message: Option<MessageId>,
        part: Option<PartId>,
    ) {
        let revision = self.sessions.get(session).map(|held| held.session.revision).unwrap_or_default();
        self.sequence.0 += 1;
        let (sequence, session) = (self.sequence, session.clone());
        self.changes.push_back(Change { sequence, session, revision, kind, message, part });
    }

    fn insert(&mut self, new: NewSession, now: Millis) -> Result<&mut StoredSession, StoreError> {
        let NewSession {
            id, parent, title, agent, model, directory, tool, version, context, settings, ..
        } = new;
        if id.is_empty() {
            return Err(StoreError::Refused("a session needs an id; create one with `Ids`".into()));
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
            tool,
            version,
            context,
            settings,
            created: now,
            updated: now,
            revision: Revision(1),
            ..Session::default()
        };
        let held = StoredSession {
            session,
            messages: Vec::new(),
            inherited: 0,
            written: self.written,
            epoch: Epoch(0),
            shaped: Revision(0),
            index: Index::default(),
        };
        Ok(self.sessions.entry(id).or_insert(held))
    }
}

/// Items after the one with this id, at most `most`.
fn page_after<T, I: PartialEq + ToString>(
    items: impl Iterator<Item = T>,
    after: Option<&I>,
    name: impl Fn(&T) -> &I,
    most: u64,
    kind: &'static str,
) -> Result<Vec<T>, StoreError> {
    let mut items: Vec<T> = items.collect();
    if let Some(after) = after {
        let place = items.iter().position(|item| name(item) == after);
        items.drain(..=place.ok_or_else(|| StoreError::missing(kind, after))?);
    }
    items.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    Ok(items)
}
