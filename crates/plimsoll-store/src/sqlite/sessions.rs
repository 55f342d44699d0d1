//! Whole sessions: created, forked, removed. Everything here runs in a transaction of the writer.

use plimsoll::{LogError, MessageId, Millis, SessionId};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};

use super::chain::{Chain, claimed_key};
use super::feed::Changed;
use super::leases::{self, settle};
use super::position::Position;
use super::spills;
use super::{append, read, search};
use crate::error::StoreError;
use crate::store::{ChangeKind, Claim, NewSession, Session, SessionPatch};

/// Creates a session.
pub(crate) fn create(connection: &Connection, new: &NewSession, now: Millis) -> Result<Session, StoreError> {
    if let Some(there) = same_session(connection, new, None, now)? {
        return Ok(there);
    }
    let key = insert_session(connection, new, now)?;
    begin(connection, key, new, now)
}

/// Returns the session with that id if the same call created it: then the call was repeated.
fn same_session(
    connection: &Connection,
    new: &NewSession,
    parent: Option<&SessionId>,
    now: Millis,
) -> Result<Option<Session>, StoreError> {
    match read::session(connection, &new.id) {
        Ok(there) => Ok(Some(there).filter(|there| there.was_begun_as(new, parent, now))),
        Err(StoreError::Missing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn insert_session(
    connection: &Connection,
    new: &NewSession,
    now: Millis,
) -> Result<i64, StoreError> {
    if new.id.is_empty() {
        return Err(StoreError::Refused("a session needs an id; create one with `Ids`".into()));
    }
    if is_known(connection, &new.id)? {
        return Err(StoreError::Log(LogError::Duplicate { kind: "session", id: new.id.to_string() }));
    }
    connection
        .prepare_cached(
            "INSERT INTO session (id, parent, title, agent, model, directory, created, updated, version, tool, context)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            new.id.as_str(),
            new.parent.as_ref().map(SessionId::as_str),
            new.title,
            new.agent,
            new.model,
            new.directory,
            now.0,
            new.version,
            new.tool,
            new.context_column()
        ])?;
    let key = connection.last_insert_rowid();
    set_settings(connection, key, &new.settings)?;
    Ok(key)
}

/// Replaces the settings of a session.
fn set_settings(connection: &Connection, key: i64, settings: &Map<String, Value>) -> Result<(), StoreError> {
    if settings.is_empty() {
        connection.prepare_cached("DELETE FROM setting WHERE session = ?1")?.execute([key])?;
        return Ok(());
    }
    let data = Value::Object(settings.clone()).to_string();
    connection
        .prepare_cached(
            "INSERT INTO setting (session, data) VALUES (?1, ?2)
             ON CONFLICT (session) DO UPDATE SET data = excluded.data",
        )?
        .execute(params![key, data])?;
    Ok(())
}

/// Whether a session with that id exists, or was removed while a fork needs it.
pub(super) fn is_known(connection: &Connection, id: &SessionId) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM session WHERE id = ?1)")?;
    Ok(statement.query_row([id.as_str()], |row| row.get(0))?)
}

/// Changes a session's metadata.
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
             model = coalesce(?4, model) WHERE key = ?1",
        )?
        .execute(params![key, patch.title, patch.agent, patch.model])?;
    if let Some(settings) = &patch.settings {
        set_settings(connection, key, settings)?;
    }
    let changed = Changed { key, session: &claim.session, now };
    changed.note(connection, ChangeKind::Patched, None, None)?;
    read::session(connection, &claim.session)
}

/// Forks a session after a message, or before the first that is still being written. Nothing is copied.
pub(crate) fn fork(
    connection: &Connection,
    parent: &SessionId,
    upto: Option<&MessageId>,
    child: &NewSession,
    now: Millis,
) -> Result<Session, StoreError> {
    if let Some(there) = same_session(connection, child, Some(parent), now)? {
        return Ok(there);
    }
    let (chain, end) = Chain::with_end(connection, parent)?;
    // What is shared must not change any more: otherwise the child would see it change, or the parent would have to
    // stop. So nothing that is still being written is shared.
    let open = first_open(connection, &chain)?;
    let point = match upto {
        Some(id) => {
            let found = chain.find(connection, id.as_str())?;
            let place = found.map(|(_, place)| place).ok_or_else(|| StoreError::missing("message", id))?;
            if let Some(open) = open.filter(|open| *open <= place) {
                return Err(crate::still_written(&MessageId::new(open.id), id));
            }
            place
        }
        None => match open {
            Some(open) => before(connection, &chain, &open)?,
            None => end,
        },
    };
    let key = insert_session(connection, child, now)?;
    // The parent's own rows stay as long as there are forks, so later ones have higher numbers than these. Numbers of
    // other sessions are reused after those are removed.
    connection
        .prepare_cached(
            "UPDATE session SET forked_from = ?2, fork_at = ?3, fork_id = ?4, last_at = ?3, last_id = ?4,
             tool = coalesce(tool, (SELECT tool FROM session WHERE key = ?2)),
             context = coalesce(context, (SELECT context FROM session WHERE key = ?2)),
             fork_mark = (SELECT coalesce(max(seq), 0) FROM mark WHERE session = ?2),
             fork_compaction = (SELECT coalesce(max(seq), 0) FROM compaction WHERE session = ?2) WHERE key = ?1",
        )?
        .execute(params![key, chain.own(), point.time, point.id])?;
    begin(connection, key, child, now)
}

/// Appends the first messages of a new session, all in its first revision.
fn begin(connection: &Connection, key: i64, new: &NewSession, now: Millis) -> Result<Session, StoreError> {
    if !new.messages.is_empty() {
        let (chain, end) = Chain::with_end(connection, &new.id)?;
        append::insert_in_revision(connection, &chain, end, &new.messages, 0, now)?;
    }
    let changed = Changed { key, session: &new.id, now };
    changed.note(connection, ChangeKind::Created, None, None)?;
    read::session(connection, &new.id)
}

/// Returns the first message that is still being written: an incomplete answer, or one with an open call.
fn first_open(connection: &Connection, chain: &Chain) -> Result<Option<Position>, StoreError> {
    let mut first: Option<Position> = None;
    for segment in &chain.0 {
        for sql in [
            "SELECT at, id FROM message INDEXED BY message_open WHERE session = ?1 AND is_open = 1",
            "SELECT at, message FROM part INDEXED BY part_open
             WHERE session = ?1 AND status IN ('pending', 'running')",
        ] {
            let mut statement = connection.prepare_cached(sql)?;
            let places = statement.query_map([segment.key], |row| Position::read(row, 0))?;
            for place in places {
                let place: Position = place?;
                if segment.holds(&place) {
                    first = first.into_iter().chain([place]).min();
                }
            }
        }
    }
    Ok(first)
}

/// Returns the position of the last message before another; the start if there is none.
fn before(connection: &Connection, chain: &Chain, place: &Position) -> Result<Position, StoreError> {
    for segment in chain.0.iter().rev() {
        let mut statement = connection.prepare_cached(
            "SELECT at, id FROM message WHERE session = ?1 AND (at, id) < (?2, ?3) AND (at, id) <= (?4, ?5)
             ORDER BY at DESC, id DESC LIMIT 1",
        )?;
        let end = segment.upto.as_ref().unwrap_or(place);
        let found = statement
            .query_row(params![segment.key, place.time, place.id, end.time, end.id], |row| {
                Position::read(row, 0)
            })
            .optional()?;
        if let Some(found) = found {
            return Ok(found);
        }
    }
    Ok(Position::new(0, ""))
}

/// Removes a session, its tasks, and whatever only it needed of the sessions it was forked from. What its forks need
/// stays. Returns the sessions with rows left to delete, for [`sweep_some`].
///
/// A running task is not removed under its holder: `clock` decides whose leases have expired.
pub(crate) fn remove(
    connection: &Connection,
    claim: &Claim,
    now: Millis,
    clock: Millis,
) -> Result<Vec<i64>, StoreError> {
    let key = claimed_key(connection, claim)?;
    let mut left = Vec::new();
    remove_tree(connection, &claim.session, key, (now, clock), &mut left)?;
    Ok(left)
}

fn remove_tree(
    connection: &Connection,
    session: &SessionId,
    key: i64,
    (now, clock): (Millis, Millis),
    left: &mut Vec<i64>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT s.key, s.id, l.holder, l.until FROM session s LEFT JOIN lease l ON l.session = s.key
         AND l.until > ?2 WHERE s.parent = ?1 AND s.removed IS NULL",
    )?;
    let tasks = statement.query_map(params![session.as_str(), clock.0], |row| {
        let held = row.get::<_, Option<String>>(2)?.zip(row.get::<_, Option<u64>>(3)?.map(Millis));
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, held))
    })?;
    for (key, task, held) in tasks.collect::<Result<Vec<_>, _>>()? {
        let task = SessionId::new(task);
        if let Some((holder, until)) = leases::living(held) {
            return Err(StoreError::Leased { session: task, holder, until, now: clock });
        }
        remove_tree(connection, &task, key, (now, clock), left)?;
    }
    // Forks may keep part of the log. In databases of older versions, that part can include an open call.
    settle(connection, key, now)?;
    connection.prepare_cached("UPDATE session SET removed = ?2 WHERE key = ?1")?.execute((key, now.0))?;
    for table in ["lease", "note", "task", "import"] {
        connection.prepare_cached(&format!("DELETE FROM {table} WHERE session = ?1"))?.execute([key])?;
    }
    let changed = Changed { key, session, now };
    changed.note(connection, ChangeKind::Removed, None, None)?;
    left.extend(sweep_some(connection, key)?);
    Ok(())
}

/// Number of rows of a removed session that are deleted in one transaction.
const STEP: usize = 1_000;
/// Number of characters that are deleted in one transaction: long rows take many pages.
const STEP_CHARS: i64 = 2_000_000;

/// Deletes some rows of a removed session that no other needs, and then possibly those that only it needed: of the
/// session it was forked from, and of the one that started it, whose content its digest may name. Returns the sessions
/// with rows left. Deleting 137 MB at once would hold the writer for that long.
pub(super) fn sweep_some(connection: &Connection, key: i64) -> Result<Vec<i64>, StoreError> {
    let row = connection
        .prepare_cached(
            "SELECT s.removed, s.forked_from, (SELECT p.key FROM session p WHERE p.id = s.parent),
             s.id = 'removed/' || s.key FROM session s WHERE s.key = ?1",
        )?
        .query_row([key], |row| {
            let before: [Option<i64>; 2] = [row.get(1)?, row.get(2)?];
            Ok((row.get::<_, Option<i64>>(0)?, before, row.get::<_, bool>(3)?))
        })
        .optional()?;
    let Some((Some(removed), before, is_begun)) = row else { return Ok(Vec::new()) };
    if is_needed(connection, key)? {
        return Ok(Vec::new());
    }
    if !is_begun {
        // Once per session, before its first rows go: it decides by the size of the session.
        search::forget_session(connection, key)?;
        // Its id is free from here on, even if the process dies before the last row is deleted.
        connection
            .prepare_cached("UPDATE session SET id = 'removed/' || key WHERE key = ?1")?
            .execute([key])?;
    }
    let Some(parts) = delete_parts(connection, key)? else { return Ok(vec![key]) };
    let mut room = STEP - parts;
    for table in ["mark", "receipt", "compaction"] {
        let rows = format!("SELECT seq FROM {table} WHERE session = ?1 LIMIT ?2");
        let delete = format!("DELETE FROM {table} WHERE seq IN ({rows})");
        room -= connection.prepare_cached(&delete)?.execute(params![key, room])?;
    }
    let messages = connection
        .prepare_cached(
            "DELETE FROM message WHERE (session, at, id) IN
             (SELECT session, at, id FROM message WHERE session = ?1 LIMIT ?2)",
        )?
        .execute(params![key, room])?;
    // A check compares the count with the rows, also in a session whose removal was interrupted.
    connection
        .prepare_cached("UPDATE session SET messages = messages - ?2 WHERE key = ?1")?
        .execute(params![key, messages])?;
    if room == messages {
        return Ok(vec![key]);
    }
    spills::remove(connection, key, Millis(u64::try_from(removed).unwrap_or_default()))?;
    for table in ["searched", "staged", "setting"] {
        connection.prepare_cached(&format!("DELETE FROM {table} WHERE session = ?1"))?.execute([key])?;
    }
    connection.prepare_cached("DELETE FROM session WHERE key = ?1")?.execute([key])?;
    let mut left = Vec::new();
    for before in before.into_iter().flatten() {
        left.extend(sweep_some(connection, before)?);
    }
    Ok(left)
}

/// Whether another session was forked from this one or started by it.
fn is_needed(connection: &Connection, key: i64) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM session WHERE forked_from = ?1)
         OR EXISTS (SELECT 1 FROM session WHERE parent = (SELECT id FROM session WHERE key = ?1) AND key <> ?1)",
    )?;
    Ok(statement.query_row([key], |row| row.get(0))?)
}

/// Deletes some parts of a session, and their entries in the search index. Returns their number, or `None` if there may
/// be more.
fn delete_parts(connection: &Connection, key: i64) -> Result<Option<usize>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, chars + input_chars FROM part INDEXED BY part_order WHERE session = ?1 LIMIT ?2",
    )?;
    let mut rows = statement.query(params![key, STEP])?;
    let (mut parts, mut size): (Vec<i64>, i64) = (Vec::new(), 0);
    while size < STEP_CHARS
        && let Some(row) = rows.next()?
    {
        parts.push(row.get(0)?);
        size = size.saturating_add(row.get(1)?);
    }
    drop(rows);
    let indexed: i64 = connection
        .prepare_cached("SELECT coalesce((SELECT upto FROM searched WHERE session = ?1), 0)")?
        .query_row([key], |row| row.get(0))?;
    let mut stale = 0;
    for part in &parts {
        if *part <= indexed {
            stale += 1;
            connection.prepare_cached("DELETE FROM search WHERE rowid = ?1")?.execute([part])?;
        }
        connection.prepare_cached("DELETE FROM delta WHERE part = ?1")?.execute([part])?;
        connection.prepare_cached("DELETE FROM part WHERE seq = ?1")?.execute([part])?;
    }
    if stale > 0 {
        search::note_stale(connection, stale)?;
    }
    Ok((parts.len() < STEP && size < STEP_CHARS).then_some(parts.len()))
}

/// Returns the removed sessions that no other needs: their removal was interrupted. Staged sessions belong to
/// [`imports`](super::imports).
pub(super) fn half_removed(connection: &Connection) -> Result<Vec<i64>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT key FROM session WHERE removed IS NOT NULL AND key NOT IN (SELECT session FROM staged)",
    )?;
    let mut keys = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    let mut needed = Vec::new();
    for key in &keys {
        needed.push(is_needed(connection, *key)?);
    }
    let mut needed = needed.into_iter();
    keys.retain(|_| needed.next() == Some(false));
    Ok(keys)
}
