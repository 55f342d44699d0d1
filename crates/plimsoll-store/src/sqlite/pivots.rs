//! Pivots: recorded when their summary is finished, set aside when their compaction is undone. Everything here runs in
//! a transaction of the writer.

use plimsoll::log::{Info, LogPosition};
use plimsoll::{Message, MessageId, Millis};
use rusqlite::{Connection, OptionalExtension, params};

use super::chain::Chain;
use super::position::Position;
use super::read::{self, Detail};
use super::rows::integer;
use crate::error::StoreError;

/// Records a compaction when its summary is finished and not empty.
pub(super) fn note_pivot(
    connection: &Connection,
    chain: &Chain,
    message: &Message,
    place: &Position,
    now: Millis,
) -> Result<(), StoreError> {
    let inside = message.marker().and_then(|marker| marker.summary.as_ref());
    let marker = if inside.is_some_and(|text| !text.trim().is_empty()) {
        Some((place.clone(), message.clone()))
    } else if message.is_finished_summary() {
        marker_of(connection, chain, message, place)?
    } else {
        None
    };
    let Some((marker_at, marker)) = marker else { return Ok(()) };
    let Some(part) = marker.marker() else { return Ok(()) };
    let noted: bool = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM compaction WHERE session = ?1 AND marker = ?2 AND summary = ?3)",
        )?
        .query_row(params![chain.own(), marker_at.id, place.id], |row| row.get(0))?;
    if noted {
        return Ok(());
    }
    let tail = match &part.tail_start {
        Some(id) => {
            chain.find(connection, id.as_str())?.map(|(_, place)| place).filter(|tail| *tail < marker_at)
        }
        None => None,
    };
    let created = message.info.time.as_ref().and_then(|time| time.completed.or(time.created)).unwrap_or(now);
    let before = read::newest_pivot(connection, chain)?.map(|pivot| pivot.tail.unwrap_or(pivot.marker));
    connection
        .prepare_cached(
            "INSERT INTO compaction (session, marker, marker_at, summary, summary_at, tail, tail_at, messages, tokens,
             created, set_aside, set_aside_after) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            chain.own(),
            marker_at.id,
            marker_at.time,
            place.id,
            place.time,
            tail.as_ref().map(|tail| &tail.id),
            tail.as_ref().map(|tail| tail.time),
            part.messages.map(integer),
            part.tokens.map(integer),
            integer(created.0),
            part.set_aside.as_ref().map(|moment| integer(moment.at.0)),
            part.set_aside.as_ref().and_then(|moment| moment.after.as_ref()).map(MessageId::as_str)
        ])?;
    if part.set_aside.is_some() {
        return Ok(());
    }
    // Everything before the last pivot is already flagged.
    let from = before.unwrap_or_else(Position::start);
    flag(connection, chain, &from, tail.as_ref().unwrap_or(&marker_at), true)
}

/// Returns the marker that a summary answers: its parent, or in logs without parents the preceding user message.
fn marker_of(
    connection: &Connection,
    chain: &Chain,
    summary: &Message,
    place: &Position,
) -> Result<Option<(Position, Message)>, StoreError> {
    let id = match &summary.info.parent_id {
        Some(parent) => Some(parent.to_string()),
        None => connection
            .prepare_cached(
                "SELECT id FROM message WHERE session = ?1 AND (at, id) < (?2, ?3) AND role = 'user'
                 ORDER BY at DESC, id DESC LIMIT 1",
            )?
            .query_row(params![chain.own(), place.time, place.id], |row| row.get::<_, String>(0))
            .optional()?,
    };
    let Some(id) = id else { return Ok(None) };
    let Some((_, marker_at)) = chain.find(connection, &id)? else { return Ok(None) };
    let marker =
        read::one(connection, chain, &id, Detail::Whole)?.filter(|message| message.marker().is_some());
    Ok(marker.map(|marker| (marker_at, marker)))
}

/// Sets whether a summary replaces the session's own messages in a range.
fn flag(
    connection: &Connection,
    chain: &Chain,
    from: &Position,
    before: &Position,
    compacted: bool,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE message SET is_compacted = ?6 WHERE session = ?1 AND (at, id) >= (?2, ?3) AND (at, id) < (?4, ?5)
             AND role <> 'system' AND is_compacted <> ?6",
        )?
        .execute(params![chain.own(), from.time, from.id, before.time, before.id, compacted])?;
    Ok(())
}

/// Records a pivot when a summary is finished and not empty.
pub(super) fn note_summary(
    connection: &Connection,
    chain: &Chain,
    info: &Info,
    place: &Position,
    now: Millis,
) -> Result<(), StoreError> {
    if !info.summary {
        return Ok(());
    }
    let message = read::one(connection, chain, &place.id, Detail::Whole)?;
    match message.filter(Message::is_finished_summary) {
        Some(summary) => note_pivot(connection, chain, &summary, place, now),
        None => Ok(()),
    }
}

/// Sets a pivot aside, for this session and later forks of it.
pub(super) fn set_aside(
    connection: &Connection,
    chain: &Chain,
    marker: &MessageId,
    moment: &LogPosition,
) -> Result<(), StoreError> {
    for segment in chain.0.iter().rev() {
        let copied = connection
            .prepare_cached(
                "INSERT INTO compaction (session, marker, marker_at, summary, summary_at, tail, tail_at, messages,
                 tokens, created, set_aside, set_aside_after)
                 SELECT ?1, marker, marker_at, summary, summary_at, tail, tail_at, messages, tokens, created, ?4, ?5
                 FROM compaction WHERE session = ?2 AND marker = ?3 ORDER BY seq DESC LIMIT 1",
            )?
            .execute(params![
                chain.own(),
                segment.key,
                marker.as_str(),
                moment.at.0,
                moment.after.as_ref().map(MessageId::as_str)
            ])?;
        if copied > 0 {
            break;
        }
    }
    // The pivot that is now in effect determines which messages are replaced.
    let (first, end) = (Position::start(), Position::end());
    match read::newest_pivot(connection, chain)? {
        Some(pivot) => flag(connection, chain, &pivot.tail.unwrap_or(pivot.marker), &end, false),
        None => flag(connection, chain, &first, &end, false),
    }
}
