//! The store, through its traits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod content;
mod counts;
mod crash;
mod extremes;
mod faults;
mod feed;
mod forks;
mod imports;
mod leases;
mod model;
mod requirements;
mod search;
mod sessions;
mod stalls;
mod tasks;
mod together;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll::{Message, Millis, Part, SessionId, Text, ToolState};
use plimsoll_store::{Claim, Clock, Durability, NewSession, SqliteStore, Store};
use serde_json::{Value, json};
use tempfile::TempDir;

const NOW: Millis = Millis(1_794_775_451_033);

/// A store in a temporary directory, which is deleted when it is dropped.
struct Fresh {
    store: SqliteStore,
    directory: TempDir,
    time: Arc<AtomicU64>,
}

impl std::ops::Deref for Fresh {
    type Target = dyn Store + 'static;
    fn deref(&self) -> &(dyn Store + 'static) {
        &self.store
    }
}

fn fresh() -> Fresh {
    let directory = TempDir::new().unwrap();
    let (time, clock) = stopped_clock();
    let path = directory.path().join("plimsoll.db");
    let store = SqliteStore::open_with_clock(path, Durability::Process, clock).unwrap();
    Fresh { store, directory, time }
}

/// A clock that shows [`NOW`] until it is set.
fn stopped_clock() -> (Arc<AtomicU64>, Clock) {
    let time = Arc::new(AtomicU64::new(NOW.0));
    let shown = Arc::clone(&time);
    (time, Clock::new(move || Millis(shown.load(Ordering::Relaxed))))
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

impl Fresh {
    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("plimsoll.db")
    }

    /// Sets the store's clock to a time after [`NOW`].
    fn at(&self, after: u64) {
        self.time.store(NOW.0 + after, Ordering::Relaxed);
    }

    fn clock(&self) -> Clock {
        let time = Arc::clone(&self.time);
        Clock::new(move || Millis(time.load(Ordering::Relaxed)))
    }

    /// Opens the same database once more.
    fn again(&self) -> Box<dyn Store> {
        Box::new(SqliteStore::open_with_clock(self.path(), Durability::Process, self.clock()).unwrap())
    }
}

fn session(store: &dyn Store, id: &str) -> SessionId {
    store.create(NewSession::new(SessionId::new(id)), NOW).unwrap().id
}

/// The claim on a session that is never leased.
fn unleased(session: &SessionId) -> Claim {
    Claim::unleased(session)
}

fn user(id: &str, text: &str) -> Message {
    Message::user(id.into(), format!("{id}.1").as_str().into(), text)
}

fn answer(id: &str, text: &str) -> Message {
    Message::assistant(id.into(), vec![Part::text(format!("{id}.1").as_str().into(), text)])
}

/// An answer that is still being written.
fn begun(id: &str, text: &str) -> Message {
    let parts = vec![Part::text(format!("{id}.1").as_str().into(), text)];
    Message { parts: parts.into(), ..Message::begun(id.into(), NOW) }
}

fn read(id: &str, output: impl Into<Text>) -> Message {
    let state = ToolState::completed(json!({ "path": "src/lib.rs" }), output);
    let part = Part::tool(format!("{id}.1").as_str().into(), format!("call_{id}"), "read", state);
    Message::assistant(id.into(), vec![part])
}

fn json_of(messages: &[Message]) -> Value {
    serde_json::to_value(messages).unwrap()
}

/// The spilled outputs below a directory, as files.
fn blobs(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        match path.extension().is_some_and(|ending| ending == "zst") {
            true => found.push(path),
            false => found.extend(blobs(&path)),
        }
    }
    found.sort();
    found
}

/// The record of a spilled output.
fn spill(store: &dyn Store, handle: &str) -> plimsoll_store::SpillRecord {
    let found = store.find_handles(plimsoll_store::Scope::Everywhere, handle, 1).unwrap();
    match found.into_iter().next().unwrap().target {
        plimsoll_store::HandleTarget::Spill(spill) => *spill,
        other => panic!("{other:?}"),
    }
}

fn ids(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| message.info.id.to_string()).collect()
}

/// Number of transactions in the write-ahead log of a database.
fn commits(database: &std::path::Path) -> usize {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    let log = std::fs::read(name).unwrap();
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    if log.len() < 32 {
        return 0;
    }
    let (page, salts) = (number(&log[8..12]) as usize, &log[16..24]);
    // Frames with another salt are from before the log was restarted. The last frame of a transaction contains the size
    // of the database.
    let frames = log[32..].chunks_exact(24 + page).take_while(|frame| frame[8..16] == *salts);
    frames.filter(|frame| number(&frame[4..8]) != 0).count()
}
