//! Content that left the window is returned byte for byte, to those who may see it.

use plimsoll::prune::{Cleared, PruneItem, PrunePlan};
use plimsoll::receipt::Stamp;
use plimsoll::{Part, Plan, Policy, Reduction, SessionId, Tokens, ToolState};
use plimsoll_store::{NewSession, Scope, Search, Selection, StoreError};
use serde_json::json;
use tempfile::TempDir;

use super::super::{NOW, answer, read, session, unleased, user};
use super::{all, noise, open, take, whole};

fn missing(error: &StoreError) {
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
}

fn text(archive: &plimsoll_store::Archive, scope: Scope<'_>, handle: &str) -> Result<String, StoreError> {
    archive.recall(scope, handle, &all()).map(|recalled| recalled.found.text())
}

#[test]
fn a_session_reaches_only_its_own_and_inherited_content() {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let store = archive.store();
    let (parent, stranger) = (session(store, "ses_1"), session(store, "ses_2"));
    let spilled = take(&archive, &parent, "msg_1r.1", &noise(3_000, 1));
    store.append(&unleased(&parent), vec![user("msg_1", "shared"), read("msg_1r", "cut")], NOW).unwrap();
    let fork = store.fork(&parent, None, NewSession::new("ses_3".into()), NOW).unwrap().id;
    store.append(&unleased(&parent), vec![user("msg_2", "later"), read("msg_2r", "cut")], NOW).unwrap();
    let later = take(&archive, &parent, "msg_2r.1", &noise(3_000, 2));
    store.append(&unleased(&fork), vec![user("msg_3", "own")], NOW).unwrap();
    let own = take(&archive, &fork, "msg_3.9", &noise(3_000, 3));
    for handle in ["msg_1", "msg_1.1", "msg_1..msg_1r", &spilled, "msg_3.1", &own] {
        text(&archive, Scope::Session(&fork), handle).unwrap_or_else(|error| panic!("{handle}: {error}"));
    }
    for handle in ["msg_2", "msg_2.1", &later, "msg_1..msg_2"] {
        missing(&text(&archive, Scope::Session(&fork), handle).unwrap_err());
        missing(&text(&archive, Scope::Session(&stranger), handle).unwrap_err());
    }
    let found = archive.recall(Scope::Everywhere, &later, &all()).unwrap();
    assert_eq!((found.session.as_str(), found.what.as_str()), ("ses_1", "output of bash"));
    assert_eq!(archive.recall(Scope::Everywhere, "msg_3.1", &all()).unwrap().session, fork);
    // The parent is removed; what was inherited is not.
    archive.remove(&unleased(&parent), NOW).unwrap();
    archive.sweep(NOW).unwrap();
    for handle in ["msg_1", "msg_1.1", "msg_1..msg_1r", &spilled] {
        text(&archive, Scope::Session(&fork), handle).unwrap_or_else(|error| panic!("{handle}: {error}"));
    }
    missing(&text(&archive, Scope::Session(&fork), &later).unwrap_err());
}

#[test]
fn a_task_reaches_what_its_digest_names_even_after_its_parent_was_removed() {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let store = archive.store();
    let parent = session(store, "ses_1");
    store.append(&unleased(&parent), vec![user("msg_1", "the plan"), read("msg_2", "cut")], NOW).unwrap();
    let spilled = take(&archive, &parent, "msg_2.1", &noise(3_000, 1));
    let task = |id: &str, parent: &str| {
        let new = NewSession { parent: Some(parent.into()), ..NewSession::new(id.into()) };
        store.create(new, NOW).unwrap().id
    };
    let child = task("ses_2", "ses_1");
    let grandchild = task("ses_3", "ses_2");
    store.append(&unleased(&child), vec![answer("msg_3", "digest: recall msg_1")], NOW).unwrap();
    store.finish(&unleased(&child), &"msg_3".into(), "stop", None, NOW).unwrap();
    let sibling = task("ses_4", "ses_1");
    store.append(&unleased(&sibling), vec![user("msg_4", "of another")], NOW).unwrap();
    for id in [&child, &grandchild] {
        assert_eq!(text(&archive, Scope::Session(id), "msg_1.1").unwrap(), "the plan");
        text(&archive, Scope::Session(id), &spilled).unwrap();
        missing(&text(&archive, Scope::Session(id), "msg_4").unwrap_err());
    }
    // A fork of the child stays when the parent is removed with the child.
    let fork = store.fork(&child, None, NewSession::new("ses_5".into()), NOW).unwrap().id;
    archive.remove(&unleased(&parent), NOW).unwrap();
    archive.sweep(NOW).unwrap();
    assert!(store.session(&child).is_err());
    assert_eq!(text(&archive, Scope::Session(&fork), "msg_1.1").unwrap(), "the plan");
    assert_eq!(text(&archive, Scope::Session(&fork), "msg_3.1").unwrap(), "digest: recall msg_1");
    text(&archive, Scope::Session(&fork), &spilled).unwrap();
    assert_eq!(archive.check().unwrap().problems, Vec::<String>::new());
    // Everything is removed with the last session that needs it.
    archive.remove(&unleased(&fork), NOW).unwrap();
    assert!(super::super::blobs(directory.path()).is_empty());
    let found = store.find_handles(Scope::Everywhere, "msg_1", 9).unwrap();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn an_unambiguous_prefix_of_a_handle_is_enough() {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let id = session(archive.store(), "ses_1");
    let messages = vec![user("msg_aa1", "one"), user("msg_aa2", "two"), user("msg_b", "three")];
    archive.store().append(&unleased(&id), messages, NOW).unwrap();
    let handle = take(&archive, &id, "prt_1", &noise(3_000, 1));
    for scope in [Scope::Session(&id), Scope::Everywhere] {
        let error = archive.recall(scope, "msg_a", &all()).unwrap_err();
        let StoreError::Ambiguous { candidates, .. } = &error else { panic!("{error}") };
        assert_eq!(candidates[..], ["msg_aa1.1", "msg_aa2.1", "msg_aa1", "msg_aa2"]);
        assert_eq!(archive.recall(scope, &handle[..9], &all()).unwrap().handle, handle);
        // An exact id wins over ids that start with it.
        assert_eq!(archive.recall(scope, "msg_b", &all()).unwrap().what, "message");
        assert_eq!(archive.recall(scope, "msg_b.", &all()).unwrap().handle, "msg_b.1");
        missing(&archive.recall(scope, "msg_c", &all()).unwrap_err());
        missing(&archive.recall(scope, "%", &all()).unwrap_err());
    }
}

#[test]
fn recalled_content_is_byte_for_byte_what_was_stored() {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let id = session(archive.store(), "ses_1");
    let text = "one\r\ntwo\n\n\nthree";
    archive.store().append(&unleased(&id), vec![user("msg_1", text)], NOW).unwrap();
    assert_eq!(whole(&archive, Scope::Session(&id), "msg_1.1").unwrap(), text.as_bytes());
    assert_eq!(super::recall::text(&archive, Scope::Session(&id), "msg_1.1").unwrap(), text);
    let mut bytes: Vec<u8> = (0..=255u8).cycle().take(300_000).collect();
    bytes.extend(b"\r\nlast \xff\r\n");
    let (claim, policy) = (unleased(&id), plimsoll::Policy::default());
    let taken = archive.take_output(&claim, &"prt_1".into(), "bash", &mut &bytes[..], &policy, NOW).unwrap();
    let handle = super::handle(taken);
    assert!(whole(&archive, Scope::Session(&id), &handle).unwrap() == bytes);
    let lines = archive.recall(Scope::Everywhere, &handle, &Selection::default()).unwrap().found;
    assert!(lines.lossy && lines.all_lines > 1_000);
    let last = lines.all_lines;
    let mut raw = Vec::new();
    archive.copy_to(Scope::Everywhere, &handle, Some((last, last)), &mut raw).unwrap();
    assert_eq!(raw, b"last \xff\r\n");
}

#[test]
fn a_search_covers_the_inputs_of_tools() {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let id = session(archive.store(), "ses_1");
    let input = json!({ "command": "grep \"needle\" src\nmake all", "timeout": 5 });
    let call = Part::tool("prt_1".into(), "call_1", "bash", ToolState::completed(input, "no luck"));
    let mut asked = plimsoll::Message::assistant("msg_2".into(), vec![call]);
    asked.info.finish = Some("tool-calls".into());
    archive.store().append(&unleased(&id), vec![user("msg_1", "look"), asked], NOW).unwrap();
    super::super::search::compact(archive.store(), &id, 1, None);
    for indexed in [false, true] {
        if indexed {
            assert!(archive.store().index().unwrap() > 0);
        }
        for (pattern, line) in [("\"needle\"", 1), ("make all", 2), ("timeout: 5", 3), ("command: grep", 1)] {
            let search = Search { pattern: pattern.into(), literal: true, ..Search::default() };
            let wanted = Selection { search: Some(search), ..Selection::default() };
            let hits = archive.search(&id, &wanted).unwrap();
            let found: Vec<_> =
                hits.iter().map(|hit| (hit.handle.as_str(), hit.found.lines[0].number)).collect();
            assert_eq!(found, [("prt_1:input", line)], "{pattern}, indexed: {indexed}");
        }
    }
    let input = text(&archive, Scope::Session(&id), "prt_1:input").unwrap();
    assert_eq!(input, "command: grep \"needle\" src\nmake all\ntimeout: 5");
    assert_eq!(text(&archive, Scope::Session(&id), "prt_1").unwrap(), "no luck");
}

#[test]
fn a_cleared_input_is_found_and_recalled_and_its_output_stays_in_view() {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let memory = plimsoll_store::Archive::in_memory();
    for archive in [&archive, &memory] {
        let id = session(archive.store(), "ses_1");
        let input = json!({ "filePath": "src/lib.rs", "content": "fn needle() {}\n".repeat(100) });
        let call =
            Part::tool("prt_1".into(), "call_1", "write", ToolState::completed(input, "needle written"));
        let mut asked = plimsoll::Message::assistant("msg_2".into(), vec![call]);
        asked.info.finish = Some("tool-calls".into());
        archive.store().append(&unleased(&id), vec![user("msg_1", "write"), asked], NOW).unwrap();
        let mut item = PruneItem::output("prt_1".into(), "msg_2".into(), "write", Tokens(1));
        (item.what, item.names) = (Cleared::Input, "needle".into());
        let plan = Plan::Prune(PrunePlan::of(vec![item]));
        let mut log = archive.store().window(&id).unwrap().log;
        let (policy, mut ids) = (Policy::default(), plimsoll_store::random_ids());
        let stamp = Stamp { ids: &mut ids, now: NOW, policy: &policy, reason: "a test" };
        let weigh = |log: &plimsoll::Log| Tokens(u64::from(!log[1].parts[0].is_reduced()));
        let receipt = plan.apply(&mut log, stamp, weigh).unwrap().unwrap();
        let reduction = Reduction { receipts: vec![receipt], ..Reduction::default() };
        archive.store().reduce(&unleased(&id), reduction, None, NOW).unwrap();
        let part = archive.store().part(&id, &"prt_1".into()).unwrap();
        assert_eq!(part.names_of_input().map(|names| names.as_str()), Some("needle"));
        let search = Search { pattern: "needle".into(), literal: true, ..Search::default() };
        let wanted = Selection { search: Some(search), ..Selection::default() };
        let handles: Vec<String> =
            archive.search(&id, &wanted).unwrap().into_iter().map(|hit| hit.handle).collect();
        assert_eq!(handles, ["prt_1:input"], "the output is still in the window");
        let input = text(archive, Scope::Session(&id), "prt_1:input").unwrap();
        assert!(input.starts_with("filePath: src/lib.rs\ncontent: fn needle() {}"), "{input}");
    }
}

/// A handle is found by index, however many sessions there are.
#[test]
fn a_handle_is_found_without_reading_every_session() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plimsoll.db");
    let archive = open(&path);
    let id = session(archive.store(), "ses_1");
    archive.store().append(&unleased(&id), vec![user("msg_1", "here")], NOW).unwrap();
    let plans = ["part", "message"].map(|table| {
        let sql = format!(
            "EXPLAIN QUERY PLAN SELECT x.id, s.id FROM {table} x JOIN session s ON s.key = x.session
             WHERE x.id BETWEEN ?1 AND ?2
             ORDER BY x.id, s.removed IS NOT NULL, s.updated DESC, s.key DESC LIMIT 1000"
        );
        let connection = rusqlite::Connection::open(&path).unwrap();
        let mut statement = connection.prepare(&sql).unwrap();
        let steps = statement.query_map(["msg_1", "msg_2"], |row| row.get::<_, String>(3)).unwrap();
        steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    });
    for plan in plans {
        assert!(plan.starts_with("SEARCH x USING") && plan.contains("(id>? AND id<?)"), "{plan}");
    }
    let other = SessionId::new("ses_1");
    assert_eq!(archive.recall(Scope::Everywhere, "msg_1.1", &all()).unwrap().session, other);
}
