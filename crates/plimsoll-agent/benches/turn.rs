//! Cost of a turn without the model's time, in sessions of 10, 1,000 and 100,000 messages. `cargo bench -p
//! plimsoll-agent`.
//!
//! The scripted model answers at once. Its own time, the yardstick, is that of the same request sent by the same client
//! without a session; what a turn takes more is the overhead. The sessions take turns, so that a busy machine is as
//! busy for each of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll::log::CompactionPart;
use plimsoll::{Limits, Message, Millis, Part, PartBody, Policy, Preset, Role, SessionId, ToolState};
use plimsoll_agent::{Agent, Conversation, Model};
use plimsoll_providers::{Body, Client, ClientOptions, Endpoint, ModelRef, Request, ToolNames, Wire};
use plimsoll_store::{Archive, Durability, NewSession};
use plimsoll_testkit::server::{ModelServer, Reply};
use plimsoll_tokens::ModelTable;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const SIZES: [usize; 3] = [10, 1_000, 100_000];
/// Number of messages of each session that are in the window.
const IN_WINDOW: usize = 10;
const ROUNDS: usize = 60;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let server = ModelServer::start().unwrap();
    server.repeat(Reply::new().text("Nine metres, as the chart says.").piece_size(None));
    let mut docks = Vec::new();
    for size in SIZES {
        let dock = Dock::new(size, &server);
        let conversation = dock.agent.open(&dock.session).await.unwrap();
        docks.push((dock, conversation, Times::default()));
    }
    for round in 0..ROUNDS + 5 {
        for (dock, conversation, times) in &mut docks {
            let turn = run(conversation).await;
            let model = ask_again(&server, &dock.agent.model.client).await;
            // The first rounds open connections and fill caches.
            if round >= 5 {
                times.add(turn, model);
            }
        }
    }
    report("a turn in a session that is open", &mut docks);
    let mut docks: Vec<_> = docks.into_iter().map(|(dock, ..)| (dock, (), Times::default())).collect();
    for _ in 0..ROUNDS / 2 {
        for (dock, (), times) in &mut docks {
            let started = Instant::now();
            let mut conversation = dock.agent.open(&dock.session).await.unwrap();
            run(&mut conversation).await;
            let turn = started.elapsed();
            let model = ask_again(&server, &dock.agent.model.client).await;
            times.add(turn, model);
        }
    }
    report("a turn from opening the session on", &mut docks);
}

async fn run(conversation: &mut Conversation) -> Duration {
    let started = Instant::now();
    conversation.run("How deep is it now?", &CancellationToken::new()).await.unwrap();
    started.elapsed()
}

/// The yardstick: send the newest request again, without a session.
async fn ask_again(server: &ModelServer, client: &Client) -> Duration {
    let captured = server.last().unwrap();
    let request = Request {
        body: Body::Anthropic(serde_json::from_value(captured.body).unwrap()),
        provider: "anthropic".into(),
        model: captured.model,
        tools: ToolNames::default(),
    };
    let started = Instant::now();
    let mut answer = client.stream(&request, |_| {}).await.unwrap();
    while let Some(event) = answer.next().await {
        event.unwrap();
    }
    started.elapsed()
}

struct Dock {
    agent: Agent,
    session: SessionId,
    size: usize,
    _directory: TempDir,
}

impl Dock {
    fn new(size: usize, server: &ModelServer) -> Dock {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plimsoll.db");
        let archive = Arc::new(Archive::open(path, &Policy::default(), Durability::Process).unwrap());
        let endpoint = Endpoint::new(Wire::Anthropic, &server.url(), None).unwrap();
        let name = ModelRef { provider: "anthropic".into(), model: "scripted".into() };
        let mut model = Model::new(name, endpoint, &ModelTable::default(), ClientOptions::default()).unwrap();
        model.limits = Some(Limits::new(200_000, 8_000));
        let session = SessionId::new("ses_1");
        let new = NewSession {
            messages: messages(size),
            title: "Depths".into(),
            ..NewSession::new(session.clone())
        };
        archive.store().create(new, Millis(1)).unwrap();
        let mut agent = Agent::new(archive, model, directory.path());
        agent.policy = Arc::new(Preset::Plimsoll.policy());
        Dock { agent, session, size, _directory: directory }
    }
}

/// A session whose last messages are in the window; a summary replaces all others.
fn messages(size: usize) -> Vec<Message> {
    let pivot = size - IN_WINDOW;
    let mut messages: Vec<Message> = (0..size).map(message).collect();
    if pivot > 0 {
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

#[derive(Default)]
struct Times {
    turns: Vec<Duration>,
    models: Vec<Duration>,
    overheads: Vec<Duration>,
}

impl Times {
    fn add(&mut self, turn: Duration, model: Duration) {
        self.turns.push(turn);
        self.models.push(model);
        self.overheads.push(turn.saturating_sub(model));
    }
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1_000.0
}

fn report<C>(what: &str, docks: &mut [(Dock, C, Times)]) {
    println!("{what}; medians in ms");
    let mut first = None;
    for (dock, _, times) in docks {
        let [turn, model, overhead] =
            [&mut times.turns, &mut times.models, &mut times.overheads].map(|times| median(times));
        let first = *first.get_or_insert(overhead);
        println!(
            "  {:>7} messages   turn {turn:>7.2}   model {model:>7.2}   overhead {overhead:>7.2} ({:.2})",
            dock.size,
            overhead / first
        );
    }
}
