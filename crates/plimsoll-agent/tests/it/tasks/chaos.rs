//! Many tasks over a few slots, with random faults of the provider, cancels, resumes, and the process killed again and
//! again.
//!
//! A child process launches tasks in one session, meddles with them, and takes notes in, until it is killed; the next one
//! goes on. In the end all tasks have ended, each end was told once, and no run was made twice. The ordinary tests make
//! 24 tasks, `just tasks-chaos` 200.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll::{Message, SessionId};
use plimsoll_agent::tasks::{Caller, Task, TaskBoard, TaskLimits, TaskStatus};
use plimsoll_agent::{Agent, Conversation};
use plimsoll_providers::Wire;
use plimsoll_store::{NewSession, PageRequest};
use plimsoll_testkit::server::{Captured, Fault, ModelServer, Reply};
use serde_json::json;

use super::support::{Crew, launch};
use crate::support::{die, model, open_archive, policy};

/// Where the child works; set only for the child.
const FOLDER: &str = "PLIMSOLL_CHAOS_FOLDER";
const URL: &str = "PLIMSOLL_CHAOS_URL";
/// The number of the child's life, by which its dice fall.
const LIFE: &str = "PLIMSOLL_CHAOS_LIFE";
/// How many lives end by a kill.
const KILLS: &str = "PLIMSOLL_CHAOS_KILLS";
/// How many tasks there are.
const TASKS: &str = "PLIMSOLL_CHAOS_TASKS";
/// Where the random numbers start.
const SEED: &str = "PLIMSOLL_CHAOS_SEED";
const SESSION: &str = "ses_chaos";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

/// Whether a process of this machine is gone, by the name that boards and agents of the tests give it.
pub(super) fn is_gone(holder: &str) -> bool {
    let pid = holder.strip_prefix("process ").and_then(|pid| pid.parse().ok());
    let pid = pid.and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

fn dock(folder: &Path, url: &str) -> (Agent, Arc<TaskBoard>) {
    let archive = open_archive(folder);
    let mut agent = Agent::new(Arc::clone(&archive), model(Wire::Anthropic, url), &folder.join("project"));
    agent.policy = policy(|_| {});
    agent.take_over = plimsoll_store::TakeOver::Always;
    let crew = Crew::of(&agent);
    let limits = TaskLimits { time: Some(Duration::from_secs(20)), ..TaskLimits::default() };
    let board = TaskBoard::new(archive, Arc::new(crew), limits, &agent.holder);
    let board = TaskBoard::knowing_gone(board, is_gone);
    let agent = agent.with_tasks(&board);
    (agent, board)
}

/// The part of the child: does nothing unless it was started as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chaotic_child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (life, kills) = (number(LIFE, 0), number(KILLS, 0));
    let mut dice = Dice(life.wrapping_mul(77).wrapping_add(13).wrapping_add(number(SEED, 1) << 20));
    dice.below(2);
    let (agent, board) = dock(Path::new(&folder), &std::env::var(URL).unwrap());
    if life < kills {
        let after = Duration::from_millis(100 + dice.below(900));
        std::thread::spawn(move || {
            std::thread::sleep(after);
            die();
        });
    }
    let mut talk = agent.open(&SESSION.into()).await.unwrap();
    live(&mut talk, &agent, &board, &mut dice, life < kills).await;
}

async fn live(
    talk: &mut Conversation,
    agent: &Agent,
    board: &Arc<TaskBoard>,
    dice: &mut Dice,
    is_killed: bool,
) {
    let session = talk.session().clone();
    let caller =
        Caller { agent: agent.clone(), session: session.clone(), driver: talk.driver().clone(), part: None };
    let wanted = number(TASKS, 24) as usize;
    // The last life lets everything come to its end.
    let mut meddles: u64 = if is_killed { u64::MAX } else { 20 };
    loop {
        let tasks = board.tasks(Some(&session)).await.unwrap();
        if tasks.len() < wanted {
            let mut new = launch(&format!("Task {}", tasks.len()));
            new.fork = dice.below(4) == 0;
            board.launch(&caller, new).await.unwrap();
        }
        if meddles > 0 && !tasks.is_empty() {
            meddles -= 1;
            let task = &tasks[dice.below(tasks.len() as u64) as usize];
            let prompt = format!("Again {}", dice.below(1_000_000));
            // Each of these may be refused, because the task has just moved.
            match dice.below(6) {
                0 => drop(board.cancel(&task.id).await),
                1 | 2 => drop(board.resume(Some(&caller), &task.id, &prompt).await),
                3 => drop(board.steer(&task.id, "Mind the rocks").await),
                _ => {}
            }
        }
        talk.take_notes().await.unwrap();
        let is_over = tasks.len() == wanted
            && tasks.iter().all(|task| !task.status.is_active() && task.data.pending.is_none());
        if is_over && meddles == 0 {
            board.reconcile(Some(&session)).await.unwrap();
            let tasks = board.tasks(Some(&session)).await.unwrap();
            if tasks.iter().all(|task| !task.status.is_active()) && !talk.take_notes().await.unwrap() {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(1 + dice.below(20))).await;
    }
}

/// A provider that fails now and then, and works with tools.
fn faulty() -> ModelServer {
    let count = AtomicU64::new(0);
    let answer = move |request: &Captured| {
        let mut dice =
            Dice(count.fetch_add(1, Ordering::SeqCst).wrapping_add(number(SEED, 1) << 20).wrapping_mul(31));
        dice.below(2);
        let pause = Duration::from_millis(dice.below(8));
        match dice.below(12) {
            0 => Reply::failing(Fault::status(400)),
            1 => Reply::failing(Fault::status(500)),
            2 => Reply::new().text("This breaks off somewhere").fault(Fault::Cut { after: 2 }),
            3 | 4 if request.call_ids().len() < 4 => {
                let id = format!("call_{}", count.load(Ordering::SeqCst));
                Reply::new().call(id, "list", json!({})).pause(pause)
            }
            _ => Reply::new().text("Done.").pause(pause),
        }
    };
    ModelServer::builder().answering(answer).keep_requests(50).start().unwrap()
}

fn start(folder: &Path, url: &str, life: u64, kills: u64, tasks: u64) -> std::process::ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tasks::chaos::the_chaotic_child", "--nocapture"])
        .env(FOLDER, folder)
        .env(URL, url)
        .env(LIFE, life.to_string())
        .env(KILLS, kills.to_string())
        .env(TASKS, tasks.to_string())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("stderr")).unwrap())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > Duration::from_secs(280) {
            child.kill().unwrap();
            panic!("life {life} does not end: {:?}", board_of(folder));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn board_of(folder: &Path) -> Vec<(SessionId, TaskStatus)> {
    let tasks = tasks_of(folder);
    tasks.into_iter().filter(|task| task.status.is_active()).map(|task| (task.id, task.status)).collect()
}

fn tasks_of(folder: &Path) -> Vec<Task> {
    let archive = open_archive(folder);
    let filter = plimsoll_store::TaskFilter { most: 10_000, ..Default::default() };
    let records = archive.store().tasks(&filter).unwrap();
    records.into_iter().map(|record| Task::try_from(record).unwrap()).collect()
}

#[test]
fn all_tasks_end_and_none_is_lost_or_told_twice_or_run_twice() {
    let (tasks, kills) = (number(TASKS, 24), number(KILLS, 4));
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().to_owned();
    std::fs::create_dir(path.join("project")).unwrap();
    let server = faulty();
    {
        let archive = open_archive(&path);
        let new = NewSession { title: "Chaos".into(), ..NewSession::new(SESSION.into()) };
        archive.store().create(new, plimsoll::Millis(1)).unwrap();
    }
    for life in 0..=kills {
        let status = start(&path, &server.url(), life, kills, tasks);
        let stderr = std::fs::read_to_string(path.join("stderr")).unwrap_or_default();
        assert!(life < kills || status.success(), "the last life ended with {status}:\n{stderr}");
        assert!(life == kills || status.code().is_none(), "life {life} was not killed: {status}\n{stderr}");
    }
    let all = tasks_of(&path);
    assert_eq!(all.len() as u64, tasks);
    let archive = open_archive(&path);
    let log = |session: &SessionId| -> Vec<Message> {
        let request = PageRequest { from: None, oldest_first: true, most: 100_000 };
        archive.store().page(session, &request).unwrap().messages
    };
    // Which ends were told, and how often.
    let mut told: BTreeMap<String, u32> = BTreeMap::new();
    for part in log(&SESSION.into()).iter().flat_map(|message| &message.parts) {
        let notes = part.extra.get("metadata").and_then(|metadata| metadata.get("notes"));
        for id in notes.and_then(|notes| notes.as_array()).into_iter().flatten() {
            *told.entry(id.as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    let (mut runs, mut statuses) = (0, BTreeMap::<&str, u32>::new());
    for task in &all {
        assert!(!task.status.is_active(), "{task:?}");
        *statuses.entry(task.status.name()).or_default() += 1;
        let messages = log(&task.id);
        for (at, run) in task.data.runs.iter().enumerate() {
            runs += 1;
            assert!(run.end.is_some(), "{task:?}");
            assert_eq!(
                told.remove(&format!("task:{}:{}", task.id, at + 1)),
                Some(1),
                "run {} of {task:?}",
                at + 1
            );
            if let Some(prompt) = &run.prompt {
                let asked = messages.iter().filter(|message| message.is_user() && message.text() == *prompt);
                assert_eq!(asked.count(), 1, "a prompt was lost or asked twice: {task:?}");
            }
        }
        assert!(messages.iter().all(|message| !message.is_open()), "{task:?}");
    }
    assert!(told.is_empty(), "told of what never ran: {told:?}");
    assert!(archive.store().notes(&SESSION.into(), 0).unwrap().is_empty());
    assert_eq!(archive.store().check().unwrap().problems, Vec::<String>::new());
    server.take_problems();
    println!("{tasks} tasks, {runs} runs, {kills} kills, {} requests: {statuses:?}", server.received());
}
