//! Purged content is in no file of the store.

use std::path::Path;
use std::process::Command;

use plimsoll::log::CompactionPart;
use plimsoll::pin::{self, PinTarget};
use plimsoll::prune::{PruneItem, PrunePlan};
use plimsoll::receipt::Stamp;
use plimsoll::{Message, Part, PartBody, Plan, Policy, Reduction, Tokens, ToolState, Window};
use plimsoll_store::{
    Archive, Claim, Durability, MemoryStore, NewSession, PurgeTarget, Scope, Search, Selection, Store,
};
use serde_json::json;
use tempfile::TempDir;

use super::super::search::compact;
use super::super::{NOW, answer, fresh, read, session, unleased, user};
use super::{noise, open, take, whole};

const SECRET: &str = "hunter2-correct-horse";

/// The files below a directory that contain a text, compressed ones included.
fn files_with(directory: &Path, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(files_with(&path, needle));
            continue;
        }
        let Ok(raw) = std::fs::read(&path) else { continue };
        let unpacked = zstd::decode_all(&raw[..]).unwrap_or_default();
        let has = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
        if has(&raw) || has(&unpacked) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// A session with a secret in every possible place.
fn with_secrets(directory: &Path) -> Archive {
    let path = directory.join("plimsoll.db");
    let archive = open(&path);
    let store = archive.store();
    let title = format!("debug {SECRET}");
    let id = store.create(NewSession { title, ..NewSession::new("ses_1".into()) }, NOW).unwrap().id;
    let claim = unleased(&id);
    let input = json!({ "command": format!("curl -u me:{SECRET} x"), "headers": { SECRET: [SECRET] } });
    let state = ToolState::completed(input, format!("401\n{SECRET}\nbye"));
    let call = Part::tool("prt_call".into(), "call_1", "bash", state);
    let mut ran = Message::assistant("msg_2".into(), vec![call]);
    ran.info.finish = Some("tool-calls".into());
    store.append(&claim, vec![user("msg_1", &format!("use {SECRET} please")), ran], NOW).unwrap();
    // A growing text: older versions of it are in free pages.
    for n in 0..20 {
        let text = format!("{SECRET} {}", noise(40, n));
        store.append(&claim, vec![user(&format!("msg_3{n:02}"), &text)], NOW).unwrap();
    }
    let output = format!("{}{SECRET}\n{}", noise(2_000, 1), noise(2_000, 2));
    take(&archive, &id, "prt_call", &output);
    compact(store, &id, 1, None);
    store.append(&claim, vec![user("msg_4", "harmless"), answer("msg_5", "fine")], NOW).unwrap();
    store.finish(&claim, &"msg_5".into(), "stop", None, NOW).unwrap();
    archive.sweep(NOW).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    std::fs::copy(&path, directory.join("plimsoll.db.v3.bak")).unwrap();
    archive
}

fn target() -> PurgeTarget {
    PurgeTarget::Match(r"hunter2-[a-z-]+".into())
}

#[test]
fn matches_are_listed_first_and_then_removed_from_every_file() {
    let directory = TempDir::new().unwrap();
    let archive = with_secrets(directory.path());
    let id = "ses_1".into();
    assert!(files_with(directory.path(), SECRET).len() >= 3);
    let report = archive.plan_purge(&id, &target()).unwrap();
    let handles: Vec<_> = report.items.iter().map(|item| item.handle.as_str()).collect();
    assert!(handles.contains(&"prt_call") && handles.contains(&"msg_1.1") && handles.contains(&"ses_1"));
    assert!(handles.iter().any(|handle| handle.starts_with("spill_")), "{handles:?}");
    assert!(!handles.contains(&"msg_4.1"));
    assert_eq!(report.copies.len(), 1);
    assert!(files_with(directory.path(), SECRET).len() >= 3, "nothing was changed by looking");
    let spill = handles.iter().find(|handle| handle.starts_with("spill_")).unwrap().to_string();
    let receipt = archive.purge(&unleased(&id), &target(), NOW).unwrap().receipt;
    assert_eq!(files_with(directory.path(), SECRET), Vec::<String>::new());
    let recalled = String::from_utf8(whole(&archive, Scope::Session(&id), "prt_call").unwrap()).unwrap();
    assert_eq!(recalled, "401\n[purged]\nbye", "the rest is there");
    let input = String::from_utf8(whole(&archive, Scope::Session(&id), "prt_call:input").unwrap()).unwrap();
    assert!(input.starts_with("command: curl -u me:[purged] x"), "{input}");
    assert!(whole(&archive, Scope::Session(&id), &spill).is_err());
    assert!(!receipt.can_undo() && !serde_json::to_string(&receipt).unwrap().contains("hunter2"));
    assert!(archive.store().undo(&unleased(&id), &receipt.id, NOW).is_err());
    assert_eq!(archive.store().receipts(&id, None, 100).unwrap().last().unwrap().id, receipt.id);
    assert_eq!(archive.check().unwrap().problems, Vec::<String>::new());
    archive.sweep(NOW).unwrap();
    let search = Search { pattern: "curl".into(), literal: true, ..Search::default() };
    let wanted = Selection { search: Some(search), ..Selection::default() };
    assert_eq!(archive.search(&id, &wanted).unwrap().len(), 1, "what is left can be searched");
    assert!(archive.plan_purge(&id, &target()).unwrap().items.is_empty());
}

/// Found by the property that compares both stores: an empty summary does not count, and a purge made it count.
#[test]
fn an_empty_summary_stays_empty_after_a_purge() {
    let (real, model) = (fresh(), MemoryStore::new());
    for store in [&*real as &dyn Store, &model] {
        let id = session(store, "ses_1");
        store.append(&unleased(&id), vec![user("msg_1", "go"), answer("msg_2", "gone")], NOW).unwrap();
        let mut marker = user("msg_3", "");
        marker.parts[0].body = PartBody::Compaction(CompactionPart::default());
        let mut blank = answer("msg_4", " \n ");
        (blank.info.summary, blank.info.parent_id) = (true, Some("msg_3".into()));
        blank.info.finish = Some("stop".into());
        let target = PurgeTarget::Part(blank.parts[0].id.clone());
        store.append(&unleased(&id), vec![marker, blank], NOW).unwrap();
        store.purge(&unleased(&id), &target, Vec::new(), NOW).unwrap();
        let window = Window::of(&store.window(&id).unwrap().log, &Policy::default());
        assert!(window.pivot.is_none() && serde_json::to_string(&window).unwrap().contains("gone"));
    }
}

#[test]
fn a_part_is_destroyed_as_a_whole_with_its_spill() {
    let directory = TempDir::new().unwrap();
    let archive = with_secrets(directory.path());
    let id = "ses_1".into();
    let target = PurgeTarget::Part("prt_call".into());
    let report = archive.plan_purge(&id, &target).unwrap();
    let handles: Vec<_> = report.items.iter().map(|item| item.handle.as_str()).collect();
    assert!(
        handles[0] == "prt_call" && handles[1].starts_with("spill_") && handles.len() == 2,
        "{handles:?}"
    );
    archive.purge(&unleased(&id), &target, NOW).unwrap();
    assert_eq!(whole(&archive, Scope::Session(&id), "prt_call").unwrap(), b"[purged]");
    assert!(files_with(directory.path(), "401\n").is_empty());
    let part = archive.store().part(&id, &"prt_call".into()).unwrap();
    assert_eq!(part.as_tool().unwrap().tool, "bash", "the call itself remains");
    let error = archive.plan_purge(&id, &PurgeTarget::Part("prt_none".into())).unwrap_err();
    assert_eq!(error.to_string(), "part `prt_none` not found");
}

#[test]
fn forks_lose_shared_content_and_are_listed() {
    let directory = TempDir::new().unwrap();
    let archive = with_secrets(directory.path());
    let store = archive.store();
    let fork = store.fork(&"ses_1".into(), None, NewSession::new("ses_2".into()), NOW).unwrap().id;
    let other = session(store, "ses_3");
    store.append(&unleased(&other), vec![user("msg_o", "unrelated")], NOW).unwrap();
    let report = archive.plan_purge(&fork, &target()).unwrap();
    assert_eq!(report.sessions, ["ses_1".into()]);
    let receipt = archive.purge(&unleased(&fork), &target(), NOW).unwrap().receipt;
    let plimsoll::Plan::Purge(plan) = &receipt.plan else { panic!("{receipt:?}") };
    assert_eq!(plan.sessions, ["ses_1".into()]);
    assert_eq!(files_with(directory.path(), SECRET), Vec::<String>::new());
    let found = whole(&archive, Scope::Session(&"ses_1".into()), "msg_1.1").unwrap();
    assert_eq!(found, b"use [purged] please");
    assert_eq!(archive.check().unwrap().problems, Vec::<String>::new());
}

/// A pin is quoted by its mark and its receipt, and by those of forks that pinned it themselves.
#[rstest::rstest]
fn a_pinned_text_is_purged_with_its_part(#[values(false, true)] by_part: bool) {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let store = archive.store();
    let id = session(store, "ses_1");
    let (secret, other) = (format!("never say {SECRET}"), "always say please");
    store.append(&unleased(&id), vec![user("msg_1", &secret), user("msg_2", other)], NOW).unwrap();
    let fork = store.fork(&id, None, NewSession::new("ses_2".into()), NOW).unwrap().id;
    for session in [&id, &fork] {
        for words in [&secret, other] {
            let (mut log, policy) = (store.window(session).unwrap().log, Policy::default());
            let plan =
                pin::plan(&log, &PinTarget::Words(words.into()), &policy, None, &policy.count).unwrap();
            let mut ids = plimsoll_store::random_ids();
            let receipt = plan.apply(&mut log, &mut ids, NOW, &policy, |_| Tokens(1)).unwrap();
            let reduction = Reduction { receipts: vec![receipt.clone()], ..Reduction::default() };
            store.reduce(&unleased(session), reduction, None, NOW).unwrap();
            if words == other {
                store.undo(&unleased(session), &receipt.id, NOW).unwrap();
            }
        }
    }
    let target = if by_part { PurgeTarget::Part("msg_1.1".into()) } else { target() };
    let report = archive.plan_purge(&id, &target).unwrap();
    let found = report.items.iter().map(|item| (item.session.as_str(), item.what.as_str()));
    let mut found: Vec<_> = found.collect();
    found.sort();
    let of = |session| [(session, "mark"), (session, "receipt")];
    let mut expected = [of("ses_1"), of("ses_2")].concat();
    expected.insert(2, ("ses_1", "text"));
    assert_eq!(found, expected);
    assert_eq!(archive.purge(&unleased(&id), &target, NOW).unwrap().unfinished, None);
    assert_eq!(files_with(directory.path(), SECRET), Vec::<String>::new());
    for session in [&id, &fork] {
        let kept = store.receipts(session, None, 100).unwrap();
        assert!(serde_json::to_string(&kept[1]).unwrap().contains(other), "what quotes others stays");
        let part = store.part(session, &"msg_1.1".into()).unwrap();
        assert!(part.pins().all(|text| text.contains("[purged]")), "{part:?}");
    }
    assert_eq!(archive.plan_purge(&id, &target).unwrap().items, []);
}

/// Names of a cleared output are quoted by its mark and its receipt.
#[rstest::rstest]
fn names_of_a_cleared_output_are_purged_with_it(#[values(false, true)] by_part: bool) {
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let store = archive.store();
    let id = session(store, "ses_1");
    let output = format!("the value is {SECRET}");
    store.append(&unleased(&id), vec![user("msg_1", "read"), read("msg_2", output.as_str())], NOW).unwrap();
    let mut item = PruneItem::output("msg_2.1".into(), "msg_2".into(), "read", Tokens(1));
    item.names = SECRET.into();
    let plan = Plan::Prune(PrunePlan::of(vec![item]));
    let mut log = store.window(&id).unwrap().log;
    let (policy, mut ids) = (Policy::default(), plimsoll_store::random_ids());
    let stamp = Stamp { ids: &mut ids, now: NOW, policy: &policy, reason: "a test" };
    let weigh = |log: &plimsoll::Log| Tokens(u64::from(!log[1].parts[0].is_reduced()));
    let receipt = plan.apply(&mut log, stamp, weigh).unwrap().unwrap();
    store
        .reduce(&unleased(&id), Reduction { receipts: vec![receipt], ..Reduction::default() }, None, NOW)
        .unwrap();
    let target = if by_part { PurgeTarget::Part("msg_2.1".into()) } else { target() };
    assert_eq!(archive.purge(&unleased(&id), &target, NOW).unwrap().unfinished, None);
    assert_eq!(files_with(directory.path(), SECRET), Vec::<String>::new());
    assert_eq!(archive.plan_purge(&id, &target).unwrap().items, []);
}

/// A killed upgrade leaves an incomplete copy under another name.
#[test]
fn copies_of_killed_upgrades_are_removed_too() {
    let directory = TempDir::new().unwrap();
    let archive = with_secrets(directory.path());
    let copy = directory.path().join("plimsoll.db.v3.bak");
    for name in [".upgrade-x1Y2z3", ".plimsoll.db.upgrade-x1Y2z3", ".plimsoll.db.upgrade-x1Y2z3-journal"] {
        std::fs::copy(&copy, directory.path().join(name)).unwrap();
    }
    let other = directory.path().join(".other.db.upgrade-x1Y2z3");
    std::fs::copy(&copy, &other).unwrap();
    let report = archive.plan_purge(&"ses_1".into(), &target()).unwrap();
    assert_eq!(report.copies.len(), 4, "{:?}", report.copies);
    archive.purge(&unleased(&"ses_1".into()), &target(), NOW).unwrap();
    assert_eq!(
        files_with(directory.path(), SECRET),
        [other.display().to_string()],
        "that of another database"
    );
}

/// While another process reads, the write-ahead log cannot be emptied. This is reported, and a sweep does it later.
#[test]
fn a_purge_that_cannot_be_finished_is_reported() {
    let directory = TempDir::new().unwrap();
    let archive = with_secrets(directory.path());
    let reader = rusqlite::Connection::open(directory.path().join("plimsoll.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM part").unwrap();
    let purged = archive.purge(&unleased(&"ses_1".into()), &target(), NOW).unwrap();
    assert!(purged.unfinished.unwrap().contains("another process reads the database"));
    assert!(archive.plan_purge(&"ses_1".into(), &target()).unwrap().items.is_empty());
    drop(reader);
    let swept = archive.sweep(NOW).unwrap();
    assert_eq!((swept.purged, swept.unpurged), (1, None));
    assert_eq!(files_with(directory.path(), SECRET), Vec::<String>::new());
}

#[test]
fn an_invalid_pattern_or_one_that_matches_everything_is_refused() {
    let directory = TempDir::new().unwrap();
    let archive = with_secrets(directory.path());
    for pattern in ["(", "a*", ""] {
        let error = archive.plan_purge(&"ses_1".into(), &PurgeTarget::Match(pattern.into())).unwrap_err();
        assert!(error.to_string().starts_with("invalid pattern"), "{error}");
    }
}

const PURGED: &str = "PLIMSOLL_PURGED_DIRECTORY";

/// Killed at any moment, a purge is finished by the next one, or by a sweep if it was far enough.
#[test]
fn a_purge_that_is_killed_can_be_finished() {
    if let Ok(directory) = std::env::var(PURGED) {
        let path = Path::new(&directory).join("plimsoll.db");
        let archive = Archive::open(path, &Policy::default(), Durability::Process).unwrap();
        std::fs::write(Path::new(&directory).join("begun"), "").unwrap();
        archive.purge(&Claim::unleased(&"ses_1".into()), &target(), NOW).unwrap();
        return;
    }
    let mut swept = 0;
    for round in 0..10u64 {
        let directory = TempDir::new().unwrap();
        drop(with_secrets(directory.path()));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "content::purge::a_purge_that_is_killed_can_be_finished", "--nocapture"])
            .env(PURGED, directory.path())
            .spawn()
            .unwrap();
        while !directory.path().join("begun").exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::thread::sleep(std::time::Duration::from_millis(round * 4));
        let _ = child.kill();
        child.wait().unwrap();
        let archive = open(&directory.path().join("plimsoll.db"));
        let id = "ses_1".into();
        let is_scrubbed = archive.plan_purge(&id, &target()).unwrap().items.is_empty();
        if is_scrubbed {
            archive.sweep(NOW).unwrap();
            swept += 1;
        } else {
            archive.purge(&unleased(&id), &target(), NOW).unwrap();
        }
        assert_eq!(files_with(directory.path(), SECRET), Vec::<String>::new(), "round {round}");
        assert_eq!(archive.check().unwrap().problems, Vec::<String>::new());
    }
    println!("{swept} of 10 had come so far that a sweep finished them");
}

/// Found by the property that compares the database with memory.
#[test]
fn an_undone_compaction_stays_undone_after_a_purge() {
    let real = fresh();
    let memory = MemoryStore::new();
    let stores: [&dyn Store; 2] = [&memory, &real.store];
    for store in stores {
        let claim = unleased(&session(store, "ses_1"));
        let marker = json!({ "info": { "id": "msg_2", "role": "user" }, "parts": [{ "id": "prt_2", "type": "compaction",
            "auto": true, "setAside": 7, "contract": [{ "kind": "file", "text": SECRET, "fate": "added" }] }] });
        let summary = json!({ "info": { "id": "msg_3", "role": "assistant", "summary": true,
            "parentID": "msg_2", "finish": "stop" },
            "parts": [{ "id": "prt_3", "type": "text", "text": "What was done." }] });
        let read = |message| serde_json::from_value(message).unwrap();
        let messages = vec![user("msg_1", "harmless"), read(marker), read(summary)];
        store.append(&claim, messages, NOW).unwrap();
        store.purge(&claim, &target(), Vec::new(), NOW).unwrap();
        let log = store.window(&claim.session).unwrap().log;
        let message = log.iter().find(|message| message.info.id.as_str() == "msg_2").unwrap();
        assert!(!serde_json::to_string(message).unwrap().contains(SECRET));
        assert!(message.marker().unwrap().set_aside.is_some(), "{message:?}");
    }
}
