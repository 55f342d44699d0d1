//! Marks as rows: each row sets one mark on a part, or lifts those that belong to a receipt. Nothing is updated, so a
//! fork sees the marks as they were when it was made.

use std::collections::{BTreeSet, HashMap};

use plimsoll::log::{Effect, Mark, Moment};
use plimsoll::{Chars, Millis, ReceiptId};
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};

use super::chain::{At, Chain};
use crate::error::StoreError;

/// The effect of a row that lifts marks.
const LIFT: &str = "lift";

/// What a row that lifts marks says.
#[derive(Serialize, Deserialize)]
struct Lift {
    /// The receipt of the undoing.
    by: ReceiptId,
    /// When it was done.
    #[serde(flatten)]
    moment: Moment,
    /// When the marks were set, for those from before marks knew their receipt.
    set: Millis,
}

/// Where a part stands: its session's key, the time of its message, its id.
pub(crate) struct Marked<'a> {
    pub(crate) session: i64,
    pub(crate) at: i64,
    pub(crate) part: &'a str,
}

impl Marked<'_> {
    /// Set a mark.
    pub(crate) fn set(&self, connection: &Connection, mark: &Mark) -> Result<(), StoreError> {
        let receipt = mark.receipt.as_ref().map(ReceiptId::as_str);
        self.insert(connection, mark.effect.name(), receipt, &serde_json::to_string(mark)?)
    }

    /// Lift the marks of a receipt that was made at `set`.
    pub(crate) fn lift(
        &self,
        connection: &Connection,
        (receipt, set): (&ReceiptId, Millis),
        by: &ReceiptId,
        moment: &Moment,
    ) -> Result<(), StoreError> {
        let lift = Lift { by: by.clone(), moment: moment.clone(), set };
        self.insert(connection, LIFT, Some(receipt.as_str()), &serde_json::to_string(&lift)?)
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

/// The columns of a mark, in the order [`take`] reads them.
const COLUMNS: &str = "part, effect, receipt, data, cleared, cut_keep, cut_at, lifted";

/// The marks on parts of messages in a range of times, as the end of the chain sees them.
pub(crate) fn of_range(
    connection: &Connection,
    chain: &Chain,
    from: i64,
    to: Option<i64>,
) -> Result<HashMap<String, Vec<Mark>>, StoreError> {
    let mut marks = HashMap::new();
    for segment in &chain.0 {
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM mark WHERE session = ?1 AND at >= ?2 AND at <= ?3 AND seq <= ?4 ORDER BY seq"
        ))?;
        let bounds = params![segment.key, from, to.unwrap_or(i64::MAX), segment.marks];
        let mut rows = statement.query(bounds)?;
        while let Some(row) = rows.next()? {
            take(row, marks.entry(row.get::<_, String>(0)?).or_default())?;
        }
    }
    Ok(marks)
}

/// The marks on one part, as the end of the chain sees them. Times do not tell parts apart: a host may write fifty
/// thousand messages in one millisecond, and an undoing that looked for each part's marks by time took 23.6 s.
pub(crate) fn of_part(connection: &Connection, chain: &Chain, part: &str) -> Result<Vec<Mark>, StoreError> {
    let mut marks = Vec::new();
    for segment in &chain.0 {
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM mark INDEXED BY mark_part WHERE session = ?1 AND part = ?2 AND seq <= ?3
             ORDER BY seq"
        ))?;
        let mut rows = statement.query(params![segment.key, part, segment.marks])?;
        while let Some(row) = rows.next()? {
            take(row, &mut marks)?;
        }
    }
    Ok(marks)
}

/// Let a row set a mark or lift some.
fn take(row: &Row<'_>, marks: &mut Vec<Mark>) -> Result<(), StoreError> {
    match row.get::<_, Option<String>>(1)?.as_deref() {
        None => older(row, marks),
        Some(LIFT) => lift(row, marks),
        Some(_) => {
            marks.push(serde_json::from_str(row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?)?);
            Ok(())
        }
    }
}

fn lift(row: &Row<'_>, marks: &mut [Mark]) -> Result<(), StoreError> {
    let receipt = ReceiptId::new(row.get::<_, String>(2)?);
    let lift: Lift = serde_json::from_str(row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?)?;
    let belongs = |mark: &&mut Mark| match &mark.receipt {
        Some(of) => *of == receipt,
        None => mark.set.at == lift.set,
    };
    for mark in marks.iter_mut().filter(|mark| mark.lifted.is_none()).filter(belongs) {
        mark.lifted = Some((lift.moment.clone(), lift.by.clone()));
    }
    Ok(())
}

/// A row from before marks knew their receipt holds the whole state of its part.
fn older(row: &Row<'_>, marks: &mut Vec<Mark>) -> Result<(), StoreError> {
    marks.retain(|mark| mark.receipt.is_some());
    let time = |column: usize| row.get::<_, Option<u64>>(column).map(|at| at.map(Millis));
    let mark = |effect, at, lifted| Mark { receipt: None, effect, set: Moment { at, after: None }, lifted };
    let (cleared, cut_at, lifted) = (time(4)?, time(6)?, time(7)?);
    marks.extend(cleared.map(|at| mark(Effect::Clear, at, None)));
    let cut = row.get::<_, Option<u64>>(5)?.zip(cut_at);
    marks.extend(cut.map(|(keep, at)| mark(Effect::Cut(Chars(keep)), at, None)));
    let lift = |at| (Moment { at, after: None }, ReceiptId::default());
    marks.extend(lifted.map(|at| mark(Effect::Hide, at, Some(lift(at)))));
    Ok(())
}

/// The messages before a place on which something was ever pinned.
pub(crate) fn pinned_before(
    connection: &Connection,
    chain: &Chain,
    start: &At,
) -> Result<Vec<At>, StoreError> {
    let mut parts: BTreeSet<String> = BTreeSet::new();
    for segment in &chain.0 {
        let mut statement = connection.prepare_cached(
            "SELECT part FROM mark INDEXED BY mark_pin WHERE session = ?1 AND at <= ?2 AND effect = 'pin' AND seq <= ?3",
        )?;
        let rows = statement.query_map(params![segment.key, start.0, segment.marks], |row| row.get(0))?;
        parts.extend(rows.collect::<Result<Vec<String>, _>>()?);
    }
    let mut places = Vec::new();
    for part in parts {
        let place = chain.find_part(connection, &part)?.map(|(_, place)| place);
        places.extend(place.filter(|place| place < start));
    }
    Ok(places)
}
