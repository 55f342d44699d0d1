//! OpenCode's database, `opencode.db`: sessions, messages and parts as rows with JSON in them.
//!
//! ```no_run
//! use plimsoll_formats::opencode_db::Database;
//!
//! let database = Database::open("opencode.db".as_ref())?;
//! for session in database.sessions()? {
//!     println!("{:?}: {} messages", session.info.title, session.messages);
//! }
//! let newest = database.read(None)?;
//! # Ok::<(), plimsoll_formats::FormatError>(())
//! ```
//!
//! The database is only ever read. One that a running OpenCode writes to can be read at the same time, and so can
//! a copy, with or without the `-wal` and `-shm` files that belong to it, in a directory that cannot be written to.
//! SQLite keeps its locks in the `-shm` file, so that of a database in use is touched; nothing else is, and no file
//! is made beside it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll::log::{At, Notes};
use plimsoll::{Message, Millis, Part, PartId, Tokens, Usage};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::detect::Format;
use crate::error::FormatError;
use crate::json::Json;
use crate::read::opencode;
use crate::transcript::{Chain, SessionInfo, Transcript};

/// How long to wait for a writer that has the database to itself.
const PATIENCE: Duration = Duration::from_secs(5);
/// The columns without which there is nothing to read.
const NEEDED: [(&str, &[&str]); 3] = [
    ("session", &["id"]),
    ("message", &["id", "session_id", "data"]),
    ("part", &["id", "message_id", "data"]),
];

/// An OpenCode database, open for reading.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    /// The columns of the tables of interest: they differ between versions of OpenCode.
    columns: BTreeMap<&'static str, HashSet<String>>,
    /// Holds a copy that is read in the original's place, and removes it in the end.
    _copy: Option<TempDir>,
}

/// A session in the list of sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    /// What the database says about it.
    pub info: SessionInfo,
    /// The session that started this one as its sub-agent.
    pub parent: Option<String>,
    /// How many messages it has.
    pub messages: u64,
    /// What all its model calls took together, where the database has it.
    pub tokens: Option<Usage>,
}

impl Database {
    /// Open a database without changing it.
    pub fn open(path: &Path) -> Result<Database, FormatError> {
        let way = Way::to(path)?;
        let copy = way.copy(path)?;
        let place = copy.as_ref().map_or_else(|| path.to_owned(), |copy| copy.path().join("copy.db"));
        let connection = way.connect(&place)?;
        let mut database = Database { connection, columns: BTreeMap::new(), _copy: copy };
        database.check()?;
        Ok(database)
    }

    /// Look whether this is an OpenCode database at all.
    fn check(&mut self) -> Result<(), FormatError> {
        for (table, needed) in NEEDED {
            let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
            let found: i64 = self.connection.query_row(sql, [table], |row| row.get(0)).map_err(failed)?;
            if found == 0 {
                return Err(FormatError::Database(format!(
                    "there is no table `{table}`, so this is no database of OpenCode"
                )));
            }
            let mut statement =
                self.connection.prepare("SELECT name FROM pragma_table_info(?1)").map_err(failed)?;
            let names = statement.query_map([table], |row| row.get(0)).map_err(failed)?;
            let names: HashSet<String> = names.collect::<Result<_, _>>().map_err(failed)?;
            if let Some(column) = needed.iter().find(|column| !names.contains(**column)) {
                return Err(FormatError::Database(format!("the table `{table}` has no column `{column}`")));
            }
            self.columns.insert(table, names);
        }
        Ok(())
    }

    /// A column, or nothing in its place where this version has none.
    fn column(&self, table: &str, column: &'static str) -> &'static str {
        let has = self.columns.get(table).is_some_and(|columns| columns.contains(column));
        if has { column } else { "NULL" }
    }

    /// All sessions, the one written to last first.
    pub fn sessions(&self) -> Result<Vec<SessionRow>, FormatError> {
        let columns = [
            "title",
            "directory",
            "version",
            "time_created",
            "time_updated",
            "parent_id",
            "model",
            "tokens_input",
            "tokens_output",
            "tokens_reasoning",
            "tokens_cache_read",
            "tokens_cache_write",
        ]
        .map(|column| self.column("session", column))
        .join(", ");
        let sql = format!(
            "SELECT id, {columns}, (SELECT count(*) FROM message WHERE session_id = session.id) FROM session"
        );
        let mut statement = self.connection.prepare(&sql).map_err(failed)?;
        let rows = statement.query_map([], |row| Ok(session(row))).map_err(failed)?;
        let mut rows: Vec<SessionRow> = rows.collect::<Result<_, _>>().map_err(failed)?;
        rows.sort_by(|a, b| (b.info.updated, &b.info.id).cmp(&(a.info.updated, &a.info.id)));
        Ok(rows)
    }

    /// Read a session: the one of this id, or the newest that is nobody's sub-agent.
    pub fn read(&self, id: Option<&str>) -> Result<Transcript, FormatError> {
        let mut messages = Vec::new();
        let mut transcript = self.visit(id, &mut |_, message| messages.push(message))?;
        transcript.messages = messages;
        Ok(transcript)
    }

    /// The same, message by message: only one of them is held at a time. The transcript has everything but them.
    pub fn visit(
        &self,
        id: Option<&str>,
        sink: &mut dyn FnMut(Chain, Message),
    ) -> Result<Transcript, FormatError> {
        // One transaction, so that everything is of one moment whatever is written meanwhile.
        let snapshot = self.connection.unchecked_transaction().map_err(failed)?;
        let mut transcript = Transcript::new(Format::OpencodeDatabase);
        transcript.info = self.pick(id)?;
        self.messages(&mut transcript, sink)?;
        snapshot.finish().map_err(failed)?;
        Ok(transcript)
    }

    fn pick(&self, id: Option<&str>) -> Result<SessionInfo, FormatError> {
        let mut rows = self.sessions()?;
        let place = match id {
            Some(id) => rows.iter().position(|row| row.info.id.as_deref() == Some(id)),
            None => rows.iter().position(|row| row.parent.is_none()),
        };
        match place {
            Some(place) => Ok(rows.swap_remove(place).info),
            None => {
                let (format, id) = (Format::OpencodeDatabase, id);
                let near = near(id, &rows);
                Err(FormatError::NoSession { format, id: id.map(str::to_owned), near })
            }
        }
    }

    fn messages(
        &self,
        transcript: &mut Transcript,
        sink: &mut dyn FnMut(Chain, Message),
    ) -> Result<(), FormatError> {
        let session = transcript.info.id.clone().unwrap_or_default();
        let created = self.column("message", "time_created");
        let sql = format!("SELECT id, data FROM message WHERE session_id = ?1 ORDER BY {created}, id");
        let mut messages = self.connection.prepare(&sql).map_err(failed)?;
        let mut parts = self
            .connection
            .prepare("SELECT id, data FROM part WHERE message_id = ?1 ORDER BY id")
            .map_err(failed)?;
        let mut rows = messages.query([&session]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (id, info) = (text(row, 0).unwrap_or_default(), object(row));
            let mut found = Vec::new();
            let mut rows = parts.query([&id]).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                match part_of(row, &session, &id, &mut transcript.notes) {
                    Some(part) => found.push(part),
                    None => transcript.skip("broken part"),
                }
            }
            // Without its own row the message is still the place of its parts; nobody knows who spoke.
            if info.is_none() {
                transcript.skip("broken message");
            }
            let Some(mut info) = info.or_else(|| (!found.is_empty()).then(Map::new)) else { continue };
            let place = format!("message `{id}`");
            info.insert("id".into(), id.into());
            info.insert("sessionID".into(), session.as_str().into());
            let value = json!({ "info": info });
            let Ok(mut message) = Message::read(value, &At::In(&place), &mut transcript.notes) else {
                continue;
            };
            message.parts = found;
            transcript.info.note(&message);
            transcript.recorded.add_message(&message);
            sink(Chain::Main, message);
        }
        Ok(())
    }
}

/// How a database has to be opened so that nothing is left beside it.
enum Way {
    /// As SQLite does it: the database is in use, or has no write-ahead log.
    Shared,
    /// The log was folded in and nobody uses the database, so that SQLite need not make its files.
    Immutable,
    /// There is a log but not the index to it. SQLite would make one, so it is given a copy to do that with.
    Copied,
}

impl Way {
    fn to(path: &Path) -> Result<Way, FormatError> {
        let mut header = Vec::new();
        fs::File::open(path)?.take(100).read_to_end(&mut header)?;
        if crate::detect::detect(&header) != Some(Format::OpencodeDatabase) || header.len() < 100 {
            return Err(FormatError::Database("this is no SQLite database".into()));
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
    let path = path.to_str().ok_or_else(|| FormatError::Database("the path is not UTF-8".into()))?;
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

#[allow(clippy::needless_pass_by_value)] // for `map_err`
fn failed(error: rusqlite::Error) -> FormatError {
    FormatError::Database(error.to_string())
}

fn session(row: &Row) -> SessionRow {
    let model = text(row, 7).and_then(|model| Json::parse(&model).ok()?.string("id"));
    let tokens = number(row, 8).zip(number(row, 9)).map(|(input, output)| {
        let mut usage = Usage::new(Tokens(input), Tokens(output));
        let rest = [10, 11, 12].map(|at| Tokens(number(row, at).unwrap_or(0)));
        [usage.reasoning, usage.cache_read, usage.cache_write] = rest;
        usage
    });
    SessionRow {
        info: SessionInfo {
            id: text(row, 0),
            title: text(row, 1),
            directory: text(row, 2),
            model,
            version: text(row, 3),
            started: number(row, 4).map(Millis),
            updated: number(row, 5).map(Millis),
            context: None,
        },
        parent: text(row, 6),
        messages: number(row, 13).unwrap_or(0),
        tokens,
    }
}

/// A text that is not empty.
fn text(row: &Row, at: usize) -> Option<String> {
    match row.get_ref(at) {
        Ok(ValueRef::Text(bytes)) if !bytes.is_empty() => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

fn number(row: &Row, at: usize) -> Option<u64> {
    match row.get_ref(at) {
        Ok(ValueRef::Integer(number)) => u64::try_from(number).ok(),
        Ok(ValueRef::Real(number)) if (0.0..1e17).contains(&number) => Some(number as u64),
        _ => None,
    }
}

/// The JSON in the column `data`, as text.
fn data<'r>(row: &'r Row) -> Option<&'r str> {
    match row.get_ref(1) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

fn object(row: &Row) -> Option<Map<String, Value>> {
    serde_json::from_str(data(row)?).ok()
}

fn part_of(row: &Row, session: &str, message: &str, notes: &mut Notes) -> Option<Part> {
    let mut part = Json::parse(data(row)?).ok()?;
    let id = text(row, 0).unwrap_or_default();
    let place = format!("part `{id}`");
    if let Json::Object(fields) = &mut part {
        let ids = [("id", id.clone()), ("sessionID", session.into()), ("messageID", message.into())];
        fields.retain(|(name, _)| !ids.iter().any(|(key, _)| name == key));
        fields.extend(ids.map(|(key, id)| (Cow::Borrowed(key), Json::Text(Cow::Owned(id)))));
    }
    let part = opencode::part(part, &At::In(&place), notes);
    Some(Part { id: PartId::new(id), ..part })
}

/// Sessions that may have been meant: those that begin alike or have the words in their title, or else the newest.
fn near(id: Option<&str>, rows: &[SessionRow]) -> String {
    const MOST: usize = 5;
    let name = |row: &SessionRow| {
        let title = row.info.title.as_deref().unwrap_or("untitled");
        format!("`{}` ({title})", row.info.id.as_deref().unwrap_or_default())
    };
    let alike = |row: &&SessionRow| {
        let Some(wanted) = id.filter(|id| id.len() > 4) else { return false };
        let start =
            wanted.char_indices().nth(wanted.chars().count().min(12)).map_or(wanted.len(), |(at, _)| at);
        let title = row.info.title.as_deref().unwrap_or_default();
        row.info.id.as_deref().is_some_and(|id| id.starts_with(&wanted[..start]))
            || title.to_lowercase().contains(&wanted.to_lowercase())
    };
    let found: Vec<String> = rows.iter().filter(alike).take(MOST).map(name).collect();
    if !found.is_empty() {
        return format!("near it are: {}", found.join(", "));
    }
    match rows.len() {
        0 => "the database has none".to_owned(),
        many => {
            let newest: Vec<String> = rows.iter().take(MOST).map(name).collect();
            format!("the newest of {many} are: {}", newest.join(", "))
        }
    }
}
