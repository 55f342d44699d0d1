//! Growing texts: a delta is a separate row, so storing it costs its own length and not that of the text.
//!
//! Deltas are folded into their part when its message ends, when the part changes in another way, and when they are
//! longer than what was folded before. The last rule keeps readers of a long answer from joining a million rows. As the
//! text doubles between two folds, all folds together write at most twice the text.

use plimsoll::{Log, LogError, PartId};
use rusqlite::{Connection, OptionalExtension, params};

use super::advance::{own_part, update_part};
use super::chain::Chain;
use super::feed;
use super::position::Position;
use super::read;
use super::rows;
use crate::error::StoreError;
use crate::store::{ChangeKind, Claim, Revision};

/// Minimum number of bytes that are folded before the end.
const FOLDED: u64 = 64 << 10;

/// Size of the rows that deltas are joined to, so that folding a long text does not read a million rows at once: with
/// deltas of six characters, one fold of 5 MB held the writer for 4 s.
const BLOCK: u64 = 4 << 10;

/// A growing part.
struct Growing {
    seq: i64,
    kind: String,
    status: Option<String>,
    is_raw: bool,
    is_open: bool,
    /// Folded length in bytes.
    folded: u64,
    /// Whole length in bytes.
    length: u64,
}

/// Appends to a text.
pub(crate) fn extend(
    connection: &Connection,
    claim: &Claim,
    part: &PartId,
    from: u64,
    more: &str,
) -> Result<(), StoreError> {
    let chain = Chain::claimed(connection, claim)?;
    let found = growing(connection, chain.own(), part)?;
    // An open message is never shared with a fork; for others it has to be looked up.
    let (place, growing) = match found {
        Some((place, growing)) if growing.is_open => (place, growing),
        found => (
            own_part(connection, &chain, part)?,
            found.map(|(_, growing)| growing).ok_or_else(missing(part))?,
        ),
    };
    let in_pieces = matches!(growing.kind.as_str(), "text" | "reasoning" | "tool");
    if !in_pieces || from != growing.length {
        return repeated(connection, &chain, part, from, more);
    }
    if !growing.is_open {
        let message = read::info(connection, chain.own(), &place)?;
        if message.is_finished() {
            let (message, why) = (message.info.id.clone(), "its parts grow no more");
            return Err(StoreError::Log(LogError::Finished { message, why }));
        }
    }
    let rewrite = |why| Err(StoreError::Log(LogError::Rewrite { id: part.clone(), why }));
    match (growing.kind.as_str(), growing.status.as_deref()) {
        ("text" | "reasoning", _) => {}
        ("tool", Some("pending")) if growing.is_raw => {}
        ("tool", Some("pending")) => return begin_raw(connection, claim, &chain, &place, part, more),
        ("tool", _) => return rewrite("the input of a started call cannot change"),
        _ => return rewrite("only text, reasoning and call inputs can be streamed"),
    }
    if more.is_empty() {
        return Ok(());
    }
    connection
        .prepare_cached("INSERT INTO delta (part, at, text, sum) VALUES (?1, ?2, ?3, row_sum(?1, ?2, ?3))")?
        .execute(params![growing.seq, rows::integer(from), more])?;
    let length = from + more.len() as u64;
    if length / BLOCK > from / BLOCK {
        join(connection, growing.seq, from / BLOCK * BLOCK)?;
    }
    // The folded length at least doubles each time, so all folds together stay linear in the text.
    if length - growing.folded >= growing.folded.max(FOLDED) {
        fold(connection, &chain, part)?;
    }
    noted(connection, claim, chain.own(), &place, part)
}

/// Joins the deltas from a byte on to one row.
fn join(connection: &Connection, part: i64, from: u64) -> Result<(), StoreError> {
    let (rows, at, text): (u64, Option<i64>, Option<String>) = connection
        .prepare_cached(
            "SELECT count(*), min(at), group_concat(text, '' ORDER BY at) FROM delta WHERE part = ?1 AND at >= ?2",
        )?
        .query_row((part, rows::integer(from)), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    if rows < 2 {
        return Ok(());
    }
    connection
        .prepare_cached("DELETE FROM delta WHERE part = ?1 AND at >= ?2")?
        .execute((part, rows::integer(from)))?;
    connection
        .prepare_cached("INSERT INTO delta (part, at, text, sum) VALUES (?1, ?2, ?3, row_sum(?1, ?2, ?3))")?
        .execute((part, at, text))?;
    Ok(())
}

fn missing(part: &PartId) -> impl FnOnce() -> StoreError {
    let id = part.to_string();
    move || StoreError::missing("part", &id)
}

/// Adds a delta to the feed. The session's time of the last write is not updated: it is indexed, and deltas are
/// frequent.
fn noted(
    connection: &Connection,
    claim: &Claim,
    key: i64,
    place: &Position,
    part: &PartId,
) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached("UPDATE session SET revision = revision + 1 WHERE key = ?1 RETURNING revision")?;
    let revision = Revision(statement.query_row([key], |row| row.get(0))?);
    let (message, part) = (Some(place.id.as_str()), Some(part.as_str()));
    feed::add(connection, &claim.session, revision, ChangeKind::Extended, message, part)
}

fn growing(
    connection: &Connection,
    session: i64,
    part: &PartId,
) -> Result<Option<(Position, Growing)>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT p.at, p.message, p.seq, p.kind, p.status, p.place = 5, m.is_open, coalesce(octet_length(p.text), 0),
         (SELECT d.at + octet_length(d.text) FROM delta d WHERE d.part = p.seq ORDER BY d.at DESC LIMIT 1)
         FROM part p JOIN message m ON m.session = p.session AND m.at = p.at AND m.id = p.message
         WHERE p.session = ?1 AND p.id = ?2",
    )?;
    let found = statement.query_row((session, part.as_str()), |row| {
        let (kind, is_raw): (String, bool) = (row.get(3)?, row.get(5)?);
        // The text of a call is its answer, unless the input is still being written.
        let folded = if kind == "tool" && !is_raw { 0 } else { row.get(7)? };
        let growing = Growing {
            seq: row.get(2)?,
            kind,
            status: row.get(4)?,
            is_raw,
            is_open: row.get(6)?,
            folded,
            length: row.get::<_, Option<u64>>(8)?.unwrap_or(folded),
        };
        Ok((Position::read(row, 0)?, growing))
    });
    Ok(found.optional()?)
}

/// Stores the first piece of a call's raw input, which grows from here on.
fn begin_raw(
    connection: &Connection,
    claim: &Claim,
    chain: &Chain,
    place: &Position,
    part: &PartId,
    more: &str,
) -> Result<(), StoreError> {
    let mut message = read::info(connection, chain.own(), place)?;
    message.parts.push(read::whole(connection, chain, part)?);
    let mut log = Log::from_messages([message]);
    log.extend(part, more)?;
    update_part(connection, chain.own(), log.part(part)?)?;
    noted(connection, claim, chain.own(), place, part)
}

/// Handles a delta that does not start where the text ends: a repetition or an error.
fn repeated(
    connection: &Connection,
    chain: &Chain,
    part: &PartId,
    from: u64,
    more: &str,
) -> Result<(), StoreError> {
    let whole = read::whole(connection, chain, part)?;
    crate::repeated_delta(&whole, from, more)
}

/// Folds the deltas of a part into it.
fn fold(connection: &Connection, chain: &Chain, part: &PartId) -> Result<(), StoreError> {
    let whole = read::whole(connection, chain, part)?;
    update_part(connection, chain.own(), &whole)
}

/// Folds the deltas of all parts of a message.
pub(super) fn fold_message(
    connection: &Connection,
    chain: &Chain,
    place: &Position,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM part WHERE session = ?1 AND at = ?2 AND message = ?3
         AND EXISTS (SELECT 1 FROM delta d WHERE d.part = part.seq)",
    )?;
    let parts =
        statement.query_map(params![chain.own(), place.time, place.id], |row| row.get::<_, String>(0))?;
    for part in parts.collect::<Result<Vec<_>, _>>()? {
        fold(connection, chain, &PartId::new(part))?;
    }
    Ok(())
}
