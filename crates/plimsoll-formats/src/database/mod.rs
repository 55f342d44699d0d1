//! Databases of sessions: OpenCode's `opencode.db` and goose's `sessions.db`.
//!
//! ```no_run
//! use plimsoll_formats::database::Database;
//!
//! let database = Database::open("opencode.db".as_ref())?;
//! for session in database.sessions()? {
//!     println!("{:?}: {} messages", session.info.title, session.messages);
//! }
//! let newest = database.read(None)?;
//! # Ok::<(), plimsoll_formats::FormatError>(())
//! ```
//!
//! Databases are only read. They can be read while a tool writes to them, and copies can be read with or without their `-wal` and
//! `-shm` files, even in a read-only directory. Only the `-shm` file of a database in use is touched, because SQLite keeps its
//! locks there. No other file is changed, and none is created next to the database.

mod goose;
mod opencode;
mod sqlite;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use plimsoll::{Message, Usage};
use rusqlite::{Connection, Row};
use tempfile::TempDir;

use self::sqlite::failed;
use crate::error::FormatError;
use crate::format::Format;
use crate::transcript::{Chain, SessionInfo, Transcript};

/// A database with sessions of OpenCode or goose, open for reading.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    format: Format,
    /// Columns of the relevant tables, which differ between versions of a tool.
    columns: BTreeMap<&'static str, HashSet<String>>,
    /// A temporary copy that is read instead of the original.
    _copy: Option<TempDir>,
}

/// A session in the list of sessions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SessionRow {
    /// Metadata from the database.
    pub info: SessionInfo,
    /// The parent of a sub-agent's session, if the database contains it.
    pub parent: Option<String>,
    /// Whether a tool started the session itself, as that of a sub-agent.
    pub is_sub_agent: bool,
    /// Number of messages.
    pub messages: u64,
    /// Total usage of its model calls, if the database contains it.
    pub tokens: Option<Usage>,
}

impl Database {
    /// Opens a database without changing it.
    pub fn open(path: &Path) -> Result<Database, FormatError> {
        let (connection, copy) = sqlite::open(path)?;
        let format = Format::OpencodeDatabase;
        let mut database = Database { connection, format, columns: BTreeMap::new(), _copy: copy };
        database.check()?;
        Ok(database)
    }

    /// Format of its sessions: [`Format::OpencodeDatabase`] or [`Format::Goose`].
    pub fn format(&self) -> Format {
        self.format
    }

    /// Determines which tool's database this is, and its columns.
    fn check(&mut self) -> Result<(), FormatError> {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'";
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        let tables = statement.query_map([], |row| row.get(0)).map_err(failed)?;
        let tables: HashSet<String> = tables.collect::<Result<_, _>>().map_err(failed)?;
        let has = |needed: &[(&str, &[&str])]| needed.iter().all(|(table, _)| tables.contains(*table));
        let needed = match (has(opencode::NEEDED), has(goose::NEEDED)) {
            (true, _) => opencode::NEEDED,
            (false, true) => {
                self.format = Format::Goose;
                goose::NEEDED
            }
            (false, false) => {
                let named = |needed: &[(&str, &[&str])]| {
                    let names: Vec<String> = needed.iter().map(|(table, _)| format!("`{table}`")).collect();
                    names.join(", ")
                };
                return Err(FormatError::NotSessions(format!(
                    "not a session database: OpenCode's has the tables {}, goose's {}",
                    named(opencode::NEEDED),
                    named(goose::NEEDED),
                )));
            }
        };
        for (table, needed) in needed {
            let sql = "SELECT name FROM pragma_table_info(?1)";
            let mut statement = self.connection.prepare(sql).map_err(failed)?;
            let names = statement.query_map([table], |row| row.get(0)).map_err(failed)?;
            let names: HashSet<String> = names.collect::<Result<_, _>>().map_err(failed)?;
            if let Some(column) = needed.iter().find(|column| !names.contains(**column)) {
                return Err(FormatError::NotSessions(format!(
                    "the table `{table}` has no column `{column}`"
                )));
            }
            self.columns.insert(table, names);
        }
        Ok(())
    }

    /// Returns a column, or `null` if this version does not have it.
    fn column(&self, table: &str, column: &'static str) -> &'static str {
        let has = self.columns.get(table).is_some_and(|columns| columns.contains(column));
        if has { column } else { "NULL" }
    }

    /// Returns all sessions, the most recently updated first.
    pub fn sessions(&self) -> Result<Vec<SessionRow>, FormatError> {
        let mut rows = match self.format {
            Format::Goose => self.goose_sessions()?,
            _ => self.opencode_sessions()?,
        };
        rows.sort_by(|a, b| (b.info.updated, &b.info.id).cmp(&(a.info.updated, &a.info.id)));
        Ok(rows)
    }

    fn rows(&self, sql: &str, read: impl Fn(&Row) -> SessionRow) -> Result<Vec<SessionRow>, FormatError> {
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        let rows = statement.query_map([], |row| Ok(read(row))).map_err(failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// Reads a session: the one with this id, or the newest that is not a sub-agent's.
    pub fn read(&self, id: Option<&str>) -> Result<Transcript, FormatError> {
        let mut messages = Vec::new();
        let mut transcript = self.visit(id, &mut |_, message| messages.push(message))?;
        transcript.messages = messages;
        Ok(transcript)
    }

    /// Like [`read`](Database::read), but passes on one message at a time. The transcript contains everything else.
    pub fn visit(
        &self,
        id: Option<&str>,
        sink: &mut dyn FnMut(Chain, Message),
    ) -> Result<Transcript, FormatError> {
        // One transaction, so that concurrent writes do not matter.
        let snapshot = self.connection.unchecked_transaction().map_err(failed)?;
        let mut transcript = Transcript::new(self.format);
        transcript.info = self.pick(id)?;
        match self.format {
            Format::Goose => self.goose_messages(&mut transcript, sink)?,
            _ => self.opencode_messages(&mut transcript, sink)?,
        }
        snapshot.finish().map_err(failed)?;
        Ok(transcript)
    }

    fn pick(&self, id: Option<&str>) -> Result<SessionInfo, FormatError> {
        let mut rows = self.sessions()?;
        let place = match id {
            Some(id) => rows.iter().position(|row| row.info.id.as_deref() == Some(id)),
            None => rows.iter().position(|row| !row.is_sub_agent),
        };
        match place {
            Some(place) => Ok(rows.swap_remove(place).info),
            None => {
                let near = near(id, &rows);
                Err(FormatError::NoSession { format: self.format, id: id.map(str::to_owned), near })
            }
        }
    }
}

/// Suggests sessions: those with the same prefix or with the text in their title, or else the newest.
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
