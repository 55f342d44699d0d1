//! Actions of users on a conversation between its turns.

use plimsoll::Plan;
use plimsoll_agent::Event;
use plimsoll_testkit::server::{ModelServer, Reply};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{Dock, SUMMARY, is_summary, lines, reader, run};

#[tokio::test]
async fn a_compaction_receives_its_focus() {
    let dock = Dock::new(ModelServer::answering(reader()).unwrap());
    dock.write("big.txt", &lines(300));
    let mut conversation = dock.begin().await;
    run(&mut conversation, "Read it 2 times, round r1").await;
    let plan = conversation.plan().await.unwrap();
    let planned = plan.compaction.expect("there is something to summarise");
    let never = CancellationToken::new();
    dock.server.push(Reply::new().text(SUMMARY));
    let figures = conversation.compact_on(Some("the keel number"), &never).await.unwrap();
    let asked = dock.server.requests().into_iter().find(is_summary).unwrap();
    for said in ["The user asks that the summary keep the following above all", "<focus>", "the keel number"]
    {
        assert!(asked.contains(said), "{said}: {}", asked.outline());
    }
    // It is the user's text, not that of an extension.
    assert!(!asked.contains("<hook>"), "{}", asked.outline());
    assert_eq!((figures[0].items, figures[0].kept), (planned.messages, true));
    // The focus applies once.
    run(&mut conversation, "Read it 2 times, round r2").await;
    conversation.compact(&never).await.unwrap();
    let last = dock.server.requests().into_iter().rfind(is_summary).unwrap();
    assert!(!last.contains("keel number"));
    let inspection = conversation.inspect().await.unwrap();
    assert!(inspection.hidden.is_some_and(|hidden| hidden.0 > 0), "the system prompt and the tools count");
    let undone = conversation.undo(&figures[0].receipt).await.unwrap();
    assert_eq!(undone.undoes.as_ref(), Some(&figures[0].receipt));
}

#[tokio::test]
async fn a_branch_has_the_whole_history_and_the_session_does_not_change() {
    let server = ModelServer::start().unwrap();
    server.push_all([
        Reply::new().text("Nine metres."),
        Reply::new().text("Down there."),
        Reply::new().text("Up here."),
    ]);
    let dock = Dock::new(server);
    let mut conversation = dock.begin().await;
    run(&mut conversation, "How deep is it?").await;
    let pinned = conversation.pin("Nine metres.").await.unwrap();
    assert!(matches!(pinned.plan, Plan::Pin(_)));
    let branch = conversation.branch("a branch").await.unwrap();
    let mut other = dock.agent.open(&branch).await.unwrap();
    run(&mut other, "And below?").await;
    run(&mut conversation, "And above?").await;
    let requests = dock.server.requests();
    assert!(requests[1].contains("Nine metres.") && requests[1].contains("And below?"));
    assert!(requests[2].contains("Nine metres.") && !requests[2].contains("And below?"));
    assert!(requests[1].cache.read > 0 || requests[1].contains("How deep is it?"));
}

#[tokio::test]
async fn a_failed_command_reports_its_exit_status() {
    let server = ModelServer::start().unwrap();
    let bash = |id: &str, command: &str| Reply::new().call(id, "bash", json!({ "command": command }));
    server.push_all([
        bash("call_1", "echo fine; echo '[brackets]' >&2; echo end"),
        bash("call_2", "head -c 5000 /dev/zero | tr '\\0' x; exit 3"),
        bash("call_3", "kill -9 $$"),
        Reply::new().text("Done."),
    ]);
    let dock = Dock::new(server).allow("bash");
    let mut conversation = dock.begin().await;
    run(&mut conversation, "Run them").await;
    let events = dock.events.lock().unwrap();
    let endings: Vec<Option<String>> = events
        .iter()
        .filter_map(|event| match event {
            Event::CallEnded { error, .. } => Some(error.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(endings, [None, Some("exit code 3".into()), Some("ended by signal 9".into())]);
}
