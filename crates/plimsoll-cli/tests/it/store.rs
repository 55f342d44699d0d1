//! Stored sessions: taken in, listed, reduced, undone, recalled, given back.

use std::time::Duration;

use insta::{assert_snapshot, with_settings};
use plimsoll::{Millis, Policy};
use plimsoll_store::{Claim, Epoch};
use serde_json::{Value, json};

use crate::support::{Home, chat, export, now};

const DATABASE: &str = ".local/share/plimsoll/plimsoll.db";
const SESSION: &str = "ses_5c1000000001ABCDEFGHIJKLMN";

/// Filters for values that differ from run to run: random ids and times.
macro_rules! assert_page {
    ($page:expr) => {
        with_settings!({ filters => [
            (r"rcp_[0-9a-f]{12}[0-9A-Za-z]{14}", "[RECEIPT]"),
            (r"rcp_[0-9a-f]{12}", "[RCP]"),
            (r"(msg|prt)_[0-9a-f]{12}[0-9A-Za-z]{14}", "[$1]"),
            (r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC, just now", "[NOW], just now"),
            (r"  at          20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC", "  at          [NOW]"),
            (r"until 20[-\d]+ [:\d]+ UTC, for \d+ (s|min) more", "until [THEN], for [SPAN] more"),
            (r"(\d+) (mo|d|y) ago", "[AGE] ago"),
            (r" +\d+ (mo|d|y|h|min)  ", "  [AGE]  "),
        ] }, { assert_snapshot!($page) });
    };
}

/// A home with an export in the project, not stored yet.
fn home() -> Home {
    let home = Home::new();
    let export = export(&home.project).to_string();
    home.with("project/session.json", &export)
}

/// Like above, stored.
fn stored() -> Home {
    let home = home();
    assert!(home.run(&["sessions", "import", "session.json"]).starts_with("exit: 0"));
    home
}

/// The newest receipt of the session.
fn newest_receipt(home: &Home) -> String {
    let receipts = home.json(&["receipts", SESSION, "--json"]);
    receipts.as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned()
}

/// Stores a session with a spilled output; returns its handle.
fn spilled(home: &Home, at: Millis) -> String {
    let output: String = (1..=5_000).map(|n| format!("line {n}\n")).collect();
    let (session, part) = (SESSION.into(), "prt_fixed000000200CDEFGHIJKLMN".into());
    let archive = home.archive();
    let lease = archive.store().lease(&session, "a test", Duration::from_secs(60)).unwrap();
    let policy = Policy::default();
    let taken = archive.take_output(&lease.claim(), &part, "bash", &mut output.as_bytes(), &policy, at);
    archive.store().release(&lease).unwrap();
    taken.unwrap().receipt.unwrap().handles[0].to_string()
}

#[test]
fn a_session_is_stored_listed_shown_and_in_place_of_a_file() {
    let home = home();
    assert_page!(home.page(&[
        "sessions import session.json",
        "sessions import session.json",
        "sessions",
        "sessions --tool plimsoll --all",
        "sessions show ses_5c --messages 3",
        "prune --plan ses_5c",
        "prune --plan",
        "prune --session ses_5c10000",
    ]));
    let window = home.run(&["window", "ses_5c"]);
    assert!(window.contains("Plimsoll: `ses_5c1000000001ABCDEFGHIJKLMN` in `~/.local/share"), "{window}");
    assert_eq!(home.json(&["window", "ses_5c", "--json"]), home.json(&["window", "session.json", "--json"]));
    let inspected = |name: &str| {
        let mut found = home.json(&["inspect", name, "--json"]);
        found["format"].take();
        found
    };
    assert_eq!(inspected("ses_5c"), inspected("session.json"), "but for where it comes from");
    let database = home.path.join(DATABASE);
    let printed = home.run(&["fork", database.to_str().unwrap()]);
    assert!(printed.contains("Next 0") && printed.contains("using the newest of 1 session"), "{printed}");
}

/// Asserts equal content and size. Usage recorded before an undone reduction is stale, so hidden tokens are estimated.
fn assert_same_window(now: &Value, before: &Value) {
    assert_eq!((&now["messages"], &now["pivot"]), (&before["messages"], &before["pivot"]));
    let [now, before] = [now, before].map(|window| window["tokens"].as_u64().unwrap());
    assert!(now.abs_diff(before) * 50 <= before, "{now} instead of {before}");
}

#[test]
fn a_prune_is_applied_shown_undone_and_shown_again() {
    let home = stored();
    let before = home.json(&["window", "ses_5c", "--json"]);
    assert_page!(home.page(&["prune --apply ses_5c", "prune --apply ses_5c", "receipts"]));
    let after = home.json(&["window", "ses_5c", "--json"]);
    assert!(after["tokens"].as_u64().unwrap() + 39_000 < before["tokens"].as_u64().unwrap());
    let receipt = newest_receipt(&home);
    // A receipt is a handle for the content that left the window by it.
    let recalled = home.run(&["recall", &receipt]);
    let handles: Vec<&str> = recalled.lines().filter(|line| line.starts_with("prt_")).collect();
    assert!(handles.len() == 5 && recalled.contains("has 5 handles"), "{recalled}");
    assert!(home.run(&["recall", handles[0]]).contains("output "));
    assert_page!(home.page(&[
        &format!("receipts {}", &receipt[..16]),
        &format!("undo {}", &receipt[..16]),
        &format!("undo {receipt}"),
        "receipts ses_5c",
        "sessions show --messages 0",
    ]));
    assert_same_window(&home.json(&["window", "ses_5c", "--json"]), &before);
    let undo = newest_receipt(&home);
    assert_page!(home.page(&[&format!("undo {undo}")]));
}

#[test]
fn a_summary_without_a_model_is_applied_recalled_and_undone() {
    let home = stored();
    let before = home.json(&["window", "ses_5c", "--json"]);
    assert_page!(home.page(&[
        "compact --offline --apply ses_5c --context 100000",
        "recall --session ses_5c --grep ^output",
        "recall --grep UNUSED --ignore-case --context-lines 1 --max-bytes 600",
        "recall --session ses_5c --grep nowhere",
    ]));
    assert!(home.run(&["window", "ses_5c"]).contains("(This summary was made without a model"));
    let receipts = home.json(&["receipts", "ses_5c", "--json"]);
    let handle = receipts[0]["handles"][0].as_str().unwrap();
    let printed = home.run(&["recall", handle, "--max-bytes", "100000"]);
    assert!(
        printed.contains("Fix the build. Never touch the tests.") && printed.contains("output 0\n"),
        "{printed}"
    );
    for receipt in receipts.as_array().unwrap().iter().rev() {
        let printed = home.run(&["undo", receipt["id"].as_str().unwrap()]);
        assert!(printed.contains("undone: "), "{printed}");
    }
    assert_same_window(&home.json(&["window", "ses_5c", "--json"]), &before);
    assert!(!home.run(&["inspect", "ses_5c"]).contains("compacted once before"));
    assert!(home.run(&["sessions", "show"]).contains("compactions 1, 1 of them undone\n"));
}

#[test]
fn a_pin_stays_in_view_through_a_compaction_and_can_be_unpinned() {
    let home = stored();
    assert_page!(home.page(&[
        "pin ses_5c Never_touch_the_tests",
        "pins ses_5c",
        "pin ses_5c Never_touch_the_tests",
        "unpin rcp_1e0f40599001",
    ]));
    let pinned = home.json(&["pin", "ses_5c", "Never touch the tests.", "--json"]);
    let receipt = pinned["receipt"]["id"].as_str().unwrap().to_owned();
    assert!(
        home.run(&["compact", "--offline", "--apply", "ses_5c", "--context", "100000"])
            .starts_with("exit: 0")
    );
    let window = home.run(&["window", "ses_5c"]);
    assert!(window.contains("to be kept to word for word"), "{window}");
    assert!(
        window.contains("\nNever touch the tests.\n") || window.contains(" Never touch the tests."),
        "{window}"
    );
    assert_eq!(home.json(&["pins", "ses_5c", "--json"])["pins"].as_array().unwrap().len(), 2);
    assert!(home.run(&["unpin", &receipt]).starts_with("exit: 0"));
    assert_eq!(home.json(&["pins", "ses_5c", "--json"])["pins"].as_array().unwrap().len(), 1);
    let giant = "x ".repeat(40_000);
    let printed = home.run(&["pin", "ses_5c", &giant]);
    assert!(printed.starts_with("exit: 1") && printed.contains("would exceed the pin budget"), "{printed}");
}

#[test]
fn apply_works_on_stored_sessions_only() {
    assert_page!(stored().page(&[
        "prune --apply session.json",
        "compact --offline --apply -",
        "compact --apply ses_5c",
        "prune --apply --plan ses_5c",
        "prune --apply ses_77777",
        "compact --offline --apply ses_5c --context 10000000",
    ]));
}

#[test]
fn content_outside_the_window_is_recalled_in_full_by_lines_and_by_pattern() {
    let home = stored();
    let spill = spilled(&home, now());
    let part = "prt_fixed000000300CDEFGHIJKLMN";
    let page = home.page(&[
        &format!("recall {part} --lines 1-2"),
        &format!("recall {part} --grep warn --context-lines 1 --max-bytes 40"),
        &format!("recall {part} --grep WARN --fixed-strings"),
        &format!("recall {part} --lines 9-12"),
        "recall msg_fixed0000020ABCDEFGHIJKLMN",
        &format!("recall {spill} --lines 4999-"),
        &format!("recall {spill} --grep ^line.12.$"),
        &format!("recall {spill} --max-bytes 20"),
        "recall --session ses_5c --grep 4321",
    ]);
    assert_page!(page.replace(&spill, "[SPILL]"));
    let whole = home.command(&["recall", &spill, "--max-bytes", "1000000"], &[]).output().unwrap();
    let all: String = (1..=5_000).map(|n| format!("line {n}\n")).collect();
    assert_eq!(String::from_utf8(whole.stdout).unwrap(), all);
    let found = home.json(&["recall", part, "--grep", "unused", "--json"]);
    assert_eq!(found["handle"], part);
    let line = json!([{ "number": 2, "text": "warning: unused", "isMatch": true }]);
    assert_eq!((&found["found"]["lines"], &found["found"]["allLines"]), (&line, &3.into()));
    let hits = home.json(&["recall", "--session", "ses_5c", "--grep", "4321", "--json"]);
    assert_eq!((&hits[0]["handle"], &hits[0]["tool"]), (&spill.as_str().into(), &"bash".into()));
}

#[test]
fn expired_spills_are_reported_with_what_is_left() {
    let home = stored().with(".config/plimsoll/config.toml", "[spills]\nage = \"7d\"\n");
    let old = spilled(&home, Millis(1_777_713_516_730));
    let printed = home.page(&["sessions show --messages 0", "sessions gc", "sessions show --messages 0"]);
    let expired = home.run(&["recall", &old]).replace(&old, "[SPILL]");
    let (expired, _) = expired.split_once("\nline 2\n").unwrap();
    with_settings!({ filters => [(r"expired at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC", "expired at [TIME]")] }, {
        assert_snapshot!(expired);
    });
    assert_page!(printed.replace(&old, "[SPILL]"));
    let fresh = spilled(&home, now());
    std::fs::remove_dir_all(home.path.join(".local/share/plimsoll/spill")).unwrap();
    let printed = home.page(&[&format!("recall {fresh}"), "sessions check"]);
    assert_page!(printed.replace(&fresh, "[SPILL]"));
}

#[test]
fn retention_can_be_configured() {
    let home = stored();
    let handle = spilled(&home, Millis(1_777_713_516_730));
    assert!(
        home.run(&["sessions", "gc"]).contains("0 spilled outputs expired"),
        "they stay with their session"
    );
    let guide = home.run_with(&["config"], &[("PLIMSOLL_POLICY", "openfork")]);
    let age = guide.lines().find(|line| line.starts_with("spills.age")).unwrap_or_default();
    assert!(age.contains("7d"), "{guide}");
    assert!(
        home.run_with(&["sessions", "gc"], &[("PLIMSOLL_SPILLS_MAX_BYTES", "1")])
            .contains(&format!("expired: `{handle}` of session"))
    );
}

#[test]
fn a_handle_or_its_prefix_is_found_in_one_session_or_in_all() {
    let home = stored();
    let spill = spilled(&home, now());
    let other = plimsoll_store::NewSession::new("ses_6d0000000001ABCDEFGHIJKLMN".into());
    home.archive().store().create(other, now()).unwrap();
    let page = home.page(&[
        &format!("recall {} --lines 1-1", &spill[..12]),
        &format!("recall --session ses_5c {spill} --lines 1-1"),
        &format!("recall --session ses_6d {spill}"),
        "recall prt_fixed --lines 1-1",
        "recall --session ses_6d",
    ]);
    assert_page!(page.replace(&spill, "[SPILL]").replace(&spill[..12], "[BEGINNING]"));
}

#[test]
fn raw_content_comes_byte_for_byte() {
    let home = stored();
    let (session, policy) = ("ses_5c1000000001ABCDEFGHIJKLMN".into(), Policy::default());
    let mut output: Vec<u8> = b"first \xff\r\n".to_vec();
    output.extend(b"line\r\n".repeat(20_000));
    let claim = plimsoll_store::Claim::unleased(&session);
    let archive = home.archive();
    let taken =
        archive.take_output(&claim, &"prt_x".into(), "bash", &mut &output[..], &policy, now()).unwrap();
    let handle = plimsoll_store::handles(&taken.receipt.unwrap()).remove(0);
    let raw = home.command(&["recall", &handle, "--raw"], &[]).output().unwrap();
    assert!(raw.stdout == output, "{}", String::from_utf8_lossy(&raw.stderr));
    let line = home.command(&["recall", &handle, "--raw", "--lines", "1"], &[]).output().unwrap();
    assert_eq!(line.stdout, b"first \xff\r\n");
}

#[test]
fn an_export_round_trips() {
    let home = stored();
    let original = export(&home.project);
    assert_eq!(home.json(&["sessions", "export", "ses_5c"]), original);
    assert_eq!(home.json(&["convert", "--to", "opencode-export", "ses_5c"]), original);
    // What a reduction appended or marked is gone after an undo but for the pivot, which is set aside.
    home.run(&["prune", "--apply", "ses_5c"]);
    home.run(&["undo", &newest_receipt(&home)]);
    assert_page!(home.page(&[
        "sessions export ses_5c --to openai-chat --out chat.json",
        "sessions export ses_5c --out chat.json",
        "sessions export ses_5c --to codex",
        "sessions export ses_77777",
        "sessions export ses_5c --out session.json --force",
        "sessions rm ses_5c",
        "sessions import session.json",
    ]));
}

#[test]
fn the_same_session_again_gets_new_ids_and_the_same_window() {
    let home = stored();
    let printed = home.run(&["sessions", "import", "session.json", "--duplicate", "--json"]);
    assert!(printed.starts_with("exit: 0"), "{printed}");
    let rows = home.json(&["sessions", "--json"]);
    let ids: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1] && ids.contains(&SESSION), "{ids:?}");
    let new = ids.iter().find(|id| **id != SESSION).unwrap();
    let tokens = |id: &str| home.json(&["window", id, "--json"])["tokens"].clone();
    assert_eq!(tokens(new), tokens(SESSION));
    let again = home.json(&["sessions", "export", new]);
    let text = again.to_string();
    assert!(!text.contains(SESSION) && !text.contains("msg_fixed") && !text.contains("prt_fixed"), "{text}");
    // A handle of the one does not name something of the other.
    home.run(&["prune", "--apply", new]);
    assert_eq!(home.json(&["receipts", SESSION, "--json"]), json!([]));
}

#[test]
fn sessions_of_other_tools_are_imported_by_id_and_the_stored_copy_is_preferred() {
    let home = Home::new();
    home.codex("019e06e6-0c4e-72d2-a0ab", &home.project, "Fix the build", 3);
    home.claude("5d0c31aa-1111-2222-3333", "Why is it slow?", 2);
    home.opencode(".local/share/opencode/opencode.db", &[("ses_5c1000000001", "An older one", 200, None)]);
    assert_page!(home.page(&[
        "sessions import 019e06e6 5d0c31aa ses_5c1000000001",
        "sessions import 019e06e6",
        "sessions show ses_77777",
        "fork 019e06e6",
        "sessions",
    ]));
    home.pi("ffae836b-9420-4060", "Read it all", 5);
    assert_page!(home.page(&["sessions rm ffae836b", "sessions show 5d0c31aa"]));
}

#[test]
fn chats_without_ids_are_known_by_their_content_and_handles_do_not_clash() {
    let home = Home::new().with("project/one.json", &chat(1)).with("project/two.json", &chat(8));
    let ids: Vec<String> = ["one.json", "two.json"]
        .iter()
        .map(|file| home.json(&["sessions", "import", file, "--json"])[0]["id"].as_str().unwrap().to_owned())
        .collect();
    assert_ne!(ids[0], ids[1]);
    let printed = home.run(&["sessions", "import", "one.json"]);
    assert!(
        printed.starts_with("exit: 0") && printed.contains(&format!("is already stored as `{}`", ids[0])),
        "{printed}"
    );
    let parts = |id: &str| {
        let messages = home.json(&["sessions", "show", id, "--messages", "100", "--json"])["newest"].clone();
        let messages = messages.as_array().unwrap().clone();
        let parts = messages.iter().flat_map(|message| message["parts"].as_array().unwrap().clone());
        parts.map(|part| part["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (one, two) = (parts(&ids[0]), parts(&ids[1]));
    assert!(one.iter().all(|id| id.starts_with("prt_") && !two.contains(id)), "{one:?} {two:?}");
    // A file that does not say where its agent worked is of the directory it was stored from.
    assert!(home.run(&["prune", "--apply", &ids[1]]).contains("prune 4 tool outputs\n"));
    assert!(home.run(&["receipts", &ids[1]]).contains("prune 4 tool outputs"));
    let check = home.run(&["sessions", "check"]);
    assert!(check.starts_with("exit: 0") && check.contains("no problems in 2 sessions"), "{check}");
}

#[test]
fn sub_agents_become_tasks_and_go_with_their_session() {
    let record = |uuid: &str, parent: Value, side: bool, words: &str| {
        json!({ "type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "5d0c31aa-1111-2222-3333",
            "isSidechain": side, "cwd": "/home/ada/place", "timestamp": "2026-05-02T09:18:37.730Z",
            "message": { "role": "user", "content": words } })
    };
    let main = record("aaaaaaaa-0000-0000-0001", Value::Null, false, "Ask a helper");
    let side = record("bbbbbbbb-0000-0000-0001", Value::Null, true, "You are the helper");
    let home = Home::new().with("project/claude.jsonl", &format!("{main}\n{side}\n"));
    let imported = home.json(&["sessions", "import", "claude.jsonl", "--json"]);
    let task = imported[0]["tasks"][0].clone();
    assert_eq!((&task["parent"], &task["messages"]), (&"5d0c31aa-1111-2222-3333".into(), &1.into()));
    let id = task["id"].as_str().unwrap();
    let shown = home.json(&["sessions", "show", "5d0c", "--json"]);
    assert_eq!((&shown["tasks"], &shown["directory"]), (&json!([id]), &"/home/ada/place".into()));
    assert!(home.run(&["window", id]).contains("You are the helper"));
    // Sub-agents are found only by their ids.
    assert_eq!(home.json(&["sessions", "--all", "--json"]).as_array().unwrap().len(), 1);
    let printed = home.run(&["sessions", "export", "5d0c"]);
    assert!(printed.contains("lost: 1 task\n"), "{printed}");
    assert_page!(home.page(&["sessions rm 5d0c", "sessions --all --tool plimsoll"]));
    assert!(home.run(&["sessions", "show", id]).contains("no stored session with id"));
}

#[test]
fn calls_without_a_result_are_marked_unless_the_file_may_grow() {
    let call = json!({ "id": "call_1", "type": "function", "function": { "name": "ls", "arguments": "{}" } });
    let mut chat = vec![
        json!({ "role": "user", "content": "Look" }),
        json!({ "role": "assistant", "content": null, "tool_calls": [call] }),
    ];
    let text = |chat: &[Value]| Value::from(chat.to_vec()).to_string();
    let home = Home::new().with("project/open.json", &text(&chat));
    let printed = home.run(&["sessions", "import", "open.json"]);
    assert!(printed.contains("2 messages; its last message is incomplete, and the next import"), "{printed}");
    let checked = home.run(&["sessions", "check"]);
    assert!(checked.contains("no problems in 1 session, 2 messages, 2 parts"), "{checked}");
    chat.push(json!({ "role": "user", "content": "Never mind" }));
    home.write("project/left.json", &text(&chat));
    let printed = home.run(&["sessions", "import", "left.json"]);
    assert!(printed.contains("3 messages; 1 call without an answer"), "{printed}");
    let id = home.json(&["sessions", "import", "left.json", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let printed = home.run(&["window", &id]);
    assert!(printed.contains("[error] ls\nInterrupted: "), "{printed}");
    assert!(home.run(&["sessions", "check"]).contains("no problems in 2 sessions"));
}

#[test]
fn an_outdated_stored_copy_is_reported_and_updated() {
    let home = Home::new();
    let lines = |words: &[&str]| -> String {
        let lines = words.iter().enumerate().map(|(place, words)| {
            let uuid = |place: usize| format!("aaaaaaaa-0000-0000-{place:04}");
            let parent = place.checked_sub(1).map(uuid);
            json!({ "type": "user", "uuid": uuid(place), "parentUuid": parent, "cwd": home.project,
                "sessionId": "5d0c31aa-1111-2222-3333", "timestamp": "2026-05-02T09:18:37.730Z",
                "message": { "role": "user", "content": words } })
        });
        lines.map(|line| format!("{line}\n")).collect()
    };
    let import = |words: &[&str]| {
        home.write("project/claude.jsonl", &lines(words));
        home.page(&["sessions import claude.jsonl"])
    };
    let mut printed =
        [&["One"][..], &["One"], &["One", "Two", "Three"], &["One", "Four"]].map(import).to_vec();
    printed.push(home.page(&["sessions import claude.jsonl --json"]));
    let archive = home.archive();
    let (session, now) = ("5d0c31aa-1111-2222-3333".into(), now());
    let here = plimsoll::Message::user("msg_own".into(), "prt_own".into(), "Go on here");
    archive.store().append(&Claim { session, epoch: Epoch(1) }, vec![here], now).unwrap();
    printed.push(import(&["One", "Two", "Three", "Five"]));
    with_settings!({ filters => [(r"ses_[0-9a-f]{12}[0-9A-Za-z]{14}", "[NEW]")] }, {
        assert_snapshot!(printed.join("\n"));
    });
}

#[test]
fn reading_creates_no_database_and_suggests_how_to_create_one() {
    let home = home();
    let before = home.files();
    assert_page!(home.page(&[
        "sessions show ses_5c",
        "receipts",
        "undo rcp_1e0f40599001",
        "recall prt_1e0f40599001",
        "sessions gc",
        "sessions check",
        "sessions rm ses_5c",
        "sessions export ses_5c",
        "prune --apply ses_5c",
        "sessions --tool plimsoll",
        "--store elsewhere.db sessions show",
        "fork ses_5c --store elsewhere.db",
        "window ses_5c",
        "sessions import nothing.json",
    ]));
    for reading in
        [["inspect", "session.json"], ["window", "session.json"], ["sessions", "--all"], ["config", "--json"]]
    {
        assert!(home.run(&reading).starts_with("exit: 0"));
    }
    assert_eq!(home.files(), before);
}

#[test]
fn databases_that_cannot_be_used_are_not_changed() {
    let home = stored().with("project/broken.db", "this is not a database, whatever its name says");
    let newer = home.project.join("newer.db");
    std::fs::create_dir(home.project.join("directory.db")).unwrap();
    let database = rusqlite::Connection::open(&newer).unwrap();
    database
        .execute_batch("CREATE TABLE t (x); PRAGMA user_version = 99; PRAGMA application_id = 1349282157;")
        .unwrap();
    drop(database);
    home.opencode("project/opencode.db", &[("ses_a1", "One", 2, None)]);
    let read = |name: &str| std::fs::read(home.project.join(name)).unwrap();
    let before: Vec<Vec<u8>> =
        ["broken.db", "newer.db", "opencode.db"].iter().map(|name| read(name)).collect();
    assert_page!(home.page(&[
        "receipts --store broken.db",
        "receipts --store newer.db",
        "receipts --store opencode.db",
        "receipts --store directory.db",
        "sessions import session.json --store newer.db",
        "sessions --store broken.db",
    ]));
    let after: Vec<Vec<u8>> =
        ["broken.db", "newer.db", "opencode.db"].iter().map(|name| read(name)).collect();
    assert!(before == after);
}

#[test]
fn usage_errors_about_stored_sessions_suggest_a_correction() {
    assert_page!(stored().page(&[
        "sessions show ses_5c1000000001ABCDEFGHIJKLMX",
        "sessions show other",
        "sessions rm ses_5c ses_77777",
        "receipts ses_77777",
        "receipts rcp_77777",
        "undo rcp_",
        "recall ses_5c",
        "recall prt_nothing",
        "recall spill_nothing",
        "recall x --lines 5-2",
        "recall x --lines 0-3",
        "recall x --lines some",
        "recall --session ses_5c --grep (",
        "recall --session ses_5c",
        "recall",
        "sessions import",
    ]));
}

#[test]
fn a_stored_session_is_found_from_a_directory_inside_its_project() {
    let home = stored();
    let text = std::fs::read_to_string(home.project.join("session.json")).unwrap();
    let text = text.replace("ses_5c1000000001", "ses_6d1000000001").replace("_fixed", "_other");
    home.write("of-home.json", &text.replace(home.project.to_str().unwrap(), home.path.to_str().unwrap()));
    assert!(home.run(&["sessions", "import", "../of-home.json"]).starts_with("exit: 0"));
    let run = |directory: &str, args: &[&str]| {
        let directory = home.path.join(directory);
        std::fs::create_dir_all(&directory).unwrap();
        let mut command = home.command(args, &[]);
        home.output_text(&command.current_dir(directory).stdin(std::process::Stdio::null()).output().unwrap())
    };
    for args in [
        ["receipts"].as_slice(),
        &["recall", "--grep", "output 0"],
        &["pins"],
        &["sessions", "show"],
        &["revert", "--plan"],
        &["prune", "--apply"],
    ] {
        let printed = run("project/src/deep", args);
        assert!(!printed.contains("exit: 2") && !printed.contains("ses_6d"), "{args:?}: {printed}");
        // What is stored for the home is not a project that everything below it belongs to.
        let printed = run("elsewhere", args);
        assert!(
            printed.starts_with("exit: 2") && printed.contains("no stored session for `~/elsewhere`"),
            "{args:?}: {printed}"
        );
    }
    let printed = run("project/src/deep", &["run", "--continue", "Go on"]);
    assert!(
        printed.contains("the session was started in `~/project` and continues in this directory")
            && printed.contains("no model is set"),
        "{printed}"
    );
}

#[test]
fn sessions_with_the_same_prefix_are_distinguished() {
    let home = stored();
    let text = std::fs::read_to_string(home.project.join("session.json")).unwrap();
    let other = text.replace("ses_5c1000000001", "ses_5c1000000002").replace("_fixed", "_other");
    home.write("project/other.json", &other.replace("Fix the build", "Something else"));
    assert!(home.run(&["sessions", "import", "other.json"]).starts_with("exit: 0"));
    assert_page!(home.page(&["sessions show ses_5c", "window ses_5c", "prune --apply ses_5c"]));
    let printed = home.run(&["sessions", "rm", "ses_5c1000000001", "ses_5c1000000002"]);
    assert!(printed.starts_with("exit: 0") && printed.matches("removed `ses_5c").count() == 2, "{printed}");
}

#[test]
fn a_running_session_is_not_changed_and_forks_are_shown() {
    let home = stored();
    let archive = home.archive();
    let (session, start) = (SESSION.into(), Millis(1_777_713_600_000));
    let fork = plimsoll_store::NewSession::new("ses_5c1000000009ABCDEFGHIJKLMN".into());
    archive.store().fork(&session, None, fork, start).unwrap();
    let lease = archive.store().lease(&session, "somebody", Duration::from_secs(60 * 60)).unwrap();
    assert_page!(home.page(&[
        "prune --apply ses_5c1000000001",
        "receipts ses_5c1000000001",
        "sessions show ses_5c1000000001 --messages 0",
        "sessions show ses_5c1000000009 --messages 1",
    ]));
    // A fork has all that was said before it, and outlives what it was forked from.
    let before = home.json(&["window", "ses_5c1000000009", "--json"]);
    let refused = home.run(&["sessions", "rm", "ses_5c1000000001"]);
    assert!(refused.contains("is being run by `somebody`"), "{refused}");
    assert!(refused.contains("hint: pass `--force` to remove it anyway"), "{refused}");
    let forced = home.run(&["sessions", "rm", "--force", "ses_5c1000000001"]);
    assert!(forced.starts_with("exit: 0"), "{forced}");
    assert!(forced.contains("note: took over `ses_5c1000000001ABCDEFGHIJKLMN` from `somebody`"), "{forced}");
    archive.store().release(&lease).unwrap();
    assert_eq!(home.json(&["window", "ses_5c1000000009", "--json"]), before);
    let printed = home.run(&["sessions", "import", "session.json"]);
    assert!(
        printed.starts_with("exit: 1") && printed.contains("was removed, and a session that was forked"),
        "{printed}"
    );
    assert!(home.run(&["sessions", "import", "session.json", "--duplicate"]).starts_with("exit: 0"));
}

#[test]
fn the_path_of_the_database_is_a_setting_like_any_other() {
    let home = home().with("project/plimsoll.toml", "store = \"data/own.db\"\ndurability = \"power\"\n");
    home.write(".config/plimsoll/config.toml", "store = \"~/mine/own.db\"\n");
    let row =
        |printed: &str, name: &str| printed.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    let shown = home.run(&["config"]);
    assert!(row(&shown, "store").contains("~/mine/own.db"), "{shown}");
    assert!(row(&shown, "durability").contains("process"), "{shown}");
    assert!(home.run(&["trust"]).starts_with("exit: 0"));
    assert!(home.run(&["sessions", "import", "session.json"]).starts_with("exit: 0"));
    assert!(home.project.join("data/own.db").is_file() && !home.path.join(DATABASE).exists());
    assert!(!home.path.join("mine").exists());
    let shown = home.run(&["config"]);
    assert!(row(&shown, "store").ends_with("~/project/plimsoll.toml:1"), "{shown}");
    assert!(row(&shown, "durability").contains("power"), "{shown}");
    let shown =
        home.run_with(&["config"], &[("PLIMSOLL_STORE", "by-variable.db"), ("PLIMSOLL_SPILLS_AGE", "36h")]);
    assert!(row(&shown, "store").ends_with("PLIMSOLL_STORE"), "{shown}");
    assert!(row(&shown, "spills.age").contains("36h"), "{shown}");
    let shown = home.run_with(&["config", "--store", "flag.db"], &[("PLIMSOLL_STORE", "by-variable.db")]);
    assert!(row(&shown, "store").contains("flag.db") && row(&shown, "store").ends_with("--store"), "{shown}");
    let json = home.json(&["config", "--json"]);
    assert_eq!(
        (&json["store"]["durability"], &json["store"]["spills"]["age"]),
        (&"power".into(), &Value::Null)
    );
    let wrong = [
        "store = 7",
        "durability = \"forever\"",
        "spills = 1",
        "[spills]\nage = \"a week\"",
        "[spills]\nkeep = true\nage = \"7d\"",
        "[spills]\nmaxBytes = -1",
        "[spills]\nkeeep = true",
    ];
    let printed = wrong.map(|text| {
        home.write("project/wrong.toml", text);
        home.run(&["config", "check", "wrong.toml"])
    });
    assert_page!(printed.join("\n"));
    home.write("project/policy.json", "{ \"preset\": \"openfork\", \"store\": \"x.db\" }");
    assert!(home.run(&["config", "--policy", "policy.json"]).contains("which belongs to the store"));
}

#[cfg(unix)]
#[test]
fn only_the_user_can_read_the_database() {
    use std::os::unix::fs::PermissionsExt;
    let home = stored();
    let mode = |path: &str| std::fs::metadata(home.path.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(".local/share/plimsoll"), mode(DATABASE)), (0o700, 0o600));
}

#[test]
fn several_files_are_stored_and_a_bad_one_does_not_cost_the_others() {
    let home = home().with("project/chat.json", &chat(1)).with("project/bad.json", "{}");
    let output =
        home.command(&["sessions", "import", "bad.json", "session.json", "chat.json"], &[]).output().unwrap();
    let printed = home.output_text(&output);
    assert!(printed.starts_with("exit: 3") && printed.contains("error: cannot read `bad.json`"), "{printed}");
    let ids = String::from_utf8(output.stdout).unwrap();
    assert_eq!(ids.lines().count(), 2);
    assert_eq!(ids.lines().next(), Some(SESSION));
    let mut command = assert_cmd::Command::from_std(home.command(&["sessions", "import", "-"], &[]));
    let piped = command.write_stdin(chat(2)).output().unwrap();
    assert!(
        home.output_text(&piped).contains("stored standard input: 9 messages"),
        "{}",
        home.output_text(&piped)
    );
}

#[test]
fn p13_a_purge_shows_first_destroys_with_yes_and_leaves_a_receipt() {
    let home = stored();
    let spill = spilled(&home, now());
    let page = home.page(&[
        "sessions purge ses_5c",
        "sessions purge ses_5c --match (",
        "sessions purge ses_5c --match .*",
        "sessions purge ses_5c --match nothing.like.it",
        "sessions purge ses_5c --match line.4321",
        "sessions purge ses_5c --match unused",
    ]);
    assert_page!(page.replace(&spill, "[SPILL]"));
    let part = "prt_fixed000000300CDEFGHIJKLMN";
    assert!(home.run(&["recall", part]).contains("unused"), "nothing was destroyed by looking");
    let done = home.json(&["sessions", "purge", "ses_5c", "--match", "unused|line 4321", "--yes", "--json"]);
    assert_eq!(done["receipt"]["plan"]["spills"], json!([spill]));
    let printed = home.run(&["recall", part]);
    assert!(printed.contains("[purged]") && !printed.contains("unused"), "{printed}");
    let receipt = done["receipt"]["id"].as_str().unwrap();
    assert!(home.run(&["undo", receipt]).contains("cannot be undone"));
    let found = |needle: &str| {
        let directory = home.path.join(".local/share/plimsoll");
        let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let has = |path: &std::path::PathBuf| {
            let bytes = std::fs::read(path).unwrap_or_default();
            bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
        };
        files.filter(has).count()
    };
    assert_eq!((found("warning: unused"), found("line 4321")), (0, 0));
    assert!(home.run(&["sessions", "check"]).contains("no problems"));
}

#[test]
fn weighing_a_session_stores_all_counts_and_the_next_command_counts_nothing() {
    for command in [
        &["inspect", "ses_5c", "--json"][..],
        &["window", "ses_5c", "--json"],
        &["prune", "ses_5c", "--json"],
        &["compact", "ses_5c", "--json"],
        &["compact", "--offline", "ses_5c", "--json"],
    ] {
        let home = home();
        assert!(home.run(&["sessions", "import", "session.json"]).starts_with("exit: 0"));
        assert_eq!(home.stored_counts(), [None; 8]);
        let run = || {
            let mut printed = home.json(command);
            // Drawn at random for each summary.
            if let Some(plan) = printed.get_mut("plan").and_then(Value::as_object_mut) {
                plan.shift_remove("marker");
            }
            printed
        };
        let first = run();
        let counts = home.stored_counts();
        assert!(
            counts.iter().all(|count| count.is_some_and(|tokens| tokens.0 > 8_000)),
            "{command:?}: {counts:?}"
        );
        assert_eq!(run(), first);
    }
}

/// Checks the output before all of it is read, so that the process is still running.
#[cfg(target_os = "linux")]
#[test]
fn an_export_holds_little_of_a_large_session() {
    use std::io::Read;
    let peak_of = |outputs: usize| {
        let home = Home::new().with("project/chat.json", &chat(outputs));
        assert!(home.run(&["sessions", "import", "chat.json"]).starts_with("exit: 0"));
        let id = home.archive().store().sessions(&Default::default()).unwrap()[0].id.to_string();
        let mut command = home.command(&["sessions", "export", &id], &[]);
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        // Each output has 40 kB, of which some wait in the pipe.
        output.read_exact(&mut vec![0; 40_000 * outputs - 200_000]).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: usize = peak.trim().trim_end_matches(" kB").parse().unwrap();
        std::io::copy(&mut output, &mut std::io::sink()).unwrap();
        assert!(child.wait().unwrap().success());
        peak
    };
    let (small, large) = (peak_of(10), peak_of(300));
    assert!(large < small + 5_000, "{small} kB for 400 kB of outputs, {large} kB for 12 MB");
}
