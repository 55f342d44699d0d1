//! The child: uses the store as a host does, until it is killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use plimsoll::compact::{CompactionContext, Ladder, Reply, Step as Rung, Summariser, Trigger};
use plimsoll::log::ToolTime;
use plimsoll::{
    Ids, Limits, Message, MessageId, Millis, Part, PartId, Plan, Policy, Preset, SessionId, Tokens,
    ToolState, ToolStatus, Usage,
};
use plimsoll_store::{
    Archive, Claim, Filter, Lease, NewNote, NewSession, NewTask, PurgeTarget, Scope, Selection, Snapshot,
    StoreError, TaskMove,
};
use serde_json::json;

use super::journal::{Journal, Line, Step, StepOutcome};
use super::{Dice, THREADS, clock, open};

/// Longer than any child lives.
const LEASE: Duration = Duration::from_secs(60);

pub(super) fn work(directory: &Path, round: u64, process: u64) {
    let archive = open(directory);
    std::thread::scope(|scope| {
        for thread in process * THREADS..(process + 1) * THREADS {
            let archive = &archive;
            scope.spawn(move || Host::new(archive, directory, round, thread).run());
        }
    });
}

pub(super) struct Host<'a> {
    archive: &'a Archive,
    journal: Journal,
    pub(super) dice: Dice,
    ids: Ids,
    /// The leases this thread holds.
    leases: BTreeMap<SessionId, Lease>,
    /// Prefix of all ids that this thread creates in this round.
    stem: String,
    holder: String,
    pub(super) thread: u64,
    made: u64,
    now: Millis,
}

impl<'a> Host<'a> {
    fn new(archive: &'a Archive, directory: &Path, round: u64, thread: u64) -> Host<'a> {
        let mut names = Dice::new(round * 7 + thread + 1_000);
        Host {
            archive,
            journal: Journal::open(directory, round, thread),
            dice: Dice::new(round * 31 + thread),
            ids: Ids::new(move || names.next()),
            leases: BTreeMap::new(),
            stem: format!("{round}_{thread}"),
            holder: format!("child {round}, thread {thread}"),
            thread,
            made: 0,
            now: clock(round),
        }
    }

    pub(super) fn name(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}_{}_{:06}", self.stem, self.made)
    }

    fn tick(&mut self) -> Millis {
        self.now.0 += 1;
        self.now
    }

    /// Runs a step, and logs it before and after.
    pub(super) fn step(
        &mut self,
        step: Step,
        act: impl FnOnce(&Archive) -> Result<StepOutcome, StoreError>,
    ) -> Option<StepOutcome> {
        self.journal.write(&Line::Begun(Box::new(step)));
        match act(self.archive) {
            Ok(outcome) => {
                self.journal.write(&Line::Done(outcome.clone()));
                Some(outcome)
            }
            // The last four are what the other process can do to this one.
            Err(
                error @ (StoreError::Refused(_)
                | StoreError::Log(_)
                | StoreError::Undo(_)
                | StoreError::Undone { .. }
                | StoreError::Fenced { .. }
                | StoreError::Leased { .. }
                | StoreError::Missing { .. }
                | StoreError::Stale { .. }),
            ) => {
                self.journal.write(&Line::Refused(error.to_string()));
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn sessions(&self) -> Vec<SessionId> {
        let own = format!("ses{}_", self.thread);
        let sessions = self.archive.store().sessions(&Filter { all: true, ..Filter::default() }).unwrap();
        sessions.into_iter().map(|session| session.id).filter(|id| id.as_str().starts_with(&own)).collect()
    }

    pub(super) fn lease(&mut self, session: &SessionId) {
        let holder = self.holder.clone();
        let step = Step::Lease { session: session.clone() };
        let mut taken = None;
        self.step(step, |archive| {
            taken = Some(archive.store().lease(session, &holder, LEASE)?);
            Ok(StepOutcome::default())
        });
        self.leases.extend(taken.map(|lease| (session.clone(), lease)));
    }

    fn claim(&self, session: &SessionId) -> Claim {
        self.leases.get(session).map_or_else(|| Claim::unleased(session), Lease::claim)
    }

    fn run(mut self) {
        for session in self.sessions() {
            self.lease(&session);
        }
        loop {
            let sessions = self.sessions();
            let dice = self.dice.below(100);
            let Some(session) = self.dice.pick(&sessions).cloned().filter(|_| sessions.len() > 1) else {
                self.create();
                continue;
            };
            match dice {
                0..24 => self.say(&session),
                24..48 => self.answer(&session),
                48..66 => self.climb(&session),
                66..73 => self.undo(&session),
                73..77 => self.talk(&session),
                77..81 => self.task(&session),
                // A process whose sessions are taken over forks none: what the other process appends is logged
                // elsewhere, and the order of the two is unknown.
                81..86 if self.is_thief() => self.fork(&session),
                86..89 if self.is_thief() => self.take_over(),
                81..89 => self.say(&session),
                89..93 => self.lease(&session),
                93 => self.sweep(),
                94 => self.recall(&session),
                95 => self.import(),
                96 => self.purge(&session),
                _ if sessions.len() > 4 => self.remove(&session),
                _ => self.create(),
            }
        }
    }

    fn is_thief(&self) -> bool {
        self.thread >= THREADS
    }

    /// Takes a session over from the other process and appends to it.
    fn take_over(&mut self) {
        let sessions = self.archive.store().sessions(&Filter { all: true, ..Filter::default() }).unwrap();
        // Each thread takes sessions of one thread of the other process. If two took the same one, the order would be
        // unknown.
        let robbed = format!("ses{}_", self.thread - THREADS);
        let theirs = |id: &SessionId| id.as_str().starts_with(&robbed);
        let theirs: Vec<_> = sessions.into_iter().map(|session| session.id).filter(theirs).collect();
        let Some(session) = self.dice.pick(&theirs).cloned() else { return };
        let (holder, mut taken) = (self.holder.clone(), None);
        self.step(Step::TakeOver { session: session.clone() }, |archive| {
            taken = Some(archive.store().break_lease(&session, &holder, LEASE)?);
            Ok(StepOutcome::default())
        });
        if let Some(lease) = taken {
            self.leases.insert(session.clone(), lease);
            self.say(&session);
        }
    }

    /// Recalls a spilled output, verified against its hash; a sweep may expire it meanwhile.
    fn recall(&mut self, session: &SessionId) {
        let Ok(page) = self.archive.store().spills(session, 0, 10) else { return };
        for spill in page.spills.iter().filter(|spill| spill.expired.is_none()) {
            let wanted = Selection { lines: Some((1, 2)), ..Selection::default() };
            match self.archive.recall(Scope::Session(session), &spill.handle, &wanted) {
                Ok(_)
                | Err(StoreError::Missing { .. } | StoreError::Expired { .. } | StoreError::Lost { .. }) => {}
                Err(error) => panic!("{}: {error}", spill.handle),
            }
        }
    }

    /// Leaves a note, or takes the existing ones.
    fn talk(&mut self, session: &SessionId) {
        let claim = self.claim(session);
        let now = self.tick();
        let waiting = self.archive.store().notes(session, 10).unwrap_or_default();
        if waiting.len() > 2 {
            let notes: Vec<String> = waiting.into_iter().map(|note| note.id).collect();
            let step = Step::TakeNotes { session: session.clone(), notes: notes.clone() };
            self.step(step, |archive| {
                archive.store().take_notes(&claim, &notes, now).map(|_| StepOutcome::default())
            });
            return;
        }
        let id = self.name("note");
        let note = NewNote { id: id.clone(), kind: "word".into(), data: json!(self.text(100)) };
        let step = Step::Send { session: session.clone(), note: id };
        self.step(step, |archive| archive.store().send(session, note, now).map(|()| StepOutcome::default()));
    }

    /// Creates a task and moves it on.
    fn task(&mut self, session: &SessionId) {
        let (id, now) = (self.name("tsk"), self.tick());
        let new = NewTask {
            id: id.clone(),
            parent: session.clone(),
            status: "pending".into(),
            ..NewTask::default()
        };
        let step = Step::PutTask { session: session.clone(), task: id.clone() };
        self.step(step, |archive| archive.store().put_task(new, now).map(|_| StepOutcome::default()));
        for (from, to) in [("pending", "running"), ("running", "done")] {
            let step = Step::MoveTask { session: session.clone(), task: id.clone(), to: to.into() };
            let moved = TaskMove { from: from.into(), to: to.into(), ..TaskMove::default() };
            self.step(step, |archive| {
                archive.store().move_task(&id, moved, now).map(|_| StepOutcome::default())
            });
        }
    }

    fn create(&mut self) {
        let name = self.name(&format!("ses{}", self.thread));
        let (session, now) = (SessionId::new(name), self.tick());
        let step = Step::Create { session: session.clone() };
        let new = NewSession::new(session.clone());
        self.step(step, |archive| archive.store().create(new, now).map(|_| StepOutcome::default()));
        self.lease(&session);
    }

    /// Appends several messages: text, and answered calls.
    fn say(&mut self, session: &SessionId) {
        let claim = self.claim(session);
        let count = 1 + self.dice.below(4);
        let mut messages = Vec::new();
        for _ in 0..count {
            let id = MessageId::new(self.name("msg"));
            let part = PartId::new(self.name("prt"));
            let text = self.text(3_000);
            messages.push(match self.dice.below(3) {
                0 => Message::user(id, part, text),
                1 => {
                    let mut message = Message::assistant(id, vec![Part::text(part, text)]);
                    message.info.finish = Some("stop".into());
                    message
                }
                _ => {
                    let state = ToolState::completed(json!({ "path": "src/lib.rs" }), text);
                    let call = Part::tool(part, self.name("call"), "read", state);
                    let mut message = Message::assistant(id, vec![call]);
                    message.info.finish = Some("tool-calls".into());
                    message
                }
            });
        }
        let now = self.tick();
        let step = Step::Append { session: session.clone(), messages: messages.clone() };
        self.step(step, |archive| {
            archive.store().append(&claim, messages, now).map(|()| StepOutcome::default())
        });
    }

    /// Streams an answer: growing texts, and a call that is asked, runs and answers.
    fn answer(&mut self, session: &SessionId) {
        let claim = self.claim(session);
        let message = MessageId::new(self.name("msg"));
        let words = PartId::new(self.name("prt"));
        let mut text = self.text(200);
        let now = self.tick();
        let mut begun = Message::assistant(message.clone(), vec![Part::text(words.clone(), text.as_str())]);
        begun.info.finish = None;
        let begun = vec![begun];
        let step = Step::Append { session: session.clone(), messages: begun.clone() };
        self.step(step, |archive| {
            archive.store().append(&claim, begun, now).map(|()| StepOutcome::default())
        });
        for _ in 0..self.dice.below(3) {
            let more = self.text(200);
            let from = text.len() as u64;
            text.push_str(&more);
            let part = Part::text(words.clone(), text.as_str());
            if self.dice.below(3) == 0 {
                self.advance(session, part);
                continue;
            }
            let now = self.tick();
            let step = Step::Extend { session: session.clone(), part };
            self.step(step, |archive| {
                archive.store().extend(&claim, &words, from, &more, now).map(|()| StepOutcome::default())
            });
        }
        for _ in 0..self.dice.below(3) {
            self.call(session, &message);
        }
        let now = self.tick();
        let usage = Usage::new(Tokens(self.dice.below(5_000)), Tokens(self.dice.below(500)));
        let step = Step::Finish { session: session.clone(), message: message.clone() };
        self.step(step, |archive| {
            archive
                .store()
                .finish(&claim, &message, "stop", Some(usage), now)
                .map(|()| StepOutcome::default())
        });
    }

    fn advance(&mut self, session: &SessionId, part: Part) {
        let claim = self.claim(session);
        let now = self.tick();
        let step = Step::Advance { session: session.clone(), part: part.clone() };
        self.step(step, |archive| {
            archive.store().advance(&claim, part, now).map(|()| StepOutcome::default())
        });
    }

    fn call(&mut self, session: &SessionId, message: &MessageId) {
        let claim = self.claim(session);
        let (id, call) = (PartId::new(self.name("prt")), self.name("call"));
        let input = json!({ "command": format!("cargo test {call}") });
        let part = |state: ToolState| Part::tool(id.clone(), call.clone(), "bash", state);
        let asked = part(ToolState::pending(input.clone()));
        let now = self.tick();
        let step =
            Step::AppendPart { session: session.clone(), message: message.clone(), part: asked.clone() };
        self.step(step, |archive| {
            archive.store().append_part(&claim, message, asked, now).map(|()| StepOutcome::default())
        });
        let begun = self.tick();
        let mut running = ToolState::pending(input.clone());
        running.status = ToolStatus::Running;
        running.time.start = Some(begun);
        self.advance(session, part(running));
        let most = if self.dice.below(3) == 0 { 300_000 } else { 4_000 };
        let output = self.text(most);
        let now = self.tick();
        let hash = blake3::hash(output.as_bytes()).to_hex().to_string();
        let step = Step::Take { session: session.clone(), part: id.clone(), hash };
        let mut shown = None;
        self.step(step, |archive| {
            let policy = Policy::default();
            let taken = archive.take_output(&claim, &id, "bash", &mut output.as_bytes(), &policy, now)?;
            shown = Some(taken.shown);
            // The output is returned whatever fails; if the session was taken over, nothing of it is acknowledged.
            if let Some(why) = taken.unrecorded {
                return Err(StoreError::Refused(why));
            }
            let handle = taken.receipt.iter().flat_map(plimsoll_store::handles).next();
            Ok(StepOutcome {
                receipt: taken.receipt.map(|receipt| receipt.id),
                handle,
                ..StepOutcome::default()
            })
        });
        let Some(shown) = shown else { return };
        let mut state = ToolState::completed(input, shown);
        state.time = ToolTime::ran(begun, self.tick());
        self.advance(session, part(state));
    }

    fn climb(&mut self, session: &SessionId) {
        let claim = self.claim(session);
        let now = self.tick();
        let policy = self.policy();
        let context = 400 + self.dice.below(3_000);
        let Ok(Snapshot { mut log, revision }) = self.archive.store().window(session) else { return };
        let limits = Limits::new(context, 64);
        let large = Summariser::named("summariser", Limits::new(128_000, 4_000));
        let summariser = (self.dice.below(2) == 0).then_some(large);
        let context = CompactionContext {
            trigger: Trigger::Refused,
            summariser,
            ..CompactionContext::new(&policy, limits, now)
        };
        let mut ladder = Ladder::new(log.clone(), context);
        let outcome = loop {
            match ladder.climb(&mut self.ids).unwrap() {
                Rung::Done(outcome) => break outcome,
                Rung::Ask(_) => {
                    let reply = Reply::finished("## Goal\nbuild it\n## Progress\nhalf of it is done");
                    ladder.answer(Ok(reply), &mut self.ids).unwrap();
                }
            }
        };
        let reduction = outcome.reduction;
        if reduction.receipts.is_empty() {
            return;
        }
        reduction.commit(&mut log).unwrap();
        let effects = reduction.receipts.iter().flat_map(|receipt| receipt.plan.effects());
        let marked = effects.map(|(part, _)| log.part(part).unwrap().clone()).collect();
        let (appended, receipts) = (reduction.appended.clone(), reduction.receipts.clone());
        let step = Step::Reduce { session: session.clone(), appended, marked, receipts };
        self.step(step, |archive| {
            archive.store().reduce(&claim, reduction, Some(revision), now).map(|()| StepOutcome::default())
        });
    }

    /// A policy that prunes early, so that small sessions are pruned.
    fn policy(&mut self) -> Policy {
        let preset = if self.dice.below(3) == 0 { Preset::Openfork } else { Preset::Plimsoll };
        let mut spec = preset.policy().into_spec();
        (spec.prune.protect_tokens, spec.prune.min_tokens) = (Tokens(200), Tokens::ZERO);
        (spec.prune.gate_share, spec.prune.gate_headroom, spec.prune.active_turns) = (None, None, 0);
        Policy::new(spec).unwrap()
    }

    fn undo(&mut self, session: &SessionId) {
        let claim = self.claim(session);
        let receipts = self.archive.store().receipts(session, None, u64::MAX).unwrap_or_default();
        let can: Vec<_> = receipts.iter().filter(|receipt| receipt.can_undo()).collect();
        let Some(receipt) = self.dice.pick(&can).map(|receipt| (*receipt).clone()) else { return };
        let mut parts: Vec<PartId> =
            receipt.plan.effects().into_iter().map(|(part, _)| part.clone()).collect();
        let mut marker = None;
        if let Plan::Compact(plan) = &receipt.plan {
            parts.extend(plan.continuation.clone());
            marker = plan.marker.clone();
        }
        let at = self.tick();
        let (id, touched) = (receipt.id, parts.clone());
        let step = Step::Undo { session: session.clone(), receipt: id.clone(), parts, marker };
        self.step(step, |archive| {
            let undone = archive.store().undo(&claim, &id, at)?;
            let marks = StepOutcome::marks(archive.store(), session, &touched);
            Ok(StepOutcome { receipt: Some(undone.id), marks, ..StepOutcome::default() })
        });
    }

    fn fork(&mut self, session: &SessionId) {
        let child = SessionId::new(self.name(&format!("ses{}", self.thread)));
        let now = self.tick();
        let step = Step::Fork { session: session.clone(), child: child.clone() };
        let new = NewSession::new(child.clone());
        self.step(step, |archive| {
            let made = archive.store().fork(session, None, new, now)?;
            Ok(StepOutcome {
                point: made.forked_from.and_then(|point| point.message),
                ..StepOutcome::default()
            })
        });
        self.lease(&child);
    }

    fn remove(&mut self, session: &SessionId) {
        let claim = self.claim(session);
        let now = self.tick();
        let step = Step::Remove { session: session.clone() };
        self.step(step, |archive| archive.remove(&claim, now).map(|()| StepOutcome::default()));
    }

    fn sweep(&mut self) {
        let now = self.tick();
        self.step(Step::Sweep, |archive| archive.sweep(now).map(|_| StepOutcome::default()));
    }

    /// Stores a secret, and destroys it.
    fn purge(&mut self, session: &SessionId) {
        let claim = self.claim(session);
        let (id, part) = (MessageId::new(self.name("msg")), PartId::new(self.name("prt")));
        let secret = self.name("secret");
        let text = format!("{} {secret} {}", self.text(500), self.text(500));
        let (said, now) = (vec![Message::user(id, part.clone(), text)], self.tick());
        let step = Step::Append { session: session.clone(), messages: said.clone() };
        self.step(step, |archive| archive.store().append(&claim, said, now).map(|()| StepOutcome::default()));
        let target = match self.dice.below(2) {
            0 => PurgeTarget::Match(secret.clone()),
            _ => PurgeTarget::Part(part.clone()),
        };
        let step = Step::Purge { session: session.clone(), part: part.clone(), secret };
        let now = self.tick();
        self.step(step, |archive| {
            // If the other process is reading, the next sweep cleans the file.
            let receipt = Some(archive.purge(&claim, &target, now)?.receipt.id);
            let left = Some(Box::new(archive.store().part(session, &part).unwrap()));
            Ok(StepOutcome { receipt, left, ..StepOutcome::default() })
        });
    }

    /// Lines of words, up to a number of bytes, without a newline at the end.
    pub(super) fn text(&mut self, most: u64) -> String {
        const WORDS: [&str; 8] = ["error", "ok", "fn main", "🚢", "warning:", "a\tb", "line", "ünïcode"];
        let bytes = 1 + self.dice.below(most) as usize;
        let mut text = String::with_capacity(bytes + 32);
        while text.len() < bytes {
            let word = self.dice.next();
            text.push_str(WORDS[word as usize % WORDS.len()]);
            text.push_str(&format!("{:x}", word >> 40));
            text.push(if word & 0x700 == 0 { '\n' } else { ' ' });
        }
        text.push('.');
        text
    }
}
