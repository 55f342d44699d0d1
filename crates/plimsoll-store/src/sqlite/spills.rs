//! Records of spilled outputs, and the blobs to delete.

use plimsoll::{Millis, PartId, Receipt, SessionId};
use rusqlite::{Connection, Row, params};

use super::chain::{Chain, claimed_key, key};
use super::reduce::insert_receipt;
use crate::error::StoreError;
use crate::store::{Claim, ExpiredSpill, SpillPage, SpillRecord};

pub(super) const COLUMNS: &str = "handle, hash, blob, part, tool, bytes, stored, created, shown, expired";

pub(super) fn record_of(row: &Row<'_>) -> rusqlite::Result<SpillRecord> {
    Ok(SpillRecord {
        handle: row.get(0)?,
        hash: row.get(1)?,
        blob: row.get(2)?,
        part: row.get::<_, Option<String>>(3)?.map(PartId::new),
        tool: row.get(4)?,
        bytes: row.get(5)?,
        stored: row.get(6)?,
        created: Millis(row.get(7)?),
        shown: row.get(8)?,
        expired: row.get::<_, Option<u64>>(9)?.map(Millis),
    })
}

/// Records a spill. All spills with the same content are moved to its blob: this repairs an older blob that was removed
/// by hand or damaged, and stores content that several sessions have only once.
pub(super) fn add(connection: &Connection, claim: &Claim, spill: &SpillRecord) -> Result<(), StoreError> {
    let key = claimed_key(connection, claim)?;
    insert(connection, key, spill)
}

/// Records a spill and a receipt that could not be written when they were made.
pub(super) fn record_late(
    connection: &Connection,
    session: &SessionId,
    spill: Option<&SpillRecord>,
    receipt: Option<&Receipt>,
) -> Result<(), StoreError> {
    let key = key(connection, session)?;
    if let Some(spill) = spill {
        insert(connection, key, spill)?;
    }
    if let Some(receipt) = receipt {
        let is_known: bool = connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM receipt WHERE id = ?1)")?
            .query_row([receipt.id.as_str()], |row| row.get(0))?;
        if !is_known {
            insert_receipt(connection, key, receipt)?;
        }
    }
    Ok(())
}

fn insert(connection: &Connection, key: i64, spill: &SpillRecord) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT blob FROM spill WHERE hash = ?1 AND expired IS NULL AND blob <> ?2",
    )?;
    let older = statement.query_map([&spill.hash, &spill.blob], |row| row.get::<_, String>(0))?;
    let older = older.collect::<Result<Vec<_>, _>>()?;
    connection
        .prepare_cached(
            "INSERT INTO spill (session, handle, hash, blob, part, tool, bytes, stored, created, shown)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT (session, handle) DO UPDATE SET created = ?9, expired = NULL, blob = ?4, shown = ?10",
        )?
        .execute(params![
            key,
            spill.handle,
            spill.hash,
            spill.blob,
            spill.part.as_ref().map(PartId::as_str),
            spill.tool,
            spill.bytes,
            spill.stored,
            spill.created.0,
            spill.shown
        ])?;
    connection
        .prepare_cached("UPDATE spill SET blob = ?2, stored = ?3 WHERE hash = ?1 AND expired IS NULL")?
        .execute(params![spill.hash, spill.blob, spill.stored])?;
    mark_deleting(connection, &older, spill.created).map(drop)
}

/// Returns the spills of a session and of those it was forked from, in the order they were stored.
pub(super) fn of_session(
    connection: &Connection,
    session: &SessionId,
    after: u64,
    most: usize,
) -> Result<SpillPage, StoreError> {
    let chain = Chain::of(connection, session)?;
    let mut found: Vec<(u64, SpillRecord)> = Vec::new();
    let mut more = false;
    for segment in &chain.0 {
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS}, seq FROM spill WHERE session = ?1 AND seq > ?2 ORDER BY seq"
        ))?;
        let mut rows = statement.query(params![segment.key, after])?;
        let mut taken = 0;
        while let Some(row) = rows.next()? {
            let spill = record_of(row)?;
            // Of an inherited segment, only those that its messages show.
            if let (Some(_), Some(part)) = (&segment.upto, &spill.part)
                && chain.find_part(connection, part.as_str())?.is_none()
            {
                continue;
            }
            if taken == most {
                more = true;
                break;
            }
            taken += 1;
            found.push((row.get(10)?, spill));
        }
    }
    found.sort_by_key(|(seq, _)| *seq);
    more |= found.len() > most;
    found.truncate(most);
    let next = found.last().map(|(seq, _)| *seq).filter(|_| more);
    Ok(SpillPage { spills: found.into_iter().map(|(_, spill)| spill).collect(), next })
}

/// All spills after a position.
pub(super) fn all(
    connection: &Connection,
    after: u64,
    most: usize,
) -> Result<Vec<(u64, SessionId, SpillRecord)>, StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS}, seq, (SELECT id FROM session WHERE key = spill.session) FROM spill WHERE seq > ?1
         ORDER BY seq LIMIT ?2"
    ))?;
    let spills = statement.query_map(params![after, most as i64], |row| {
        let session = row.get::<_, Option<String>>(11)?.unwrap_or_default();
        Ok((row.get(10)?, SessionId::new(session), record_of(row)?))
    })?;
    Ok(spills.collect::<Result<_, _>>()?)
}

/// A spill that may have to expire.
pub(super) struct Candidate {
    blob: String,
    newest: u64,
}

/// Returns the oldest blobs that exceed retention. This reads a row of every spill and runs outside of the writer.
pub(super) fn candidates(
    connection: &Connection,
    before: Option<Millis>,
    max_bytes: Option<u64>,
    most: usize,
) -> Result<Vec<Candidate>, StoreError> {
    let mut over = match max_bytes {
        Some(max_bytes) => {
            let total: f64 = connection
                .prepare_cached(
                    "SELECT total(stored) FROM (SELECT max(stored) AS stored FROM spill WHERE expired IS NULL GROUP BY blob)",
                )?
                .query_row([], |row| row.get(0))?;
            total - max_bytes as f64
        }
        None => 0.0,
    };
    let mut statement = connection.prepare_cached(
        "SELECT blob, max(stored), max(created) AS newest FROM spill WHERE expired IS NULL
         GROUP BY blob ORDER BY newest, blob",
    )?;
    let mut rows = statement.query([])?;
    let mut going = Vec::new();
    while let Some(row) = rows.next()?
        && going.len() < most
    {
        let newest: u64 = row.get(2)?;
        if over <= 0.0 && before.is_none_or(|before| newest >= before.0) {
            break;
        }
        over -= row.get::<_, u64>(1)? as f64;
        going.push(Candidate { blob: row.get(0)?, newest });
    }
    Ok(going)
}

/// Marks spills as expired, unless they were renewed since they were read.
pub(super) fn expire(
    connection: &Connection,
    going: &[Candidate],
    now: Millis,
) -> Result<Vec<ExpiredSpill>, StoreError> {
    let mut expired = Vec::new();
    for candidate in going {
        let mut statement = connection.prepare_cached(
            "SELECT s.id, p.handle, p.tool, p.bytes, p.created FROM spill p JOIN session s ON s.key = p.session
             WHERE p.blob = ?1 AND p.expired IS NULL AND p.created <= ?2 ORDER BY p.seq",
        )?;
        let gone = statement.query_map(params![candidate.blob, candidate.newest], |row| {
            Ok(ExpiredSpill {
                session: SessionId::new(row.get::<_, String>(0)?),
                handle: row.get(1)?,
                tool: row.get(2)?,
                bytes: row.get(3)?,
                created: Millis(row.get(4)?),
            })
        })?;
        expired.extend(gone.collect::<Result<Vec<_>, _>>()?);
        connection
            .prepare_cached(
                "UPDATE spill SET expired = ?3 WHERE blob = ?1 AND expired IS NULL AND created <= ?2",
            )?
            .execute(params![candidate.blob, candidate.newest, now.0])?;
    }
    let blobs: Vec<String> = going.iter().map(|candidate| candidate.blob.clone()).collect();
    mark_deleting(connection, &blobs, now)?;
    Ok(expired)
}

/// Which of these blobs no spill refers to.
pub(super) fn unneeded(connection: &Connection, blobs: &[String]) -> Result<Vec<String>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM spill WHERE blob = ?1 AND expired IS NULL)")?;
    let mut unneeded = Vec::new();
    for blob in blobs {
        if !statement.query_row([blob], |row| row.get::<_, bool>(0))? {
            unneeded.push(blob.clone());
        }
    }
    Ok(unneeded)
}

/// Marks those of these blobs for deletion that no spill refers to.
pub(super) fn mark_deleting(
    connection: &Connection,
    blobs: &[String],
    now: Millis,
) -> Result<Vec<String>, StoreError> {
    let marked = unneeded(connection, blobs)?;
    for blob in &marked {
        connection
            .prepare_cached("INSERT INTO deleting (blob, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(params![blob, now.0])?;
    }
    Ok(marked)
}

/// Deletes the spills of a removed session, and marks the blobs that nothing else needs.
pub(super) fn remove(connection: &Connection, key: i64, now: Millis) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT DISTINCT blob FROM spill WHERE session = ?1 AND expired IS NULL")?;
    let blobs = statement.query_map([key], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    connection.prepare_cached("DELETE FROM spill WHERE session = ?1")?.execute([key])?;
    mark_deleting(connection, &blobs, now).map(drop)
}

/// Blobs that are marked for deletion.
pub(super) fn deleting(connection: &Connection, most: usize) -> Result<Vec<String>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT blob FROM deleting ORDER BY blob LIMIT ?1")?;
    let blobs = statement.query_map([most as i64], |row| row.get(0))?;
    Ok(blobs.collect::<Result<_, _>>()?)
}

/// Records that these blobs were deleted.
pub(super) fn confirm_deleted(connection: &Connection, blobs: &[String]) -> Result<(), StoreError> {
    for blob in blobs {
        connection.prepare_cached("DELETE FROM deleting WHERE blob = ?1")?.execute([blob])?;
    }
    Ok(())
}
