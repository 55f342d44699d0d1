//! Tests with real sessions, if available: `PLIMSOLL_CORPUS` is a directory of OpenCode message lists or exports.
//!
//! Real sessions are not part of the project, so other tests do not need them.

#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;

use plimsoll::fork::fork;
use plimsoll::{Message, Policy, Preset, Window};
use serde_json::Value;

fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for root in std::env::var("PLIMSOLL_CORPUS").unwrap_or_default().split(':') {
        let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
        found.extend(
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "json")),
        );
    }
    found.sort();
    found
}

#[test]
#[ignore = "needs a directory of sessions in PLIMSOLL_CORPUS"]
fn corpus_sessions_round_trip_and_make_legal_windows() {
    let mut read = 0;
    for file in files() {
        let json = std::fs::read_to_string(&file).unwrap();
        let value: Value = serde_json::from_str(&json).unwrap();
        let list = value.get("messages").unwrap_or(&value);
        let is_session = list.as_array().is_some_and(|l| l.first().is_some_and(|m| m.get("info").is_some()));
        if !is_session {
            continue;
        }
        let messages = Message::read_all(&json).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(&serde_json::to_value(&messages).unwrap(), list, "{}", file.display());
        for preset in Preset::ALL {
            Window::of(&messages, &preset.policy()).check().unwrap();
        }
        let stats = fork(&messages, &Policy::default().fork).stats;
        println!("{}: {} messages, digest {} chars", file.display(), messages.len(), stats.total_chars);
        read += 1;
    }
    assert!(read > 0, "no sessions found in PLIMSOLL_CORPUS");
}
