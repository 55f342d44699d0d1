//! A check finds damage and names it, and reports nothing else.

use std::time::Duration;

use plimsoll::{Message, Millis, Part, ToolState};
use plimsoll_store::*;
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use super::super::search::compact;
use super::super::{NOW, answer, fresh, session, unleased, user};

#[test]
fn an_altered_text_is_found_by_its_checksum() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    store.append(&unleased(&id), vec![user("msg_1", "do not touch"), answer("msg_2", "no")], NOW).unwrap();
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
    for (change, undo) in [
        ("UPDATE part SET text = 'do not tauch' WHERE id = 'msg_1.1'", "do not touch"),
        ("UPDATE part SET text = NULL WHERE id = 'msg_1.1'", "do not touch"),
    ] {
        let connection = Connection::open(store.path()).unwrap();
        connection.execute_batch(change).unwrap();
        let problems = store.check().unwrap().problems;
        assert_eq!(problems, ["part `msg_1.1` of message `msg_1` is damaged: its checksum does not match"]);
        connection.execute("UPDATE part SET text = ?1 WHERE id = 'msg_1.1'", [undo]).unwrap();
    }
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

/// Parts of versions before 6 have no checksum. They are counted instead of being reported as sound.
#[test]
fn parts_without_a_checksum_are_counted() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    store.append(&unleased(&id), vec![user("msg_1", "old"), user("msg_2", "new")], NOW).unwrap();
    assert_eq!(store.check().unwrap().unverified, 0);
    let connection = Connection::open(store.path()).unwrap();
    connection.execute_batch("UPDATE part SET sum = NULL WHERE id = 'msg_1.1'").unwrap();
    let findings = store.check().unwrap();
    assert_eq!((findings.parts, findings.unverified, findings.problems.len()), (2, 1, 0));
    connection.execute_batch("UPDATE part SET data = '{' WHERE id = 'msg_1.1'").unwrap();
    let findings = store.check().unwrap();
    assert_eq!((findings.unverified, findings.problems.len()), (0, 1), "{:?}", findings.problems);
}

/// The connections of a long-running process have read an earlier state of the index; others have written to it since.
#[test]
fn a_long_running_process_reports_no_false_damage() {
    let store = fresh();
    let search = plimsoll_store::Search { pattern: "needle".into(), literal: true, ..Default::default() };
    let wanted = Selection { search: Some(search), ..Selection::default() };
    let sound = |when: &str| assert_eq!(store.check().unwrap().problems, Vec::<String>::new(), "{when}");
    let other = store.again();
    for round in 0..8 {
        let id = session(&*store, &format!("ses_{round}"));
        let texts = (0..40).map(|n| user(&format!("msg_{n:02}"), &super::noise(5, round * 100 + n)));
        store.append(&unleased(&id), texts.collect(), NOW).unwrap();
        compact(&*store, &id, round as usize, None);
        store.search(&id, &wanted).unwrap();
        sound("before it is indexed");
        let writer: &dyn Store = if round % 2 == 0 { &*other } else { &*store };
        assert!(writer.index().unwrap() > 0);
        sound("after another has indexed it");
        store.search(&id, &wanted).unwrap();
        if round % 3 == 2 {
            other.remove(&unleased(&format!("ses_{}", round - 1).as_str().into()), NOW).unwrap();
            sound("after another has removed some of it");
        }
    }
}

#[test]
fn a_check_names_a_session_with_an_open_call_of_a_dead_holder() {
    let directory = TempDir::new().unwrap();
    let time = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(NOW.0));
    let now = std::sync::Arc::clone(&time);
    let clock = Clock::new(move || Millis(now.load(std::sync::atomic::Ordering::SeqCst)));
    let path = directory.path().join("plimsoll.db");
    let store = SqliteStore::open_with_clock(&path, Durability::Process, clock).unwrap();
    let id = store.create(NewSession::new("ses_1".into()), NOW).unwrap().id;
    let lease = store.lease(&id, "host 7", Duration::from_millis(100)).unwrap();
    let call = Part::tool("prt_1".into(), "call_1", "bash", ToolState::pending(json!({})));
    store.append(&lease.claim(), vec![Message::assistant("msg_1".into(), vec![call])], NOW).unwrap();
    assert_eq!(store.check().unwrap().into_all(), Vec::<String>::new(), "it is being run");
    time.store(NOW.0 + 101, std::sync::atomic::Ordering::SeqCst);
    let findings = store.check().unwrap();
    assert_eq!(findings.problems, Vec::<String>::new(), "an interruption is not damage");
    let [call] = &findings.open_calls[..] else { panic!("{findings:?}") };
    assert!(call.starts_with("session `ses_1`: the call of bash in part `prt_1` waits"), "{call}");
    assert!(call.contains("`host 7`"), "{call}");
    store.lease(&id, "host 8", Duration::from_millis(100)).unwrap();
    assert_eq!(store.check().unwrap().into_all(), Vec::<String>::new(), "the next holder has settled it");
}
