//! Content that must be in the store, according to the children's logs.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll::{
    Message, MessageId, Part, PartBody, PartId, Policy, ReceiptId, RequestOverhead, SessionId, Text,
    ToolStatus, Window, request_tokens,
};
use plimsoll_store::{Archive, PageRequest, Scope, Selection, StoreError, TaskFilter};

use super::journal::{Line, Marks, Step, StepOutcome, marks_of};
use super::{Tally, imports};

#[derive(Clone, Debug)]
pub(super) struct ExpectedPart {
    id: PartId,
    /// Hash of the part without its marks.
    hash: String,
    /// The whole part, as long as a call is open.
    open: Option<Part>,
    marks: Marks,
}

#[derive(Clone, Debug)]
pub(super) struct ExpectedMessage {
    pub(super) id: MessageId,
    pub(super) finish: Option<String>,
    pub(super) parts: Vec<ExpectedPart>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ExpectedSession {
    pub(super) messages: Vec<ExpectedMessage>,
    /// The session it is a sub-agent of.
    pub(super) parent: Option<SessionId>,
    receipts: Vec<ReceiptId>,
    notes: BTreeSet<String>,
    tasks: BTreeMap<String, String>,
    /// Markers that were set aside.
    aside: BTreeSet<MessageId>,
}

/// The expected content of the store.
#[derive(Default)]
pub(super) struct Expected {
    pub(super) sessions: BTreeMap<SessionId, ExpectedSession>,
    /// By handle: hash of a spilled output, and the sessions it was taken in.
    spills: BTreeMap<String, (String, BTreeSet<SessionId>)>,
    /// Whether retention may have expired some.
    swept: bool,
    /// Destroyed secrets.
    purged: BTreeSet<String>,
}

fn hash_of(part: &Part) -> String {
    let bare = part.clone().without_marks();
    blake3::hash(&serde_json::to_vec(&bare).unwrap()).to_hex().to_string()
}

fn is_open(part: &Part) -> bool {
    part.as_tool().is_some_and(|tool| !tool.state.status.is_final())
}

impl ExpectedPart {
    pub(super) fn of(part: &Part) -> ExpectedPart {
        let open = is_open(part).then(|| part.clone());
        ExpectedPart { id: part.id.clone(), hash: hash_of(part), open, marks: marks_of(part) }
    }
}

impl ExpectedMessage {
    pub(super) fn of(message: &Message) -> ExpectedMessage {
        ExpectedMessage {
            id: message.info.id.clone(),
            finish: message.info.finish.clone(),
            parts: message.parts.iter().map(ExpectedPart::of).collect(),
        }
    }
}

impl ExpectedSession {
    fn part(&mut self, id: &PartId) -> &mut ExpectedPart {
        let parts = self.messages.iter_mut().flat_map(|message| &mut message.parts);
        parts.into_iter().find(|part| part.id == *id).unwrap()
    }
}

pub(super) fn all(archive: &Archive, session: &SessionId) -> Vec<Message> {
    let request = PageRequest { most: 100_000, oldest_first: true, from: None };
    archive.store().page(session, &request).unwrap().messages
}

impl Expected {
    /// Reads the log of a child.
    pub(super) fn take_in(&mut self, archive: &Archive, lines: &[Line], tally: &mut Tally) {
        let mut begun = None;
        for line in lines {
            match line {
                Line::Begun(step) => begun = Some(step),
                Line::Done(outcome) => {
                    let step = begun.take().unwrap();
                    tally.done += 1;
                    *tally.by_kind.entry(step.kind()).or_default() += 1;
                    self.happened(step, outcome);
                }
                // A refused step has changed nothing.
                Line::Refused(_) => {
                    tally.refused += 1;
                    begun = None;
                }
            }
        }
        // The step during which the child died has happened or not; from now on it is fixed.
        if let Some(step) = begun {
            let outcome = outcome_of(archive, step, self);
            let counts = tally.cut_off.entry(step.kind()).or_default();
            match outcome {
                Some(outcome) => {
                    counts.1 += 1;
                    self.happened(step, &outcome);
                }
                None => counts.0 += 1,
            }
        }
    }

    fn happened(&mut self, step: &Step, outcome: &StepOutcome) {
        match step {
            Step::Lease { .. } | Step::TakeOver { .. } => {}
            Step::Send { session, note } => {
                self.sessions.get_mut(session).unwrap().notes.insert(note.clone());
            }
            Step::TakeNotes { session, notes } => {
                let expected = self.sessions.get_mut(session).unwrap();
                notes.iter().for_each(|note| assert!(expected.notes.remove(note), "{note} was there"));
            }
            Step::PutTask { session, task } => {
                self.sessions.get_mut(session).unwrap().tasks.insert(task.clone(), "pending".into());
            }
            Step::MoveTask { session, task, to } => {
                self.sessions.get_mut(session).unwrap().tasks.insert(task.clone(), to.clone());
            }
            Step::Create { session } => drop(self.sessions.insert(session.clone(), Default::default())),
            Step::Append { session, messages } => {
                let expected = self.sessions.get_mut(session).unwrap();
                expected.messages.extend(messages.iter().map(ExpectedMessage::of));
            }
            Step::AppendPart { session, message, part } => {
                let expected = self.sessions.get_mut(session).unwrap();
                let message = expected.messages.iter_mut().find(|other| other.id == *message).unwrap();
                message.parts.push(ExpectedPart::of(part));
            }
            Step::Advance { session, part } | Step::Extend { session, part } => {
                let expected = self.sessions.get_mut(session).unwrap().part(&part.id);
                *expected = ExpectedPart { marks: expected.marks, ..ExpectedPart::of(part) };
            }
            Step::Finish { session, message } => {
                let expected = self.sessions.get_mut(session).unwrap();
                let message = expected.messages.iter_mut().find(|other| other.id == *message).unwrap();
                message.finish = Some("stop".into());
            }
            Step::Take { session, hash, .. } => {
                self.sessions.get_mut(session).unwrap().receipts.extend(outcome.receipt.clone());
                if let Some(handle) = &outcome.handle {
                    let spill = self.spills.entry(handle.clone());
                    spill.or_insert((hash.clone(), BTreeSet::new())).1.insert(session.clone());
                }
            }
            Step::Reduce { session, appended, marked, receipts } => {
                let expected = self.sessions.get_mut(session).unwrap();
                expected.messages.extend(appended.iter().map(ExpectedMessage::of));
                for part in marked {
                    expected.part(&part.id).marks = marks_of(part);
                }
                expected.receipts.extend(receipts.iter().map(|receipt| receipt.id.clone()));
            }
            Step::Undo { session, marker, .. } => {
                let expected = self.sessions.get_mut(session).unwrap();
                expected.receipts.extend(outcome.receipt.clone());
                expected.aside.extend(marker.clone());
                for (id, marks) in &outcome.marks {
                    assert!(
                        marks.2.is_some() || marks.3,
                        "{id} was lifted, or left out with what was undone"
                    );
                    expected.part(id).marks = *marks;
                }
            }
            Step::Fork { session, child } => {
                let mut inherited = self.sessions[session].clone();
                inherited.receipts.clear();
                inherited.notes.clear();
                inherited.tasks.clear();
                inherited.parent = None;
                let place = outcome.point.as_ref().map(|last| {
                    inherited.messages.iter().position(|message| message.id == *last).unwrap() + 1
                });
                inherited.messages.truncate(place.unwrap_or(0));
                let ids: BTreeSet<_> = inherited.messages.iter().map(|message| message.id.clone()).collect();
                inherited.aside.retain(|marker| ids.contains(marker));
                self.sessions.insert(child.clone(), inherited);
            }
            Step::Remove { session } => {
                self.sessions.remove(session);
                self.sessions.retain(|_, other| other.parent.as_ref() != Some(session));
                self.spills.retain(|_, (_, owners)| {
                    owners.remove(session);
                    !owners.is_empty()
                });
            }
            Step::Sweep => self.swept = true,
            Step::Purge { session, part, secret } => {
                let left = outcome.left.as_ref().unwrap();
                assert!(!serde_json::to_string(left).unwrap().contains(secret), "{left:?}");
                let expected = self.sessions.get_mut(session).unwrap();
                expected.receipts.extend(outcome.receipt.clone());
                let purged = expected.part(part);
                *purged = ExpectedPart { marks: purged.marks, ..ExpectedPart::of(left) };
                self.purged.insert(secret.clone());
            }
            Step::Import(step) => self.imported(step),
        }
    }

    /// Compares the store with it.
    pub(super) fn hold(&mut self, archive: &Archive, tally: &mut Tally) {
        let store = archive.store();
        let filter = plimsoll_store::Filter { all: true, ..Default::default() };
        let mut there: Vec<_> = store.sessions(&filter).unwrap().into_iter().map(|s| s.id).collect();
        there.sort();
        assert_eq!(there, self.sessions.keys().cloned().collect::<Vec<_>>(), "the sessions");
        for (id, expected) in &mut self.sessions {
            let messages = all(archive, id);
            let names = |messages: &[Message]| {
                messages.iter().map(|message| message.info.id.clone()).collect::<Vec<_>>()
            };
            let wanted: Vec<_> = expected.messages.iter().map(|message| message.id.clone()).collect();
            assert_eq!(names(&messages), wanted, "the messages of {id}");
            for (found, wanted) in messages.iter().zip(&mut expected.messages) {
                assert_eq!(found.info.finish, wanted.finish, "message {} of {id}", wanted.id);
                assert!(
                    found.is_finished() || !found.is_assistant(),
                    "{} of {id} is half written",
                    wanted.id
                );
                let parts: Vec<_> = found.parts.iter().map(|part| part.id.clone()).collect();
                let named: Vec<_> = wanted.parts.iter().map(|part| part.id.clone()).collect();
                assert_eq!(parts, named, "the parts of {} in {id}", wanted.id);
                for (part, wanted) in found.parts.iter().zip(&mut wanted.parts) {
                    hold_part(part, wanted, id);
                }
                tally.messages += 1;
            }
            let receipts: Vec<_> =
                store.receipts(id, None, u64::MAX).unwrap().into_iter().map(|r| r.id).collect();
            assert_eq!(receipts, expected.receipts, "the receipts of {id}");
            let notes: BTreeSet<_> =
                store.notes(id, 10_000).unwrap().into_iter().map(|note| note.id).collect();
            assert_eq!(notes, expected.notes, "the notes of {id}");
            let filter = TaskFilter { parent: Some(id.clone()), most: 10_000, ..TaskFilter::default() };
            let tasks = store.tasks(&filter).unwrap().into_iter().map(|task| (task.id, task.status));
            assert_eq!(tasks.collect::<BTreeMap<_, _>>(), expected.tasks, "the tasks of {id}");
            let compactions = store.compactions(id, None, u64::MAX).unwrap();
            let aside: BTreeSet<_> =
                compactions.into_iter().filter(|c| c.set_aside.is_some()).map(|c| c.marker).collect();
            assert_eq!(aside, expected.aside, "what was set aside in {id}");
            same_window(archive, id, &messages);
        }
        for (handle, (hash, _)) in &self.spills {
            let all = Selection { max_bytes: usize::MAX, ..Selection::default() };
            match archive.recall(Scope::Everywhere, handle, &all) {
                Ok(recalled) => {
                    let found = blake3::hash(recalled.found.text().as_bytes()).to_hex().to_string();
                    assert_eq!(found, *hash, "{handle}");
                    tally.spills += 1;
                }
                Err(StoreError::Expired { .. }) if self.swept => {}
                Err(error) => panic!("{handle}: {error}"),
            }
        }
    }
}

impl Expected {
    /// Checks that nothing that was destroyed is in a file of the database.
    pub(super) fn hold_purged(&self, directory: &std::path::Path) {
        let secret = regex::bytes::Regex::new("secret_[0-9]+_[0-9]+_[0-9]+").unwrap();
        let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let is_journal =
            |path: &std::path::Path| path.file_name().unwrap().to_string_lossy().starts_with("journal-");
        for path in files.filter(|path| path.is_file() && !is_journal(path)) {
            let bytes = std::fs::read(&path).unwrap();
            for found in secret.find_iter(&bytes) {
                let found = String::from_utf8_lossy(found.as_bytes()).into_owned();
                assert!(!self.purged.contains(&found), "{found} is still in {}", path.display());
            }
        }
    }
}

/// A part must be what was acknowledged; an open call must be marked as interrupted.
fn hold_part(part: &Part, wanted: &mut ExpectedPart, session: &SessionId) {
    assert!(!is_open(part), "the call {} of {session} cannot be answered", part.id);
    if let Some(open) = wanted.open.take() {
        let mut settled = open;
        if let (PartBody::Tool(settled), PartBody::Tool(found)) = (&mut settled.body, &part.body) {
            settled.state.status = ToolStatus::Error;
            let why = "Interrupted: the process that ran this tool ended before it answered.";
            settled.state.error = Some(Text::from(why));
            settled.state.time = found.state.time.clone();
            assert!(found.state.time.end.is_some());
        }
        wanted.hash = hash_of(&settled);
    }
    assert_eq!(hash_of(part), wanted.hash, "{part:?} of {session}");
    assert_eq!(marks_of(part), wanted.marks, "the marks on {} of {session}", part.id);
}

/// The window that is read must be the window of the whole log, and an outline must have the same weight.
fn same_window(archive: &Archive, session: &SessionId, messages: &[Message]) {
    let policy = Policy::default();
    let json = |window: &Window| serde_json::to_value(&window.messages).unwrap();
    let weight = |window: &Window| request_tokens(window, RequestOverhead::default(), &policy.count);
    let whole = Window::of(messages, &policy);
    let seen = Window::of(&archive.store().window(session).unwrap(), &policy);
    assert!(json(&whole) == json(&seen), "the window of {session}");
    let outline = Window::of(&archive.store().outline(session).unwrap(), &policy);
    assert_eq!(weight(&whole), weight(&outline), "the weight of {session}");
}

/// Whether an interrupted step has happened, and what it would have returned.
fn outcome_of(archive: &Archive, step: &Step, expected: &Expected) -> Option<StepOutcome> {
    let store = archive.store();
    let receipt_of = |session: &SessionId, is: &dyn Fn(&plimsoll::Receipt) -> bool| {
        let known = &expected.sessions.get(session)?.receipts;
        let receipts = store.receipts(session, None, u64::MAX).ok()?;
        receipts.into_iter().find(|receipt| !known.contains(&receipt.id) && is(receipt))
    };
    let if_so = |so: bool| so.then(StepOutcome::default);
    match step {
        Step::Lease { .. } | Step::TakeOver { .. } => Some(StepOutcome::default()),
        Step::Send { session, note } => {
            if_so(store.notes(session, 10_000).is_ok_and(|notes| notes.iter().any(|there| there.id == *note)))
        }
        Step::TakeNotes { session, notes } => {
            let there = store.notes(session, 10_000).unwrap_or_default();
            let left = notes.iter().filter(|id| there.iter().any(|note| note.id == **id)).count();
            assert!(left == 0 || left == notes.len(), "all or none");
            if_so(left == 0)
        }
        Step::PutTask { task, .. } => if_so(store.task(task).is_ok()),
        Step::MoveTask { task, to, .. } => if_so(store.task(task).is_ok_and(|task| task.status == *to)),
        Step::Sweep => Some(StepOutcome::default()),
        Step::Purge { session, part, .. } => {
            let is_of_part = |receipt: &plimsoll::Receipt| match &receipt.plan {
                plimsoll::Plan::Purge(plan) => plan.parts.contains(part),
                _ => false,
            };
            let receipt = Some(receipt_of(session, &is_of_part)?.id);
            Some(StepOutcome {
                receipt,
                left: Some(Box::new(store.part(session, part).unwrap())),
                ..StepOutcome::default()
            })
        }
        Step::Import(step) => if_so(imports::has_happened(store, step)),
        Step::Create { session } => if_so(store.session(session).is_ok()),
        Step::Fork { child, .. } => {
            let point = store.session(child).ok()?.forked_from.and_then(|point| point.message);
            Some(StepOutcome { point, ..StepOutcome::default() })
        }
        Step::Remove { session } => if_so(store.session(session).is_err()),
        Step::Append { session, messages } => if_so(store.message(session, &messages[0].info.id).is_ok()),
        Step::AppendPart { session, part, .. } => if_so(store.part(session, &part.id).is_ok()),
        Step::Advance { session, part } | Step::Extend { session, part } => {
            if_so(store.part(session, &part.id).is_ok_and(|found| hash_of(&found) == hash_of(part)))
        }
        Step::Finish { session, message } => {
            if_so(store.message(session, message).is_ok_and(|found| found.info.finish.is_some()))
        }
        Step::Take { session, .. } => {
            let receipt =
                receipt_of(session, &|receipt| matches!(receipt.plan, plimsoll::Plan::Truncate(_)))?;
            let handle = plimsoll_store::handles(&receipt).into_iter().next();
            Some(StepOutcome { receipt: Some(receipt.id), handle, ..StepOutcome::default() })
        }
        Step::Reduce { session, receipts, .. } => {
            if_so(receipt_of(session, &|receipt| receipt.id == receipts[0].id).is_some())
        }
        Step::Undo { session, receipt, parts, .. } => {
            let undone = receipt_of(session, &|other| other.undoes.as_ref() == Some(receipt))?;
            let marks = StepOutcome::marks(store, session, parts);
            Some(StepOutcome { receipt: Some(undone.id), marks, ..StepOutcome::default() })
        }
    }
}
