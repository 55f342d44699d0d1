//! Searching what is out of the window.
//!
//! Texts are scanned as they lie. An index of all runs of three characters, brought up to date on the side, saves
//! most of the scan for plain words; it never decides, it only says where to look.

use plimsoll::log::{Effect, Mark};
use plimsoll::{MessageId, SessionId};
use rusqlite::{Connection, params};

use super::chain::{At, Chain, Segment};
use super::rows::TEXT;
use super::{marks, read};
use crate::error::StoreError;
use crate::recall::{Ask, Hit, Recalled, Search, part_text};

/// Everything of a session that is out of sight: what a summary stands for, and what was cleared or cut.
pub(super) fn search(
    connection: &Connection,
    session: &SessionId,
    ask: &Ask,
) -> Result<Vec<Hit>, StoreError> {
    let Some(search) = &ask.search else {
        return Err(StoreError::Refused("a search needs a pattern".into()));
    };
    let pattern = search.compile()?;
    let chain = Chain::of(connection, session)?;
    let start = read::newest_pivot(connection, &chain)?.map(|pivot| pivot.tail.unwrap_or(pivot.marker));
    let mut hits = Hits { ask, left: ask.most_bytes, found: 0, hits: Vec::new() };
    for segment in &chain.0 {
        if let Some(start) = &start {
            let plain = trigrams(search);
            behind(connection, segment, start, plain.as_deref(), |id, message, tool, text| {
                if pattern.is_match(text) { hits.add(id, message, tool, text) } else { Ok(true) }
            })?;
        }
    }
    let marks = marks::of_range(connection, &chain, start.as_ref().map_or(i64::MIN, |start| start.0), None)?;
    let mut marked: Vec<(At, String)> = Vec::new();
    for (part, marks) in marks {
        let reduces = |mark: &Mark| matches!(mark.effect, Effect::Clear | Effect::Cut(_) | Effect::Hide);
        if marks.iter().any(|mark| mark.is_active() && reduces(mark)) {
            let place = chain.find_part(connection, &part)?.map(|(_, place)| place);
            marked.extend(
                place.filter(|place| start.as_ref().is_none_or(|start| place >= start)).map(|at| (at, part)),
            );
        }
    }
    marked.sort();
    for (at, id) in marked {
        let part = read::part(connection, session, &plimsoll::PartId::new(id.as_str()))?;
        let tool = part.as_tool().map(|tool| tool.tool.clone());
        if let Some(text) = part_text(&part).filter(|text| pattern.is_match(text)) {
            hits.add(&id, &at.1, tool.as_deref(), text)?;
        }
    }
    Ok(hits.hits)
}

struct Hits<'a> {
    ask: &'a Ask,
    left: usize,
    found: usize,
    hits: Vec<Hit>,
}

impl Hits<'_> {
    /// Take a part that matches; says whether there is room for more.
    fn add(&mut self, id: &str, message: &str, tool: Option<&str>, text: &str) -> Result<bool, StoreError> {
        let matches = self.ask.most_matches.saturating_sub(self.found);
        if self.left == 0 || matches == 0 {
            if let Some(last) = self.hits.last_mut() {
                last.found.cut = true;
            }
            return Ok(false);
        }
        let ask = Ask {
            most_bytes: self.left,
            most_matches: matches,
            lines: None,
            search: self.ask.search.clone(),
        };
        let found = Recalled::of(text, &ask)?;
        if found.matches == 0 {
            return Ok(true);
        }
        self.left = self.left.saturating_sub(found.lines.iter().map(|line| line.text.len() + 1).sum());
        self.found += found.matches as usize;
        let (message, tool) = (Some(MessageId::new(message)), tool.map(str::to_owned));
        self.hits.push(Hit { handle: id.to_owned(), message, tool, found });
        Ok(true)
    }
}

type Visit<'a> = &'a mut dyn FnMut(&str, &str, Option<&str>, &str) -> Result<bool, StoreError>;

/// Visit the texts of a segment before a place, oldest first, until the visitor has enough. With `plain` only those
/// that may contain it, as far as the index knows.
fn behind(
    connection: &Connection,
    segment: &Segment,
    start: &At,
    plain: Option<&str>,
    mut visit: impl FnMut(&str, &str, Option<&str>, &str) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let end = match &segment.upto {
        Some(upto) if upto < start => (upto.0, format!("{}\0", upto.1)),
        _ => start.clone(),
    };
    let visit: Visit<'_> = &mut visit;
    let Some(plain) = plain else {
        return scan(connection, "", params![segment.key, end.0, end.1], visit);
    };
    let upto: i64 = connection
        .prepare_cached("SELECT coalesce((SELECT upto FROM searched WHERE session = ?1), 0)")?
        .query_row([segment.key], |row| row.get(0))?;
    // A text that still grows may say more than the index knows.
    let maybe = "AND (seq > ?4 OR seq IN (SELECT rowid FROM search WHERE search MATCH ?5)
                 OR seq IN (SELECT part FROM delta))";
    scan(connection, maybe, params![segment.key, end.0, end.1, upto, plain], visit)
}

fn scan(
    connection: &Connection,
    only: &str,
    bounds: impl rusqlite::Params,
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT id, message, tool, {TEXT} FROM part WHERE session = ?1 AND (at, message) < (?2, ?3)
         AND text IS NOT NULL AND kind <> 'file' {only} ORDER BY at, message, ord"
    ))?;
    let mut rows = statement.query(bounds)?;
    while let Some(row) = rows.next()? {
        let string = |column: usize| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
        let tool = row.get_ref(2)?.as_str_or_null().map_err(rusqlite::Error::from)?;
        if !visit(string(0)?, string(1)?, tool, string(3)?)? {
            break;
        }
    }
    Ok(())
}

/// A query for the index that finds every text with a plain pattern in it, and some others. Patterns of fewer than
/// three characters, and regular expressions, are not for it.
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

/// Bring the index up to date with everything that summaries stand for: that changes no more.
pub(super) fn index(connection: &Connection) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached("SELECT key FROM session WHERE removed IS NULL")?;
    let keys = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    let mut added = 0;
    for key in keys {
        let chain = Chain::of_key(connection, key)?;
        let Some(pivot) = read::newest_pivot(connection, &chain)? else { continue };
        let start = pivot.tail.unwrap_or(pivot.marker);
        let upto: i64 = connection
            .prepare_cached("SELECT coalesce((SELECT upto FROM searched WHERE session = ?1), 0)")?
            .query_row([key], |row| row.get(0))?;
        let last: Option<i64> = connection
            .prepare_cached("SELECT max(seq) FROM part WHERE session = ?1 AND (at, message) < (?2, ?3)")?
            .query_row(params![key, start.0, start.1], |row| row.get(0))?;
        let Some(last) = last.filter(|last| *last > upto) else { continue };
        added += connection
            .prepare_cached(
                "INSERT INTO search (rowid, text) SELECT seq, text FROM part
                 WHERE session = ?1 AND seq > ?2 AND seq <= ?3 AND text IS NOT NULL AND kind <> 'file'",
            )?
            .execute((key, upto, last))? as u64;
        connection
            .prepare_cached(
                "INSERT INTO searched (session, upto) VALUES (?1, ?2)
                 ON CONFLICT (session) DO UPDATE SET upto = ?2",
            )?
            .execute((key, last))?;
    }
    Ok(added)
}
