//! Opens a SQLite database without changing it or adjacent files, and reads its cells.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use tempfile::TempDir;

use crate::detect::is_sqlite;
use crate::error::FormatError;

/// Maximum wait for a writer that has locked the database.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens a database for reading. Also returns the temporary copy if one is read instead. It must live as long as the connection.
pub(super) fn open(path: &Path) -> Result<(Connection, Option<TempDir>), FormatError> {
    let way = OpenMode::to(path)?;
    let copy = way.copy(path)?;
    let place = copy.as_ref().map_or_else(|| path.to_owned(), |copy| copy.path().join("copy.db"));
    Ok((way.connect(&place)?, copy))
}

/// Ways to open a database without leaving files next to it.
enum OpenMode {
    /// Normal: the database is in use, or has no write-ahead log.
    Shared,
    /// Immutable: the log was checkpointed and no process has the database open, so SQLite need not create its files.
    Immutable,
    /// A copy: there is a write-ahead log but no index for it, and SQLite would create the index next to the original.
    Copied,
}

impl OpenMode {
    fn to(path: &Path) -> Result<OpenMode, FormatError> {
        let mut header = Vec::new();
        fs::File::open(path)?.take(100).read_to_end(&mut header)?;
        if !is_sqlite(&header) || header.len() < 100 {
            return Err(FormatError::NotSessions("not a SQLite database".into()));
        }
        // The read version of the file format: 2 means a write-ahead log.
        if header[19] != 2 {
            return Ok(OpenMode::Shared);
        }
        let log = fs::metadata(with_suffix(path, "-wal")).map(|log| log.len());
        let index = fs::exists(with_suffix(path, "-shm")).unwrap_or(false);
        Ok(match (log, index) {
            (Err(_), _) | (Ok(0), false) => OpenMode::Immutable,
            (Ok(_), true) => OpenMode::Shared,
            (Ok(_), false) => OpenMode::Copied,
        })
    }

    fn copy(&self, path: &Path) -> Result<Option<TempDir>, FormatError> {
        if !matches!(self, OpenMode::Copied) {
            return Ok(None);
        }
        let directory = tempfile::tempdir()?;
        let place = directory.path().join("copy.db");
        fs::copy(path, &place)?;
        fs::copy(with_suffix(path, "-wal"), with_suffix(&place, "-wal"))?;
        Ok(Some(directory))
    }

    fn connect(&self, path: &Path) -> Result<Connection, FormatError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match self {
            OpenMode::Immutable => {
                let uri = uri(path)?;
                Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
            }
            OpenMode::Shared | OpenMode::Copied => Connection::open_with_flags(path, flags),
        };
        let connection = connection.map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        // Code in the file, such as triggers and views with functions, must not run.
        connection.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF;").map_err(failed)?;
        Ok(connection)
    }
}

/// Returns the path of the database with a suffix.
fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Returns SQLite's URI for a file that does not change.
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

/// Returns a text that is not empty.
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
