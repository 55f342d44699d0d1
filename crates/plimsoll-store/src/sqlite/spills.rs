//! The names of spilled outputs. Their content is elsewhere.

use plimsoll::{Millis, PartId, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::chain::{Chain, claimed_key};
use crate::error::StoreError;
use crate::store::{Claim, Keeper, SpillRecord};

const COLUMNS: &str = "handle, hash, part, tool, bytes, stored, created, shown, expired";

fn record_of(row: &Row<'_>) -> rusqlite::Result<SpillRecord> {
    Ok(SpillRecord {
        handle: row.get(0)?,
        hash: row.get(1)?,
        part: row.get::<_, Option<String>>(2)?.map(PartId::new),
        tool: row.get(3)?,
        bytes: row.get(4)?,
        stored: row.get(5)?,
        created: Millis(row.get(6)?),
        shown: row.get(7)?,
        expired: row.get::<_, Option<u64>>(8)?.map(Millis),
    })
}

/// Take note of a spill and keep its content. The same output again renews the one that is there.
///
/// The content is kept before the transaction ends: whoever dies in between leaves content without a name, which a
/// sweep takes, and never a name without content. And while the transaction lasts no sweep can run.
pub(super) fn add(
    connection: &Connection,
    claim: &Claim,
    spill: &SpillRecord,
    keep: Keeper,
) -> Result<(), StoreError> {
    let key = claimed_key(connection, claim)?;
    connection
        .prepare_cached(
            "INSERT INTO spill (session, handle, hash, part, tool, bytes, stored, created, shown)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (session, handle) DO UPDATE SET created = ?8, expired = NULL",
        )?
        .execute(params![
            key,
            spill.handle,
            spill.hash,
            spill.part.as_ref().map(PartId::as_str),
            spill.tool,
            spill.bytes,
            spill.stored,
            spill.created.0,
            spill.shown
        ])?;
    keep()
}

/// The spills of a session and of those it was forked from.
pub(super) fn of_session(
    connection: &Connection,
    session: &SessionId,
) -> Result<Vec<SpillRecord>, StoreError> {
    let chain = Chain::of(connection, session)?;
    let mut spills = Vec::new();
    for segment in &chain.0 {
        let mut statement = connection
            .prepare_cached(&format!("SELECT {COLUMNS} FROM spill WHERE session = ?1 ORDER BY seq"))?;
        let found = statement.query_map([segment.key], record_of)?;
        for spill in found {
            let spill = spill?;
            // Of an inherited stretch only what its messages show.
            let seen = match (&segment.upto, &spill.part) {
                (Some(_), Some(part)) => chain.find_part(connection, part.as_str())?.is_some(),
                _ => true,
            };
            if seen {
                spills.push(spill);
            }
        }
    }
    Ok(spills)
}

/// A spill by its handle; if several sessions have it, one whose content is still there.
pub(super) fn one(connection: &Connection, handle: &str) -> Result<SpillRecord, StoreError> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM spill WHERE handle = ?1 ORDER BY expired IS NOT NULL, seq DESC LIMIT 1"
        ))?
        .query_row([handle], record_of)
        .optional()?
        .ok_or_else(|| StoreError::missing("spilled output", handle))
}

/// Mark as expired what is too old, then the oldest until the rest is small enough.
pub(super) fn expire(
    connection: &Connection,
    before: Option<Millis>,
    most: Option<u64>,
    now: Millis,
) -> Result<u64, StoreError> {
    let mut expired = 0;
    if let Some(before) = before {
        expired += connection
            .prepare_cached("UPDATE spill SET expired = ?2 WHERE expired IS NULL AND created < ?1")?
            .execute((before.0, now.0))?;
    }
    let Some(most) = most else { return Ok(expired as u64) };
    let mut statement = connection.prepare_cached(
        "SELECT hash, max(stored), max(created) AS newest FROM spill WHERE expired IS NULL
         GROUP BY hash ORDER BY newest DESC",
    )?;
    let kept = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, u64>(1)?)))?;
    let mut total = 0u64;
    for row in kept.collect::<Result<Vec<_>, _>>()? {
        total = total.saturating_add(row.1);
        if total > most {
            expired += connection
                .prepare_cached("UPDATE spill SET expired = ?2 WHERE expired IS NULL AND hash = ?1")?
                .execute((row.0, now.0))?;
        }
    }
    Ok(expired as u64)
}

/// Let go of content that no spill needs.
pub(super) fn forget(
    connection: &Connection,
    hashes: &[String],
    remove: &mut dyn FnMut(&str) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let mut removed = 0;
    let mut statement = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM spill WHERE hash = ?1 AND expired IS NULL)")?;
    for hash in hashes {
        let needed: bool = statement.query_row([hash], |row| row.get(0))?;
        if !needed {
            remove(hash)?;
            removed += 1;
        }
    }
    Ok(removed)
}
