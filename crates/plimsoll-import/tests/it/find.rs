//! Sessions of other tools, found in their places.

use std::path::{Path, PathBuf};

use plimsoll_import::{Extent, ImportError, Places, Scope, Search, SessionStorage, Source, Tool};
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

/// Tools that store the directory of a session in another file, or its id in the name of a directory.
#[test]
fn sessions_of_more_tools_are_found_in_their_places() {
    let home = TempDir::new().unwrap();
    let write = |place: &str, text: &str| {
        let path = home.path().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(".gemini/tmp/project/.project_root", "/home/ada/one\n");
    let gemini = r#"{"sessionId":"0aa11bb2-9999","projectHash":"h","startTime":"2026-01-01T00:00:00Z"}"#;
    write(".gemini/tmp/project/chats/session-2026-01-01T00-00-0aa11bb2.jsonl", gemini);
    write(".gemini/tmp/project/chats/0aa11bb2-9999/sub.jsonl", gemini);
    write(".gemini/tmp/project/logs.json", "[]");
    let goose = r#"{"working_dir":"/home/ada/one","description":"d","message_count":0}"#;
    write(".local/share/goose/sessions/20260101_1.jsonl", goose);
    write(".cline/data/sessions/s1/s1.messages.json", "{}");
    write(".cline/data/sessions/s1/s1.json", r#"{"cwd":"/home/ada/one"}"#);
    write(".cline/data/sessions/s1/helper.messages.json", "{}");
    write(
        ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks/task-7/api_conversation_history.json",
        "[]",
    );
    let wire = r#"{"type":"metadata","protocol_version":"1.4"}"#;
    write(".kimi/kimi.json", r#"{"work_dirs":[{"path":"/home/ada/one","last_session_id":"k2"}]}"#);
    for place in [
        ".kimi/sessions/hash/k1/wire.jsonl",
        ".kimi/sessions/hash/k2/wire.jsonl",
        ".kimi/sessions/hash/k2/subagents/a/wire.jsonl",
    ] {
        write(place, wire);
    }
    write(
        ".kimi-code/session_index.jsonl",
        r#"{"sessionId":"k3","sessionDir":"d","workDir":"/home/ada/one"}"#,
    );
    write(".kimi-code/sessions/wd_one/k3/agents/main/wire.jsonl", wire);
    write(".kimi-code/sessions/wd_one/k3/agents/agent-0/wire.jsonl", wire);
    let search = Search::new(&places(&home), Scope::All);
    let mut of_one: Vec<(Tool, String)> =
        search.sessions(Some("/home/ada/one".as_ref())).map(|found| (found.tool, found.id)).collect();
    of_one.sort();
    let named = |tool: Tool, id: &str| (tool, id.to_owned());
    let expected = [
        named(Tool::Gemini, "0aa11bb2-9999"),
        named(Tool::Goose, "20260101_1"),
        named(Tool::Cline, "s1"),
        named(Tool::Kimi, "k1"),
        named(Tool::Kimi, "k2"),
        named(Tool::Kimi, "k3"),
    ];
    assert_eq!(of_one, expected);
    for id in ["0aa11bb2-9999", "gemini-cli:0aa1", "task-7", "20260101_1", "k3"] {
        assert!(search.one(id).unwrap().is_some(), "{id}");
    }
}

/// Extensions store their data below the settings of their editor, whose place depends on the system.
#[test]
fn tasks_of_cline_and_roo_are_found_in_every_editor_on_every_system() {
    for editor in [
        ".config/Code",
        ".config/Code - Insiders",
        ".config/VSCodium",
        "Library/Application Support/Code",
        "Library/Application Support/Cursor",
        "AppData/Roaming/Code",
        "AppData/Roaming/Windsurf",
        ".vscode-server/data",
        ".cursor-server/data",
    ] {
        assert_eq!(tasks_of_one(editor), ["0aa1-22", "1767225600000"], "{editor}");
    }
}

/// The tasks that are found for `/home/ada/one` if an editor stores its data here.
fn tasks_of_one(editor: &str) -> Vec<String> {
    let home = TempDir::new().unwrap();
    let write = |place: &str, text: &str| {
        let path = home.path().join(editor).join("User/globalStorage").join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    // Cline has one list of its tasks, Roo a file for each of them.
    write("saoudrizwan.claude-dev/tasks/1767225600000/api_conversation_history.json", "[]");
    write("saoudrizwan.claude-dev/tasks/1767225600000/ui_messages.json", "[]");
    write(
        "saoudrizwan.claude-dev/state/taskHistory.json",
        r#"[{"id":"7","cwdOnTaskInitialization":"/home/ada/two"},
            {"id":"1767225600000","task":"t","cwdOnTaskInitialization":"/home/ada/one"}]"#,
    );
    write("rooveterinaryinc.roo-cline/tasks/0aa1-22/api_conversation_history.json", "[]");
    write(
        "rooveterinaryinc.roo-cline/tasks/0aa1-22/history_item.json",
        r#"{"id":"0aa1-22","workspace":"/home/ada/one"}"#,
    );
    write("rooveterinaryinc.roo-cline/tasks/_index.json", "{}");
    let search = Search::new(&places(&home), Scope::All);
    assert_eq!(search.problems, []);
    let mut found: Vec<String> =
        search.sessions(Some("/home/ada/one".as_ref())).map(|found| found.id).collect();
    found.sort();
    found
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
    assert_eq!(search.newest("/home/ada/two".as_ref(), None).unwrap().id, "019e06e6-0c4f-72d2-a0ab");
    // From inside a project its session is found; the home directory and its parents are not projects.
    let above = Some("/home/ada".as_ref());
    assert_eq!(
        search.newest("/home/ada/two/src/deep".as_ref(), above).unwrap().id,
        "019e06e6-0c4f-72d2-a0ab"
    );
    assert!(search.newest("/home/ada/nothing/here".as_ref(), Some("/home/ada".as_ref())).is_none());
    assert_eq!(search.one("5d0c").unwrap().unwrap().tool, Tool::ClaudeCode);
    assert_eq!(search.one("pi:ffae").unwrap().unwrap().tool, Tool::Pi);
    assert!(search.one("codex:ffae").unwrap().is_none() && search.one("nothing").unwrap().is_none());
    let ambiguous = search.one("codex:019e06e6-0c4");
    assert!(
        matches!(&ambiguous, Err(ImportError::Ambiguous { candidates, .. }) if candidates.len() == 2),
        "{ambiguous:?}"
    );
    assert_eq!(search.short_ids().of("019e06e6-0c4e-72d2-a0ab", 8), "019e06e6-0c4e");
    let codex = Search::new(&places(&home), Scope::Only(Tool::Codex));
    assert_eq!(codex.sessions(None).count(), 2);
}

#[test]
fn stored_sessions_are_found_and_opened_like_the_others() {
    let (home, store) = (home(), MemoryStore::new());
    store.create(NewSession::new("5d0c31aa-1111".into()), NOW).unwrap();
    let mut search = Search::new(&places(&home), Scope::All);
    search.add_store(&store, "plimsoll.db".as_ref()).unwrap();
    let found = search.one("5d0c").unwrap().unwrap();
    assert!(found.tool == Tool::Plimsoll && matches!(found.kept, SessionStorage::Stored(_)));
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
fn variables_set_other_places_and_relative_paths_are_ignored() {
    let variable = |name: &str| match name {
        "CLAUDE_CONFIG_DIR" => Some("relative".to_owned()),
        "XDG_DATA_HOME" => Some("/data".to_owned()),
        _ => None,
    };
    let places = Places::new(Some("/home/ada".as_ref()), variable);
    let goose = (Tool::Goose, "/data/goose/sessions/sessions.db".into());
    assert_eq!(places.databases, [(Tool::Opencode, "/data/opencode/opencode.db".into()), goose]);
    let places = Places::new(None, |name| (name == "GOOSE_PATH_ROOT").then(|| "/g".to_owned()));
    assert_eq!(places.databases, [(Tool::Goose, "/g/data/sessions/sessions.db".into())]);
    let places = Places::new(Some("/home/ada".as_ref()), variable);
    assert!(places.directories.contains(&(Tool::ClaudeCode, "/home/ada/.claude/projects".into())));
    assert_eq!(Places::new(None, |_| None), Places::default());
    let variable = |name: &str| match name {
        "APPDATA" => Some("/c/Users/ada/Roaming".to_owned()),
        "VSCODE_APPDATA" => Some("/editors".to_owned()),
        _ => None,
    };
    let places = Places::new(None, variable);
    let dir = |root: &str| PathBuf::from(root).join("User/globalStorage/saoudrizwan.claude-dev/tasks");
    for root in ["/c/Users/ada/Roaming/Cursor", "/editors/Code"] {
        assert!(places.directories.contains(&(Tool::Cline, dir(root))), "{root}: {:?}", places.directories);
    }
}

#[test]
fn a_short_id_is_the_shortest_that_names_one_session() {
    let store = MemoryStore::new();
    let mut seed = 1u64;
    let mut ids = Vec::new();
    while ids.len() < 400 {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        // Two letters, so that many ids have the same start; some have a prefix, and some are prefixes of others.
        let letters = |bits: u64, length: u64| -> String {
            (0..length).map(|at| if bits >> at & 1 == 0 { 'a' } else { 'b' }).collect()
        };
        let prefix = if seed >> 63 == 0 { "ses_" } else { "" };
        let id = format!("{prefix}{}", letters(seed >> 20, 6 + (seed >> 50) % 12));
        if !ids.contains(&id) {
            store.create(NewSession::new(id.as_str().into()), NOW).unwrap();
            ids.push(id);
        }
    }
    let mut search = Search::default();
    search.add_store(&store, "plimsoll.db".as_ref()).unwrap();
    let short = search.short_ids();
    for id in &ids {
        // An id that starts with the whole id cannot be distinguished by a prefix of it. A shorter name of the same
        // word is found in `ses_...` as well.
        let others: Vec<&str> = ids
            .iter()
            .flat_map(|other| [Some(other.as_str()), other.strip_prefix("ses_")])
            .flatten()
            .filter(|other| !other.starts_with(id.as_str()))
            .collect();
        let from = id.find('_').map_or(0, |at| at + 1) + 4;
        let shortest =
            (from..id.len()).find(|end| !others.iter().any(|other| other.starts_with(&id[..*end])));
        assert_eq!(short.of(id, 4), shortest.map_or(id.as_str(), |end| &id[..end]), "{id}");
    }
}
