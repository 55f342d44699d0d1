//! Flipped bytes: a check finds them in every column, and no altered content is exported as sound.

use std::path::Path;

use plimsoll::log::{Effect, LogPosition, Mark};
use plimsoll::{Message, SessionId};
use plimsoll_store::*;
use rusqlite::types::Value as Column;
use rusqlite::{Connection, params};
use serde_json::json;
use tempfile::TempDir;

use super::super::imports::{conversation, import};
use super::super::search::compact;
use super::super::{NOW, answer, begun, session, unleased, user};
use super::{noise, open, take};

/// Tables of work in progress, which are rebuilt or expire, and the search index.
const TRANSIENT: [&str; 6] = ["change", "deleting", "lease", "purge", "staged", "loss"];

/// A database with rows in every table, and its sessions.
fn full(directory: &Path) -> (Archive, Vec<SessionId>) {
    let archive = open(&directory.join("plimsoll.db"));
    let store = archive.store();
    let id = store
        .create(
            NewSession {
                title: "About parts".into(),
                agent: Some("build".into()),
                model: Some("claude".into()),
                directory: Some("/home/u".into()),
                version: Some("1.2".into()),
                tool: Some("codex".into()),
                context: Some(plimsoll::Tokens(200_000)),
                ..NewSession::new("ses_1".into())
            },
            NOW,
        )
        .unwrap()
        .id;
    let mark =
        Mark { receipt: None, effect: Effect::Hide, set: LogPosition { at: NOW, after: None }, lifted: None };
    let mut marked = answer("msg_1", "an answer");
    marked.parts[0] = marked.parts[0].clone().with_marks(vec![mark]);
    store.append(&unleased(&id), vec![user("msg_0", "a question"), marked], NOW).unwrap();
    let more = |n: u64| user(&format!("msg_1_{n:02}"), &noise(9, n));
    store.append(&unleased(&id), (0..60).map(more).collect(), NOW).unwrap();
    compact(store, &id, 1, Some("msg_1"));
    take(&archive, &id, "prt_9", &noise(3_000, 1));
    let fork = store.fork(&id, None, NewSession::new("ses_2".into()), NOW).unwrap().id;
    store
        .append(&unleased(&fork), vec![super::super::read("msg_5", "output"), begun("msg_6", "gro")], NOW)
        .unwrap();
    store.extend(&unleased(&fork), &"msg_6.1".into(), 3, "wing", NOW).unwrap();
    store
        .send(&fork, NewNote { id: "note_1".into(), kind: "word".into(), data: json!("hello") }, NOW)
        .unwrap();
    store
        .send(&fork, NewNote { id: "note_2".into(), kind: "word".into(), data: json!("taken") }, NOW)
        .unwrap();
    store.take_notes(&unleased(&fork), &["note_2".to_owned()], NOW).unwrap();
    let task = NewTask {
        id: "task_1".into(),
        parent: fork.clone(),
        session: Some(id.clone()),
        status: "running".into(),
        data: json!({ "n": 1 }),
    };
    store.put_task(task, NOW).unwrap();
    store.import(import(vec![conversation("ses_3", vec![user("msg_8", "imported")])])).unwrap();
    (archive, vec![id, fork, "ses_3".into()])
}

/// A value with one bit of one byte flipped.
fn flipped(value: &Column, place: usize) -> Column {
    let flip = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        if bytes.is_empty() {
            return vec![b'x'];
        }
        let at = place * 7 % bytes.len();
        bytes[at] ^= 1 << (place % 8);
        bytes
    };
    match value {
        Column::Integer(number) => Column::Integer(number ^ (1 << (place * 5 % 63))),
        Column::Real(number) => Column::Real(f64::from_bits(number.to_bits() ^ (1 << (place * 5 % 51)))),
        Column::Text(text) => Column::Blob(flip(text.as_bytes())),
        Column::Blob(bytes) => Column::Blob(flip(bytes)),
        Column::Null => Column::Null,
    }
}

#[test]
fn a_flipped_byte_in_any_column_is_found() {
    let directory = TempDir::new().unwrap();
    let (archive, sessions) = full(directory.path());
    let store = archive.store();
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
    let raw = Connection::open(directory.path().join("plimsoll.db")).unwrap();
    raw.execute_batch("PRAGMA foreign_keys = off; PRAGMA ignore_check_constraints = on").unwrap();
    let mut statement = raw
        .prepare("SELECT t.name, c.name, c.type, c.pk FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'")
        .unwrap();
    let columns: Vec<(String, String, String, bool)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut seen = 0;
    for (table, column, kind, is_key) in &columns {
        // A part's row number is in no checksum: the database assigns it, and no content depends on it.
        let is_number = table == "part" && column == "seq";
        if table.starts_with("search") || TRANSIENT.contains(&table.as_str()) || is_number {
            continue;
        }
        // Without a row id, the checksum is the only column that is unique.
        let row = if ["message", "delta"].contains(&table.as_str()) { "sum" } else { "rowid" };
        let rows: Vec<(Column, Column)> = raw
            .prepare(&format!("SELECT {column}, {row} FROM {table}"))
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .map(Result::unwrap)
            .filter(|(value, _)| *value != Column::Null)
            .take(3)
            .collect();
        let cast = if kind == "TEXT" { "CAST(?1 AS TEXT)" } else { "?1" };
        let set = format!("UPDATE {table} SET {column} = {cast} WHERE {row} = ?2");
        for (place, (value, at)) in rows.iter().enumerate() {
            seen += 1;
            // Another bit, if the value would equal that of another row, which the database refuses.
            let damaged = (place + column.len()..)
                .map(|place| flipped(value, place))
                .find(|damaged| raw.execute(&set, params![damaged, at]).is_ok())
                .unwrap();
            let findings = store.check().unwrap();
            assert!(!findings.problems.is_empty(), "{table}.{column} = {value:?} -> {damaged:?}");
            let is_content = ["session", "message", "part", "delta", "compaction", "mark", "receipt"];
            if is_content.contains(&table.as_str()) {
                let is_sound = |id: &SessionId| store.damage(id).is_ok_and(|damage| damage.is_empty());
                assert!(!sessions.iter().all(is_sound), "{table}.{column} = {value:?} -> {damaged:?}");
            }
            let is_number = *is_key && kind == "INTEGER" && row == "rowid";
            let at = if column == row || is_number { &damaged } else { at };
            assert_eq!(raw.execute(&set, params![value, at]).unwrap(), 1, "{table}.{column}");
            assert_eq!(store.check().unwrap().problems, Vec::<String>::new(), "{table}.{column}");
        }
    }
    assert!(seen > 150, "{seen}");
}

/// The content of an export.
fn exported(store: &dyn Store, id: &SessionId) -> Result<String, StoreError> {
    let session = store.session(id)?;
    let request = PageRequest { from: None, oldest_first: true, most: 1_000 };
    let messages = store.page(id, &request)?.messages;
    let receipts = store.receipts(id, None, 100)?;
    Ok(json!([session, messages, receipts]).to_string())
}

#[test]
fn a_flipped_byte_in_the_file_never_yields_an_altered_export() {
    let directory = TempDir::new().unwrap();
    let (archive, sessions) = full(directory.path());
    let sound: Vec<String> = sessions.iter().map(|id| exported(archive.store(), id).unwrap()).collect();
    drop(archive);
    let bytes = std::fs::read(directory.path().join("plimsoll.db")).unwrap();
    let (mut altered, mut refused) = (0, 0);
    for round in 0..400_usize {
        let hash = blake3::hash(&round.to_le_bytes());
        let number = u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap()) as usize;
        let mut damaged = bytes.clone();
        damaged[number % bytes.len()] ^= 1 << (number >> 40 & 7);
        let place = TempDir::new().unwrap();
        let path = place.path().join("plimsoll.db");
        std::fs::write(&path, &damaged).unwrap();
        let Ok(store) = SqliteStore::open(&path, Durability::Process) else {
            refused += 1;
            continue;
        };
        for (id, sound) in sessions.iter().zip(&sound) {
            match exported(&store, id) {
                Ok(found) if found != *sound => {
                    altered += 1;
                    let damage = store.damage(id);
                    let is_reported =
                        damage.as_ref().is_ok_and(|damage| !damage.is_empty()) || damage.is_err();
                    assert!(is_reported, "round {round}, `{id}`:\n{sound}\n{found}");
                }
                Ok(_) => {}
                Err(_) => refused += 1,
            }
        }
    }
    assert!(altered > 5 && refused > 5, "{altered} altered, {refused} refused");
}

#[test]
fn a_salvage_keeps_readable_content_and_names_the_rest() {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let store = archive.store();
    let id = session(store, "ses_1");
    let messages: Vec<Message> = (0..5).map(|n| user(&format!("msg_{n}"), &format!("text {n}"))).collect();
    store.append(&unleased(&id), messages, NOW).unwrap();
    let raw = Connection::open(directory.path().join("plimsoll.db")).unwrap();
    raw.execute_batch("UPDATE message SET info = 'nothing' WHERE id = 'msg_3'").unwrap();
    let request = PageRequest { from: None, oldest_first: true, most: 1_000 };
    let error = store.page(&id, &request).unwrap_err().to_string();
    assert!(error.starts_with("message `msg_3` is damaged: it cannot be read"), "{error}");
    raw.execute_batch(
        "UPDATE part SET text = CAST(x'746578ff2031' AS TEXT) WHERE id = 'msg_1.1';
         UPDATE part SET data = '{' WHERE id = 'msg_2.1';
         UPDATE message SET info = (SELECT info FROM message WHERE id = 'msg_4') WHERE id = 'msg_3'",
    )
    .unwrap();
    let error = store.page(&id, &request).unwrap_err().to_string();
    assert!(error.starts_with("part `msg_1.1` of message `msg_1` is damaged: it cannot be read"), "{error}");
    let mut texts = Vec::new();
    let mut damage = Vec::new();
    let salvage = store.read_session(&id, &mut |reader| {
        damage = reader.salvage(&mut |message| texts.push(message.text()))?;
        Ok(())
    });
    salvage.unwrap();
    assert_eq!(texts, ["text 0", "tex\u{fffd} 1", "text 2", "text 3", "text 4"]);
    let named: Vec<&str> = damage.iter().map(|damage| damage.what.as_str()).collect();
    let parts = ["part `msg_1.1` of message `msg_1`", "part `msg_2.1` of message `msg_2`"];
    assert_eq!(named, [&["message `msg_3`"][..], &parts].concat());
}

#[test]
fn a_database_that_is_older_than_what_was_acknowledged_says_so() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plimsoll.db");
    let open = || SqliteStore::open(&path, Durability::Process).unwrap();
    let store = open();
    let id = session(&store, "ses_1");
    store.append(&unleased(&id), vec![user("msg_0", "folded into the database")], NOW).unwrap();
    drop(store);
    assert_eq!(open().loss(), None, "a database that was closed has everything");
    // The process dies, and its write-ahead log is deleted.
    let other = directory.path().join("later.db");
    {
        let store = open();
        let before = std::fs::read(&path).unwrap();
        store.append(&unleased(&id), vec![user("msg_1", "acknowledged"), user("msg_2", "too")], NOW).unwrap();
        assert_eq!(open().loss(), None, "another process sees what is in the log");
        drop(store);
        std::fs::rename(&path, &other).unwrap();
        std::fs::write(&path, before).unwrap();
    }
    let store = open();
    let loss = store.loss().unwrap().to_string();
    assert!(
        loss.starts_with("the database is older than what had been acknowledged: changes 3 to 4 are missing"),
        "{loss}"
    );
    let problems = store.check().unwrap().problems;
    assert!(problems.len() == 1 && problems[0].contains("changes 3 to 4 are missing"), "{problems:?}");
    drop(store);
    for _ in 0..2 {
        let store = open();
        assert_eq!(store.loss().unwrap().to_string(), loss, "it is reported until it is accepted");
        assert_eq!(store.check().unwrap().problems, problems);
        store
            .append(
                &unleased(&id),
                vec![user(&format!("msg_{}", store.newest_change().unwrap().0), "x")],
                NOW,
            )
            .unwrap();
    }
    assert_eq!(SqliteStore::open_read_only(&path).unwrap().loss().unwrap().to_string(), loss);
    assert_eq!(open().accept_losses().unwrap(), 1);
    let store = open();
    assert_eq!((store.loss(), store.check().unwrap().problems), (None, Vec::new()));
    assert_eq!(store.accept_losses().unwrap(), 0);
    drop(store);
    // Another database in its place is not an older state of this one.
    for name in ["plimsoll.db", "plimsoll.db-wal", "plimsoll.db-shm"] {
        let _ = std::fs::remove_file(directory.path().join(name));
    }
    let new = open();
    assert_eq!((new.loss(), new.check().unwrap().problems), (None, Vec::new()));
}
