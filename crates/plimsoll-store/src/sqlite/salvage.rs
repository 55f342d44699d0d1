//! Reading a whole session in one transaction, even if it is damaged: everything that is still readable, and a list of
//! the rest.
//!
//! A text with bytes that are not UTF-8 is returned with replacement characters, a part with a wrong checksum
//! unchanged. Only what cannot be read at all is left out. The list has all of these.

use plimsoll::{Message, MessageId, Part, PartId, Role};
use rusqlite::{Connection, Row, params};

use super::chain::{Chain, Segment};
use super::marks;
use super::position::Position;
use super::read::{self, Detail};
use super::rows;
use super::sums::{self, lossy, lossy_or_null};
use crate::error::StoreError;
use crate::store::{Damage, SessionReader};

/// A session in the transaction of its connection.
pub(super) struct ChainReader<'c> {
    pub(super) connection: &'c Connection,
    pub(super) chain: Chain,
}

impl SessionReader for ChainReader<'_> {
    fn each(&self, sink: &mut dyn FnMut(Message)) -> Result<(), StoreError> {
        let all = (&Position::start(), None);
        read::each_in_range(self.connection, &self.chain, all, Detail::Whole, sink)
    }

    fn damage(&self) -> Result<Vec<Damage>, StoreError> {
        let keys: Vec<i64> = self.chain.0.iter().map(|segment| segment.key).collect();
        Ok(sums::verify(self.connection, Some(&keys))?.damage)
    }

    fn salvage(&self, sink: &mut dyn FnMut(Message)) -> Result<Vec<Damage>, StoreError> {
        salvage(self.connection, &self.chain, sink)
    }
}

fn salvage(
    connection: &Connection,
    chain: &Chain,
    sink: &mut dyn FnMut(Message),
) -> Result<Vec<Damage>, StoreError> {
    let keys: Vec<i64> = chain.0.iter().map(|segment| segment.key).collect();
    let mut damage = sums::verify(connection, Some(&keys))?.damage;
    let mut marks = match marks::of_range(connection, chain, i64::MIN, None) {
        Ok(marks) => marks,
        Err(error) => {
            damage.push(Damage::new("the marks of the session", format!("they cannot be read: {error}")));
            Default::default()
        }
    };
    for segment in &chain.0 {
        for place in places(connection, segment, &mut damage) {
            let read = message(connection, segment.key, &place, &mut damage).unwrap_or_else(|error| {
                damage.push(Damage::new(
                    format!("message `{}`", place.id),
                    format!("it cannot be read: {error}"),
                ));
                None
            });
            let Some(mut message) = read else { continue };
            for part in &mut message.parts {
                if let Some(marks) = marks.remove(part.id.as_str()) {
                    *part = part.clone().with_marks(marks);
                }
            }
            sink(message);
        }
    }
    Ok(damage)
}

/// Returns the positions of the messages of a segment. If a page of the table is damaged, those before and after it.
fn places(connection: &Connection, segment: &Segment, damage: &mut Vec<Damage>) -> Vec<Position> {
    let mut found = Vec::new();
    let mut scan = |order: &str| -> rusqlite::Result<()> {
        let mut statement = connection.prepare(&format!(
            "SELECT at, id FROM message WHERE session = ?1 AND (at, id) <= (?2, ?3) ORDER BY at {order}, id {order}"
        ))?;
        let end = segment.end();
        let mut rows = statement.query(params![segment.key, end.time, end.id])?;
        while let Some(row) = rows.next()? {
            found.push(Position::new(row.get(0)?, lossy(row, 1)?));
        }
        Ok(())
    };
    if let Err(error) = scan("ASC") {
        let _ = scan("DESC");
        damage.push(Damage::new("the list of messages", format!("some of it cannot be read: {error}")));
    }
    found.sort();
    found.dedup();
    found
}

fn message(
    connection: &Connection,
    session: i64,
    place: &Position,
    damage: &mut Vec<Damage>,
) -> rusqlite::Result<Option<Message>> {
    let mut statement = connection
        .prepare_cached("SELECT role, info FROM message WHERE session = ?1 AND at = ?2 AND id = ?3")?;
    let mut found = statement.query(params![session, place.time, place.id])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let (role, info) = (lossy(row, 0)?, lossy(row, 1)?);
    let mut message = rows::message_of(&info, &place.id).unwrap_or_else(|_| {
        // Its parts are worth keeping, even if nothing else is known about it.
        let mut bare = Message::assistant(MessageId::new(place.id.as_str()), Vec::new());
        bare.info.role = Some(match role.as_str() {
            "user" => Role::User,
            "system" => Role::System,
            _ => Role::Assistant,
        });
        bare
    });
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {} FROM part WHERE session = ?1 AND at = ?2 AND message = ?3 ORDER BY ord",
        rows::whole_columns()
    ))?;
    let mut parts = statement.query(params![session, place.time, place.id])?;
    loop {
        match parts.next() {
            Ok(Some(row)) => message.parts.extend(part(row)?),
            Ok(None) => break,
            Err(error) => {
                let what = format!("the list of parts of message `{}`", place.id);
                damage.push(Damage::new(what, format!("some of it cannot be read: {error}")));
                break;
            }
        }
    }
    Ok(Some(message))
}

/// Reads as much of a part as possible: if its JSON is broken, the text.
fn part(row: &Row<'_>) -> rusqlite::Result<Option<Part>> {
    let (data, text, id) = (lossy(row, 2)?, lossy_or_null(row, 3)?, PartId::new(lossy(row, 4)?));
    let text = text.map(plimsoll::Text::from);
    let Ok(mut part) = serde_json::from_str::<Part>(&data) else {
        return Ok(text.map(|text| Part::text(id, text)));
    };
    if let Some(text) = text {
        rows::put_text(&mut part.body, row.get::<_, i64>(1)?.try_into().unwrap_or_default(), text);
    }
    if part.id.is_empty() {
        part.id = id;
    }
    Ok(Some(part))
}
