//! The embedded store: one SQLite file.
//!
//! One connection writes, and concurrent changes share a transaction. Any number of connections read at the same time,
//! because the database has a write-ahead log. Other processes may use the file as well.

mod advance;
mod append;
mod chain;
mod check;
mod extend;
mod feed;
mod handles;
mod imports;
mod inbox;
mod leases;
mod marks;
mod pivots;
mod place;
mod position;
mod purge;
mod read;
mod reduce;
mod rows;
mod salvage;
mod schema;
mod search;
mod sessions;
mod space;
mod spills;
mod sums;
mod tasks;
mod traits;
mod undo;
mod witness;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::clock::Clock;
use crate::error::{PATIENCE, StoreError};
use crate::store::Loss;
use witness::Witness;
use writer::Writer;

pub(crate) use place::directory as spill_directory;
#[doc(hidden)]
pub use schema::database_of_version;

/// Failures that acknowledged writes survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process.
    #[default]
    Process,
    /// A power cut as well: every transaction waits for the disk.
    Power,
}

/// Maximum number of idle reading connections.
const READERS: usize = 8;

/// A store in a SQLite file.
pub struct SqliteStore {
    /// The file itself, not a link to it: SQLite follows links for its own files, and everything else that belongs to
    /// the database must be found next to them. A link that changes later must not lead to another database either.
    path: PathBuf,
    /// Closed before the writer: the last connection to close folds the write-ahead log into the database, and only one
    /// that may write can do that.
    readers: Mutex<Vec<Connection>>,
    /// `None` if the database is read-only.
    writer: Option<Writer>,
    /// Whether the file cannot change and has no write-ahead log.
    is_immutable: bool,
    /// The copy that was made of an older database.
    copy: Option<PathBuf>,
    /// Lost writes that were detected when the database was opened.
    loss: Option<Loss>,
    /// Decides when leases have expired.
    clock: Clock,
}

impl SqliteStore {
    /// Opens or creates a database. An older one is copied and upgraded.
    pub fn open(path: impl AsRef<Path>, durability: Durability) -> Result<SqliteStore, StoreError> {
        SqliteStore::open_with_clock(path, durability, Clock::default())
    }

    /// Like [`open`](SqliteStore::open), with a clock other than the system's.
    pub fn open_with_clock(
        path: impl AsRef<Path>,
        durability: Durability,
        clock: Clock,
    ) -> Result<SqliteStore, StoreError> {
        let path = place::resolve(path.as_ref());
        // Tried here because SQLite opens a file that it cannot write without an error, and the first write would fail.
        if let Err(error) = std::fs::OpenOptions::new().write(true).open(&path)
            && matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
        {
            return SqliteStore::open_read_only(path);
        }
        if path.exists() {
            check_ours(&path)?;
        }
        let mut connection = Connection::open(&path).map_err(|error| broken(&path, error))?;
        // For the upgrade. The writer sets a shorter timeout.
        connection.busy_timeout(PATIENCE)?;
        sums::register(&connection)?;
        // Resolved again: before the file existed, a link to it could not be followed.
        let path = place::resolve(&path);
        let copy = schema::migrate(&mut connection, &path)?;
        keep_write_ahead_log(&connection).map_err(|error| broken(&path, error))?;
        // With a write-ahead log, `normal` syncs at checkpoints only. A power cut may undo the newest commits but never
        // damages the file, and the death of the process loses nothing. `full` syncs at each commit, which costs most
        // of an append.
        let synchronous = match durability {
            Durability::Process => "normal",
            Durability::Power => "full",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        // 16 MB of pages instead of SQLite's 2 MB: an append touches several tables and their indexes, and their upper
        // levels should not be read again for each.
        connection.pragma_update(None, "cache_size", -16_000)?;
        // rusqlite keeps 16 statements. A turn uses more, and each that was dropped is compiled again.
        connection.set_prepared_statement_cache_capacity(128);
        sums::keep(&connection)?;
        restrict(&path);
        let loss = witness::unaccepted(&path, &connection, clock.now(), true)?;
        let witness = Witness::open(&path, &connection);
        if let Some(witness) = &witness {
            witness.note(&connection);
        }
        let (writer, readers) = (Some(Writer::new(connection, witness)), Mutex::new(Vec::new()));
        Ok(SqliteStore { path, is_immutable: false, writer, readers, copy, loss, clock })
    }

    /// Opens an existing database to read it, for example from a read-only mount. Nothing is written, not even next to
    /// it.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<SqliteStore, StoreError> {
        let path = place::resolve(path.as_ref());
        // Without a write-ahead log, the file is complete. SQLite would create a log to read it, unless the file is
        // declared immutable.
        let mut log = path.clone().into_os_string();
        log.push("-wal");
        let is_immutable = !std::fs::metadata(log).is_ok_and(|log| log.len() > 0);
        let (readers, clock) = (Mutex::new(Vec::new()), Clock::default());
        let mut store =
            SqliteStore { path, is_immutable, writer: None, readers, copy: None, loss: None, clock };
        let connection = store.reader().map_err(|error| store.unreadable(error))?;
        let (version, _) = schema::look(&connection, &store.path)?;
        if version != schema::VERSION {
            let why = format!(
                "`{}` has version {version} and cannot be upgraded to {} in place, because it is read-only; copy it elsewhere",
                store.path.display(),
                schema::VERSION
            );
            return Err(read_only(&why));
        }
        store.loss = witness::unaccepted(&store.path, &connection, store.clock.now(), false)?;
        if let Ok(mut readers) = store.readers.lock() {
            readers.push(connection);
        }
        Ok(store)
    }

    fn unreadable(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Database { source } => {
                StoreError::Broken { path: self.path.display().to_string(), source }
            }
            other => other,
        }
    }

    /// Returns the copy that was made before an older database was upgraded.
    pub fn copy(&self) -> Option<&Path> {
        self.copy.as_deref()
    }

    /// Returns the lost writes, if the database is older than what was acknowledged and the loss was not
    /// [accepted](crate::Upkeep::accept_losses).
    pub fn loss(&self) -> Option<&Loss> {
        self.loss.as_ref()
    }

    /// Returns the directory of the database, with links followed.
    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Reads in one transaction, which sees one state of the database.
    fn read<T>(&self, look: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.readers.lock().ok().and_then(|mut readers| readers.pop());
        let connection = match idle {
            Some(connection) => connection,
            None => self.reader()?,
        };
        connection.prepare_cached("BEGIN")?.execute([])?;
        let found = look(&connection);
        if found.as_ref().is_err_and(StoreError::is_failure) {
            // The transaction may be gone, and an error of `COMMIT` must not hide the first one. The next read gets a
            // new connection.
            return found;
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        if let Ok(mut readers) = self.readers.lock()
            && readers.len() < READERS
        {
            readers.push(connection);
        }
        found
    }

    /// Returns a reading connection that was not used before. A used one holds parts of the search index in memory, and
    /// an integrity check would compare these with what other connections have written since.
    fn fresh_reader(&self) -> Result<Connection, StoreError> {
        self.reader()
    }

    fn reader(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = if self.is_immutable {
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(immutable_uri(&self.path), flags)?
        } else {
            Connection::open_with_flags(&self.path, flags)?
        };
        connection.busy_timeout(PATIENCE)?;
        sums::register(&connection)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    }

    fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match &self.writer {
            Some(writer) => writer.write(change),
            None => Err(read_only("its file system or its permissions do not allow writing")),
        }
    }
}

fn read_only(why: &str) -> StoreError {
    let source = io::Error::new(io::ErrorKind::ReadOnlyFilesystem, why.to_owned());
    StoreError::ReadOnly { source: std::sync::Arc::new(source) }
}

/// URI of a file that does not change.
fn immutable_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            byte => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri + "?immutable=1"
}

/// Switches to a write-ahead log. Several processes may do this on a new database at once, and SQLite's busy timeout
/// does not apply here.
fn keep_write_ahead_log(connection: &Connection) -> rusqlite::Result<()> {
    let mut left = 200;
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) && left > 0 =>
            {
                left -= 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            done => return done,
        }
    }
}

/// Checks whether a file is a database of ours, without changing it.
fn check_ours(path: &Path) -> Result<(), StoreError> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|error| broken(path, error))?;
    connection.busy_timeout(PATIENCE)?;
    // A process that died while it created the database left a journal, and reading would have to roll it back. That
    // happens when the file is opened for writing, which checks it again.
    let first = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    if first.is_err_and(|error| error.sqlite_error_code() == Some(ErrorCode::ReadOnly)) {
        return Ok(());
    }
    schema::look(&connection, path).map(drop)
}

fn broken(path: &Path, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::ReadOnly | ErrorCode::DiskFull,
        ) => error.into(),
        _ => StoreError::Broken { path: path.display().to_string(), source: std::sync::Arc::new(error) },
    }
}

/// Makes the database readable only by its owner, because transcripts are private.
#[cfg(unix)]
fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    // The permissions of another owner's file are not changed.
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
}

#[cfg(not(unix))]
fn restrict(_: &Path) {}
