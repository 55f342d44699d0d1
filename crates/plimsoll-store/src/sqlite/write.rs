//! Writing: everything here runs on the writing thread, within a transaction.

use std::collections::HashMap;

use plimsoll::log::{Effect, Info, Mark, MessageUpdate, Moment};
use plimsoll::reduction::same_content;
use plimsoll::{
    Ids, Log, LogError, Message, MessageId, Millis, Part, PartBody, PartId, Plan, Receipt, ReceiptId,
    Reduction, SessionId, Text,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::chain::{At, Chain};
use super::feed::{self, Changed};
use super::imports;
use super::marks::{self, Marked};
use super::read::{self, Detail};
use super::rows::{self, PartRow, integer};
use super::search;
use super::sums::sum;
use crate::error::StoreError;
use crate::session::Totals;
use crate::store::{ChangeKind, Claim, Revision};

/// Add messages at the end.
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

/// Whether messages under names that are taken are those that are there: then the append came twice.
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

fn add_appended(
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

/// Add messages at the end, and what they count for to the session's figures, in its next revision.
fn insert_messages(
    connection: &Connection,
    chain: &Chain,
    last: At,
    messages: &[Message],
    now: Millis,
) -> Result<Revision, StoreError> {
    insert_in_revision(connection, chain, last, messages, 1, now)
}

/// Add messages at the end, so many revisions on: the caller of an import counts the revision itself, once for all that
/// the import brings.
pub(super) fn insert_in_revision(
    connection: &Connection,
    chain: &Chain,
    mut last: At,
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
        model = message.info.model_id.clone().or(model);
        last = place;
    }
    let mut statement = connection.prepare_cached(
            "UPDATE session SET last_at = ?2, last_id = ?3, messages = messages + ?4,
             input = min(input + ?5, ?12), output = min(output + ?6, ?12), reasoning = min(reasoning + ?7, ?12),
             cache_read = min(cache_read + ?8, ?12), cache_write = min(cache_write + ?9, ?12),
             cost = max(min(cost + ?10, ?13), -?13), model = coalesce(?11, model), revision = revision + ?15,
             updated = max(updated, ?14) WHERE key = ?1 RETURNING revision",
    )?;
    let figures = params![
        own,
        last.0,
        last.1,
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
        revisions
    ];
    Ok(Revision(statement.query_row(figures, |row| row.get(0))?))
}

/// A message comes after all that were appended before it, even if the clock has jumped back.
fn next_place(last: &At, message: &Message, now: Millis) -> Result<At, StoreError> {
    let id = message.info.id.to_string();
    if id.is_empty() {
        return Err(StoreError::Log(LogError::Nameless { kind: "message" }));
    }
    let created = message.info.time.as_ref().and_then(|time| time.created).unwrap_or(now);
    // After a message from the end of time there must be room for others.
    let created = i64::try_from(created.0).unwrap_or(i64::MAX).min(i64::MAX / 2);
    let at = if (created, id.as_str()) > (last.0, last.1.as_str()) {
        created
    } else if id > last.1 {
        last.0
    } else {
        last.0 + 1
    };
    Ok((at, id))
}

fn insert_message(
    connection: &Connection,
    chain: &Chain,
    message: &Message,
    place: &At,
) -> Result<(), StoreError> {
    let taken = || StoreError::Log(LogError::Duplicate { kind: "message", id: place.1.clone() });
    // Names of the session's own are unique by the tables; those it inherits have to be looked up.
    if Chain::find_among(chain.inherited(), connection, &place.1)?.is_some() {
        return Err(taken());
    }
    connection
        .prepare_cached(
            "INSERT INTO message (session, at, id, role, info, is_open) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            chain.own(),
            place.0,
            place.1,
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
    place: &At,
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
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        )?
        .execute(params![
            chain.own(),
            place.0,
            place.1,
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
            row.text.as_ref().map(Text::as_str),
            sum(&row.data, row.text.as_ref().map(Text::as_str))
        ])
        .map_err(|error| if is_taken(&error) { taken() } else { error.into() })?;
    let marked = Marked { session: chain.own(), at: place.0, part: part.id.as_str() };
    part.all_marks().iter().try_for_each(|mark| marked.set(connection, mark))
}

/// Whether a row was refused because its name is taken.
fn is_taken(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error().map(|error| error.extended_code),
        Some(rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY)
    )
}

/// Record a compaction once its summary is finished and says something.
pub(super) fn note_pivot(
    connection: &Connection,
    chain: &Chain,
    message: &Message,
    place: &At,
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
        .query_row(params![chain.own(), marker_at.1, place.1], |row| row.get(0))?;
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
            marker_at.1,
            marker_at.0,
            place.1,
            place.0,
            tail.as_ref().map(|tail| &tail.1),
            tail.as_ref().map(|tail| tail.0),
            part.messages.map(integer),
            part.tokens.map(integer),
            integer(created.0),
            part.set_aside.as_ref().map(|moment| integer(moment.at.0)),
            part.set_aside.as_ref().and_then(|moment| moment.after.as_ref()).map(MessageId::as_str)
        ])?;
    if part.set_aside.is_some() {
        return Ok(());
    }
    // What is before the last pivot was flagged by it.
    let from = before.unwrap_or((i64::MIN, String::new()));
    flag(connection, chain, &from, tail.as_ref().unwrap_or(&marker_at), true)
}

/// The marker that a summary answers: by its parent, or for logs without parents the user's message before.
fn marker_of(
    connection: &Connection,
    chain: &Chain,
    summary: &Message,
    place: &At,
) -> Result<Option<(At, Message)>, StoreError> {
    let id = match &summary.info.parent_id {
        Some(parent) => Some(parent.to_string()),
        None => connection
            .prepare_cached(
                "SELECT id FROM message WHERE session = ?1 AND (at, id) < (?2, ?3) AND role = 'user'
                 ORDER BY at DESC, id DESC LIMIT 1",
            )?
            .query_row(params![chain.own(), place.0, place.1], |row| row.get::<_, String>(0))
            .optional()?,
    };
    let Some(id) = id else { return Ok(None) };
    let Some((_, marker_at)) = chain.find(connection, &id)? else { return Ok(None) };
    let marker =
        read::one(connection, chain, &id, Detail::Whole)?.filter(|message| message.marker().is_some());
    Ok(marker.map(|marker| (marker_at, marker)))
}

/// Say of the session's own messages from one place to before another whether a summary stands for them.
fn flag(
    connection: &Connection,
    chain: &Chain,
    from: &At,
    before: &At,
    compacted: bool,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE message SET is_compacted = ?6 WHERE session = ?1 AND (at, id) >= (?2, ?3) AND (at, id) < (?4, ?5)
             AND role <> 'system' AND is_compacted <> ?6",
        )?
        .execute(params![chain.own(), from.0, from.1, before.0, before.1, compacted])?;
    Ok(())
}

/// Add a part to a message that is being written.
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
            && read::whole(connection, &chain, &part.id)? == part.clone().without_marks();
        // The same part again is a repetition; another under its name is a mistake.
        return if same { Ok(()) } else { Err(StoreError::duplicate("part", &part.id)) };
    }
    // The log knows what a message takes; it is asked about this one, without the parts it has already, because
    // reading those would make a long answer cost more with every part.
    let mut log = Log::from_messages([read::info(connection, chain.own(), &place)?]);
    log.append_part(message, part.clone())?;
    let ord: usize = connection
        .prepare_cached("SELECT count(*) FROM part WHERE session = ?1 AND at = ?2 AND message = ?3")?
        .query_row(params![chain.own(), place.0, place.1], |row| row.get(0))?;
    insert_part(connection, &chain, &place, ord, part)?;
    if matches!(part.body, PartBody::Text(_)) {
        note_summary(connection, &chain, &log[0].info, &place, now)?;
    }
    let changed = Changed { key: chain.own(), session: &claim.session, now };
    changed.note(connection, ChangeKind::PartAppended, Some(message.as_str()), Some(part.id.as_str()))
}

/// A summary makes a pivot once it is finished and says something.
fn note_summary(
    connection: &Connection,
    chain: &Chain,
    info: &Info,
    place: &At,
    now: Millis,
) -> Result<(), StoreError> {
    if !info.summary {
        return Ok(());
    }
    let message = read::one(connection, chain, &place.1, Detail::Whole)?;
    match message.filter(Message::is_finished_summary) {
        Some(summary) => note_pivot(connection, chain, &summary, place, now),
        None => Ok(()),
    }
}

/// Inherited messages belong to the parent; a fork adds to none of them. And what a fork shares stays as it is.
fn own_message(connection: &Connection, chain: &Chain, message: &MessageId) -> Result<At, StoreError> {
    match chain.find(connection, message.as_str())? {
        Some((segment, place)) if segment.key == chain.own() => {
            unshared(connection, chain, place, message.as_str())
        }
        Some(_) => Err(crate::inherited(message.as_str())),
        None => Err(StoreError::missing("message", message)),
    }
}

/// The place of a part that may go forward.
pub(super) fn own_part(connection: &Connection, chain: &Chain, part: &PartId) -> Result<At, StoreError> {
    let found = chain.find_part(connection, part.as_str())?;
    let (segment, place) = found.ok_or_else(|| StoreError::missing("part", part))?;
    if segment.key != chain.own() {
        return Err(crate::inherited(part.as_str()));
    }
    unshared(connection, chain, place, part.as_str())
}

/// The place, unless a session was forked at it or after it.
pub(super) fn unshared(
    connection: &Connection,
    chain: &Chain,
    place: At,
    what: &str,
) -> Result<At, StoreError> {
    let shared: bool = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM session WHERE forked_from = ?1 AND (fork_at, fork_id) >= (?2, ?3))",
        )?
        .query_row(params![chain.own(), place.0, place.1], |row| row.get(0))?;
    if shared { Err(crate::shared(what)) } else { Ok(place) }
}

/// Let a part go forward: text grows, a call starts, answers or fails.
pub(crate) fn advance(
    connection: &Connection,
    claim: &Claim,
    part: &Part,
    now: Millis,
) -> Result<(), StoreError> {
    let chain = Chain::claimed(connection, claim)?;
    let place = own_part(connection, &chain, &part.id)?;
    // The log knows what may change; it is asked about this one part of its message.
    let mut message = read::info(connection, chain.own(), &place)?;
    message.parts.push(read::part(connection, &claim.session, &part.id)?);
    let mut log = Log::from_messages([message]);
    let before = log.part(&part.id)?.clone();
    log.advance(part.clone())?;
    let after = log.part(&part.id)?;
    if *after == before {
        return Ok(());
    }
    update_part(connection, chain.own(), after)?;
    note_summary(connection, &chain, &log[0].info, &place, now)?;
    let changed = Changed { key: chain.own(), session: &claim.session, now };
    changed.note(connection, ChangeKind::Advanced, Some(&place.1), Some(part.id.as_str()))
}

/// Write a part anew, with all that it says: deltas are no longer needed.
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
             files = ?9, data = ?10, text = ?11, sum = ?12 WHERE session = ?1 AND id = ?2",
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
            row.text.as_ref().map(Text::as_str),
            sum(&row.data, row.text.as_ref().map(Text::as_str))
        ])?;
    index_anew(connection, session, part.id.as_str())
}

/// What the index for searches knows of a text must be what the text says.
fn index_anew(connection: &Connection, session: i64, part: &str) -> Result<(), StoreError> {
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

/// Write what is known about a message besides its parts.
pub(super) fn update_info(
    connection: &Connection,
    session: i64,
    place: &At,
    message: &Message,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE message SET info = ?4, is_open = ?5 WHERE session = ?1 AND at = ?2 AND id = ?3",
        )?
        .execute(params![
            session,
            place.0,
            place.1,
            rows::info_json(message)?,
            crate::is_unfinished(message)
        ])?;
    Ok(())
}

/// Record what has become known about a message.
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

/// Count a message for what is known of it now instead of what was known before.
pub(super) fn recount(
    connection: &Connection,
    session: i64,
    before: &Info,
    after: &Info,
) -> Result<(), StoreError> {
    let usage = |info: &Info| info.tokens.clone().unwrap_or_default();
    let cost = |info: &Info| info.cost.as_ref().and_then(serde_json::Number::as_f64).unwrap_or_default();
    let (counted, counts) = (usage(before), usage(after));
    // As `Totals::recount` does it: a sum that is too large becomes a float, and the smaller of both is taken.
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

/// Record reductions: what they appended, the marks they set, their receipts; all or nothing.
pub(crate) fn reduce(
    connection: &Connection,
    claim: &Claim,
    reduction: &Reduction,
    planned_on: Option<Revision>,
    now: Millis,
) -> Result<(), StoreError> {
    let (chain, last) = Chain::claimed_with_end(connection, claim)?;
    if is_recorded(connection, claim, &reduction.receipts)? {
        return Ok(());
    }
    if let Some(planned_on) = planned_on {
        require_fresh(connection, claim, chain.own(), planned_on)?;
    }
    let (mut appended, mut revision) = (Vec::new(), None);
    if !reduction.appended.is_empty() {
        let missed = missed(connection, &chain, reduction)?;
        let place =
            |id: &MessageId| chain.find(connection, id.as_str()).ok().flatten().map(|(_, place)| place);
        appended =
            reduction.appended_before(missed.as_ref().map(|place| MessageId::new(&*place.1)).as_ref(), place);
        revision = Some(insert_messages(connection, &chain, last, &appended, now)?);
        imports::note_reduction(connection, chain.own(), appended.len())?;
    }
    let mut shapes = !appended.is_empty();
    for receipt in &reduction.receipts {
        let moment = moment(connection, &claim.session, receipt.at)?;
        for (part, effect) in receipt.plan.effects() {
            let found = chain.find_part(connection, part.as_str())?;
            let (_, place) = found.ok_or_else(|| StoreError::missing("part", part))?;
            let mark = Mark { receipt: Some(receipt.id.clone()), effect, set: moment.clone(), lifted: None };
            Marked { session: chain.own(), at: place.0, part: part.as_str() }.set(connection, &mark)?;
            shapes = true;
        }
        insert_receipt(connection, chain.own(), receipt)?;
    }
    let changed = Changed { key: chain.own(), session: &claim.session, now };
    let revision = match revision {
        Some(revision) => revision,
        None => changed.next_revision(connection)?,
    };
    if shapes {
        shaped(connection, chain.own(), revision)?;
    }
    add_appended(connection, claim, revision, &appended)?;
    feed::add(connection, &claim.session, revision, ChangeKind::Reduced, None, None)
}

/// Whether a reduction was recorded before. Its receipts come together or not at all, so the first tells.
fn is_recorded(connection: &Connection, claim: &Claim, receipts: &[Receipt]) -> Result<bool, StoreError> {
    let Some(first) = receipts.first() else { return Ok(false) };
    match read::receipt(connection, &first.id) {
        Err(StoreError::Missing { .. }) => Ok(false),
        Ok((session, there)) if session == claim.session && there == *first => Ok(true),
        Ok(_) => Err(StoreError::duplicate("receipt", &first.id)),
        Err(error) => Err(error),
    }
}

/// Refuse what was planned before the window was last reduced or widened.
fn require_fresh(
    connection: &Connection,
    claim: &Claim,
    session: i64,
    planned_on: Revision,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached("SELECT shaped FROM session WHERE key = ?1")?;
    let reduced_in = Revision(statement.query_row([session], |row| row.get(0))?);
    if reduced_in > planned_on {
        let session = claim.session.clone();
        return Err(StoreError::Stale { session, planned_on, reduced_in });
    }
    Ok(())
}

/// Remember the revision in which the window was last reduced or widened.
pub(super) fn shaped(connection: &Connection, session: i64, revision: Revision) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE session SET shaped = ?2 WHERE key = ?1")?
        .execute((session, integer(revision.0)))?;
    Ok(())
}

/// Now, in the order of the session's log.
fn moment(connection: &Connection, session: &SessionId, now: Millis) -> Result<Moment, StoreError> {
    let (_, (_, newest)) = Chain::with_end(connection, session)?;
    Ok(Moment { at: now, after: Some(newest).filter(|id| !id.is_empty()).map(MessageId::new) })
}

/// The first message that the snapshot of a reduction did not have, or had not whole.
fn missed(connection: &Connection, chain: &Chain, reduction: &Reduction) -> Result<Option<At>, StoreError> {
    let seen = match &reduction.seen {
        Some(seen) => {
            let found = chain.find(connection, seen.as_str())?;
            found.map(|(_, place)| place).ok_or_else(|| StoreError::missing("message", seen))?
        }
        // Without a word about the snapshot, it is taken to be the log itself.
        None => return Ok(None),
    };
    // Others append only to the session's own stretch.
    let new: Option<At> = connection
        .prepare_cached(
            "SELECT at, id FROM message WHERE session = ?1 AND (at, id) > (?2, ?3) AND role <> 'system'
             ORDER BY at, id LIMIT 1",
        )?
        .query_row(params![chain.own(), seen.0, seen.1], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let mut missed = new;
    for open in &reduction.open {
        let id = open.info.id.as_str();
        let now = read::one(connection, chain, id, Detail::Whole)?;
        let now = now.ok_or_else(|| StoreError::missing("message", id))?;
        if !plimsoll::reduction::same_content(open, &now) {
            let place = chain.find(connection, id)?.map(|(_, place)| place);
            missed = missed.into_iter().chain(place).min();
        }
    }
    Ok(missed)
}

pub(super) fn insert_receipt(
    connection: &Connection,
    session: i64,
    receipt: &Receipt,
) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT INTO receipt (id, session, at, undoes, data) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![
            receipt.id.as_str(),
            session,
            receipt.at.0,
            receipt.undoes.as_ref().map(ReceiptId::as_str),
            serde_json::to_string(receipt)?
        ])?;
    Ok(())
}

/// Undo a reduction. The log stays; marks are lifted, a pivot is set aside.
pub(crate) fn undo(
    connection: &Connection,
    claim: &Claim,
    id: &ReceiptId,
    ids: &mut Ids,
    now: Millis,
) -> Result<Receipt, StoreError> {
    let chain = Chain::claimed(connection, claim)?;
    let (session, receipt) = read::receipt(connection, id)?;
    if session != claim.session {
        return Err(StoreError::missing("receipt", id));
    }
    let done: Option<String> = connection
        .prepare_cached("SELECT id FROM receipt WHERE undoes = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    if let Some(done) = done {
        return Err(StoreError::Undone { receipt: id.clone(), by: ReceiptId::new(done) });
    }
    let parts: Vec<PartId> = receipt.plan.effects().into_iter().map(|(part, _)| part.clone()).collect();
    let compact = match &receipt.plan {
        Plan::Compact(plan) => Some(plan.clone()),
        _ => None,
    };
    let (marker, go_on) = compact.map(|plan| (plan.marker, plan.go_on)).unwrap_or_default();
    // The engine knows what can be undone; it is asked about the parts concerned, each in a message of its own. What
    // they say is of no concern.
    let mut times: HashMap<&PartId, i64> = HashMap::new();
    let mut touched = Vec::new();
    for part in parts.iter().chain(&go_on) {
        let found = chain.find_part(connection, part.as_str())?;
        let (_, place) = found.ok_or_else(|| StoreError::missing("part", part))?;
        if times.insert(part, place.0).is_none() {
            let marks = marks::of_part(connection, &chain, part.as_str())?;
            let bare = read::outline_of(connection, &chain, part)?.with_marks(marks);
            touched.push(Message { parts: vec![bare], ..Message::default() });
        }
    }
    if let Some(marker) = &marker {
        let message = read::one(connection, &chain, marker.as_str(), Detail::Outline)?;
        let mut message = message.ok_or_else(|| StoreError::missing("message", marker))?;
        // One part of it may be among those above.
        message.parts.retain(|part| !times.contains_key(&part.id));
        touched.push(message);
    }
    let undone = receipt.undo(&mut Log::from_messages(touched), ids, now)?;
    let moment = moment(connection, &session, now)?;
    let marked = |part: &'_ PartId| times.get(part).copied().unwrap_or_default();
    for part in &parts {
        let marked = Marked { session: chain.own(), at: marked(part), part: part.as_str() };
        marked.lift(connection, (&receipt.id, receipt.at), &undone.id, &moment)?;
    }
    if let Some(go_on) = &go_on {
        let (receipt, set) = (Some(undone.id.clone()), moment.clone());
        let mark = Mark { receipt, effect: Effect::Hide, set, lifted: None };
        Marked { session: chain.own(), at: marked(go_on), part: go_on.as_str() }.set(connection, &mark)?;
    }
    if let Some(marker) = &marker {
        set_aside(connection, &chain, marker, &moment)?;
    }
    insert_receipt(connection, chain.own(), &undone)?;
    let changed = Changed { key: chain.own(), session: &claim.session, now };
    let revision = changed.next_revision(connection)?;
    shaped(connection, chain.own(), revision)?;
    feed::add(connection, &claim.session, revision, ChangeKind::Undone, None, None)?;
    Ok(undone)
}

/// A pivot no longer counts, for this session and those forked from it later.
fn set_aside(
    connection: &Connection,
    chain: &Chain,
    marker: &MessageId,
    moment: &Moment,
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
    // Whatever pivot counts now says which messages are behind a summary.
    let (first, end) = ((i64::MIN, String::new()), (i64::MAX, "\u{10ffff}".to_owned()));
    match read::newest_pivot(connection, chain)? {
        Some(pivot) => flag(connection, chain, &pivot.tail.unwrap_or(pivot.marker), &end, false),
        None => flag(connection, chain, &first, &end, false),
    }
}
