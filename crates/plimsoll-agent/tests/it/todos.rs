//! `todo`: the to-do list.

use plimsoll_agent::{Event, TodoItem, TodoStatus};
use plimsoll_testkit::server::ModelServer;
use rstest::rstest;
use serde_json::{Value, json};

use crate::files::call;
use crate::support::Dock;

fn item(content: &str, status: TodoStatus) -> TodoItem {
    TodoItem { content: content.into(), status }
}

#[tokio::test]
async fn the_list_is_shown_and_outlives_summary_and_process() {
    let dock = Dock::new(ModelServer::start().unwrap());
    let mut talk = dock.begin().await;
    assert_eq!(call(&dock, &mut talk, "todo", json!({})).await.trim(), "[The list is empty.]");
    let list = json!({ "todos": [
        { "content": "sound the harbour", "status": "completed", "priority": "high" },
        { "content": "draw\nthe chart", "status": "in_progress" },
        { "content": "sail", "status": "pending" },
        { "content": "swim", "status": "cancelled" }
    ] });
    let shown = "[x] sound the harbour\n[>] draw the chart\n[ ] sail\n[-] swim";
    assert_eq!(call(&dock, &mut talk, "todo", list).await.trim(), shown);
    let output = dock.events.lock().unwrap().iter().find_map(|event| match event {
        Event::Todos { todos, .. } => Some(todos.clone()),
        _ => None,
    });
    let output = output.unwrap();
    assert_eq!((output.len(), &output[2]), (4, &item("sail", TodoStatus::Pending)));
    // An invalid call changes nothing.
    let bad =
        call(&dock, &mut talk, "todo", json!({ "todos": [{ "content": "x", "status": "someday" }] })).await;
    assert!(bad.contains("pending, in_progress, completed or cancelled"), "{bad}");
    for turn in 0..3 {
        dock.server.push_all([plimsoll_testkit::server::Reply::new().text(crate::support::lines(60))]);
        crate::support::run(&mut talk, &format!("Talk, round {turn}")).await;
    }
    dock.server.push_all([plimsoll_testkit::server::Reply::new().text(crate::support::SUMMARY)]);
    talk.compact(&tokio_util::sync::CancellationToken::new()).await.unwrap();
    let is_in_window = talk
        .handle()
        .with_log(|log| log.iter().flat_map(|message| &message.parts).any(|part| part.as_tool().is_some()));
    assert!(!is_in_window.await.unwrap(), "the summary replaces the call");
    let session = talk.session().clone();
    talk.close().await.unwrap();
    let mut talk = dock.agent.open(&session).await.unwrap();
    assert_eq!(talk.todos().await.unwrap(), output);
    assert_eq!(call(&dock, &mut talk, "todo", json!({})).await.trim(), shown);
    // The summary includes open items.
    assert!(
        dock.server.last().unwrap().contains("draw the chart"),
        "{}",
        dock.server.last().unwrap().outline()
    );
}

#[rstest]
#[case(json!({ "todos": "sail" }), "must be a list")]
#[case(json!({ "todos": [{ "content": " " }] }), "item 1 must have a `content`")]
#[case(json!({ "todos": vec![json!({ "content": "x" }); 101] }), "at most 100")]
#[tokio::test]
async fn an_invalid_list_of_tools_is_reported(#[case] input: Value, #[case] wanted: &str) {
    let dock = Dock::new(ModelServer::start().unwrap());
    let talk = &mut dock.begin().await;
    let said = call(&dock, talk, "todo", input).await;
    assert!(said.contains(wanted), "{said}");
    assert!(talk.todos().await.unwrap().is_empty());
}
