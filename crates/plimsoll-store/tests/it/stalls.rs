//! Nothing holds the writer for long: large operations write few rows or use small transactions. Rows and transactions
//! are counted here; the benchmarks measure times.

use plimsoll::prune::{PruneItem, PrunePlan};
use plimsoll::{Message, Plan, Receipt, ReceiptId, Reduction, Tokens};
use plimsoll_store::{NewSession, Store};

use super::{Fresh, NOW, commits, fresh, read, session, unleased, user};

/// Number of rows of a table.
fn rows(store: &Fresh, table: &str) -> u64 {
    let connection = rusqlite::Connection::open(store.path()).unwrap();
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// Clears many tool outputs at once.
fn prune_many(store: &dyn Store, count: usize) -> Receipt {
    let id = session(store, "ses_1");
    let messages: Vec<Message> = (0..count).map(|n| read(&format!("msg_{n:06}"), "x")).collect();
    let item = |message: &Message| {
        PruneItem::output(message.parts[0].id.clone(), message.info.id.clone(), "read", Tokens(1))
    };
    let items = messages.iter().map(item).collect();
    store.append(&unleased(&id), messages, NOW).unwrap();
    let receipt =
        Receipt::new(ReceiptId::new("rcp_1"), NOW, Plan::Prune(PrunePlan::of(items)), (Tokens(2), Tokens(1)));
    let reduction = Reduction { receipts: vec![receipt.clone()], ..Reduction::default() };
    store.reduce(&unleased(&id), reduction, None, NOW).unwrap();
    receipt
}

fn cleared(store: &dyn Store, session: &str) -> usize {
    let log = store.window(&session.into()).unwrap().log;
    log.messages().iter().filter(|message| message.parts[0].cleared().is_some()).count()
}

/// 50,000 marks took 23.6 s when those of each part were looked up by time, and 8.1 s when each was lifted by a
/// separate row. A fork that was made before still has them.
#[test]
fn an_undo_writes_one_row_however_many_marks_it_lifts() {
    let store = fresh();
    let receipt = prune_many(&*store, 3_000);
    store.fork(&"ses_1".into(), None, NewSession::new("ses_2".into()), NOW).unwrap();
    assert_eq!((cleared(&*store, "ses_1"), rows(&store, "mark")), (3_000, 3_000));
    let undone = store.undo(&unleased(&"ses_1".into()), &receipt.id, NOW).unwrap();
    assert_eq!(rows(&store, "mark"), 3_001, "one row for all of them");
    assert_eq!((cleared(&*store, "ses_1"), cleared(&*store, "ses_2")), (0, 3_000));
    let part = store.part(&"ses_1".into(), &"msg_000007.1".into()).unwrap();
    assert_eq!(part.marks[0].lifted.as_ref().unwrap().1, undone.id);
    store.fork(&"ses_1".into(), None, NewSession::new("ses_3".into()), NOW).unwrap();
    assert_eq!(cleared(&*store, "ses_3"), 0);
    let again = store.undo(&unleased(&"ses_1".into()), &receipt.id, NOW).unwrap_err();
    assert!(again.to_string().contains("undone"), "{again}");
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

fn empty_log(store: &Fresh) {
    let connection = rusqlite::Connection::open(store.path()).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

/// A large session is removed in small transactions, and its id is free at once.
#[test]
fn a_large_session_is_removed_in_steps() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    let messages = (0..2_500).map(|n| user(&format!("msg_{n:06}"), "x")).collect();
    store.append(&unleased(&id), messages, NOW).unwrap();
    let small = session(&*store, "ses_2");
    empty_log(&store);
    store.remove(&unleased(&small), NOW).unwrap();
    assert_eq!(commits(&store.path()), 1);
    store.remove(&unleased(&id), NOW).unwrap();
    assert!(commits(&store.path()) >= 6, "5,000 rows, 1,000 in each step");
    for table in ["session", "message", "part", "searched"] {
        assert_eq!(rows(&store, table), 0, "{table}");
    }
}

/// A process that dies while it removes a session leaves rows that no query returns; a sweep deletes them.
#[test]
fn an_interrupted_removal_is_finished() {
    let store = fresh();
    for name in ["ses_1", "ses_2", "ses_3"] {
        let id = session(&*store, name);
        store.append(&unleased(&id), vec![user(&format!("msg_{name}"), "x")], NOW).unwrap();
    }
    store.fork(&"ses_2".into(), None, NewSession::new("ses_4".into()), NOW).unwrap();
    let connection = rusqlite::Connection::open(store.path()).unwrap();
    let cut_off = "UPDATE session SET removed = 1, sum = NULL WHERE id IN ('ses_1', 'ses_2')";
    connection.execute_batch(cut_off).unwrap();
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
    assert_eq!(store.finish_removals().unwrap(), 1, "a fork needs the other");
    assert_eq!((rows(&store, "session"), store.finish_removals().unwrap()), (3, 0));
    assert_eq!(store.window(&"ses_4".into()).unwrap().log.messages().len(), 1);
    session(&*store, "ses_1");
}
