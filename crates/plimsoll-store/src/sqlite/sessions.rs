//! Sessions as a whole: begun, forked, run, removed. Everything here runs within a transaction of the writer.

use plimsoll::{LogError, MessageId, Millis, PartBody, PartId, SessionId, Text, ToolStatus};
use rusqlite::{Connection, OptionalExtension, params};

use super::chain::{At, Chain, claimed_key, key};
use super::read::{self, Detail};
use super::write::update_part;
use crate::error::StoreError;
use crate::session::{NewSession, Session, SessionPatch};
use crate::store::{Claim, Epoch, Lease};

/// Begin a session.
pub(crate) fn create(connection: &Connection, new: &NewSession, now: Millis) -> Result<Session, StoreError> {
    insert_session(connection, new, now)?;
    read::session(connection, &new.id)
}

fn insert_session(connection: &Connection, new: &NewSession, now: Millis) -> Result<i64, StoreError> {
    if new.id.is_empty() {
        return Err(StoreError::Refused("a session needs an id; make one with `Ids`".into()));
    }
    let taken: Option<i64> = connection
        .prepare_cached("SELECT 1 FROM session WHERE id = ?1")?
        .query_row([new.id.as_str()], |row| row.get(0))
        .optional()?;
    if taken.is_some() {
        return Err(StoreError::Log(LogError::Duplicate { kind: "session", id: new.id.to_string() }));
    }
    connection
        .prepare_cached(
            "INSERT INTO session (id, parent, title, agent, model, directory, created, updated, version)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8)",
        )?
        .execute(params![
            new.id.as_str(),
            new.parent.as_ref().map(SessionId::as_str),
            new.title,
            new.agent,
            new.model,
            new.directory,
            now.0,
            new.version
        ])?;
    Ok(connection.last_insert_rowid())
}

/// Change what is said about a session.
pub(crate) fn patch(
    connection: &Connection,
    claim: &Claim,
    patch: &SessionPatch,
    now: Millis,
) -> Result<Session, StoreError> {
    let key = claimed_key(connection, claim)?;
    connection
        .prepare_cached(
            "UPDATE session SET title = coalesce(?2, title), agent = coalesce(?3, agent),
             model = coalesce(?4, model), updated = max(updated, ?5) WHERE key = ?1",
        )?
        .execute(params![key, patch.title, patch.agent, patch.model, now.0])?;
    read::session(connection, &claim.session)
}

/// Fork a session after a message, or after its newest finished one. Nothing is copied.
pub(crate) fn fork(
    connection: &Connection,
    parent: &SessionId,
    upto: Option<&MessageId>,
    child: &NewSession,
    now: Millis,
) -> Result<Session, StoreError> {
    let chain = Chain::of(connection, parent)?;
    let point = match upto {
        Some(id) => {
            let found = chain.find(connection, id.as_str())?;
            let place = found.map(|(_, place)| place).ok_or_else(|| StoreError::missing("message", id))?;
            if is_open(connection, &chain, &place)? {
                let why = format!("message `{id}` is still being written; fork before it");
                return Err(StoreError::Refused(why));
            }
            place
        }
        None => newest_finished(connection, &chain)?,
    };
    let key = insert_session(connection, child, now)?;
    // The parent's own rows stay as long as there are forks, so later ones have higher numbers than these. Numbers
    // of other sessions are given anew once those are removed.
    connection
        .prepare_cached(
            "UPDATE session SET forked_from = ?2, fork_at = ?3, fork_id = ?4, last_at = ?3, last_id = ?4,
             fork_mark = (SELECT coalesce(max(seq), 0) FROM mark WHERE session = ?2),
             fork_compaction = (SELECT coalesce(max(seq), 0) FROM compaction WHERE session = ?2) WHERE key = ?1",
        )?
        .execute(params![key, chain.own(), point.0, point.1])?;
    read::session(connection, &child.id)
}

/// Whether that message is still being written.
fn is_open(connection: &Connection, chain: &Chain, place: &At) -> Result<bool, StoreError> {
    let message = read::one(connection, chain, &place.1, Detail::Outline)?;
    Ok(message.as_ref().is_some_and(crate::is_being_written))
}

fn newest_finished(connection: &Connection, chain: &Chain) -> Result<At, StoreError> {
    let mut place = last(connection, chain.own())?;
    while !place.1.is_empty() && is_open(connection, chain, &place)? {
        let mut before = None;
        for segment in chain.0.iter().rev() {
            let mut statement = connection.prepare_cached(
                "SELECT at, id FROM message WHERE session = ?1 AND (at, id) < (?2, ?3) AND (at, id) <= (?4, ?5)
                 ORDER BY at DESC, id DESC LIMIT 1",
            )?;
            let end = segment.upto.clone().unwrap_or(place.clone());
            before = statement
                .query_row(params![segment.key, place.0, place.1, end.0, end.1], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .optional()?;
            if before.is_some() {
                break;
            }
        }
        place = before.unwrap_or((0, String::new()));
    }
    Ok(place)
}

fn last(connection: &Connection, session: i64) -> Result<At, StoreError> {
    let mut statement = connection.prepare_cached("SELECT last_at, last_id FROM session WHERE key = ?1")?;
    Ok(statement.query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Take the right to run a session, or renew it. What a former holder left unfinished is marked as interrupted.
pub(crate) fn lease(
    connection: &Connection,
    session: &SessionId,
    holder: &str,
    until: Millis,
    now: Millis,
) -> Result<Lease, StoreError> {
    let key = key(connection, session)?;
    let held: Option<(String, u64)> = connection
        .prepare_cached("SELECT holder, until FROM lease WHERE session = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let is_ours = match held {
        Some((other, until)) if other != holder && until > now.0 => {
            return Err(StoreError::Leased { session: session.clone(), holder: other, until: Millis(until) });
        }
        Some((other, _)) => other == holder,
        None => false,
    };
    connection
        .prepare_cached(
            "INSERT INTO lease (session, holder, until) VALUES (?1, ?2, ?3)
             ON CONFLICT (session) DO UPDATE SET holder = ?2, until = ?3",
        )?
        .execute(params![key, holder, until.0])?;
    let interrupted = if is_ours { 0 } else { settle(connection, session, key, now)? };
    let epoch = if is_ours { epoch(connection, key)? } else { next_epoch(connection, key)? };
    Ok(Lease { session: session.clone(), holder: holder.to_owned(), epoch, until, interrupted })
}

fn epoch(connection: &Connection, key: i64) -> Result<Epoch, StoreError> {
    let mut statement = connection.prepare_cached("SELECT epoch FROM session WHERE key = ?1")?;
    Ok(Epoch(statement.query_row([key], |row| row.get(0))?))
}

/// Move a session to its next epoch: whoever wrote in the one before is refused from now on.
fn next_epoch(connection: &Connection, key: i64) -> Result<Epoch, StoreError> {
    let mut statement =
        connection.prepare_cached("UPDATE session SET epoch = epoch + 1 WHERE key = ?1 RETURNING epoch")?;
    Ok(Epoch(statement.query_row([key], |row| row.get(0))?))
}

/// Give the right back. A lease that was taken over meanwhile, or went with its session, is not the caller's any
/// more; that is no error.
pub(crate) fn release(connection: &Connection, lease: &Lease) -> Result<(), StoreError> {
    let key = match key(connection, &lease.session) {
        Err(StoreError::Missing { .. }) => return Ok(()),
        found => found?,
    };
    if epoch(connection, key)? != lease.epoch {
        return Ok(());
    }
    let given = connection.prepare_cached("DELETE FROM lease WHERE session = ?1")?.execute([key])?;
    if given > 0 {
        next_epoch(connection, key)?;
    }
    Ok(())
}

/// Mark calls that nobody will answer as interrupted.
fn settle(connection: &Connection, session: &SessionId, key: i64, now: Millis) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM part INDEXED BY part_open WHERE session = ?1 AND status IN ('pending', 'running')",
    )?;
    let open = statement.query_map([key], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    for id in &open {
        let mut part = read::part(connection, session, &PartId::new(id.as_str()))?;
        let PartBody::Tool(tool) = &mut part.body else { continue };
        let state = &mut tool.state;
        state.status = ToolStatus::Error;
        state.error = Some(Text::from(crate::INTERRUPTED));
        state.time = plimsoll::log::ToolTime::ran(state.time.start.unwrap_or(now), now);
        update_part(connection, key, &part)?;
    }
    Ok(open.len() as u64)
}

/// Remove a session, its tasks, and whatever of the sessions it was forked from only it still needed. What a fork
/// of it needs stays.
pub(crate) fn remove(connection: &Connection, claim: &Claim, now: Millis) -> Result<(), StoreError> {
    claimed_key(connection, claim)?;
    remove_tree(connection, &claim.session, now)
}

fn remove_tree(connection: &Connection, session: &SessionId, now: Millis) -> Result<(), StoreError> {
    let key = key(connection, session)?;
    let mut statement =
        connection.prepare_cached("SELECT id FROM session WHERE parent = ?1 AND removed IS NULL")?;
    let tasks = statement
        .query_map([session.as_str()], |row| row.get::<_, String>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    for task in tasks {
        remove_tree(connection, &SessionId::new(task), now)?;
    }
    connection.prepare_cached("UPDATE session SET removed = ?2 WHERE key = ?1")?.execute((key, now.0))?;
    connection.prepare_cached("DELETE FROM lease WHERE session = ?1")?.execute([key])?;
    sweep(connection, key)
}

/// Delete a removed session that no fork needs, and then perhaps the one it was forked from.
fn sweep(connection: &Connection, key: i64) -> Result<(), StoreError> {
    let row = connection
        .prepare_cached("SELECT removed, forked_from FROM session WHERE key = ?1")?
        .query_row([key], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?)))
        .optional()?;
    let Some((Some(_), parent)) = row else { return Ok(()) };
    let needed: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM session WHERE forked_from = ?1)")?
        .query_row([key], |row| row.get(0))?;
    if needed {
        return Ok(());
    }
    unindex(connection, key)?;
    for table in ["part", "message", "mark", "compaction", "receipt", "spill", "searched"] {
        connection.prepare_cached(&format!("DELETE FROM {table} WHERE session = ?1"))?.execute([key])?;
    }
    connection.prepare_cached("DELETE FROM session WHERE key = ?1")?.execute([key])?;
    parent.map_or(Ok(()), |parent| sweep(connection, parent))
}

/// Take a session's texts out of the search index.
fn unindex(connection: &Connection, key: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "DELETE FROM search WHERE rowid IN (SELECT p.seq FROM part p JOIN searched d ON d.session = p.session
             WHERE p.session = ?1 AND p.seq <= d.upto)",
        )?
        .execute([key])?;
    Ok(())
}
