//! Destroying content in the tables, and what is left of it in the file.
//!
//! Rows are scrubbed in one transaction, which also notes that the rest is to be done. The rest needs no pattern, so a
//! purge whose process died is finished without being told again what to destroy: blobs that are marked as being deleted
//! are removed, the file is written anew without free pages, the write-ahead log is emptied, and copies from before
//! upgrades are removed. They are removed as a whole, because an older version's tables are not this code's to edit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plimsoll::receipt::PurgePlan;
use plimsoll::{Ids, Millis, PartId, Plan, Receipt, SessionId};
use rusqlite::{Connection, params};
use serde_json::Value;

use super::advance::update_part;
use super::chain::{Chain, claimed_key, key};
use super::feed::Changed;
use super::position::Position;
use super::reduce::insert_receipt;
use super::rows;
use super::spills;
use crate::error::StoreError;
use crate::purge::{Scrubber, TOMBSTONE};
use crate::recall::what_of;
use crate::store::{ChangeKind, Claim, PurgeItem, PurgeReport, PurgeTarget};

/// What was found, and with `is_real` destroyed.
struct Purge<'a> {
    connection: &'a Connection,
    scrubber: Scrubber,
    target: &'a PurgeTarget,
    is_real: bool,
    report: PurgeReport,
    parts: Vec<PartId>,
    /// Where something was found, to tell which forks share it.
    touched: Vec<(i64, Position)>,
}

/// What a purge would destroy.
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

/// Destroy content; what remains of it in the file is for [`finish`].
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
    let plan = PurgePlan { parts: purge.parts, spills, places, sessions };
    let receipt = Receipt::of_purge(plan, "purge", ids, now);
    insert_receipt(connection, key, &receipt)?;
    connection
        .prepare_cached("INSERT INTO purge (receipt, at) VALUES (?1, ?2)")?
        .execute(params![receipt.id.as_str(), now.0])?;
    purge_noted(connection, claim, &receipt, now)?;
    // The index has pieces of what was destroyed in its segments until they are merged; it begins anew.
    connection.execute_batch("DELETE FROM searched; INSERT INTO search (search) VALUES ('delete-all')")?;
    Ok(receipt)
}

/// Tell those who follow the session, and those who show the same content, and let no plan be committed that was made on
/// what is gone.
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
        // A session that was removed has no later changes to follow.
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
        Ok(Purge { connection, scrubber, target, is_real, report, parts, touched })
    }

    fn session(&mut self, session: &SessionId) -> Result<(), StoreError> {
        let chain = Chain::of(self.connection, session)?;
        let mut keys = Vec::new();
        for segment in &chain.0 {
            let end = segment.end();
            let id: String =
                self.connection
                    .query_row("SELECT id FROM session WHERE key = ?1", [segment.key], |row| row.get(0))?;
            let id = SessionId::new(id);
            self.parts(segment.key, &end, &id)?;
            if matches!(self.target, PurgeTarget::Match(_)) {
                let bounds = params![segment.key, end.time, end.id];
                self.messages(bounds, segment.key, &id)?;
                self.records("receipt", "data", "id", segment.key, &id, "receipt")?;
                self.records(
                    "spill",
                    "shown",
                    "handle",
                    segment.key,
                    &id,
                    "what is shown of a spilled output",
                )?;
                self.records("note", "data", "id", segment.key, &id, "note")?;
                self.records("task", "data", "id", segment.key, &id, "task")?;
                self.title(segment.key, &id)?;
            }
            self.records("mark", "data", "part", segment.key, &id, "mark")?;
            keys.push(segment.key);
        }
        if let PurgeTarget::Part(part) = self.target
            && self.parts.is_empty()
            && !self.report.items.iter().any(|item| item.handle == part.as_str())
        {
            return Err(StoreError::missing("part", part));
        }
        self.find_sharers(&keys)
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
            let id = part.id.clone();
            let mut value = serde_json::to_value(&part)?;
            let places = self.scrubber.scrub_value(&mut value);
            if places == 0 {
                continue;
            }
            self.found(session, id.as_str(), &what_of(&part), places);
            self.parts.push(id.clone());
            self.touched.push((key, Position::new(row.get(5)?, message)));
            if self.is_real {
                let mut scrubbed: plimsoll::Part = serde_json::from_value(value)?;
                scrubbed.id = id;
                update_part(self.connection, key, &scrubbed)?;
            }
        }
        Ok(())
    }

    fn messages(
        &mut self,
        bounds: impl rusqlite::Params,
        key: i64,
        session: &SessionId,
    ) -> Result<(), StoreError> {
        let query =
            "SELECT at, info, id FROM message WHERE session = ?1 AND (at, id) <= (?2, ?3) ORDER BY at, id";
        let mut statement = self.connection.prepare(query)?;
        let mut rows = statement.query(bounds)?;
        while let Some(row) = rows.next()? {
            let (at, id): (i64, String) = (row.get(0)?, row.get(2)?);
            let mut value: Value = serde_json::from_str(&row.get::<_, String>(1)?)?;
            let places = self.scrubber.scrub_value(&mut value);
            if places > 0 {
                self.found(session, &id, "message", places);
                self.touched.push((key, Position::new(at, id.clone())));
                if self.is_real {
                    self.connection
                        .prepare_cached(
                            "UPDATE message SET info = ?4 WHERE session = ?1 AND at = ?2 AND id = ?3",
                        )?
                        .execute(params![key, at, id, value.to_string()])?;
                }
            }
        }
        Ok(())
    }

    /// Records beside the log. They are JSON, or plain text where they are not.
    fn records(
        &mut self,
        table: &str,
        column: &str,
        name: &str,
        key: i64,
        session: &SessionId,
        what: &str,
    ) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare(&format!(
            "SELECT seq, {column}, {name} FROM {table} WHERE session = ?1 AND {column} IS NOT NULL"
        ))?;
        let mut rows = statement.query([key])?;
        while let Some(row) = rows.next()? {
            let (seq, text, name): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            // Of a part that is destroyed as a whole, what marks and receipts say of other parts stays.
            if let PurgeTarget::Part(part) = self.target
                && part.as_str() != name
            {
                continue;
            }
            let (places, scrubbed) = match serde_json::from_str::<Value>(&text) {
                Ok(mut value) if !value.is_string() => {
                    (self.scrubber.scrub_value(&mut value), value.to_string())
                }
                _ => {
                    let mut scrubbed = text.clone();
                    (self.scrubber.scrub(&mut scrubbed), scrubbed)
                }
            };
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

    /// Destroy spills by what they hold, in all sessions that have them; gives their handles.
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

    /// Which other sessions show what was found: those whose chain goes through it.
    fn find_sharers(&mut self, keys: &[i64]) -> Result<(), StoreError> {
        if self.touched.is_empty() {
            return Ok(());
        }
        let own = keys.last().copied().unwrap_or_default();
        let mut statement =
            self.connection.prepare("SELECT key, id FROM session WHERE removed IS NULL AND key <> ?1")?;
        let others = statement.query_map([own], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
        let others = others.collect::<Result<Vec<(i64, String)>, _>>()?;
        for (key, id) in others {
            let chain = Chain::of_key(self.connection, key)?;
            let shows = |(owner, place): &(i64, Position)| {
                chain.0.iter().any(|segment| segment.key == *owner && segment.holds(place))
            };
            if self.touched.iter().any(shows) {
                self.report.sessions.push(SessionId::new(id));
            }
        }
        Ok(())
    }
}

/// Copies of a database from before upgrades.
pub(super) fn copies(database: &Path) -> Vec<PathBuf> {
    let Some(name) = database.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return Vec::new();
    };
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_copy = |path: &PathBuf| {
        let other = path.file_name().map(|other| other.to_string_lossy().into_owned()).unwrap_or_default();
        other.strip_prefix(&name).is_some_and(|rest| rest.starts_with(".v") && rest.ends_with(".bak"))
    };
    let mut copies: Vec<PathBuf> = entries.filter(is_copy).collect();
    copies.sort();
    copies
}

/// How many purges wait to be finished.
pub(super) fn unfinished(connection: &Connection) -> Result<Vec<i64>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT seq FROM purge WHERE is_done = 0")?;
    let waiting = statement.query_map([], |row| row.get(0))?;
    Ok(waiting.collect::<Result<_, _>>()?)
}

/// Write the file anew without free pages, empty the write-ahead log, remove copies. On a connection of its own: this
/// cannot be done in a transaction.
pub(super) fn clean(connection: &Connection, database: &Path) -> Result<(), StoreError> {
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

/// These purges are done.
pub(super) fn confirm(connection: &Connection, seqs: &[i64]) -> Result<(), StoreError> {
    for seq in seqs {
        connection.prepare_cached("UPDATE purge SET is_done = 1 WHERE seq = ?1")?.execute([seq])?;
    }
    Ok(())
}
