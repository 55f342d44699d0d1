//! Reverts: what is stored before a change, and how it is restored.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use plimsoll::{Millis, SessionId};
use plimsoll_agent::{
    Conversation, Event, RevertAction, RevertError, RevertReport, RevertTarget, plan_revert,
};
use plimsoll_store::{Archive, KEPT_PREFIX, NewSession, PurgeTarget, Retention};
use plimsoll_testkit::server::{ModelServer, Reply};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use crate::files::{call, calls, writing_dock};
use crate::support::{Dock, run};

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write", json!({ "path": path, "content": content }))
}

fn edit(path: &str, old: &str, new: &str) -> (&'static str, Value) {
    ("edit", json!({ "path": path, "old": old, "new": new }))
}

fn read(path: &str) -> (&'static str, Value) {
    ("read", json!({ "path": path }))
}

/// Returns the action for each file, by name.
fn actions(report: &RevertReport) -> Vec<String> {
    let file = |file: &plimsoll_agent::RevertedFile| {
        let name = file.path.file_name().unwrap().to_string_lossy();
        match &file.problem {
            Some(problem) => format!("{:?} {name}: {problem}", file.action),
            None => format!("{:?} {name}", file.action),
        }
    };
    report.files.iter().map(file).collect()
}

#[tokio::test]
async fn the_last_turn_is_reverted_and_the_model_is_informed() {
    let dock = writing_dock();
    dock.write("a.txt", "one\n");
    let path = dock.project().join("a.txt");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let talk = &mut dock.begin().await;
    calls(&dock, talk, vec![read("a.txt"), edit("a.txt", "one", "two")]).await;
    calls(
        &dock,
        talk,
        vec![edit("a.txt", "two", "three"), write("new/deep/b.txt", "b"), edit("a.txt", "three", "four")],
    )
    .await;
    assert_eq!(dock.content("a.txt").unwrap(), "four\n");
    let plan = talk.plan_revert(None).await.unwrap();
    assert_eq!((plan.turn, actions(&plan)), (2, vec!["Restored a.txt".into(), "Removed b.txt".into()]));
    assert_eq!(dock.content("a.txt").unwrap(), "four\n", "a plan does nothing");

    let report = talk.revert(None).await.unwrap();
    assert_eq!((report.turn, actions(&report)), (2, actions(&plan)));
    assert_eq!(dock.content("a.txt").unwrap(), "two\n");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(!dock.project().join("new").exists(), "directories that were made for it are gone");
    assert!(dock.events.lock().unwrap().iter().any(|event| matches!(event, Event::Reverted(_))));

    // The model is informed before the next prompt, and must read restored files before it changes them.
    let said = calls(&dock, talk, vec![edit("a.txt", "two", "five")]).await;
    assert!(said[0].contains("you have not read it"), "{}", said[0]);
    let asked = dock.server.last().unwrap();
    assert!(asked.contains("is restoring files before the prompt"), "{}", asked.outline());
    assert!(asked.contains("Removed: `") && asked.contains("Restored: `"));
    let log = dock.log(talk.session());
    assert!(log.iter().any(|message| message.is_notice() && !message.is_prompt()));
    let said = calls(&dock, talk, vec![read("a.txt"), edit("a.txt", "two", "five")]).await;
    assert!(said[1].starts_with("Changed"));
}

#[tokio::test]
async fn a_revert_goes_further_back_each_time_and_can_be_taken_back() {
    let dock = writing_dock();
    let mut talk = dock.begin().await;
    call(&dock, &mut talk, "write", write("a.txt", "one\n").1).await;
    call(&dock, &mut talk, "edit", edit("a.txt", "one", "two").1).await;
    run_text(&dock, &mut talk).await;
    call(&dock, &mut talk, "edit", edit("a.txt", "two", "three").1).await;
    let turns = |report: Result<RevertReport, RevertError>| report.unwrap().turn;
    assert_eq!(turns(talk.revert(None).await), 4);
    assert_eq!(dock.content("a.txt").unwrap(), "two\n");
    assert_eq!(turns(talk.revert(None).await), 2);
    assert_eq!(dock.content("a.txt").unwrap(), "one\n");
    // Another process knows it too.
    let session = talk.session().clone();
    talk.close().await.unwrap();
    let talk = &mut dock.agent.open(&session).await.unwrap();
    let back = talk.undo_revert().await.unwrap();
    assert!(back.undoes_revert);
    assert_eq!(dock.content("a.txt").unwrap(), "two\n");
    assert_eq!(turns(talk.undo_revert().await), 4);
    assert_eq!(dock.content("a.txt").unwrap(), "three\n");
    assert!(matches!(talk.undo_revert().await, Err(RevertError::NoRevert)));
    assert_eq!(turns(talk.revert(Some(1)).await), 1);
    assert_eq!(dock.content("a.txt"), None);
    assert!(matches!(talk.revert(None).await, Err(RevertError::Nothing)));
    assert!(matches!(talk.revert(Some(9)).await, Err(RevertError::NoTurn { turn: 9, last: 4 })));
    talk.undo_revert().await.unwrap();
    assert_eq!(dock.content("a.txt").unwrap(), "three\n");
}

/// A turn without a call.
async fn run_text(dock: &Dock, talk: &mut Conversation) {
    dock.server.push_all([Reply::new().text("Well.")]);
    run(talk, "Just talk").await;
}

#[tokio::test]
async fn changes_of_other_programs_are_not_reverted() {
    let dock = writing_dock();
    let talk = &mut dock.begin().await;
    let made = vec![write("mine.txt", "one\n"), write("between.txt", "one\n"), write("gone.txt", "x")];
    calls(&dock, talk, made).await;
    dock.write("between.txt", "by hand\n");
    calls(&dock, talk, vec![read("between.txt"), edit("between.txt", "by hand", "agent")]).await;
    dock.write("mine.txt", "by hand too\n");
    std::fs::remove_file(dock.project().join("gone.txt")).unwrap();
    let report = talk.revert(Some(1)).await.unwrap();
    assert_eq!(
        actions(&report),
        [
            "Restored between.txt: it was changed by another program since",
            "Left gone.txt",
            "Left mine.txt: it was changed by another program since"
        ]
    );
    assert_eq!(dock.content("between.txt").unwrap(), "by hand\n", "as far back as the agent's changes go");
    assert_eq!(dock.content("mine.txt").unwrap(), "by hand too\n");
    // A revert without effect leaves no trace.
    let messages = dock.log(talk.session()).len();
    assert!(!talk.revert(Some(1)).await.unwrap().changes());
    assert_eq!(dock.log(talk.session()).len(), messages);
}

#[tokio::test]
async fn calls_that_cannot_be_reverted_are_listed() {
    let dock = Dock::new(ModelServer::start().unwrap()).allow("write").allow("bash:echo *");
    let talk = &mut dock.begin().await;
    let made = vec![
        write("a.txt", "one\n"),
        ("bash", json!({ "command": "echo  hello" })),
        ("bash", json!({ "command": "touch denied" })),
        ("unknown_tool", json!({})),
        read("a.txt"),
    ];
    calls(&dock, talk, made).await;
    let report = talk.revert(None).await.unwrap();
    let uncovered: Vec<(usize, &str, &str)> =
        report.uncovered.iter().map(|call| (call.turn, call.tool.as_str(), call.input.as_str())).collect();
    assert_eq!(uncovered, [(1, "bash", "echo hello")], "what was denied has done nothing");
}

#[tokio::test]
async fn expired_content_is_reported_and_the_file_stays() {
    let mut dock = writing_dock();
    dock.write("a.txt", "one\n");
    let talk = &mut dock.begin().await;
    calls(&dock, talk, vec![read("a.txt"), edit("a.txt", "one", "two"), write("new.txt", "x")]).await;
    let archive = Arc::get_mut(&mut dock.archive);
    assert!(archive.is_none(), "the agent has it too");
    let mut strict = crate::support::open_archive(dock.directory.path());
    Arc::get_mut(&mut strict).unwrap().retention = Retention { age: Some(Millis(1)), max_bytes: None };
    let later = Millis(u64::MAX / 4);
    let swept = strict.sweep(later).unwrap();
    assert_eq!(swept.expired.len(), 2);
    assert!(swept.expired.iter().all(|spill| spill.handle.starts_with(KEPT_PREFIX)), "{:?}", swept.expired);
    let report = talk.revert(None).await.unwrap();
    assert_eq!(actions(&report), ["Left a.txt: its old content is no longer stored", "Removed new.txt"]);
    assert_eq!(dock.content("a.txt").unwrap(), "two\n");
}

/// Returns every file below a directory, as bytes.
fn all_bytes(directory: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in ignore_walk(directory) {
        let bytes = std::fs::read(&entry).unwrap();
        // Blobs are compressed.
        all.extend(zstd_decoded(&bytes).unwrap_or(bytes));
    }
    all
}

fn ignore_walk(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut next = vec![directory.to_owned()];
    while let Some(directory) = next.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => next.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

fn zstd_decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]).then(|| zstd::decode_all(bytes).unwrap())
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[rstest]
#[case::matching(true)]
#[case::session(false)]
#[tokio::test]
async fn stored_content_is_removed_with_a_purge_or_its_session(#[case] is_purge: bool) {
    let dock = writing_dock();
    dock.write("a.txt", "the password is hunter2\n");
    let mut talk = dock.begin().await;
    let made = vec![("bash", json!({ "command": "true" })), write("b.txt", "x")];
    calls(&dock, &mut talk, made).await;
    // Written without being shown to the model: only the stored content has the secret.
    let path = dock.project().join("a.txt");
    let session = talk.session().clone();
    let seen = blake3::hash(b"the password is hunter2\n");
    let part = dock
        .log(&session)
        .iter()
        .flat_map(|message| message.parts.clone())
        .find(|part| part.as_tool().is_some_and(|tool| tool.tool == "bash"));
    let part = part.unwrap().id;
    let change = plimsoll_session::FileChange {
        path: path.display().to_string(),
        before: Some(seen.to_hex().to_string()),
        after: Some(blake3::hash(b"clean\n").to_hex().to_string()),
        mode: None,
        directories: Vec::new(),
    };
    let handle = change.handle(&part);
    let call = talk.handle().call(&part).await.unwrap();
    call.keep_file(&change, Some(b"the password is hunter2\n".to_vec())).await.unwrap();
    std::fs::write(&path, "clean\n").unwrap();
    let spills = dock.directory.path().join("spill");
    assert!(has(&all_bytes(&spills), "hunter2"));
    talk.close().await.unwrap();
    let lease = dock.archive.store().lease(&session, "test", std::time::Duration::from_secs(60)).unwrap();
    if is_purge {
        let target = PurgeTarget::Match("hunter2".into());
        let planned = dock.archive.plan_purge(&session, &target).unwrap();
        assert!(
            planned.items.iter().any(|item| item.what.starts_with("kept file before bash")),
            "{planned:?}"
        );
        dock.archive.purge(&lease.claim(), &target, Millis(1)).unwrap();
        let plan = plan_revert(&dock.archive, &session, RevertTarget::Turn(1)).unwrap();
        assert!(
            actions(&plan).contains(&"Left a.txt: its old content is no longer stored".into()),
            "{:?}",
            actions(&plan)
        );
        let recalled = dock.archive.kept_file(&session, &handle).unwrap().unwrap();
        assert!(recalled.expired.is_some());
    } else {
        dock.archive.remove(&lease.claim(), Millis(1)).unwrap();
        dock.archive.sweep(Millis(2)).unwrap();
        assert!(ignore_walk(&spills).iter().all(|path| path.extension().is_none_or(|kind| kind != "zst")));
    }
    assert!(!has(&all_bytes(&spills), "hunter2"));
    assert_eq!(dock.content("a.txt").unwrap(), "clean\n");
}

#[tokio::test]
async fn a_log_from_elsewhere_cannot_claim_changes() {
    let dock = writing_dock();
    let mut talk = dock.begin().await;
    calls(&dock, &mut talk, vec![write("precious.txt", "x")]).await;
    let mut messages = dock.log(talk.session());
    let copied = SessionId::new("ses_copied");
    // The same records under other names, as after an import.
    for (number, message) in messages.iter_mut().enumerate() {
        message.info.id = format!("msg_copy{number}").as_str().into();
        for (place, part) in message.parts.iter_mut().enumerate() {
            part.id = format!("prt_copy{number}_{place}").as_str().into();
        }
    }
    let new = NewSession { messages, ..NewSession::new(copied.clone()) };
    dock.archive.store().create(new, Millis(5)).unwrap();
    let talk = &mut dock.agent.open(&copied).await.unwrap();
    let report = talk.revert(Some(1)).await.unwrap();
    assert_eq!(actions(&report), ["Left precious.txt: its old content is not stored here"]);
    assert_eq!(dock.content("precious.txt").unwrap(), "x");
}

#[tokio::test]
async fn a_fork_can_revert_changes_of_its_parent() {
    let dock = writing_dock();
    let mut talk = dock.begin().await;
    calls(&dock, &mut talk, vec![write("a.txt", "one\n")]).await;
    calls(&dock, &mut talk, vec![edit("a.txt", "one", "two")]).await;
    let (parent, child) = (talk.session().clone(), SessionId::new("ses_child"));
    talk.close().await.unwrap();
    dock.archive.store().fork(&parent, None, NewSession::new(child.clone()), Millis(9)).unwrap();
    let talk = &mut dock.agent.open(&child).await.unwrap();
    calls(&dock, talk, vec![edit("a.txt", "two", "three")]).await;
    assert_eq!(talk.revert(Some(2)).await.unwrap().turn, 2);
    assert_eq!(dock.content("a.txt").unwrap(), "one\n");
    let plan = plan_revert(&dock.archive, &parent, RevertTarget::Turn(1)).unwrap();
    assert_eq!(actions(&plan), ["Removed a.txt"], "the parent's own log explains the file's content");
}

/// An action in a turn, or between two.
#[derive(Clone, Debug)]
enum Op {
    /// The agent makes these calls in a turn.
    Turn(Vec<(u8, u8, bool)>),
    /// Another program writes or removes a file.
    Other(u8, bool),
    /// The last turn is reverted, or everything since a turn.
    Revert(Option<u8>),
    /// A revert is undone.
    Undo,
    /// The process ends, and another continues.
    Restart,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        5 => prop::collection::vec((0..3_u8, 0..6_u8, any::<bool>()), 1..4).prop_map(Op::Turn),
        2 => (0..3_u8, prop::bool::weighted(0.8)).prop_map(|(file, is_there)| Op::Other(file, is_there)),
        3 => prop::option::of(0..6_u8).prop_map(Op::Revert),
        2 => Just(Op::Undo),
        1 => Just(Op::Restart),
    ];
    prop::collection::vec(op, 1..12)
}

type Directory = BTreeMap<String, String>;

fn directory(project: &Path) -> Directory {
    let files = ignore_walk(project).into_iter().map(|path| {
        let name = path.strip_prefix(project).unwrap().display().to_string();
        (name, std::fs::read_to_string(path).unwrap())
    });
    files.collect()
}

fn name_of(file: u8) -> String {
    ["a.txt", "deep/b.txt", "deep/er/c.txt"][usize::from(file)].to_owned()
}

/// Invariants: a file that another program wrote last is never touched; otherwise files are as before the turn; an
/// undone revert restores them; and no content is invented.
async fn check(ops: Vec<Op>) {
    let mut dock = writing_dock();
    // Fast, and the same code except for the disk.
    dock.archive = Arc::new(Archive::in_memory());
    dock.agent.archive = Arc::clone(&dock.archive);
    let mut talk = dock.begin().await;
    let project = dock.project();
    // Before each turn, and whether another program wrote since.
    let mut snapshots: Vec<Directory> = Vec::new();
    let mut others = Directory::new();
    let (mut is_disturbed, mut written) = (false, 0);
    let mut before_revert: Option<Directory> = None;
    for op in ops {
        match op {
            Op::Turn(made) => {
                snapshots.push(directory(&project));
                let mut wanted = directory(&project);
                let mut requests = Vec::new();
                for (file, content, edits) in made {
                    let (name, content) = (name_of(file), format!("content {content}\n"));
                    requests.push(read(&name));
                    let old = wanted.insert(name.clone(), content.clone());
                    requests.push(match old.filter(|old| edits && *old != content) {
                        Some(old) => edit(&name, old.trim_end(), content.trim_end()),
                        None => write(&name, &content),
                    });
                    others.remove(&name);
                }
                calls(&dock, &mut talk, requests).await;
                assert_eq!(directory(&project), wanted);
                before_revert = None;
            }
            Op::Other(file, is_there) => {
                let (name, path) = (name_of(file), project.join(name_of(file)));
                written += 1;
                let content = is_there.then(|| format!("by hand, the {written}th\n"));
                match &content {
                    Some(content) => {
                        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                        std::fs::write(path, content).unwrap();
                    }
                    None => drop(std::fs::remove_file(path)),
                }
                // A missing file may be the result of a revert.
                match content {
                    Some(content) => others.insert(name, content),
                    None => others.remove(&name),
                };
                is_disturbed = true;
                before_revert = None;
            }
            Op::Revert(turn) => {
                let turn = turn.map(|turn| usize::from(turn) % snapshots.len().max(1) + 1);
                let before = directory(&project);
                let Ok(report) = talk.revert(turn).await else { continue };
                let after = directory(&project);
                if !is_disturbed {
                    assert_eq!(after, snapshots[report.turn - 1], "{:?}", actions(&report));
                    assert!(report.files.iter().all(|file| file.problem.is_none()), "{:?}", actions(&report));
                }
                for (name, content) in &others {
                    assert_eq!(after.get(name), Some(content), "{name} was written by something else");
                }
                for file in &report.files {
                    let name = file.path.strip_prefix(&project).unwrap().display().to_string();
                    let is_there = match file.action {
                        RevertAction::Restored => after.contains_key(&name),
                        RevertAction::Removed => !after.contains_key(&name),
                        _ => after.get(&name) == before.get(&name),
                    };
                    assert!(is_there, "{:?}", actions(&report));
                }
                before_revert = report.changes().then_some(before);
            }
            Op::Undo => {
                let Ok(report) = talk.undo_revert().await else { continue };
                if let Some(before) = before_revert.take() {
                    assert_eq!(directory(&project), before, "{:?}", actions(&report));
                }
                for (name, content) in &others {
                    assert_eq!(directory(&project).get(name), Some(content), "{name}");
                }
            }
            Op::Restart => {
                let session = talk.session().clone();
                talk.close().await.unwrap();
                talk = dock.agent.open(&session).await.unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 10, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn properties_files_are_restored_and_other_writes_stay(ops in ops()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(ops));
    }
}
