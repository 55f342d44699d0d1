//! Processes that die or run concurrently: tasks are found, reported once, and run by one process at a time.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::{Message, Part, ToolState};
use plimsoll_agent::tasks::{ResumeOutcome, TaskBoard, TaskLimits, TaskStatus};
use plimsoll_store::TaskMove;
use plimsoll_testkit::server::{Captured, Gate, ModelServer, Reply};
use serde_json::{Value, json};

use super::support::{Crew, TaskDock, injected_messages, is_child, launch, task_call};
use crate::support::{Dock, run};

fn held(gate: &Gate) -> ModelServer {
    let gate = gate.clone();
    ModelServer::answering(move |_: &Captured| Reply::new().text("Done.").gate(0, &gate)).unwrap()
}

/// Another process on the same archive, in the view of the board.
pub(super) fn other_process(dock: &TaskDock) -> TaskDock {
    let Dock { archive, agent, events, .. } = &dock.dock;
    let second = Dock {
        server: ModelServer::start().unwrap(),
        directory: tempfile::tempdir().unwrap(),
        archive: Arc::clone(archive),
        events: Arc::clone(events),
        agent: agent.clone(),
    };
    TaskDock::with(second, TaskLimits::default(), None)
}

#[tokio::test]
async fn tasks_of_another_living_process_are_not_resumed_and_can_be_cancelled() {
    let gate = Gate::new();
    let dock = TaskDock::new(held(&gate));
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    gate.reached().await;
    let other = other_process(&dock);
    assert!(other.board.reconcile(None).await.unwrap().is_empty());
    assert_eq!(other.board.task(&task.id).await.unwrap().status, TaskStatus::Running);
    let queued = other.board.resume(None, &task.id, "Go on").await.unwrap();
    assert!(matches!(queued, ResumeOutcome::Queued(_)), "it runs, so the resume waits: {queued:?}");
    other.board.cancel(&task.id).await.unwrap();
    for _ in 0..1_000 {
        if dock.board.active_here() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(dock.board.active_here(), 0, "the run has stopped in the process that ran it");
    let ended = dock.board.task(&task.id).await.unwrap();
    assert_eq!((ended.status, ended.data.pending), (TaskStatus::Cancelled, None));
    gate.release();
}

#[tokio::test]
async fn tasks_of_an_exited_process_are_reported_and_can_be_resumed() {
    let gate = Gate::new();
    let dock = TaskDock::new(held(&gate));
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    gate.reached().await;
    dock.board.close(Duration::from_secs(20)).await;
    assert_eq!(dock.board.active_here(), 0);
    let ended = dock.board.task(&task.id).await.unwrap();
    assert_eq!(ended.status, TaskStatus::Interrupted);
    let session = talk.session().clone();
    talk.close().await.unwrap();
    let other = other_process(&dock);
    let mut talk = other.agent.open(&session).await.unwrap();
    assert!(talk.take_notes().await.unwrap());
    assert!(injected_messages(&dock, &session)[0].starts_with("⏸ **Agent \"About Work\" interrupted after"));
    gate.release();
    let resumed = other.board.resume(Some(&other.caller(&talk)), &task.id, "Go on").await.unwrap();
    assert!(matches!(resumed, ResumeOutcome::Begun(_)));
    let ended = other.ended(&task.id).await;
    assert_eq!(ended.status, TaskStatus::Completed, "{:?}", ended.data.error);
}

/// State after a process is killed between storing the message and removing the note.
#[tokio::test]
async fn a_note_that_the_log_already_has_is_only_removed() {
    let dock = TaskDock::new(ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap());
    let mut talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    dock.ended(&task.id).await;
    let store = dock.dock.archive.store();
    let notes = store.notes(talk.session(), 0).unwrap();
    assert_eq!(notes.len(), 1);
    let mut message = Message::user("msg_zzz".into(), "prt_zzz".into(), "Task Progress: 1/1");
    message.parts[0].extra.insert("metadata".into(), json!({ "notes": [notes[0].id] }));
    talk.session_mut().append(message).await.unwrap();
    assert!(!talk.take_notes().await.unwrap());
    assert!(store.notes(talk.session(), 0).unwrap().is_empty());
    assert_eq!(injected_messages(&dock, talk.session()).len(), 1);
}

#[tokio::test]
async fn a_task_whose_process_was_killed_is_found_by_its_lease() {
    let dock = TaskDock::new(ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap());
    let mut talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    dock.ended(&task.id).await;
    // Active without a lease: its process is gone.
    let store = dock.dock.archive.store();
    let record = store.task(task.id.as_str()).unwrap();
    let mut data = record.data.clone();
    data["runs"][0]["end"] = Value::Null;
    data["runs"][0]["ended"] = Value::Null;
    data["pending"] = "Go on".into();
    let step =
        TaskMove { from: "completed".into(), to: "running".into(), data: Some(data), ..TaskMove::default() };
    store.move_task(task.id.as_str(), step, plimsoll::Millis(1)).unwrap();
    let marked = dock.board.reconcile(Some(talk.session())).await.unwrap();
    assert_eq!(marked.len(), 1);
    assert_eq!(marked[0].status, TaskStatus::Interrupted);
    assert!(dock.board.reconcile(Some(talk.session())).await.unwrap().is_empty());
    assert_eq!(talk.take_notes().await.ok(), Some(true), "the first end was reported for the same run");
    // The queued resume is not lost with the process.
    assert_eq!(marked[0].data.pending.as_deref(), Some("Go on"));
    dock.board.supervise(talk.session()).await.unwrap();
    assert_eq!(dock.board.task(&task.id).await.unwrap().status, TaskStatus::Resumed);
    assert_eq!(dock.ended(&task.id).await.status, TaskStatus::Completed);
}

/// A process that is killed while its cancelled task stops: the record says that it has ended, and its session has an
/// unfinished answer and an open call.
#[tokio::test]
async fn unfinished_work_of_a_cancelled_task_is_settled_by_the_next_process() {
    let dock = TaskDock::new(ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap());
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    dock.ended(&task.id).await;
    let store = dock.dock.archive.store();
    let record = store.task(task.id.as_str()).unwrap();
    let step = TaskMove {
        from: "completed".into(),
        to: "cancelled".into(),
        data: Some(record.data),
        ..TaskMove::default()
    };
    store.move_task(task.id.as_str(), step, plimsoll::Millis(1)).unwrap();
    let hour = Duration::from_secs(3600);
    let leave_half_done = |holder: &str, name: &str| {
        let lease = store.lease(&task.id, holder, hour).unwrap();
        let call = ToolState::pending(json!({ "command": "sleep 60" }));
        let part = Part::tool(format!("prt_{name}").as_str().into(), format!("call_{name}"), "bash", call);
        let answer = Message::assistant(format!("msg_{name}").as_str().into(), vec![part]);
        let answer = answer.at(dock.board.now());
        assert!(answer.is_open());
        store.append(&lease.claim(), vec![answer], dock.board.now()).unwrap();
        lease
    };
    let is_settled = || dock.dock.log(&task.id).iter().all(|message| !message.is_open());

    // A living process finishes by itself, and a user who chats with the task is left alone, even after the lease has
    // expired.
    let lease = leave_half_done("process 7, tasks abc", "a");
    let other = other_process(&dock);
    let changes = || store.newest_change().unwrap();
    let before = changes();
    other.board.reconcile(None).await.unwrap();
    assert_eq!((is_settled(), changes()), (false, before));
    store.release(&lease).unwrap();
    let lease = store.lease(&task.id, "a user", Duration::ZERO).unwrap();
    let before = changes();
    other.board.reconcile(None).await.unwrap();
    assert_eq!(changes(), before);
    store.release(&lease).unwrap();

    // One whose process is gone.
    leave_half_done("process 7, tasks abc", "b");
    let new = TaskBoard::new(
        Arc::clone(&dock.dock.archive),
        Arc::new(Crew::of(&dock.dock.agent)),
        TaskLimits::default(),
        "the next process",
    );
    let new = TaskBoard::with_liveness_check(new, |holder| holder == "process 7");
    assert!(new.reconcile(Some(&"ses_another".into())).await.unwrap().is_empty());
    assert!(!is_settled(), "it is not below that session");
    let marked = new.reconcile(Some(talk.session())).await.unwrap();
    assert!(marked.is_empty(), "it stays cancelled, and nothing is reported: {marked:?}");
    assert!(is_settled());
    assert_eq!(new.task(&task.id).await.unwrap().status, TaskStatus::Cancelled);
    assert!(store.leases(None, 0).unwrap().iter().all(|lease| lease.session != task.id), "it is given back");
    let before = changes();
    new.reconcile(None).await.unwrap();
    assert_eq!(changes(), before, "once");
}

#[tokio::test]
async fn the_user_can_open_a_task_without_disturbing_its_parent() {
    let dock = TaskDock::new(
        ModelServer::answering(|request: &Captured| {
            Reply::new().text(format!("I heard: {}", request.last_user_text()))
        })
        .unwrap(),
    );
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    dock.ended(&task.id).await;
    let before = dock.dock.log(talk.session()).len();
    let mut child = dock.dock.agent.open(&task.id).await.unwrap();
    let report = run(&mut child, "And you, how are you?").await;
    assert_eq!(report.text, "I heard: And you, how are you?");
    assert_eq!(dock.dock.log(talk.session()).len(), before);
    let held = dock.board.resume(Some(&dock.caller(&talk)), &task.id, "Go on").await.unwrap_err();
    assert!(held.to_string().contains("is being run by"), "one at a time: {held}");
    child.close().await.unwrap();
    dock.board.resume(Some(&dock.caller(&talk)), &task.id, "Go on").await.unwrap();
    dock.ended(&task.id).await;
}

#[tokio::test]
async fn a_result_survives_the_deletion_of_its_session() {
    let dock =
        TaskDock::new(ModelServer::answering(|_: &Captured| Reply::new().text("Nine ships.")).unwrap());
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Count").await;
    dock.ended(&task.id).await;
    let store = dock.dock.archive.store();
    let lease = store.lease(&task.id, "the test", Duration::from_secs(5)).unwrap();
    store.remove(&lease.claim(), plimsoll::Millis(2)).unwrap();
    let found = dock.board.find(Some(talk.session()), task.id.as_str()).await.unwrap();
    assert_eq!(found.data.result.as_deref(), Some("Nine ships."));
    let gone = dock.board.resume(Some(&dock.caller(&talk)), &task.id, "Go on").await.unwrap_err();
    assert_eq!(gone.to_string(), "Session expired or was deleted. Start a new background_task to continue.");
    assert_eq!(dock.board.task(&task.id).await.unwrap().status, TaskStatus::Completed);
}

/// Cancelling reaches nested tasks, and a task that waits for its own needs no slot for that.
#[tokio::test]
async fn tasks_of_tasks_share_the_slots_and_are_cancelled_with_them() {
    let gate = Gate::new();
    let inner = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| {
        if is_child(request, "Inner") {
            return Reply::new().text("Inner done.").gate(0, &inner);
        }
        match request.call_ids().len() {
            0 => task_call("call_1", "Inner", false),
            _ if request.contains("Task Progress: 1/1") => Reply::new().text("Outer done."),
            _ => Reply::new().text("Waiting."),
        }
    })
    .unwrap();
    let limits = TaskLimits { at_once: 1, ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let talk = dock.begin().await;
    let new = plimsoll_agent::tasks::Launch { agent: "boss".into(), ..launch("Outer") };
    let one = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    gate.reached().await;
    let inner = dock.board.tasks(Some(&one.id)).await.unwrap().remove(0);
    assert_eq!((inner.status, inner.data.depth), (TaskStatus::Running, 2));
    gate.release();
    let ended = dock.ended(&one.id).await;
    assert_eq!(ended.data.result.as_deref(), Some("Outer done."));
}

/// While the innermost of three runs, the outermost is cancelled. Its own run cancels its tasks too: it may have reached the
/// one in between, but not the innermost.
#[rstest::rstest]
#[case::all_running(false)]
#[case::the_middle_one_just_cancelled(true)]
#[tokio::test]
async fn cancelling_a_task_cancels_its_tasks_and_theirs(#[case] middle_is_cancelled: bool) {
    let gate = Gate::new();
    let inner = gate.clone();
    let boss = |id: &str, prompt: &str| {
        let input = json!({ "description": prompt, "prompt": prompt, "agent": "boss" });
        Reply::new().call(id, "background_task", input)
    };
    let server = ModelServer::answering(move |request: &Captured| {
        let is_first = request.call_ids().is_empty();
        match () {
            () if is_child(request, "Inner") => Reply::new().text("Inner done.").gate(0, &inner),
            () if is_child(request, "Middle") && is_first => boss("call_2", "Inner"),
            () if is_first => boss("call_1", "Middle"),
            () => Reply::new().text("Waiting."),
        }
    })
    .unwrap();
    let limits = TaskLimits { depth: 3, ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let talk = dock.begin().await;
    let new = plimsoll_agent::tasks::Launch { agent: "boss".into(), ..launch("Outer") };
    let outer = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    gate.reached().await;
    let only_child = async |parent: &plimsoll::SessionId| {
        let mut tasks = dock.board.tasks(Some(parent)).await.unwrap();
        assert_eq!(tasks.len(), 1, "{tasks:?}");
        tasks.remove(0)
    };
    let middle = only_child(&outer.id).await;
    let inner = only_child(&middle.id).await;
    assert_eq!((inner.status, inner.data.depth), (TaskStatus::Running, 3));
    if middle_is_cancelled {
        let step = TaskMove { from: "running".into(), to: "cancelled".into(), ..TaskMove::default() };
        dock.dock.archive.store().move_task(middle.id.as_str(), step, plimsoll::Millis(1)).unwrap();
    }
    dock.board.cancel(&outer.id).await.unwrap();
    for id in [&outer.id, &middle.id, &inner.id] {
        assert_eq!(dock.board.task(id).await.unwrap().status, TaskStatus::Cancelled, "recorded at once");
    }
    let why = "The task that launched it was cancelled.";
    assert_eq!(dock.board.task(&inner.id).await.unwrap().data.error.as_deref(), Some(why));
    // The gate is still closed: the run has stopped without its answer.
    for id in [&inner.id, &middle.id, &outer.id] {
        dock.ended(id).await;
    }
    assert_eq!(dock.board.active_here(), 0);
    gate.release();
}

#[tokio::test]
async fn clearing_cancels_and_hides_all_tasks_which_can_be_resumed() {
    let gate = Gate::new();
    let dock = TaskDock::new(held(&gate));
    let talk = dock.begin().await;
    let one = dock.launch(&talk, "One").await;
    gate.reached().await;
    let (aborted, cleared) = dock.board.clear(talk.session()).await.unwrap();
    assert_eq!((aborted.len(), cleared.len()), (1, 1));
    gate.release();
    dock.ended(&one.id).await;
    let tasks = dock.board.tasks(Some(talk.session())).await.unwrap();
    assert_eq!(
        plimsoll_agent::tasks::list_text(&tasks, None, dock.board.now()),
        "No background tasks found."
    );
    dock.board.resume(Some(&dock.caller(&talk)), &one.id, "Go on").await.unwrap();
    let ended = dock.ended(&one.id).await;
    assert_eq!((ended.status, ended.data.cleared), (TaskStatus::Completed, false));
}

#[tokio::test]
async fn a_board_of_no_tasks_waits_for_none() {
    let dock = TaskDock::new(ModelServer::answering(|_: &Captured| Reply::new().text("Hello.")).unwrap());
    let mut talk = dock.begin().await;
    assert_eq!(run(&mut talk, "Hello").await.text, "Hello.");
    let board: &Arc<TaskBoard> = &dock.board;
    assert_eq!(board.active_here(), 0);
}
