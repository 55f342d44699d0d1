//! Requirements of forks from the provider's view: a model calls `background_task`, and the child's request is
//! captured.

use plimsoll::log::CompactionPart;
use plimsoll::{Message, Part, PartBody, SessionId};
use plimsoll_agent::tasks::{ForkWay, Launch, Task, TaskStatus};
use plimsoll_store::Filter;
use plimsoll_testkit::server::{Captured, ModelServer, Reply};
use serde_json::{Value, json};

use super::support::{TaskDock, is_child, launch};
use crate::support::{lines, run};

const TASK: &str = "Weigh the anchor";

fn input(fork: bool) -> Value {
    json!({ "description": "Weigh it", "prompt": TASK, "agent": "helper", "fork": fork })
}

/// A parent that launches one task with this input and waits; the task answers at once.
fn launching(input: Value) -> TaskDock {
    let answer = move |request: &Captured| match request.call_ids().len() {
        _ if is_child(request, TASK) => Reply::new().text("It is heavy."),
        0 => Reply::new().text("I will hand this on.").call("call_1", "background_task", input.clone()),
        _ => Reply::new().text("Good."),
    };
    TaskDock::new(ModelServer::answering(answer).unwrap())
}

/// Returns the only task of a session, and its only request.
async fn only_child(dock: &TaskDock, session: &SessionId) -> (Task, Captured) {
    let mut tasks = dock.board.tasks(Some(session)).await.unwrap();
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    let requests = dock.dock.server.requests();
    let mut childs: Vec<Captured> = requests.into_iter().filter(|request| is_child(request, TASK)).collect();
    assert_eq!(childs.len(), 1, "the task itself, and nothing else");
    (tasks.remove(0), childs.remove(0))
}

#[tokio::test]
async fn r62_a_task_is_a_child_of_the_session_that_called() {
    let dock = launching(input(false));
    let mut talk = dock.begin().await;
    run(&mut talk, "Sail to Bergen").await;
    let (task, _) = only_child(&dock, talk.session()).await;
    let store = dock.dock.archive.store();
    assert_eq!(store.session(&task.id).unwrap().parent.as_ref(), Some(talk.session()));
    let children = Filter { parent: Some(talk.session().clone()), ..Filter::default() };
    let children: Vec<SessionId> =
        store.sessions(&children).unwrap().into_iter().map(|session| session.id).collect();
    assert_eq!(children, [task.id], "the parent's list of children");
    let roots: Vec<SessionId> =
        store.sessions(&Filter::default()).unwrap().into_iter().map(|session| session.id).collect();
    assert_eq!(roots, [talk.session().clone()], "it is not listed next to its parent");
}

#[tokio::test]
async fn r3_a_fork_by_a_call_asks_no_model_for_its_context() {
    let dock = launching(input(true));
    let mut talk = dock.begin().await;
    // More than fits the digest in full, so that there is something to summarise.
    run(&mut talk, &format!("Sail to Bergen\n{}", lines(700))).await;
    let (task, child) = only_child(&dock, talk.session()).await;
    let stats = task.data.fork.unwrap().stats.unwrap();
    assert!(stats.shortened_messages > 0, "{stats:?}");
    assert!(child.messages[0].text().contains("<inherited_context>\nUser:\nSail to Bergen"));
    let requests = dock.dock.server.requests();
    let (childs, parents): (Vec<_>, Vec<_>) = requests.iter().partition(|request| is_child(request, TASK));
    // The parent launches, stops, and answers the note; all of these requests start with its own prompt.
    assert_eq!((childs.len(), parents.len()), (1, 3));
    assert!(parents.iter().all(|request| request.messages[0].text().starts_with("Sail to Bergen")));
    assert!(parents.iter().all(|request| request.tools.contains(&"background_task".to_owned())));
}

#[tokio::test]
async fn r10_a_fork_by_a_call_reads_a_compaction_and_makes_or_changes_none() {
    let dock = launching(input(true));
    let mut talk = dock.begin().await;
    let marker = PartBody::Compaction(CompactionPart { auto: Some(true), ..CompactionPart::default() });
    let old = Message::user("msg_0a".into(), "prt_0a".into(), "the old course");
    let mut asked = Message::user("msg_0b".into(), "prt_0b".into(), "");
    asked.parts = vec![Part::new("prt_0b".into(), marker)].into();
    let text = Part::text("prt_0c".into(), "## Goal\nReach Bergen by the new course.");
    let mut summary = Message::assistant("msg_0c".into(), vec![text]);
    (summary.info.summary, summary.info.parent_id) = (true, Some(asked.info.id.clone()));
    summary.info.finish = Some("stop".into());
    for message in [old, asked, summary] {
        talk.session_mut().append(message).await.unwrap();
    }
    let stored = |log: &[Message]| serde_json::to_string(log).unwrap();
    let before = dock.dock.log(talk.session());
    run(&mut talk, "And now?").await;
    let (task, child) = only_child(&dock, talk.session()).await;
    let context = child.messages[0].text();
    assert!(context.contains("Reach Bergen by the new course."), "{context}");
    assert!(!child.contains("the old course"), "what the summary speaks for is left out");
    assert!(task.data.fork.unwrap().stats.unwrap().compaction_detected);
    let after = dock.dock.log(talk.session());
    assert_eq!(stored(&after[..before.len()]), stored(&before), "byte for byte");
    let added = &after[before.len()..];
    assert!(added.iter().all(|message| message.marker().is_none() && !message.info.summary));
    // Its prompt, the launching answer, the end of the turn, the note, the answer to that.
    assert_eq!(added.len(), 5, "{added:?}");
}

/// A model that makes calls has received a prompt, so a session without messages is forked only by a user.
#[tokio::test]
async fn r39_a_fork_of_an_empty_session_sends_only_the_prompt() {
    let dock = launching(input(true));
    let talk = dock.begin().await;
    let new = Launch { fork: true, ..launch(TASK) };
    let task = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    assert_eq!(dock.ended(&task.id).await.status, TaskStatus::Completed);
    let (task, child) = only_child(&dock, talk.session()).await;
    assert_eq!(task.data.fork.unwrap().way, ForkWay::Nothing);
    let sent: Vec<(&str, String)> =
        child.messages.iter().map(|message| (message.role.as_str(), message.text())).collect();
    assert_eq!(sent, [("user", TASK.to_owned())], "no preamble, no empty context, no introduction");
}

#[tokio::test]
async fn r50_no_argument_of_a_call_decides_what_is_cut() {
    let mut odd = input(true);
    let words = ["truncate", "max_chars", "max_tokens", "legacy", "uniform", "char_budget"];
    for word in words {
        odd[word] = json!(1);
    }
    let mut contexts = Vec::new();
    for input in [input(true), odd] {
        let dock = launching(input);
        let mut talk = dock.begin().await;
        run(&mut talk, &format!("Sail to Bergen\n{}", lines(200))).await;
        let first = &dock.dock.server.requests()[0];
        let tools = first.body["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == "background_task").unwrap();
        let sent: Vec<&String> = tool["input_schema"]["properties"].as_object().unwrap().keys().collect();
        assert_eq!(sent, ["description", "prompt", "agent", "fork", "resume", "model"], "as declared");
        let (_, child) = only_child(&dock, talk.session()).await;
        contexts.push(child.messages[0].text());
    }
    assert!(contexts[0].contains(lines(200).trim_end()), "whole");
    assert_eq!(contexts[0], contexts[1]);
}
