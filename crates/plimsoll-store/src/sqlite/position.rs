//! Positions of messages in their session.

use rusqlite::Row;

/// The position of a message: its time of appending, which never decreases within a session, and its id. SQL compares
/// it as `(at, id)`, and this type in the same order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) time: i64,
    pub(crate) id: String,
}

impl Position {
    pub(crate) fn new(time: i64, id: impl Into<String>) -> Position {
        Position { time, id: id.into() }
    }

    /// Before every message.
    pub(crate) fn start() -> Position {
        Position::new(i64::MIN, "")
    }

    /// After every message.
    pub(crate) fn end() -> Position {
        Position::new(i64::MAX, "\u{10ffff}")
    }

    /// Reads a position from two columns of a row, the time first.
    pub(crate) fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Position> {
        Ok(Position { time: row.get(column)?, id: row.get(column + 1)? })
    }
}
