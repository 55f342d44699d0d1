//! OpenCode's database, created here with the schema of version 1.18.

use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};

use plimsoll::{Millis, Tokens};
use plimsoll_formats::database::Database;
use plimsoll_formats::{Format, FormatError, detect, read};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::shape;

const SCHEMA: &str = "
CREATE TABLE project (id text PRIMARY KEY);
CREATE TABLE session (
  id text PRIMARY KEY, project_id text NOT NULL, workspace_id text, parent_id text, slug text NOT NULL,
  directory text NOT NULL, path text, title text NOT NULL, version text NOT NULL, share_url text,
  summary_additions integer, summary_deletions integer, summary_files integer, summary_diffs text, metadata text,
  cost real DEFAULT 0 NOT NULL, tokens_input integer DEFAULT 0 NOT NULL, tokens_output integer DEFAULT 0 NOT NULL,
  tokens_reasoning integer DEFAULT 0 NOT NULL, tokens_cache_read integer DEFAULT 0 NOT NULL,
  tokens_cache_write integer DEFAULT 0 NOT NULL, revert text, permission text, agent text, model text,
  time_created integer NOT NULL, time_updated integer NOT NULL, time_compacting integer, time_archived integer,
  FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE);
CREATE TABLE message (
  id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL,
  data text NOT NULL, FOREIGN KEY (session_id) REFERENCES session(id) ON DELETE CASCADE);
CREATE TABLE part (
  id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL,
  FOREIGN KEY (message_id) REFERENCES message(id) ON DELETE CASCADE);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
CREATE INDEX part_session_idx ON part (session_id);
";

fn create(path: &Path, journal: &str) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", journal).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    connection.execute("INSERT INTO project VALUES ('p')", []).unwrap();
    connection
}

fn add_session(connection: &Connection, id: &str, parent: Option<&str>, updated: i64) {
    let sql = "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, model, tokens_input,
        tokens_output, tokens_cache_read, time_created, time_updated)
        VALUES (?1, 'p', ?2, 's', '/w', 'About ' || ?1, '1.18', '{\"id\":\"m1\",\"providerID\":\"f\"}', 30, 4, 5, 10, ?3)";
    connection.execute(sql, (id, parent, updated)).unwrap();
}

fn add_message(connection: &Connection, session: &str, id: &str, at: i64, data: &str) {
    let sql = "INSERT INTO message VALUES (?1, ?2, ?3, ?3, ?4)";
    connection.execute(sql, (id, session, at, data)).unwrap();
}

fn add_part(connection: &Connection, session: &str, message: &str, id: &str, data: &str) {
    let sql = "INSERT INTO part VALUES (?1, ?2, ?3, 0, 0, ?4)";
    connection.execute(sql, (id, message, session, data)).unwrap();
}

/// Creates two sessions and a sub-agent of the first; `ses_b` is the newest session, `ses_c` is newer but a
/// sub-agent's.
fn fill(connection: &Connection) {
    add_session(connection, "ses_a", None, 100);
    add_session(connection, "ses_b", None, 200);
    add_session(connection, "ses_c", Some("ses_b"), 300);
    // Neither rows nor ids are in the order of the conversation.
    let answer = r#"{"role":"assistant","parentID":"msg_2","modelID":"m2","time":{"created":22,"completed":29},
        "tokens":{"input":7,"output":3,"reasoning":0,"cache":{"read":1,"write":0}},"finish":"tool-calls","odd":[1]}"#;
    add_message(connection, "ses_b", "msg_1", 22, answer);
    add_part(connection, "ses_b", "msg_1", "prt_3", r#"{"type":"text","text":"Done."}"#);
    let tool = r#"{"type":"tool","tool":"bash","callID":"c","state":{"status":"completed","input":{"c":"ls"},
        "output":"a.txt","title":"ls","metadata":{},"time":{"start":23,"end":24}}}"#;
    add_part(connection, "ses_b", "msg_1", "prt_2", tool);
    add_part(connection, "ses_b", "msg_1", "prt_1", r#"{"type":"step-start","snapshot":"s"}"#);
    add_message(connection, "ses_b", "msg_2", 21, r#"{"role":"user","time":{"created":21}}"#);
    add_part(connection, "ses_b", "msg_2", "prt_4", r#"{"type":"text","text":"List files"}"#);
    add_message(connection, "ses_a", "msg_9", 11, r#"{"role":"user","time":{"created":11}}"#);
    add_part(connection, "ses_a", "msg_9", "prt_9", r#"{"type":"text","text":"Older"}"#);
}

fn database(journal: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("odd ?#% name.db");
    fill(&create(&path, journal));
    (directory, path)
}

fn files(directory: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()))
        .collect();
    files.sort();
    files
}

#[test]
fn the_newest_session_is_read_in_the_order_of_the_conversation() {
    let (_directory, path) = database("wal");
    let read = Database::open(&path).unwrap().read(None).unwrap();
    assert_eq!(read.format, Format::OpencodeDatabase);
    assert_eq!(
        shape(&read.messages),
        ["user text:List files", "assistant [tool-calls] ?step-start bash{\"c\":\"ls\"}=a.txt text:Done."]
    );
    let info = &read.info;
    assert_eq!((info.id.as_deref(), info.title.as_deref()), (Some("ses_b"), Some("About ses_b")));
    assert_eq!((info.directory.as_deref(), info.version.as_deref()), (Some("/w"), Some("1.18")));
    assert_eq!((info.model.as_deref(), info.updated), (Some("m2"), Some(Millis(200))));
    let answer = &read.messages[1];
    assert_eq!(answer.info.id.as_str(), "msg_1");
    assert_eq!(answer.info.tokens.as_ref().unwrap().cache_read, Tokens(1));
    assert_eq!(answer.info.extra["odd"][0], 1, "unknown fields stay");
    assert_eq!(answer.parts[1].id.as_str(), "prt_2");
    assert_eq!(answer.parts[1].extra["messageID"], "msg_1");
}

#[test]
fn sessions_are_listed_newest_first_with_their_metadata() {
    let (_directory, path) = database("wal");
    let rows = Database::open(&path).unwrap().sessions().unwrap();
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (row.info.id.as_deref().unwrap(), row.parent.as_deref(), row.messages))
        .collect();
    assert_eq!(shown, [("ses_c", Some("ses_b"), 0), ("ses_b", None, 2), ("ses_a", None, 1)]);
    let usage = rows[0].tokens.as_ref().unwrap();
    assert_eq!((usage.input, usage.output, usage.cache_read), (Tokens(30), Tokens(4), Tokens(5)));
    assert_eq!(rows[0].info.model.as_deref(), Some("m1"));
}

#[test]
fn a_session_is_picked_by_id_and_an_unknown_one_is_an_error_with_suggestions() {
    let (_directory, path) = database("delete");
    let database = Database::open(&path).unwrap();
    assert_eq!(shape(&database.read(Some("ses_a")).unwrap().messages), ["user text:Older"]);
    assert!(database.read(Some("ses_c")).unwrap().messages.is_empty());
    let error = database.read(Some("nothing")).unwrap_err().to_string();
    assert!(error.starts_with("opencode-db: no session `nothing`; the newest of 3 are: `ses_c`"), "{error}");
    let error = database.read(Some("about ses_a")).unwrap_err().to_string();
    assert!(error.ends_with("near it are: `ses_a` (About ses_a)"), "{error}");
}

#[test]
fn a_database_is_read_while_it_is_written_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("opencode.db");
    let writer = create(&path, "wal");
    fill(&writer);
    let database = Database::open(&path).unwrap();
    let before = database.read(None).unwrap().messages.len();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    add_message(&writer, "ses_b", "msg_3", 30, r#"{"role":"user"}"#);
    assert_eq!(database.read(None).unwrap().messages.len(), before, "not yet committed");
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(database.read(None).unwrap().messages.len(), before + 1, "committed, and only in the log");
}

#[test]
fn nothing_is_written_next_to_an_unused_database() {
    for journal in ["wal", "delete"] {
        let (directory, path) = database(journal);
        let before = files(directory.path());
        assert_eq!(before.len(), 1, "closing folds the log in: {before:?}");
        let content = fs::read(&path).unwrap();
        assert_eq!(Database::open(&path).unwrap().read(None).unwrap().messages.len(), 2, "{journal}");
        assert_eq!(files(directory.path()), before, "{journal}");
        assert!(fs::read(&path).unwrap() == content, "{journal}");
    }
}

#[test]
fn a_copy_is_read_with_whatever_exists_of_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("opencode.db");
    let writer = create(&path, "wal");
    fill(&writer);
    writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    add_message(&writer, "ses_b", "msg_3", 30, r#"{"role":"user"}"#);

    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("copy.db");
    fs::copy(&path, &copy).unwrap();
    assert_eq!(Database::open(&copy).unwrap().read(None).unwrap().messages.len(), 2, "only the database");
    assert_eq!(files(copies.path()).len(), 1);

    fs::copy(path.with_extension("db-wal"), copies.path().join("copy.db-wal")).unwrap();
    let before = files(copies.path());
    assert_eq!(Database::open(&copy).unwrap().read(None).unwrap().messages.len(), 3, "with its log");
    assert_eq!(files(copies.path()), before, "and no index was made to it");
}

#[test]
fn other_databases_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.db");
    let problem = |path: &Path| Database::open(path).unwrap_err().to_string();
    assert!(matches!(Database::open(&path), Err(FormatError::Io(_))), "a file that is not there");
    fs::write(&path, "{}").unwrap();
    assert_eq!(problem(&path), "not a SQLite database");
    let mut torn = b"SQLite format 3\0".to_vec();
    torn.resize(4096, 7);
    fs::write(&path, torn).unwrap();
    assert_eq!(problem(&path), "file is not a database");
    assert!(Database::open(&path).unwrap_err().source().is_some(), "the cause is kept");
    fs::remove_file(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE session (id text)").unwrap();
    assert_eq!(
        problem(&path),
        "not a session database: OpenCode's has the tables `session`, `message`, `part`, goose's `sessions`, `messages`"
    );
    other.execute_batch("CREATE TABLE message (id text); CREATE TABLE part (id text)").unwrap();
    assert_eq!(problem(&path), "the table `message` has no column `session_id`");
}

#[test]
fn an_older_schema_has_fewer_columns() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("old.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE session (id text); CREATE TABLE message (id text, session_id text, data text);
            CREATE TABLE part (id text, message_id text, data text);
            INSERT INTO session VALUES ('s');
            INSERT INTO message VALUES ('m2', 's', '{\"role\":\"user\"}'), ('m1', 's', '{\"role\":\"user\"}');
            INSERT INTO part VALUES ('p', 'm1', '{\"type\":\"text\",\"text\":\"hi\"}');",
        )
        .unwrap();
    let database = Database::open(&path).unwrap();
    assert_eq!(shape(&database.read(None).unwrap().messages), ["user text:hi", "user"]);
    assert_eq!(database.sessions().unwrap()[0].tokens, None);
}

#[test]
fn broken_rows_are_counted_and_do_not_affect_others() {
    let (_directory, path) = database("wal");
    let connection = Connection::open(&path).unwrap();
    add_message(&connection, "ses_b", "msg_3", 40, "no json");
    add_message(&connection, "ses_b", "msg_4", 41, r#"{"role":42}"#);
    add_message(&connection, "ses_b", "msg_5", 42, "{\"role\":");
    add_part(&connection, "ses_b", "msg_5", "prt_7", r#"{"type":"text","text":"mine"}"#);
    add_part(&connection, "ses_b", "msg_2", "prt_5", "[1]");
    add_part(&connection, "ses_b", "msg_2", "prt_6", r#"{"type":"tool"}"#);
    connection.execute("UPDATE part SET data = x'ff00' WHERE id = 'prt_3'", []).unwrap();
    connection.execute("UPDATE session SET time_updated = 'late', title = 3 WHERE id = 'ses_a'", []).unwrap();
    let read = Database::open(&path).unwrap().read(Some("ses_b")).unwrap();
    assert_eq!((read.skipped["broken message"], read.skipped["broken part"]), (2, 1));
    let shown: Vec<String> = read.notes.first().iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "part `prt_5`: expected an object, found an array of 1; kept unchanged",
            "part `prt_6`: a tool part needs a `state`; kept unchanged",
            "message `msg_4`: info.role: expected a string, found 42; kept unchanged",
        ]
    );
    let kinds = |at: usize| read.messages[at].parts.iter().map(|part| part.id.as_str()).collect::<Vec<_>>();
    assert_eq!(read.messages.len(), 4, "msg_3 has nothing left, msg_5 has a part");
    assert_eq!(kinds(0), ["prt_4", "prt_5", "prt_6"]);
    assert_eq!((kinds(1), kinds(3)), (vec!["prt_1", "prt_2"], vec!["prt_7"]));
    assert_eq!(read.messages[3].info.role, None);
    assert_eq!(read.messages[2].info.extra["role"], 42);
}

#[test]
fn a_database_is_detected_by_its_header_and_not_read_from_a_stream() {
    let (_directory, path) = database("wal");
    let bytes = fs::read(path).unwrap();
    assert_eq!(detect(&bytes), Some(Format::OpencodeDatabase));
    assert!(matches!(read(&bytes[..]), Err(FormatError::NeedsPath)));
    assert_eq!("opencode-db".parse(), Ok(Format::OpencodeDatabase));
}

/// Checks a database that OpenCode itself wrote, running or not. `PLIMSOLL_OPENCODE_DB` names it, and
/// `PLIMSOLL_OPENCODE_MESSAGES` the response of `GET /session/{id}/message` for one of its sessions.
#[test]
#[ignore = "needs PLIMSOLL_OPENCODE_DB and PLIMSOLL_OPENCODE_MESSAGES"]
fn a_real_database_gives_what_its_server_answers() {
    let path = |name: &str| PathBuf::from(std::env::var_os(name).unwrap());
    let answered = fs::read(path("PLIMSOLL_OPENCODE_MESSAGES")).unwrap();
    let answered = read(&answered[..]).unwrap();
    let database = Database::open(&path("PLIMSOLL_OPENCODE_DB")).unwrap();
    let stored = database.read(answered.info.id.as_deref()).unwrap();
    assert!(!stored.messages.is_empty());
    assert_eq!(stored.messages, answered.messages);
    assert!(stored.skipped.is_empty(), "{:?}", stored.skipped);
}

/// Creates a database with the session of an export.
pub(crate) fn of_export(export: &str) -> (TempDir, Database) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("opencode.db");
    let connection = create(&path, "wal");
    add_session(&connection, "ses", None, 1);
    let mut export: serde_json::Value = serde_json::from_str(export).unwrap();
    let id = |value: &mut serde_json::Value| {
        let id = value.as_object_mut().unwrap().shift_remove("id").unwrap();
        id.as_str().unwrap().to_owned()
    };
    for (at, message) in export["messages"].as_array_mut().unwrap().iter_mut().enumerate() {
        let name = id(&mut message["info"]);
        add_message(&connection, "ses", &name, at as i64, &message["info"].to_string());
        for part in message["parts"].as_array_mut().unwrap() {
            let part_name = id(part);
            add_part(&connection, "ses", &name, &part_name, &part.to_string());
        }
    }
    drop(connection);
    let database = Database::open(&path).unwrap();
    (directory, database)
}
