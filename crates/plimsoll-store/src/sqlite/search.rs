//! Searching what is outside the window.
//!
//! Texts are scanned. A trigram index, updated during sweeps, saves most of the scan for plain words. It never decides
//! whether a text matches, only which texts to scan.

use plimsoll::log::{Effect, Mark};
use plimsoll::{MessageId, Part, SessionId};
use rusqlite::{Connection, OptionalExtension, params};

use super::chain::{Chain, Segment};
use super::position::Position;
use super::rows::TEXT;
use super::sums::lossy;
use super::{marks, read};
use crate::error::StoreError;
use crate::recall::{Hit, INPUT, Recalled, Search, Selection, input_text, part_text, tool_of};
use crate::store::IndexStep;

/// Texts longer than this are not indexed but scanned each time: indexing one would hold the writer for long, and
/// scanning it is fast.
const LARGEST: i64 = 1_000_000;
/// Number of characters that are indexed in one step, so that the writer is held briefly.
const STEP: i64 = 300_000;
/// Number of sessions that a step looks at to find one with something to index.
const SESSIONS: usize = 200;

/// Searches everything of a session that is not visible: what summaries replaced, and what was cleared or cut.
pub(super) fn search(
    connection: &Connection,
    session: &SessionId,
    wanted: &Selection,
) -> Result<Vec<Hit>, StoreError> {
    let Some(search) = &wanted.search else {
        return Err(StoreError::Refused("a search needs a pattern".into()));
    };
    let pattern = search.compile()?;
    let chain = Chain::of(connection, session)?;
    let start = read::newest_pivot(connection, &chain)?.map(|pivot| pivot.tail.unwrap_or(pivot.marker));
    let mut hits = Hits { wanted, left: wanted.max_bytes, found: 0, hits: Vec::new() };
    for segment in &chain.0 {
        if let Some(start) = &start {
            let plain = trigrams(search);
            behind(connection, segment, start, plain.as_deref(), |row| {
                wanted.stop.check()?;
                let input = row.input();
                if let Some(why) =
                    row.damage.clone().or_else(|| input.as_ref().err().map(ToString::to_string))
                {
                    hits.hits.push(Hit::unsearched(row.id, Some(row.message), row.tool, why));
                    return Ok(true);
                }
                let input = input?.filter(|input| pattern.is_match(input.as_bytes()));
                if let Some(input) = input
                    && !hits.add(&format!("{}{INPUT}", row.id), row.message, row.tool, &input)?
                {
                    return Ok(false);
                }
                match row.text.filter(|text| pattern.is_match(text.as_bytes())) {
                    Some(text) => hits.add(row.id, row.message, row.tool, text),
                    None => Ok(true),
                }
            })?;
        }
    }
    let marks =
        marks::of_range(connection, &chain, start.as_ref().map_or(i64::MIN, |start| start.time), None)?;
    let mut marked: Vec<(Position, String, OutOfView)> = Vec::new();
    for (part, marks) in marks {
        let out = OutOfView::of(&marks);
        if out.input || out.text {
            let place = chain.find_part(connection, &part)?.map(|(_, place)| place);
            let place = place.filter(|place| start.as_ref().is_none_or(|start| place >= start));
            marked.extend(place.map(|at| (at, part, out)));
        }
    }
    marked.sort();
    for (at, id, out) in marked {
        wanted.stop.check()?;
        let part = match read::part(connection, session, &plimsoll::PartId::new(id.as_str())) {
            Err(StoreError::Damaged { why, .. }) => {
                hits.hits.push(Hit::unsearched(&id, Some(&at.id), None, why));
                continue;
            }
            part => part?,
        };
        let tool = tool_of(&part);
        let input = if out.input { input_text(&part) } else { None };
        if let Some(input) = input.filter(|input| pattern.is_match(input.as_bytes())) {
            hits.add(&format!("{id}{INPUT}"), &at.id, tool, &input)?;
        }
        let text = part_text(&part).filter(|_| out.text);
        if let Some(text) = text.filter(|text| pattern.is_match(text.as_bytes())) {
            hits.add(&id, &at.id, tool, text)?;
        }
    }
    Ok(hits.hits)
}

/// Texts of a part that marks hide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OutOfView {
    /// The input of a tool call.
    input: bool,
    /// The text or the result.
    text: bool,
}

impl OutOfView {
    fn of(marks: &[Mark]) -> OutOfView {
        let mut out = OutOfView { input: false, text: false };
        for mark in marks.iter().filter(|mark| mark.is_active()) {
            match mark.effect {
                Effect::Hide | Effect::Replace(_) | Effect::Edit(_) => {
                    out = OutOfView { input: true, text: true };
                }
                Effect::Clear(_) | Effect::Cut(_) => out.text = true,
                Effect::ClearInput(_) => out.input = true,
                Effect::Pin(_) | Effect::Unpin => {}
            }
        }
        out
    }
}

struct Hits<'a> {
    wanted: &'a Selection,
    left: usize,
    found: usize,
    hits: Vec<Hit>,
}

impl Hits<'_> {
    /// Adds a text that matches. Returns whether there is room for more.
    fn add(
        &mut self,
        handle: &str,
        message: &str,
        tool: Option<&str>,
        text: &str,
    ) -> Result<bool, StoreError> {
        let matches = self.wanted.max_matches.saturating_sub(self.found);
        if self.left == 0 || matches == 0 {
            if let Some(last) = self.hits.last_mut() {
                last.found.cut = true;
            }
            return Ok(false);
        }
        let wanted = Selection {
            max_bytes: self.left,
            max_matches: matches,
            lines: None,
            search: self.wanted.search.clone(),
            stop: self.wanted.stop.clone(),
        };
        let found = Recalled::of(text, &wanted)?;
        if found.matches == 0 {
            return Ok(true);
        }
        self.left = self.left.saturating_sub(found.lines.iter().map(|line| line.text.len() + 1).sum());
        self.found += found.matches as usize;
        let (message, tool) = (Some(MessageId::new(message)), tool.map(str::to_owned));
        self.hits.push(Hit { handle: handle.to_owned(), message, tool, found, unsearched: None });
        Ok(true)
    }
}

/// A part as a search reads it.
struct SearchedPart<'a> {
    id: &'a str,
    message: &'a str,
    tool: Option<&'a str>,
    text: Option<&'a str>,
    /// The rest of the row, for a part with an input.
    data: Option<&'a str>,
    /// Why it cannot be read.
    damage: Option<String>,
}

impl SearchedPart<'_> {
    fn input(&self) -> Result<Option<String>, StoreError> {
        let part = self.data.map(serde_json::from_str::<Part>).transpose()?;
        Ok(part.as_ref().and_then(input_text))
    }
}

type Visit<'a> = &'a mut dyn FnMut(&SearchedPart<'_>) -> Result<bool, StoreError>;

/// Visits the parts of a segment before a position, oldest first, until the visitor has enough. With `plain`, only
/// those that may contain it by the index.
fn behind(
    connection: &Connection,
    segment: &Segment,
    start: &Position,
    plain: Option<&str>,
    mut visit: impl FnMut(&SearchedPart<'_>) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let end = match &segment.upto {
        Some(upto) if upto < start => Position::new(upto.time, format!("{}\0", upto.id)),
        _ => start.clone(),
    };
    let visit: Visit<'_> = &mut visit;
    let Some(plain) = plain else {
        return scan(connection, "", params![segment.key, end.time, end.id], visit);
    };
    // A growing text may contain more than the index.
    let maybe = format!(
        "AND (seq > ?4 OR chars + input_chars > {LARGEST}
         OR seq IN (SELECT rowid FROM search WHERE search MATCH ?5)
         OR seq IN (SELECT part FROM delta))"
    );
    let upto = indexed_to(connection, segment.key)?;
    scan(connection, &maybe, params![segment.key, end.time, end.id, upto, plain], visit)
}

fn indexed_to(connection: &Connection, session: i64) -> Result<i64, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT coalesce((SELECT upto FROM searched WHERE session = ?1), 0)")?;
    Ok(statement.query_row([session], |row| row.get(0))?)
}

fn scan(
    connection: &Connection,
    only: &str,
    bounds: impl rusqlite::Params,
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT id, message, tool, {TEXT}, CASE WHEN kind IN ('tool', 'call') THEN data END FROM part
         WHERE session = ?1 AND (at, message) < (?2, ?3) AND (text IS NOT NULL OR kind = 'call' OR kind = 'tool')
         AND kind <> 'file' {only} ORDER BY at, message, ord"
    ))?;
    let mut rows = statement.query(bounds)?;
    while let Some(row) = rows.next()? {
        let (id, message) = (lossy(row, 0)?, lossy(row, 1)?);
        let maybe = |column: usize| row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from);
        let read = [maybe(2), maybe(3), maybe(4)].into_iter().collect::<Result<Vec<_>, _>>();
        let damage = read.as_ref().err().map(|error| format!("it cannot be read: {error}"));
        let read = read.unwrap_or_else(|_| vec![None; 3]);
        let seen =
            SearchedPart { id: &id, message: &message, tool: read[0], text: read[1], data: read[2], damage };
        if !visit(&seen)? {
            break;
        }
    }
    Ok(())
}

/// Returns an index query that finds every text with a plain pattern, and some others. `None` for patterns of fewer
/// than three characters, and for regular expressions.
fn trigrams(search: &Search) -> Option<String> {
    let plain = search.literal || regex::escape(&search.pattern) == search.pattern;
    let letters: Vec<char> = search.pattern.chars().collect();
    if !plain || letters.len() < 3 || letters.iter().any(|letter| *letter == '\0' || *letter == '\n') {
        return None;
    }
    let runs =
        letters.windows(3).map(|run| format!("\"{}\"", run.iter().collect::<String>().replace('"', "\"\"")));
    Some(runs.collect::<Vec<_>>().join(" AND "))
}

/// A range of a session's parts to index: what summaries replaced does not change any more.
pub(super) struct IndexRange {
    session: i64,
    last: i64,
}

/// Returns the next session with something to index, starting with a key, or where to continue. Runs outside of the
/// writer.
pub(super) fn next_range(
    connection: &Connection,
    from: i64,
) -> Result<Result<IndexRange, Option<i64>>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT session FROM compaction WHERE session >= ?1 ORDER BY session LIMIT ?2",
    )?;
    let keys = statement.query_map((from, SESSIONS as i64), |row| row.get(0))?;
    let keys = keys.collect::<Result<Vec<i64>, _>>()?;
    for key in &keys {
        let last = last_behind(connection, *key)?;
        if let Some(last) = last.filter(|last| indexed_to(connection, *key).is_ok_and(|upto| *last > upto)) {
            return Ok(Ok(IndexRange { session: *key, last }));
        }
    }
    Ok(Err(keys.last().filter(|_| keys.len() == SESSIONS).map(|key| key + 1)))
}

/// Returns the newest of a session's own parts that a summary replaced.
fn last_behind(connection: &Connection, key: i64) -> Result<Option<i64>, StoreError> {
    let is_there: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM session WHERE key = ?1 AND removed IS NULL)")?
        .query_row([key], |row| row.get(0))?;
    if !is_there {
        return Ok(None);
    }
    let chain = Chain::of_key(connection, key)?;
    let Some(pivot) = read::newest_pivot(connection, &chain)? else { return Ok(None) };
    let start = pivot.tail.unwrap_or(pivot.marker);
    let mut statement = connection
        .prepare_cached("SELECT max(seq) FROM part WHERE session = ?1 AND (at, message) < (?2, ?3)")?;
    Ok(statement.query_row(params![key, start.time, start.id], |row| row.get(0))?)
}

/// Indexes a piece of a range.
pub(super) fn index(connection: &Connection, range: &IndexRange) -> Result<IndexStep, StoreError> {
    let IndexRange { session, last } = *range;
    let upto = indexed_to(connection, session)?;
    let mut statement = connection.prepare_cached(
        "SELECT seq, chars + input_chars FROM part WHERE session = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT 1000",
    )?;
    let mut rows = statement.query((session, upto, last))?;
    let (mut reached, mut added, mut size) = (upto, 0, 0);
    while size < STEP
        && let Some(row) = rows.next()?
    {
        reached = row.get(0)?;
        let chars: i64 = row.get(1)?;
        // Longer texts count as indexed too; every search scans them.
        if chars <= LARGEST {
            index_part(connection, reached)?;
            (added, size) = (added + 1, size + chars + 50);
        }
    }
    drop(rows);
    if reached > upto {
        connection
            .prepare_cached(
                "INSERT INTO searched (session, upto) VALUES (?1, ?2)
                 ON CONFLICT (session) DO UPDATE SET upto = max(upto, ?2)",
            )?
            .execute((session, reached))?;
    }
    // A session that was removed meanwhile has nothing left to index.
    let is_done = reached >= last || reached == upto;
    Ok(IndexStep { added, next: u64::try_from(session + i64::from(is_done)).ok() })
}

/// Empties the index. Sweeps fill it again, and until then searches scan the texts.
pub(super) fn clear(connection: &Connection) -> Result<(), StoreError> {
    Ok(connection.execute_batch(
        "DELETE FROM searched; INSERT INTO search (search) VALUES ('delete-all'); UPDATE search_state SET stale = 0",
    )?)
}

/// Prepares the index for the removal of a session. If most of the index belongs to it, the index is rebuilt: indexing
/// the rest again costs less than deleting row by row.
pub(super) fn forget_session(connection: &Connection, session: i64) -> Result<(), StoreError> {
    let upto = indexed_to(connection, session)?;
    if upto == 0 {
        return Ok(());
    }
    let own: i64 = connection
        .prepare_cached("SELECT count(*) FROM part INDEXED BY part_order WHERE session = ?1")?
        .query_row([session], |row| row.get(0))?;
    let all: i64 =
        connection.prepare_cached("SELECT count(*) FROM search_docsize")?.query_row([], |row| row.get(0))?;
    if own >= all / 2 { clear(connection) } else { Ok(()) }
}

/// Counts deleted rows of the index.
pub(super) fn note_stale(connection: &Connection, rows: usize) -> Result<(), StoreError> {
    connection.prepare_cached("UPDATE search_state SET stale = stale + ?1")?.execute([rows])?;
    Ok(())
}

/// Number of pages that a merge step writes.
const MERGE: i64 = 500;

/// Merges deleted rows away in a step, if there are many. Returns whether there is more to do.
pub(super) fn merge(connection: &Connection) -> Result<bool, StoreError> {
    let stale: i64 = connection.query_row("SELECT stale FROM search_state", [], |row| row.get(0))?;
    let all: i64 = connection.query_row("SELECT count(*) FROM search_docsize", [], |row| row.get(0))?;
    if stale == 0 || stale < all / 4 {
        return Ok(false);
    }
    if all == 0 {
        clear(connection)?;
        return Ok(false);
    }
    let changes = |connection: &Connection| -> Result<i64, StoreError> {
        Ok(connection.query_row("SELECT total_changes()", [], |row| row.get(0))?)
    };
    let before = changes(connection)?;
    // A negative number merges all segments into one, in steps.
    connection.execute("INSERT INTO search (search, rank) VALUES ('merge', ?1)", [-MERGE])?;
    if changes(connection)? - before >= 2 {
        return Ok(true);
    }
    connection.execute("UPDATE search_state SET stale = 0", [])?;
    Ok(false)
}

/// Adds a part to the index.
pub(super) fn index_part(connection: &Connection, seq: i64) -> Result<(), StoreError> {
    let found: Option<(Part, Option<String>)> = connection
        .prepare_cached(&format!(
            "SELECT data, {TEXT} FROM part WHERE seq = ?1 AND kind <> 'file' AND chars + input_chars <= ?2"
        ))?
        .query_row((seq, LARGEST), |row| {
            let data = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
            Ok((serde_json::from_str(data).map_err(StoreError::from), row.get(1)?))
        })
        .optional()?
        .map(|(part, text): (Result<Part, StoreError>, _)| part.map(|part| (part, text)))
        .transpose()?;
    let Some((part, text)) = found else { return Ok(()) };
    let indexed = match (text, input_text(&part)) {
        (None, None) => return Ok(()),
        (Some(text), None) | (None, Some(text)) => text,
        (Some(text), Some(input)) => format!("{text}\n{input}"),
    };
    connection.prepare_cached("INSERT INTO search (rowid, text) VALUES (?1, ?2)")?.execute((seq, indexed))?;
    Ok(())
}
