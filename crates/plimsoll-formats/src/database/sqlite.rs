//! Opening a SQLite database without changing it or anything beside it, and reading its cells.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use tempfile::TempDir;

use crate::detect::is_sqlite;
use crate::error::FormatError;

/// How long to wait for a writer that has the database to itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// Open a database for reading; beside it a copy that is read in its place, which has to be kept as long.
pub(super) fn open(path: &Path) -> Result<(Connection, Option<TempDir>), FormatError> {
    let way = Way::to(path)?;
    let copy = way.copy(path)?;
    let place = copy.as_ref().map_or_else(|| path.to_owned(), |copy| copy.path().join("copy.db"));
    Ok((way.connect(&place)?, copy))
}

/// How a database has to be opened so that nothing is left beside it.
enum Way {
    /// As SQLite does it: the database is in use, or has no write-ahead log.
    Shared,
    /// The log was folded in and no process has the database open, so that SQLite need not make its files.
    Immutable,
    /// There is a log but not the index to it. SQLite would make one, so it is given a copy to do that with.
    Copied,
}

impl Way {
    fn to(path: &Path) -> Result<Way, FormatError> {
        let mut header = Vec::new();
        fs::File::open(path)?.take(100).read_to_end(&mut header)?;
        if !is_sqlite(&header) || header.len() < 100 {
            return Err(FormatError::NotSessions("this is no SQLite database".into()));
        }
        // The read version of the file format: 2 is a write-ahead log.
        if header[19] != 2 {
            return Ok(Way::Shared);
        }
        let log = fs::metadata(beside(path, "-wal")).map(|log| log.len());
        let index = fs::exists(beside(path, "-shm")).unwrap_or(false);
        Ok(match (log, index) {
            (Err(_), _) | (Ok(0), false) => Way::Immutable,
            (Ok(_), true) => Way::Shared,
            (Ok(_), false) => Way::Copied,
        })
    }

    fn copy(&self, path: &Path) -> Result<Option<TempDir>, FormatError> {
        if !matches!(self, Way::Copied) {
            return Ok(None);
        }
        let directory = tempfile::tempdir()?;
        let place = directory.path().join("copy.db");
        fs::copy(path, &place)?;
        fs::copy(beside(path, "-wal"), beside(&place, "-wal"))?;
        Ok(Some(directory))
    }

    fn connect(&self, path: &Path) -> Result<Connection, FormatError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match self {
            Way::Immutable => {
                let uri = uri(path)?;
                Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
            }
            Way::Shared | Way::Copied => Connection::open_with_flags(path, flags),
        };
        let connection = connection.map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        // What the file brings along must not run.
        connection.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF;").map_err(failed)?;
        Ok(connection)
    }
}

/// The file of that ending beside the database.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The path as SQLite's address for a file that does not change.
fn uri(path: &Path) -> Result<String, FormatError> {
    let path = fs::canonicalize(path)?;
    let path = path.to_str().ok_or_else(|| FormatError::NotSessions("the path is not UTF-8".into()))?;
    let escaped: String = path
        .chars()
        .map(|letter| match letter {
            '%' => "%25".into(),
            '?' => "%3f".into(),
            '#' => "%23".into(),
            other => other.to_string(),
        })
        .collect();
    Ok(format!("file:{escaped}?mode=ro&immutable=1"))
}

pub(super) fn failed(error: rusqlite::Error) -> FormatError {
    FormatError::Database(Box::new(error))
}

/// A text that is not empty.
pub(super) fn text(row: &Row, at: usize) -> Option<String> {
    match row.get_ref(at) {
        Ok(ValueRef::Text(bytes)) if !bytes.is_empty() => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

pub(super) fn number(row: &Row, at: usize) -> Option<u64> {
    match row.get_ref(at) {
        Ok(ValueRef::Integer(number)) => u64::try_from(number).ok(),
        Ok(ValueRef::Real(number)) if (0.0..1e17).contains(&number) => Some(number as u64),
        _ => None,
    }
}
