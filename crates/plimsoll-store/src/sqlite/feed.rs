//! Revisions and the change feed. A row's number is its position in the order of changes: there is one writer at a
//! time, so rows become visible in the order of their numbers.

use plimsoll::{MessageId, Millis, PartId, SessionId};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::integer;
use crate::error::StoreError;
use crate::store::{Change, ChangeKind, ChangePage, Revision, Sequence};

/// A session that is being changed.
pub(crate) struct Changed<'a> {
    pub(crate) key: i64,
    pub(crate) session: &'a SessionId,
    pub(crate) now: Millis,
}

impl Changed<'_> {
    /// Increments the session's revision.
    pub(crate) fn next_revision(&self, connection: &Connection) -> Result<Revision, StoreError> {
        let mut statement = connection.prepare_cached(
            "UPDATE session SET revision = revision + 1, updated = max(updated, ?2) WHERE key = ?1
             RETURNING revision",
        )?;
        Ok(Revision(statement.query_row((self.key, self.now.0), |row| row.get(0))?))
    }

    /// Increments the session's revision for one change.
    pub(crate) fn note(
        &self,
        connection: &Connection,
        kind: ChangeKind,
        message: Option<&str>,
        part: Option<&str>,
    ) -> Result<(), StoreError> {
        let revision = self.next_revision(connection)?;
        add(connection, self.session, revision, kind, message, part)
    }
}

/// Adds a row to the feed.
pub(crate) fn add(
    connection: &Connection,
    session: &SessionId,
    revision: Revision,
    kind: ChangeKind,
    message: Option<&str>,
    part: Option<&str>,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO change (session, revision, kind, message, part) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![session.as_str(), integer(revision.0), kind.name(), message, part])?;
    Ok(())
}

/// Returns the newest position in the feed.
pub(crate) fn newest(connection: &Connection) -> Result<Sequence, StoreError> {
    let mut statement = connection.prepare_cached("SELECT coalesce(max(sequence), 0) FROM change")?;
    Ok(Sequence(statement.query_row([], |row| row.get(0))?))
}

/// Returns the changes after a position.
pub(crate) fn changes(connection: &Connection, since: Sequence, most: u64) -> Result<ChangePage, StoreError> {
    let first: Option<u64> = connection
        .prepare_cached("SELECT min(sequence) FROM change")?
        .query_row([], |row| row.get(0))
        .optional()?
        .flatten();
    let mut statement = connection.prepare_cached(
        "SELECT sequence, session, revision, kind, message, part FROM change WHERE sequence > ?1
         ORDER BY sequence LIMIT ?2",
    )?;
    let most = if most == 0 { 1_000 } else { most };
    let mut rows = statement.query((integer(since.0), integer(most)))?;
    let mut changes = Vec::new();
    let mut next = since;
    while let Some(row) = rows.next()? {
        next = Sequence(row.get(0)?);
        let kind = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
        // A kind that a later version added means nothing to this one.
        let Some(kind) = ChangeKind::named(kind) else { continue };
        changes.push(Change {
            sequence: next,
            session: SessionId::new(row.get::<_, String>(1)?),
            revision: Revision(row.get(2)?),
            kind,
            message: row.get::<_, Option<String>>(4)?.map(MessageId::new),
            part: row.get::<_, Option<String>>(5)?.map(PartId::new),
        });
    }
    Ok(ChangePage { changes, next, gap: first.is_some_and(|first| first > since.0.saturating_add(1)) })
}

/// Deletes the oldest rows until `keep` are left, at most `most` at a time. The newest row always stays, because new
/// numbers continue from it.
pub(crate) fn trim(connection: &Connection, keep: u64, most: u64) -> Result<u64, StoreError> {
    let deleted = connection
        .prepare_cached(
            "DELETE FROM change WHERE sequence IN (SELECT sequence FROM change
             WHERE sequence <= (SELECT max(sequence) FROM change) - ?1 ORDER BY sequence LIMIT ?2)",
        )?
        .execute((integer(keep.max(1)), integer(most)))?;
    Ok(deleted as u64)
}
