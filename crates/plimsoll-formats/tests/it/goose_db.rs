//! goose's database, created here with the schema of its version 9.

use std::fs;
use std::path::PathBuf;

use plimsoll::{Millis, PartBody, Tokens};
use plimsoll_formats::Format;
use plimsoll_formats::database::Database;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{check, shape};

const SCHEMA: &str = "
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
INSERT INTO schema_version (version) VALUES (9);
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
  user_set_name BOOLEAN DEFAULT FALSE, session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL,
  created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  extension_data TEXT DEFAULT '{}', total_tokens INTEGER, input_tokens INTEGER, output_tokens INTEGER,
  accumulated_total_tokens INTEGER, accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER,
  schedule_id TEXT, recipe_json TEXT, user_recipe_values_json TEXT, provider_name TEXT, model_config_json TEXT,
  goose_mode TEXT NOT NULL DEFAULT 'auto');
CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL REFERENCES sessions(id),
  role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL,
  timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP, tokens INTEGER, metadata_json TEXT);
";

fn add_session(connection: &Connection, id: &str, kind: &str, updated: &str) {
    let sql = "INSERT INTO sessions (id, name, session_type, working_dir, created_at, updated_at,
        accumulated_input_tokens, accumulated_output_tokens, model_config_json)
        VALUES (?1, 'About ' || ?1, ?2, '/w', '2026-01-01 00:00:00', ?3, 300, 40,
        '{\"model_name\":\"m1\",\"context_limit\":128000}')";
    connection.execute(sql, (id, kind, updated)).unwrap();
}

fn add(
    connection: &Connection,
    session: &str,
    (role, at): (&str, i64),
    content: &str,
    metadata: Option<&str>,
) {
    let sql =
        "INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json)
        VALUES ('msg_' || (SELECT count(*) FROM messages), ?1, ?2, ?3, ?4, ?5)";
    connection.execute(sql, (session, role, content, at, metadata)).unwrap();
}

/// Creates two sessions and one of a sub-agent, which is the newest.
fn database(journal: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sessions.db");
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "journal_mode", journal).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    add_session(&connection, "20260101_1", "user", "2026-01-01 00:00:09");
    add_session(&connection, "20260101_2", "user", "2026-01-01T00:00:30+00:00");
    add_session(&connection, "20260101_3", "sub_agent", "2026-01-01 00:00:40");
    add(&connection, "20260101_1", ("user", 1_767_225_600), r#"[{"type":"text","text":"Older"}]"#, None);
    let shown = Some(r#"{"userVisible":true,"agentVisible":true}"#);
    let add = |role: (&str, i64), content: &str, metadata| {
        add(&connection, "20260101_2", role, content, metadata);
    };
    add(("user", 1_767_225_610), r#"[{"type":"text","text":"List files"}]"#, shown);
    add(
        ("assistant", 1_767_225_611),
        r#"[{"type":"text","text":"Looking"},{"type":"toolRequest","id":"c","toolCall":{"status":"success","value":{"name":"developer__shell","arguments":{"command":"ls"}}}}]"#,
        shown,
    );
    // In the same second: only the row id orders them.
    add(
        ("user", 1_767_225_611),
        r#"[{"type":"toolResponse","id":"c","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"a.txt"}],"isError":false}}}]"#,
        shown,
    );
    add(("assistant", 1_767_225_612), r#"[{"type":"text","text":"One file."}]"#, shown);
    drop(connection);
    (directory, path)
}

#[test]
fn the_newest_session_is_read_with_its_metadata() {
    let (directory, path) = database("wal");
    let database = Database::open(&path).unwrap();
    assert_eq!(database.format(), Format::Goose);
    let read = database.read(None).unwrap();
    check(&read);
    assert_eq!(read.format, Format::Goose);
    assert_eq!(
        shape(&read.messages),
        [
            "user text:List files",
            "assistant [tool-calls] text:Looking developer__shell{\"command\":\"ls\"}=a.txt",
            "assistant text:One file."
        ]
    );
    assert!(read.notes.is_empty() && read.skipped.is_empty(), "{:?} {:?}", read.notes, read.skipped);
    let info = &read.info;
    assert_eq!((info.id.as_deref(), info.title.as_deref()), (Some("20260101_2"), Some("About 20260101_2")));
    assert_eq!((info.directory.as_deref(), info.model.as_deref()), (Some("/w"), Some("m1")));
    assert_eq!((info.context, info.updated), (Some(Tokens(128_000)), Some(Millis(1_767_225_630_000))));
    assert_eq!(read.messages[0].info.id.as_str(), "msg_1");
    let mut visited = Vec::new();
    database.visit(None, &mut |_, message| visited.push(message)).unwrap();
    assert_eq!(visited, read.messages);
    drop(database);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no file is left next to it");
}

#[test]
fn sessions_are_listed_and_those_of_sub_agents_marked() {
    for journal in ["wal", "delete"] {
        let (_directory, path) = database(journal);
        let before = fs::read(&path).unwrap();
        let rows = Database::open(&path).unwrap().sessions().unwrap();
        let rendered: Vec<_> = rows
            .iter()
            .map(|row| (row.info.id.as_deref().unwrap(), row.is_sub_agent, row.messages))
            .collect();
        assert_eq!(rendered, [("20260101_3", true, 0), ("20260101_2", false, 4), ("20260101_1", false, 1)]);
        let usage = rows[1].tokens.as_ref().unwrap();
        assert_eq!((usage.input, usage.output), (Tokens(300), Tokens(40)));
        assert_eq!(fs::read(&path).unwrap(), before, "the database is unchanged");
    }
}

#[test]
fn a_session_is_picked_by_its_id() {
    let (_directory, path) = database("wal");
    let database = Database::open(&path).unwrap();
    assert_eq!(shape(&database.read(Some("20260101_1")).unwrap().messages), ["user text:Older"]);
    let error = database.read(Some("nothing")).unwrap_err().to_string();
    assert!(error.starts_with("goose: no session `nothing`; the newest of 3 are: `"), "{error}");
}

#[test]
fn a_compaction_hides_earlier_messages() {
    let (_directory, path) = database("wal");
    let connection = Connection::open(&path).unwrap();
    let hidden = r#"{"userVisible":true,"agentVisible":false}"#;
    connection
        .execute("UPDATE messages SET metadata_json = ?1 WHERE session_id = '20260101_2'", [hidden])
        .unwrap();
    let summary = Some(r#"{"userVisible":false,"agentVisible":true}"#);
    add(&connection, "20260101_2", ("user", 1_767_225_613), r#"[{"type":"text","text":"sum"}]"#, summary);
    let read = Database::open(&path).unwrap().read(Some("20260101_2")).unwrap();
    check(&read);
    let has_marker = read
        .messages
        .iter()
        .any(|message| message.parts.iter().any(|part| matches!(part.body, PartBody::Compaction(_))));
    assert!(has_marker, "{:?}", shape(&read.messages));
    let log = plimsoll::Log::from_messages(read.messages);
    let window = plimsoll::Window::of(&log, &plimsoll::Policy::default());
    let texts: String = format!("{:?}", window.messages);
    assert!(texts.contains("sum") && !texts.contains("List files"), "{texts}");
}

#[test]
fn broken_rows_are_counted_and_do_not_affect_others() {
    let (_directory, path) = database("wal");
    let connection = Connection::open(&path).unwrap();
    add(&connection, "20260101_2", ("user", 1_767_225_613), "no json", None);
    add(&connection, "20260101_2", ("user", 1_767_225_614), r#"[{"type":"text","text":"mine"}]"#, Some("{"));
    add(&connection, "20260101_2", ("user", 1_767_225_615), r#"[{"type":"text","text":7}]"#, None);
    connection.execute("UPDATE sessions SET model_config_json = '[', updated_at = 'late'", []).unwrap();
    let read = Database::open(&path).unwrap().read(Some("20260101_2")).unwrap();
    assert_eq!((read.skipped["broken message"], read.skipped["broken metadata"]), (1, 1));
    let rendered: Vec<String> = read.notes.first().iter().map(ToString::to_string).collect();
    assert_eq!(rendered, ["message `msg_7`: content[0].text: expected a string, found 7; kept as text"]);
    assert_eq!(shape(&read.messages)[3..], ["user text:mine", "user text:7"]);
}

#[test]
fn an_older_schema_has_fewer_columns() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sessions.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE sessions (id TEXT, description TEXT, working_dir TEXT, created_at TIMESTAMP);
            CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
                created_timestamp INTEGER);
            INSERT INTO sessions VALUES ('s', 'An old one', '/w', '2025-09-01 10:00:00');
            INSERT INTO messages VALUES (1, 's', 'user', '[{\"type\":\"text\",\"text\":\"hi\"}]', 1756720800);",
        )
        .unwrap();
    let database = Database::open(&path).unwrap();
    let read = database.read(None).unwrap();
    assert_eq!(
        (shape(&read.messages), read.info.title.as_deref()),
        (vec!["user text:hi".into()], Some("An old one"))
    );
    assert_eq!(database.sessions().unwrap()[0].tokens, None);
}
