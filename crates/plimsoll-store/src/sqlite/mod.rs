//! The embedded store: one SQLite file.
//!
//! One connection writes, and changes that come together share a transaction; any number of connections read beside it,
//! because the database keeps a write-ahead log. Other processes may use the file at the same time.

mod chain;
mod check;
mod marks;
mod read;
mod rows;
mod schema;
mod search;
mod sessions;
mod spills;
mod write;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use plimsoll::{
    Ids, Log, Message, MessageId, Millis, Part, PartId, Receipt, ReceiptId, Reduction, SessionId, Usage,
};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::StoreError;
use crate::recall::{Ask, Hit};
use crate::session::{
    Change, CompactionRecord, Filter, Findings, Lease, NewSession, Page, PageRequest, Session,
};
use crate::store::{Forgetter, Keeper, SpillRecord, Store};
use read::Detail;
use writer::Writer;

#[doc(hidden)]
pub use schema::database_of_version;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The death of the process.
    #[default]
    Process,
    /// A power cut too: every transaction waits for the disk.
    Power,
}

/// How long one process waits for another that writes.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many idle reading connections are kept.
const READERS: usize = 8;

/// Sessions in a SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    /// Closed before the writer: the last connection to close folds the write-ahead log into the database, and only
    /// one that may write can.
    readers: Mutex<Vec<Connection>>,
    writer: Writer,
    /// The copy that was made of an older database.
    copy: Option<PathBuf>,
}

impl SqliteStore {
    /// Open a database, or make one. An older one is copied and upgraded.
    pub fn open(path: impl AsRef<Path>, durability: Durability) -> Result<SqliteStore, StoreError> {
        let path = path.as_ref().to_path_buf();
        if path.exists() {
            look_first(&path)?;
        }
        let mut connection = Connection::open(&path).map_err(|error| broken(&path, &error))?;
        connection.busy_timeout(PATIENCE)?;
        let copy = schema::migrate(&mut connection, &path)?;
        keep_write_ahead_log(&connection).map_err(|error| broken(&path, &error))?;
        let synchronous = match durability {
            Durability::Process => "normal",
            Durability::Power => "full",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "cache_size", -16_000)?;
        connection.set_prepared_statement_cache_capacity(128);
        restrict(&path);
        let writer = Writer::new(connection);
        Ok(SqliteStore { path, writer, readers: Mutex::new(Vec::new()), copy })
    }

    /// The copy that was made before an older database was upgraded.
    pub fn copy(&self) -> Option<&Path> {
        self.copy.as_deref()
    }

    /// Look something up. Each reader sees one moment of the database.
    fn read<T>(&self, look: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.readers.lock().ok().and_then(|mut readers| readers.pop());
        let connection = match idle {
            Some(connection) => connection,
            None => self.reader()?,
        };
        connection.prepare_cached("BEGIN")?.execute([])?;
        let found = look(&connection);
        if matches!(found, Err(StoreError::Database(_))) {
            // Its transaction may be gone, and what is wrong must not be hidden by that. The next has a new one.
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

    fn reader(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    }

    fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.write(change)
    }
}

/// Several processes may try this on a new database at once, and SQLite does not wait here as it does elsewhere.
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

/// See whether a file is a database of ours, without touching it.
fn look_first(path: &Path) -> Result<(), StoreError> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|error| broken(path, &error))?;
    connection.busy_timeout(PATIENCE)?;
    // Whoever died in the middle of making it left a journal, and to read is to roll back first. That is not for
    // one who only looks; it is done when the file is opened to be written, and looked at again.
    let first = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    if first.is_err_and(|error| error.sqlite_error_code() == Some(ErrorCode::ReadOnly)) {
        return Ok(());
    }
    schema::look(&connection, path).map(drop)
}

fn broken(path: &Path, error: &rusqlite::Error) -> StoreError {
    StoreError::Broken { path: path.display().to_string(), why: error.to_string() }
}

/// What people said to an agent is nobody else's business.
#[cfg(unix)]
fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    // A file of another owner stays as it is.
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
}

#[cfg(not(unix))]
fn restrict(_: &Path) {}

/// Names that are random enough, and in order.
pub(crate) fn random_ids() -> Ids {
    let mut state = [0; 16];
    let mut drawn = 0u64;
    if let Ok(mut file) = std::fs::File::open("/dev/urandom") {
        let _ = std::io::Read::read_exact(&mut file, &mut state);
    }
    let seed = blake3::hash(&[&state[..], &std::process::id().to_le_bytes()[..]].concat());
    Ids::new(move || {
        drawn += 1;
        let mut hasher = blake3::Hasher::new_keyed(seed.as_bytes());
        hasher.update(&drawn.to_le_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        u64::from_le_bytes(bytes)
    })
}

impl Store for SqliteStore {
    fn create(&self, session: NewSession, now: Millis) -> Result<Session, StoreError> {
        self.write(move |connection| sessions::create(connection, &session, now))
    }

    fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        self.read(|connection| read::session(connection, id))
    }

    fn sessions(&self, filter: &Filter) -> Result<Vec<Session>, StoreError> {
        self.read(|connection| read::sessions(connection, filter))
    }

    fn change(&self, id: &SessionId, change: Change, now: Millis) -> Result<Session, StoreError> {
        let id = id.clone();
        self.write(move |connection| sessions::change(connection, &id, &change, now))
    }

    fn fork(
        &self,
        parent: &SessionId,
        upto: Option<&MessageId>,
        child: NewSession,
        now: Millis,
    ) -> Result<Session, StoreError> {
        let (parent, upto) = (parent.clone(), upto.cloned());
        self.write(move |connection| sessions::fork(connection, &parent, upto.as_ref(), &child, now))
    }

    fn remove(&self, id: &SessionId, now: Millis) -> Result<(), StoreError> {
        let id = id.clone();
        self.write(move |connection| sessions::remove(connection, &id, now))
    }

    fn append(&self, session: &SessionId, messages: Vec<Message>, now: Millis) -> Result<(), StoreError> {
        let session = session.clone();
        self.write(move |connection| write::append(connection, &session, &messages, now))
    }

    fn append_part(
        &self,
        session: &SessionId,
        message: &MessageId,
        part: Part,
        now: Millis,
    ) -> Result<(), StoreError> {
        let (session, message) = (session.clone(), message.clone());
        self.write(move |connection| write::append_part(connection, &session, &message, &part, now))
    }

    fn advance(&self, session: &SessionId, part: Part, now: Millis) -> Result<(), StoreError> {
        let session = session.clone();
        self.write(move |connection| write::advance(connection, &session, &part, now))
    }

    fn finish(
        &self,
        session: &SessionId,
        message: &MessageId,
        finish: &str,
        usage: Option<Usage>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let (session, message, finish) = (session.clone(), message.clone(), finish.to_owned());
        self.write(move |connection| write::finish(connection, &session, &message, &finish, usage, now))
    }

    fn window(&self, session: &SessionId) -> Result<Log, StoreError> {
        self.read(|connection| read::window(connection, session, Detail::Whole))
    }

    fn outline(&self, session: &SessionId) -> Result<Log, StoreError> {
        self.read(|connection| read::window(connection, session, Detail::Outline))
    }

    fn page(&self, session: &SessionId, request: &PageRequest) -> Result<Page, StoreError> {
        self.read(|connection| read::page(connection, session, request))
    }

    fn message(&self, session: &SessionId, id: &MessageId) -> Result<Message, StoreError> {
        self.read(|connection| read::message(connection, session, id))
    }

    fn part(&self, session: &SessionId, id: &PartId) -> Result<Part, StoreError> {
        self.read(|connection| read::part(connection, session, id))
    }

    fn reduce(&self, session: &SessionId, reduction: Reduction, now: Millis) -> Result<(), StoreError> {
        let session = session.clone();
        self.write(move |connection| write::reduce(connection, &session, &reduction, now))
    }

    fn receipts(&self, session: &SessionId) -> Result<Vec<Receipt>, StoreError> {
        self.read(|connection| read::receipts(connection, session))
    }

    fn receipt(&self, id: &ReceiptId) -> Result<(SessionId, Receipt), StoreError> {
        self.read(|connection| read::receipt(connection, id))
    }

    fn undo(&self, id: &ReceiptId, now: Millis) -> Result<(SessionId, Receipt), StoreError> {
        let (id, mut ids) = (id.clone(), random_ids());
        self.write(move |connection| write::undo(connection, &id, &mut ids, now))
    }

    fn compactions(&self, session: &SessionId) -> Result<Vec<CompactionRecord>, StoreError> {
        self.read(|connection| read::compactions(connection, session))
    }

    fn search(&self, session: &SessionId, ask: &Ask) -> Result<Vec<Hit>, StoreError> {
        self.read(|connection| search::search(connection, session, ask))
    }

    fn lease(
        &self,
        session: &SessionId,
        holder: &str,
        until: Millis,
        now: Millis,
    ) -> Result<Lease, StoreError> {
        let (session, holder) = (session.clone(), holder.to_owned());
        self.write(move |connection| sessions::lease(connection, &session, &holder, until, now))
    }

    fn release(&self, session: &SessionId, holder: &str) -> Result<(), StoreError> {
        let (session, holder) = (session.clone(), holder.to_owned());
        self.write(move |connection| sessions::release(connection, &session, &holder))
    }

    fn owner(&self, id: &str) -> Result<SessionId, StoreError> {
        self.read(|connection| read::owner(connection, id))
    }

    fn add_spill(&self, session: &SessionId, spill: SpillRecord, keep: Keeper) -> Result<(), StoreError> {
        let session = session.clone();
        self.write(move |connection| spills::add(connection, &session, &spill, keep))
    }

    fn spills(&self, session: &SessionId) -> Result<Vec<SpillRecord>, StoreError> {
        self.read(|connection| spills::of_session(connection, session))
    }

    fn spill(&self, handle: &str) -> Result<SpillRecord, StoreError> {
        self.read(|connection| spills::one(connection, handle))
    }

    fn expire_spills(
        &self,
        before: Option<Millis>,
        most: Option<u64>,
        now: Millis,
    ) -> Result<u64, StoreError> {
        self.write(move |connection| spills::expire(connection, before, most, now))
    }

    fn forget(&self, hashes: Vec<String>, mut remove: Forgetter) -> Result<u64, StoreError> {
        self.write(move |connection| spills::forget(connection, &hashes, &mut *remove))
    }

    fn index(&self) -> Result<u64, StoreError> {
        self.write(search::index)
    }

    fn check(&self) -> Result<Findings, StoreError> {
        // A database that cannot even be looked at is damaged all the more.
        match self.read(check::check) {
            Err(StoreError::Database(why)) => Ok(Findings { problems: vec![why], ..Findings::default() }),
            checked => checked,
        }
    }
}
