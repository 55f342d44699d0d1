//! A turn that launches two tasks and waits for them, with the process killed at every event.
//!
//! The child is this test binary, started again with variables set. It kills itself at event N of the parent or of a
//! task. Then the session continues here: all tasks must end, and each end must be reported once.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_agent::tasks::{Caller, TaskBoard, TaskLimits, TaskStatus};
use plimsoll_agent::{Agent, RunEnd};
use plimsoll_providers::Wire;
use plimsoll_store::{NewSession, PageRequest};
use plimsoll_testkit::server::{Captured, ModelServer, Reply};
use tokio_util::sync::CancellationToken;

use super::chaos::is_gone;
use super::support::{Crew, is_child, launch, task_input};
use crate::support::{die, model, open_archive, policy};

/// Directory of the child; set only for the child.
const DIRECTORY: &str = "PLIMSOLL_TASKS_KILLED_DIRECTORY";
const URL: &str = "PLIMSOLL_TASKS_KILLED_URL";
/// Number of the event at which it dies, from 1.
const AT: &str = "PLIMSOLL_TASKS_KILLED_AT";
const SESSION: &str = "ses_killed";
/// Pass of a point at which it dies, as `Ended:1`.
const POINT: &str = "PLIMSOLL_TASKS_KILLED_POINT";
/// More events than the turn has.
const MOST: usize = 200;

fn dock(directory: &Path, url: &str) -> (Agent, Arc<TaskBoard>) {
    let archive = open_archive(directory);
    let mut agent = Agent::new(Arc::clone(&archive), model(Wire::Anthropic, url), &directory.join("project"));
    agent.policy = policy(|_| {});
    agent.take_over = plimsoll_store::TakeOver::Always;
    let crew = Crew::of(&agent);
    let board = TaskBoard::new(archive, Arc::new(crew), TaskLimits::default(), &agent.holder);
    let board = TaskBoard::with_liveness_check(board, is_gone);
    let mut agent = agent.with_tasks(&board);
    agent.profile.awaits_tasks = true;
    (agent, board)
}

/// The child process: does nothing unless it was started as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_killed_parent() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let at: usize = std::env::var(AT).unwrap().parse().unwrap();
    let (mut agent, _board) = dock(Path::new(&directory), &std::env::var(URL).unwrap());
    let output = AtomicUsize::new(0);
    agent.events = Arc::new(move |_| {
        if output.fetch_add(1, Ordering::SeqCst) + 1 == at {
            die();
        }
    });
    let mut talk = agent.open(&SESSION.into()).await.unwrap();
    talk.run("Do both", &CancellationToken::new()).await.unwrap();
}

/// The child process: launches a task and resumes it. Does nothing unless it was started as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parent_killed_at_a_point() {
    let (Ok(directory), Ok(point)) = (std::env::var(DIRECTORY), std::env::var(POINT)) else { return };
    let (agent, board) = dock(Path::new(&directory), &std::env::var(URL).unwrap());
    drop(agent);
    let passes = AtomicUsize::new(0);
    let (wanted, nth) = point.split_once(':').unwrap();
    let (wanted, nth): (String, usize) = (wanted.to_owned(), nth.parse().unwrap());
    let board = TaskBoard::probed(board, move |point| {
        if format!("{point:?}") == wanted && passes.fetch_add(1, Ordering::SeqCst) + 1 == nth {
            die();
        }
    });
    let archive = Arc::clone(board.archive());
    let model = model(Wire::Anthropic, &std::env::var(URL).unwrap());
    let mut agent = Agent::new(archive, model, &Path::new(&directory).join("project"));
    agent.policy = policy(|_| {});
    let agent = agent.with_tasks(&board);
    let mut talk = agent.open(&SESSION.into()).await.unwrap();
    let caller = Caller::new(agent.clone(), talk.session().clone(), talk.handle().clone());
    let cancel = CancellationToken::new();
    let task = board.launch(&caller, launch("One")).await.unwrap();
    for round in 0..2 {
        if round == 1 {
            board.resume(Some(&caller), &task.id, "Two").await.unwrap();
        }
        board.wait(&task.id, std::time::Duration::from_secs(30), &cancel).await.unwrap();
        // Wait for what follows the end of the record, so that every point is passed.
        while board.active_here() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        assert!(talk.take_notes().await.unwrap());
    }
}

/// Killed between any two writes of a task's life, especially between its end and the note: the parent is notified
/// exactly once, a prompt is in the session exactly once, and no unreferenced session is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parent_is_notified_exactly_once_after_a_kill_between_end_and_note() {
    let server = ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap();
    let points = [
        ("Created", 1),
        ("Resumed", 1),
        ("Claimed", 1),
        ("Started", 2),
        ("Answered", 2),
        ("Finished", 2),
        ("Ended", 2),
    ];
    let points = points.into_iter().chain([("NotesStored", 2), ("NotesRemoved", 2)]);
    for (point, nth) in points.flat_map(|(point, most)| (1..=most).map(move |nth| (point, nth))) {
        let at = format!("{point}:{nth}");
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("project")).unwrap();
        let new = NewSession { title: "Killed".into(), ..NewSession::new(SESSION.into()) };
        open_archive(directory.path()).store().create(new, plimsoll::Millis(1)).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tasks::kills::the_parent_killed_at_a_point"])
            .env(DIRECTORY, directory.path())
            .env(URL, server.url())
            .env(POINT, &at)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(!child.unwrap().success(), "the point {at} was never passed");
        let (agent, board) = dock(directory.path(), &server.url());
        let mut talk = agent.open(&SESSION.into()).await.unwrap();
        for _ in 0..3 {
            board.reconcile(None).await.unwrap();
            talk.take_notes().await.unwrap();
        }
        let store = agent.archive.store();
        let request = PageRequest { from: None, oldest_first: true, most: 1_000 };
        let log = store.page(&SESSION.into(), &request).unwrap().messages;
        let tasks = board.tasks(None).await.unwrap();
        assert_eq!(tasks.len(), 1, "at {at}");
        let task = &tasks[0];
        assert!(!task.status.is_active(), "at {at}: {task:?}");
        let own = store.page(&task.id, &request).unwrap().messages;
        for (place, run) in task.data.runs.iter().enumerate() {
            let id = format!("task:{}:{}", task.id, place + 1);
            let output = log.iter().flat_map(|message| &message.parts).filter(|part| {
                let notes = part.extra.get("metadata").and_then(|metadata| metadata.get("notes"));
                notes
                    .and_then(|notes| notes.as_array())
                    .is_some_and(|notes| notes.contains(&id.as_str().into()))
            });
            assert_eq!(output.count(), 1, "at {at}: {task:?}");
            let prompt = run.prompt.as_deref().unwrap_or("One");
            let asked = own.iter().filter(|message| message.is_user() && message.text() == prompt);
            assert_eq!(asked.count(), 1, "at {at}: `{prompt}`");
        }
        let filter = plimsoll_store::Filter { all: true, ..Default::default() };
        assert_eq!(store.sessions(&filter).unwrap().len(), 2, "at {at}: the parent and its task");
        assert!(store.notes(&SESSION.into(), 0).unwrap().is_empty(), "at {at}");
    }
}

fn start(directory: &Path, url: &str, at: usize) -> ExitStatus {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tasks::kills::the_killed_parent"])
        .env(DIRECTORY, directory)
        .env(URL, url)
        .env(AT, at.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    child.unwrap()
}

fn answer(request: &Captured) -> Reply {
    if is_child(request, "One") || is_child(request, "Two") {
        return Reply::new().text("Done.");
    }
    match request.call_ids().len() {
        0 => Reply::new().call("call_1", "background_task", task_input("One", true)).call(
            "call_2",
            "background_task",
            task_input("Two", false),
        ),
        _ => Reply::new().text("I see."),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_end_is_reported_once_after_a_kill_at_every_event() {
    let server = ModelServer::answering(answer).unwrap();
    let (mut kills, mut interrupted) = (0, 0);
    for at in 1..MOST {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("project")).unwrap();
        let new = NewSession { title: "Killed".into(), ..NewSession::new(SESSION.into()) };
        open_archive(directory.path()).store().create(new, plimsoll::Millis(1)).unwrap();
        let status = start(directory.path(), &server.url(), at);
        let (agent, board) = dock(directory.path(), &server.url());
        let mut talk = agent.open(&SESSION.into()).await.unwrap();
        let is_asked = talk.handle().with_log(|log| !log.is_empty()).await.unwrap();
        if is_asked {
            talk.resume(&CancellationToken::new()).await.unwrap();
        }
        let report = talk.run("Go on", &CancellationToken::new()).await.unwrap();
        assert!(matches!(report.end, RunEnd::Finished { .. }), "at {at}");
        let store = agent.archive.store();
        let request = PageRequest { from: None, oldest_first: true, most: 1_000 };
        let mut output: BTreeMap<String, u32> = BTreeMap::new();
        for part in
            store.page(&SESSION.into(), &request).unwrap().messages.iter().flat_map(|message| &message.parts)
        {
            let notes = part.extra.get("metadata").and_then(|metadata| metadata.get("notes"));
            for id in notes.and_then(|notes| notes.as_array()).into_iter().flatten() {
                *output.entry(id.as_str().unwrap().to_owned()).or_default() += 1;
            }
        }
        for task in board.tasks(None).await.unwrap() {
            assert!(!task.status.is_active(), "at {at}: {task:?}");
            interrupted += usize::from(task.status == TaskStatus::Interrupted);
            assert_eq!(output.remove(&format!("task:{}:1", task.id)), Some(1), "at {at}: {task:?}");
        }
        assert!(output.is_empty(), "at {at}: {output:?}");
        assert!(store.notes(&SESSION.into(), 0).unwrap().is_empty(), "at {at}");
        assert_eq!(store.check().unwrap().into_all(), Vec::<String>::new(), "at {at}");
        if status.success() {
            break;
        }
        kills += 1;
        assert!(at + 1 < MOST, "the turn never ends by itself");
    }
    assert!(kills > 20 && interrupted > 5, "{kills} kills, {interrupted} tasks interrupted");
}
