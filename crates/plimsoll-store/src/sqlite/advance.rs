//! Changes of existing content: parts advance, and metadata of messages is recorded. Everything here runs in a
//! transaction of the writer.

use plimsoll::log::{Info, MessageUpdate};
use plimsoll::{Log, Message, MessageId, Millis, Part, PartId, Text};
use rusqlite::{Connection, OptionalExtension, params};

use super::chain::Chain;
use super::feed::{self, Changed};
use super::pivots::note_summary;
use super::position::Position;
use super::read;
use super::rows::{self, PartRow, integer};
use super::search;
use crate::error::StoreError;
use crate::store::{ChangeKind, Claim, Totals};

/// Returns the position of a message that may be changed: one of the session itself, which no fork shares.
pub(super) fn own_message(
    connection: &Connection,
    chain: &Chain,
    message: &MessageId,
) -> Result<Position, StoreError> {
    match chain.find(connection, message.as_str())? {
        Some((segment, place)) if segment.key == chain.own() => {
            unshared(connection, chain, place, message.as_str())
        }
        Some(_) => Err(crate::inherited(message.as_str())),
        None => Err(StoreError::missing("message", message)),
    }
}

/// Returns the position of the message of a part that may advance.
pub(super) fn own_part(
    connection: &Connection,
    chain: &Chain,
    part: &PartId,
) -> Result<Position, StoreError> {
    let found = chain.find_part(connection, part.as_str())?;
    let (segment, place) = found.ok_or_else(|| StoreError::missing("part", part))?;
    if segment.key != chain.own() {
        return Err(crate::inherited(part.as_str()));
    }
    unshared(connection, chain, place, part.as_str())
}

/// Returns the position, unless a session was forked at it or after it.
pub(super) fn unshared(
    connection: &Connection,
    chain: &Chain,
    place: Position,
    what: &str,
) -> Result<Position, StoreError> {
    let shared: bool = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM session WHERE forked_from = ?1 AND (fork_at, fork_id) >= (?2, ?3))",
        )?
        .query_row(params![chain.own(), place.time, place.id], |row| row.get(0))?;
    if shared { Err(crate::shared(what)) } else { Ok(place) }
}

/// Advances parts: text grows, a call starts, answers or fails.
pub(crate) fn advance_all(
    connection: &Connection,
    claim: &Claim,
    parts: &[Part],
    now: Millis,
) -> Result<(), StoreError> {
    let chain = Chain::claimed(connection, claim)?;
    let changed = Changed { key: chain.own(), session: &claim.session, now };
    let mut revision = None;
    for part in parts {
        let place = own_part(connection, &chain, &part.id)?;
        // The log's rules decide what may change. They are applied to this one part of its message.
        let mut message = read::info(connection, chain.own(), &place)?;
        message.parts.push(read::part(connection, &claim.session, &part.id)?);
        let mut log = Log::from_messages([message]);
        let before = log.part(&part.id)?.clone();
        log.advance(part.clone())?;
        let after = log.part(&part.id)?;
        if *after == before {
            continue;
        }
        update_part(connection, chain.own(), after)?;
        note_summary(connection, &chain, &log[0].info, &place, now)?;
        let revision = match revision {
            Some(revision) => revision,
            None => *revision.insert(changed.next_revision(connection)?),
        };
        let (message, part) = (Some(place.id.as_str()), Some(part.id.as_str()));
        feed::add(connection, &claim.session, revision, ChangeKind::Advanced, message, part)?;
    }
    Ok(())
}

/// Rewrites a part as a whole. Its deltas are no longer needed.
pub(super) fn update_part(connection: &Connection, session: i64, part: &Part) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "DELETE FROM delta WHERE part = (SELECT seq FROM part WHERE session = ?1 AND id = ?2)",
        )?
        .execute((session, part.id.as_str()))?;
    let row = PartRow::of(part)?;
    connection
        .prepare_cached(
            "UPDATE part SET status = ?3, blank = ?4, chars = ?5, input_chars = ?6, tokens = ?7, place = ?8,
             files = ?9, data = ?10, text = ?11, sum = row_sum(session, at, message, ord, id, kind, tool, ?3, call,
             ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) WHERE session = ?1 AND id = ?2",
        )?
        .execute(params![
            session,
            part.id.as_str(),
            row.status,
            row.blank,
            row.chars,
            row.input_chars,
            row.tokens,
            row.place,
            row.files,
            row.data,
            row.text.as_ref().map(Text::as_str)
        ])?;
    reindex(connection, session, part.id.as_str())
}

/// Updates the search index of a text, if it is indexed.
fn reindex(connection: &Connection, session: i64, part: &str) -> Result<(), StoreError> {
    let seq: Option<i64> = connection
        .prepare_cached(
            "SELECT p.seq FROM part p JOIN searched d ON d.session = p.session
             WHERE p.session = ?1 AND p.id = ?2 AND p.seq <= d.upto",
        )?
        .query_row((session, part), |row| row.get(0))
        .optional()?;
    let Some(seq) = seq else { return Ok(()) };
    connection.prepare_cached("DELETE FROM search WHERE rowid = ?1")?.execute([seq])?;
    search::index_part(connection, seq)
}

/// Writes a message's metadata.
pub(super) fn update_info(
    connection: &Connection,
    session: i64,
    place: &Position,
    message: &Message,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE message SET info = ?4, is_open = ?5 WHERE session = ?1 AND at = ?2 AND id = ?3",
        )?
        .execute(params![
            session,
            place.time,
            place.id,
            rows::info_json(message)?,
            crate::is_unfinished(message)
        ])?;
    Ok(())
}

/// Records metadata of a message.
pub(crate) fn record(
    connection: &Connection,
    claim: &Claim,
    message: &MessageId,
    update: MessageUpdate,
    now: Millis,
) -> Result<(), StoreError> {
    let chain = Chain::claimed(connection, claim)?;
    let place = own_message(connection, &chain, message)?;
    let mut log = Log::from_messages([read::info(connection, chain.own(), &place)?]);
    let before = log[0].info.clone();
    log.record(message, update, now)?;
    let after = &log[0];
    if after.info == before {
        return Ok(());
    }
    update_info(connection, chain.own(), &place, after)?;
    recount(connection, chain.own(), &before, &after.info)?;
    if after.is_finished() {
        super::extend::fold_message(connection, &chain, &place)?;
    }
    note_summary(connection, &chain, &after.info, &place, now)?;
    let changed = Changed { key: chain.own(), session: &claim.session, now };
    changed.note(connection, ChangeKind::Recorded, Some(message.as_str()), None)
}

/// Replaces the usage that was counted before for a message.
pub(super) fn recount(
    connection: &Connection,
    session: i64,
    before: &Info,
    after: &Info,
) -> Result<(), StoreError> {
    let usage = |info: &Info| info.tokens.clone().unwrap_or_default();
    let cost = |info: &Info| info.cost.as_ref().and_then(serde_json::Number::as_f64).unwrap_or_default();
    let (counted, counts) = (usage(before), usage(after));
    // Like `Totals::recount`: a sum that is too large becomes a float, and the smaller of both is stored.
    connection
        .prepare_cached(
            "UPDATE session SET input = max(min(input + ?2, ?12) - ?3, 0),
             output = max(min(output + ?4, ?12) - ?5, 0), reasoning = max(min(reasoning + ?6, ?12) - ?7, 0),
             cache_read = max(min(cache_read + ?8, ?12) - ?9, 0),
             cache_write = max(min(cache_write + ?10, ?12) - ?11, 0),
             cost = max(min(cost + ?13, ?14), -?14), model = coalesce(?15, model) WHERE key = ?1",
        )?
        .execute(params![
            session,
            integer(counts.input.0),
            integer(counted.input.0),
            integer(counts.output.0),
            integer(counted.output.0),
            integer(counts.reasoning.0),
            integer(counted.reasoning.0),
            integer(counts.cache_read.0),
            integer(counted.cache_read.0),
            integer(counts.cache_write.0),
            integer(counted.cache_write.0),
            integer(Totals::MOST.0),
            f64::clamp(cost(after) - cost(before), -f64::MAX, f64::MAX),
            f64::MAX,
            after.model_id.as_ref().filter(|_| before.model_id != after.model_id)
        ])?;
    Ok(())
}
