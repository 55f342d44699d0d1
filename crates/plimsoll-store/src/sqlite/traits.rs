//! The store's traits on SQLite: each method is a read on one connection or a write in a transaction of the writer.

use std::time::Duration;

use plimsoll::log::MessageUpdate;
use plimsoll::{Message, MessageId, Millis, Part, PartId, Receipt, ReceiptId, Reduction, SessionId, Tokens};

use rusqlite::Connection;

use super::chain::Chain;
use super::read::Detail;
use super::salvage::ChainReader;
use super::{
    PATIENCE, SqliteStore, advance, append, check, extend, feed, handles, imports, inbox, leases, purge,
    read, reduce, search, sessions, spills, tasks, undo, witness,
};
use crate::clock::Clock;
use crate::counts::PartCounts;
use crate::error::StoreError;
use crate::random::random_ids;
use crate::recall::{Hit, Scope, Selection};
use crate::store::{
    ChangePage, Claim, CompactionRecord, ExpiredSpill, Feed, Filter, Findings, HandleMatch, Handles, Import,
    ImportRecord, Imported, Imports, Inbox, IndexStep, Lease, LeaseRecord, Leases, Logs, NewLease, NewNote,
    NewSession, NewTask, Note, Page, PageRequest, PurgeReport, PurgeTarget, Purges, Reductions, Revision,
    Sequence, Session, SessionPatch, SessionReader, Sessions, Snapshot, SpillPage, SpillRecord, Spills,
    StagedPiece, TakeOver, TaskFilter, TaskMove, TaskRecord, Tasks, Upkeep,
};

/// Maximum number of changes that are deleted in one transaction.
const TRIMMED: u64 = 5_000;

impl Sessions for SqliteStore {
    fn create(&self, session: NewSession, now: Millis) -> Result<Session, StoreError> {
        let clock = self.clock.clone();
        self.write(move |connection| {
            let made = sessions::create(connection, &session, now)?;
            equip(connection, &session, &clock, now)?;
            Ok(made)
        })
    }

    fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        self.read(|connection| read::session(connection, id))
    }

    fn sessions(&self, filter: &Filter) -> Result<Vec<Session>, StoreError> {
        self.read(|connection| read::sessions(connection, filter))
    }

    fn sessions_like(&self, prefix: &str, most: u64) -> Result<Vec<Session>, StoreError> {
        self.read(|connection| read::sessions_like(connection, prefix, most))
    }

    fn patch(&self, claim: &Claim, patch: SessionPatch, now: Millis) -> Result<Session, StoreError> {
        let claim = claim.clone();
        self.write(move |connection| sessions::patch(connection, &claim, &patch, now))
    }

    fn fork(
        &self,
        parent: &SessionId,
        upto: Option<&MessageId>,
        child: NewSession,
        now: Millis,
    ) -> Result<Session, StoreError> {
        let (parent, upto, clock) = (parent.clone(), upto.cloned(), self.clock.clone());
        self.write(move |connection| {
            let made = sessions::fork(connection, &parent, upto.as_ref(), &child, now)?;
            equip(connection, &child, &clock, now)?;
            Ok(made)
        })
    }

    fn remove(&self, claim: &Claim, now: Millis) -> Result<(), StoreError> {
        let (claim, clock) = (claim.clone(), self.clock.clone());
        let left = self.write(move |connection| sessions::remove(connection, &claim, now, clock.now()))?;
        self.sweep_removed(left)?;
        self.shrink().map(drop)
    }
}

impl Imports for SqliteStore {
    fn imports(&self, source: &str) -> Result<Vec<ImportRecord>, StoreError> {
        self.read(|connection| imports::of_source(connection, source))
    }

    fn import_of(&self, session: &SessionId) -> Result<Vec<ImportRecord>, StoreError> {
        self.read(|connection| imports::of_session(connection, session))
    }

    fn stage(&self, piece: StagedPiece) -> Result<(), StoreError> {
        let clock = self.clock.clone();
        self.write(move |connection| imports::stage(connection, &piece, clock.now()))
    }

    fn import(&self, import: Import) -> Result<Imported, StoreError> {
        let clock = self.clock.clone();
        self.write(move |connection| imports::import(connection, &import, clock.now()))
    }

    fn unstage(&self, stage: &str) -> Result<(), StoreError> {
        loop {
            let stage = stage.to_owned();
            if !self.write(move |connection| imports::unstage_some(connection, &stage))? {
                return Ok(());
            }
        }
    }

    fn sweep_stages(&self, idle: Duration) -> Result<u64, StoreError> {
        let before = self.clock.before(idle);
        let stages = self.read(|connection| imports::stages_before(connection, before))?;
        stages.iter().try_for_each(|stage| self.unstage(stage))?;
        Ok(stages.len() as u64)
    }
}

impl Logs for SqliteStore {
    fn append(&self, claim: &Claim, messages: Vec<Message>, now: Millis) -> Result<(), StoreError> {
        let claim = claim.clone();
        self.write(move |connection| append::append(connection, &claim, &messages, now))
    }

    fn append_part(
        &self,
        claim: &Claim,
        message: &MessageId,
        part: Part,
        now: Millis,
    ) -> Result<(), StoreError> {
        let (claim, message) = (claim.clone(), message.clone());
        self.write(move |connection| append::append_part(connection, &claim, &message, &part, now))
    }

    fn advance_all(&self, claim: &Claim, parts: Vec<Part>, now: Millis) -> Result<(), StoreError> {
        let claim = claim.clone();
        self.write(move |connection| advance::advance_all(connection, &claim, &parts, now))
    }

    fn extend(
        &self,
        claim: &Claim,
        part: &PartId,
        from: u64,
        more: &str,
        _: Millis,
    ) -> Result<(), StoreError> {
        let (claim, part, more) = (claim.clone(), part.clone(), more.to_owned());
        self.write(move |connection| extend::extend(connection, &claim, &part, from, &more))
    }

    fn record(
        &self,
        claim: &Claim,
        message: &MessageId,
        update: MessageUpdate,
        now: Millis,
    ) -> Result<(), StoreError> {
        let (claim, message) = (claim.clone(), message.clone());
        self.write(move |connection| advance::record(connection, &claim, &message, update, now))
    }

    fn window(&self, session: &SessionId) -> Result<Snapshot, StoreError> {
        self.read(|connection| read::window(connection, session, Detail::Whole))
    }

    fn outline(&self, session: &SessionId) -> Result<Snapshot, StoreError> {
        self.read(|connection| read::window(connection, session, Detail::Outline))
    }

    fn page(&self, session: &SessionId, request: &PageRequest) -> Result<Page, StoreError> {
        self.read(|connection| read::page(connection, session, request))
    }

    fn message(&self, session: &SessionId, id: &MessageId) -> Result<Message, StoreError> {
        self.read(|connection| read::message(connection, session, id))
    }

    fn part(&self, session: &SessionId, id: &PartId) -> Result<Part, StoreError> {
        self.read(|connection| read::part(connection, session, id))
    }

    fn keep_counts(&self, session: &SessionId, counts: Vec<PartCounts>) -> Result<(), StoreError> {
        let session = session.clone();
        self.write(move |connection| append::keep_counts(connection, &session, &counts))
    }

    fn search(&self, session: &SessionId, wanted: &Selection) -> Result<Vec<Hit>, StoreError> {
        self.read(|connection| search::search(connection, session, wanted))
    }
}

impl Reductions for SqliteStore {
    fn reduce(
        &self,
        claim: &Claim,
        reduction: Reduction,
        planned_on: Option<Revision>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let claim = claim.clone();
        self.write(move |connection| reduce::reduce(connection, &claim, &reduction, planned_on, now))
    }

    fn receipts(
        &self,
        session: &SessionId,
        after: Option<&ReceiptId>,
        most: u64,
    ) -> Result<Vec<Receipt>, StoreError> {
        self.read(|connection| read::receipts(connection, session, after, most))
    }

    fn newest_receipts(&self, session: &SessionId, most: u64) -> Result<Vec<Receipt>, StoreError> {
        self.read(|connection| read::newest_receipts(connection, session, most))
    }

    fn receipt(&self, id: &ReceiptId) -> Result<(SessionId, Receipt), StoreError> {
        self.read(|connection| read::receipt(connection, id))
    }

    fn receipts_like(&self, prefix: &str, most: usize) -> Result<Vec<ReceiptId>, StoreError> {
        self.read(|connection| read::receipts_like(connection, prefix, most))
    }

    fn undo(&self, claim: &Claim, id: &ReceiptId, now: Millis) -> Result<Receipt, StoreError> {
        let (claim, id, mut ids) = (claim.clone(), id.clone(), random_ids());
        self.write(move |connection| undo::undo(connection, &claim, &id, &mut ids, now))
    }

    fn resize_receipt(
        &self,
        claim: &Claim,
        id: &ReceiptId,
        before: Tokens,
        after: Tokens,
    ) -> Result<(), StoreError> {
        let (claim, id) = (claim.clone(), id.clone());
        self.write(move |connection| undo::resize_receipt(connection, &claim, &id, (before, after)))
    }

    fn compactions(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: u64,
    ) -> Result<Vec<CompactionRecord>, StoreError> {
        self.read(|connection| read::compactions(connection, session, after, most))
    }
}

impl SqliteStore {
    /// Deletes the rest of removed sessions in steps.
    fn sweep_removed(&self, mut left: Vec<i64>) -> Result<(), StoreError> {
        while let Some(key) = left.pop() {
            left.extend(self.write(move |connection| sessions::sweep_some(connection, key))?);
        }
        Ok(())
    }

    fn take_lease(
        &self,
        session: &SessionId,
        holder: &str,
        ttl: Duration,
        take_over: TakeOver,
    ) -> Result<Lease, StoreError> {
        let (session, holder, clock) = (session.clone(), holder.to_owned(), self.clock.clone());
        self.write(move |connection| {
            // Read inside the transaction: waiting for another writer must not shorten the lease, or make one that was
            // renewed meanwhile look expired.
            let (until, now) = (clock.after(ttl), clock.now());
            let request =
                leases::Request { session: &session, holder: &holder, until, now, take_over: &take_over };
            leases::lease(connection, &request)
        })
    }
}

/// Stores the task and the lease that a new session is created with, in the transaction that creates it: a process that
/// dies leaves all of it or nothing, and no other process finds an active record without a lease.
fn equip(connection: &Connection, new: &NewSession, clock: &Clock, now: Millis) -> Result<(), StoreError> {
    if let Some(task) = &new.task {
        tasks::put(connection, task, now)?;
    }
    if let Some(NewLease { holder, ttl }) = &new.lease {
        let (until, now, take_over) = (clock.after(*ttl), clock.now(), &TakeOver::Never);
        leases::lease(connection, &leases::Request { session: &new.id, holder, until, now, take_over })?;
    }
    Ok(())
}

impl Leases for SqliteStore {
    fn lease(&self, session: &SessionId, holder: &str, ttl: Duration) -> Result<Lease, StoreError> {
        self.take_lease(session, holder, ttl, TakeOver::Never)
    }

    fn break_lease(&self, session: &SessionId, holder: &str, ttl: Duration) -> Result<Lease, StoreError> {
        self.take_lease(session, holder, ttl, TakeOver::Always)
    }

    fn inherit_lease(
        &self,
        session: &SessionId,
        holder: &str,
        ttl: Duration,
        from: &str,
    ) -> Result<Lease, StoreError> {
        self.take_lease(session, holder, ttl, TakeOver::From(from.to_owned()))
    }

    fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Lease, StoreError> {
        let (lease, clock) = (lease.clone(), self.clock.clone());
        self.write(move |connection| leases::renew(connection, &lease, clock.after(ttl)))
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let lease = lease.clone();
        self.write(move |connection| leases::release(connection, &lease))
    }

    fn leases(&self, after: Option<&SessionId>, most: u64) -> Result<Vec<LeaseRecord>, StoreError> {
        self.read(|connection| leases::records(connection, after, most))
    }
}

impl Feed for SqliteStore {
    fn changes(&self, since: Sequence, most: u64) -> Result<ChangePage, StoreError> {
        self.read(|connection| feed::changes(connection, since, most))
    }

    fn newest_change(&self) -> Result<Sequence, StoreError> {
        self.read(feed::newest)
    }
}

impl Inbox for SqliteStore {
    fn send(&self, session: &SessionId, note: NewNote, now: Millis) -> Result<(), StoreError> {
        let session = session.clone();
        self.write(move |connection| inbox::send(connection, &session, &note, now))
    }

    fn notes(&self, session: &SessionId, most: u64) -> Result<Vec<Note>, StoreError> {
        self.read(|connection| inbox::notes(connection, session, most))
    }

    fn take_notes(&self, claim: &Claim, ids: &[String], now: Millis) -> Result<Vec<Note>, StoreError> {
        let (claim, ids) = (claim.clone(), ids.to_vec());
        self.write(move |connection| inbox::take(connection, &claim, &ids, now))
    }
}

impl Tasks for SqliteStore {
    fn put_task(&self, task: NewTask, now: Millis) -> Result<TaskRecord, StoreError> {
        self.write(move |connection| tasks::put(connection, &task, now))
    }

    fn task(&self, id: &str) -> Result<TaskRecord, StoreError> {
        self.read(|connection| tasks::task(connection, id))
    }

    fn tasks(&self, filter: &TaskFilter) -> Result<Vec<TaskRecord>, StoreError> {
        self.read(|connection| tasks::tasks(connection, filter))
    }

    fn move_task(&self, id: &str, step: TaskMove, now: Millis) -> Result<TaskRecord, StoreError> {
        let id = id.to_owned();
        self.write(move |connection| tasks::step(connection, &id, &step, now))
    }
}

impl Handles for SqliteStore {
    fn find_handles(
        &self,
        scope: Scope<'_>,
        handle: &str,
        most: usize,
    ) -> Result<Vec<HandleMatch>, StoreError> {
        self.read(|connection| handles::find(connection, scope, handle, most))
    }

    fn handle_part(&self, session: &SessionId, id: &PartId) -> Result<Part, StoreError> {
        self.read(|connection| handles::part(connection, session, id))
    }

    fn handle_message(&self, session: &SessionId, id: &MessageId) -> Result<Message, StoreError> {
        self.read(|connection| handles::message(connection, session, id))
    }

    fn handle_page(&self, session: &SessionId, request: &PageRequest) -> Result<Page, StoreError> {
        self.read(|connection| handles::page(connection, session, request))
    }
}

impl Spills for SqliteStore {
    fn add_spill(&self, claim: &Claim, spill: SpillRecord) -> Result<(), StoreError> {
        let claim = claim.clone();
        self.write(move |connection| spills::add(connection, &claim, &spill))
    }

    fn spills(&self, session: &SessionId, after: u64, most: usize) -> Result<SpillPage, StoreError> {
        self.read(|connection| spills::of_session(connection, session, after, most))
    }

    fn all_spills(&self, after: u64, most: usize) -> Result<Vec<(u64, SessionId, SpillRecord)>, StoreError> {
        self.read(|connection| spills::all(connection, after, most))
    }

    fn record_late(
        &self,
        session: &SessionId,
        spill: Option<SpillRecord>,
        receipt: Option<Receipt>,
    ) -> Result<(), StoreError> {
        let session = session.clone();
        self.write(move |connection| {
            spills::record_late(connection, &session, spill.as_ref(), receipt.as_ref())
        })
    }

    fn expire_spills(
        &self,
        before: Option<Millis>,
        max_bytes: Option<u64>,
        now: Millis,
        most: usize,
    ) -> Result<Vec<ExpiredSpill>, StoreError> {
        let going = self.read(|connection| spills::candidates(connection, before, max_bytes, most))?;
        if going.is_empty() {
            return Ok(Vec::new());
        }
        self.write(move |connection| spills::expire(connection, &going, now))
    }

    fn unneeded(&self, blobs: Vec<String>) -> Result<Vec<String>, StoreError> {
        self.read(|connection| spills::unneeded(connection, &blobs))
    }

    fn mark_deleting(&self, blobs: Vec<String>, now: Millis) -> Result<Vec<String>, StoreError> {
        self.write(move |connection| spills::mark_deleting(connection, &blobs, now))
    }

    fn deleting(&self, most: usize) -> Result<Vec<String>, StoreError> {
        self.read(|connection| spills::deleting(connection, most))
    }

    fn confirm_deleted(&self, blobs: Vec<String>) -> Result<(), StoreError> {
        self.write(move |connection| spills::confirm_deleted(connection, &blobs))
    }
}

impl Purges for SqliteStore {
    fn plan_purge(&self, session: &SessionId, target: &PurgeTarget) -> Result<PurgeReport, StoreError> {
        self.read(|connection| purge::plan(connection, session, target, &self.path))
    }

    fn purge(
        &self,
        claim: &Claim,
        target: &PurgeTarget,
        spills: Vec<String>,
        now: Millis,
    ) -> Result<Receipt, StoreError> {
        let (claim, target, mut ids) = (claim.clone(), target.clone(), random_ids());
        self.write(move |connection| purge::purge(connection, &claim, &target, &spills, &mut ids, now))
    }

    fn finish_purges(&self) -> Result<u64, StoreError> {
        let waiting = self.read(purge::unfinished)?;
        if waiting.is_empty() {
            return Ok(0);
        }
        let connection = rusqlite::Connection::open(&self.path)?;
        connection.busy_timeout(PATIENCE)?;
        purge::clean(&connection, &self.path)?;
        let count = waiting.len() as u64;
        self.write(move |connection| purge::confirm(connection, &waiting))?;
        Ok(count)
    }
}

impl Upkeep for SqliteStore {
    fn index_step(&self, from: u64) -> Result<IndexStep, StoreError> {
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        match self.read(|connection| search::next_range(connection, from))? {
            Ok(stretch) => self.write(move |connection| search::index(connection, &stretch)),
            Err(next) => {
                let next = next.and_then(|next| u64::try_from(next).ok());
                Ok(IndexStep { added: 0, next })
            }
        }
    }

    fn finish_removals(&self) -> Result<u64, StoreError> {
        let left = self.read(sessions::half_removed)?;
        let count = left.len() as u64;
        self.sweep_removed(left)?;
        Ok(count)
    }

    fn give_back(&self) -> Result<u64, StoreError> {
        while self.write(search::merge)? {}
        Ok(self.shrink()? + self.rewrite()?)
    }

    fn trim_feed(&self, keep: u64) -> Result<u64, StoreError> {
        self.write(move |connection| feed::trim(connection, keep, TRIMMED))
    }

    fn read_session(
        &self,
        session: &SessionId,
        read: &mut dyn FnMut(&dyn SessionReader) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // One transaction, so that all passes see the same rows.
        self.read(|connection| read(&ChainReader { connection, chain: Chain::of(connection, session)? }))
    }

    fn accept_losses(&self) -> Result<u64, StoreError> {
        self.write(witness::accept)
    }

    fn check(&self) -> Result<Findings, StoreError> {
        // A database that cannot even be opened is damaged as well.
        let checked = self.fresh_reader().and_then(|connection| check::check(&connection, self.clock.now()));
        match checked {
            Err(error) if error.is_failure() => {
                Ok(Findings { problems: vec![error.to_string()], ..Findings::default() })
            }
            checked => checked,
        }
    }
}
