//! A process that is killed while it changes or reverts files.
//!
//! The child is this test binary, started again with variables set. It kills itself at an event, for example before a
//! file is changed or restored. Whenever it dies, every file must be complete, and a revert must restore all of them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll::SessionId;
use plimsoll_agent::{Agent, Event};
use plimsoll_providers::Wire;
use plimsoll_store::NewSession;
use plimsoll_testkit::server::{Captured, ModelServer, Reply};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::support::{die, model, name_of, open_archive, policy};

const DIRECTORY: &str = "PLIMSOLL_KEPT_DIRECTORY";
const URL: &str = "PLIMSOLL_KEPT_URL";
/// Number of the event at which it dies, from 1; 0 for never.
const AT: &str = "PLIMSOLL_KEPT_AT";
/// Set if the child reverts.
const REVERTS: &str = "PLIMSOLL_KEPT_REVERTS";

/// The first file is large enough that a non-atomic write would show; the other is written by the model.
fn content(word: &str) -> String {
    let lines = if ["one", "two"].contains(&word) { 20_000 } else { 50 };
    format!("{word} is what this line says\n").repeat(lines)
}

fn agent(directory: &Path, url: &str) -> Agent {
    let mut agent =
        Agent::new(open_archive(directory), model(Wire::Anthropic, url), &directory.join("project"));
    agent.policy = policy(|_| {});
    for rule in ["write", "edit"] {
        agent.profile.permissions.rules.push(plimsoll_agent::parse_allow(rule, None).unwrap());
    }
    agent.take_over = plimsoll_store::TakeOver::Always;
    agent
}

fn session() -> SessionId {
    SessionId::new("ses_kept")
}

/// The child process: does nothing unless it was started as one.
#[tokio::test]
async fn the_changing_child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let at: usize = std::env::var(AT).unwrap().parse().unwrap();
    let directory = Path::new(&directory);
    let mut agent = agent(directory, &std::env::var(URL).unwrap());
    let output = AtomicUsize::new(0);
    let journal = directory.join("journal");
    agent.events = Arc::new(move |event: &Event| {
        let mut lines = std::fs::read_to_string(&journal).unwrap_or_default();
        lines.push_str(&name_of(event));
        lines.push('\n');
        std::fs::write(&journal, lines).unwrap();
        if output.fetch_add(1, Ordering::SeqCst) + 1 == at {
            die();
        }
    });
    let mut talk = agent.open(&session()).await.unwrap();
    if std::env::var_os(REVERTS).is_some() {
        talk.revert(Some(1)).await.unwrap();
    } else {
        talk.run("Change them", &CancellationToken::new()).await.unwrap();
    }
}

struct Scene {
    directory: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("project")).unwrap();
        std::fs::write(directory.path().join("project/a.txt"), content("one")).unwrap();
        let archive = open_archive(directory.path());
        archive.store().create(NewSession::new(session()), plimsoll::Millis(1)).unwrap();
        Scene { directory }
    }

    /// Returns the events of the child, and whether it was killed.
    fn run(&self, url: &str, at: usize, reverts: bool) -> (Vec<String>, bool) {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "kept_kills::the_changing_child", "--nocapture"]);
        child
            .env(DIRECTORY, self.directory.path())
            .env(URL, url)
            .env(AT, at.to_string())
            .stdout(Stdio::null());
        if reverts {
            child.env(REVERTS, "1");
        }
        let status = child.status().unwrap();
        let journal = self.directory.path().join("journal");
        let output = std::fs::read_to_string(&journal).unwrap_or_default();
        let _ = std::fs::remove_file(journal);
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert!(status.success() || signal == Some(9), "{status}");
        (output.lines().map(str::to_owned).collect(), signal == Some(9))
    }

    fn content(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.directory.path().join("project").join(name)).ok()
    }

    /// Checks that every file is complete.
    fn check(&self, context: &str) {
        for (name, known) in [("a.txt", ["one", "two"]), ("new/b.txt", ["three", "four"])] {
            let found = self.content(name);
            let is_whole =
                found.as_ref().is_none_or(|found| known.iter().any(|word| *found == content(word)));
            assert!(is_whole, "{context}: `{name}` is not whole");
            assert!(found.is_some() || name != "a.txt", "{context}: `{name}` is gone");
        }
    }

    async fn revert(&self, url: &str, context: &str) {
        let agent = agent(self.directory.path(), url);
        let archive = Arc::clone(&agent.archive);
        let mut talk = agent.open(&session()).await.unwrap();
        assert_eq!(archive.check().unwrap().into_all(), Vec::<String>::new(), "{context}");
        let report = talk.revert(Some(1)).await;
        if let Ok(report) = report {
            let problems: Vec<_> = report.files.iter().filter(|file| file.problem.is_some()).collect();
            assert!(problems.is_empty(), "{context}: {problems:?}");
        }
        assert_eq!(self.content("a.txt"), Some(content("one")), "{context}");
        assert_eq!(self.content("new/b.txt"), None, "{context}");
        assert!(!self.directory.path().join("project/new").exists(), "{context}");
    }
}

/// Reads a file, changes it, creates another, and changes that.
fn script() -> ModelServer {
    ModelServer::answering(|request: &Captured| {
        let made = request.parts().filter(|part| matches!(part, plimsoll_testkit::server::CapturedPart::Result { .. }));
        let number = made.count();
        let id = format!("call_{number}");
        match number {
            0 => Reply::new().call(id, "read", json!({ "path": "a.txt", "limit": 3 })),
            1 => {
                let input = json!({ "path": "a.txt", "old": "one is what", "new": "two is what", "all": true });
                Reply::new().call(id, "edit", input)
            }
            2 => Reply::new().call(id, "write", json!({ "path": "new/b.txt", "content": content("three") })),
            3 => {
                let input = json!({ "path": "new/b.txt", "old": "three is what", "new": "four is what", "all": true });
                Reply::new().call(id, "edit", input)
            }
            _ => Reply::new().text("Done."),
        }
    })
    .unwrap()
}

#[tokio::test]
async fn files_are_complete_and_stored_after_a_kill_during_a_change() {
    let server = script();
    let scene = Scene::new();
    let (events, _) = scene.run(&server.url(), 0, false);
    assert_eq!(events.iter().filter(|name| *name == "fileKept").count(), 3, "{events:?}");
    assert_eq!(scene.content("new/b.txt"), Some(content("four")));
    scene.revert(&server.url(), "whole turn").await;
    // From the first call on; nothing before changes a file.
    let first = events.iter().position(|name| name == "callStarted").unwrap();
    let wanted = |name: &str| ["callStarted", "fileKept", "callEnded"].contains(&name);
    for at in (first..events.len()).filter(|at| wanted(&events[*at])) {
        let scene = Scene::new();
        let (output, was_killed) = scene.run(&server.url(), at + 1, false);
        let context = format!("killed at {at}, {:?}", output.last());
        assert!(was_killed, "{context}");
        scene.check(&context);
        scene.revert(&server.url(), &context).await;
    }
}

#[tokio::test]
async fn a_process_killed_during_a_revert_leaves_complete_files() {
    let server = script();
    let scene = Scene::new();
    scene.run(&server.url(), 0, false);
    let (events, _) = scene.run(&server.url(), 0, true);
    assert_eq!(events.iter().filter(|name| *name == "reverting").count(), 2, "{events:?}");
    for at in (0..events.len()).filter(|at| events[*at] == "reverting") {
        let scene = Scene::new();
        scene.run(&server.url(), 0, false);
        let (_, was_killed) = scene.run(&server.url(), at + 1, true);
        let context = format!("killed at {at}");
        assert!(was_killed, "{context}");
        scene.check(&context);
        scene.revert(&server.url(), &context).await;
    }
}
