//! The database behaves like the store in memory for every sequence of operations.

use plimsoll::compact::{CompactionContext, Ladder, Step, Trigger, select_range};
use plimsoll::plan::{PurgePlan, SummaryOrigin};
use plimsoll::receipt::Stamp;
use plimsoll::{
    Limits, Log, Message, MessageId, Millis, Part, PartId, Plan, Policy, Preset, ReceiptId, Reduction,
    RequestOverhead, SessionId, Tokens, Usage, VisibleRange, Window, request_tokens,
};
use plimsoll_store::{
    Claim, Conversation, Feed, GrownMessage, Import, Imported, Imports, Inbox, Lease, Leases, MemoryStore,
    NewNote, NewSession, NewTask, PageRequest, PurgeTarget, Reductions, Search, Selection, Sequence,
    Sessions, StagedPiece, Store, StoreError, TaskFilter, TaskMove, Tasks,
};
use plimsoll_testkit::{histories, ids};
use proptest::prelude::*;
use serde_json::Value;

use super::{Fresh, fresh, imports, json_of, millis};

/// An operation. Numbers select one of what exists.
#[derive(Clone, Debug)]
enum Op {
    Create,
    Fork {
        session: usize,
        upto: Option<usize>,
    },
    Append {
        session: usize,
        messages: Vec<Message>,
    },
    Repeat {
        session: usize,
        message: usize,
    },
    AppendPart {
        session: usize,
        message: usize,
    },
    Grow {
        session: usize,
        message: usize,
    },
    Finish {
        session: usize,
        message: usize,
    },
    Climb {
        session: usize,
        context: u64,
        preset: usize,
    },
    /// A summary replaces the messages between two.
    Range {
        session: usize,
        from: usize,
        length: usize,
    },
    Undo {
        receipt: usize,
    },
    Lease {
        session: usize,
        holder: usize,
        at: u64,
    },
    Remove {
        session: usize,
    },
    Extend {
        session: usize,
        message: usize,
        from: i64,
    },
    Break {
        session: usize,
        holder: usize,
    },
    Release {
        session: usize,
    },
    /// A write of a former holder.
    Late {
        session: usize,
    },
    /// Destroys a part, or the matches of one of a few patterns.
    Purge {
        session: usize,
        message: usize,
        pattern: Option<usize>,
    },
    Send {
        session: usize,
        note: usize,
    },
    TakeNotes {
        session: usize,
    },
    PutTask {
        session: usize,
    },
    MoveTask {
        task: usize,
        from: usize,
        to: usize,
    },
    Import {
        messages: Vec<Message>,
        staged: usize,
    },
    Update {
        session: usize,
        messages: Vec<Message>,
        grown: Option<usize>,
        at: u64,
    },
}

/// The last one also matches ids and kinds, which are not content and must stay.
const PATTERNS: [&str; 4] = ["and more", "é on", "[0-9]{2,}", "[a-m]+"];

fn op() -> impl Strategy<Value = Op> {
    let n = 0usize..100;
    prop_oneof![
        2 => Just(Op::Create),
        2 => (n.clone(), prop::option::of(n.clone())).prop_map(|(session, upto)| Op::Fork { session, upto }),
        8 => (n.clone(), histories(12)).prop_map(|(session, messages)| Op::Append { session, messages }),
        1 => (n.clone(), n.clone()).prop_map(|(session, message)| Op::Repeat { session, message }),
        2 => (n.clone(), n.clone()).prop_map(|(session, message)| Op::AppendPart { session, message }),
        2 => (n.clone(), n.clone()).prop_map(|(session, message)| Op::Grow { session, message }),
        2 => (n.clone(), n.clone()).prop_map(|(session, message)| Op::Finish { session, message }),
        5 => (n.clone(), 300u64..6_000, 0usize..4)
            .prop_map(|(session, context, preset)| Op::Climb { session, context, preset }),
        4 => (n.clone(), n.clone(), 1usize..8)
            .prop_map(|(session, from, length)| Op::Range { session, from, length }),
        3 => n.clone().prop_map(|receipt| Op::Undo { receipt }),
        2 => (n.clone(), 0usize..3, 0u64..50).prop_map(|(session, holder, at)| Op::Lease { session, holder, at }),
        1 => n.clone().prop_map(|session| Op::Remove { session }),
        4 => (n.clone(), n.clone(), -3i64..2)
            .prop_map(|(session, message, from)| Op::Extend { session, message, from: from.min(0) }),
        1 => (n.clone(), 0usize..3).prop_map(|(session, holder)| Op::Break { session, holder }),
        1 => n.clone().prop_map(|session| Op::Release { session }),
        1 => n.clone().prop_map(|session| Op::Late { session }),
        1 => (n.clone(), n.clone(), prop::option::of(0..PATTERNS.len()))
            .prop_map(|(session, message, pattern)| Op::Purge { session, message, pattern }),
        2 => (n.clone(), 0usize..5).prop_map(|(session, note)| Op::Send { session, note }),
        1 => n.clone().prop_map(|session| Op::TakeNotes { session }),
        1 => n.clone().prop_map(|session| Op::PutTask { session }),
        2 => (n.clone(), 0usize..3, 0usize..3).prop_map(|(task, from, to)| Op::MoveTask { task, from, to }),
        2 => (histories(12), 0usize..20).prop_map(|(messages, staged)| Op::Import { messages, staged }),
        2 => (n.clone(), histories(6), prop::option::of(n), 0u64..50)
            .prop_map(|(session, messages, grown, at)| Op::Update { session, messages, grown, at }),
    ]
}

/// Existing records, so that both stores get the same operations.
#[derive(Default)]
struct Known {
    sessions: Vec<SessionId>,
    receipts: Vec<(ReceiptId, ReceiptId)>,
    /// The newest lease of each session that was ever leased.
    leases: std::collections::BTreeMap<SessionId, Lease>,
    tasks: Vec<String>,
    made: usize,
    clock: u64,
}

impl Known {
    fn session(&self, pick: usize) -> Option<SessionId> {
        (!self.sessions.is_empty()).then(|| self.sessions[pick % self.sessions.len()].clone())
    }

    fn claim(&self, session: &SessionId) -> Claim {
        self.leases.get(session).map_or_else(|| Claim::unleased(session), Lease::claim)
    }

    fn name(&mut self, stem: &str) -> String {
        self.made += 1;
        format!("{stem}_{:06}", self.made)
    }

    fn now(&mut self) -> Millis {
        self.clock += 1;
        Millis(1_000_000 + self.clock)
    }

    /// Messages with new ids, whose references are kept.
    fn renamed(&mut self, messages: Vec<Message>) -> Vec<Message> {
        let mut messages = Log::from_messages(messages).messages().to_vec();
        let mut names = std::collections::BTreeMap::new();
        for message in &mut messages {
            let name = MessageId::new(self.name("msg"));
            names.insert(std::mem::replace(&mut message.info.id, name.clone()), name);
            for part in &mut message.parts {
                part.id = PartId::new(self.name("prt"));
            }
        }
        for message in &mut messages {
            if let Some(parent) = &mut message.info.parent_id {
                *parent = names.get(parent).cloned().unwrap_or_else(|| parent.clone());
            }
            for part in &mut message.parts {
                if let plimsoll::PartBody::Compaction(marker) = &mut part.body
                    && let Some(tail) = &mut marker.tail_start
                {
                    *tail = names.get(tail).cloned().unwrap_or_else(|| tail.clone());
                }
            }
        }
        messages
    }
}

fn with_text<T>(result: Result<T, StoreError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

fn all(store: &dyn Store, session: &SessionId) -> Vec<Message> {
    store.page(session, &PageRequest { most: 10_000, oldest_first: true, from: None }).unwrap().messages
}

fn climb(store: &dyn Store, session: &SessionId, policy: &Policy, context: u64, now: Millis) -> Reduction {
    let log = store.window(session).unwrap().log;
    let mut ids = ids();
    // Ids must be unique in a session.
    (0..store.receipts(session, None, u64::MAX).unwrap().len() * 10 + now.0 as usize % 1_000_000 * 8)
        .for_each(|_| drop(ids.part(now)));
    let context = CompactionContext {
        trigger: Trigger::Refused,
        ..CompactionContext::new(policy, Limits::new(context, 64), now)
    };
    let mut ladder = Ladder::new(log, context);
    let Step::Done(outcome) = ladder.climb(&mut ids).unwrap() else { panic!("no summariser is available") };
    outcome.reduction
}

/// Replaces some messages of the window by a summary, if they can be separated from the others and it is shorter.
fn compact_range(
    store: &dyn Store,
    session: &SessionId,
    (from, length): (usize, usize),
    name: &str,
    now: Millis,
) -> Option<Reduction> {
    let policy = Policy::default();
    let mut log = store.window(session).unwrap().log;
    let places = VisibleRange::of(&log).places;
    let first = from % places.len().max(1);
    let last = (first + length - 1).min(places.len().checked_sub(1)?);
    let ends = [first, last].map(|position| log[places[position]].info.id.to_string());
    let range = select_range(&log, (&ends[0], &ends[1]), &policy, &policy.count).ok()?;
    let made = (SummaryOrigin::ByModel, 1);
    let plan = range.plan(&log, &"é, shortly".into(), made, (&policy, Tokens(10_000)), &policy.count);
    let weigh =
        |log: &Log| request_tokens(&Window::of(log, &policy), RequestOverhead::default(), &policy.count);
    let stamp = Stamp { ids: &mut ids(), now, policy: &policy, reason: "a user chose these messages" };
    let mut receipt = Plan::Range(plan).apply(&mut log, stamp, weigh).unwrap()?;
    // The source of ids starts over each time, and ids must be unique.
    receipt.id = ReceiptId::new(name);
    Some(Reduction { receipts: vec![receipt], ..Reduction::default() })
}

fn without_places(mut plan: PurgePlan) -> PurgePlan {
    plan.places = 0;
    plan
}

fn step(op: Op, known: &mut Known, model: &MemoryStore, real: &Fresh) -> Result<(), TestCaseError> {
    let now = known.now();
    let stores: [&dyn Store; 2] = [model, &real.store];
    macro_rules! both {
        ($ask:expr) => {{
            let ask = $ask;
            let answers: Vec<_> = stores.iter().map(|store| with_text(ask(*store))).collect();
            prop_assert_eq!(format!("{:?}", &answers[0]), format!("{:?}", &answers[1]));
            answers.into_iter().next().unwrap()
        }};
    }
    match op {
        Op::Create => {
            let new = NewSession::new(SessionId::new(known.name("ses")));
            if let Ok(session) = both!(|store: &dyn Store| store.create(new.clone(), now)) {
                known.sessions.push(session.id);
            }
        }
        Op::Fork { session, upto } => {
            let Some(parent) = known.session(session) else { return Ok(()) };
            let messages = all(model, &parent);
            let upto =
                upto.and_then(|pick| messages.get(pick % messages.len().max(1)).map(|m| m.info.id.clone()));
            let new = NewSession::new(SessionId::new(known.name("ses")));
            if let Ok(child) = both!(|store: &dyn Store| store.fork(&parent, upto.as_ref(), new.clone(), now))
            {
                known.sessions.push(child.id);
            }
        }
        Op::Append { session, messages } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let claim = known.claim(&session);
            let messages = known.renamed(messages);
            let _ = both!(|store: &dyn Store| store.append(&claim, messages.clone(), now));
        }
        Op::Repeat { session, message } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let claim = known.claim(&session);
            let Some(message) = pick(&all(model, &session), message) else { return Ok(()) };
            let _ = both!(|store: &dyn Store| store.append(&claim, vec![message.clone()], now));
        }
        Op::AppendPart { session, message } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let claim = known.claim(&session);
            let Some(message) = pick(&all(model, &session), message) else { return Ok(()) };
            let part = Part::text(PartId::new(known.name("prt")), "one more thing");
            let id = message.info.id.clone();
            let _ = both!(|store: &dyn Store| store.append_part(&claim, &id, part.clone(), now));
        }
        Op::Grow { session, message } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let claim = known.claim(&session);
            let Some(message) = pick(&all(model, &session), message) else { return Ok(()) };
            let Some(mut part) = message.parts.first().cloned() else { return Ok(()) };
            if let plimsoll::PartBody::Text(text) = &mut part.body {
                text.text = format!("{} and more", text.text).into();
            }
            let _ = both!(|store: &dyn Store| store.advance(&claim, part.clone(), now));
        }
        Op::Finish { session, message } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let claim = known.claim(&session);
            let Some(message) = pick(&all(model, &session), message) else { return Ok(()) };
            let (id, usage) = (message.info.id.clone(), Usage::new(Tokens(100), Tokens(10)));
            // A finished summary is recorded where it is finished; finishing it again changes nothing.
            if message.info.summary {
                return Ok(());
            }
            let _ = both!(|store: &dyn Store| store.finish(&claim, &id, "stop", Some(usage.clone()), now));
        }
        Op::Climb { session, context, preset } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let claim = known.claim(&session);
            let policy = Preset::ALL[preset % Preset::ALL.len()].policy();
            let reduced: Vec<Reduction> =
                stores.iter().map(|store| climb(*store, &session, &policy, context, now)).collect();
            // Except for the ids of undos, in lifted marks.
            let summary = |reduction: &Reduction| {
                let Reduction { appended, receipts, seen, open } = reduction;
                format!("{appended:?} {receipts:?} {seen:?} {}", unnamed(json_of(open)))
            };
            prop_assert_eq!(summary(&reduced[0]), summary(&reduced[1]));
            let one = &reduced[0];
            if both!(|store: &dyn Store| store.reduce(&claim, one.clone(), None, now)).is_ok() {
                known.receipts.extend(one.receipts.iter().map(|r| (r.id.clone(), r.id.clone())));
            }
        }
        Op::Range { session, from, length } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let claim = known.claim(&session);
            let name = known.name("rcp");
            let reduced = stores.map(|store| compact_range(store, &session, (from, length), &name, now));
            prop_assert_eq!(format!("{:?}", &reduced[0]), format!("{:?}", &reduced[1]));
            let [Some(one), _] = reduced else { return Ok(()) };
            if both!(|store: &dyn Store| store.reduce(&claim, one.clone(), None, now)).is_ok() {
                known.receipts.extend(one.receipts.iter().map(|r| (r.id.clone(), r.id.clone())));
            }
        }
        Op::Undo { receipt } => {
            if known.receipts.is_empty() {
                return Ok(());
            }
            let at = receipt % known.receipts.len();
            let (ours, theirs) = known.receipts[at].clone();
            let Ok((session, _)) = model.receipt(&ours) else { return Ok(()) };
            let claim = known.claim(&session);
            let (one, two) =
                (with_text(model.undo(&claim, &ours, now)), with_text(real.undo(&claim, &theirs, now)));
            match (one, two) {
                (Ok(one), Ok(two)) => {
                    prop_assert_eq!(&one.plan, &two.plan);
                    prop_assert_eq!((one.before, one.after), (two.before, two.after));
                }
                (Err(_), Err(_)) => {}
                (one, two) => prop_assert!(false, "{one:?} but {two:?}"),
            }
        }
        Op::Lease { session, holder, at } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let holder = format!("holder {holder}");
            real.at(at);
            if let Ok(lease) = both!(|store: &dyn Store| store.lease(&session, &holder, millis(10))) {
                known.leases.insert(session, lease);
            }
        }
        Op::Remove { session } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let claim = known.claim(&session);
            let _ = both!(|store: &dyn Store| store.remove(&claim, now));
            known.sessions.retain(|other| *other != session);
        }
        Op::Extend { session, message, from } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let claim = known.claim(&session);
            let Some(message) = pick(&all(model, &session), message) else { return Ok(()) };
            let Some(part) = message.parts.last() else { return Ok(()) };
            let length = match &part.body {
                plimsoll::PartBody::Text(text) => text.text.len(),
                plimsoll::PartBody::Reasoning(text) => text.text.len(),
                _ => 0,
            };
            // Mostly at the end of the text; sometimes before it, as a repeated or a wrong delta.
            let (id, from) = (part.id.clone(), (length as i64 + from).max(0) as u64);
            let _ = both!(|store: &dyn Store| store.extend(&claim, &id, from, "é on", now));
        }
        Op::Break { session, holder } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let holder = format!("holder {holder}");
            if let Ok(lease) = both!(|store: &dyn Store| store.break_lease(&session, &holder, millis(10))) {
                known.leases.insert(session, lease);
            }
        }
        Op::Release { session } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let Some(lease) = known.leases.get(&session).cloned() else { return Ok(()) };
            let _ = both!(|store: &dyn Store| store.release(&lease));
        }
        Op::Late { session } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let mut claim = known.claim(&session);
            if claim.epoch.0 == 0 {
                return Ok(());
            }
            claim.epoch.0 -= 1;
            let message =
                Message::user(MessageId::new(known.name("msg")), PartId::new(known.name("prt")), "late");
            let late = both!(|store: &dyn Store| store.append(&claim, vec![message.clone()], now));
            prop_assert!(late.is_err(), "a former holder's write got in");
        }
        Op::Send { session, note } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let note = NewNote { id: format!("note_{note}"), kind: "word".into(), data: Value::from(note) };
            let _ = both!(|store: &dyn Store| store.send(&session, note.clone(), now));
        }
        Op::TakeNotes { session } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let claim = known.claim(&session);
            let notes = both!(|store: &dyn Store| store.notes(&session, 2)).unwrap_or_default();
            let ids: Vec<String> = notes.into_iter().map(|note| note.id).collect();
            let _ = both!(|store: &dyn Store| store.take_notes(&claim, &ids, now));
        }
        Op::Purge { session, message, pattern } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let claim = known.claim(&session);
            let target = match pattern {
                Some(pattern) => PurgeTarget::Match(PATTERNS[pattern].into()),
                None => {
                    let Some(message) = pick(&all(model, &session), message) else { return Ok(()) };
                    let Some(part) = message.parts.first() else { return Ok(()) };
                    PurgeTarget::Part(part.id.clone())
                }
            };
            let plans = stores.map(|store| {
                let receipt = store.purge(&claim, &target, Vec::new(), now);
                with_text(receipt).map(|receipt| match receipt.plan {
                    // Marks are counted by row, and a row that forks share is a copy in each of them in memory.
                    Plan::Purge(plan) => without_places(plan),
                    other => panic!("{other:?}"),
                })
            });
            prop_assert_eq!(&plans[0], &plans[1]);
        }
        Op::PutTask { session } => {
            let Some(parent) = known.session(session) else { return Ok(()) };
            let id = known.name("tsk");
            let task = NewTask { id: id.clone(), parent, status: "0".into(), ..NewTask::default() };
            let _ = both!(|store: &dyn Store| store.put_task(task.clone(), now));
            known.tasks.push(id);
        }
        Op::MoveTask { task, from, to } => {
            if known.tasks.is_empty() {
                return Ok(());
            }
            let id = known.tasks[task % known.tasks.len()].clone();
            let step = TaskMove { from: from.to_string(), to: to.to_string(), ..TaskMove::default() };
            let _ = both!(|store: &dyn Store| store.move_task(&id, step.clone(), now));
        }
        Op::Import { messages, staged } => {
            let session = SessionId::new(known.name("ses"));
            let mut messages = known.renamed(messages);
            let rest = messages.split_off(staged.min(messages.len()));
            let new = imports::conversation(session.as_str(), rest);
            let new = Conversation { staged: messages.len() as u64, updated: now, ..new };
            let stage = (!messages.is_empty()).then(|| format!("stage_{session}"));
            if let Some(stage) = stage.clone() {
                let piece = StagedPiece { stage, conversation: 0, after: 0, messages };
                let _ = both!(|store: &dyn Store| store.stage(piece.clone()));
            }
            let import = Import { stage, known: None, ..imports::import(vec![new]) };
            if both!(|store: &dyn Store| store.import(import.clone())) == Ok(Imported::Stored) {
                known.sessions.push(session);
            }
        }
        Op::Update { session, messages, grown, at } => {
            let Some(session) = known.session(session) else { return Ok(()) };
            let Some(record) = model.import_of(&session).unwrap().pop() else { return Ok(()) };
            let grown = grown.and_then(|at| pick(&all(model, &session), at)).and_then(|mut message| {
                let mut part = message.parts.first()?.clone().without_marks();
                let plimsoll::PartBody::Text(text) = &mut part.body else { return None };
                text.text = format!("{} and more", text.text).into();
                message.parts.clear();
                Some(GrownMessage { message, parts: vec![(0, part)] })
            });
            real.at(at);
            let messages = known.renamed(messages);
            let state = format!("{} and {}", record.state, known.name("state"));
            let new = imports::conversation(session.as_str(), messages);
            let new = Conversation { state, before: Some(record.state), grown, updated: now, ..new };
            let import = Import { known: None, ..imports::import(vec![new]) };
            // Both refuse writes under an earlier claim from then on.
            let _ = both!(|store: &dyn Store| store.import(import.clone()));
        }
    }
    Ok(())
}

fn pick(messages: &[Message], at: usize) -> Option<Message> {
    (!messages.is_empty()).then(|| messages[at % messages.len()].clone())
}

/// The first pair of different items of two lists.
fn differing(one: &Value, two: &Value) -> Option<(usize, Value, Value)> {
    let (one, two) = (one.as_array().unwrap(), two.as_array().unwrap());
    let item = |list: &Vec<Value>, at: usize| list.get(at).cloned().unwrap_or_default();
    (0..one.len().max(two.len()))
        .map(|at| (at, item(one, at), item(two, at)))
        .find(|(_, one, two)| one != two)
}

/// Without the receipts of undos, whose ids each store creates itself.
fn unnamed(mut messages: Value) -> Value {
    fn forget(value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(forget),
            Value::Object(map) => {
                if map.contains_key("effect") || map.contains_key("after") {
                    map.remove("receipt");
                }
                map.values_mut().for_each(forget);
            }
            _ => {}
        }
    }
    forget(&mut messages);
    messages
}

fn agree(known: &Known, model: &MemoryStore, real: &Fresh) -> Result<(), TestCaseError> {
    let policy = Policy::default();
    let stores: [&dyn Store; 2] = [model, &real.store];
    let feeds = (model.changes(Sequence(0), u64::MAX).unwrap(), real.changes(Sequence(0), u64::MAX).unwrap());
    prop_assert_eq!(feeds.0.changes.len(), feeds.1.changes.len());
    for (one, two) in feeds.0.changes.into_iter().zip(feeds.1.changes) {
        prop_assert_eq!(one, two);
    }
    let tasks = TaskFilter { most: u64::MAX, ..TaskFilter::default() };
    prop_assert_eq!(model.tasks(&tasks).unwrap(), real.tasks(&tasks).unwrap());
    prop_assert_eq!(model.leases(None, u64::MAX).unwrap(), real.leases(None, u64::MAX).unwrap());
    for session in &known.sessions {
        let (one, two) = (all(model, session), all(&real.store, session));
        let logs = (unnamed(json_of(&one)), unnamed(json_of(&two)));
        prop_assert_eq!(differing(&logs.0, &logs.1), None, "the log of {}", session);
        let whole = Window::of(&two, &policy);
        let window = real.window(session).unwrap();
        let seen = Window::of(&window, &policy);
        let json = |window: &Window| serde_json::to_value(&window.messages).unwrap();
        prop_assert_eq!(differing(&json(&whole), &json(&seen)), None, "the window of {}", session);
        let outline = Window::of(&real.outline(session).unwrap(), &policy);
        let weigh = |window: &Window| request_tokens(window, RequestOverhead::default(), &policy.count);
        prop_assert_eq!(weigh(&outline), weigh(&whole), "the weight of {}", session);
        let (mut one, mut two) = (model.session(session).unwrap(), real.session(session).unwrap());
        (one.cost, two.cost) = (0.0, 0.0);
        prop_assert_eq!(model.notes(session, 0).unwrap(), real.notes(session, 0).unwrap());
        prop_assert_eq!(one, two);
        prop_assert_eq!(model.import_of(session).unwrap(), real.import_of(session).unwrap());
        let receipts = stores.map(|store| {
            let receipts = store.receipts(session, None, u64::MAX).unwrap();
            let newest = store.newest_receipts(session, 2).unwrap();
            assert!(newest.iter().eq(receipts.iter().rev().take(2)), "the newest receipts of {session}");
            // A purge counts rows, and each store creates the ids of its own undos.
            let plans = receipts.into_iter().map(|receipt| match receipt.plan {
                Plan::Purge(plan) => Plan::Purge(without_places(plan)),
                plan => plan,
            });
            plans.collect::<Vec<_>>()
        });
        prop_assert_eq!(&receipts[0], &receipts[1], "the receipts of {}", session);
        let ask = Selection {
            search: Some(Search { pattern: "e".into(), ..Search::default() }),
            max_bytes: usize::MAX,
            max_matches: usize::MAX,
            ..Selection::default()
        };
        let found = |store: &dyn Store| {
            let hits = store.search(session, &ask).unwrap();
            hits.into_iter()
                .map(|hit| (hit.handle, hit.message, hit.tool, hit.found.matches))
                .collect::<Vec<_>>()
        };
        prop_assert_eq!(found(model), found(&real.store));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 5, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn properties_the_database_behaves_like_the_memory_store(ops in prop::collection::vec(op(), 1..40)) {
        let (real, mut known) = (fresh(), Known::default());
        let model = MemoryStore::with_clock(real.clock());
        for op in ops {
            step(op, &mut known, &model, &real)?;
        }
        agree(&known, &model, &real)?;
        let problems = real.check().unwrap().problems;
        prop_assert!(problems.is_empty(), "{:?}", problems);
    }
}
