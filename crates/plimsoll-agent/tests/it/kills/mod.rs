//! A turn with reasoning, text, two parallel calls and a compaction, with the process killed at every event.
//!
//! The child is this test binary, started again with variables set. It dies in two ways: it kills itself at event N of
//! the loop, or this process kills it while the server holds event N of a stream. Each time another process continues
//! the session: the store must be consistent, reported events must be stored, and the next run must be legal and end.
//!
//! The ordinary tests alternate between two ways to continue: with a new prompt or by resuming. `just kills` tries both
//! after every kill.

mod child;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll::{Message, SessionId, Window};
use plimsoll_agent::{Agent, RunEnd};
use plimsoll_providers::Wire;
use plimsoll_store::{NewSession, PageRequest};
use plimsoll_testkit::History;
use plimsoll_testkit::server::{Captured, Gate, ModelServer, Reply};
use rstest::rstest;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::journal::{self, Entry};
use crate::support::{SUMMARY, WIRES, is_summary, lines, model, open_archive, policy};

/// Directory of the child; set only for the child.
const DIRECTORY: &str = "PLIMSOLL_KILLED_DIRECTORY";
/// Address of its model.
const URL: &str = "PLIMSOLL_KILLED_URL";
/// Wire format.
const WIRE: &str = "PLIMSOLL_KILLED_WIRE";
/// Number of the event at which it kills itself, from 1; 0 for never.
const AT: &str = "PLIMSOLL_KILLED_AT";
/// Set if both ways to continue are tried after each kill.
const ALL: &str = "PLIMSOLL_KILLS_ALL";

const PROMPT: &str = "Read both files, and say how deep the harbour is.";

/// How a session continues after a kill.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// With a new prompt, whatever happened to the old one.
    Prompt,
    /// With the interrupted turn, if there is one; then with a new prompt.
    Resume,
}

/// When the child dies.
#[derive(Clone, Copy, Debug)]
enum KillPoint {
    /// At this event, counted from 1.
    Event(usize),
    /// While the server holds this event of this stream, both counted from 0.
    Stream { request: usize, event: usize },
}

/// A model that makes two calls and then answers, repeatedly, and holds a stream on request.
struct Script {
    server: ModelServer,
    state: Arc<Mutex<ScriptState>>,
}

#[derive(Default)]
struct ScriptState {
    /// Requests since the turn began, summaries included.
    requests: usize,
    /// Answers since the turn began.
    answers: usize,
    gate: Option<(usize, usize, Gate)>,
}

impl Script {
    fn start() -> Script {
        let state: Arc<Mutex<ScriptState>> = Arc::default();
        let (known, names) = (Arc::clone(&state), AtomicUsize::new(0));
        let server = ModelServer::answering(move |request: &Captured| {
            let mut state = known.lock().unwrap();
            let reply = if is_summary(request) {
                Reply::new().text(SUMMARY).piece_size(Some(60))
            } else {
                state.answers += 1;
                answer(state.answers, &names)
            };
            let reply = match &state.gate {
                Some((wanted, event, gate)) if *wanted == state.requests => reply.gate(*event, gate),
                _ => reply,
            };
            state.requests += 1;
            reply
        });
        Script { server: server.unwrap(), state }
    }

    /// Begins a turn, optionally with a gate in one of its streams.
    fn begin_turn(&self, gate: Option<(usize, usize, Gate)>) {
        *self.state.lock().unwrap() = ScriptState { gate, ..ScriptState::default() };
    }
}

fn answer(number: usize, names: &AtomicUsize) -> Reply {
    if number > 1 {
        let reply = Reply::new().thinking("Both files were read.").text("The harbour is nine metres deep.");
        return reply.piece_size(Some(16));
    }
    let call = |path: &str| {
        let name = format!("call_{}", names.fetch_add(1, Ordering::Relaxed));
        (name, json!({ "path": path }))
    };
    let ((first, cut), (second, whole)) = (call("long.txt"), call("short.txt"));
    let reply = Reply::new().thinking("There are two files to be read.").text("I read both at once.");
    reply.call(first, "read", cut).call(second, "read", whole).piece_size(Some(16))
}

/// A directory with a project and a session whose window is nearly full.
struct Scene {
    directory: TempDir,
    session: SessionId,
    seeded: Vec<Message>,
}

impl Scene {
    fn new() -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let project = directory.path().join("project");
        std::fs::create_dir(&project).unwrap();
        std::fs::write(project.join("long.txt"), lines(300)).unwrap();
        std::fs::write(project.join("short.txt"), lines(180)).unwrap();
        let session = SessionId::new("ses_killed");
        let mut history = History::new();
        for turn in 0..6 {
            history = history.user(format!("What is in chart {turn}?")).say(lines(165));
        }
        let seeded = history.messages();
        let archive = open_archive(directory.path());
        let new = NewSession { messages: seeded.clone(), ..NewSession::new(session.clone()) };
        archive.store().create(new, plimsoll::Millis(20_000)).unwrap();
        Scene { directory, session, seeded }
    }

    fn journal(&self) -> PathBuf {
        self.directory.path().join("journal")
    }
}

/// The agent that runs the turn, in the child and after it.
fn agent(directory: &Path, wire: Wire, url: &str) -> Agent {
    let mut agent = Agent::new(open_archive(directory), model(wire, url), &directory.join("project"));
    // Room for the instruction and the summary in addition to a window over the line.
    agent.model.limits = Some(plimsoll::Limits::new(41_000, 11_000));
    agent.policy = policy(|spec| spec.truncate.max_bytes = 16_000);
    agent
}

#[rstest]
#[tokio::test]
async fn a_session_continues_after_a_kill_at_any_event_of_a_turn(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    let script = Script::start();
    // The turn without a kill shows how many events there are.
    let (entries, streams) = whole_turn(wire, &script).await;
    let events: Vec<&str> = entries.iter().map(|entry| entry.event.as_str()).collect();
    for wanted in
        ["thinking", "text", "callStarted", "callEnded", "truncate", "summarised", "compact", "ended"]
    {
        assert!(events.contains(&wanted), "the turn has no {wanted}: {events:?}");
    }
    assert_eq!(events.iter().filter(|name| **name == "callEnded").count(), 2, "{events:?}");
    assert_eq!(streams.len(), 3, "an answer with calls, a summary, the last answer");

    let output = (1..=entries.len()).map(KillPoint::Event);
    let held = streams
        .iter()
        .enumerate()
        .flat_map(|(request, count)| (0..*count).map(move |event| KillPoint::Stream { request, event }));
    let is_all = std::env::var_os(ALL).is_some();
    let begun = Instant::now();
    let mut kills = 0;
    for (number, point) in output.chain(held).enumerate() {
        let ways: &[Next] = match number % 2 {
            _ if is_all => &[Next::Prompt, Next::Resume],
            0 => &[Next::Resume],
            _ => &[Next::Prompt],
        };
        for next in ways {
            kill_and_continue(wire, &script, point, *next).await;
            kills += 1;
        }
    }
    println!(
        "{wire:?}: {kills} kills, {} events reported, {} streamed, {:.1} s",
        entries.len(),
        streams.iter().sum::<usize>(),
        begun.elapsed().as_secs_f64()
    );
}

/// Lets a child run the whole turn. Returns its events, and the number of events in each stream.
async fn whole_turn(wire: Wire, script: &Script) -> (Vec<Entry>, Vec<usize>) {
    let scene = Scene::new();
    script.begin_turn(None);
    let status = start(&scene, wire, &script.server.url(), 0).wait().unwrap();
    assert!(status.success(), "{status}");
    let requests = script.server.requests();
    let streams = requests.iter().map(|request| {
        request.wait_end();
        request.progress().events
    });
    (journal::read(&scene.journal()), streams.collect())
}

async fn kill_and_continue(wire: Wire, script: &Script, point: KillPoint, next: Next) {
    let scene = Scene::new();
    let status = match point {
        KillPoint::Event(at) => {
            script.begin_turn(None);
            start(&scene, wire, &script.server.url(), at).wait().unwrap()
        }
        KillPoint::Stream { request, event } => {
            let gate = Gate::new();
            script.begin_turn(Some((request, event, gate.clone())));
            let mut child = start(&scene, wire, &script.server.url(), 0);
            wait_for(&gate, &mut child);
            // Now and then what came before the gate is on the disk when the end comes, and now and then it is not.
            std::thread::sleep(Duration::from_millis(if event % 2 == 0 { 60 } else { 0 }));
            child.kill().unwrap();
            let status = child.wait().unwrap();
            gate.release();
            status
        }
    };
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert_eq!(signal, Some(9), "{wire:?} {point:?}: the child was not killed: {status}");
    let entries = journal::read(&scene.journal());
    let context = format!("{wire:?} {point:?} {next:?} after {:?}", entries.last().map(|entry| &entry.event));
    continue_session(&scene, wire, script, &entries, next, &context).await;
}

/// Takes over the session, checks it, and continues it.
async fn continue_session(
    scene: &Scene,
    wire: Wire,
    script: &Script,
    entries: &[Entry],
    next: Next,
    context: &str,
) {
    script.begin_turn(None);
    let mut agent = agent(scene.directory.path(), wire, &script.server.url());
    agent.take_over = plimsoll_store::TakeOver::Always;
    let archive = Arc::clone(&agent.archive);
    let mut conversation = agent.open(&scene.session).await.unwrap();
    assert_eq!(archive.check().unwrap().into_all(), Vec::<String>::new(), "{context}");
    let has_prompt = entries.iter().any(|entry| entry.event == "prompted");
    let is_over = entries.iter().any(|entry| entry.event == "ended");
    journal::hold(entries, &archive, &scene.session);

    if has_prompt && !is_over && matches!(next, Next::Resume) {
        let report = conversation.resume(&CancellationToken::new()).await;
        let report = report.unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(matches!(report.end, RunEnd::Finished { .. }), "{context}: {report:?}");
        script.begin_turn(None);
    }
    let report = conversation.run("And how wide is it?", &CancellationToken::new()).await;
    let report = report.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(matches!(report.end, RunEnd::Finished { .. }), "{context}: {report:?}");
    assert_eq!(report.text, "The harbour is nine metres deep.", "{context}");
    drop(conversation);

    let problems = script.server.take_problems();
    assert!(problems.is_empty(), "{context}: {problems:#?}");
    assert_eq!(archive.check().unwrap().into_all(), Vec::<String>::new(), "{context}");
    journal::hold(entries, &archive, &scene.session);
    let request = PageRequest { from: None, oldest_first: true, most: 10_000 };
    let log = archive.store().page(&scene.session, &request).unwrap().messages;
    assert!(log.iter().all(|message| !message.is_open()), "{context}");
    let texts = |messages: &[Message]| messages.iter().map(Message::text).collect::<Vec<_>>();
    assert_eq!(texts(&log[..scene.seeded.len()]), texts(&scene.seeded), "{context}");
    if has_prompt {
        assert_eq!(log.iter().filter(|message| message.text() == PROMPT).count(), 1, "{context}");
    }
    Window::of(&log, &agent.policy).check().unwrap();
}

fn start(scene: &Scene, wire: Wire, url: &str, at: usize) -> Child {
    let wire = WIRES.iter().find(|(known, _)| *known == wire).unwrap().1;
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::child::the_killed_child", "--nocapture"])
        .env(DIRECTORY, scene.directory.path())
        .env(URL, url)
        .env(WIRE, wire)
        .env(AT, at.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn wait_for(gate: &Gate, child: &mut Child) {
    let begun = Instant::now();
    while !gate.is_reached() {
        let ended: Option<ExitStatus> = child.try_wait().unwrap();
        assert!(ended.is_none(), "the child ended before the event came: {ended:?}");
        assert!(begun.elapsed() < Duration::from_secs(60), "the event did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}
