//! Reading by window, page and id.

use std::cmp::Ordering;
use std::collections::HashMap;

use plimsoll::log::LogPosition;
use plimsoll::{
    Log, Message, MessageId, Millis, Part, PartBody, PartId, Receipt, ReceiptId, SessionId, Tokens,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::chain::{Chain, Segment, key};
use super::marks;
use super::position::Position;
use super::rows::{self, Placed};
use super::sums::{self, lossy, lossy_or_null};
use crate::error::StoreError;
use crate::store::{
    CompactionRecord, Filter, ForkPoint, Page, PageRequest, Revision, Session, Snapshot, Totals,
};

/// How much of a part is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Whole,
    Outline,
}

/// Returns the visible log: everything from the newest pivot's tail on, the pivot itself, and the host's system
/// messages.
pub(crate) fn window(
    connection: &Connection,
    session: &SessionId,
    detail: Detail,
) -> Result<Snapshot, StoreError> {
    let chain = Chain::of(connection, session)?;
    let mut places = Vec::new();
    let start = match newest_pivot(connection, &chain)? {
        None => None,
        Some(pivot) => {
            let start = pivot.tail.clone().unwrap_or_else(|| pivot.marker.clone());
            for segment in &chain.0 {
                places.extend(system_before(connection, segment, &start)?);
            }
            for place in [&pivot.marker, &pivot.summary] {
                if *place < start {
                    places.push(place.clone());
                }
            }
            // A tail that starts in the middle of a turn is preceded by the turn's prompt, or by the prompt that the
            // pivot keeps. Pinned content is visible wherever it is.
            places.extend(turn_before(connection, &chain, &start)?);
            places.extend(prompt_of(connection, &chain, &pivot)?.filter(|place| *place < start));
            places.extend(marks::pinned_before(connection, &chain, &start)?);
            Some(start)
        }
    };
    let from = start.clone().unwrap_or_else(Position::start);
    let kept = range(connection, &chain, &from, None, detail)?;
    if let Some(start) = &start {
        places.extend(markers_before(connection, &chain, start, &kept)?);
    }
    places.sort();
    places.dedup();
    let mut messages = Vec::new();
    for place in &places {
        messages.extend(one(connection, &chain, &place.id, detail)?);
    }
    messages.extend(kept);
    Ok(Snapshot { log: Log::from_messages(messages), revision: revision(connection, chain.own())? })
}

/// Number of writes to a session.
pub(crate) fn revision(connection: &Connection, key: i64) -> Result<Revision, StoreError> {
    let mut statement = connection.prepare_cached("SELECT revision FROM session WHERE key = ?1")?;
    Ok(Revision(statement.query_row([key], |row| row.get(0))?))
}

/// Returns the user message that a pivot keeps visible.
fn prompt_of(connection: &Connection, chain: &Chain, pivot: &Pivot) -> Result<Option<Position>, StoreError> {
    let marker = one(connection, chain, &pivot.marker.id, Detail::Outline)?;
    let prompt = marker.as_ref().and_then(|message| message.marker()?.prompt.clone());
    match prompt {
        Some(prompt) => Ok(chain.find(connection, prompt.as_str())?.map(|(_, place)| place)),
        None => Ok(None),
    }
}

/// Returns the markers before a position that later summaries answer: without them these would look like ordinary
/// messages.
fn markers_before(
    connection: &Connection,
    chain: &Chain,
    start: &Position,
    kept: &[Message],
) -> Result<Vec<Position>, StoreError> {
    let mut markers = Vec::new();
    let mut user_seen = false;
    for message in kept {
        user_seen |= message.is_user();
        if !(message.info.summary && message.is_assistant()) {
            continue;
        }
        let marker = match &message.info.parent_id {
            Some(parent) => chain.find(connection, parent.as_str())?.map(|(_, place)| place),
            // Without a parent, it answers the preceding user message.
            None if !user_seen => user_before(connection, chain, start, |_| true)?,
            None => None,
        };
        markers.extend(marker.filter(|marker| marker < start));
    }
    Ok(markers)
}

/// A pivot that is in effect.
pub(crate) struct Pivot {
    pub(crate) marker: Position,
    pub(crate) summary: Position,
    pub(crate) tail: Option<Position>,
}

/// Returns the newest pivot that was not set aside, as the end of the chain sees it.
pub(crate) fn newest_pivot(connection: &Connection, chain: &Chain) -> Result<Option<Pivot>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT marker_at, marker, summary_at, summary, tail_at, tail, set_aside FROM compaction
         WHERE session = ?1 AND (marker_at, marker) <= (?2, ?3) AND (summary_at, summary) <= (?2, ?3) AND seq <= ?4
         ORDER BY marker_at DESC, marker DESC, seq DESC",
    )?;
    // A later session of the chain may have set aside a pivot of an earlier one.
    let mut decided: Vec<String> = Vec::new();
    for segment in chain.0.iter().rev() {
        let end = segment.end();
        let mut rows = statement.query(params![segment.key, end.time, end.id, segment.compactions])?;
        while let Some(row) = rows.next()? {
            let marker: String = row.get(1)?;
            if decided.contains(&marker) {
                continue;
            }
            decided.push(marker.clone());
            if row.get::<_, Option<i64>>(6)?.is_none() {
                let tail = row.get::<_, Option<i64>>(4)?.zip(row.get::<_, Option<String>>(5)?);
                return Ok(Some(Pivot {
                    marker: Position::read(row, 0)?,
                    summary: Position::read(row, 2)?,
                    tail: tail.map(|(time, id)| Position { time, id }),
                }));
            }
        }
    }
    Ok(None)
}

fn system_before(
    connection: &Connection,
    segment: &Segment,
    start: &Position,
) -> Result<Vec<Position>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT at, id FROM message INDEXED BY message_system
         WHERE session = ?1 AND role = 'system' AND (at, id) < (?2, ?3)",
    )?;
    let places =
        statement.query_map(params![segment.key, start.time, start.id], |row| Position::read(row, 0))?;
    let places = places.collect::<Result<Vec<Position>, _>>()?;
    Ok(places.into_iter().filter(|place| segment.holds(place)).collect())
}

/// Returns the newest user message before a position that starts a turn, visible or not.
fn turn_before(
    connection: &Connection,
    chain: &Chain,
    start: &Position,
) -> Result<Option<Position>, StoreError> {
    user_before(connection, chain, start, Message::is_question)
}

/// Returns the newest user message before a position that satisfies a condition.
fn user_before(
    connection: &Connection,
    chain: &Chain,
    start: &Position,
    is_wanted: impl Fn(&Message) -> bool,
) -> Result<Option<Position>, StoreError> {
    for segment in chain.0.iter().rev() {
        let Some(end) = end_of(segment, None) else { continue };
        let mut statement = connection.prepare_cached(
            "SELECT at, id FROM message WHERE session = ?1 AND (at, id) < (?2, ?3) AND (at, id) <= (?4, ?5)
             AND role = 'user' ORDER BY at DESC, id DESC",
        )?;
        let mut rows = statement.query(params![segment.key, start.time, start.id, end.time, end.id])?;
        while let Some(row) = rows.next()? {
            let place = Position::read(row, 0)?;
            let message = one(connection, chain, &place.id, Detail::Outline)?;
            if message.as_ref().is_some_and(&is_wanted) {
                return Ok(Some(place));
            }
        }
    }
    Ok(None)
}

/// Returns a message of the chain.
pub(crate) fn one(
    connection: &Connection,
    chain: &Chain,
    id: &str,
    detail: Detail,
) -> Result<Option<Message>, StoreError> {
    let Some((_, place)) = chain.find(connection, id)? else { return Ok(None) };
    Ok(range(connection, chain, &place, Some(&place), detail)?.into_iter().next())
}

/// Returns the messages in a range, both ends included.
pub(crate) fn range(
    connection: &Connection,
    chain: &Chain,
    from: &Position,
    to: Option<&Position>,
    detail: Detail,
) -> Result<Vec<Message>, StoreError> {
    let mut messages = Vec::new();
    each_in_range(connection, chain, (from, to), detail, &mut |message| messages.push(message))?;
    Ok(messages)
}

/// Passes on the messages in a range, both ends included. Messages and parts are read in step, so that one message is
/// held at a time.
pub(crate) fn each_in_range(
    connection: &Connection,
    chain: &Chain,
    (from, to): (&Position, Option<&Position>),
    detail: Detail,
    sink: &mut dyn FnMut(Message),
) -> Result<(), StoreError> {
    let is_one = to == Some(from);
    let mut marks = match is_one {
        true => HashMap::new(),
        false => marks::of_range(connection, chain, from.time, to.map(|to| to.time))?,
    };
    let aside = set_aside(connection, chain, from, to)?;
    let columns = match detail {
        Detail::Whole => &rows::whole_columns(),
        Detail::Outline => rows::OUTLINE,
    };
    let mut complete = |Placed { message, mut part, has_deltas }: Placed| -> Result<Part, StoreError> {
        let marks = match is_one {
            true => marks::of_part(connection, chain, part.id.as_str())?,
            false => marks.remove(part.id.as_str()).unwrap_or_default(),
        };
        // What the window shows of a marked part depends on its text.
        if detail == Detail::Outline && (has_deltas || !marks.is_empty()) {
            part = whole(connection, chain, &part.id)?;
        }
        if !marks.is_empty() {
            part = part.with_marks(marks);
        }
        // A marker without a recorded compaction came with an imported log, and contains this itself.
        if let (PartBody::Compaction(marker), Some(noted)) = (&mut part.body, aside.get(&message)) {
            marker.set_aside.clone_from(noted);
        }
        Ok(part)
    };
    let mut ids = CommonIds::default();
    for segment in &chain.0 {
        let Some(end) = end_of(segment, to) else { continue };
        let bounds = params![segment.key, from.time, from.id, end.time, end.id];
        let mut statement = connection.prepare_cached(
            "SELECT at, id, info FROM message WHERE session = ?1 AND (at, id) >= (?2, ?3) AND (at, id) <= (?4, ?5)
             ORDER BY at, id",
        )?;
        let mut rows = statement.query(bounds)?;
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {columns}, at FROM part WHERE session = ?1 AND (at, message) >= (?2, ?3)
             AND (at, message) <= (?4, ?5) ORDER BY at, message, ord"
        ))?;
        let place = statement.column_count() - 1;
        let mut part_rows = statement.query(bounds)?;
        // The first part of a later message.
        let mut ahead: Option<(i64, Placed)> = None;
        let mut own: Vec<Part> = Vec::new();
        while let Some(row) = rows.next()? {
            let (at, id): (i64, String) = (row.get(0)?, sums::lossy(row, 1)?);
            let json = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from).map_err(StoreError::from);
            let json = json.map_err(StoreError::damaged(|| format!("message `{id}`")))?;
            let mut message = rows::message_of(json, &id)?;
            ids.share(&mut message);
            loop {
                let (part_at, placed) = match (ahead.take(), detail) {
                    (Some(ahead), _) => ahead,
                    (None, detail) => match part_rows.next()? {
                        None => break,
                        Some(row) if detail == Detail::Whole => (row.get(place)?, rows::whole_part(row)?),
                        Some(row) => (row.get(place)?, rows::outline(row)?),
                    },
                };
                match (part_at, placed.message.as_str()).cmp(&(at, id.as_str())) {
                    // A part without its message is skipped here; a check reports it.
                    Ordering::Less => {}
                    Ordering::Equal => own.push(complete(placed)?),
                    Ordering::Greater => {
                        ahead = Some((part_at, placed));
                        break;
                    }
                }
            }
            // Drained, because the list has spare capacity: most messages have one part.
            message.parts = own.drain(..).collect();
            sink(message);
        }
    }
    Ok(())
}

/// Ids that a message has in common with the one before it, so that both share one text.
#[derive(Default)]
struct CommonIds {
    session: Option<SessionId>,
    parent: Option<MessageId>,
    message: Option<MessageId>,
}

impl CommonIds {
    fn share(&mut self, message: &mut Message) {
        let info = &mut *message.info;
        if info.session_id == self.session {
            info.session_id.clone_from(&self.session);
        }
        for known in [&self.parent, &self.message] {
            if info.parent_id == *known {
                info.parent_id.clone_from(known);
            }
        }
        self.session.clone_from(&info.session_id);
        self.parent.clone_from(&info.parent_id);
        self.message = Some(info.id.clone());
    }
}

/// Returns the end of the range in a segment; `None` if the segment starts after it.
fn end_of(segment: &Segment, to: Option<&Position>) -> Option<Position> {
    match (&segment.upto, to) {
        (Some(upto), Some(to)) => Some(upto.min(to).clone()),
        (Some(one), None) | (None, Some(one)) => Some(one.clone()),
        (None, None) => Some(Position::end()),
    }
}

/// Returns the markers in a range that were set aside, with the time.
fn set_aside(
    connection: &Connection,
    chain: &Chain,
    from: &Position,
    to: Option<&Position>,
) -> Result<HashMap<String, Option<LogPosition>>, StoreError> {
    let mut aside = HashMap::new();
    for segment in &chain.0 {
        let mut statement = connection.prepare_cached(
            "SELECT marker, set_aside, set_aside_after FROM compaction
             WHERE session = ?1 AND marker_at >= ?2 AND marker_at <= ?3 AND seq <= ?4 ORDER BY seq",
        )?;
        let bounds = params![segment.key, from.time, to.map_or(i64::MAX, |to| to.time), segment.compactions];
        let mut rows = statement.query(bounds)?;
        while let Some(row) = rows.next()? {
            let after = row.get::<_, Option<String>>(2)?.map(MessageId::new);
            let at = row.get::<_, Option<u64>>(1)?.map(Millis);
            aside.insert(row.get(0)?, at.map(|at| LogPosition { at, after }));
        }
    }
    Ok(aside)
}

/// Returns a page of messages.
pub(crate) fn page(
    connection: &Connection,
    session: &SessionId,
    request: &PageRequest,
) -> Result<Page, StoreError> {
    page_of(connection, &Chain::of(connection, session)?, request)
}

/// Returns a page of messages of a chain.
pub(crate) fn page_of(
    connection: &Connection,
    chain: &Chain,
    request: &PageRequest,
) -> Result<Page, StoreError> {
    let from = match &request.from {
        Some(id) => {
            let found = chain.find(connection, id.as_str())?;
            Some(found.map(|(_, place)| place).ok_or_else(|| StoreError::missing("message", id))?)
        }
        None => None,
    };
    let most = if request.most == 0 { 100 } else { request.most };
    let mut places: Vec<Position> = Vec::new();
    let segments: Vec<&Segment> =
        if request.oldest_first { chain.0.iter().collect() } else { chain.0.iter().rev().collect() };
    for segment in segments {
        let left = most.saturating_add(1).saturating_sub(places.len() as u64);
        places.extend(places_of(connection, segment, from.as_ref(), request.oldest_first, left)?);
        if places.len() as u64 > most {
            break;
        }
    }
    let more = places.len() as u64 > most;
    places.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    let (Some(first), Some(last)) = (places.iter().min(), places.iter().max()) else {
        return Ok(Page::default());
    };
    let mut messages = range(connection, chain, first, Some(last), Detail::Whole)?;
    if !request.oldest_first {
        messages.reverse();
    }
    let next = messages.last().filter(|_| more).map(|message| message.info.id.clone());
    Ok(Page { messages, next })
}

fn places_of(
    connection: &Connection,
    segment: &Segment,
    from: Option<&Position>,
    oldest_first: bool,
    most: u64,
) -> Result<Vec<Position>, StoreError> {
    let end = segment.end();
    let (from, sql) = if oldest_first {
        let from = from.cloned().unwrap_or_else(Position::start);
        let sql =
            "SELECT at, id FROM message WHERE session = ?1 AND (at, id) > (?2, ?3) AND (at, id) <= (?4, ?5)
                   ORDER BY at, id LIMIT ?6";
        (from, sql)
    } else {
        let from = from.cloned().unwrap_or_else(Position::end);
        let sql =
            "SELECT at, id FROM message WHERE session = ?1 AND (at, id) < (?2, ?3) AND (at, id) <= (?4, ?5)
                   ORDER BY at DESC, id DESC LIMIT ?6";
        (from, sql)
    };
    let mut statement = connection.prepare_cached(sql)?;
    let most = rows::integer(most);
    let places = statement
        .query_map(params![segment.key, from.time, from.id, end.time, end.id, most], |row| {
            Position::read(row, 0)
        })?;
    Ok(places.collect::<Result<_, _>>()?)
}

/// Returns the metadata of a session's own message.
pub(crate) fn info(connection: &Connection, session: i64, place: &Position) -> Result<Message, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT info FROM message WHERE session = ?1 AND at = ?2 AND id = ?3")?;
    let info = statement.query_row(params![session, place.time, place.id], |row| row.get::<_, String>(0));
    let named = || format!("message `{}`", place.id);
    rows::message_of(&info.map_err(StoreError::from).map_err(StoreError::damaged(named))?, &place.id)
}

/// Returns a message.
pub(crate) fn message(
    connection: &Connection,
    session: &SessionId,
    id: &MessageId,
) -> Result<Message, StoreError> {
    let chain = Chain::of(connection, session)?;
    one(connection, &chain, id.as_str(), Detail::Whole)?.ok_or_else(|| StoreError::missing("message", id))
}

/// Returns a part.
pub(crate) fn part(connection: &Connection, session: &SessionId, id: &PartId) -> Result<Part, StoreError> {
    part_of(connection, &Chain::of(connection, session)?, id)
}

/// Returns a part of a chain.
pub(crate) fn part_of(connection: &Connection, chain: &Chain, id: &PartId) -> Result<Part, StoreError> {
    let mut part = whole(connection, chain, id)?;
    let marks = marks::of_part(connection, chain, id.as_str())?;
    if !marks.is_empty() {
        part = part.with_marks(marks);
    }
    Ok(part)
}

/// Returns a part without its marks.
pub(crate) fn whole(connection: &Connection, chain: &Chain, id: &PartId) -> Result<Part, StoreError> {
    let missing = || StoreError::missing("part", id);
    let (segment, _) = chain.find_part(connection, id.as_str())?.ok_or_else(missing)?;
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {} FROM part WHERE session = ?1 AND id = ?2",
        rows::whole_columns()
    ))?;
    let mut found = statement.query((segment.key, id.as_str()))?;
    let row = found.next()?.ok_or_else(missing)?;
    Ok(rows::whole_part(row)?.part)
}

/// Returns a part with lengths instead of texts, without its marks.
pub(crate) fn outline_of(connection: &Connection, chain: &Chain, id: &PartId) -> Result<Part, StoreError> {
    let missing = || StoreError::missing("part", id);
    let (segment, _) = chain.find_part(connection, id.as_str())?.ok_or_else(missing)?;
    let mut statement = connection
        .prepare_cached(&format!("SELECT {} FROM part WHERE session = ?1 AND id = ?2", rows::OUTLINE))?;
    let mut found = statement.query((segment.key, id.as_str()))?;
    let row = found.next()?.ok_or_else(missing)?;
    Ok(rows::outline(row)?.part)
}

/// Returns all compactions of a session, oldest first, each in its current state.
pub(crate) fn compactions(
    connection: &Connection,
    session: &SessionId,
    after: Option<&MessageId>,
    most: u64,
) -> Result<Vec<CompactionRecord>, StoreError> {
    let chain = Chain::of(connection, session)?;
    let mut records: Vec<CompactionRecord> = Vec::new();
    for segment in &chain.0 {
        let mut statement = connection.prepare_cached(
            "SELECT marker, summary, tail, messages, tokens, created, set_aside FROM compaction
             WHERE session = ?1 AND seq <= ?2 AND (marker_at, marker) <= (?3, ?4)
             AND (summary_at, summary) <= (?3, ?4) ORDER BY seq",
        )?;
        let end = segment.end();
        let rows =
            statement.query_map(params![segment.key, segment.compactions, end.time, end.id], |row| {
                Ok(CompactionRecord {
                    marker: MessageId::new(row.get::<_, String>(0)?),
                    summary: MessageId::new(row.get::<_, String>(1)?),
                    tail: row.get::<_, Option<String>>(2)?.map(MessageId::new),
                    messages: row.get(3)?,
                    tokens: row.get(4)?,
                    created: Millis(row.get(5)?),
                    set_aside: row.get::<_, Option<u64>>(6)?.map(Millis),
                })
            })?;
        for record in rows {
            let record = record?;
            // Setting a pivot aside adds a row for the same marker.
            records.retain(|earlier| earlier.marker != record.marker);
            records.push(record);
        }
    }
    // There are only a few: one is made when the window is full.
    if let Some(after) = after {
        let place = records.iter().position(|record| record.marker == *after);
        records.drain(..=place.ok_or_else(|| StoreError::missing("compaction", after))?);
    }
    records.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    Ok(records)
}

const SESSION: &str =
    "SELECT s.id, s.parent, s.title, s.agent, s.model, s.directory, s.created, s.updated, s.messages,
    s.input, s.output, s.reasoning, s.cache_read, s.cache_write, s.cost, f.id, s.fork_id, s.version, s.revision,
    s.tool, s.context, (SELECT t.data FROM setting t WHERE t.session = s.key)
    FROM session s LEFT JOIN session f ON f.key = s.forked_from";

/// Reads a session's row without verifying its checksum: one damaged title must not hide all other sessions. Checks and
/// exports do verify it.
fn session_of(row: &Row<'_>) -> rusqlite::Result<Session> {
    let number =
        |column: usize| row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or_default());
    let tokens = |column: usize| number(column).map(Tokens);
    let usage = Totals {
        input: tokens(9)?,
        output: tokens(10)?,
        reasoning: tokens(11)?,
        cache_read: tokens(12)?,
        cache_write: tokens(13)?,
    };
    let forked_from = match lossy_or_null(row, 15)? {
        Some(session) => {
            let message = lossy_or_null(row, 16)?.filter(|id| !id.is_empty());
            Some(ForkPoint { session: SessionId::new(session), message: message.map(MessageId::new) })
        }
        None => None,
    };
    let settings = lossy_or_null(row, 21)?.and_then(|data| serde_json::from_str(&data).ok());
    Ok(Session {
        id: SessionId::new(lossy(row, 0)?),
        parent: lossy_or_null(row, 1)?.map(SessionId::new),
        title: lossy(row, 2)?,
        agent: lossy_or_null(row, 3)?,
        model: lossy_or_null(row, 4)?,
        directory: lossy_or_null(row, 5)?,
        tool: lossy_or_null(row, 19)?,
        version: lossy_or_null(row, 17)?,
        context: row.get::<_, Option<i64>>(20)?.map(|context| Tokens(context.try_into().unwrap_or_default())),
        settings: settings.unwrap_or_default(),
        forked_from,
        created: Millis(number(6)?),
        updated: Millis(number(7)?),
        messages: number(8)?,
        usage,
        cost: row.get(14)?,
        revision: Revision(number(18)?),
    })
}

/// Returns a session.
pub(crate) fn session(connection: &Connection, id: &SessionId) -> Result<Session, StoreError> {
    connection
        .prepare_cached(&format!("{SESSION} WHERE s.id = ?1 AND s.removed IS NULL"))?
        .query_row([id.as_str()], session_of)
        .optional()?
        .ok_or_else(|| StoreError::missing("session", id))
}

/// Sessions, newest first.
pub(crate) fn sessions(connection: &Connection, filter: &Filter) -> Result<Vec<Session>, StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "{SESSION} WHERE s.removed IS NULL AND (?1 IS NULL OR s.directory = ?1)
         AND CASE WHEN ?2 IS NOT NULL THEN s.parent = ?2 WHEN ?3 THEN 1 ELSE s.parent IS NULL END
         AND (s.updated, s.key) < (?5, ?6)
         ORDER BY s.updated DESC, s.key DESC LIMIT ?4"
    ))?;
    let most = filter.most.map_or(-1, |most| i64::try_from(most).unwrap_or(i64::MAX));
    let parent = filter.parent.as_ref().map(SessionId::as_str);
    let after: (i64, i64) = match &filter.after {
        Some(id) => connection
            .prepare_cached("SELECT updated, key FROM session WHERE id = ?1 AND removed IS NULL")?
            .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?
            .ok_or_else(|| StoreError::missing("session", id))?,
        None => (i64::MAX, i64::MAX),
    };
    let bounds = params![filter.directory, parent, filter.all, most, after.0, after.1];
    let rows = statement.query_map(bounds, session_of)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Sessions whose ids start with a prefix.
pub(crate) fn sessions_like(
    connection: &Connection,
    prefix: &str,
    most: u64,
) -> Result<Vec<Session>, StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "{SESSION} WHERE s.id >= ?1 AND s.id < ?2 AND s.removed IS NULL ORDER BY s.id LIMIT ?3"
    ))?;
    let bounds = params![prefix, format!("{prefix}\u{10ffff}"), rows::integer(most)];
    let rows = statement.query_map(bounds, session_of)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns a receipt and its session.
pub(crate) fn receipt(connection: &Connection, id: &ReceiptId) -> Result<(SessionId, Receipt), StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT r.data, r.id, s.id FROM receipt r JOIN session s ON s.key = r.session
         WHERE r.id = ?1 AND s.removed IS NULL",
    )?;
    let mut rows = statement.query([id.as_str()])?;
    let row = rows.next()?.ok_or_else(|| StoreError::missing("receipt", id))?;
    Ok((SessionId::new(lossy(row, 2)?), receipt_of(row)?))
}

/// Parses a receipt from a row of its data and id.
fn receipt_of(row: &Row<'_>) -> Result<Receipt, StoreError> {
    let data = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from).map_err(StoreError::from);
    let read = data.and_then(|data| Ok(serde_json::from_str(data)?));
    read.map_err(StoreError::damaged(|| format!("receipt `{}`", lossy(row, 1).unwrap_or_default())))
}

/// Ids of receipts that start with a prefix.
pub(crate) fn receipts_like(
    connection: &Connection,
    prefix: &str,
    most: usize,
) -> Result<Vec<ReceiptId>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT r.id FROM receipt r JOIN session s ON s.key = r.session
         WHERE r.id >= ?1 AND r.id < ?2 AND s.removed IS NULL ORDER BY r.id LIMIT ?3",
    )?;
    let bounds = params![prefix, format!("{prefix}\u{10ffff}"), rows::integer(most as u64)];
    let ids = statement.query_map(bounds, |row| row.get::<_, String>(0))?;
    ids.map(|id| Ok(ReceiptId::new(id?))).collect()
}

/// Returns the receipts of a session, oldest first.
pub(crate) fn receipts(
    connection: &Connection,
    session: &SessionId,
    after: Option<&ReceiptId>,
    most: u64,
) -> Result<Vec<Receipt>, StoreError> {
    let key = key(connection, session)?;
    let after: i64 = match after {
        Some(id) => connection
            .prepare_cached("SELECT seq FROM receipt WHERE session = ?1 AND id = ?2")?
            .query_row((key, id.as_str()), |row| row.get(0))
            .optional()?
            .ok_or_else(|| StoreError::missing("receipt", id))?,
        None => 0,
    };
    let mut statement = connection.prepare_cached(
        "SELECT data, id FROM receipt WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let found = statement.query_map((key, after, rows::integer(most)), |row| Ok(receipt_of(row)))?;
    found.map(|receipt| receipt?).collect()
}

/// Returns the newest receipts of a session, newest first.
pub(crate) fn newest_receipts(
    connection: &Connection,
    session: &SessionId,
    most: u64,
) -> Result<Vec<Receipt>, StoreError> {
    let key = key(connection, session)?;
    let mut statement = connection
        .prepare_cached("SELECT data, id FROM receipt WHERE session = ?1 ORDER BY seq DESC LIMIT ?2")?;
    let found = statement.query_map((key, rows::integer(most)), |row| Ok(receipt_of(row)))?;
    found.map(|receipt| receipt?).collect()
}
