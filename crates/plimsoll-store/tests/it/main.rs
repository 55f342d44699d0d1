//! The store, through its traits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod crash;
mod model;
mod sessions;

use plimsoll::{Message, Millis, Part, SessionId, Text, ToolState};
use plimsoll_store::{Durability, NewSession, SqliteStore, Store};
use serde_json::{Value, json};
use tempfile::TempDir;

const NOW: Millis = Millis(1_794_775_451_033);

/// A store in a directory of its own, which goes when it is dropped.
struct Fresh {
    store: SqliteStore,
    folder: TempDir,
}

impl std::ops::Deref for Fresh {
    type Target = SqliteStore;
    fn deref(&self) -> &SqliteStore {
        &self.store
    }
}

fn fresh() -> Fresh {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::open(folder.path().join("plimsoll.db"), Durability::Process).unwrap();
    Fresh { store, folder }
}

impl Fresh {
    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("plimsoll.db")
    }

    /// The same database, opened once more.
    fn again(&self) -> SqliteStore {
        SqliteStore::open(self.path(), Durability::Process).unwrap()
    }
}

fn session(store: &dyn Store, id: &str) -> SessionId {
    store.create(NewSession::new(SessionId::new(id)), NOW).unwrap().id
}

fn user(id: &str, text: &str) -> Message {
    Message::user(id.into(), format!("{id}.1").as_str().into(), text)
}

fn answer(id: &str, text: &str) -> Message {
    Message::assistant(id.into(), vec![Part::text(format!("{id}.1").as_str().into(), text)])
}

fn read(id: &str, output: impl Into<Text>) -> Message {
    let state = ToolState::completed(json!({ "path": "src/lib.rs" }), output);
    let part = Part::tool(format!("{id}.1").as_str().into(), format!("call_{id}"), "read", state);
    Message::assistant(id.into(), vec![part])
}

fn json_of(messages: &[Message]) -> Value {
    serde_json::to_value(messages).unwrap()
}

fn ids(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| message.info.id.to_string()).collect()
}
