//! Notes for sessions, as rows.

use plimsoll::{Millis, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::chain::{claimed_key, key};
use super::feed::Changed;
use super::rows::integer;
use crate::error::StoreError;
use crate::store::{ChangeKind, Claim, NewNote, Note};

fn note_of(row: &Row<'_>) -> rusqlite::Result<(String, String, String, u64)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
}

fn parsed((id, kind, data, sent): (String, String, String, u64)) -> Result<Note, StoreError> {
    Ok(Note { id, kind, data: serde_json::from_str(&data)?, sent: Millis(sent) })
}

/// Leaves a note. A taken note is remembered, so that it is not taken twice if it is sent again.
pub(crate) fn send(
    connection: &Connection,
    session: &SessionId,
    note: &NewNote,
    now: Millis,
) -> Result<(), StoreError> {
    let key = key(connection, session)?;
    let data = serde_json::to_string(&note.data)?;
    let there: Option<(String, String)> = connection
        .prepare_cached("SELECT kind, data FROM note WHERE session = ?1 AND id = ?2")?
        .query_row((key, &note.id), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match there {
        Some((kind, there)) if kind == note.kind && there == data => return Ok(()),
        Some(_) => return Err(StoreError::duplicate("note", &note.id)),
        None => {}
    }
    connection
        .prepare_cached("INSERT INTO note (session, id, kind, data, sent) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![key, note.id, note.kind, data, integer(now.0)])?;
    Changed { key, session, now }.note(connection, ChangeKind::Noted, None, None)
}

/// Returns the notes that were not taken yet.
pub(crate) fn notes(
    connection: &Connection,
    session: &SessionId,
    most: u64,
) -> Result<Vec<Note>, StoreError> {
    let key = key(connection, session)?;
    let mut statement = connection.prepare_cached(
        "SELECT id, kind, data, sent FROM note INDEXED BY note_waiting WHERE session = ?1 AND taken IS NULL
         ORDER BY seq LIMIT ?2",
    )?;
    let most = if most == 0 { 100 } else { most };
    let rows = statement.query_map((key, integer(most)), note_of)?;
    rows.map(|row| parsed(row?)).collect()
}

/// Takes notes.
pub(crate) fn take(
    connection: &Connection,
    claim: &Claim,
    ids: &[String],
    now: Millis,
) -> Result<Vec<Note>, StoreError> {
    let key = claimed_key(connection, claim)?;
    let mut taken = Vec::new();
    let mut statement = connection.prepare_cached(
        "UPDATE note SET taken = ?3 WHERE session = ?1 AND id = ?2 AND taken IS NULL RETURNING id, kind, data, sent",
    )?;
    for id in ids {
        let row = statement.query_row(params![key, id, integer(now.0)], note_of).optional()?;
        taken.extend(row.map(parsed).transpose()?);
    }
    if !taken.is_empty() {
        Changed { key, session: &claim.session, now }.note(connection, ChangeKind::Noted, None, None)?;
    }
    Ok(taken)
}
