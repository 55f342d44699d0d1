//! Where a message stands in the order of its session.

use rusqlite::Row;

/// The position of a message: the time it was appended under, which never goes back within a session, and its id. It is
/// compared in SQL as `(at, id)`, and here in the same order.
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

    /// The position in two columns of a row, the time first.
    pub(crate) fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Position> {
        Ok(Position { time: row.get(column)?, id: row.get(column + 1)? })
    }
}
