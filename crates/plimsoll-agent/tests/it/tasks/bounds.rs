//! Bounds of a task that is resumed after the process that launched it is gone.

use plimsoll_agent::tasks::{TaskError, TaskLimits, TaskStatus};
use plimsoll_config::Action;
use plimsoll_testkit::server::{Captured, ModelServer, Reply};
use serde_json::json;

use super::restarts::other_process;
use super::support::{TaskDock, launch};
use crate::support::Dock;

/// Runs a command for every new prompt.
fn commanding() -> ModelServer {
    ModelServer::answering(|request: &Captured| {
        let call =
            format!("call_{}", request.messages.iter().filter(|message| message.role == "user").count());
        let is_answered = request.messages.last().is_some_and(|message| message.text() == "And again");
        match request.call_ids().is_empty() || is_answered {
            true => Reply::new().call(call, "bash", json!({ "command": "touch made" })),
            false => Reply::new().text("So be it."),
        }
    })
    .unwrap()
}

/// The root's agent had fewer permissions than configured: by a flag, a host, or an older configuration.
#[tokio::test]
async fn the_bounds_of_a_launch_apply_in_another_process() {
    let dock = TaskDock::with(Dock::new(commanding()).allow("all"), TaskLimits::default(), None);
    let mut narrow = dock.agent.clone();
    let mut deny = plimsoll_agent::parse_allow("bash", None).unwrap();
    deny.action = Action::Deny;
    narrow.profile.permissions.rules.push(deny);
    let talk = narrow.begin("").await.unwrap();
    let caller = plimsoll_agent::tasks::Caller { agent: narrow, ..dock.caller(&talk) };
    let task = dock.board.launch(&caller, launch("Work")).await.unwrap();
    dock.ended(&task.id).await;
    let other = other_process(&dock);
    other.board.resume(None, &task.id, "And again").await.unwrap();
    let ended = other.ended(&task.id).await;
    assert_eq!(ended.status, TaskStatus::Completed, "{:?}", ended.data.error);
    let last = dock.dock.server.last().unwrap();
    let results: Vec<&str> = last.call_ids().iter().filter_map(|call| last.result(call)).collect();
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(results.iter().all(|result| result.starts_with("Denied:")), "{results:?}");
    assert!(!dock.project().join("made").exists());
    // A parent with more permissions today does not widen them either.
    let wide = other.board.resume(Some(&dock.caller(&talk)), &task.id, "And again").await;
    wide.unwrap();
    other.ended(&task.id).await;
    assert!(!dock.project().join("made").exists());
}

/// Replacing it by another agent would be a guess, and the default agent may have the most permissions.
#[tokio::test]
async fn a_task_whose_launcher_is_no_longer_configured_is_not_resumed() {
    let dock = TaskDock::with(Dock::new(commanding()).allow("all"), TaskLimits::default(), None);
    let mut agent = dock.agent.clone();
    agent.profile.name = "ghost".into();
    let talk = agent.begin("").await.unwrap();
    let caller = plimsoll_agent::tasks::Caller { agent, ..dock.caller(&talk) };
    let task = dock.board.launch(&caller, launch("Work")).await.unwrap();
    dock.ended(&task.id).await;
    let other = other_process(&dock);
    let refused = other.board.resume(None, &task.id, "And again").await.unwrap_err();
    assert!(matches!(&refused, TaskError::Unbounded { agent, .. } if agent == "ghost"), "{refused}");
    let refused = other.board.agent_of(&other.board.task(&task.id).await.unwrap()).await.err().unwrap();
    assert!(refused.to_string().contains("the task's permissions are unknown"), "{refused}");
    assert_eq!(other.board.task(&task.id).await.unwrap().status, TaskStatus::Completed);
}
