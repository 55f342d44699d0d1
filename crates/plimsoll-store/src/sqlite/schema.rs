//! The tables, and the upgrade of older databases.
//!
//! Migrations are numbered from 1 and run once, each in a transaction. Before an older database is changed, a copy of
//! it is stored next to it.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::error::StoreError;

/// Migrations. Each upgrades the database by one version.
const MIGRATIONS: [&str; 12] = [
    // 1: sessions, messages, parts. The order of a session's messages is (at, id); `at` never goes back.
    "CREATE TABLE session (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        parent TEXT,
        title TEXT NOT NULL,
        agent TEXT,
        model TEXT,
        directory TEXT,
        version TEXT,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        messages INTEGER NOT NULL DEFAULT 0,
        input INTEGER NOT NULL DEFAULT 0,
        output INTEGER NOT NULL DEFAULT 0,
        reasoning INTEGER NOT NULL DEFAULT 0,
        cache_read INTEGER NOT NULL DEFAULT 0,
        cache_write INTEGER NOT NULL DEFAULT 0,
        cost REAL NOT NULL DEFAULT 0,
        last_at INTEGER NOT NULL DEFAULT 0,
        last_id TEXT NOT NULL DEFAULT '',
        removed INTEGER
    ) STRICT;
    CREATE INDEX session_updated ON session (updated);
    CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;
    CREATE TABLE message (
        session INTEGER NOT NULL REFERENCES session (key),
        at INTEGER NOT NULL,
        id TEXT NOT NULL,
        role TEXT NOT NULL,
        info TEXT NOT NULL,
        PRIMARY KEY (session, at, id)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX message_id ON message (session, id);
    CREATE INDEX message_system ON message (session, at, id) WHERE role = 'system';
    CREATE INDEX message_user ON message (session, at, id) WHERE role = 'user';
    CREATE TABLE part (
        seq INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        at INTEGER NOT NULL,
        message TEXT NOT NULL,
        ord INTEGER NOT NULL,
        id TEXT NOT NULL,
        kind TEXT NOT NULL,
        tool TEXT,
        status TEXT,
        call TEXT,
        blank INTEGER NOT NULL,
        chars INTEGER NOT NULL,
        input_chars INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        place INTEGER NOT NULL,
        files INTEGER NOT NULL,
        data TEXT NOT NULL,
        text TEXT
    ) STRICT;
    CREATE UNIQUE INDEX part_order ON part (session, at, message, ord);
    CREATE UNIQUE INDEX part_id ON part (session, id);
    CREATE INDEX part_open ON part (session) WHERE status IN ('pending', 'running');",
    // 2: results of reductions: the flag of compacted messages, compactions, marks, receipts.
    "ALTER TABLE message ADD COLUMN is_compacted INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE compaction (
        seq INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (key),
        marker TEXT NOT NULL,
        marker_at INTEGER NOT NULL,
        summary TEXT NOT NULL,
        summary_at INTEGER NOT NULL,
        tail TEXT,
        tail_at INTEGER,
        messages INTEGER,
        tokens INTEGER,
        created INTEGER NOT NULL,
        set_aside INTEGER
    ) STRICT;
    CREATE INDEX compaction_session ON compaction (session, marker_at, marker, seq);
    CREATE TABLE mark (
        seq INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (key),
        at INTEGER NOT NULL,
        part TEXT NOT NULL,
        cleared INTEGER,
        cut_keep INTEGER,
        cut_at INTEGER,
        lifted INTEGER
    ) STRICT;
    CREATE INDEX mark_at ON mark (session, at, seq);
    CREATE TABLE receipt (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session INTEGER NOT NULL REFERENCES session (key),
        at INTEGER NOT NULL,
        undoes TEXT,
        data TEXT NOT NULL
    ) STRICT;
    CREATE INDEX receipt_session ON receipt (session, seq);
    CREATE INDEX receipt_undoes ON receipt (undoes) WHERE undoes IS NOT NULL;",
    // 3: forks by reference, spills, leases, the search index.
    "ALTER TABLE session ADD COLUMN forked_from INTEGER REFERENCES session (key);
    ALTER TABLE session ADD COLUMN fork_at INTEGER;
    ALTER TABLE session ADD COLUMN fork_id TEXT;
    ALTER TABLE session ADD COLUMN fork_mark INTEGER;
    ALTER TABLE session ADD COLUMN fork_compaction INTEGER;
    CREATE INDEX session_fork ON session (forked_from) WHERE forked_from IS NOT NULL;
    CREATE TABLE spill (
        seq INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (key),
        handle TEXT NOT NULL,
        hash TEXT NOT NULL,
        part TEXT,
        tool TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        stored INTEGER NOT NULL,
        created INTEGER NOT NULL,
        shown TEXT NOT NULL,
        expired INTEGER
    ) STRICT;
    CREATE UNIQUE INDEX spill_handle ON spill (session, handle);
    CREATE INDEX spill_of ON spill (handle);
    CREATE INDEX spill_hash ON spill (hash) WHERE expired IS NULL;
    CREATE INDEX spill_age ON spill (created) WHERE expired IS NULL;
    CREATE TABLE lease (
        session INTEGER PRIMARY KEY REFERENCES session (key),
        holder TEXT NOT NULL,
        until INTEGER NOT NULL
    ) STRICT;
    CREATE VIRTUAL TABLE search USING fts5 (
        text, content = '', contentless_delete = 1, detail = none, tokenize = 'trigram'
    );
    CREATE TABLE searched (session INTEGER PRIMARY KEY REFERENCES session (key), upto INTEGER NOT NULL) STRICT;",
    // 4: a mark belongs to its receipt. Each row sets one mark or lifts those of one receipt; older rows have no effect
    // and contain the whole state of their part. Pinned messages are found by index.
    "ALTER TABLE mark ADD COLUMN effect TEXT;
    ALTER TABLE mark ADD COLUMN receipt TEXT;
    ALTER TABLE mark ADD COLUMN data TEXT;
    CREATE INDEX mark_pin ON mark (session, at) WHERE effect = 'pin';
    ALTER TABLE compaction ADD COLUMN set_aside_after TEXT;",
    // 5: an epoch for each session, which every write must name. Incomplete answers are found by index; existing ones
    // count as complete. Revisions (`shaped` is that of the newest reduction, undo or pin) and the change feed. Deltas
    // of growing texts, by their first byte, until they are folded into the part. Notes and tasks.
    "ALTER TABLE session ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE message ADD COLUMN is_open INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX message_open ON message (session, at, id) WHERE is_open = 1;
    ALTER TABLE session ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE session ADD COLUMN shaped INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE change (
        sequence INTEGER PRIMARY KEY,
        session TEXT NOT NULL,
        revision INTEGER NOT NULL,
        kind TEXT NOT NULL,
        message TEXT,
        part TEXT
    ) STRICT;
    CREATE TABLE delta (
        part INTEGER NOT NULL,
        at INTEGER NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (part, at)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE note (
        seq INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (key),
        id TEXT NOT NULL,
        kind TEXT NOT NULL,
        data TEXT NOT NULL,
        sent INTEGER NOT NULL,
        taken INTEGER
    ) STRICT;
    CREATE UNIQUE INDEX note_id ON note (session, id);
    CREATE INDEX note_waiting ON note (session, seq) WHERE taken IS NULL;
    CREATE TABLE task (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session INTEGER NOT NULL REFERENCES session (key),
        runs_in TEXT,
        status TEXT NOT NULL,
        data TEXT NOT NULL,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX task_session ON task (session, seq);
    CREATE INDEX task_status ON task (status, seq);
    CREATE INDEX mark_part ON mark (session, part, seq);",
    // 6: a separate directory for spills; blobs by name, and those that are being deleted; parts and messages by id in
    // all sessions, by one index for both; checksums; purges. The search index is rebuilt with the inputs of tools.
    "CREATE TABLE spill_place (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        id TEXT NOT NULL,
        database TEXT,
        root TEXT,
        taken TEXT
    ) STRICT;
    INSERT INTO spill_place (only, id) VALUES (1, lower(hex(randomblob(8))));
    ALTER TABLE spill ADD COLUMN blob TEXT NOT NULL DEFAULT '';
    UPDATE spill SET blob = hash;
    CREATE INDEX spill_blob ON spill (blob) WHERE expired IS NULL;
    CREATE TABLE deleting (blob TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    DROP INDEX part_id;
    CREATE UNIQUE INDEX part_name ON part (id, session);
    DROP INDEX message_id;
    CREATE UNIQUE INDEX message_name ON message (id, session);
    ALTER TABLE part ADD COLUMN sum BLOB;
    CREATE TABLE purge (
        seq INTEGER PRIMARY KEY,
        receipt TEXT NOT NULL UNIQUE,
        at INTEGER NOT NULL,
        is_done INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    DELETE FROM searched;
    INSERT INTO search (search) VALUES ('delete-all');",
    // 7: imports and their stages. `taken` counts the messages that imports and reductions added; a session with others
    // was continued here. A staged session is marked as removed until it is complete, so that no query returns it.
    "CREATE TABLE import (
        session INTEGER PRIMARY KEY REFERENCES session (key),
        root INTEGER NOT NULL REFERENCES session (key),
        source TEXT NOT NULL,
        conversation TEXT NOT NULL,
        state TEXT NOT NULL,
        taken INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX import_source ON import (source);
    CREATE INDEX import_root ON import (root);
    CREATE TABLE staged (
        session INTEGER PRIMARY KEY REFERENCES session (key),
        stage TEXT NOT NULL,
        conversation INTEGER NOT NULL,
        touched INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX staged_stage ON staged (stage, conversation);",
    // 8: an undo is one row, which lifts the marks of a receipt on all parts and names none of them.
    "CREATE INDEX mark_lift ON mark (receipt, session, seq) WHERE part = '';",
    // 9: the tool of an imported session, and the context window that it recorded. Older sessions have neither until
    // they are imported again.
    "ALTER TABLE session ADD COLUMN tool TEXT;
    ALTER TABLE session ADD COLUMN context INTEGER;",
    // 10: checksums over all columns of a row, see `sums`; a session's number of parts, and of marks, receipts and
    // compactions; recorded losses. The search index does not merge its segments with each deletion, which took 47 s
    // for a session of 100,000 messages; `stale` counts what remains to be merged.
    "ALTER TABLE session ADD COLUMN parts INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE session ADD COLUMN beside INTEGER NOT NULL DEFAULT 0;
    UPDATE session SET parts = (SELECT count(*) FROM part p WHERE p.session = session.key),
        beside = (SELECT count(*) FROM mark m WHERE m.session = session.key)
            + (SELECT count(*) FROM receipt r WHERE r.session = session.key)
            + (SELECT count(*) FROM compaction c WHERE c.session = session.key);
    ALTER TABLE session ADD COLUMN sum BLOB;
    ALTER TABLE message ADD COLUMN sum BLOB;
    ALTER TABLE delta ADD COLUMN sum BLOB;
    ALTER TABLE compaction ADD COLUMN sum BLOB;
    ALTER TABLE mark ADD COLUMN sum BLOB;
    ALTER TABLE receipt ADD COLUMN sum BLOB;
    ALTER TABLE spill ADD COLUMN sum BLOB;
    ALTER TABLE note ADD COLUMN sum BLOB;
    ALTER TABLE task ADD COLUMN sum BLOB;
    ALTER TABLE import ADD COLUMN sum BLOB;
    ALTER TABLE spill_place ADD COLUMN sum BLOB;
    CREATE TABLE loss (
        seq INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        expected INTEGER NOT NULL,
        found INTEGER NOT NULL
    ) STRICT;
    INSERT INTO search (search, rank) VALUES ('deletemerge', 0);
    CREATE TABLE search_state (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        stale INTEGER NOT NULL
    ) STRICT;
    INSERT INTO search_state (only, stale) VALUES (1, 0);",
    // 11: exact token counts of parts, by vocabulary. A part that changes has none until it is counted again.
    "CREATE TABLE counted (
        part INTEGER PRIMARY KEY,
        counter TEXT NOT NULL,
        input INTEGER NOT NULL,
        text INTEGER NOT NULL
    ) STRICT;
    CREATE TRIGGER counted_changed AFTER UPDATE OF data, text, chars, input_chars ON part
        BEGIN DELETE FROM counted WHERE part = old.seq; END;
    CREATE TRIGGER counted_removed AFTER DELETE ON part BEGIN DELETE FROM counted WHERE part = old.seq; END;
    CREATE TRIGGER counted_grown AFTER INSERT ON delta BEGIN DELETE FROM counted WHERE part = new.part; END;",
    // 12: settings that hosts keep with a session. In a separate table, because the checksum of a session's row covers
    // all of its columns.
    "CREATE TABLE setting (
        session INTEGER PRIMARY KEY REFERENCES session (key),
        data TEXT NOT NULL,
        sum BLOB
    ) STRICT;",
];

/// The first version whose rows have checksums over all columns.
const SEALED: i64 = 10;

/// The version that this code writes.
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64;

/// Application id: "Plim".
const APPLICATION: i64 = 0x506c_696d;

/// Upgrades a database to this version. Returns the copy that was made of an older one.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<Option<PathBuf>, StoreError> {
    let (version, is_empty) = look(connection, path)?;
    if version == VERSION {
        return Ok(None);
    }
    let copy = if is_empty { None } else { Some(copy(connection, path, version)?) };
    if is_empty {
        // SQLite only accepts the mode while the database has no tables.
        super::space::prepare(connection)?;
    }
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another process may have upgraded it while this one waited.
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    for migration in MIGRATIONS.iter().skip(version as usize) {
        transaction.execute_batch(migration)?;
    }
    if version < SEALED {
        super::sums::seal_all(&transaction)?;
    }
    transaction
        .execute_batch(&format!("PRAGMA user_version = {VERSION}; PRAGMA application_id = {APPLICATION};"))?;
    transaction.commit()?;
    Ok(copy)
}

/// Returns the version of a database, and whether it is empty. Refuses databases of other programs, and changes
/// nothing.
pub(crate) fn look(connection: &Connection, path: &Path) -> Result<(i64, bool), StoreError> {
    let number = |pragma: &str| {
        connection
            .query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0))
            .map_err(|error| super::broken(path, error))
    };
    let tables = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        .map_err(|error| super::broken(path, error))?;
    let (version, application) = (number("user_version")?, number("application_id")?);
    if version > VERSION && (application == APPLICATION || application == 0) {
        return Err(StoreError::Newer { path: path.display().to_string(), found: version, known: VERSION });
    }
    if tables > 0 && (version == 0 || (application != APPLICATION && application != 0)) {
        return Err(StoreError::NotOurs { path: path.display().to_string() });
    }
    Ok((version, tables == 0))
}

/// Copies an older database to a file next to it.
fn copy(connection: &Connection, path: &Path, version: i64) -> Result<PathBuf, StoreError> {
    let named = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 1 { format!(".v{version}.bak") } else { format!(".v{version}.{number}.bak") });
        PathBuf::from(name)
    };
    let written = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    // A copy that is newer than the database is from an interrupted upgrade or another process. An older one is of
    // another database and stays.
    let usable = |copy: &PathBuf| !copy.exists() || written(copy) >= written(path);
    let copy = (1..).map(named).find(usable).unwrap_or_else(|| named(1));
    if !copy.exists() {
        let failed = || format!("cannot keep a copy as `{}`", copy.display());
        // Several processes may do this. Each writes to its own file, and the first to finish has made the copy.
        let directory =
            path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let part = tempfile::Builder::new().prefix(&unfinished_copy(&name)).tempfile_in(directory);
        let part = part.map_err(StoreError::io(failed()))?.into_temp_path();
        connection.execute("VACUUM INTO ?1", [part.display().to_string()])?;
        match part.persist_noclobber(&copy) {
            Err(error) if error.error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(StoreError::io(failed())(error.error));
            }
            _ => {}
        }
    }
    Ok(copy)
}

/// Prefix of the name of an unfinished copy.
pub(super) fn unfinished_copy(database: &str) -> String {
    format!(".{database}.upgrade-")
}

/// Creates a database of an older version, by the first migrations.
#[doc(hidden)]
pub fn database_of_version(path: &Path, version: usize) -> Result<(), StoreError> {
    let connection = Connection::open(path)?;
    for migration in MIGRATIONS.iter().take(version) {
        connection.execute_batch(migration)?;
    }
    connection
        .execute_batch(&format!("PRAGMA user_version = {version}; PRAGMA application_id = {APPLICATION};"))?;
    Ok(())
}
