//! Leases and epochs. Everything here runs in a transaction of the writer.
//!
//! The epoch, not the expiry, fences a former holder. A process can be suspended between checking the time and writing;
//! a number that is compared in the write's own transaction cannot be outdated.

use plimsoll::log::MessageUpdate;
use plimsoll::{Log, MessageId, Millis, PartId, SessionId};
use rusqlite::{Connection, OptionalExtension, params};

use super::advance::{update_info, update_part};
use super::chain::{Chain, key};
use super::extend::fold_message;
use super::feed::Changed;
use super::position::Position;
use super::read;
use super::rows::integer;
use crate::error::StoreError;
use crate::holder::holder_is_gone;
use crate::store::{ChangeKind, Epoch, Lease, LeaseRecord, Settled, TakeOver, settle_call};

/// A request for a lease.
pub(crate) struct Request<'a> {
    pub(crate) session: &'a SessionId,
    pub(crate) holder: &'a str,
    pub(crate) until: Millis,
    pub(crate) now: Millis,
    /// Whose lease may be taken over. Compared inside the transaction.
    pub(crate) take_over: &'a TakeOver,
}

/// Takes the lease of a session. What a former holder left unfinished is marked as interrupted.
pub(crate) fn lease(connection: &Connection, request: &Request<'_>) -> Result<Lease, StoreError> {
    let Request { session, holder, until, now, take_over } = *request;
    let key = key(connection, session)?;
    let other = unexpired(connection, key, now)?.filter(|(other, _)| other != holder);
    let taken_from = match other {
        Some((holder, until)) if !take_over.allows(&holder) && !holder_is_gone(&holder) => {
            return Err(StoreError::Leased { session: session.clone(), holder, until, now });
        }
        other => other.map(|(holder, _)| holder),
    };
    connection
        .prepare_cached(
            "INSERT INTO lease (session, holder, until) VALUES (?1, ?2, ?3)
             ON CONFLICT (session) DO UPDATE SET holder = ?2, until = ?3",
        )?
        .execute(params![key, holder, until.0])?;
    // In the same transaction as the new epoch: the former holder cannot write after its calls were marked.
    let settled = settle(connection, key, now)?;
    let epoch = next_epoch(connection, key)?;
    // Time 0: a lease must not move the session to the top of the list of recent ones.
    let changed = Changed { key, session, now: Millis(0) };
    changed.note(connection, ChangeKind::Leased, None, None)?;
    let (session, holder) = (session.clone(), holder.to_owned());
    Ok(Lease { session, holder, epoch, until, settled, taken_from })
}

/// Extends a lease.
pub(crate) fn renew(connection: &Connection, lease: &Lease, until: Millis) -> Result<Lease, StoreError> {
    let key = super::chain::claimed_key(connection, &lease.claim())?;
    connection
        .prepare_cached("UPDATE lease SET until = ?2 WHERE session = ?1")?
        .execute(params![key, until.0])?;
    Ok(Lease { until, settled: Settled::default(), taken_from: None, ..lease.clone() })
}

/// Releases a lease. Does nothing if it was taken over meanwhile or its session was removed.
pub(crate) fn release(connection: &Connection, lease: &Lease) -> Result<(), StoreError> {
    let key = match super::chain::claimed_key(connection, &lease.claim()) {
        Err(StoreError::Missing { .. } | StoreError::Fenced { .. }) => return Ok(()),
        found => found?,
    };
    // The epoch changes with a release too, so a clone of the holder's claim cannot write any more.
    connection.prepare_cached("DELETE FROM lease WHERE session = ?1")?.execute([key])?;
    next_epoch(connection, key)?;
    let changed = Changed { key, session: &lease.session, now: Millis(0) };
    changed.note(connection, ChangeKind::Released, None, None)
}

/// Returns the leases that were not released, by session id.
pub(crate) fn records(
    connection: &Connection,
    after: Option<&SessionId>,
    most: u64,
) -> Result<Vec<LeaseRecord>, StoreError> {
    // SQLite does not reorder a cross join: the few leases are read first, and not the many sessions.
    let mut statement = connection.prepare_cached(
        "SELECT s.id, l.holder, l.until FROM lease l CROSS JOIN session s ON s.key = l.session
         WHERE s.removed IS NULL AND s.id > ?1 ORDER BY s.id LIMIT ?2",
    )?;
    let most = if most == 0 { 100 } else { most };
    let after = after.map_or("", SessionId::as_str);
    let rows = statement.query_map(params![after, integer(most)], |row| {
        let (session, holder, until) = (row.get::<_, String>(0)?, row.get(1)?, Millis(row.get(2)?));
        Ok(LeaseRecord { session: SessionId::new(session), holder, until })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Refuses if a living process holds an unexpired lease on the session.
pub(super) fn require_free(
    connection: &Connection,
    session: &SessionId,
    key: i64,
    now: Millis,
) -> Result<(), StoreError> {
    match living(unexpired(connection, key, now)?) {
        Some((holder, until)) => Err(StoreError::Leased { session: session.clone(), holder, until, now }),
        None => Ok(()),
    }
}

/// Returns the holder and expiry of an unexpired lease.
fn unexpired(connection: &Connection, key: i64, now: Millis) -> Result<Option<(String, Millis)>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT holder, until FROM lease WHERE session = ?1 AND until > ?2")?;
    let found = statement.query_row(params![key, now.0], |row| Ok((row.get(0)?, Millis(row.get(1)?))));
    Ok(found.optional()?)
}

/// Whether a living process runs any session.
pub(super) fn any_living(connection: &Connection, now: Millis) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached("SELECT holder FROM lease WHERE until > ?1")?;
    let mut rows = statement.query([integer(now.0)])?;
    while let Some(row) = rows.next()? {
        if !holder_is_gone(&row.get::<_, String>(0)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Drops a lease whose process no longer exists.
pub(super) fn living(held: Option<(String, Millis)>) -> Option<(String, Millis)> {
    held.filter(|(holder, _)| !holder_is_gone(holder))
}

/// Increments a session's epoch: writes under the previous one are refused from now on.
pub(super) fn next_epoch(connection: &Connection, key: i64) -> Result<Epoch, StoreError> {
    let mut statement =
        connection.prepare_cached("UPDATE session SET epoch = epoch + 1 WHERE key = ?1 RETURNING epoch")?;
    Ok(Epoch(statement.query_row([key], |row| row.get(0))?))
}

/// Marks unfinished work in a session's own log as interrupted: open calls and incomplete answers.
pub(crate) fn settle(connection: &Connection, session: i64, now: Millis) -> Result<Settled, StoreError> {
    let chain = Chain::of_key(connection, session)?;
    let mut statement = connection.prepare_cached(
        "SELECT id FROM part INDEXED BY part_open WHERE session = ?1 AND status IN ('pending', 'running')",
    )?;
    let calls = statement.query_map([session], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    for id in &calls {
        let mut part = read::whole(connection, &chain, &PartId::new(id.as_str()))?;
        settle_call(&mut part, now);
        update_part(connection, session, &part)?;
    }
    let mut statement = connection.prepare_cached(
        "SELECT at, id FROM message INDEXED BY message_open WHERE session = ?1 AND is_open = 1",
    )?;
    let open = statement.query_map([session], |row| Position::read(row, 0))?;
    let open = open.collect::<Result<Vec<Position>, _>>()?;
    for place in &open {
        let mut log = Log::from_messages([read::info(connection, session, place)?]);
        let update = MessageUpdate::aborted(crate::INTERRUPTED_ANSWER);
        log.record(&MessageId::new(place.id.as_str()), update, now)?;
        update_info(connection, session, place, &log[0])?;
        fold_message(connection, &chain, place)?;
    }
    Ok(Settled { calls: calls.len() as u64, answers: open.len() as u64 })
}
