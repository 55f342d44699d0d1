//! Finding, opening and importing sessions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod export;
mod find;
mod import;
mod together;
mod weigh;

use std::hash::{BuildHasher, RandomState};
use std::io::Cursor;
use std::path::Path;

use plimsoll::{Ids, Message, Millis, SessionId};
use plimsoll_import::{ImportError, ImportOptions, Report, Source, Survey};
use plimsoll_store::{Durability, PageRequest, SqliteStore, Store};
use serde_json::{Value, json};
use tempfile::TempDir;

const NOW: Millis = Millis(1_794_775_451_033);
const SESSION: &str = "5d0c31aa-1111-2222-3333-444444444444";

/// A store in a temporary directory, which is deleted when it is dropped.
struct Fresh {
    store: SqliteStore,
    directory: TempDir,
}

impl std::ops::Deref for Fresh {
    type Target = dyn Store + 'static;
    fn deref(&self) -> &(dyn Store + 'static) {
        &self.store
    }
}

fn fresh() -> Fresh {
    let directory = TempDir::new().unwrap();
    let store = database(directory.path());
    Fresh { store, directory }
}

fn database(directory: &Path) -> SqliteStore {
    SqliteStore::open(directory.join("plimsoll.db"), Durability::Process).unwrap()
}

fn ids() -> Ids {
    Ids::new(|| RandomState::new().hash_one(()))
}

/// Imports a text, as from standard input.
fn import(store: &dyn Store, text: &str) -> Result<Report, ImportError> {
    import_with(store, text, &ImportOptions { now: NOW, ..ImportOptions::default() })
}

fn import_with(store: &dyn Store, text: &str, options: &ImportOptions<'_>) -> Result<Report, ImportError> {
    let mut source = Source::Stream(Box::new(Cursor::new(text.to_owned())));
    let survey = Survey::of(&mut source, &|_| {})?;
    survey.import(&mut source, store, &mut ids(), options, &|_| {})
}

/// Imports a file.
fn import_file(store: &dyn Store, path: &Path) -> Result<Report, ImportError> {
    let mut source = Source::File(std::fs::File::open(path).unwrap());
    let survey = Survey::of(&mut source, &|_| {})?;
    let options = ImportOptions { now: NOW, origin: Some(path), ..ImportOptions::default() };
    survey.import(&mut source, store, &mut ids(), &options, &|_| {})
}

fn all(store: &dyn Store, id: &SessionId) -> Vec<Message> {
    let request = PageRequest { from: None, oldest_first: true, most: 100_000 };
    store.page(id, &request).unwrap().messages
}

fn texts(store: &dyn Store, id: &SessionId) -> Vec<String> {
    all(store, id).iter().map(Message::text).collect()
}

/// Claude Code's transcript of a session, written line by line.
#[derive(Clone, Default)]
struct Claude {
    lines: Vec<Value>,
}

impl Claude {
    fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn record(mut self, kind: &str, message: &Value) -> Claude {
        let uuid = |place: usize| json!(format!("aaaaaaaa-0000-0000-0000-{place:012}"));
        let (own, parent) = (self.lines.len() + 1, self.lines.len());
        let parent = if parent == 0 { Value::Null } else { uuid(parent) };
        self.lines.push(json!({ "type": kind, "uuid": uuid(own), "parentUuid": parent, "sessionId": SESSION,
            "isSidechain": false, "cwd": "/home/ada/place", "timestamp": "2026-05-02T09:18:37.730Z",
            "message": message }));
        self
    }

    fn user(self, words: &str) -> Claude {
        self.record("user", &json!({ "role": "user", "content": words }))
    }

    /// A block of the answer `id`.
    fn block(self, id: &str, block: &Value) -> Claude {
        let message = json!({ "id": id, "role": "assistant", "model": "model-1", "content": [block],
            "usage": { "input_tokens": 10, "output_tokens": 5 } });
        self.record("assistant", &message)
    }

    fn says(self, id: &str, words: &str) -> Claude {
        self.block(id, &json!({ "type": "text", "text": words }))
    }

    fn calls(self, id: &str, call: &str) -> Claude {
        self.block(id, &json!({ "type": "tool_use", "id": call, "name": "Read", "input": { "path": "a" } }))
    }

    fn result(self, call: &str, output: &str) -> Claude {
        let block = json!({ "type": "tool_result", "tool_use_id": call, "content": output });
        self.record("user", &json!({ "role": "user", "content": [block] }))
    }

    /// A message of a sub-agent.
    fn aside(mut self, number: usize, words: &str) -> Claude {
        let uuid = format!("bbbbbbbb-0000-0000-{number:04}-000000000001");
        self.lines.push(json!({ "type": "user", "uuid": uuid, "parentUuid": null, "sessionId": SESSION,
            "isSidechain": true, "cwd": "/home/ada/place", "timestamp": "2026-05-02T09:18:38.730Z",
            "message": { "role": "user", "content": words } }));
        self
    }
}
