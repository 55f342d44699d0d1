//! Slots: tasks that wait for their own tasks do not keep them from working.

use std::time::Duration;

use plimsoll_agent::tasks::{Launch, TaskLimits, TaskStatus};
use plimsoll_testkit::server::{Captured, ModelServer, Reply};
use serde_json::json;

use super::support::{TaskDock, is_child, launch};
use crate::support::Dock;

/// The pause between two pieces of an answer that is to come late.
const LATE: Duration = Duration::from_millis(150);

fn task(call: &str, prompt: &str, agent: &str) -> (String, serde_json::Value) {
    (call.to_owned(), json!({ "description": prompt, "prompt": prompt, "agent": agent }))
}

fn wait_for(request: &Captured, call: &str) -> serde_json::Value {
    let said = request.result(call).unwrap();
    json!({ "task_id": said.split('`').nth(1).unwrap(), "block": true, "timeout": 60 })
}

/// One slot for four tasks on three floors. The outermost waits for two at once; when the first of them has ended, it must
/// not take the slot back that the other's own task needs.
#[tokio::test]
async fn calls_that_wait_together_give_the_slot_back_until_the_last_has_its_answer() {
    let server = ModelServer::answering(|request: &Captured| {
        let calls = request.call_ids().len();
        let launch = |reply: Reply, (call, input)| reply.call(call, "background_task", input);
        if is_child(request, "Outer") {
            return match calls {
                0 => launch(
                    launch(Reply::new(), task("call_1", "Quick", "helper")),
                    task("call_2", "Slow", "boss"),
                ),
                2 => Reply::new().call("call_3", "background_output", wait_for(request, "call_1")).call(
                    "call_4",
                    "background_output",
                    wait_for(request, "call_2"),
                ),
                _ => Reply::new().text("All done."),
            };
        }
        if is_child(request, "Slow") {
            return match calls {
                // Late enough that the outermost has its first answer by then, and would be before this in the queue.
                0 => launch(Reply::new().pause(LATE), task("call_1", "Innermost", "helper")),
                1 => Reply::new().call("call_2", "background_output", wait_for(request, "call_1")),
                _ => Reply::new().text("Slow done."),
            };
        }
        Reply::new().text("Done.").pause(Duration::from_millis(20))
    })
    .unwrap();
    let limits = TaskLimits { at_once: 1, depth: 3, ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let talk = dock.begin().await;
    let new = Launch { agent: "boss".into(), ..launch("Outer") };
    let outer = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    let cancel = tokio_util::sync::CancellationToken::new();
    let ended = dock.board.wait(&outer.id, Duration::from_secs(20), &cancel).await.unwrap();
    assert_eq!(ended.status, TaskStatus::Completed, "{:?}", dock.board.tasks(None).await);
    assert_eq!(ended.data.result.as_deref(), Some("All done."));
    let all = dock.board.tasks(None).await.unwrap();
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|task| task.status == TaskStatus::Completed), "{all:?}");
}

/// Every slot is a task that waits.
#[tokio::test]
async fn tasks_that_all_wait_for_their_own_come_to_their_ends() {
    let server = ModelServer::answering(|request: &Captured| {
        if !request.contains("Outer") {
            return Reply::new().text("Done.");
        }
        match request.call_ids().len() {
            0 => {
                let (call, input) = task("call_1", "Inner", "helper");
                Reply::new().call(call, "background_task", input)
            }
            1 => Reply::new().call("call_2", "background_output", wait_for(request, "call_1")),
            _ => Reply::new().text("Outer done."),
        }
    })
    .unwrap();
    let limits = TaskLimits { at_once: 2, ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let talk = dock.begin().await;
    let mut ids = Vec::new();
    for n in 0..6 {
        let new = Launch { agent: "boss".into(), ..launch(&format!("Outer {n}")) };
        ids.push(dock.board.launch(&dock.caller(&talk), new).await.unwrap().id);
    }
    for id in &ids {
        assert_eq!(dock.ended(id).await.data.result.as_deref(), Some("Outer done."));
    }
}
