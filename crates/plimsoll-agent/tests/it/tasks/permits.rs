//! Permissions of tasks, and questions about their calls.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use plimsoll_agent::tasks::{Launch, TaskLimits, TaskStatus};
use plimsoll_agent::{Asker, PermissionAnswer, PermissionQuestion};
use plimsoll_testkit::server::{Captured, ModelServer, Reply};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::support::{TaskDock, is_child, launch};
use crate::support::Dock;

/// Answers every question in the same way, and records the questions.
struct User {
    answer: PermissionAnswer,
    asked: Mutex<Vec<PermissionQuestion>>,
}

impl Asker for User {
    fn ask<'a>(
        &'a self,
        question: &'a PermissionQuestion,
        _: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send + 'a>> {
        self.asked.lock().unwrap().push(question.clone());
        let answer = self.answer.clone();
        Box::pin(async move { answer })
    }
}

/// Every task runs two commands that no rule decides about.
fn commanding() -> ModelServer {
    ModelServer::answering(|request: &Captured| match request.call_ids().len() {
        made @ 0..2 => {
            let command = format!("echo {}", ["one", "two"][made]);
            Reply::new().call(format!("call_{made}"), "bash", json!({ "command": command }))
        }
        _ => Reply::new().text("Done."),
    })
    .unwrap()
}

#[tokio::test]
async fn questions_of_a_task_go_to_the_roots_user_in_the_tasks_name() {
    let user = Arc::new(User { answer: PermissionAnswer::Always, asked: Mutex::default() });
    let mut dock = TaskDock::new(commanding());
    dock.agent.asker = Some(user.clone());
    let talk = dock.begin().await;
    let one = dock.launch(&talk, "Work").await;
    assert_eq!(dock.ended(&one.id).await.status, TaskStatus::Completed);
    {
        let asked = user.asked.lock().unwrap();
        assert_eq!(asked.len(), 1, "a lasting permission is not asked for again");
        assert_eq!((&asked[0].session, asked[0].agent.as_str()), (&one.id, "helper"));
        assert_eq!(asked[0].what, "echo one");
    }
    let two = dock.launch(&talk, "Work again").await;
    dock.ended(&two.id).await;
    let asked = user.asked.lock().unwrap();
    assert_eq!(asked.len(), 2, "it was allowed for the other task only");
    assert_eq!(asked[1].session, two.id);
}

#[tokio::test]
async fn questions_of_a_task_are_denied_without_a_user() {
    let dock = TaskDock::new(commanding());
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    assert_eq!(dock.ended(&task.id).await.status, TaskStatus::Completed);
    let last = dock.dock.server.last().unwrap();
    assert!(
        last.result("call_0").unwrap().starts_with("Denied:")
            && last.result("call_1").unwrap().starts_with("Denied:")
    );
}

#[tokio::test]
async fn every_ancestor_bounds_a_task() {
    // The root may not run commands; the agents between may.
    let server = ModelServer::answering(|request: &Captured| {
        let call = |prompt: &str, agent: &str| {
            let input = json!({ "description": "d", "prompt": prompt, "agent": agent });
            Reply::new().call("call_1", "background_task", input)
        };
        match request.call_ids().len() {
            0 if is_child(request, "Middle") => call("Inner", "helper"),
            0 => Reply::new().call("call_1", "bash", json!({ "command": "touch made" })),
            _ => Reply::new().text("So be it."),
        }
    })
    .unwrap();
    let mut dock = TaskDock::with(Dock::new(server).allow("all"), TaskLimits::default(), None);
    let mut deny = plimsoll_agent::parse_allow("bash", None).unwrap();
    deny.action = plimsoll_config::Action::Deny;
    dock.agent.profile.permissions.rules.push(deny);
    let talk = dock.begin().await;
    let new = Launch { agent: "boss".into(), ..launch("Middle") };
    let middle = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    dock.ended(&middle.id).await;
    let inner = dock.board.tasks(Some(&middle.id)).await.unwrap();
    assert_eq!(inner.len(), 1);
    let requests = dock.dock.server.requests();
    let refused =
        requests.iter().find(|request| is_child(request, "Inner") && request.result("call_1").is_some());
    assert!(refused.unwrap().result("call_1").unwrap().starts_with("Denied:"));
    assert!(!dock.project().join("made").exists());
}

#[tokio::test]
async fn a_task_has_no_tool_that_an_ancestor_lacks() {
    let server = ModelServer::answering(|request: &Captured| match request.call_ids().len() {
        0 => Reply::new().call("call_1", "write", json!({ "path": "made.txt", "content": "by a task" })),
        _ => Reply::new().text("So be it."),
    })
    .unwrap();
    let mut dock = TaskDock::with(Dock::new(server).allow("all"), TaskLimits::default(), None);
    let off = |tool: &str| plimsoll_config::ToolSwitch {
        tool: tool.into(),
        on: false,
        origin: plimsoll_config::Origin::BuiltIn,
    };
    dock.agent.profile.switches.push(off("write"));
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    dock.ended(&task.id).await;
    let last = dock.dock.server.last().unwrap();
    assert!(
        last.result("call_1").unwrap().starts_with("Unknown tool `write`"),
        "{:?}",
        last.result("call_1")
    );
    assert!(!dock.dock.directory.path().join("project/made.txt").exists());
}
