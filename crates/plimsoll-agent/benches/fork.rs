//! Cost of launching a forked task from sessions of 1,000 and 100,000 messages, as a digest and as the history
//! itself. `cargo bench -p plimsoll-agent --bench fork`.
//!
//! Measured from the call of the tool to the task's place in the queue: digest or history, session, lease and record.
//! The sessions take turns, so that a busy machine is as busy for each of them. In one row most of a session lies
//! before a summary, as in any session that has been run for long; in the other nothing was ever compacted, as in an
//! import.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll::log::CompactionPart;
use plimsoll::{Limits, Message, Millis, Part, PartBody, Policy, Preset, Role, SessionId, ToolState};
use plimsoll_agent::tasks::{Caller, ForkWay, Launch, RosterAgent, TaskBoard, TaskLimits};
use plimsoll_agent::{Agent, Conversation, Model};
use plimsoll_config::AgentFork;
use plimsoll_providers::{ClientOptions, Endpoint, ModelRef, Wire};
use plimsoll_store::{Archive, Durability, NewSession};
use plimsoll_testkit::server::{ModelServer, Reply};
use plimsoll_tokens::ModelTable;
use serde_json::json;
use tempfile::TempDir;

const SIZES: [usize; 2] = [1_000, 100_000];
/// Number of messages of a compacted session that are in the window.
const IN_WINDOW: usize = 100;
const ROUNDS: usize = 30;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let server = ModelServer::builder()
        .answering(|_| Reply::new().text("Done.").piece_size(None))
        .keep_requests(10)
        .start()
        .unwrap();
    for (what, is_compacted) in [("most of the session before a summary", true), ("nothing compacted", false)]
    {
        for way in &[AgentFork::Digest, AgentFork::History] {
            let mut docks = Vec::new();
            for size in SIZES {
                docks.push((Dock::new(size, is_compacted, &server).await, Vec::new()));
            }
            for round in 0..ROUNDS + 3 {
                for (dock, times) in &mut docks {
                    let took = dock.launch(*way).await;
                    // The first rounds fill caches.
                    if round >= 3 {
                        times.push(took);
                    }
                }
            }
            println!("{way:?}, {what}; medians in ms");
            let mut first = None;
            for (dock, times) in &mut docks {
                times.sort();
                let median = times[times.len() / 2].as_secs_f64() * 1_000.0;
                let first = *first.get_or_insert(median);
                println!("  {:>7} messages   {median:>7.2} ({:.2})", dock.size, median / first);
            }
        }
    }
}

struct Dock {
    board: Arc<TaskBoard>,
    caller: Caller,
    size: usize,
    is_compacted: bool,
    _talk: Conversation,
    _directory: TempDir,
}

impl Dock {
    async fn new(size: usize, is_compacted: bool, server: &ModelServer) -> Dock {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plimsoll.db");
        let archive = Arc::new(Archive::open(path, &Policy::default(), Durability::Process).unwrap());
        let endpoint = Endpoint::new(Wire::Anthropic, &server.url(), None).unwrap();
        let name = ModelRef { provider: "anthropic".into(), model: "scripted".into() };
        let mut model = Model::new(name, endpoint, &ModelTable::default(), ClientOptions::default()).unwrap();
        model.limits = Some(Limits::new(1_000_000, 8_000));
        let session = SessionId::new("ses_1");
        let new = NewSession {
            messages: messages(size, is_compacted),
            title: "Depths".into(),
            ..NewSession::new(session.clone())
        };
        archive.store().create(new, Millis(1)).unwrap();
        let mut agent = Agent::new(Arc::clone(&archive), model, directory.path());
        agent.policy = Arc::new(Preset::Plimsoll.policy());
        let template = agent.clone();
        let roster = move |_: &str, _: Option<&str>| {
            Ok(RosterAgent { agent: template.clone(), is_own_model: false, fork: None })
        };
        let limits = TaskLimits::default();
        let board = TaskBoard::new(archive, Arc::new(roster), limits, "the bench");
        let agent = agent.with_tasks(&board);
        let talk = agent.open(&session).await.unwrap();
        let caller = Caller::new(agent, session, talk.handle().clone());
        Dock { board, caller, size, is_compacted, _talk: talk, _directory: directory }
    }

    async fn launch(&self, way: AgentFork) -> Duration {
        let launch = Launch {
            description: "Sound it".into(),
            prompt: "Say how deep it is.".into(),
            agent: "build".into(),
            model: None,
            fork: true,
            way: Some(way),
        };
        let started = Instant::now();
        let task = self.board.launch(&self.caller, launch).await.unwrap();
        let took = started.elapsed();
        let fork = task.data.fork.as_ref().unwrap();
        // What was never compacted does not fit the window of a child, and is a digest after a look at its end.
        let fits = self.is_compacted || self.size == SIZES[0];
        let wanted = if way == AgentFork::History && fits { ForkWay::History } else { ForkWay::Digest };
        assert_eq!(fork.way, wanted, "{fork:?}");
        self.board.wait(&task.id, Duration::from_secs(30), &Default::default()).await.unwrap();
        took
    }
}

/// A session whose last messages are in the window; if it is compacted, a summary replaces all others.
fn messages(size: usize, is_compacted: bool) -> Vec<Message> {
    let pivot = size - IN_WINDOW;
    let mut messages: Vec<Message> = (0..size).map(message).collect();
    if is_compacted {
        let marker = CompactionPart { auto: Some(true), ..CompactionPart::default() };
        let part = Part::new("prt_marker".into(), PartBody::Compaction(marker));
        let mut asked = message(pivot);
        (asked.info.role, asked.parts) = (Some(Role::User), vec![part].into());
        let mut summary = Message::assistant(
            message(pivot + 1).info.id.clone(),
            vec![Part::text("prt_summary".into(), "## Goal\nKnow the depths.")],
        )
        .at(Millis(pivot as u64 + 2));
        (summary.info.summary, summary.info.parent_id) = (true, Some(asked.info.id.clone()));
        summary.info.finish = Some("stop".into());
        (messages[pivot], messages[pivot + 1]) = (asked, summary);
    }
    messages
}

/// A prompt, or a step with a tool that answers with two kilobytes.
fn message(n: usize) -> Message {
    let (id, time) = (format!("msg_{n:08}"), Millis(n as u64 + 1));
    if n.is_multiple_of(2) {
        return Message::user(id.as_str().into(), format!("prt_{n:08}").as_str().into(), "How deep is it?")
            .at(time);
    }
    let state = ToolState::completed(json!({ "path": "chart.txt" }), "nine metres\n".repeat(170));
    let parts = vec![
        Part::text(format!("prt_{n:08}a").as_str().into(), "I look at the chart."),
        Part::tool(format!("prt_{n:08}b").as_str().into(), format!("call_{n}"), "read", state),
    ];
    let mut step = Message::assistant(id.as_str().into(), parts).at(time);
    step.info.finish = Some("stop".into());
    step
}
