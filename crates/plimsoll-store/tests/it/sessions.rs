//! Sessions, messages, parts.

use plimsoll::log::ToolTime;
use plimsoll::{Millis, Part, SessionId, Text, Tokens, ToolState, Usage};
use plimsoll_store::{Filter, Logs, MemoryStore, NewSession, PageRequest, SessionPatch, Store, StoreError};
use rstest::rstest;
use serde_json::json;

use super::{NOW, answer, begun, fresh, ids, json_of, read, session, unleased, user};

#[test]
fn appended_messages_are_read_back() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    let messages = vec![user("msg_1", "hello"), read("msg_2", "contents"), answer("msg_3", "done")];
    store.append(&unleased(&id), messages.clone(), NOW).unwrap();
    assert_eq!(json_of(&store.window(&id).unwrap()), json_of(&messages));
    assert_eq!(json_of(&store.again().window(&id).unwrap()), json_of(&messages), "another process sees it");
    let known = store.session(&id).unwrap();
    assert_eq!((known.messages, known.updated), (3, NOW));
}

#[test]
fn a_session_knows_its_usage_cost_and_model() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    let mut message = answer("msg_1", "hi");
    message.info.model_id = Some("claude-opus-4-6".into());
    message.info.tokens = Some(Usage::new(Tokens(10), Tokens(3)));
    message.info.cost = serde_json::Number::from_f64(0.25);
    store.append(&unleased(&id), vec![message, answer("msg_2", "open")], NOW).unwrap();
    store
        .finish(&unleased(&id), &"msg_2".into(), "stop", Some(Usage::new(Tokens(5), Tokens(1))), NOW)
        .unwrap();
    let known = store.session(&id).unwrap();
    assert_eq!((known.usage.input, known.usage.output), (Tokens(15), Tokens(4)));
    assert_eq!((known.cost, known.model.as_deref()), (0.25, Some("claude-opus-4-6")));
    let message = store.message(&id, &"msg_2".into()).unwrap();
    assert_eq!(message.info.finish.as_deref(), Some("stop"));
}

#[test]
fn messages_are_accepted_or_rejected_together() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    store.append(&unleased(&id), vec![user("msg_1", "a")], NOW).unwrap();
    let error =
        store.append(&unleased(&id), vec![user("msg_2", "b"), user("msg_1", "again")], NOW).unwrap_err();
    assert_eq!(error.to_string(), "message `msg_1` already exists in this log");
    assert_eq!(ids(&store.window(&id).unwrap()), ["msg_1"]);
    let error = store.append(&unleased(&"ses_none".into()), vec![user("msg_9", "b")], NOW).unwrap_err();
    assert_eq!(error.to_string(), "session `ses_none` not found");
    let other = NewSession { title: "another".into(), ..NewSession::new(id) };
    let error = store.create(other, NOW).unwrap_err();
    assert_eq!(error.to_string(), "session `ses_1` already exists in this log");
}

#[test]
fn a_clock_that_jumps_back_does_not_change_the_order() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    for (name, at) in
        [("msg_a", 5_000), ("msg_c", 1_000), ("msg_b", 1_000), ("msg_d", 9_000), ("msg_0", 9_000)]
    {
        store.append(&unleased(&id), vec![user(name, "x").at(Millis(at))], Millis(at)).unwrap();
    }
    assert_eq!(ids(&store.window(&id).unwrap()), ["msg_a", "msg_c", "msg_b", "msg_d", "msg_0"]);
}

#[test]
fn a_part_grows_and_a_call_advances_and_nothing_else_changes() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    store.append(&unleased(&id), vec![user("msg_1", "go"), begun("msg_2", "I ")], NOW).unwrap();
    store.advance(&unleased(&id), Part::text("msg_2.1".into(), "I will"), NOW).unwrap();
    let error = store.advance(&unleased(&id), Part::text("msg_2.1".into(), "I did"), NOW).unwrap_err();
    assert!(error.to_string().contains("text may only grow"), "{error}");
    let asked =
        Part::tool("prt_call".into(), "call_1", "bash", ToolState::pending(json!({ "command": "ls" })));
    store.append_part(&unleased(&id), &"msg_2".into(), asked, NOW).unwrap();
    let mut state = ToolState::completed(json!({ "command": "ls" }), "README.md");
    state.time = ToolTime::ran(NOW, Millis(NOW.0 + 5));
    store.advance(&unleased(&id), Part::tool("prt_call".into(), "call_1", "bash", state), NOW).unwrap();
    let error = store
        .advance(
            &unleased(&id),
            Part::tool("prt_call".into(), "call_1", "bash", ToolState::failed(json!({}), "no")),
            NOW,
        )
        .unwrap_err();
    assert!(error.to_string().contains("the input and result of a finished call cannot change"), "{error}");
    let message = store.message(&id, &"msg_2".into()).unwrap();
    assert_eq!(message.text(), "I will");
    assert_eq!(message.parts[1].as_tool().unwrap().state.output.as_deref(), Some("README.md"));
    assert_eq!(store.part(&id, &"prt_call".into()).unwrap(), message.parts[1]);
    assert!(matches!(store.part(&id, &"prt_none".into()), Err(StoreError::Missing { .. })));
}

/// A finished message accepts nothing more, except the answers to its calls.
#[rstest]
fn a_finished_message_accepts_no_parts(#[values(false, true)] real: bool) {
    let (fresh, memory) = (fresh(), MemoryStore::new());
    let store: &dyn Store = if real { &*fresh } else { &memory };
    let id = session(store, "ses_1");
    let call = |state| Part::tool("prt_call".into(), "call_1", "bash", state);
    let mut asking = begun("msg_1", "let me see");
    asking.parts.push(call(ToolState::pending(json!({}))));
    store.append(&unleased(&id), vec![asking], NOW).unwrap();
    store.finish(&unleased(&id), &"msg_1".into(), "tool-calls", None, NOW).unwrap();
    let before = store.message(&id, &"msg_1".into()).unwrap();
    let error =
        store.append_part(&unleased(&id), &"msg_1".into(), Part::text("late".into(), "x"), NOW).unwrap_err();
    assert_eq!(error.to_string(), "message `msg_1` is finished: it takes no more parts");
    let error =
        store.advance(&unleased(&id), Part::text("msg_1.1".into(), "let me see it"), NOW).unwrap_err();
    assert_eq!(error.to_string(), "message `msg_1` is finished: its parts grow no more");
    let error = store.finish(&unleased(&id), &"msg_1".into(), "stop", None, NOW).unwrap_err();
    assert!(error.to_string().contains("another finish reason recorded"), "{error}");
    assert_eq!(store.message(&id, &"msg_1".into()).unwrap(), before);
    store.advance(&unleased(&id), call(ToolState::completed(json!({}), "README.md")), NOW).unwrap();
    let part = store.part(&id, &"prt_call".into()).unwrap();
    assert_eq!(part.as_tool().unwrap().state.output.as_deref(), Some("README.md"));
}

#[rstest]
fn parts_advance_together_or_not_at_all(#[values(false, true)] real: bool) {
    let (fresh, memory) = (fresh(), MemoryStore::new());
    let store: &dyn Store = if real { &*fresh } else { &memory };
    let id = session(store, "ses_1");
    let call = |n: usize, state| {
        Part::tool(plimsoll::PartId::new(format!("prt_{n}")), format!("call_{n}"), "bash", state)
    };
    let mut asking = begun("msg_1", "let me see");
    asking.parts.extend((0..3).map(|n| call(n, ToolState::pending(json!({})))));
    store.append(&unleased(&id), vec![asking], NOW).unwrap();
    let before = (store.message(&id, &"msg_1".into()).unwrap(), store.session(&id).unwrap().revision);
    let failed = |n: usize| call(n, ToolState::failed(json!({}), "not run"));
    let missing = vec![failed(0), failed(1), failed(9)];
    assert!(store.advance_all(&unleased(&id), missing, NOW).is_err());
    let after = (store.message(&id, &"msg_1".into()).unwrap(), store.session(&id).unwrap().revision);
    assert_eq!(after, before);
    let changes = store.newest_change().unwrap();
    store.advance_all(&unleased(&id), (0..3).map(failed).collect(), NOW).unwrap();
    assert_eq!(store.session(&id).unwrap().revision.0, before.1.0 + 1, "one revision");
    let page = store.changes(changes, 10).unwrap().changes;
    let parts: Vec<&str> = page.iter().filter_map(|change| Some(change.part.as_ref()?.as_str())).collect();
    assert_eq!(parts, ["prt_0", "prt_1", "prt_2"]);
    store.advance_all(&unleased(&id), (0..3).map(failed).collect(), NOW).unwrap();
    assert_eq!(store.session(&id).unwrap().revision.0, before.1.0 + 1, "again changes nothing");
}

#[test]
fn odd_text_survives() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    for (at, text) in ["", " ", "\0", "a\u{0}b", "🚢\u{10ffff}", "\r\n\u{2028}", "{\"json\": \"\\u0000\"}"]
        .iter()
        .enumerate()
    {
        let name = format!("msg_{at}");
        store
            .append(&unleased(&id), vec![user(&name, text), read(&format!("msg_{at}r"), *text)], NOW)
            .unwrap();
        assert_eq!(store.message(&id, &name.as_str().into()).unwrap().text(), *text);
        let part = store.part(&id, &format!("msg_{at}r.1").as_str().into()).unwrap();
        assert_eq!(part.as_tool().unwrap().state.output, Some(Text::from(*text)));
    }
}

#[test]
fn bad_values_survive() {
    let json = json!([
        { "info": { "id": "msg_1", "role": null, "finish": 7, "time": { "created": 1.5 },
            "tokens": { "input": -1, "output": 2, "cache": { "read": "x", "write": 3 } }, "cost": "free" },
          "parts": [
            { "id": "prt_1", "type": "text", "text": null },
            { "id": "prt_2", "type": "tool", "callID": 3, "tool": "bash", "state": "gone" },
            { "id": "prt_3", "type": "tool", "callID": "c", "tool": "bash", "state": {
                "status": "completed", "input": {}, "output": 5, "time": { "start": 1, "end": null } } },
            { "id": "prt_4", "type": 7 },
            "no part",
            { "type": "tool_use", "id": "toolu_1", "name": "bash", "input": {} }
          ] },
        { "info": { "id": "msg_2", "role": "user" }, "parts": 8 }
    ]);
    let log = plimsoll::Log::from_messages(plimsoll::Message::read_all(&json.to_string()).unwrap());
    let store = fresh();
    let id = session(&*store, "ses_1");
    store.append(&unleased(&id), log.messages().to_vec(), NOW).unwrap();
    let kept = store.again().window(&id).unwrap();
    assert_eq!(kept.messages(), log.messages());
    assert_eq!(json_of(&kept), json_of(&log));
    assert_eq!(json_of(&kept)[0]["info"]["time"]["created"], 1.5);
    assert_eq!(json_of(&kept)[0]["parts"][4], "no part");
}

#[test]
fn sessions_are_listed_newest_first() {
    let store = fresh();
    for (id, directory, parent, at) in [
        ("ses_1", "/a", None, 1),
        ("ses_2", "/b", None, 2),
        ("ses_3", "/a", Some("ses_1"), 3),
        ("ses_4", "/a", None, 4),
    ] {
        let new = NewSession {
            directory: Some(directory.into()),
            parent: parent.map(SessionId::new),
            ..NewSession::new(SessionId::new(id))
        };
        store.create(new, Millis(at)).unwrap();
    }
    let listed = |filter: Filter| {
        let sessions = store.sessions(&filter).unwrap();
        sessions.into_iter().map(|session| session.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed(Filter::default()), ["ses_4", "ses_2", "ses_1"]);
    assert_eq!(listed(Filter { directory: Some("/a".into()), ..Filter::default() }), ["ses_4", "ses_1"]);
    assert_eq!(listed(Filter { parent: Some("ses_1".into()), ..Filter::default() }), ["ses_3"]);
    assert_eq!(listed(Filter { all: true, most: Some(2), ..Filter::default() }), ["ses_4", "ses_3"]);
    store
        .patch(
            &unleased(&"ses_1".into()),
            SessionPatch { title: Some("New".into()), ..SessionPatch::default() },
            Millis(9),
        )
        .unwrap();
    assert_eq!(listed(Filter::default()), ["ses_1", "ses_4", "ses_2"]);
    assert_eq!(store.session(&"ses_1".into()).unwrap().title, "New");
}

#[test]
fn settings_are_replaced_as_a_whole_and_not_inherited_by_forks() {
    let (sqlite, memory) = (fresh(), MemoryStore::default());
    for store in [&*sqlite as &dyn Store, &memory] {
        let settings = |value: serde_json::Value| value.as_object().unwrap().clone();
        let id = SessionId::new("ses_1");
        let first = settings(serde_json::json!({ "permission": [{ "action": "deny" }], "archived": 5 }));
        let new = NewSession { settings: first.clone(), ..NewSession::new(id.clone()) };
        assert_eq!(store.create(new, NOW).unwrap().settings, first);
        assert_eq!(store.session(&id).unwrap().settings, first);
        let patch = |settings| SessionPatch { settings: Some(settings), ..SessionPatch::default() };
        let second = settings(serde_json::json!({ "archived": 6 }));
        assert_eq!(store.patch(&unleased(&id), patch(second.clone()), NOW).unwrap().settings, second);
        let title = SessionPatch { title: Some("New".into()), ..SessionPatch::default() };
        assert_eq!(store.patch(&unleased(&id), title, NOW).unwrap().settings, second);
        let fork = store.fork(&id, None, NewSession::new("ses_2".into()), NOW).unwrap();
        assert!(fork.settings.is_empty());
        let listed = store.sessions(&Filter::default()).unwrap();
        assert!(listed.iter().any(|session| session.settings == second));
        assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
        assert!(store.patch(&unleased(&id), patch(serde_json::Map::new()), NOW).unwrap().settings.is_empty());
    }
}

#[test]
fn pages_start_at_either_end() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    let messages = (0..25).map(|n| user(&format!("msg_{n:02}"), "x")).collect();
    store.append(&unleased(&id), messages, NOW).unwrap();
    let mut seen = Vec::new();
    let mut from = None;
    loop {
        let page = store.page(&id, &PageRequest { from, most: 10, oldest_first: false }).unwrap();
        seen.push(ids(&page.messages));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5]);
    assert_eq!((seen[0][0].as_str(), seen[2][4].as_str()), ("msg_24", "msg_00"));
    let page =
        store.page(&id, &PageRequest { from: Some("msg_20".into()), most: 3, oldest_first: true }).unwrap();
    assert_eq!(ids(&page.messages), ["msg_21", "msg_22", "msg_23"]);
    assert_eq!(page.next, Some("msg_23".into()));
}

#[test]
fn a_closed_database_is_one_file() {
    let store = fresh();
    let id = session(&*store, "ses_1");
    store.append(&unleased(&id), vec![user("msg_1", "hello")], NOW).unwrap();
    assert_eq!(store.window(&id).unwrap().len(), 1);
    let path = store.path();
    let super::Fresh { store, directory, .. } = store;
    drop(store);
    let copy = directory.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    assert!(!path.with_extension("db-wal").exists() && !path.with_extension("db-shm").exists());
    let copied = plimsoll_store::SqliteStore::open(copy, plimsoll_store::Durability::Process).unwrap();
    assert_eq!(ids(&copied.window(&id).unwrap()), ["msg_1"]);
}

#[rstest]
fn long_lists_come_in_pages(#[values(false, true)] real: bool) {
    let (fresh, memory) = (fresh(), MemoryStore::new());
    let store: &dyn Store = if real { &*fresh } else { &memory };
    for n in 0..7 {
        store.create(NewSession::new(SessionId::new(format!("ses_{}{n}", n % 2))), Millis(n)).unwrap();
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = store.sessions(&Filter { most: Some(3), after, ..Filter::default() }).unwrap();
        after = page.last().map(|session| session.id.clone());
        seen.push(page.into_iter().map(|session| session.id.to_string()).collect::<Vec<_>>());
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen[0], ["ses_06", "ses_15", "ses_04"]);
    assert_eq!(seen.concat().len(), 7);
    let like = |prefix: &str, most| -> Vec<String> {
        store.sessions_like(prefix, most).unwrap().into_iter().map(|session| session.id.to_string()).collect()
    };
    assert_eq!(like("ses_1", 10), ["ses_11", "ses_13", "ses_15"]);
    assert_eq!(like("ses_1", 2), ["ses_11", "ses_13"]);
    assert_eq!(like("ses_2", 2), Vec::<String>::new());
}

#[test]
fn a_session_begins_with_its_messages_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let real =
        plimsoll_store::SqliteStore::open(directory.path().join("p.db"), plimsoll_store::Durability::Process);
    let real = real.unwrap();
    let stores: [&dyn plimsoll_store::Store; 2] = [&plimsoll_store::MemoryStore::new(), &real];
    for store in stores {
        let said = |id: &str, part: &str| plimsoll::Message::user(id.into(), part.into(), "hello");
        let new = |id: &str, messages| NewSession { messages, ..NewSession::new(id.into()) };
        let begun = store.create(new("ses_1", vec![said("m1", "p1"), said("m2", "p2")]), NOW).unwrap();
        assert_eq!((begun.messages, begun.revision), (2, plimsoll_store::Revision(1)));
        // Repeating the call changes nothing.
        let again = store.create(new("ses_1", vec![said("m1", "p1"), said("m2", "p2")]), NOW).unwrap();
        assert_eq!(again, begun);
        assert!(store.create(new("ses_2", vec![said("m1", "p1"), said("m1", "p2")]), NOW).is_err());
        assert!(store.session(&"ses_2".into()).is_err(), "nothing of it");
        let child = store.fork(&"ses_1".into(), None, new("ses_3", vec![said("m3", "p3")]), NOW).unwrap();
        assert_eq!(child.messages, 1);
        let texts: Vec<_> =
            store.window(&"ses_3".into()).unwrap().iter().map(|m| m.info.id.to_string()).collect();
        assert_eq!(texts, ["m1", "m2", "m3"]);
        assert!(store.fork(&"ses_1".into(), None, new("ses_4", vec![said("m2", "p9")]), NOW).is_err());
        assert!(store.session(&"ses_4".into()).is_err(), "an inherited name is taken");
    }
}

/// An export reads a session several times, and must see the same each time.
#[test]
fn a_reader_sees_a_session_at_one_moment_however_often_it_reads() {
    let database = fresh();
    let memory = plimsoll_store::MemoryStore::new();
    for store in [&*database as &dyn Store, &memory] {
        let id = session(store, "ses_1");
        store.append(&unleased(&id), vec![user("msg_1", "one"), begun("msg_2", "two")], NOW).unwrap();
        let mut runs = Vec::new();
        let read = store.read_session(&id, &mut |reader| {
            for run in 0..3 {
                let mut texts = Vec::new();
                reader.each(&mut |message| texts.push(message.text()))?;
                runs.push(texts);
                store.extend(&unleased(&id), &"msg_2.1".into(), 3 + run, "!", NOW)?;
            }
            assert!(reader.damage()?.is_empty());
            Ok(())
        });
        read.unwrap();
        assert_eq!(runs, vec![["one", "two"]; 3]);
        let request = PageRequest { from: None, oldest_first: true, most: 10 };
        assert_eq!(store.page(&id, &request).unwrap().messages[1].text(), "two!!!");
    }
}
