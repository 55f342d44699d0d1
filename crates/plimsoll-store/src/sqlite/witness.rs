//! A small file beside the database that says how far it had come.
//!
//! What SQLite commits stands in the write-ahead log until it is folded into the database. If that log is lost (deleted,
//! left behind by a copy, or cut off by a power failure), or an older database is put in place, SQLite opens what is left
//! without a word. The file has the number of the newest change that was acknowledged, so that the next process can tell.
//! It is not flushed to disk: it may say too little, never too much.

use std::fs::File;
use std::path::Path;

use plimsoll::Millis;
use rusqlite::{Connection, OptionalExtension, params};

use super::feed;
use crate::error::StoreError;
use crate::store::Loss;

/// The file, as the writer keeps it.
pub(super) struct Witness {
    file: File,
    /// The database that it is about: another one may have been put in its place.
    database: String,
}

impl Witness {
    /// Opens the file of a database for writing. Without it a loss goes unnoticed, which is no reason not to work.
    pub(super) fn open(path: &Path, connection: &Connection) -> Option<Witness> {
        let file = open_file(path).ok()?;
        Some(Witness { file, database: identity(connection).ok()?? })
    }

    /// Notes the newest change of a database, after it was committed and before that is acknowledged.
    pub(super) fn note(&self, connection: &Connection) {
        if let Ok(newest) = feed::newest(connection) {
            let _ = write_at_start(&self.file, format!("{} {:020}\n", self.database, newest.0).as_bytes());
        }
    }
}

/// The loss that has to be told: one that is found now, or the newest that was recorded and not accepted.
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
        // A damaged table is reported by checks, and must not keep sessions from being read.
        None => Ok(recorded(connection).ok().and_then(|mut losses| losses.pop())),
    }
}

/// Compares a database with the file beside it.
fn loss(path: &Path, connection: &Connection, now: Millis) -> Result<Option<Loss>, StoreError> {
    // In this order: what is committed meanwhile is in the database by the time it is read.
    let Ok(text) = std::fs::read_to_string(file_of(path)) else { return Ok(None) };
    let Some((database, expected)) = text.split_once(' ') else { return Ok(None) };
    let Ok(expected) = expected.trim_end().parse::<u64>() else { return Ok(None) };
    let found = feed::newest(connection)?.0;
    let is_same = identity(connection)?.is_some_and(|id| id == database);
    Ok((is_same && expected > found).then_some(Loss { at: now, expected, found }))
}

/// Records a loss, so that it is told from now on.
fn record(connection: &Connection, loss: &Loss) -> Result<(), StoreError> {
    connection.execute(
        "INSERT INTO loss (at, expected, found) VALUES (?1, ?2, ?3)",
        params![loss.at.0, loss.expected, loss.found],
    )?;
    Ok(())
}

/// The losses that were recorded, oldest first.
pub(super) fn recorded(connection: &Connection) -> rusqlite::Result<Vec<Loss>> {
    let mut statement = connection.prepare("SELECT at, expected, found FROM loss ORDER BY seq LIMIT 20")?;
    let losses = statement.query_map([], |row| {
        Ok(Loss { at: Millis(row.get(0)?), expected: row.get(1)?, found: row.get(2)? })
    })?;
    losses.collect()
}

/// Forgets the losses that were recorded. Returns how many.
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
