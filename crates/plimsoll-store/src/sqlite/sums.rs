//! Checksums of rows. They detect that the disk returns other data than was written.
//!
//! Every row that a session consists of has one over all of its columns, and a session counts its rows, so that missing
//! rows are detected as well. Checks and exports verify them, not every read: SQLite has no checksums of its own, and
//! hashing each text of a window would cost as much as reading it.
//!
//! Parts and deltas, which can be long, are written together with their sums. The other tables have triggers. These are
//! temporary and exist only on our connections: a user who repairs a database with another program is not stopped by a
//! function that only this one has.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::error::StoreError;
use crate::store::Damage;

/// First byte of a sum over all columns. Older sums of parts are 16 bytes over their content only.
const VERSION: u8 = 1;

/// A table whose rows have checksums.
struct Table {
    name: &'static str,
    /// The columns that identify a row.
    key: &'static [&'static str],
    /// The other columns of the sum, in this order.
    columns: &'static [&'static str],
    /// Name of a row in messages, as SQL.
    called: &'static str,
    /// The column with the key of the session that a row belongs to.
    session: Option<&'static str>,
    /// Whether the session counts its rows as `beside`.
    is_counted: bool,
}

const TABLES: [Table; 13] = [
    Table {
        name: "session",
        key: &["key"],
        columns: &[
            "id",
            "parent",
            "title",
            "agent",
            "model",
            "directory",
            "version",
            "created",
            "updated",
            "messages",
            "input",
            "output",
            "reasoning",
            "cache_read",
            "cache_write",
            "cost",
            "last_at",
            "last_id",
            "removed",
            "forked_from",
            "fork_at",
            "fork_id",
            "fork_mark",
            "fork_compaction",
            "epoch",
            "revision",
            "shaped",
            "tool",
            "context",
            "parts",
            "beside",
        ],
        called: "'session `' || id || '`'",
        session: Some("key"),
        is_counted: false,
    },
    Table {
        name: "message",
        key: &["session", "at", "id"],
        columns: &["role", "info", "is_compacted", "is_open"],
        called: "'message `' || id || '`'",
        session: Some("session"),
        is_counted: false,
    },
    Table {
        name: "part",
        key: &[],
        columns: &[
            "session",
            "at",
            "message",
            "ord",
            "id",
            "kind",
            "tool",
            "status",
            "call",
            "blank",
            "chars",
            "input_chars",
            "tokens",
            "place",
            "files",
            "data",
            "text",
        ],
        called: "'part `' || id || '` of message `' || message || '`'",
        session: Some("session"),
        is_counted: false,
    },
    Table {
        name: "delta",
        key: &["part", "at"],
        columns: &["text"],
        called: "'part `' || coalesce((SELECT p.id FROM part p WHERE p.seq = delta.part), delta.part) || '`'",
        session: None,
        is_counted: false,
    },
    Table {
        name: "compaction",
        key: &["seq"],
        columns: &[
            "session",
            "marker",
            "marker_at",
            "summary",
            "summary_at",
            "tail",
            "tail_at",
            "messages",
            "tokens",
            "created",
            "set_aside",
            "set_aside_after",
        ],
        called: "'the compaction of message `' || marker || '`'",
        session: Some("session"),
        is_counted: true,
    },
    Table {
        name: "mark",
        key: &["seq"],
        columns: &[
            "session", "at", "part", "cleared", "cut_keep", "cut_at", "lifted", "effect", "receipt", "data",
        ],
        called: "'a mark on part `' || part || '`'",
        session: Some("session"),
        is_counted: true,
    },
    Table {
        name: "receipt",
        key: &["seq"],
        columns: &["id", "session", "at", "undoes", "data"],
        called: "'receipt `' || id || '`'",
        session: Some("session"),
        is_counted: true,
    },
    Table {
        name: "spill",
        key: &["seq"],
        columns: &[
            "session", "handle", "hash", "part", "tool", "bytes", "stored", "created", "shown", "expired",
            "blob",
        ],
        called: "'the record of spilled output `' || handle || '`'",
        session: Some("session"),
        is_counted: false,
    },
    Table {
        name: "note",
        key: &["seq"],
        columns: &["session", "id", "kind", "data", "sent", "taken"],
        called: "'note `' || id || '`'",
        session: Some("session"),
        is_counted: false,
    },
    Table {
        name: "task",
        key: &["seq"],
        columns: &["id", "session", "runs_in", "status", "data", "created", "updated"],
        called: "'task `' || id || '`'",
        session: Some("session"),
        is_counted: false,
    },
    Table {
        name: "import",
        key: &["session"],
        columns: &["root", "source", "conversation", "state", "taken"],
        called: "'the record of an import from `' || source || '`'",
        session: Some("session"),
        is_counted: false,
    },
    Table {
        name: "setting",
        key: &["session"],
        columns: &["data"],
        called: "'the settings of the session'",
        session: Some("session"),
        is_counted: false,
    },
    Table {
        name: "spill_place",
        key: &["only"],
        columns: &["id", "database", "root", "taken"],
        called: "'the record of where spilled outputs are'",
        session: None,
        is_counted: false,
    },
];

impl Table {
    /// SQL expression for the sum of a row; `of` is empty or `NEW.`.
    fn sum(&self, of: &str) -> String {
        let columns = self.key.iter().chain(self.columns);
        let columns: Vec<String> = columns.map(|column| format!("{of}{column}")).collect();
        format!("row_sum({})", columns.join(", "))
    }

    /// Whether the statements that write the rows also write the sums.
    fn is_sealed_inline(&self) -> bool {
        matches!(self.name, "part" | "delta")
    }
}

/// Registers the SQL function that computes sums.
pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("row_sum", -1, flags, |row| Ok(row_sum(row)))
}

fn row_sum(row: &Context<'_>) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    for column in 0..row.len() {
        hash(&mut hasher, row.get_raw(column));
    }
    let mut sum = vec![VERSION];
    // 128 bits are enough to detect accidental damage.
    sum.extend_from_slice(&hasher.finalize().as_bytes()[..16]);
    sum
}

/// Hashes a value with its type and length, so that no two rows hash the same bytes.
fn hash(hasher: &mut blake3::Hasher, value: ValueRef<'_>) {
    let (kind, bytes): (u8, &[u8]) = match value {
        ValueRef::Null => (0, &[]),
        ValueRef::Integer(number) => {
            hasher.update(&[1]);
            hasher.update(&number.to_le_bytes());
            return;
        }
        ValueRef::Real(number) => {
            hasher.update(&[2]);
            hasher.update(&number.to_bits().to_le_bytes());
            return;
        }
        ValueRef::Text(bytes) => (3, bytes),
        ValueRef::Blob(bytes) => (4, bytes),
    };
    hasher.update(&[kind]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// Returns the sum of a part as versions before 10 wrote it.
fn content_sum(data: &[u8], text: Option<&[u8]>) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(data.len() as u64).to_le_bytes());
    hasher.update(data);
    hasher.update(&[u8::from(text.is_some())]);
    hasher.update(text.unwrap_or_default());
    hasher.finalize().as_bytes()[..16].to_vec()
}

/// Creates the triggers that update the sums of changed rows on a writing connection.
pub(super) fn keep(connection: &Connection) -> rusqlite::Result<()> {
    let mut sql = String::new();
    for table in &TABLES {
        let Table { name, key, columns, .. } = table;
        let row: Vec<String> = key.iter().map(|column| format!("{column} = NEW.{column}")).collect();
        let seal = format!("UPDATE {name} SET sum = {} WHERE {};", table.sum("NEW."), row.join(" AND "));
        if !table.is_sealed_inline() {
            let columns: Vec<&str> = key.iter().chain(*columns).copied().collect();
            let columns = columns.join(", ");
            sql.push_str(&format!("CREATE TEMP TRIGGER {name}_changed AFTER UPDATE OF {columns} ON main.{name} BEGIN {seal} END;"));
            let count = |by: &str, row: &str| match table.is_counted {
                true => format!("UPDATE session SET beside = beside {by} WHERE key = {row}.session;"),
                false => String::new(),
            };
            let counted = count("+ 1", "NEW");
            sql.push_str(&format!(
                "CREATE TEMP TRIGGER {name}_added AFTER INSERT ON main.{name} BEGIN {seal} {counted} END;"
            ));
            if table.is_counted {
                let counted = count("- 1", "OLD");
                sql.push_str(&format!(
                    "CREATE TEMP TRIGGER {name}_deleted AFTER DELETE ON main.{name} BEGIN {counted} END;"
                ));
            }
        }
    }
    connection.execute_batch(&sql)
}

/// Computes the sums of an older version's rows. Those of parts are not changed: sealing long texts would take long,
/// and would vouch for whatever happened to them since.
pub(super) fn seal_all(connection: &Connection) -> rusqlite::Result<()> {
    for table in TABLES.iter().filter(|table| table.name != "part") {
        connection.execute_batch(&format!("UPDATE {} SET sum = {}", table.name, table.sum("")))?;
    }
    Ok(())
}

/// Result of verifying sums, and the number of parts without one.
pub(super) struct Verified {
    pub(super) damage: Vec<Damage>,
    pub(super) unverified: u64,
}

/// Verifies the sums of all rows, or of those of some sessions. A table that cannot be read to its end is damage too.
pub(super) fn verify(connection: &Connection, sessions: Option<&[i64]>) -> Result<Verified, StoreError> {
    let mut verified = Verified { damage: Vec::new(), unverified: 0 };
    for table in &TABLES {
        match sessions {
            None => verified.table(connection, table, "1"),
            Some(sessions) => {
                for key in sessions {
                    if let Some(column) = table.session {
                        verified.table(connection, table, &format!("{column} = {key}"));
                    }
                }
            }
        }
    }
    if sessions.is_some() {
        // These tables are small, and a row with a damaged key may belong to any session.
        TABLES
            .iter()
            .filter(|table| table.name == "delta")
            .for_each(|table| verified.table(connection, table, "1"));
    }
    match sessions {
        None => verified.counts(connection, "1"),
        Some(sessions) => {
            sessions.iter().for_each(|key| verified.counts(connection, &format!("s.key = {key}")));
        }
    }
    Ok(verified)
}

impl Verified {
    fn table(&mut self, connection: &Connection, table: &Table, which: &str) {
        if let Err(error) = self.rows(connection, table, which) {
            let what = format!("table `{}`", table.name);
            self.damage.push(Damage { what, why: format!("it cannot be read: {error}"), part: None });
        }
    }

    fn rows(&mut self, connection: &Connection, table: &Table, which: &str) -> rusqlite::Result<()> {
        let is_part = table.name == "part";
        // Only parts need their content: their older sums cover nothing else.
        let content = if is_part { "data, text, id" } else { "NULL, NULL, NULL" };
        let sql = format!(
            "SELECT {}, sum, {}, {content} FROM {} WHERE {which}",
            table.sum(""),
            table.called,
            table.name
        );
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let expected = row.get_ref(0)?.as_blob_or_null().ok().flatten();
            let why = match row.get_ref(1)? {
                ValueRef::Null if is_part => {
                    let why = unreadable(row);
                    self.unverified += u64::from(why.is_none());
                    why
                }
                // The row was written by another program, perhaps as a repair.
                ValueRef::Null => None,
                ValueRef::Blob(found) if Some(found) == expected => None,
                ValueRef::Blob(found) if is_part && found.len() == 16 => {
                    let bytes = |column: usize| {
                        row.get_ref(column)?.as_bytes_or_null().map_err(rusqlite::Error::from)
                    };
                    let sum = content_sum(bytes(3)?.unwrap_or_default(), bytes(4)?);
                    (sum != found).then(|| altered(row, is_part))
                }
                _ => Some(altered(row, is_part)),
            };
            if let Some(why) = why {
                let part = if is_part { Some(lossy(row, 5)?) } else { None };
                self.damage.push(Damage { what: lossy(row, 2)?, why, part });
            }
        }
        Ok(())
    }

    /// Finds missing and added rows, counted by the indexes that they are read by.
    fn counts(&mut self, connection: &Connection, which: &str) {
        let sql = format!(
            "SELECT s.id, s.messages - (SELECT count(*) FROM message m WHERE m.session = s.key),
             s.parts - (SELECT count(*) FROM part p INDEXED BY part_order WHERE p.session = s.key),
             s.beside - (SELECT count(*) FROM mark m INDEXED BY mark_at WHERE m.session = s.key)
             - (SELECT count(*) FROM receipt r INDEXED BY receipt_session WHERE r.session = s.key)
             - (SELECT count(*) FROM compaction c INDEXED BY compaction_session WHERE c.session = s.key)
             FROM session s WHERE s.removed IS NULL AND {which}"
        );
        let mut count = || -> rusqlite::Result<()> {
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let kinds = ["messages", "parts", "marks, receipts and compactions"];
                for (column, kind) in kinds.into_iter().enumerate() {
                    let missing: i64 = row.get(column + 1)?;
                    let why = match missing {
                        0 => continue,
                        1.. => format!("{missing} of its {kind} are missing"),
                        _ => format!("it has {} more {kind} than it counted", missing.unsigned_abs()),
                    };
                    self.damage.push(Damage {
                        what: format!("session `{}`", lossy(row, 0)?),
                        why,
                        part: None,
                    });
                }
            }
            Ok(())
        };
        if let Err(error) = count() {
            let why = format!("its rows cannot be counted: {error}");
            self.damage.push(Damage { what: "the database".into(), why, part: None });
        }
    }
}

fn altered(row: &Row<'_>, is_part: bool) -> String {
    let unreadable = if is_part { unreadable(row) } else { None };
    unreadable.unwrap_or_else(|| "its checksum does not match".to_owned())
}

/// Returns why the content of a part cannot be read.
fn unreadable(row: &Row<'_>) -> Option<String> {
    let text = |column: usize| row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from);
    let why = match (text(3), text(4)) {
        (Ok(data), Ok(_)) => {
            serde_json::from_str::<plimsoll::Part>(data.unwrap_or_default()).err()?.to_string()
        }
        (Err(error), _) | (_, Err(error)) => error.to_string(),
    };
    Some(format!("it cannot be read: {why}"))
}

/// Reads a text that may not be UTF-8.
pub(super) fn lossy(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    let bytes = row.get_ref(column)?.as_bytes_or_null().map_err(rusqlite::Error::from)?;
    Ok(String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned())
}

/// Like [`lossy`], of a column that may be null.
pub(super) fn lossy_or_null(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => None,
        _ => Some(lossy(row, column)?),
    })
}
