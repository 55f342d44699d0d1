//! A run of a task at a time: sessions that change processes while a run waits, begins, or is cleaned up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_agent::Agent;
use plimsoll_agent::tasks::{Launch, ResumeOutcome, TaskBoard, TaskLimits, TaskPoint, TaskStatus};
use plimsoll_store::{TaskFilter, TaskMove};
use plimsoll_testkit::server::{Captured, Gate, ModelServer, Reply};
use rstest::rstest;

use super::support::{Crew, TaskDock, is_child, launch, task_call};
use crate::support::Dock;

/// A dock whose board reports the points that its runs reach.
fn probed(
    server: ModelServer,
    limits: TaskLimits,
    probe: impl Fn(&Dock, TaskPoint) + Send + Sync + 'static,
) -> TaskDock {
    let plain = Dock::new(server);
    let crew = Crew::of(&plain.agent);
    let board = TaskBoard::new(Arc::clone(&plain.archive), Arc::new(crew), limits, "the test");
    let shared = Dock {
        server: ModelServer::start().unwrap(),
        directory: tempfile::tempdir().unwrap(),
        archive: Arc::clone(&plain.archive),
        events: Arc::clone(&plain.events),
        agent: plain.agent.clone(),
    };
    let board = TaskBoard::probed(board, move |point| probe(&shared, point));
    let agent: Agent = plain.agent.clone().with_tasks(&board);
    TaskDock { dock: plain, board, agent }
}

/// The record and the session of a task that waits for its slot move to another process at the moment at which the slot
/// becomes free, for example because this one was suspended. Either the other still has the session, or it has run it
/// to its end and released it.
#[rstest]
#[case::it_is_held(false)]
#[case::it_was_given_back(true)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_run_does_not_repeat_a_run_of_another_process(#[case] given_back: bool) {
    let gate = Gate::new();
    let held = gate.clone();
    let server =
        ModelServer::answering(move |_: &Captured| Reply::new().text("Done.").gate(0, &held)).unwrap();
    let taken = Arc::new(Mutex::new(None));
    let thief = Arc::clone(&taken);
    let limits = TaskLimits { at_once: 1, ..TaskLimits::default() };
    let dock = probed(server, limits, move |dock, point| {
        if point != TaskPoint::Ended || thief.lock().unwrap().is_some() {
            return;
        }
        let store = dock.archive.store();
        let second = store.tasks(&TaskFilter::default()).unwrap().remove(1);
        let lease = store
            .break_lease(&SessionId::new(second.id.as_str()), "another", Duration::from_secs(60))
            .unwrap();
        if given_back {
            let mut data = second.data.clone();
            data["runs"][0]["end"] = "completed".into();
            data["result"] = "Done elsewhere.".into();
            let step = TaskMove {
                from: "queued".into(),
                to: "completed".into(),
                data: Some(data),
                ..TaskMove::default()
            };
            store.move_task(&second.id, step, plimsoll::Millis(1)).unwrap();
            store.release(&lease).unwrap();
        }
        *thief.lock().unwrap() = Some(lease);
    });
    let talk = dock.begin().await;
    dock.launch(&talk, "One").await;
    // The slot goes to whichever run requests it first.
    gate.reached().await;
    let second = dock.launch(&talk, "Two").await;
    gate.release();
    let begun = std::time::Instant::now();
    while (taken.lock().unwrap().is_none() || dock.board.active_here() > 0)
        && begun.elapsed() < Duration::from_secs(20)
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(dock.board.active_here(), 0);
    let asked: Vec<String> = dock.dock.server.requests().iter().map(Captured::last_user_text).collect();
    assert_eq!(asked, ["One"], "the second was not run here");
    let store = dock.dock.archive.store();
    let now = dock.board.task(&second.id).await.unwrap();
    match given_back {
        true => assert_eq!(now.data.result.as_deref(), Some("Done elsewhere.")),
        false => {
            assert_eq!(now.status, TaskStatus::Queued, "the other decides");
            let lease = taken.lock().unwrap().take().unwrap();
            store.renew(&lease, Duration::from_secs(60)).unwrap();
        }
    }
}

/// The record of a run ends before its session is released. A resume in between must wait: it would take the lease from
/// the run that is being cleaned up, which would then remove the entry of the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_resume_waits_until_the_run_before_is_put_away() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| match request.last_user_text().as_str() {
        "Again" => Reply::new().text("Done again.").gate(0, &held),
        _ => Reply::new().text("Done."),
    })
    .unwrap();
    let ends = AtomicUsize::new(0);
    let dock = probed(server, TaskLimits::default(), move |_, point| {
        if point == TaskPoint::Ended && ends.fetch_add(1, Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(400));
        }
    });
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    dock.reaches(&task.id, TaskStatus::Completed).await;
    let resumed = dock.board.resume(Some(&dock.caller(&talk)), &task.id, "Again").await.unwrap();
    assert!(matches!(resumed, ResumeOutcome::Begun(_)), "{resumed:?}");
    gate.reached().await;
    // The cleanup is complete by now.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(dock.board.active_here(), 1, "the second run has its place");
    gate.release();
    let ended = dock.ended(&task.id).await;
    assert_eq!((ended.status, ended.data.result.as_deref()), (TaskStatus::Completed, Some("Done again.")));
}

/// A cancel reads the tasks below; one that is launched at that moment is not among them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_launched_while_its_launcher_is_cancelled_is_cancelled_with_it() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| match is_child(request, "Inner") {
        true => Reply::new().text("Inner done.").gate(0, &held),
        false if request.call_ids().is_empty() => task_call("call_1", "Inner", false),
        false => Reply::new().text("Waiting."),
    })
    .unwrap();
    let born = AtomicUsize::new(0);
    let dock = probed(server, TaskLimits::default(), move |dock, point| {
        if point == TaskPoint::Created && born.fetch_add(1, Ordering::SeqCst) == 1 {
            let store = dock.archive.store();
            let outer = store.tasks(&TaskFilter::default()).unwrap().remove(0);
            let step = TaskMove { from: "running".into(), to: "cancelled".into(), ..TaskMove::default() };
            store.move_task(&outer.id, step, plimsoll::Millis(1)).unwrap();
        }
    });
    let talk = dock.begin().await;
    let new = Launch { agent: "boss".into(), ..launch("Outer") };
    let outer = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    let begun = std::time::Instant::now();
    let inner = loop {
        let inner = dock.board.tasks(Some(&outer.id)).await.unwrap().pop();
        match inner {
            Some(inner) if !inner.status.is_active() || begun.elapsed() > Duration::from_secs(10) => {
                break inner;
            }
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    dock.board.close(Duration::from_secs(10)).await;
    gate.release();
    assert_eq!(inner.status, TaskStatus::Cancelled);
    assert_eq!(inner.data.error.as_deref(), Some("The task that launched it was cancelled."));
}

/// Between the last answer and the record of the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_loses_its_session_at_the_very_end_does_not_say_how_it_ended() {
    let server = ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap();
    let dock = probed(server, TaskLimits::default(), move |dock, point| {
        if point == TaskPoint::Finished {
            let store = dock.archive.store();
            let id = SessionId::new(store.tasks(&TaskFilter::default()).unwrap().remove(0).id);
            store.break_lease(&id, "another", Duration::from_secs(60)).unwrap();
        }
    });
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    let begun = std::time::Instant::now();
    while dock.board.active_here() > 0 && begun.elapsed() < Duration::from_secs(20) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(dock.board.task(&task.id).await.unwrap().status, TaskStatus::Running, "the other decides");
    assert!(dock.dock.archive.store().notes(talk.session(), 0).unwrap().is_empty());
}
