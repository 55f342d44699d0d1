//! Many tasks with few slots in two concurrent processes, with random faults of the provider, cancels, resumes,
//! steering, repeated kills, and suspensions longer than the leases.
//!
//! Two processes share one store. Each launches tasks in its own session, some of which launch tasks, and changes all
//! tasks of both, until it is killed; the next one continues. A last process runs everything to its end. Then all tasks
//! must have ended, each end must be reported once, and no run may have been made twice: each run begins with a call
//! that leaves a mark in a directory, which the runs never read. The ordinary tests launch 24 tasks, `just tasks-chaos`
//! 200.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll::{Message, SessionId};
use plimsoll_agent::tasks::{Caller, Launch, Speaker, Task, TaskBoard, TaskLimits, TaskStatus};
use plimsoll_agent::{Agent, Conversation};
use plimsoll_providers::Wire;
use plimsoll_store::{NewSession, PageRequest};
use plimsoll_testkit::server::{Captured, Fault, ModelServer, Reply};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::marks::{Mark, MarkTool};
use super::support::{Crew, launch};
use crate::support::{die, model, open_archive, policy};

/// Directory of the child; set only for the child.
const DIRECTORY: &str = "PLIMSOLL_CHAOS_DIRECTORY";
const URL: &str = "PLIMSOLL_CHAOS_URL";
/// Which of the two processes the child is; a third runs everything to its end.
const LANE: &str = "PLIMSOLL_CHAOS_LANE";
/// Number of the child's life, which seeds its random numbers.
const LIFE: &str = "PLIMSOLL_CHAOS_LIFE";
/// Number of lives that end by a kill, in both lanes together.
const KILLS: &str = "PLIMSOLL_CHAOS_KILLS";
/// Number of tasks, without those that tasks launch.
const TASKS: &str = "PLIMSOLL_CHAOS_TASKS";
/// Seed of the random numbers.
const SEED: &str = "PLIMSOLL_CHAOS_SEED";
const LANES: [&str; 2] = ["ses_chaos_one", "ses_chaos_two"];
/// Short, so that a suspended process loses its tasks.
const LEASE: Duration = Duration::from_millis(500);
/// Prefix of a run's name, which occurs once in the run's prompt and nowhere else.
const RUN: &str = "errand-";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Pseudorandom numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn of(what: u64) -> Dice {
        let mut dice = Dice(what.wrapping_mul(77).wrapping_add(13).wrapping_add(number(SEED, 1) << 20));
        dice.below(2);
        dice
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

/// Returns whether a process of this machine is gone, by the holder name that the tests use.
pub(super) fn is_gone(holder: &str) -> bool {
    let pid = holder.strip_prefix("process ").and_then(|pid| pid.parse().ok());
    let pid = pid.and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

fn dock(directory: &Path, url: &str) -> (Agent, Arc<TaskBoard>) {
    let archive = open_archive(directory);
    let mut agent = Agent::new(Arc::clone(&archive), model(Wire::Anthropic, url), &directory.join("project"));
    agent.policy = policy(|_| {});
    agent.take_over = plimsoll_store::TakeOver::Always;
    agent.profile.tools = agent.profile.tools.with(MarkTool::new(&directory.join("marks")));
    let crew = Crew::of(&agent);
    let limits = TaskLimits { time: Some(Duration::from_secs(20)), ..TaskLimits::default() };
    let board = TaskBoard::new(archive, Arc::new(crew), limits, &agent.holder);
    let board = TaskBoard::leasing(TaskBoard::with_liveness_check(board, is_gone), LEASE);
    let agent = agent.with_tasks(&board);
    (agent, board)
}

/// The child process: does nothing unless it was started as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chaotic_child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let (lane, life, kills) = (number(LANE, 0), number(LIFE, 0), number(KILLS, 0));
    let mut dice = Dice::of(life * 2 + lane);
    let (agent, board) = dock(Path::new(&directory), &std::env::var(URL).unwrap());
    let Some(session) = LANES.get(lane as usize) else { return finish(&agent, &board).await };
    if life < kills {
        let after = Duration::from_millis(100 + dice.below(1_400));
        std::thread::spawn(move || {
            std::thread::sleep(after);
            die();
        });
    }
    let mut talk = agent.open(&(*session).into()).await.unwrap();
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
    let caller = Caller::new(agent.clone(), session.clone(), talk.handle().clone());
    let wanted = number(TASKS, 24) as usize / LANES.len();
    // A name that no other run has in any life.
    let mut names = 0;
    let unique = format!("{}-{}", number(LANE, 0), number(LIFE, 0));
    let mut name = move || {
        names += 1;
        format!("Do {RUN}{unique}-{names}.")
    };
    // The last life runs everything to its end.
    let mut meddles = if is_killed { u64::MAX } else { 20 + wanted as u64 };
    loop {
        let tasks = board.tasks(Some(&session)).await.unwrap();
        if tasks.len() < wanted {
            let agent = if dice.below(3) == 0 { "boss" } else { "helper" };
            let fork = dice.below(4) == 0;
            let new = Launch { description: "Chaos".into(), agent: agent.into(), fork, ..launch(&name()) };
            board.launch(&caller, new).await.unwrap();
        }
        // Tasks of the other process and nested tasks are changed as well.
        let all = board.tasks(None).await.unwrap();
        if meddles > 0 && !all.is_empty() {
            meddles -= 1;
            let task = &all[dice.below(all.len() as u64) as usize];
            // Each of these may be rejected, because the task has just changed.
            match dice.below(7) {
                0 => drop(board.cancel(&task.id).await),
                1 | 2 => drop(board.resume(Some(&caller), &task.id, &name()).await),
                3 => drop(board.steer(&task.id, "Mind the rocks", Speaker::Parent).await),
                4 => drop(board.reconcile(None).await),
                _ => {}
            }
        }
        talk.take_notes().await.unwrap();
        let is_over = tasks.len() == wanted
            && tasks.iter().all(|task| !task.status.is_active() && task.data.pending.is_none());
        if is_over && meddles == 0 {
            return;
        }
        if meddles == 0 {
            board.supervise(&session).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1 + dice.below(20))).await;
    }
}

/// Runs everything to its end that the others have left.
async fn finish(agent: &Agent, board: &Arc<TaskBoard>) {
    let mut talks = Vec::new();
    for session in LANES {
        talks.push(agent.open(&session.into()).await.unwrap());
    }
    loop {
        board.reconcile(None).await.unwrap();
        let tasks = board.tasks(None).await.unwrap();
        let parents: BTreeSet<&SessionId> = tasks.iter().map(|task| &task.parent).collect();
        for parent in parents {
            board.supervise(parent).await.unwrap();
        }
        let tasks = board.tasks(None).await.unwrap();
        let is_over = |task: &Task| !task.status.is_active() && task.data.pending.is_none();
        let mut is_told = true;
        for talk in &mut talks {
            is_told &= !talk.take_notes().await.unwrap();
        }
        if tasks.iter().all(is_over) && board.active_here() == 0 && is_told {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the name of the run that a request belongs to, and whether its model has answered before.
fn run_of(request: &Captured) -> Option<(String, bool)> {
    let messages = &request.messages;
    let (at, text) = messages.iter().enumerate().rev().find_map(|(at, message)| {
        let text = message.text();
        (message.role == "user" && text.contains(RUN)).then_some((at, text))
    })?;
    let name = &text[text.rfind(RUN)?..];
    let name = name[..name.find('.')?].to_owned();
    Some((name, messages[at..].iter().any(|message| message.role == "assistant")))
}

/// A provider that sometimes fails, with tool calls.
fn faulty() -> ModelServer {
    let count = AtomicU64::new(0);
    let answer = move |request: &Captured| {
        let at = count.fetch_add(1, Ordering::SeqCst);
        let mut dice = Dice(at.wrapping_add(number(SEED, 1) << 20).wrapping_mul(31));
        dice.below(2);
        let pause = Duration::from_millis(dice.below(8));
        let id = format!("call_{at}");
        let kind = dice.below(12);
        match (kind, run_of(request)) {
            (0, _) => Reply::failing(Fault::status(400)),
            (1, _) => Reply::failing(Fault::status(500)),
            (2, _) => Reply::new().text("This breaks off somewhere").fault(Fault::Cut { after: 2 }),
            (_, Some((run, false))) => {
                Reply::new().call(id, "mark", json!({ "run": run, "at": at })).pause(pause)
            }
            (3 | 4, _) if request.call_ids().len() < 4 => {
                Reply::new().call(id, "list", json!({})).pause(pause)
            }
            (5..=8, _)
                if request.tools.iter().any(|tool| tool == "background_task")
                    && request.call_ids().len() < 4 =>
            {
                let prompt = format!("Do {RUN}inner-{at}.");
                let input =
                    json!({ "description": "Inner", "prompt": prompt, "agent": "helper", "fork": kind == 5 });
                Reply::new().call(id, "background_task", input).pause(pause)
            }
            _ => Reply::new().text("Done.").pause(pause),
        }
    };
    ModelServer::builder().answering(answer).keep_requests(50).start().unwrap()
}

/// A process of a lane, its life, and the end of its suspension.
struct Life {
    child: Child,
    lane: u64,
    number: u64,
    stands_until: Option<Instant>,
}

impl Life {
    fn begin(directory: &Path, url: &str, lane: u64, number: u64, kills: u64) -> Life {
        let stderr = std::fs::File::create(directory.join(format!("stderr-{lane}"))).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tasks::chaos::the_chaotic_child", "--nocapture"])
            .env(DIRECTORY, directory)
            .env(URL, url)
            .env(LANE, lane.to_string())
            .env(LIFE, number.to_string())
            .env(KILLS, kills.to_string())
            .env(TASKS, self::number(TASKS, 24).to_string())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap();
        Life { child, lane, number, stands_until: None }
    }

    fn signal(&self, signal: Signal) {
        // It may have just ended; it is not reaped yet, so its ID is not reused.
        let _ = kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), signal);
    }

    /// Sometimes suspends it for longer than its leases. Returns how often it started to.
    fn stall(&mut self, dice: &mut Dice) -> u64 {
        match self.stands_until {
            Some(until) if until <= Instant::now() => {
                self.signal(Signal::CONT);
                self.stands_until = None;
            }
            None if dice.below(150) == 0 => {
                self.signal(Signal::STOP);
                let still = LEASE + Duration::from_millis(100 + dice.below(700));
                self.stands_until = Some(Instant::now() + still);
                return 1;
            }
            _ => {}
        }
        0
    }

    fn end(&mut self, directory: &Path, kills: u64) -> Option<ExitStatus> {
        let status = self.child.try_wait().unwrap()?;
        let stderr =
            std::fs::read_to_string(directory.join(format!("stderr-{}", self.lane))).unwrap_or_default();
        let (lane, life) = (self.lane, self.number);
        assert!(life < kills || status.success(), "the last life of {lane} ended with {status}:\n{stderr}");
        assert!(life == kills || status.code().is_none(), "life {life} was not killed: {status}\n{stderr}");
        Some(status)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Only needed if the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the lives of both lanes. Returns the number of suspensions.
fn let_live(directory: &Path, url: &str, kills: u64) -> u64 {
    let (mut dice, mut stalls) = (Dice::of(9), 0);
    let begin = |lane: u64, number: u64| Life::begin(directory, url, lane, number, kills / 2);
    let mut lives: Vec<Life> = (0..LANES.len() as u64).map(|lane| begin(lane, 0)).collect();
    let begun = Instant::now();
    while !lives.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(500), "it does not end: {:?}", active_of(directory));
        let mut next = Vec::new();
        for mut life in std::mem::take(&mut lives) {
            match life.end(directory, kills / 2) {
                None => {
                    stalls += life.stall(&mut dice);
                    next.push(life);
                }
                Some(_) if life.number < kills / 2 => next.push(begin(life.lane, life.number + 1)),
                Some(_) => {}
            }
        }
        lives = next;
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut last = Life::begin(directory, url, LANES.len() as u64, 0, 0);
    let begun = Instant::now();
    while last.end(directory, 0).is_none() {
        assert!(begun.elapsed() < Duration::from_secs(90), "it does not end: {:?}", active_of(directory));
        std::thread::sleep(Duration::from_millis(10));
    }
    stalls
}

fn active_of(directory: &Path) -> Vec<(SessionId, TaskStatus, Option<String>)> {
    let is_left = |task: &Task| task.status.is_active() || task.data.pending.is_some();
    let tasks = tasks_of(directory).into_iter().filter(is_left);
    tasks.map(|task| (task.id, task.status, task.data.pending)).collect()
}

fn tasks_of(directory: &Path) -> Vec<Task> {
    let archive = open_archive(directory);
    let filter = plimsoll_store::TaskFilter { most: 10_000, ..Default::default() };
    let records = archive.store().tasks(&filter).unwrap();
    records.into_iter().map(|record| Task::try_from(record).unwrap()).collect()
}

/// Returns how often each note was reported in a session.
fn note_counts(log: &[Message]) -> BTreeMap<String, u32> {
    let mut output: BTreeMap<String, u32> = BTreeMap::new();
    for part in log.iter().flat_map(|message| &message.parts) {
        let notes = part.extra.get("metadata").and_then(|metadata| metadata.get("notes"));
        for id in notes.and_then(|notes| notes.as_array()).into_iter().flatten() {
            *output.entry(id.as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    output
}

#[test]
fn all_tasks_end_and_none_is_lost_or_reported_twice_or_run_twice() {
    let (wanted, kills) = (number(TASKS, 24), number(KILLS, 4));
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().to_owned();
    std::fs::create_dir(path.join("project")).unwrap();
    let server = faulty();
    let archive = open_archive(&path);
    let store = archive.store();
    for session in LANES {
        let new = NewSession { title: "Chaos".into(), ..NewSession::new(session.into()) };
        store.create(new, plimsoll::Millis(1)).unwrap();
    }
    let begun = Instant::now();
    let stalls = let_live(&path, &server.url(), kills);
    let all = tasks_of(&path);
    let log = |session: &SessionId| -> Vec<Message> {
        let request = PageRequest { from: None, oldest_first: true, most: 100_000 };
        store.page(session, &request).unwrap().messages
    };
    let mut output: BTreeMap<SessionId, BTreeMap<String, u32>> = BTreeMap::new();
    for parent in all.iter().map(|task| &task.parent) {
        output.entry(parent.clone()).or_insert_with(|| note_counts(&log(parent)));
    }
    let mut marks = Mark::all(&path.join("marks"));
    let marked = marks.len();
    let (mut runs, mut inner, mut lost, mut statuses) = (0, 0, 0, BTreeMap::<&str, u32>::new());
    for task in &all {
        let is_inner = !LANES.contains(&task.parent.as_str());
        inner += u64::from(is_inner);
        assert!(!task.status.is_active() && task.data.pending.is_none(), "{task:?}");
        *statuses.entry(task.status.name()).or_default() += 1;
        let messages = log(&task.id);
        let waiting = store.notes(&task.parent, 1_000).unwrap();
        for (at, run) in task.data.runs.iter().enumerate() {
            runs += 1;
            assert!(run.end.is_some(), "{task:?}");
            lost += u64::from(run.end == Some(TaskStatus::Interrupted));
            let id = format!("task:{}:{}", task.id, at + 1);
            let count =
                output.get_mut(&task.parent).and_then(|output| output.remove(&id)).unwrap_or_default();
            // The end of a nested task is reported in its parent's next run; until then the note waits.
            let waits = is_inner && waiting.iter().any(|note| note.id == id);
            assert!(
                count == 1 || (count == 0 && waits),
                "run {} was reported {count} times: {task:?}",
                at + 1
            );
            let prompt = run.prompt.as_ref().unwrap_or(&task.data.prompt);
            let asked =
                messages.iter().filter(|message| message.is_user() && message.text().contains(prompt));
            assert_eq!(asked.count(), 1, "a prompt was lost or asked twice: {task:?}");
            // Marks that the run has left: at most one, by the process in the record.
            let name = prompt.trim_start_matches("Do ").trim_end_matches('.');
            let (own, others) = marks.into_iter().partition(|mark: &Mark| mark.run == name);
            marks = others;
            let own: Vec<Mark> = own;
            assert!(own.len() <= 1, "a run was made twice: {own:?} of {task:?}");
            for mark in own {
                assert_eq!(mark.session, task.id.as_str(), "in another session: {task:?}");
                let by = run.by.split(',').next().unwrap();
                assert_eq!(format!("process {}", mark.process), by, "by another process: {task:?}");
            }
        }
        // Including tasks whose process was killed after they were cancelled.
        assert!(messages.iter().all(|message| !message.is_open()), "left half done: {task:?}");
    }
    assert!(marks.is_empty(), "left by runs that are not recorded: {marks:?}");
    assert_eq!(all.len() as u64 - inner, wanted);
    // The remaining notes are steering messages, once each.
    let is_steer = |(id, count): (&String, &_)| id.starts_with("steer:") && *count == 1;
    assert!(
        output.values().flatten().all(is_steer),
        "reported a run that did not exist, or twice: {output:?}"
    );
    for session in LANES {
        assert!(store.notes(&session.into(), 0).unwrap().is_empty());
    }
    assert_eq!(store.check().unwrap().into_all(), Vec::<String>::new());
    server.take_problems();
    println!(
        "{wanted} tasks and {inner} of tasks, {runs} runs, {marked} marks, {lost} interrupted, {kills} kills, {stalls} \
         stalls, {} requests in {:.0?}: {statuses:?}",
        server.received(),
        begun.elapsed()
    );
}
