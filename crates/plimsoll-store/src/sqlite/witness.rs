//! A small file next to the database with the number of the newest acknowledged change.
//!
//! SQLite commits to the write-ahead log, which is folded into the database later. If that log is lost (deleted, left
//! behind by a copy, or cut off by a power failure), or an older database is put in place, SQLite opens what is left
//! without an error. With this file the next process detects that. It is not flushed to disk: its number may be too
//! low, never too high.

use std::fs::File;
use std::path::Path;

use plimsoll::Millis;
use rusqlite::{Connection, OptionalExtension, params};

use super::feed;
use crate::error::StoreError;
use crate::store::Loss;

/// The file, open for the writer.
pub(super) struct Witness {
    file: File,
    /// Id of the database it belongs to: another database may have been put in its place.
    database: String,
}

impl Witness {
    /// Opens the file of a database for writing; `None` if that fails. The store works without it, but losses then go
    /// unnoticed.
    pub(super) fn open(path: &Path, connection: &Connection) -> Option<Witness> {
        let file = open_file(path).ok()?;
        Some(Witness { file, database: identity(connection).ok()?? })
    }

    /// Writes the newest change to the file, after it was committed and before it is acknowledged.
    pub(super) fn note(&self, connection: &Connection) {
        if let Ok(newest) = feed::newest(connection) {
            let _ = write_at_start(&self.file, format!("{} {:020}\n", self.database, newest.0).as_bytes());
        }
    }
}

/// Returns the loss to report: one that is found now, or the newest that was recorded and not accepted.
pub(super) fn unaccepted(
    path: &Path,
    connection: &Connection,
    now: Millis,
    may_record: bool,
) -> Result<Option<Loss>, StoreError> {
    let found = loss(path, connection, now)?;
    if let Some(loss) = found.as_ref().filter(|_| may_record) {
        record(connection, loss)?;
    }
    match found {
        Some(loss) => Ok(Some(loss)),
        // A damaged table is reported by checks, and must not prevent reading sessions.
        None => Ok(recorded(connection).ok().and_then(|mut losses| losses.pop())),
    }
}

/// Compares a database with its file.
fn loss(path: &Path, connection: &Connection, now: Millis) -> Result<Option<Loss>, StoreError> {
    // The file is read first: a change that it names was committed before, so the database must contain it.
    let Ok(text) = std::fs::read_to_string(file_of(path)) else { return Ok(None) };
    let Some((database, expected)) = text.split_once(' ') else { return Ok(None) };
    let Ok(expected) = expected.trim_end().parse::<u64>() else { return Ok(None) };
    let found = feed::newest(connection)?.0;
    let is_same = identity(connection)?.is_some_and(|id| id == database);
    Ok((is_same && expected > found).then_some(Loss { at: now, expected, found }))
}

/// Records a loss, so that it is reported from now on.
fn record(connection: &Connection, loss: &Loss) -> Result<(), StoreError> {
    connection.execute(
        "INSERT INTO loss (at, expected, found) VALUES (?1, ?2, ?3)",
        params![loss.at.0, loss.expected, loss.found],
    )?;
    Ok(())
}

/// Returns the recorded losses, oldest first.
pub(super) fn recorded(connection: &Connection) -> rusqlite::Result<Vec<Loss>> {
    let mut statement = connection.prepare("SELECT at, expected, found FROM loss ORDER BY seq LIMIT 20")?;
    let losses = statement.query_map([], |row| {
        Ok(Loss { at: Millis(row.get(0)?), expected: row.get(1)?, found: row.get(2)? })
    })?;
    losses.collect()
}

/// Deletes the recorded losses. Returns their number.
pub(super) fn accept(connection: &Connection) -> Result<u64, StoreError> {
    Ok(connection.execute("DELETE FROM loss", [])? as u64)
}

fn identity(connection: &Connection) -> Result<Option<String>, StoreError> {
    Ok(connection.query_row("SELECT id FROM spill_place", [], |row| row.get(0)).optional()?)
}

fn file_of(database: &Path) -> std::path::PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-newest");
    name.into()
}

#[cfg(unix)]
fn open_file(database: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(file_of(database))
}

#[cfg(unix)]
fn write_at_start(file: &File, bytes: &[u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, 0)
}

#[cfg(not(unix))]
fn open_file(database: &Path) -> std::io::Result<File> {
    File::options().write(true).create(true).truncate(false).open(file_of(database))
}

#[cfg(not(unix))]
fn write_at_start(mut file: &File, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::{Seek, Write};
    file.rewind().and_then(|()| file.write_all(bytes))
}
