//! Leases: which process may write a session, and that no other can.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use plimsoll::{Message, Part, PartBody, SessionId, ToolState, ToolStatus};
use plimsoll_store::{
    Claim, Durability, Epoch, Leases, Logs, MemoryStore, NewSession, SessionPatch, SqliteStore, Store,
    StoreError,
};
use rstest::rstest;
use serde_json::json;

use super::{Fresh, NOW, begun, fresh, ids, millis, session, stopped_clock, unleased, user};

/// Runs a test on either store, with a clock that the test sets.
fn either(real: bool, test: impl FnOnce(&dyn Store, &dyn Fn(u64))) {
    if real {
        let store = fresh();
        test(&*store, &|after| store.at(after));
    } else {
        let (time, clock) = stopped_clock();
        let set = |after| time.store(NOW.0 + after, std::sync::atomic::Ordering::Relaxed);
        test(&MemoryStore::with_clock(clock), &set);
    }
}

fn open_call(id: &str) -> Part {
    Part::tool(id.into(), format!("call_{id}"), "bash", ToolState::pending(json!({ "command": "sleep" })))
}

#[rstest]
fn two_may_not_run_a_session_at_once(#[values(false, true)] real: bool) {
    either(real, |store, at| {
        let id = session(store, "ses_1");
        let mut asking = begun("msg_1", "let me see");
        asking.parts.push(open_call("prt_1"));
        store.append(&unleased(&id), vec![asking], NOW).unwrap();
        let one = store.lease(&id, "one", millis(100)).unwrap();
        assert_eq!((one.settled.calls, one.settled.answers), (1, 1));
        at(99);
        let error = store.lease(&id, "two", millis(100)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "session `ses_1` is being run by `one` until 2026-11-15 20:44:11 UTC, for 1 s more unless it is \
             renewed; wait, or stop it there"
        );
        store.renew(&one, millis(101)).unwrap();
        let mut asking = begun("msg_2", "let me se");
        asking.parts.push(open_call("prt_2"));
        store.append(&one.claim(), vec![asking], NOW).unwrap();
        at(199);
        assert!(store.lease(&id, "two", millis(100)).is_err(), "it was renewed");
        at(200);
        let taken = store.lease(&id, "two", millis(700)).unwrap();
        assert_eq!((taken.settled.calls, taken.settled.answers), (1, 1), "what it left is settled");
        assert_eq!(taken.taken_from, None, "it had run out");
        let part = store.part(&id, &"prt_2".into()).unwrap();
        let PartBody::Tool(tool) = &part.body else { panic!("no tool") };
        assert_eq!(tool.state.status, ToolStatus::Error);
        assert!(tool.state.error.as_ref().unwrap().starts_with("Interrupted:"));
        assert_eq!(tool.state.input.as_ref().unwrap().value(), &json!({ "command": "sleep" }));
        let answer = store.message(&id, &"msg_2".into()).unwrap();
        assert_eq!(answer.text(), "let me se", "what was said stays");
        assert_eq!(answer.info.error.clone().unwrap()["name"], "MessageAbortedError");
        store.release(&one).unwrap();
        at(300);
        assert!(store.lease(&id, "three", millis(100)).is_err(), "only the holder gives it back");
        store.release(&taken).unwrap();
        store.lease(&id, "three", millis(100)).unwrap();
    });
}

/// Every kind of write carries the epoch, and is refused once it has changed.
#[rstest]
fn a_former_holder_cannot_write(#[values(false, true)] real: bool) {
    either(real, |store, at| {
        let id = session(store, "ses_1");
        let first = store.lease(&id, "first", millis(100)).unwrap();
        store.append(&first.claim(), vec![begun("msg_1", "half")], NOW).unwrap();
        at(150);
        // It has expired, but was not taken over.
        store.append_part(&first.claim(), &"msg_1".into(), open_call("prt_1"), NOW).unwrap();
        let second = store.lease(&id, "second", millis(100)).unwrap();
        assert!(second.epoch > first.epoch);
        let before = store.window(&id).unwrap();
        let old = first.claim();
        let refused = [
            store.append(&old, vec![user("msg_2", "x")], NOW).unwrap_err(),
            store.append_part(&old, &"msg_1".into(), Part::text("prt_2".into(), "x"), NOW).unwrap_err(),
            store.advance(&old, Part::text("msg_1.1".into(), "half way"), NOW).unwrap_err(),
            store.finish(&old, &"msg_1".into(), "stop", None, NOW).unwrap_err(),
            store.reduce(&old, Default::default(), None, NOW).unwrap_err(),
            store.patch(&old, SessionPatch::default(), NOW).unwrap_err(),
            store.remove(&old, NOW).unwrap_err(),
            store.renew(&first, millis(100)).unwrap_err(),
            store.append(&unleased(&id), vec![user("msg_2", "x")], NOW).unwrap_err(),
        ];
        for error in refused {
            assert!(
                matches!(&error, StoreError::Fenced { held_by: Some(who), .. } if who == "second"),
                "{error}"
            );
        }
        assert_eq!(store.window(&id).unwrap(), before);
        store.append(&second.claim(), vec![user("msg_2", "on we go")], NOW).unwrap();
        store.release(&second).unwrap();
        let error = store.append(&second.claim(), vec![user("msg_3", "x")], NOW).unwrap_err();
        assert_eq!(
            error.to_string(),
            "session `ses_1` can no longer be written by this process: its lease was released"
        );
        let beyond = Claim { session: id, epoch: Epoch(99) };
        assert!(store.append(&beyond, vec![user("msg_3", "x")], NOW).is_err());
    });
}

#[rstest]
fn a_forced_take_over_names_the_former_holder(#[values(false, true)] real: bool) {
    either(real, |store, _| {
        let id = session(store, "ses_1");
        let first = store.lease(&id, "first", millis(100)).unwrap();
        let taken = store.break_lease(&id, "second", millis(100)).unwrap();
        assert_eq!(taken.taken_from.as_deref(), Some("first"));
        assert!(store.append(&first.claim(), vec![user("msg_1", "x")], NOW).is_err());
        store.append(&taken.claim(), vec![user("msg_1", "x")], NOW).unwrap();
    });
}

/// Two processes that find the same holder gone must not both get its session.
#[rstest]
fn a_lease_is_inherited_only_from_the_holder_that_was_found_gone(#[values(false, true)] real: bool) {
    either(real, |store, at| {
        let id = session(store, "ses_1");
        store.lease(&id, "gone", millis(100)).unwrap();
        let second = store.inherit_lease(&id, "second", millis(100), "gone").unwrap();
        assert_eq!(second.taken_from.as_deref(), Some("gone"));
        let late = store.inherit_lease(&id, "third", millis(100), "gone").unwrap_err();
        assert!(matches!(&late, StoreError::Leased { holder, .. } if holder == "second"), "{late}");
        store.append(&second.claim(), vec![user("msg_1", "mine")], NOW).unwrap();
        // An expired lease is free for any process.
        at(1_000);
        store.inherit_lease(&id, "third", millis(100), "gone").unwrap();
    });
}

#[rstest]
fn a_running_task_is_not_removed_with_its_parent(#[values(false, true)] real: bool) {
    either(real, |store, at| {
        let id = session(store, "ses_1");
        let task = NewSession { parent: Some(id.clone()), ..NewSession::new("ses_2".into()) };
        let task = store.create(task, NOW).unwrap().id;
        store.lease(&task, "its runner", millis(100)).unwrap();
        let error = store.remove(&unleased(&id), NOW).unwrap_err();
        assert!(error.to_string().starts_with("session `ses_2` is being run by `its runner`"), "{error}");
        assert!(store.session(&id).is_ok() && store.session(&task).is_ok());
        at(100);
        store.remove(&unleased(&id), NOW).unwrap();
        assert!(store.session(&task).is_err());
    });
}

const STOPPED: &str = "PLIMSOLL_STOPPED_HOLDER";
const HELD: Duration = Duration::from_millis(300);

/// The holder that will be stopped: writes as fast as it can, reports it, and ends when a write is refused.
#[test]
fn the_stopped_holder() {
    let Ok(path) = std::env::var(STOPPED) else { return };
    let store = SqliteStore::open(path, Durability::Process).unwrap();
    let lease = store.lease(&SessionId::new("ses_1"), "the stopped", HELD).unwrap();
    let mut out = std::io::stdout();
    for n in 0.. {
        let message = user(&format!("old_{n:06}"), "from the first holder");
        match store.append(&lease.claim(), vec![message], NOW) {
            Ok(()) => writeln!(out, "wrote {n}").unwrap(),
            Err(StoreError::Fenced { held_by, .. }) => {
                writeln!(out, "fenced by {}", held_by.unwrap_or_default()).unwrap();
                return;
            }
            Err(error) => panic!("{error}"),
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

fn signal(process: u32, name: &str) {
    let done = Command::new("kill").args([format!("-{name}"), process.to_string()]).status().unwrap();
    assert!(done.success());
}

/// A holder is stopped past its lease, another process takes over and writes, the first one continues: none of its
/// writes succeeds.
#[cfg(unix)]
#[test]
fn no_write_of_a_stopped_holder_succeeds() {
    let Fresh { store, directory, .. } = fresh();
    drop(store);
    let path = directory.path().join("plimsoll.db");
    let store = SqliteStore::open(&path, Durability::Process).unwrap();
    let id = session(&store, "ses_1");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "leases::the_stopped_holder", "--nocapture"])
        .env(STOPPED, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "wrote 20"), "the holder writes");
    // A process that is stopped in the middle of a transaction locks the database; it must continue before others can
    // write.
    let lease = loop {
        signal(child.id(), "STOP");
        std::thread::sleep(HELD + Duration::from_millis(50));
        match store.lease(&id, "the second", Duration::from_secs(60)) {
            Ok(lease) => break lease,
            Err(_) => signal(child.id(), "CONT"),
        }
        std::thread::sleep(Duration::from_millis(7));
    };
    let before = ids(&store.page(&id, &all()).unwrap().messages);
    store.append(&lease.claim(), vec![user("new_1", "from the second holder")], NOW).unwrap();
    signal(child.id(), "CONT");
    let found: Vec<String> = lines.filter(|line| line.starts_with("fenced")).collect();
    assert_eq!(found, ["fenced by the second"]);
    assert!(child.wait().unwrap().success());
    store.append(&lease.claim(), vec![user("new_2", "on we go")], NOW).unwrap();
    let after = ids(&store.page(&id, &all()).unwrap().messages);
    assert!(before.len() > 20 && before.iter().all(|id| id.starts_with("old_")));
    assert_eq!(after, [before, vec!["new_1".to_owned(), "new_2".to_owned()]].concat());
}

fn all() -> plimsoll_store::PageRequest {
    plimsoll_store::PageRequest { most: 1_000_000, oldest_first: true, from: None }
}

/// The text of an interrupted answer stays in the window.
#[test]
fn a_half_written_answer_stays_in_the_window() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    store.append(&unleased(&id), vec![user("msg_1", "go"), begun("msg_2", "I wi")], NOW).unwrap();
    store.lease(&id, "next", millis(10)).unwrap();
    let log = store.window(&id).unwrap();
    assert_eq!(log.iter().map(Message::text).collect::<Vec<_>>(), ["go", "I wi"]);
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

#[rstest]
fn unreleased_leases_are_listed_including_expired_ones(#[values(false, true)] real: bool) {
    either(real, |store, at| {
        let ids = ["ses_3", "ses_1", "ses_2"].map(|id| session(store, id));
        assert!(store.leases(None, 0).unwrap().is_empty());
        let leases = ids.each_ref().map(|id| store.lease(id, "one", millis(100)).unwrap());
        at(1_000);
        let named = |after: Option<&str>, most: u64| {
            let page = store.leases(after.map(SessionId::new).as_ref(), most).unwrap();
            page.into_iter().map(|lease| lease.session.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(named(None, 0), ["ses_1", "ses_2", "ses_3"]);
        assert_eq!(
            (named(None, 2), named(Some("ses_2"), 2)),
            (vec!["ses_1".into(), "ses_2".into()], vec!["ses_3".into()])
        );
        let first = store.leases(None, 1).unwrap().remove(0);
        assert_eq!((first.holder.as_str(), first.until), ("one", leases[1].until));
        store.release(&leases[0]).unwrap();
        store.remove(&leases[2].claim(), NOW).unwrap();
        assert_eq!(named(None, 0), ["ses_1"]);
    });
}
