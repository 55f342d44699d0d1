//! Concurrency of threads and processes.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plimsoll::{Message, Millis, Part, SessionId, ToolState};
use plimsoll_store::*;
use rusqlite::Connection;
use serde_json::json;

use super::{NOW, commits, fresh, ids, session, unleased, user};

const EACH: usize = 60;

fn name(n: usize) -> String {
    format!("msg_{n:04}")
}

/// A message of two parts, which shows whether all of it was read.
fn double(n: usize) -> Message {
    let text = format!("words of {n}");
    let state = ToolState::completed(json!({ "n": n }), format!("output {n}\n").repeat(50));
    let id = name(n);
    let call = Part::tool(format!("{id}.2").as_str().into(), format!("call_{n}"), "read", state);
    let words = Part::text(format!("{id}.1").as_str().into(), text);
    Message::assistant(id.as_str().into(), vec![words, call])
}

/// Checks that the messages are a beginning of what was written, complete and in order. Returns their number.
fn whole_prefix(messages: &[Message]) -> usize {
    for (n, message) in messages.iter().enumerate() {
        assert_eq!(message.info.id.as_str(), name(n));
        assert_eq!(message, &double(n));
    }
    messages.len()
}

#[test]
fn eight_write_and_eight_read() {
    let store = fresh();
    let sessions: Vec<SessionId> = (0..8).map(|n| session(&*store, &format!("ses_{n}"))).collect();
    let acknowledged: Vec<AtomicUsize> = (0..8).map(|_| AtomicUsize::new(0)).collect();
    let done = AtomicBool::new(false);
    // Half of the readers open the store again, as another process would.
    let other = store.again();
    let looks: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|n| {
                let (store, sessions, acknowledged) = (&store, &sessions, &acknowledged);
                scope.spawn(move || {
                    for at in 0..EACH {
                        let now = Millis(NOW.0 + at as u64);
                        store.append(&unleased(&sessions[n]), vec![double(at)], now).unwrap();
                        acknowledged[n].store(at + 1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..8)
            .map(|n| {
                let (sessions, acknowledged, done) = (&sessions, &acknowledged, &done);
                let store: &dyn Store = if n % 2 == 0 { &store.store } else { &*other };
                scope.spawn(move || {
                    let mut looks = 0;
                    while !done.load(Ordering::SeqCst) || looks == 0 {
                        let at = (n + looks) % 8;
                        let acknowledged_count = acknowledged[at].load(Ordering::SeqCst);
                        let window = store.window(&sessions[at]).unwrap();
                        let seen = whole_prefix(&window);
                        assert!(
                            seen >= acknowledged_count,
                            "{seen} of {acknowledged_count} acknowledged messages"
                        );
                        let request = PageRequest { most: 10_000, oldest_first: true, from: None };
                        let page = store.page(&sessions[at], &request).unwrap();
                        assert!(whole_prefix(&page.messages) >= seen, "time does not go back");
                        assert!(store.session(&sessions[at]).unwrap().messages >= seen as u64);
                        looks += 1;
                    }
                    looks
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::SeqCst);
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    assert!(looks >= 8);
    for session in &sessions {
        assert_eq!(whole_prefix(&store.window(session).unwrap()), EACH);
    }
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

/// While another process holds the database, changes queue up; they then share a transaction.
#[test]
fn changes_that_wait_share_a_transaction() {
    let store = fresh();
    let sessions: Vec<SessionId> = (0..16).map(|n| session(&*store, &format!("ses_{n:02}"))).collect();
    let before = commits(&store.path());
    let blocker = Connection::open(store.path()).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let sent = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for session in &sessions {
            let (store, sent) = (&store, &sent);
            scope.spawn(move || {
                sent.fetch_add(1, Ordering::SeqCst);
                store.append(&unleased(session), vec![user("msg_1", "hello")], NOW).unwrap();
            });
        }
        while sent.load(Ordering::SeqCst) < sessions.len() {
            std::thread::yield_now();
        }
        // Only a few instructions remain until each of them is queued.
        std::thread::sleep(Duration::from_millis(100));
        blocker.execute_batch("ROLLBACK").unwrap();
    });
    let made = commits(&store.path()) - before;
    assert!(made < sessions.len(), "{made} transactions for {} changes", sessions.len());
    sessions.iter().for_each(|session| assert_eq!(ids(&store.window(session).unwrap()), ["msg_1"]));
}

/// A refused change does not affect its neighbours, and each caller gets its own result.
#[test]
fn a_refused_change_does_not_undo_its_neighbours() {
    let store = fresh();
    let sessions: Vec<SessionId> = (0..8).map(|n| session(&*store, &format!("ses_{n}"))).collect();
    std::thread::scope(|scope| {
        for session in &sessions {
            let store = &store;
            scope.spawn(move || {
                for at in 0..EACH {
                    store.append(&unleased(session), vec![double(at)], NOW).unwrap();
                    // The second message is refused after the first was written; both must be rolled back.
                    let bad = vec![user(&format!("bad_{at}"), "x"), double(at)];
                    let error = store.append(&unleased(session), bad, NOW).unwrap_err();
                    assert!(
                        error.to_string().contains(&format!("message `{}` already exists", name(at))),
                        "{error}"
                    );
                }
            });
        }
    });
    for session in &sessions {
        assert_eq!(whole_prefix(&store.window(session).unwrap()), EACH);
        assert_eq!(store.session(session).unwrap().messages, EACH as u64);
    }
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

const NEIGHBOUR: &str = "PLIMSOLL_NEIGHBOUR";

/// Runs in the other process; does nothing unless it was started as one.
#[test]
fn the_neighbour() {
    let Ok(path) = std::env::var(NEIGHBOUR) else { return };
    let store = SqliteStore::open(&path, Durability::Process).unwrap();
    let id = SessionId::new("ses_theirs");
    store.create(NewSession::new(id.clone()), NOW).unwrap();
    let claim = store.lease(&id, "neighbour", Duration::from_secs(600)).unwrap().claim();
    for at in 0..EACH * 4 {
        store.append(&claim, vec![double(at)], NOW).unwrap();
    }
    // Until the other process has seen that the session is taken.
    let begun = Instant::now();
    while store.session(&SessionId::new("ses_go")).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no start signal");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn two_processes_share_a_database_but_not_a_session() {
    let store = fresh();
    let ours = session(&*store, "ses_ours");
    let theirs = SessionId::new("ses_theirs");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "together::the_neighbour", "--nocapture"])
        .env(NEIGHBOUR, store.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let mut lengths = BTreeSet::new();
    let mut written = 0;
    while lengths.last() != Some(&(EACH * 4)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the other does nothing: {lengths:?}");
        if written < EACH {
            store.append(&unleased(&ours), vec![double(written)], NOW).unwrap();
            written += 1;
        }
        match store.window(&theirs) {
            Ok(window) => drop(lengths.insert(whole_prefix(&window))),
            Err(error) => assert!(matches!(error, StoreError::Missing { .. }), "{error}"),
        }
    }
    let error = store.lease(&theirs, "us", Duration::from_secs(600)).unwrap_err();
    assert!(error.to_string().starts_with("session `ses_theirs` is being run by `neighbour`"), "{error}");
    session(&*store, "ses_go");
    assert!(child.wait().unwrap().success());
    assert_eq!(whole_prefix(&store.window(&ours).unwrap()), written);
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

/// All callers in the queue wait for a busy database at the same time, not one after the other.
#[test]
fn a_busy_database_is_waited_for_once() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    let other = Connection::open(store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..4)
            .map(|n| {
                let (store, id) = (&store, &id);
                scope.spawn(move || store.append(&unleased(id), vec![user(&name(n), "x")], NOW).unwrap_err())
            })
            .collect();
        for thread in waiting {
            let error = thread.join().unwrap();
            assert!(matches!(error, StoreError::Busy { .. }), "{error}");
            let source = std::error::Error::source(&error).map(ToString::to_string);
            assert_eq!(source.as_deref(), Some("database is locked"));
        }
    });
    let waited = begun.elapsed();
    // One after the other they would wait for 40 s; the range leaves room for a loaded machine.
    assert!(waited >= Duration::from_secs(10) && waited < Duration::from_secs(20), "{waited:?}");
    other.execute_batch("ROLLBACK").unwrap();
    store.append(&unleased(&id), vec![user("msg_1", "x")], NOW).unwrap();
    assert_eq!(ids(&store.window(&id).unwrap()), ["msg_1"]);
}

/// Of 200 writers one made 574 appends while another made 7. They start together and continue until there is something
/// to compare, so that neither starting threads nor a loaded machine decides.
#[test]
fn writers_share_commits_fairly() {
    const WRITERS: usize = 200;
    const APPENDS: usize = WRITERS * 25;
    let store = fresh();
    let sessions: Vec<_> = (0..WRITERS).map(|n| session(&*store, &format!("ses_{n:03}"))).collect();
    let done: Vec<AtomicUsize> = (0..WRITERS).map(|_| AtomicUsize::new(0)).collect();
    let (begin, all) = (Barrier::new(WRITERS), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for n in 0..WRITERS {
            let (store, id, done, begin, all) = (&store, &sessions[n], &done[n], &begin, &all);
            scope.spawn(move || {
                begin.wait();
                while all.load(Ordering::Relaxed) < APPENDS {
                    let at = done.load(Ordering::Relaxed);
                    store.append(&unleased(id), vec![user(&name(at), "x")], NOW).unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                    all.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let counts: Vec<usize> = done.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    println!("{WRITERS} writers made {} appends, from {least} to {most} each", counts.iter().sum::<usize>());
    assert!(*most <= least * 2 + 5, "from {least} to {most}");
}
