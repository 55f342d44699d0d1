//! Tests that long work of a driver obeys a flag that is set while it runs.

use std::sync::Arc;

use plimsoll::pin::PinTarget;
use plimsoll::prune::PruneChoice;
use plimsoll::recall::RecallQuery;
use plimsoll::{Limits, Millis, Policy, ReceiptId, work};
use plimsoll_store::{Archive, Directory, Durability, NewSession, SqliteStore, StoreError};
use plimsoll_testkit::History;
use serde_json::json;

use super::{Driver, Pruned};
use crate::error::SessionError;
use crate::settings::SessionModel;
use crate::stop::StopFlag;

/// Bytes of the session's outputs.
const SIZE: u64 = 40 * 200 * 24;

/// A session whose outputs are cleared by any prune, and one of them spilled.
fn driver(directory: &tempfile::TempDir) -> Driver {
    let store = SqliteStore::open(directory.path().join("plimsoll.db"), Durability::Process).unwrap();
    let spills = Directory::new(directory.path().join("spill"), "test");
    let archive = Arc::new(Archive::new(Box::new(store), Ok(Arc::new(spills))));
    let output =
        |turn: usize| -> String { (0..200).map(|n| format!("src/part_{turn}_{n}.rs: done\n")).collect() };
    let turn =
        |history: History, turn: usize| history.user(format!("Read part {turn}")).tool("read", output(turn));
    let history = (0..40).fold(History::new(), turn).say("All read.").user("And now?");
    let new = NewSession { messages: history.messages(), ..NewSession::new("ses_1".into()) };
    let id = archive.store().create(new, Millis(1)).unwrap().id;
    let mut spec = Policy::default().into_spec();
    (spec.prune.protect_tokens, spec.prune.min_tokens) = (plimsoll::Tokens(0), plimsoll::Tokens(0));
    let builder = Driver::builder(archive).policy(Policy::new(spec).unwrap()).session(id);
    let model = SessionModel::new("some-model").limits(Limits::new(1_000_000, 4_000));
    builder.model(model).open_blocking().unwrap()
}

fn prune_a_few(driver: &mut Driver) -> ReceiptId {
    let choice = PruneChoice { tools: vec!["read".into()], keep: Some(36), ..PruneChoice::default() };
    let Pruned::Done(receipt) = driver.prune_choice(&choice, "test").unwrap() else {
        panic!("nothing pruned")
    };
    receipt.id
}

type Act = fn(&mut Driver, &ReceiptId) -> Result<(), SessionError>;

const ACTS: [(&str, Act); 7] = [
    ("prune", |driver, _| driver.prune("test").map(drop)),
    ("prune a choice", |driver, _| {
        let choice = PruneChoice { tools: vec!["read".into()], ..PruneChoice::default() };
        driver.prune_choice(&choice, "test").map(drop)
    }),
    ("inspect", |driver, _| driver.inspect().map(drop)),
    ("search", |driver, _| {
        let query = RecallQuery::parse(&json!({ "search": "part_1_7" })).unwrap();
        driver.recall(&query).map(drop)
    }),
    ("recall", |driver, _| {
        let part = driver.log()[1].parts[0].id.clone();
        driver.recall(&RecallQuery::parse(&json!({ "handle": part })).unwrap()).map(drop)
    }),
    ("undo", |driver, receipt| driver.undo(receipt).map(drop)),
    ("pin", |driver, _| driver.pin(&PinTarget::Words("part_39_7".into())).map(drop)),
];

/// A search, an undo or a view of the window kept the session's thread busy for seconds after the caller had given up.
#[test]
fn work_that_is_stopped_reads_little_and_changes_nothing() {
    for (what, act) in ACTS {
        let directory = tempfile::tempdir().unwrap();
        let mut driver = driver(&directory);
        let receipt = prune_a_few(&mut driver);
        let stored = |driver: &Driver| driver.archive().store().window(driver.session()).unwrap().log;
        let before = stored(&driver);
        let stop = StopFlag::default();
        stop.stop();
        let begun = work::bytes_read();
        let stopped = driver.with_stop_flag(&stop, |driver| act(driver, &receipt)).unwrap_err();
        let read = work::bytes_read() - begun;
        let is_stopped = matches!(stopped, SessionError::Stopped | SessionError::Store(StoreError::Stopped));
        assert!(is_stopped, "{what}: {stopped}");
        assert!(stored(&driver) == before && *driver.log() == before, "{what} changed the session");
        // Lengths and words are looked up in each text; names, secrets and tokens are not.
        assert!(read < 4 * SIZE, "{what}: {read} bytes of {SIZE} were read");
        act(&mut driver, &receipt).unwrap();
    }
}

#[test]
fn names_of_a_prune_are_most_of_its_work() {
    let directory = tempfile::tempdir().unwrap();
    let mut driver = driver(&directory);
    let begun = work::bytes_read();
    driver.prune("test").unwrap();
    let read = work::bytes_read() - begun;
    assert!(read > 8 * SIZE, "{read} bytes of {SIZE} were read: what is stopped costs too little to test it");
}
