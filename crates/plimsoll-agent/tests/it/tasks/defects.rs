//! Known defects of similar systems that do not occur here. docs/TASKS.md has the complete list; those without a test
//! elsewhere are here.

use plimsoll_agent::RunEnd;
use plimsoll_agent::tasks::{ResumeOutcome, TaskLimits, TaskStatus};
use plimsoll_testkit::server::{Captured, Fault, Gate, ModelServer, Reply};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::support::{TaskDock, injected_messages, is_child, task_call};
use crate::support::{Dock, run};

/// In other systems each new session ended every task, and each launch creates a session.
#[tokio::test]
async fn a_session_that_is_begun_or_closed_ends_no_task() {
    let gate = Gate::new();
    let held = gate.clone();
    let server =
        ModelServer::answering(move |_: &Captured| Reply::new().text("Done.").gate(0, &held)).unwrap();
    let dock = TaskDock::new(server);
    let talk = dock.begin().await;
    let parent = talk.session().clone();
    let one = dock.launch(&talk, "One").await;
    gate.reached().await;
    let other = dock.begin().await;
    let two = dock.launch(&other, "Two").await;
    dock.reaches(&two.id, TaskStatus::Running).await;
    talk.close().await.unwrap();
    assert_eq!(dock.board.task(&one.id).await.unwrap().status, TaskStatus::Running);
    gate.release();
    for id in [&one.id, &two.id] {
        let ended = dock.ended(id).await;
        assert_eq!((ended.status, ended.data.result.as_deref()), (TaskStatus::Completed, Some("Done.")));
    }
    // Its parent is notified when it is opened again.
    let mut again = dock.agent.open(&parent).await.unwrap();
    assert!(again.take_notes().await.unwrap());
    assert_eq!(injected_messages(&dock, &parent).len(), 1);
}

/// In other systems an interrupt, or opening another session, ended the tasks of all parents.
#[tokio::test]
async fn a_turn_that_is_cancelled_ends_neither_its_tasks_nor_those_of_others() {
    let (gate, waits) = (Gate::new(), Gate::new());
    let (held, halted) = (gate.clone(), waits.clone());
    let server = ModelServer::answering(move |request: &Captured| match request.call_ids().len() {
        _ if is_child(request, "Own") || is_child(request, "Another's") => {
            Reply::new().text("Done.").gate(0, &held)
        }
        0 => task_call("call_1", "Own", false),
        _ => Reply::new().text("Never said.").gate(0, &halted),
    })
    .unwrap();
    let dock = TaskDock::new(server);
    let other = dock.begin().await;
    let theirs = dock.launch(&other, "Another's").await;
    let mut talk = dock.begin().await;
    let cancel = CancellationToken::new();
    let interrupt = async {
        waits.reached().await;
        cancel.cancel();
    };
    let (report, ()) = tokio::join!(talk.run("Go", &cancel), interrupt);
    assert_eq!(report.unwrap().end, RunEnd::Cancelled);
    let own = dock.board.tasks(Some(talk.session())).await.unwrap().remove(0);
    for id in [&own.id, &theirs.id] {
        dock.reaches(id, TaskStatus::Running).await;
    }
    gate.release();
    waits.release();
    for id in [&own.id, &theirs.id] {
        assert_eq!(dock.ended(id).await.status, TaskStatus::Completed);
    }
}

/// In other systems a failed resume was `completed`, and its time counted from the first launch.
#[tokio::test]
async fn a_resume_that_fails_is_an_error_and_its_time_is_its_own() {
    let server = ModelServer::answering(|request: &Captured| match request.last_user_text().as_str() {
        "One" => Reply::new().text("First."),
        _ => Reply::failing(Fault::status(400)),
    })
    .unwrap();
    let dock = TaskDock::new(server);
    let mut talk = dock.begin().await;
    let task = dock.launch(&talk, "One").await;
    dock.ended(&task.id).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let resumed = dock.board.resume(Some(&dock.caller(&talk)), &task.id, "Two").await.unwrap();
    assert!(matches!(resumed, ResumeOutcome::Begun(_)), "{resumed:?}");
    let ended = dock.ended(&task.id).await;
    assert_eq!((ended.status, ended.resumes()), (TaskStatus::Error, 1));
    assert_eq!(ended.data.runs[0].end, Some(TaskStatus::Completed), "the first run stays what it was");
    let since_launch = dock.board.now().0 - ended.created.0;
    let own = ended.duration(dock.board.now()).as_millis() as u64;
    assert!(since_launch >= 1_100 && own + 1_000 < since_launch, "{own} of {since_launch} ms");
    let stored = dock.dock.archive.store().task(task.id.as_str()).unwrap();
    assert_eq!(stored.status, "error", "in the store, not only in memory");
    assert!(talk.take_notes().await.unwrap());
    let output = injected_messages(&dock, talk.session()).join("\n");
    assert!(output.contains("✗ **Agent \"About One\": Resume #1 failed in"), "{output}");
}

/// In other systems the last message was the result, even if it had only calls.
#[tokio::test]
async fn the_newest_text_is_the_result_if_the_last_answer_has_none() {
    let server = ModelServer::answering(|request: &Captured| match request.call_ids().len() {
        0 => Reply::new().text("Nine metres so far.").call("call_0", "list", json!({ "path": "." })),
        n => Reply::new().call(format!("call_{n}"), "list", json!({ "path": ".", "limit": n })),
    })
    .unwrap();
    let limits = TaskLimits { steps: Some(3), ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Measure").await;
    let ended = dock.ended(&task.id).await;
    assert_eq!(ended.data.progress.steps, 3);
    assert_eq!(ended.data.result.as_deref(), Some("Nine metres so far."));
}

/// In other systems a failed launch and a cancel were only in memory, and a cancel was not reported.
#[tokio::test]
async fn a_failed_launch_and_a_cancel_are_stored_and_reported() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| match request.last_user_text().as_str() {
        "Fail" => Reply::failing(Fault::status(400)),
        "Wait" => Reply::new().text("Never said.").gate(0, &held),
        _ => Reply::new().text("I see."),
    })
    .unwrap();
    let dock = TaskDock::new(server);
    let mut talk = dock.begin().await;
    let failed = dock.launch(&talk, "Fail").await;
    dock.ended(&failed.id).await;
    let waits = dock.launch(&talk, "Wait").await;
    gate.reached().await;
    dock.board.cancel(&waits.id).await.unwrap();
    let status = |id: &plimsoll::SessionId| dock.dock.archive.store().task(id.as_str()).unwrap().status;
    assert_eq!((status(&failed.id).as_str(), status(&waits.id).as_str()), ("error", "cancelled"));
    dock.ended(&waits.id).await;
    run(&mut talk, "And?").await;
    let output = injected_messages(&dock, talk.session());
    assert_eq!(output.len(), 1, "together: {output:?}");
    assert!(
        output[0].contains("About Fail\" failed in") && output[0].contains("About Wait\" cancelled after")
    );
    gate.release();
}
