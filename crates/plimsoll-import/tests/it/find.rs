//! Sessions of other tools, found where they are kept.

use std::path::Path;

use plimsoll_import::{Extent, ImportError, Kept, Places, Scope, Search, Source, Tool};
use plimsoll_store::{MemoryStore, NewSession, Sessions, Store};
use serde_json::json;
use tempfile::TempDir;

use crate::NOW;

/// A home with sessions of three tools.
fn home() -> TempDir {
    let home = TempDir::new().unwrap();
    let write = |place: &str, lines: &[serde_json::Value]| {
        let path = home.path().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    };
    let codex = |id: &str, directory: &str| {
        let meta = json!({ "timestamp": "2026-05-02T09:18:36.730Z", "type": "session_meta",
            "payload": { "id": id, "cwd": directory } });
        let said = json!({ "timestamp": "2026-05-02T09:18:37.730Z", "type": "response_item", "payload": {
            "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "Fix it" }] } });
        write(&format!(".codex/sessions/2026/05/02/rollout-2026-05-02T09-18-36-{id}.jsonl"), &[meta, said]);
    };
    codex("019e06e6-0c4e-72d2-a0ab", "/home/ada/one");
    codex("019e06e6-0c4f-72d2-a0ab", "/home/ada/two");
    let said = json!({ "type": "user", "uuid": "u1", "parentUuid": null, "sessionId": "5d0c31aa-1111", "cwd": "/home/ada/one",
        "timestamp": "2026-05-02T09:18:37.730Z", "message": { "role": "user", "content": "Why is it slow?" } });
    write(".claude/projects/-project/5d0c31aa-1111.jsonl", &[said]);
    let first = json!({ "type": "session", "id": "ffae836b-9420", "timestamp": "2026-05-02T09:18:36.730Z",
        "cwd": "/home/ada/one" });
    write(".pi/agent/sessions/--project--/2026_ffae836b-9420.jsonl", &[first]);
    home
}

fn places(home: &TempDir) -> Places {
    Places::new(Some(home.path()), |_| None)
}

#[test]
fn sessions_are_found_by_directory_by_tool_and_by_id() {
    let home = home();
    let search = Search::new(&places(&home), Scope::All);
    assert_eq!(search.problems, []);
    let of = |directory: Option<&str>| {
        let found = search.sessions(directory.map(Path::new)).map(|found| (found.tool, found.id));
        let mut found: Vec<_> = found.collect();
        found.sort();
        found
    };
    assert_eq!(of(Some("/home/ada/two")), [(Tool::Codex, "019e06e6-0c4f-72d2-a0ab".to_owned())]);
    assert_eq!(of(Some("/home/ada/one")).len(), 3);
    assert_eq!((of(None).len(), of(Some("/home/ada")).len()), (4, 0));
    assert_eq!(search.newest("/home/ada/two".as_ref()).unwrap().id, "019e06e6-0c4f-72d2-a0ab");
    assert_eq!(search.one("5d0c").unwrap().unwrap().tool, Tool::ClaudeCode);
    assert_eq!(search.one("pi:ffae").unwrap().unwrap().tool, Tool::Pi);
    assert!(search.one("codex:ffae").unwrap().is_none() && search.one("nothing").unwrap().is_none());
    let ambiguous = search.one("codex:019e06e6-0c4");
    assert!(
        matches!(&ambiguous, Err(ImportError::Ambiguous { candidates, .. }) if candidates.len() == 2),
        "{ambiguous:?}"
    );
    assert_eq!(search.short_id("019e06e6-0c4e-72d2-a0ab", 8), "019e06e6-0c4e");
    let codex = Search::new(&places(&home), Scope::Only(Tool::Codex));
    assert_eq!(codex.sessions(None).count(), 2);
}

#[test]
fn stored_sessions_are_found_beside_the_others_and_opened_alike() {
    let (home, store) = (home(), MemoryStore::new());
    store.create(NewSession::new("5d0c31aa-1111".into()), NOW).unwrap();
    let mut search = Search::new(&places(&home), Scope::All);
    search.add_store(&store, "plimsoll.db".as_ref()).unwrap();
    let found = search.one("5d0c").unwrap().unwrap();
    assert!(found.tool == Tool::Plimsoll && matches!(found.kept, Kept::Stored(_)));
    let store: &dyn Store = &store;
    let stored = Source::of(&found, Some(store)).unwrap().read(Extent::Whole, &|_| {}).unwrap();
    assert_eq!((stored.messages.len(), stored.info.id.as_deref()), (0, Some("5d0c31aa-1111")));
    let file = search.one("claude-code:5d0c").unwrap().unwrap();
    let seen = std::cell::Cell::new(0);
    let read = Source::of(&file, None).unwrap().read(Extent::Whole, &|at| seen.set(at)).unwrap();
    assert_eq!(read.messages[0].text(), "Why is it slow?");
    assert_eq!(seen.get(), std::fs::metadata(&file.path).unwrap().len());
}

#[test]
fn variables_name_other_places_and_relative_ones_are_not_taken() {
    let variable = |name: &str| match name {
        "CLAUDE_CONFIG_DIR" => Some("relative".to_owned()),
        "XDG_DATA_HOME" => Some("/data".to_owned()),
        _ => None,
    };
    let places = Places::new(Some("/home/ada".as_ref()), variable);
    assert_eq!(places.opencode, Some("/data/opencode/opencode.db".into()));
    assert!(places.folders.contains(&(Tool::ClaudeCode, "/home/ada/.claude/projects".into())));
    assert_eq!(Places::new(None, |_| None), Places::default());
}
