//! Tasks, as rows.

use plimsoll::{Millis, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::chain::key;
use super::feed::Changed;
use super::rows::integer;
use crate::error::StoreError;
use crate::store::{ChangeKind, NewTask, TaskFilter, TaskMove, TaskRecord};

const COLUMNS: &str = "t.id, s.id, t.runs_in, t.status, t.data, t.created, t.updated
    FROM task t JOIN session s ON s.key = t.session";

fn record_of(row: &Row<'_>) -> Result<TaskRecord, StoreError> {
    Ok(TaskRecord {
        id: row.get(0)?,
        parent: SessionId::new(row.get::<_, String>(1)?),
        session: row.get::<_, Option<String>>(2)?.map(SessionId::new),
        status: row.get(3)?,
        data: serde_json::from_str(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?)?,
        created: Millis(row.get(5)?),
        updated: Millis(row.get(6)?),
    })
}

/// Returns a task.
pub(crate) fn task(connection: &Connection, id: &str) -> Result<TaskRecord, StoreError> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} WHERE t.id = ?1 AND s.removed IS NULL"))?;
    let mut rows = statement.query([id])?;
    rows.next()?.map(record_of).unwrap_or_else(|| Err(StoreError::missing("task", id)))
}

/// Creates a task.
pub(crate) fn put(connection: &Connection, new: &NewTask, now: Millis) -> Result<TaskRecord, StoreError> {
    if new.id.is_empty() {
        return Err(StoreError::Refused("a task needs an id".into()));
    }
    match task(connection, &new.id) {
        Err(StoreError::Missing { .. }) => {}
        Ok(there) if there.was_begun_as(new) => return Ok(there),
        Ok(_) => return Err(StoreError::duplicate("task", &new.id)),
        Err(error) => return Err(error),
    }
    let key = key(connection, &new.parent)?;
    connection
        .prepare_cached(
            "INSERT INTO task (id, session, runs_in, status, data, created, updated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        )?
        .execute(params![
            new.id,
            key,
            new.session.as_ref().map(SessionId::as_str),
            new.status,
            serde_json::to_string(&new.data)?,
            integer(now.0)
        ])?;
    Changed { key, session: &new.parent, now }.note(connection, ChangeKind::Task, None, None)?;
    task(connection, &new.id)
}

/// Tasks, oldest first.
pub(crate) fn tasks(connection: &Connection, filter: &TaskFilter) -> Result<Vec<TaskRecord>, StoreError> {
    let parent = filter.parent.as_ref().map(|parent| key(connection, parent)).transpose()?;
    let after: i64 = match &filter.after {
        Some(id) => connection
            .prepare_cached("SELECT seq FROM task WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?
            .ok_or_else(|| StoreError::missing("task", id))?,
        None => 0,
    };
    // One statement per case, so that each uses an index.
    let only = match (parent, &filter.status) {
        (Some(_), Some(_)) => "t.session = ?1 AND t.status = ?2",
        (Some(_), None) => "t.session = ?1 AND ?2 IS NULL",
        (None, Some(_)) => "?1 IS NULL AND t.status = ?2",
        (None, None) => "?1 IS NULL AND ?2 IS NULL",
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} WHERE {only} AND t.seq > ?3 AND s.removed IS NULL ORDER BY t.seq LIMIT ?4"
    ))?;
    let most = if filter.most == 0 { 100 } else { filter.most };
    let mut rows = statement.query(params![parent, filter.status, after, integer(most)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(record_of(row)?);
    }
    Ok(found)
}

/// Changes a task.
pub(crate) fn step(
    connection: &Connection,
    id: &str,
    step: &TaskMove,
    now: Millis,
) -> Result<TaskRecord, StoreError> {
    if let Some(claim) = &step.under {
        super::chain::claimed_key(connection, claim)?;
    }
    let there = task(connection, id)?;
    if there.was_moved_by(step) {
        return Ok(there);
    }
    if !there.can_move_by(step) {
        return Err(StoreError::TaskMoved { task: id.to_owned(), status: there.status });
    }
    let data = step.data.as_ref().map(serde_json::to_string).transpose()?;
    connection
        .prepare_cached(
            "UPDATE task SET status = ?2, runs_in = coalesce(?3, runs_in), data = coalesce(?4, data),
             updated = max(updated, ?5) WHERE id = ?1",
        )?
        .execute(params![id, step.to, step.session.as_ref().map(SessionId::as_str), data, integer(now.0)])?;
    let key = key(connection, &there.parent)?;
    Changed { key, session: &there.parent, now }.note(connection, ChangeKind::Task, None, None)?;
    for (session, note) in &step.notes {
        match super::inbox::send(connection, session, note, now) {
            Ok(()) | Err(StoreError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    task(connection, id)
}
