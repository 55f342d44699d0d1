//! Appending messages and parts. Everything here runs in a transaction of the writer.

use plimsoll::{Log, LogError, Message, MessageId, Millis, Part, PartBody, SessionId, Text, same_content};
use rusqlite::{Connection, params};

use super::advance::own_message;
use super::chain::Chain;
use super::feed::{self, Changed};
use super::marks::Marked;
use super::pivots::{note_pivot, note_summary};
use super::position::Position;
use super::read::{self, Detail};
use super::rows::{self, PartRow, integer};
use crate::counts::PartCounts;
use crate::error::StoreError;
use crate::store::{ChangeKind, Claim, Revision, Totals};

/// Appends messages.
pub(crate) fn append(
    connection: &Connection,
    claim: &Claim,
    messages: &[Message],
    now: Millis,
) -> Result<(), StoreError> {
    let (chain, last) = Chain::claimed_with_end(connection, claim)?;
    if let Some(first) = messages.first()
        && chain.find(connection, first.info.id.as_str())?.is_some()
    {
        return same_messages(connection, &chain, messages);
    }
    let revision = insert_messages(connection, &chain, last, messages, now)?;
    add_appended(connection, claim, revision, messages)
}

/// Returns an error unless the messages are exactly those that exist under their ids: then the append was repeated.
fn same_messages(connection: &Connection, chain: &Chain, messages: &[Message]) -> Result<(), StoreError> {
    for message in messages {
        let id = message.info.id.as_str();
        let inherited = Chain::find_among(chain.inherited(), connection, id)?.is_some();
        let there = read::one(connection, chain, id, Detail::Whole)?;
        if inherited || !there.is_some_and(|there| same_content(&there, message)) {
            return Err(StoreError::duplicate("message", id));
        }
    }
    Ok(())
}

pub(super) fn add_appended(
    connection: &Connection,
    claim: &Claim,
    revision: Revision,
    messages: &[Message],
) -> Result<(), StoreError> {
    messages.iter().try_for_each(|message| {
        let id = Some(message.info.id.as_str());
        feed::add(connection, &claim.session, revision, ChangeKind::Appended, id, None)
    })
}

/// Appends messages and adds their usage to the session's totals, in its next revision.
pub(super) fn insert_messages(
    connection: &Connection,
    chain: &Chain,
    last: Position,
    messages: &[Message],
    now: Millis,
) -> Result<Revision, StoreError> {
    insert_in_revision(connection, chain, last, messages, 1, now)
}

/// Appends messages in the given revision. An import increments the revision itself, once for everything.
pub(super) fn insert_in_revision(
    connection: &Connection,
    chain: &Chain,
    mut last: Position,
    messages: &[Message],
    revisions: u8,
    now: Millis,
) -> Result<Revision, StoreError> {
    let own = chain.own();
    let mut usage = Totals::default();
    let (mut cost, mut model) = (0.0, None);
    for message in messages {
        let place = next_place(&last, message, now)?;
        insert_message(connection, chain, message, &place)?;
        note_pivot(connection, chain, message, &place, now)?;
        if let Some(tokens) = &message.info.tokens {
            usage.add(tokens);
        }
        cost += message.info.cost.as_ref().and_then(serde_json::Number::as_f64).unwrap_or_default();
        cost = f64::clamp(cost, -f64::MAX, f64::MAX);
        // A summary may be written by another model than the session's own.
        model = message.info.model_id.clone().filter(|_| !message.info.summary).or(model);
        last = place;
    }
    let mut statement = connection.prepare_cached(
            "UPDATE session SET last_at = ?2, last_id = ?3, messages = messages + ?4,
             input = min(input + ?5, ?12), output = min(output + ?6, ?12), reasoning = min(reasoning + ?7, ?12),
             cache_read = min(cache_read + ?8, ?12), cache_write = min(cache_write + ?9, ?12),
             cost = max(min(cost + ?10, ?13), -?13), model = coalesce(?11, model), revision = revision + ?15,
             updated = max(updated, ?14), parts = parts + ?16 WHERE key = ?1 RETURNING revision",
    )?;
    let figures = params![
        own,
        last.time,
        last.id,
        messages.len(),
        integer(usage.input.0),
        integer(usage.output.0),
        integer(usage.reasoning.0),
        integer(usage.cache_read.0),
        integer(usage.cache_write.0),
        cost,
        model,
        integer(Totals::MOST.0),
        f64::MAX,
        now.0,
        revisions,
        messages.iter().map(|message| message.parts.len()).sum::<usize>()
    ];
    Ok(Revision(statement.query_row(figures, |row| row.get(0))?))
}

/// Returns the position of a new message: after all earlier ones, even if the clock was set back.
fn next_place(last: &Position, message: &Message, now: Millis) -> Result<Position, StoreError> {
    let id = message.info.id.to_string();
    if id.is_empty() {
        return Err(StoreError::Log(LogError::Nameless { kind: "message" }));
    }
    let created = message.info.time.as_ref().and_then(|time| time.created).unwrap_or(now);
    // Leaves room for later messages after one from the far future.
    let created = i64::try_from(created.0).unwrap_or(i64::MAX).min(i64::MAX / 2);
    let time = if (created, id.as_str()) > (last.time, last.id.as_str()) {
        created
    } else if id > last.id {
        last.time
    } else {
        // Its id sorts before the last one, so only a later time puts it after that.
        last.time + 1
    };
    Ok(Position::new(time, id))
}

fn insert_message(
    connection: &Connection,
    chain: &Chain,
    message: &Message,
    place: &Position,
) -> Result<(), StoreError> {
    let taken = || StoreError::Log(LogError::Duplicate { kind: "message", id: place.id.clone() });
    // Constraints keep ids unique within the session; inherited ids have to be looked up.
    if Chain::find_among(chain.inherited(), connection, &place.id)?.is_some() {
        return Err(taken());
    }
    connection
        .prepare_cached(
            "INSERT INTO message (session, at, id, role, info, is_open) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            chain.own(),
            place.time,
            place.id,
            rows::role_of(message),
            rows::info_json(message)?,
            crate::is_unfinished(message)
        ])
        .map_err(|error| if is_taken(&error) { taken() } else { error.into() })?;
    for (ord, part) in message.parts.iter().enumerate() {
        insert_part(connection, chain, place, ord, part)?;
    }
    Ok(())
}

pub(super) fn insert_part(
    connection: &Connection,
    chain: &Chain,
    place: &Position,
    ord: usize,
    part: &Part,
) -> Result<(), StoreError> {
    if part.id.is_empty() {
        return Err(StoreError::Log(LogError::Nameless { kind: "part" }));
    }
    let taken = || StoreError::Log(LogError::Duplicate { kind: "part", id: part.id.to_string() });
    if Chain::find_part_among(chain.inherited(), connection, part.id.as_str())?.is_some() {
        return Err(taken());
    }
    let row = PartRow::of(part)?;
    connection
        .prepare_cached(
            "INSERT INTO part (session, at, message, ord, id, kind, tool, status, call, blank, chars, input_chars,
             tokens, place, files, data, text, sum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
             row_sum(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17))",
        )?
        .execute(params![
            chain.own(),
            place.time,
            place.id,
            ord,
            part.id.as_str(),
            row.kind,
            row.tool,
            row.status,
            row.call,
            row.blank,
            row.chars,
            row.input_chars,
            row.tokens,
            row.place,
            row.files,
            row.data,
            row.text.as_ref().map(Text::as_str)
        ])
        .map_err(|error| if is_taken(&error) { taken() } else { error.into() })?;
    let marked = Marked { session: chain.own(), at: place.time, part: part.id.as_str() };
    part.all_marks().iter().try_for_each(|mark| marked.set(connection, mark))
}

/// Adds to a session's number of parts.
pub(super) fn count_parts(connection: &Connection, session: i64, more: usize) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached("UPDATE session SET parts = parts + ?2 WHERE key = ?1")?;
    Ok(statement.execute(params![session, more]).map(drop)?)
}

/// Whether a row was refused because its id exists.
fn is_taken(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error().map(|error| error.extended_code),
        Some(rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY)
    )
}

/// Appends a part to a message that is being written.
pub(crate) fn append_part(
    connection: &Connection,
    claim: &Claim,
    message: &MessageId,
    part: &Part,
    now: Millis,
) -> Result<(), StoreError> {
    let chain = Chain::claimed(connection, claim)?;
    let place = own_message(connection, &chain, message)?;
    if let Some((segment, found)) = chain.find_part(connection, part.id.as_str())? {
        let same = segment.key == chain.own()
            && found == place
            && read::whole(connection, &chain, &part.id)?.without_marks() == part.clone().without_marks();
        // The same part was sent again; a different part with its id is an error.
        return if same { Ok(()) } else { Err(StoreError::duplicate("part", &part.id)) };
    }
    // The log's rules decide what a message accepts. They are applied without its existing parts: reading these would
    // make each part of a long answer more expensive than the last.
    let mut log = Log::from_messages([read::info(connection, chain.own(), &place)?]);
    log.append_part(message, part.clone())?;
    let ord: usize = connection
        .prepare_cached("SELECT count(*) FROM part WHERE session = ?1 AND at = ?2 AND message = ?3")?
        .query_row(params![chain.own(), place.time, place.id], |row| row.get(0))?;
    insert_part(connection, &chain, &place, ord, part)?;
    count_parts(connection, chain.own(), 1)?;
    if matches!(part.body, PartBody::Text(_)) {
        note_summary(connection, &chain, &log[0].info, &place, now)?;
    }
    let changed = Changed { key: chain.own(), session: &claim.session, now };
    changed.note(connection, ChangeKind::PartAppended, Some(message.as_str()), Some(part.id.as_str()))
}

/// Stores exact token counts of parts. A part that has grown has other lengths, and deltas that are not folded in have
/// lengths of their own.
pub(crate) fn keep_counts(
    connection: &Connection,
    session: &SessionId,
    counts: &[PartCounts],
) -> Result<(), StoreError> {
    let chain = Chain::of(connection, session)?;
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO counted (part, counter, input, text)
         SELECT seq, ?3, ?4, ?5 FROM part WHERE session = ?1 AND id = ?2 AND input_chars = ?6 AND chars = ?7
         AND NOT EXISTS (SELECT 1 FROM delta WHERE delta.part = part.seq)",
    )?;
    for PartCounts { part, counter, input, text, chars } in counts {
        // A fork reads the parts of the session it was forked from.
        if let Some((segment, _)) = chain.find_part(connection, part.as_str())? {
            let (input, text) = (integer(input.0), integer(text.0));
            let (input_chars, chars) = (integer(chars.0), integer(chars.1));
            insert.execute(params![segment.key, part.as_str(), counter, input, text, input_chars, chars])?;
        }
    }
    Ok(())
}
