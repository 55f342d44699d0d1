//! Destroying content in the tables and in the file.
//!
//! Rows are scrubbed in one transaction, which also records that the rest remains to be done. The rest needs no
//! pattern, so a purge whose process died is finished without knowing what to destroy: blobs that are marked for
//! deletion are removed, the file is rewritten without free pages, the write-ahead log is emptied, and copies from
//! before upgrades are removed. They are removed as a whole, because this code cannot edit the tables of older
//! versions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plimsoll::plan::PurgePlan;
use plimsoll::{Ids, MessageId, Millis, PartId, Plan, Receipt, SessionId};
use rusqlite::{Connection, params};
use serde_json::Value;

use super::advance::{update_info, update_part};
use super::chain::{Chain, claimed_key, key};
use super::feed::Changed;
use super::position::Position;
use super::reduce::insert_receipt;
use super::rows;
use super::schema;
use super::spills;
use super::{search, space};
use crate::error::StoreError;
use crate::purge::{Quoted, Scrubber, TOMBSTONE};
use crate::recall::describe;
use crate::store::{ChangeKind, Claim, PurgeItem, PurgeReport, PurgeTarget};

/// A purge. Without `is_real`, content is only counted.
struct Purge<'a> {
    connection: &'a Connection,
    scrubber: Scrubber,
    target: &'a PurgeTarget,
    is_real: bool,
    report: PurgeReport,
    parts: Vec<PartId>,
    /// Where something was found, to determine which forks share it.
    touched: Vec<(i64, Position)>,
    /// Content that pins and contracts may quote elsewhere.
    quoted: Quoted,
}

/// Returns what a purge would destroy.
pub(super) fn plan(
    connection: &Connection,
    session: &SessionId,
    target: &PurgeTarget,
    database: &Path,
) -> Result<PurgeReport, StoreError> {
    let mut purge = Purge::new(connection, target, false)?;
    purge.session(session)?;
    purge.report.copies = copies(database);
    Ok(purge.report)
}

/// Destroys content in the tables. [`clean`] removes what remains of it in the file.
pub(super) fn purge(
    connection: &Connection,
    claim: &Claim,
    target: &PurgeTarget,
    hashes: &[String],
    ids: &mut Ids,
    now: Millis,
) -> Result<Receipt, StoreError> {
    let key = claimed_key(connection, claim)?;
    let mut purge = Purge::new(connection, target, true)?;
    purge.session(&claim.session)?;
    let spills = purge.spills(hashes, now)?;
    let places = purge.report.items.iter().map(|item| item.places).sum::<u64>() + spills.len() as u64;
    let sessions = purge.report.sessions.into_iter().filter(|other| *other != claim.session).collect();
    let mut plan = PurgePlan::default();
    (plan.parts, plan.spills, plan.places, plan.sessions) = (purge.parts, spills, places, sessions);
    let receipt = Receipt::of_purge(plan, "purge", ids, now);
    insert_receipt(connection, key, &receipt)?;
    connection
        .prepare_cached("INSERT INTO purge (receipt, at) VALUES (?1, ?2)")?
        .execute(params![receipt.id.as_str(), now.0])?;
    purge_noted(connection, claim, &receipt, now)?;
    // The index's segments contain parts of the destroyed content until they are merged, so it is rebuilt.
    search::clear(connection)?;
    Ok(receipt)
}

/// Adds the purge to the feed of all sessions with this content, and makes plans stale that were made before.
fn purge_noted(
    connection: &Connection,
    claim: &Claim,
    receipt: &Receipt,
    now: Millis,
) -> Result<(), StoreError> {
    let shared = match &receipt.plan {
        Plan::Purge(plan) => plan.sessions.as_slice(),
        _ => &[],
    };
    for session in std::iter::once(&claim.session).chain(shared) {
        // A removed session has no feed.
        let Ok(key) = key(connection, session) else { continue };
        Changed { key, session, now }.note(connection, ChangeKind::Purged, None, None)?;
        connection.prepare_cached("UPDATE session SET shaped = revision WHERE key = ?1")?.execute([key])?;
    }
    Ok(())
}

impl<'a> Purge<'a> {
    fn new(
        connection: &'a Connection,
        target: &'a PurgeTarget,
        is_real: bool,
    ) -> Result<Purge<'a>, StoreError> {
        let scrubber = Scrubber::new(target)?;
        let (report, parts, touched) = (PurgeReport::default(), Vec::new(), Vec::new());
        let quoted = Quoted::default();
        Ok(Purge { connection, scrubber, target, is_real, report, parts, touched, quoted })
    }

    fn session(&mut self, session: &SessionId) -> Result<(), StoreError> {
        let chain = Chain::of(self.connection, session)?;
        if let PurgeTarget::Part(part) = self.target {
            let found = chain.find_part(self.connection, part.as_str())?;
            let (_, place) = found.ok_or_else(|| StoreError::missing("part", part))?;
            self.quoted.parts.insert(part.clone());
            self.quoted.messages.insert(MessageId::new(place.id));
        }
        for segment in &chain.0 {
            let (key, end) = (segment.key, segment.end());
            let id = self.id_of(key)?;
            self.parts(key, &end, &id)?;
            match self.target {
                PurgeTarget::Match(_) => {
                    self.messages(key, &end, &id)?;
                    self.records(&RECEIPTS, key, &id, None)?;
                    self.records(&SHOWN, key, &id, None)?;
                    self.records(&NOTES, key, &id, None)?;
                    self.records(&TASKS, key, &id, None)?;
                    self.records(&MARKS, key, &id, None)?;
                    self.title(key, &id)?;
                }
                PurgeTarget::Part(_) => self.quotes(key, &id)?,
            }
        }
        let own: BTreeSet<i64> = chain.0.iter().map(|segment| segment.key).collect();
        self.sharers(chain.own(), &own)
    }

    fn id_of(&self, key: i64) -> Result<SessionId, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT id FROM session WHERE key = ?1")?;
        Ok(SessionId::new(statement.query_row([key], |row| row.get::<_, String>(0))?))
    }

    /// Destroys what a session quotes of the content, outside the log.
    fn quotes(&mut self, key: i64, session: &SessionId) -> Result<(), StoreError> {
        let quoted = std::mem::take(&mut self.quoted);
        let done = self
            .records(&MARKS, key, session, Some(&quoted))
            .and_then(|()| self.records(&RECEIPTS, key, session, Some(&quoted)));
        self.quoted = quoted;
        done
    }

    fn found(&mut self, session: &SessionId, handle: &str, what: &str, places: u64) {
        self.report.items.push(PurgeItem {
            session: session.clone(),
            handle: handle.to_owned(),
            what: what.to_owned(),
            places,
        });
    }

    fn parts(&mut self, key: i64, end: &Position, session: &SessionId) -> Result<(), StoreError> {
        let only = match self.target {
            PurgeTarget::Part(part) => Some(part.as_str().to_owned()),
            PurgeTarget::Match(_) => None,
        };
        let mut statement = self.connection.prepare(&format!(
            "SELECT {}, at FROM part WHERE session = ?1 AND (at, message) <= (?2, ?3) AND (?4 IS NULL OR id = ?4)
             ORDER BY at, message, ord",
            rows::whole_columns()
        ))?;
        let mut rows = statement.query(params![key, end.time, end.id, only])?;
        while let Some(row) = rows.next()? {
            let rows::Placed { message, part, .. } = rows::whole_part(row)?;
            let (scrubbed, places) = self.scrubber.scrub_part(&part)?;
            if places == 0 {
                continue;
            }
            self.found(session, part.id.as_str(), &describe(&part), places);
            self.quoted.parts.insert(part.id.clone());
            self.quoted.messages.insert(MessageId::new(message.as_str()));
            self.parts.push(part.id);
            self.touched.push((key, Position::new(row.get(6)?, message)));
            if self.is_real {
                update_part(self.connection, key, &scrubbed)?;
            }
        }
        Ok(())
    }

    fn messages(&mut self, key: i64, end: &Position, session: &SessionId) -> Result<(), StoreError> {
        let query =
            "SELECT at, id, info FROM message WHERE session = ?1 AND (at, id) <= (?2, ?3) ORDER BY at, id";
        let mut statement = self.connection.prepare(query)?;
        let mut rows = statement.query(params![key, end.time, end.id])?;
        while let Some(row) = rows.next()? {
            let place = Position::read(row, 0)?;
            let mut message = rows::message_of(&row.get::<_, String>(2)?, &place.id)?;
            let places = self.scrubber.scrub_info(&mut message)?;
            if places > 0 {
                self.found(session, &place.id, "message", places);
                if self.is_real {
                    update_info(self.connection, key, &place, &message)?;
                }
                self.touched.push((key, place));
            }
        }
        Ok(())
    }

    /// Processes the records outside the log: all of a session's, or their quotes.
    fn records(
        &mut self,
        kind: &RecordKind,
        key: i64,
        session: &SessionId,
        of: Option<&Quoted>,
    ) -> Result<(), StoreError> {
        let RecordKind { table, column, name, what } = kind;
        let mut statement = self.connection.prepare(&format!(
            "SELECT seq, {column}, {name} FROM {table} WHERE session = ?1 AND {column} IS NOT NULL"
        ))?;
        let mut rows = statement.query([key])?;
        while let Some(row) = rows.next()? {
            let (seq, text, name): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (places, scrubbed) = self.scrubbed(table, &name, text, of)?;
            if places > 0 {
                self.found(session, &name, what, places);
                if self.is_real {
                    self.connection
                        .prepare_cached(&format!("UPDATE {table} SET {column} = ?2 WHERE seq = ?1"))?
                        .execute(params![seq, scrubbed])?;
                }
            }
        }
        Ok(())
    }

    /// Scrubs a record. Returns the number of places and the rest.
    fn scrubbed(
        &self,
        table: &str,
        name: &str,
        mut text: String,
        of: Option<&Quoted>,
    ) -> Result<(u64, String), StoreError> {
        match table {
            "mark" if of.is_some_and(|of| !of.parts.contains(&PartId::new(name))) => Ok((0, text)),
            "receipt" => match serde_json::from_str::<Receipt>(&text) {
                Ok(mut receipt) => {
                    let places = self.scrubber.scrub_receipt(&mut receipt, of);
                    Ok((places, serde_json::to_string(&receipt)?))
                }
                // A damaged record may still contain the secret.
                Err(_) if of.is_none() => Ok((self.scrubber.scrub(&mut text), text)),
                Err(_) => Ok((0, text)),
            },
            // What is shown of an output is text, even if it happens to be JSON.
            "spill" => Ok((self.scrubber.scrub(&mut text), text)),
            _ => {
                let mut value: Value = serde_json::from_str(&text)?;
                let places = self.scrubber.scrub_value(&mut value);
                Ok((places, value.to_string()))
            }
        }
    }

    fn title(&mut self, key: i64, session: &SessionId) -> Result<(), StoreError> {
        let mut title: String =
            self.connection.query_row("SELECT title FROM session WHERE key = ?1", [key], |row| row.get(0))?;
        let places = self.scrubber.scrub(&mut title);
        if places > 0 {
            self.found(session, session.as_str(), "title", places);
            if self.is_real {
                self.connection
                    .execute("UPDATE session SET title = ?2 WHERE key = ?1", params![key, title])?;
            }
        }
        Ok(())
    }

    /// Destroys spills by their content, in all sessions that have them. Returns their handles.
    fn spills(&mut self, hashes: &[String], now: Millis) -> Result<Vec<String>, StoreError> {
        let mut handles = BTreeSet::new();
        for hash in hashes {
            let mut statement = self.connection.prepare_cached(
                "SELECT p.handle, p.blob, s.id FROM spill p JOIN session s ON s.key = p.session WHERE p.hash = ?1",
            )?;
            let found = statement.query_map([hash], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
            })?;
            let found = found.collect::<Result<Vec<_>, _>>()?;
            self.connection
                .prepare_cached(
                    "UPDATE spill SET expired = coalesce(expired, ?2), shown = ?3 WHERE hash = ?1",
                )?
                .execute(params![hash, now.0, TOMBSTONE])?;
            for (handle, blob, session) in found {
                handles.insert(handle);
                self.report.sessions.push(SessionId::new(session));
                spills::mark_deleting(self.connection, &[blob], now)?;
            }
        }
        self.report.sessions.sort();
        self.report.sessions.dedup();
        Ok(handles.into_iter().collect())
    }

    /// Finds the other sessions with the content, and their quotes of it: those whose chain contains it are among the
    /// forks of its session.
    fn sharers(&mut self, own: i64, chain: &BTreeSet<i64>) -> Result<(), StoreError> {
        let owners: BTreeSet<i64> = self.touched.iter().map(|(owner, _)| *owner).collect();
        let mut others: BTreeSet<i64> = BTreeSet::new();
        for owner in owners {
            let mut statement = self.connection.prepare_cached(
                "WITH RECURSIVE family (key) AS (
                    VALUES (?1) UNION SELECT s.key FROM session s JOIN family f ON s.forked_from = f.key
                 ) SELECT key FROM family",
            )?;
            let found = statement.query_map([owner], |row| row.get(0))?;
            others.extend(found.collect::<Result<Vec<i64>, _>>()?);
        }
        others.remove(&own);
        for key in others {
            let seen = Chain::of_key(self.connection, key)?;
            let shows = |(owner, place): &(i64, Position)| {
                seen.0.iter().any(|segment| segment.key == *owner && segment.holds(place))
            };
            if !self.touched.iter().any(shows) {
                continue;
            }
            let id = self.id_of(key)?;
            if !chain.contains(&key) {
                self.quotes(key, &id)?;
            }
            // A removed session is kept for its forks and is not listed.
            if super::chain::key(self.connection, &id).is_ok() {
                self.report.sessions.push(id);
            }
        }
        Ok(())
    }
}

/// A table of records outside the log: the column with the content, the one with the id, and the name of such a record.
struct RecordKind {
    table: &'static str,
    column: &'static str,
    name: &'static str,
    what: &'static str,
}

const RECEIPTS: RecordKind = RecordKind { table: "receipt", column: "data", name: "id", what: "receipt" };
const MARKS: RecordKind = RecordKind { table: "mark", column: "data", name: "part", what: "mark" };
const NOTES: RecordKind = RecordKind { table: "note", column: "data", name: "id", what: "note" };
const TASKS: RecordKind = RecordKind { table: "task", column: "data", name: "id", what: "task" };
const SHOWN: RecordKind =
    RecordKind { table: "spill", column: "shown", name: "handle", what: "what is shown of a spilled output" };

/// Copies of a database from before upgrades, and unfinished copies of upgrades that were killed.
pub(super) fn copies(database: &Path) -> Vec<PathBuf> {
    let Some(name) = database.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return Vec::new();
    };
    let directory =
        database.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_copy = |path: &PathBuf| {
        let other = path.file_name().map(|other| other.to_string_lossy().into_owned()).unwrap_or_default();
        let is_whole =
            other.strip_prefix(&name).is_some_and(|rest| rest.starts_with(".v") && rest.ends_with(".bak"));
        // Older versions did not put the database's name into a copy's. If such a version is upgrading another database
        // of this directory right now, removing its copy makes the upgrade fail. That can be repeated; a leaked secret
        // cannot be undone.
        is_whole || other.starts_with(&schema::unfinished_copy(&name)) || other.starts_with(".upgrade-")
    };
    let mut copies: Vec<PathBuf> = entries.filter(is_copy).collect();
    copies.sort();
    copies
}

/// Returns the purges that remain to be finished.
pub(super) fn unfinished(connection: &Connection) -> Result<Vec<i64>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT seq FROM purge WHERE is_done = 0")?;
    let waiting = statement.query_map([], |row| row.get(0))?;
    Ok(waiting.collect::<Result<_, _>>()?)
}

/// Rewrites the file without free pages, empties the write-ahead log, and removes copies. Needs its own connection:
/// this is not possible in a transaction.
pub(super) fn clean(connection: &Connection, database: &Path) -> Result<(), StoreError> {
    // `VACUUM` applies the mode, so the file can return pages later.
    space::prepare(connection)?;
    connection.execute_batch("VACUUM")?;
    let is_busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_busy != 0 {
        let why = "another process reads the database; what was purged is still in its write-ahead log. Run \
                   `plimsoll sessions gc` when it has ended";
        return Err(StoreError::Refused(why.to_owned()));
    }
    for copy in copies(database) {
        match std::fs::remove_file(&copy) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::io(format!("cannot remove `{}`", copy.display()))(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Marks purges as finished.
pub(super) fn confirm(connection: &Connection, seqs: &[i64]) -> Result<(), StoreError> {
    for seq in seqs {
        connection.prepare_cached("UPDATE purge SET is_done = 1 WHERE seq = ?1")?.execute([seq])?;
    }
    Ok(())
}
