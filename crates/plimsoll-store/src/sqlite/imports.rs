//! Imports on SQLite. A staged conversation is a session that is marked as removed and listed in `staged`; storing the
//! import gives it its id and clears the mark. Nothing is copied, so the last transaction is small however large the
//! import is. Only an existing session is extended row by row.

use plimsoll::{MessageId, Millis, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::chain::Chain;
use super::feed::Changed;
use super::position::Position;
use super::read::{self, Detail};
use super::{advance, append, leases, pivots, sessions};
use crate::error::StoreError;
use crate::store::{ChangeKind, Conversation, Import, ImportRecord, Imported, NewSession, StagedPiece};

const RECORD: &str = "SELECT s.id, r.id, i.source, i.conversation, i.state, s.messages <> i.taken
     FROM import i JOIN session s ON s.key = i.session JOIN session r ON r.key = i.root";

fn record_of(row: &Row<'_>) -> rusqlite::Result<ImportRecord> {
    Ok(ImportRecord {
        session: SessionId::new(row.get::<_, String>(0)?),
        root: SessionId::new(row.get::<_, String>(1)?),
        source: row.get(2)?,
        conversation: row.get(3)?,
        state: row.get(4)?,
        is_continued: row.get(5)?,
    })
}

/// Records of the imports from a source, oldest first.
pub(super) fn of_source(connection: &Connection, source: &str) -> Result<Vec<ImportRecord>, StoreError> {
    let mut statement =
        connection.prepare_cached(&format!("{RECORD} WHERE i.source = ?1 ORDER BY i.root, i.session"))?;
    Ok(statement.query_map([source], record_of)?.collect::<Result<_, _>>()?)
}

/// Records of the import of a session and its sub-agents.
pub(super) fn of_session(
    connection: &Connection,
    session: &SessionId,
) -> Result<Vec<ImportRecord>, StoreError> {
    let mut statement = connection.prepare_cached(&format!("{RECORD} WHERE r.id = ?1 ORDER BY i.session"))?;
    Ok(statement.query_map([session.as_str()], record_of)?.collect::<Result<_, _>>()?)
}

/// Records that a reduction added messages to a session. They do not count as continuing it.
pub(super) fn note_reduction(
    connection: &Connection,
    session: i64,
    messages: usize,
) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE import SET taken = taken + ?2 WHERE session = ?1")?
        .execute(params![session, messages])?;
    Ok(())
}

/// Stages messages.
pub(super) fn stage(connection: &Connection, piece: &StagedPiece, now: Millis) -> Result<(), StoreError> {
    let found = staged(connection, &piece.stage, piece.conversation)?;
    let (key, count) = match found {
        Some(found) => found,
        None => {
            let id = SessionId::new(format!("{}/{}", piece.stage, piece.conversation));
            let key = sessions::insert_session(connection, &NewSession::new(id), now)?;
            connection
                .prepare_cached("UPDATE session SET removed = ?2 WHERE key = ?1")?
                .execute((key, now.0))?;
            connection
                .prepare_cached(
                    "INSERT INTO staged (session, stage, conversation, touched) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![key, piece.stage, piece.conversation, now.0])?;
            (key, 0)
        }
    };
    if count != piece.after {
        return Err(swept(&piece.stage));
    }
    connection
        .prepare_cached("UPDATE staged SET touched = ?2 WHERE stage = ?1")?
        .execute(params![piece.stage, now.0])?;
    let chain = Chain::of_key(connection, key)?;
    append::insert_in_revision(connection, &chain, end(connection, key)?, &piece.messages, 0, now).map(drop)
}

/// Returns the key of a staged conversation, and its number of messages.
fn staged(
    connection: &Connection,
    stage: &str,
    conversation: usize,
) -> Result<Option<(i64, u64)>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT s.key, s.messages FROM staged d JOIN session s ON s.key = d.session
         WHERE d.stage = ?1 AND d.conversation = ?2",
    )?;
    Ok(statement.query_row(params![stage, conversation], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

fn swept(stage: &str) -> StoreError {
    StoreError::Refused(format!("the stage `{stage}` no longer exists; import again"))
}

fn end(connection: &Connection, key: i64) -> Result<Position, StoreError> {
    let mut statement = connection.prepare_cached("SELECT last_at, last_id FROM session WHERE key = ?1")?;
    Ok(statement.query_row([key], |row| Position::read(row, 0))?)
}

/// Stores an import.
pub(super) fn import(connection: &Connection, import: &Import, now: Millis) -> Result<Imported, StoreError> {
    if let Some(known) = &import.known {
        let mut roots: Vec<SessionId> =
            of_source(connection, &import.source)?.into_iter().map(|record| record.root).collect();
        roots.dedup();
        if roots != *known {
            return Ok(Imported::Outdated);
        }
    }
    // All checks come before anything is written: the transaction may be shared with other callers.
    let mut before = Vec::new();
    for conversation in &import.conversations {
        let old = match &conversation.before {
            None => None,
            Some(state) => match existing(connection, conversation, state, now)? {
                Ok(key) => Some(key),
                Err(refused) => return Ok(refused),
            },
        };
        before.push(old);
    }
    let mut root = None;
    for (place, (conversation, old)) in import.conversations.iter().zip(before).enumerate() {
        let key = match old {
            Some(key) => key,
            None => begin(connection, import, place, conversation)?,
        };
        let root = *root.get_or_insert(key);
        add(connection, key, conversation)?;
        if old.is_none() {
            note(connection, key, conversation, ChangeKind::Created)?;
        }
        connection
            .prepare_cached(
                "INSERT INTO import (session, root, source, conversation, state, taken)
                 SELECT ?1, ?2, ?3, ?4, ?5, messages FROM session WHERE key = ?1
                 ON CONFLICT (session) DO UPDATE SET state = ?5, taken = excluded.taken",
            )?
            .execute(params![key, root, import.source, conversation.conversation, conversation.state])?;
    }
    Ok(Imported::Stored)
}

/// Returns the key of a session to extend, or why it is not extended.
fn existing(
    connection: &Connection,
    conversation: &Conversation,
    state: &str,
    now: Millis,
) -> Result<Result<i64, Imported>, StoreError> {
    let id = &conversation.session.id;
    let found: Option<(i64, String, bool)> = connection
        .prepare_cached(
            "SELECT s.key, i.state, s.messages <> i.taken FROM import i JOIN session s ON s.key = i.session
             WHERE s.id = ?1 AND s.removed IS NULL",
        )?
        .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((key, _, _)) = found.filter(|(_, found, is_continued)| found == state && !is_continued) else {
        return Ok(Err(Imported::Outdated));
    };
    if conversation.grown.is_none() && conversation.messages.is_empty() {
        return Ok(Ok(key));
    }
    // Checked last: a session that gains nothing may be run by another process meanwhile.
    leases::require_free(connection, id, key, now)?;
    if let Some(grown) = &conversation.grown {
        let chain = Chain::of_key(connection, key)?;
        let place = place_of(connection, &chain, &grown.message.info.id)?;
        match advance::unshared(connection, &chain, place, id.as_str()) {
            Err(StoreError::Refused(_)) => return Ok(Err(Imported::Shared)),
            unshared => unshared.map(drop)?,
        }
    }
    Ok(Ok(key))
}

/// Creates a session from its staged messages, if there are any.
fn begin(
    connection: &Connection,
    import: &Import,
    place: usize,
    conversation: &Conversation,
) -> Result<i64, StoreError> {
    let new = &conversation.session;
    let found = match &import.stage {
        Some(stage) => staged(connection, stage, place)?,
        None => None,
    };
    let Some((key, count)) = found else {
        if conversation.staged > 0 {
            return Err(swept(import.stage.as_deref().unwrap_or_default()));
        }
        let key = sessions::insert_session(connection, new, conversation.created)?;
        connection
            .prepare_cached("UPDATE session SET updated = ?2 WHERE key = ?1")?
            .execute((key, conversation.updated.0))?;
        return Ok(key);
    };
    // A sweep may have removed part of the stage, and a session with a gap must not appear.
    if count != conversation.staged {
        return Err(swept(import.stage.as_deref().unwrap_or_default()));
    }
    if sessions::is_known(connection, &new.id)? {
        return Err(StoreError::duplicate("session", &new.id));
    }
    connection
        .prepare_cached(
            "UPDATE session SET id = ?2, parent = ?3, title = ?4, agent = ?5, model = coalesce(model, ?6),
             directory = ?7, version = ?8, created = ?9, updated = ?10, tool = ?11, context = ?12,
             removed = NULL WHERE key = ?1",
        )?
        .execute(params![
            key,
            new.id.as_str(),
            new.parent.as_ref().map(SessionId::as_str),
            new.title,
            new.agent,
            new.model,
            new.directory,
            new.version,
            conversation.created.0,
            conversation.updated.0,
            new.tool,
            new.context_column()
        ])?;
    connection.prepare_cached("DELETE FROM staged WHERE session = ?1")?.execute([key])?;
    Ok(key)
}

/// Extends a session by an import.
fn add(connection: &Connection, key: i64, conversation: &Conversation) -> Result<(), StoreError> {
    let new = &conversation.session;
    if conversation.before.is_some() {
        connection
            .prepare_cached(
                "UPDATE session SET tool = coalesce(?2, tool), context = coalesce(?3, context) WHERE key = ?1",
            )?
            .execute(params![key, new.tool, new.context_column()])?;
    }
    let brings_nothing = conversation.grown.is_none() && conversation.messages.is_empty();
    if conversation.before.is_some() && brings_nothing {
        return Ok(());
    }
    let chain = Chain::of_key(connection, key)?;
    if conversation.before.is_some() {
        // Starts a new epoch, as if the lease had been taken and released: a former holder must not write, because it
        // has not seen what is added here.
        leases::next_epoch(connection, key)?;
    }
    if let Some(grown) = &conversation.grown {
        grow(connection, &chain, grown, conversation.updated)?;
    }
    append::insert_in_revision(
        connection,
        &chain,
        end(connection, key)?,
        &conversation.messages,
        0,
        conversation.updated,
    )?;
    if conversation.before.is_some() {
        note(connection, key, conversation, ChangeKind::Imported)?;
    }
    Ok(())
}

/// Adds one change to the feed, however many messages the import has: a reader looks at the session anyway, and 100,000
/// rows would push out the changes of others.
fn note(
    connection: &Connection,
    key: i64,
    conversation: &Conversation,
    kind: ChangeKind,
) -> Result<(), StoreError> {
    let changed = Changed { key, session: &conversation.session.id, now: conversation.updated };
    changed.note(connection, kind, None, None)
}

/// Extends a message. If a take-over marked it as interrupted meanwhile, the source wins.
fn grow(
    connection: &Connection,
    chain: &Chain,
    grown: &crate::store::GrownMessage,
    now: Millis,
) -> Result<(), StoreError> {
    let key = chain.own();
    let place = place_of(connection, chain, &grown.message.info.id)?;
    let old = read::one(connection, chain, &place.id, Detail::Outline)?;
    let old = old.ok_or_else(|| StoreError::missing("message", &place.id))?;
    advance::update_info(connection, key, &place, &grown.message)?;
    for (ord, part) in &grown.parts {
        if *ord < old.parts.len() {
            advance::update_part(connection, key, part)?;
        } else {
            append::insert_part(connection, chain, &place, *ord, part)?;
            append::count_parts(connection, key, 1)?;
        }
    }
    // The usage of the unfinished message is already in the totals.
    advance::recount(connection, key, &old.info, &grown.message.info)?;
    // Read again, because a summary that was empty before may be complete with its new parts.
    match read::one(connection, chain, &place.id, Detail::Whole)? {
        Some(message) => pivots::note_pivot(connection, chain, &message, &place, now),
        None => Ok(()),
    }
}

fn place_of(connection: &Connection, chain: &Chain, id: &MessageId) -> Result<Position, StoreError> {
    let found = chain.find(connection, id.as_str())?;
    found.map(|(_, place)| place).ok_or_else(|| StoreError::missing("message", id))
}

/// Deletes some staged messages. Returns whether there may be more.
pub(super) fn unstage_some(connection: &Connection, stage: &str) -> Result<bool, StoreError> {
    let key: Option<i64> = connection
        .prepare_cached("SELECT session FROM staged WHERE stage = ?1 LIMIT 1")?
        .query_row([stage], |row| row.get(0))
        .optional()?;
    let Some(key) = key else { return Ok(false) };
    sessions::sweep_some(connection, key)?;
    Ok(true)
}

/// Stages without a new piece since `before`.
pub(super) fn stages_before(connection: &Connection, before: Millis) -> Result<Vec<String>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT stage FROM staged GROUP BY stage HAVING max(touched) < ?1")?;
    Ok(statement.query_map([before.0], |row| row.get(0))?.collect::<Result<_, _>>()?)
}
