//! Removing sessions: the cost depends on what is removed, and the space is returned to the file system.

use std::path::Path;

use plimsoll::{Policy, SessionId};
use plimsoll_store::{Archive, Search, Selection, Store, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

use super::super::search::compact;
use super::super::{NOW, fresh, millis, session, unleased, user};
use super::{noise, open};

/// A session with indexed messages.
fn indexed(store: &dyn Store, name: &str, count: u64) -> SessionId {
    let id = session(store, name);
    let seed = u64::from(name.as_bytes()[name.len() - 1]) * 100_000;
    let text = |n: u64| user(&format!("{name}_{n:06}"), &noise(2, seed + n));
    for from in (0..count).step_by(500) {
        store.append(&unleased(&id), (from..count.min(from + 500)).map(text).collect(), NOW).unwrap();
    }
    compact(store, &id, 1, None);
    store.index().unwrap();
    id
}

fn number(database: &Path, sql: &str) -> u64 {
    Connection::open(database).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

fn found(store: &dyn Store, session: &SessionId, pattern: &str) -> usize {
    let search = Search { pattern: pattern.into(), literal: true, ..Search::default() };
    store.search(session, &Selection { search: Some(search), ..Selection::default() }).unwrap().len()
}

/// Number of bytes that a removal writes, next to a larger session.
fn written(count: u64) -> u64 {
    let store = fresh();
    let kept = indexed(&*store, "ses_1", count * 2);
    let removed = indexed(&*store, "ses_2", count);
    let connection = Connection::open(store.path()).unwrap();
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap_or_default();
    // An open reader keeps the log from being folded in.
    let reader = Connection::open(store.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM session").unwrap();
    store.remove(&unleased(&removed), NOW).unwrap();
    let log = std::fs::metadata(store.directory.path().join("plimsoll.db-wal")).unwrap().len();
    let needle = &noise(2, u64::from(b'1') * 100_000)[..20];
    assert_eq!(found(&*store, &kept, needle), 1, "what is left is found");
    assert_eq!(number(&store.path(), "SELECT count(*) FROM search_docsize"), count * 2);
    log
}

#[test]
fn a_sweep_leaves_the_newest_changes_in_the_feed() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("one.db");
    let archive = open(&path);
    session(archive.store(), "ses_1");
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 105000)
             INSERT INTO change (session, revision, kind) SELECT 'ses_1', 1, 'noted' FROM n",
        )
        .unwrap();
    let newest = archive.store().newest_change().unwrap();
    archive.sweep(NOW).unwrap();
    assert_eq!(number(&path, "SELECT count(*) FROM change"), 100_000);
    assert_eq!(archive.store().newest_change().unwrap(), newest);
}

#[test]
fn the_cost_of_removing_an_indexed_session_is_linear() {
    let (small, large) = (written(1_000), written(4_000));
    assert!(large < small * 6, "{small} bytes for 1,000 messages, {large} for 4,000");
}

#[test]
fn the_index_is_rebuilt_when_its_largest_session_is_removed() {
    let store = fresh();
    let (large, small) = (indexed(&*store, "ses_1", 900), indexed(&*store, "ses_2", 100));
    let needle = &noise(2, u64::from(b'2') * 100_000)[..20];
    store.remove(&unleased(&large), NOW).unwrap();
    let documents = "SELECT count(*) FROM search_docsize";
    assert_eq!(number(&store.path(), documents), 0);
    assert_eq!(found(&*store, &small, needle), 1, "without the index");
    assert_eq!(store.index().unwrap(), 100);
    assert_eq!((number(&store.path(), documents), found(&*store, &small, needle)), (100, 1));
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

#[test]
fn deleted_rows_of_the_index_are_merged_away() {
    let store = fresh();
    let kept = indexed(&*store, "ses_1", 1_200);
    let removed = indexed(&*store, "ses_2", 1_000);
    let size = || number(&store.path(), "SELECT sum(length(block)) FROM search_data");
    let before = size();
    store.remove(&unleased(&removed), NOW).unwrap();
    assert!(size() > before * 9 / 10, "deleting it merges nothing");
    store.give_back().unwrap();
    assert!(size() < before * 2 / 3, "{before} bytes before, {} after", size());
    let needle = &noise(2, u64::from(b'1') * 100_000)[..20];
    assert_eq!(found(&*store, &kept, needle), 1);
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

/// Size of the database and the files next to it.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let is_database = |name: &str| name.starts_with("plimsoll.db") && !name.ends_with(".bak");
    let ours = entries.filter(|entry| is_database(&entry.file_name().to_string_lossy()));
    ours.map(|entry| entry.metadata().unwrap().len()).sum()
}

#[test]
fn a_removed_session_returns_its_space() {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let empty = size(directory.path());
    let id = indexed(archive.store(), "ses_1", 5_000);
    indexed(archive.store(), "ses_2", 10);
    let full = size(directory.path());
    archive.remove(&unleased(&id), NOW).unwrap();
    let left = size(directory.path());
    assert!(full > empty + 5_000_000 && left < empty + 2_000_000, "{empty}, {full} and then {left} bytes");
    assert_eq!(archive.check().unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_database_of_an_earlier_version_is_rewritten_when_it_pays_and_nothing_runs() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plimsoll.db");
    plimsoll_store::database_of_version(&path, 9).unwrap();
    let archive = Archive::open(&path, &Policy::default(), Default::default()).unwrap();
    let (id, kept) = (indexed(archive.store(), "ses_1", 3_000), indexed(archive.store(), "ses_2", 10));
    archive.remove(&unleased(&id), NOW).unwrap();
    let full = size(directory.path());
    let lease = archive.store().lease(&kept, "another process", millis(60_000)).unwrap();
    assert_eq!(archive.sweep(NOW).unwrap().freed, 0, "a session is being run");
    archive.store().release(&lease).unwrap();
    let freed = archive.sweep(NOW).unwrap().freed;
    assert!(freed > 1_000_000 && size(directory.path()) < full / 2, "{freed} of {full} bytes");
    let is_incremental = "PRAGMA auto_vacuum";
    assert_eq!(number(&path, is_incremental), 2, "from now on it shrinks step by step");
    assert_eq!(archive.check().unwrap().problems, Vec::<String>::new());
    assert!(matches!(archive.store().session(&id), Err(StoreError::Missing { .. })));
}
