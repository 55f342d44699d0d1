//! Ends of runs: what is recorded, what is returned, and what a run that lost its session does not change.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_agent::tasks::{Caller, Launch, Speaker, TaskBoard, TaskLimits, TaskPoint, TaskStatus};
use plimsoll_agent::{Agent, Event};
use plimsoll_config::AgentFork;
use plimsoll_store::{NewNote, NewTask, TaskFilter, TaskMove};
use plimsoll_testkit::server::{Captured, Fault, Gate, ModelServer, Reply};
use serde_json::{Value, json};

use super::support::{Crew, TaskDock, injected_messages, is_child, launch, task_call};
use crate::support::Dock;

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..4_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn a_run_without_text_has_no_result_and_does_not_repeat_the_previous_one() {
    let server = ModelServer::answering(|request: &Captured| match request.last_user_text().as_str() {
        "Count" => Reply::new().text("Nine ships."),
        _ => Reply::failing(Fault::status(400)),
    })
    .unwrap();
    let dock = TaskDock::new(server);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Count").await;
    assert_eq!(dock.ended(&task.id).await.data.result.as_deref(), Some("Nine ships."));
    dock.board.resume(Some(&dock.caller(&talk)), &task.id, "Again").await.unwrap();
    let ended = dock.ended(&task.id).await;
    assert_eq!((ended.status, ended.data.result.as_deref()), (TaskStatus::Error, None));
    assert_eq!(ended.data.runs[0].result.as_deref(), Some("Nine ships."), "the first run's is kept");
}

#[tokio::test]
async fn the_text_of_a_parent_is_not_the_result_of_its_fork() {
    let server = ModelServer::answering(|request: &Captured| {
        if request.contains("<task>") {
            return Reply::failing(Fault::status(400));
        }
        Reply::new().text("I am the parent.")
    })
    .unwrap();
    let dock = TaskDock::with(Dock::new(server), TaskLimits::default(), Some(AgentFork::History));
    let mut talk = dock.begin().await;
    crate::support::run(&mut talk, "Hello").await;
    let new = Launch { fork: true, agent: "build".into(), ..launch("Work") };
    let task = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    let ended = dock.ended(&task.id).await;
    assert_eq!(ended.data.fork.unwrap().way, plimsoll_agent::tasks::ForkWay::History);
    assert_eq!((ended.status, ended.data.result), (TaskStatus::Error, None));
}

#[tokio::test]
async fn a_task_that_ends_by_a_limit_leaves_no_task_of_its_own_at_work() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| match is_child(request, "Inner") {
        true => Reply::new().text("Inner done.").gate(0, &held),
        false => task_call("call_1", "Inner", false),
    })
    .unwrap();
    let limits = TaskLimits { steps: Some(1), ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let talk = dock.begin().await;
    let new = Launch { agent: "boss".into(), ..launch("Outer") };
    let outer = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    assert_eq!(dock.ended(&outer.id).await.status, TaskStatus::Error);
    let inner = dock.board.tasks(Some(&outer.id)).await.unwrap().remove(0);
    assert_eq!(inner.status, TaskStatus::Cancelled);
    assert_eq!(inner.data.error.as_deref(), Some("The task that launched it has ended."));
    gate.release();
}

/// Makes a task look as if its process had died during its last run.
fn forget_end(dock: &TaskDock, id: &SessionId, change: impl Fn(&mut Value)) {
    let store = dock.dock.archive.store();
    let record = store.task(id.as_str()).unwrap();
    let mut data = record.data.clone();
    let last = data["runs"].as_array().unwrap().len() - 1;
    data["runs"][last]["end"] = Value::Null;
    data["runs"][last]["ended"] = Value::Null;
    change(&mut data);
    let step = TaskMove {
        from: record.status,
        to: if last == 0 { "running" } else { "resumed" }.into(),
        data: Some(data),
        ..TaskMove::default()
    };
    store.move_task(id.as_str(), step, plimsoll::Millis(1)).unwrap();
}

#[tokio::test]
async fn a_lost_task_is_found_below_one_that_has_ended_and_while_it_is_waited_for() {
    let server = ModelServer::answering(|request: &Captured| match request.call_ids().len() {
        0 if is_child(request, "Outer") => task_call("call_1", "Inner", false),
        _ => Reply::new().text("Done."),
    })
    .unwrap();
    let dock = TaskDock::new(server);
    let talk = dock.begin().await;
    let new = Launch { agent: "boss".into(), ..launch("Outer") };
    let outer = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    assert_eq!(dock.ended(&outer.id).await.status, TaskStatus::Completed);
    let inner = dock.board.tasks(Some(&outer.id)).await.unwrap().remove(0);
    forget_end(&dock, &inner.id, |_| {});
    let marked = dock.board.reconcile(Some(talk.session())).await.unwrap();
    assert_eq!(marked.len(), 1, "{marked:?}");
    assert_eq!((&marked[0].id, marked[0].status), (&inner.id, TaskStatus::Interrupted));
    // Nothing is written for healthy or ended tasks.
    let before = dock.dock.archive.store().newest_change().unwrap();
    assert!(dock.board.reconcile(None).await.unwrap().is_empty());
    assert_eq!(dock.dock.archive.store().newest_change().unwrap(), before);

    forget_end(&dock, &outer.id, |_| {});
    let cancel = tokio_util::sync::CancellationToken::new();
    let found = dock.board.wait(&outer.id, Duration::from_secs(10), &cancel).await.unwrap();
    assert_eq!(found.status, TaskStatus::Interrupted);
}

#[tokio::test]
async fn the_prompt_of_a_run_that_never_began_is_in_its_session_once() {
    let server = ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap();
    let dock = TaskDock::new(server);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "One").await;
    dock.ended(&task.id).await;
    // State after a process dies between recording a resume and adding its prompt.
    let run = json!({ "by": "another", "prompt": "Two", "asked": dock.board.now().0 });
    forget_end(&dock, &task.id, |data| {
        data["runs"][0]["end"] = "completed".into();
        data["runs"][0]["ended"] = 1.into();
        data["runs"].as_array_mut().unwrap().push(run.clone());
    });
    let asked = |words: &str| {
        let log = dock.dock.log(&task.id);
        log.iter().filter(|message| message.is_user() && message.text() == words).count()
    };
    assert_eq!(asked("Two"), 0);
    assert_eq!(dock.board.reconcile(None).await.unwrap().len(), 1);
    assert_eq!(asked("Two"), 1);
    dock.board.resume(Some(&dock.caller(&talk)), &task.id, "Three").await.unwrap();
    dock.ended(&task.id).await;
    assert_eq!((asked("Two"), asked("Three")), (1, 1));
}

#[tokio::test]
async fn a_resume_queued_after_an_end_can_be_cancelled_and_cleared() {
    let dock = TaskDock::new(ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap());
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    dock.ended(&task.id).await;
    let store = dock.dock.archive.store();
    let wait = || {
        let mut data = store.task(task.id.as_str()).unwrap().data;
        data["pending"] = "Go on".into();
        let step = TaskMove {
            from: "completed".into(),
            to: "completed".into(),
            data: Some(data),
            ..TaskMove::default()
        };
        store.move_task(task.id.as_str(), step, plimsoll::Millis(1)).unwrap();
    };
    wait();
    let cancelled = dock.board.cancel(&task.id).await.unwrap();
    assert_eq!((cancelled.status, cancelled.data.pending), (TaskStatus::Completed, None));
    assert!(dock.board.cancel(&task.id).await.is_err(), "there is nothing more to cancel");
    wait();
    let (aborted, cleared) = dock.board.clear(talk.session()).await.unwrap();
    assert_eq!((aborted.len(), cleared.len()), (0, 1));
    dock.board.supervise(talk.session()).await.unwrap();
    let now = dock.board.task(&task.id).await.unwrap();
    assert_eq!((now.run(), now.data.pending, now.data.cleared), (1, None, true));
}

/// The user has the session when the run ends, for longer than a queued resume first waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_resume_begins_when_the_user_releases_the_session() {
    let gate = Gate::new();
    let held = gate.clone();
    let server =
        ModelServer::answering(move |_: &Captured| Reply::new().text("Done.").gate(0, &held)).unwrap();
    let mut dock = TaskDock::new(server);
    let (archive, taken) = (Arc::clone(&dock.dock.archive), Arc::new(std::sync::Mutex::new(None)));
    let user = Arc::clone(&taken);
    dock.agent.events = Arc::new(move |event| {
        if let Event::TaskEnded { task, run: 1, .. } = event {
            let lease = archive.store().lease(task, "a user", Duration::from_secs(60)).unwrap();
            *user.lock().unwrap() = Some(lease);
        }
    });
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    gate.reached().await;
    dock.board.resume(Some(&dock.caller(&talk)), &task.id, "Go on").await.unwrap();
    gate.release();
    until("the run has ended", async || taken.lock().unwrap().is_some()).await;
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    let waiting = dock.board.task(&task.id).await.unwrap();
    assert_eq!((waiting.run(), waiting.data.pending.as_deref()), (1, Some("Go on")));
    let lease = taken.lock().unwrap().take().unwrap();
    dock.dock.archive.store().release(&lease).unwrap();
    until("the resume has begun", async || dock.board.task(&task.id).await.unwrap().run() == 2).await;
    assert_eq!(dock.ended(&task.id).await.status, TaskStatus::Completed);
}

#[tokio::test]
async fn unread_steering_messages_are_returned_and_not_read_later() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| match request.last_user_text().as_str() {
        "Work" => Reply::new().call("call_1", "list", json!({})).gate(0, &held),
        _ => Reply::new().text("Done."),
    })
    .unwrap();
    let limits = TaskLimits { steps: Some(1), ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let mut talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    gate.reached().await;
    dock.board.steer(&task.id, "Mind the rocks", Speaker::Parent).await.unwrap();
    gate.release();
    let ended = dock.ended(&task.id).await;
    assert_eq!(ended.status, TaskStatus::Error, "by its limit");
    assert_eq!(ended.data.runs[0].unread, ["Mind the rocks"]);
    assert!(talk.take_notes().await.unwrap());
    assert_eq!(injected_messages(&dock, talk.session()).len(), 1);
    let log = dock.dock.log(talk.session());
    let hint = log.last().unwrap().parts.iter().filter_map(|part| match &part.body {
        plimsoll::PartBody::Text(text) => Some(text.text.to_string()),
        _ => None,
    });
    let hint: String = hint.collect();
    assert!(hint.contains("The task ended before it read your message: Mind the rocks"), "{hint}");
    dock.board.resume(Some(&dock.caller(&talk)), &task.id, "Go on").await.unwrap();
    dock.ended(&task.id).await;
    let last = dock.dock.server.last().unwrap();
    assert!(!last.contains("Mind the rocks"), "it was handed back, and would be heard twice");
    assert_eq!(last.last_user_text(), "Go on");
}

/// A process that was suspended for longer than its lease finds its session taken.
#[tokio::test]
async fn a_run_that_lost_its_session_writes_nothing_more() {
    let gate = Gate::new();
    let held = gate.clone();
    let server =
        ModelServer::answering(move |_: &Captured| Reply::new().text("Done.").gate(0, &held)).unwrap();
    let dock = TaskDock::new(server);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    gate.reached().await;
    let store = dock.dock.archive.store();
    let before = store.task(task.id.as_str()).unwrap();
    let thief = store.break_lease(&task.id, "another process", Duration::from_secs(60)).unwrap();
    gate.release();
    until("the run has stopped", async || dock.board.active_here() == 0).await;
    assert_eq!(store.task(task.id.as_str()).unwrap(), before, "the other decides");
    assert!(store.notes(talk.session(), 0).unwrap().is_empty());
    store.release(&thief).unwrap();
    let marked = dock.board.reconcile(None).await.unwrap();
    assert_eq!(marked[0].status, TaskStatus::Interrupted);
}

#[tokio::test]
async fn a_run_that_loses_its_session_in_the_queue_or_in_a_command_stops() {
    let server = ModelServer::answering(|_: &Captured| {
        Reply::new().call("call_1", "bash", json!({ "command": "sleep 60" }))
    })
    .unwrap();
    let plain = Dock::new(server).allow("all");
    let limits = TaskLimits { at_once: 1, ..TaskLimits::default() };
    let crew = Crew::of(&plain.agent);
    let board = TaskBoard::new(Arc::clone(&plain.archive), Arc::new(crew), limits, "the test");
    let board = TaskBoard::leasing(board, Duration::from_millis(600));
    let agent: Agent = plain.agent.clone().with_tasks(&board);
    let talk = agent.begin("").await.unwrap();
    let caller = Caller::new(agent.clone(), talk.session().clone(), talk.handle().clone());
    let works = board.launch(&caller, launch("Work")).await.unwrap();
    until("it works", async || board.task(&works.id).await.unwrap().data.progress.tool_calls == 1).await;
    let waits = board.launch(&caller, launch("Wait")).await.unwrap();
    let store = plain.archive.store();
    let begun = std::time::Instant::now();
    for (id, left) in [(&waits.id, 1), (&works.id, 0)] {
        store.break_lease(id, "another process", Duration::from_secs(60)).unwrap();
        until("the run has stopped", async || board.active_here() == left).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "the command was ended: {:?}", begun.elapsed());
    for (id, status) in [(&waits.id, TaskStatus::Queued), (&works.id, TaskStatus::Running)] {
        assert_eq!(board.task(id).await.unwrap().status, status);
    }
}

/// Messages that arrive right after the last answer continue the same run, without resetting its limits.
#[tokio::test]
async fn the_limits_of_a_run_hold_however_often_it_is_steered() {
    for by_tokens in [false, true] {
        let server = ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap();
        let plain = Dock::new(server);
        let limits = TaskLimits {
            steps: (!by_tokens).then_some(3),
            tokens: by_tokens.then_some(20_000),
            ..TaskLimits::default()
        };
        let crew = Crew::of(&plain.agent);
        let board = TaskBoard::new(Arc::clone(&plain.archive), Arc::new(crew), limits, "the test");
        let (archive, steers) = (Arc::clone(&plain.archive), std::sync::atomic::AtomicUsize::new(0));
        let board = TaskBoard::probed(board, move |point| {
            let count = steers.fetch_add(usize::from(point == TaskPoint::Answered), Ordering::SeqCst);
            if point == TaskPoint::Answered && count < 50 {
                let id = archive.store().tasks(&TaskFilter::default()).unwrap().remove(0).id;
                let note = NewNote {
                    id: format!("steer:{count}"),
                    kind: "task.steer".into(),
                    data: json!({ "text": format!("Mind rock {count}") }),
                };
                archive.store().send(&SessionId::new(id), note, plimsoll::Millis(1)).unwrap();
            }
        });
        let agent: Agent = plain.agent.clone().with_tasks(&board);
        let dock = TaskDock { dock: plain, board, agent };
        let talk = dock.begin().await;
        let task = dock.launch(&talk, "Work").await;
        let ended = dock.ended(&task.id).await;
        assert_eq!(ended.status, TaskStatus::Error, "{ended:?}");
        let why = ended.data.error.unwrap();
        if by_tokens {
            assert_eq!(why, "Token budget of 20000 exhausted.");
            assert!((2..40).contains(&dock.dock.server.received()), "{}", dock.dock.server.received());
        } else {
            assert_eq!(why, "Step limit of 3 reached.");
            assert_eq!(dock.dock.server.received(), 3);
        }
        // Unread messages are returned.
        assert_eq!(ended.data.runs[0].unread.len(), 1);
    }
}

/// An older version could die between the end of a record and its note.
#[tokio::test]
async fn an_end_that_an_older_version_did_not_report_is_reported_once() {
    let dock = TaskDock::new(ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap());
    let mut talk = dock.begin().await;
    let store = dock.dock.archive.store();
    let run = |prompt: Option<&str>| json!({ "by": "old", "prompt": prompt, "asked": 1, "started": 1, "ended": 2, "end": "completed" });
    for (id, cleared) in [("ses_old", false), ("ses_cleared", true)] {
        let data = json!({
            "description": "About the past", "prompt": "Work", "agent": "helper", "model": "anthropic/scripted",
            "depth": 1, "runs": [run(None), run(Some("Again"))], "result": "Nine ships.", "cleared": cleared,
        });
        let new = NewTask {
            id: id.into(),
            parent: talk.session().clone(),
            session: None,
            status: "completed".into(),
            data,
        };
        store.put_task(new, plimsoll::Millis(2)).unwrap();
    }
    // One of the two runs was reported.
    let note = NewNote {
        id: "task:ses_old:1".into(),
        kind: "task.ended".into(),
        data: json!({ "task": "ses_old", "run": 1 }),
    };
    store.send(talk.session(), note, plimsoll::Millis(2)).unwrap();
    assert!(talk.take_notes().await.unwrap());
    assert_eq!(injected_messages(&dock, talk.session()).len(), 1);

    let newer = super::restarts::other_process(&dock);
    assert!(newer.board.reconcile(Some(talk.session())).await.unwrap().is_empty(), "it was not interrupted");
    let waiting = store.notes(talk.session(), 0).unwrap();
    assert_eq!(waiting.iter().map(|note| note.id.as_str()).collect::<Vec<_>>(), ["task:ses_old:2"]);
    assert!(talk.take_notes().await.unwrap());
    assert_eq!(injected_messages(&dock, talk.session()).len(), 2);
    // It is recorded from now on, and another process writes nothing.
    let before = store.newest_change().unwrap();
    let other = super::restarts::other_process(&dock);
    other.board.reconcile(None).await.unwrap();
    assert_eq!(store.newest_change().unwrap(), before);
    assert!(!talk.take_notes().await.unwrap());
}
