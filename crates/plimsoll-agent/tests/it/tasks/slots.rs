//! Slots: tasks that wait for their own tasks do not block them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_agent::tasks::{Launch, Task, TaskLimits, TaskStatus};
use plimsoll_agent::{Asker, PermissionAnswer, PermissionQuestion};
use plimsoll_testkit::server::{Captured, Gate, ModelServer, Reply};
use rstest::rstest;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::support::{TaskDock, is_child, launch};
use crate::support::Dock;

/// Far more than a call needs to notice that its task has ended.
const LATE: Duration = Duration::from_millis(300);

fn task(call: &str, prompt: &str, agent: &str) -> (String, serde_json::Value) {
    (call.to_owned(), json!({ "description": prompt, "prompt": prompt, "agent": agent }))
}

fn wait_for(request: &Captured, call: &str) -> serde_json::Value {
    let said = request.result(call).unwrap();
    json!({ "task_id": said.split('`').nth(1).unwrap(), "block": true, "timeout": 60 })
}

/// A user who answers on request.
struct Patient(Arc<Notify>);

impl Asker for Patient {
    fn ask<'a>(
        &'a self,
        _: &'a PermissionQuestion,
        _: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send + 'a>> {
        Box::pin(async move {
            self.0.notified().await;
            PermissionAnswer::No { words: None }
        })
    }
}

/// A slot for four tasks on three levels. The outermost waits for two at once. When the first of them has ended, it
/// must not take back the slot that the other's task needs. Nor may it keep a slot if its second call begins to wait
/// only after the first has returned, because the user was asked in between.
#[rstest]
#[case::together(false)]
#[case::one_after_the_other(true)]
#[tokio::test]
async fn calls_that_wait_give_the_slot_back_until_the_last_has_its_answer(#[case] asks: bool) {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| {
        let calls = request.call_ids().len();
        let launch = |reply: Reply, (call, input)| reply.call(call, "background_task", input);
        if is_child(request, "Outer") {
            return match calls {
                0 => launch(
                    launch(Reply::new(), task("call_1", "Quick", "helper")),
                    task("call_2", "Slow", "boss"),
                ),
                2 => {
                    let one = Reply::new().call("call_3", "background_output", wait_for(request, "call_1"));
                    let asked = match asks {
                        true => one.call("call_a", "read", json!({ "path": "/etc/hostname" })),
                        false => one,
                    };
                    asked.call("call_4", "background_output", wait_for(request, "call_2"))
                }
                _ => Reply::new().text("All done."),
            };
        }
        if is_child(request, "Slow") {
            return match calls {
                0 => launch(Reply::new().gate(0, &held), task("call_1", "Innermost", "helper")),
                1 => Reply::new().call("call_2", "background_output", wait_for(request, "call_1")),
                _ => Reply::new().text("Slow done."),
            };
        }
        Reply::new().text("Done.").pause(Duration::from_millis(20))
    })
    .unwrap();
    let limits = TaskLimits { at_once: 1, depth: 3, ..TaskLimits::default() };
    let answer = Arc::new(Notify::new());
    let mut plain = Dock::new(server);
    plain.agent.asker = Some(Arc::new(Patient(Arc::clone(&answer))));
    let dock = TaskDock::with(plain, limits, None);
    let talk = dock.begin().await;
    let new = Launch { agent: "boss".into(), ..launch("Outer") };
    let outer = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    let is_over = |task: &Task| task.data.prompt == "Quick" && task.status == TaskStatus::Completed;
    for _ in 0..2_000 {
        if dock.board.tasks(None).await.unwrap().iter().any(is_over) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The outermost has its first answer by then, and would precede the innermost in the queue.
    tokio::time::sleep(LATE).await;
    answer.notify_one();
    tokio::time::sleep(LATE).await;
    gate.release();
    let ended = dock.board.wait(&outer.id, Duration::from_secs(20), &CancellationToken::new()).await.unwrap();
    let all = dock.board.tasks(None).await.unwrap();
    // Before any assertion: waiting calls would keep the test from ending.
    dock.board.close(Duration::from_secs(10)).await;
    assert_eq!(
        (ended.status, ended.data.result.as_deref()),
        (TaskStatus::Completed, Some("All done.")),
        "{all:?}"
    );
    // Both calls must have waited; a rejected call would prove nothing.
    let last = dock.dock.server.requests().into_iter().rfind(|request| is_child(request, "Outer")).unwrap();
    for call in ["call_3", "call_4"] {
        let said = last.result(call).unwrap();
        assert!(said.starts_with("✓ **Task Completed**"), "{call}: {said}");
    }
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|task| task.status == TaskStatus::Completed), "{all:?}");
}

/// Every slot belongs to a waiting task.
#[tokio::test]
async fn tasks_that_all_wait_for_their_own_tasks_end() {
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
    let mut results = Vec::new();
    for id in &ids {
        let ended = dock.board.wait(id, Duration::from_secs(20), &CancellationToken::new()).await.unwrap();
        results.push(ended.data.result);
        if ended.status.is_active() {
            break;
        }
    }
    dock.board.close(Duration::from_secs(10)).await;
    assert_eq!(results, vec![Some("Outer done.".to_owned()); ids.len()]);
}
