//! Questions to the user.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use plimsoll::Limits;
use plimsoll_agent::{Asker, Event, PermissionAnswer, PermissionQuestion, Preview, RunEnd};
use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::mcp::fake::local;
use crate::support::{Dock, run};

/// Returns prepared answers in order, and records the questions. Without an answer it never returns.
#[derive(Default)]
struct User {
    answers: Mutex<Vec<PermissionAnswer>>,
    asked: Mutex<Vec<PermissionQuestion>>,
}

impl Asker for User {
    fn ask<'a>(
        &'a self,
        question: &'a PermissionQuestion,
        _: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send + 'a>> {
        self.asked.lock().unwrap().push(question.clone());
        let answer = self.answers.lock().unwrap().pop();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

fn asked_dock(answers: impl IntoIterator<Item = PermissionAnswer>) -> (Dock, Arc<User>) {
    let mut answers: Vec<_> = answers.into_iter().collect();
    answers.reverse();
    let user = Arc::new(User { answers: Mutex::new(answers), ..User::default() });
    let mut dock = Dock::new(ModelServer::start().unwrap());
    dock.agent.asker = Some(user.clone());
    (dock, user)
}

async fn bash(dock: &Dock, talk: &mut plimsoll_agent::Conversation, command: &str) -> String {
    let id = format!("call_{}", dock.server.requests().len());
    let input = json!({ "command": command });
    dock.server.push_all([Reply::new().call(&id, "bash", input), Reply::new().text("Thanks.")]);
    run(talk, "Do it").await;
    dock.server.last().unwrap().result(&id).unwrap().to_owned()
}

#[tokio::test]
async fn a_question_shows_exactly_what_would_run() {
    let (dock, user) = asked_dock([PermissionAnswer::Once, PermissionAnswer::No { words: None }]);
    let talk = &mut dock.begin().await;
    assert_eq!(bash(&dock, talk, "echo one").await.trim(), "one");
    assert!(bash(&dock, talk, "echo two; echo three").await.contains("the user declined"));
    let asked = user.asked.lock().unwrap();
    assert_eq!(asked[0].what, "echo one");
    assert_eq!((asked[0].always.tool.as_str(), asked[0].always.pattern.as_str()), ("bash", "echo *"));
    assert_eq!(asked[0].why, "it runs a command");
    assert_eq!(
        (asked[1].what.as_str(), asked[1].always.pattern.as_str()),
        ("echo two; echo three", "echo two; echo three")
    );
    let happened = dock.happened();
    assert_eq!(happened.iter().filter(|name| *name == "asked").count(), 2);
    assert_eq!(happened.iter().filter(|name| *name == "permitted").count(), 1);
}

#[tokio::test]
async fn a_question_shows_the_whole_call() {
    let no = || PermissionAnswer::No { words: None };
    let (mut dock, user) = asked_dock([no(), no(), no()]);
    dock.agent.model.limits = Some(Limits::new(400_000, 4_000));
    let old: String = (0..4_000).map(|n| format!("old line {n}\n")).collect();
    let new = old.replace("old", "new");
    dock.write("long.txt", &old);
    let command = "echo one; ".repeat(5_000);
    let talk = &mut dock.begin().await;
    dock.server.push_all([
        // A change of a file that was not read is rejected without a question.
        Reply::new().call("call_0", "read", json!({ "path": "long.txt", "limit": 10 })),
        Reply::new()
            .call("call_1", "write", json!({ "path": "long.txt", "content": new }))
            .call("call_2", "write", json!({ "path": "other.txt", "content": new }))
            .call("call_3", "bash", json!({ "command": command })),
        Reply::new().text("Thanks."),
    ]);
    run(talk, "Do it").await;
    let asked = user.asked.lock().unwrap();
    let Some(Preview::Change(change)) = &asked[0].preview else { panic!("{:?}", asked[0].preview) };
    let count = |sign: &str| change.lines().filter(|line| line.starts_with(sign)).count();
    assert_eq!((count("-old line"), count("+new line")), (4_000, 4_000));
    assert_eq!(asked[1].preview, Some(Preview::Content(new)));
    assert_eq!(asked[2].what, command);
}

#[tokio::test]
async fn the_input_of_a_tool_of_a_server_is_shown_once_and_can_be_read() {
    let (mut dock, user) = asked_dock([PermissionAnswer::No { words: None }]);
    dock.agent.mcp = Arc::new([("fake".to_owned(), local("well", &[]))].into());
    let talk = &mut dock.begin().await;
    let input = json!({ "words": "one", "more": [1, 2] });
    dock.server.push_all([Reply::new().call("call_1", "fake_echo", input), Reply::new().text("Thanks.")]);
    run(talk, "Do it").await;
    let asked = user.asked.lock().unwrap();
    let shown = "{\n  \"words\": \"one\",\n  \"more\": [\n    1,\n    2\n  ]\n}";
    assert_eq!((asked[0].what.as_str(), asked[0].preview.is_some()), (shown, false));
}

#[tokio::test]
async fn always_holds_for_calls_like_it_in_this_conversation_only() {
    let no = || PermissionAnswer::No { words: Some("use make".into()) };
    let (dock, user) = asked_dock([PermissionAnswer::Always, no(), no()]);
    let talk = &mut dock.begin().await;
    assert_eq!(bash(&dock, talk, "echo one").await.trim(), "one");
    assert_eq!(bash(&dock, talk, "echo two").await.trim(), "two");
    assert_eq!(user.asked.lock().unwrap().len(), 1, "the second was not asked");
    assert!(bash(&dock, talk, "echo one; ls").await.contains("declined: use make"));
    let other = &mut dock.begin().await;
    assert!(bash(&dock, other, "echo one").await.starts_with("Denied:"));
}

#[tokio::test]
async fn denied_calls_are_not_asked_about() {
    let (mut dock, user) = asked_dock([PermissionAnswer::Always]);
    let mut rule = plimsoll_agent::parse_allow("bash:rm *", None).unwrap();
    rule.action = plimsoll_config::Action::Deny;
    dock.agent.profile.permissions.rules.push(rule);
    let talk = &mut dock.begin().await;
    assert!(bash(&dock, talk, "rm -r .").await.starts_with("Denied:"));
    assert!(user.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_question_about_reading_outside_shows_the_real_path() {
    let (dock, user) = asked_dock([PermissionAnswer::Once]);
    let secret = dock.directory.path().canonicalize().unwrap().join("secret.txt");
    std::fs::write(&secret, "hidden").unwrap();
    std::os::unix::fs::symlink(&secret, dock.directory.path().join("project/link.txt")).unwrap();
    let talk = &mut dock.begin().await;
    dock.server.push_all([
        Reply::new().call("call_1", "read", json!({ "path": "link.txt" })),
        Reply::new().text("Thanks."),
    ]);
    run(talk, "Do it").await;
    assert!(dock.server.last().unwrap().result("call_1").unwrap().contains("hidden"));
    let asked = user.asked.lock().unwrap();
    assert_eq!(asked[0].why, "it is outside the project");
    assert!(asked[0].what.contains("link.txt (which is ") && asked[0].what.contains("secret.txt"));
}

#[tokio::test]
async fn a_cancelled_question_runs_nothing() {
    let (dock, _) = asked_dock([]);
    let talk = &mut dock.begin().await;
    dock.server.push_all([Reply::new().call("call_1", "bash", json!({ "command": "touch made" }))]);
    let cancel = CancellationToken::new();
    let (events, stop) = (Arc::clone(&dock.events), cancel.clone());
    let watch = tokio::spawn(async move {
        while !events.lock().unwrap().iter().any(|event| matches!(event, Event::Asked { .. })) {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    });
    let report = talk.run("Do it", &cancel).await.unwrap();
    watch.await.unwrap();
    assert_eq!(report.end, RunEnd::Cancelled);
    assert!(!dock.directory.path().join("project/made").exists());
}

/// The user permitted a change of a file that the model had not read, and it failed.
#[tokio::test]
async fn the_user_is_not_asked_about_a_change_that_would_fail() {
    let (dock, user) = asked_dock([]);
    dock.write("a.txt", "one\ntwo\none\n");
    let talk = &mut dock.begin().await;
    let write = json!({ "path": "a.txt", "content": "three\n" });
    let edit = json!({ "path": "a.txt", "old": "one", "new": "three" });
    dock.server.push_all([
        Reply::new().call("call_1", "write", write),
        Reply::new().call("call_2", "read", json!({ "path": "a.txt" })),
        Reply::new().call("call_3", "edit", edit),
        Reply::new().text("It cannot be done."),
    ]);
    run(talk, "Do it").await;
    let last = dock.server.last().unwrap();
    assert!(last.result("call_1").unwrap().contains("you have not read it"), "{}", last.outline());
    assert!(last.result("call_3").unwrap().contains("occurs 2 times"), "{:?}", last.result("call_3"));
    assert!(user.asked.lock().unwrap().is_empty());
    // Nor is an address that permission would not open.
    let fetch = json!({ "url": "http://127.0.0.1:9/tides" });
    dock.server
        .push_all([Reply::new().call("call_4", "webfetch", fetch), Reply::new().text("It is closed.")]);
    run(talk, "Fetch it").await;
    let last = dock.server.last().unwrap();
    assert!(last.result("call_4").unwrap().contains("webfetch.hosts"), "{}", last.outline());
    assert!(user.asked.lock().unwrap().is_empty());
    // The existence of a file that may not be read is not revealed.
    let (dock, user) = asked_dock([PermissionAnswer::No { words: None }]);
    let outside = tempfile::NamedTempFile::new().unwrap();
    let write = json!({ "path": outside.path(), "content": "x" });
    dock.server.push_all([Reply::new().call("call_1", "write", write), Reply::new().text("No.")]);
    run(&mut dock.begin().await, "Do it").await;
    assert_eq!(user.asked.lock().unwrap().len(), 1);
}
