//! Marks as rows: each row sets one mark on a part, or lifts those of a receipt. Rows are never updated, so a fork sees
//! the marks at that moment.
//!
//! A lifting row names no part: it applies to all marks of its receipt in its session, so an undo writes one row
//! however many marks there are. With a row for each part, an undo of 50,000 marks held the writer for seconds. The row
//! is looked up when a mark of its receipt is read. Databases of older versions have lifting rows for single parts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use plimsoll::log::{Effect, LogPosition, Mark};
use plimsoll::{Chars, Millis, ReceiptId};
use rusqlite::{Connection, OptionalExtension, Row, Rows, params};
use serde::{Deserialize, Serialize};

use super::chain::{Chain, Segment};
use super::position::Position;
use super::sums;
use crate::error::StoreError;

/// The effect of a lifting row.
const LIFT: &str = "lift";

/// The part of a row that lifts all marks of a receipt. No part has this id: an empty one is refused.
const EVERY_PART: &str = "";

/// Content of a lifting row.
#[derive(Serialize, Deserialize)]
struct Lift {
    /// The receipt of the undo.
    by: ReceiptId,
    /// Time of the undo.
    #[serde(flatten)]
    moment: LogPosition,
    /// Time the marks were set, for those without a receipt.
    set: Millis,
}

impl Lift {
    /// Lifts the marks of a receipt among the marks of a part.
    fn apply(&self, receipt: &ReceiptId, marks: &mut [Mark]) {
        let belongs = |mark: &&mut Mark| match &mark.receipt {
            Some(of) => of == receipt,
            None => mark.set.at == self.set,
        };
        for mark in marks.iter_mut().filter(|mark| mark.lifted.is_none()).filter(belongs) {
            mark.lifted = Some((self.moment.clone(), self.by.clone()));
        }
    }
}

/// An undo of a receipt's marks.
pub(crate) struct Undoing<'a> {
    /// The undone receipt, and its time.
    pub(crate) receipt: (&'a ReceiptId, Millis),
    /// The receipt of the undo.
    pub(crate) by: &'a ReceiptId,
    /// Time of the undo.
    pub(crate) moment: &'a LogPosition,
}

impl Undoing<'_> {
    /// Lifts all marks of the receipt in a session.
    pub(crate) fn lift_all(&self, connection: &Connection, session: i64) -> Result<(), StoreError> {
        // Before all times, so that range queries do not return it.
        self.lift(connection, &Marked { session, at: i64::MIN, part: EVERY_PART })
    }

    /// Lifts the marks on one part that were set by a version which stored no receipt with them.
    pub(crate) fn lift(&self, connection: &Connection, marked: &Marked<'_>) -> Result<(), StoreError> {
        let (receipt, set) = self.receipt;
        let lift = Lift { by: self.by.clone(), moment: self.moment.clone(), set };
        marked.insert(connection, LIFT, Some(receipt.as_str()), &serde_json::to_string(&lift)?)
    }
}

/// Location of a part: its session's key, the time of its message, its id.
pub(crate) struct Marked<'a> {
    pub(crate) session: i64,
    pub(crate) at: i64,
    pub(crate) part: &'a str,
}

impl Marked<'_> {
    /// Sets a mark.
    pub(crate) fn set(&self, connection: &Connection, mark: &Mark) -> Result<(), StoreError> {
        let receipt = mark.receipt.as_ref().map(ReceiptId::as_str);
        self.insert(connection, mark.effect.name(), receipt, &serde_json::to_string(mark)?)
    }

    fn insert(
        &self,
        connection: &Connection,
        effect: &str,
        receipt: Option<&str>,
        data: &str,
    ) -> Result<(), StoreError> {
        connection
            .prepare_cached(
                "INSERT INTO mark (session, at, part, effect, receipt, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![self.session, self.at, self.part, effect, receipt, data])?;
        Ok(())
    }
}

/// Columns of a mark, in the order that [`take`] reads them.
const COLUMNS: &str = "part, effect, receipt, data, cleared, cut_keep, cut_at, lifted";

/// Returns the marks on parts of messages in a range of times, as the end of the chain sees them.
pub(crate) fn of_range(
    connection: &Connection,
    chain: &Chain,
    from: i64,
    to: Option<i64>,
) -> Result<HashMap<String, Vec<Mark>>, StoreError> {
    let mut marks = HashMap::new();
    for segment in &chain.0 {
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM mark WHERE session = ?1 AND at >= ?2 AND at <= ?3 AND seq <= ?4 AND part <> ''
             ORDER BY seq"
        ))?;
        let bounds = params![segment.key, from, to.unwrap_or(i64::MAX), segment.marks];
        let rows = statement.query(bounds)?;
        take_all(connection, segment, rows, &mut marks)?;
    }
    Ok(marks)
}

/// Returns the marks on one part, as the end of the chain sees them. A time does not identify a part: a host may write
/// fifty thousand messages in one millisecond, and an undo that looked up each part's marks by time took 23.6 s.
pub(crate) fn of_part(connection: &Connection, chain: &Chain, part: &str) -> Result<Vec<Mark>, StoreError> {
    let mut marks = HashMap::new();
    for segment in &chain.0 {
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM mark INDEXED BY mark_part WHERE session = ?1 AND part = ?2 AND seq <= ?3
             ORDER BY seq"
        ))?;
        let rows = statement.query(params![segment.key, part, segment.marks])?;
        take_all(connection, segment, rows, &mut marks)?;
    }
    Ok(marks.remove(part).unwrap_or_default())
}

/// Applies the rows of a segment.
fn take_all(
    connection: &Connection,
    segment: &Segment,
    mut rows: Rows<'_>,
    marks: &mut HashMap<String, Vec<Mark>>,
) -> Result<(), StoreError> {
    let mut parts_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let part = sums::lossy(row, 0)?;
        let taken = take(row, marks.entry(part.clone()).or_default());
        if let Some(receipt) = taken.map_err(StoreError::damaged(|| format!("a mark on part `{part}`")))? {
            parts_of.entry(receipt).or_default().push(part);
        }
    }
    let mut lifts = Vec::new();
    for (receipt, parts) in parts_of {
        lifts.extend(lift_of(connection, segment, &receipt)?.map(|(seq, lift)| (seq, lift, receipt, parts)));
    }
    // In the order in which they were made: the first one that lifts a mark is recorded in it.
    lifts.sort_by_key(|(seq, ..)| *seq);
    for (_, lift, receipt, parts) in lifts {
        let receipt = ReceiptId::new(receipt);
        for part in parts {
            marks.entry(part).and_modify(|marks| lift.apply(&receipt, marks));
        }
    }
    Ok(())
}

/// Returns the row that lifts all marks of a receipt, and its number. A receipt is undone only by its own session, and
/// once.
fn lift_of(
    connection: &Connection,
    segment: &Segment,
    receipt: &str,
) -> Result<Option<(i64, Lift)>, StoreError> {
    let found: Option<(i64, String)> = connection
        .prepare_cached(
            "SELECT seq, data FROM mark INDEXED BY mark_lift
             WHERE receipt = ?1 AND session = ?2 AND part = '' AND seq <= ?3",
        )?
        .query_row(params![receipt, segment.key, segment.marks], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    found.map(|(seq, data)| Ok((seq, serde_json::from_str(&data)?))).transpose()
}

/// Applies a row to the marks of its part. Returns the receipt of a mark that it set.
fn take(row: &Row<'_>, marks: &mut Vec<Mark>) -> Result<Option<String>, StoreError> {
    let data = || row.get_ref(3)?.as_str().map_err(rusqlite::Error::from);
    match row.get::<_, Option<String>>(1)?.as_deref() {
        None => older(row, marks).map(|()| None),
        Some(LIFT) => {
            let lift: Lift = serde_json::from_str(data()?)?;
            lift.apply(&ReceiptId::new(row.get::<_, String>(2)?), marks);
            Ok(None)
        }
        Some(_) => {
            marks.push(serde_json::from_str(data()?)?);
            Ok(row.get(2)?)
        }
    }
}

/// Applies a row of a version whose marks had no receipts: it contains the whole state of its part.
fn older(row: &Row<'_>, marks: &mut Vec<Mark>) -> Result<(), StoreError> {
    marks.retain(|mark| mark.receipt.is_some());
    let time = |column: usize| row.get::<_, Option<u64>>(column).map(|at| at.map(Millis));
    let mark =
        |effect, at, lifted| Mark { receipt: None, effect, set: LogPosition { at, after: None }, lifted };
    let (cleared, cut_at, lifted) = (time(4)?, time(6)?, time(7)?);
    marks.extend(cleared.map(|at| mark(Effect::clear(), at, None)));
    let cut = row.get::<_, Option<u64>>(5)?.zip(cut_at);
    marks.extend(cut.map(|(keep, at)| mark(Effect::Cut(Chars(keep)), at, None)));
    let lift = |at| (LogPosition { at, after: None }, ReceiptId::default());
    marks.extend(lifted.map(|at| mark(Effect::Hide, at, Some(lift(at)))));
    Ok(())
}

/// Returns the messages before a position on which something was ever pinned.
pub(crate) fn pinned_before(
    connection: &Connection,
    chain: &Chain,
    start: &Position,
) -> Result<Vec<Position>, StoreError> {
    let mut parts: BTreeSet<String> = BTreeSet::new();
    for segment in &chain.0 {
        let mut statement = connection.prepare_cached(
            "SELECT part FROM mark INDEXED BY mark_pin WHERE session = ?1 AND at <= ?2 AND effect = 'pin' AND seq <= ?3",
        )?;
        let rows = statement.query_map(params![segment.key, start.time, segment.marks], |row| row.get(0))?;
        parts.extend(rows.collect::<Result<Vec<String>, _>>()?);
    }
    let mut places = Vec::new();
    for part in parts {
        let place = chain.find_part(connection, &part)?.map(|(_, place)| place);
        places.extend(place.filter(|place| place < start));
    }
    Ok(places)
}
