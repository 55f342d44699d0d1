//! A session with a real model on this machine: `just real-model`.
//!
//! ```text
//! real_model URL [--turns N] [--run direct|unmanaged|learned|configured|delegation]
//! ```
//!
//! URL is a server of OpenAI Chat Completions with a small window, such as `llama_cpp.server` with 8,192 tokens. Each
//! turn reads files of this repository, every tenth more than the model's whole window; the calls are scripted,
//! everything else (answers, summaries, usage, refusals) is the model's and the server's own.
//!
//! - `direct`: a few turns without scripted calls, streamed by the server itself, the last longer than the window.
//! - `unmanaged`: nothing is reduced. It has to die, and says in which turn.
//! - `learned`: the model is in no table, so its window is learned from the server's first refusal.
//! - `configured`: the window is known from the beginning.
//! - `delegation`: a parent reads a file and forks two tasks, whose requests hold what it has read.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod delegation;
mod shim;
mod tally;
mod upstream;
mod workload;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll::plan::SummaryOrigin;
use plimsoll::{Limits, Plan, Policy, Preset, SessionId, Tokens};
use plimsoll_agent::{Agent, EventSink, Model, RunEnd, ToolSet};
use plimsoll_providers::{ClientOptions, Endpoint, ModelRef, Wire};
use plimsoll_store::{Archive, Durability};
use plimsoll_tokens::ModelTable;
use tokio_util::sync::CancellationToken;

use shim::{Shim, check_exchanges};
use tally::{RunFigures, Tally};
use upstream::Upstream;
use workload::Workload;

/// The window that the server is started with.
const WINDOW: u64 = 8_192;
/// Answers are kept short: the model's words are not what is looked at.
const ANSWER: u64 = 32;
/// A summary of the usual 4,000 tokens would take this model minutes, and half of its window.
const SUMMARY: u64 = 200;

/// A way to run the same session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Unmanaged,
    Learned,
    Configured,
    Delegation,
}

const WAYS: [Way; 5] = [Way::Direct, Way::Unmanaged, Way::Learned, Way::Configured, Way::Delegation];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Unmanaged => "unmanaged",
            Way::Learned => "learned",
            Way::Configured => "configured",
            Way::Delegation => "delegation",
        }
    }

    fn limits(self) -> Option<Limits> {
        (self == Way::Configured).then(|| Limits::new(WINDOW, 512))
    }

    fn policy(self) -> Result<Policy, Box<dyn Error>> {
        let mut spec = Preset::Plimsoll.policy().into_spec();
        spec.compact.max_summary_tokens = Some(Tokens(SUMMARY));
        if self == Way::Unmanaged {
            spec.overflow.auto = false;
            spec.prune.enabled = false;
            spec.compact.extractive = false;
            spec.shed.enabled = false;
        }
        Ok(Policy::new(spec)?)
    }
}

struct Arguments {
    upstream: Upstream,
    turns: u64,
    ways: Vec<Way>,
}

impl Arguments {
    fn read() -> Result<Arguments, Box<dyn Error>> {
        let usage =
            "usage: real_model URL [--turns N] [--run direct|unmanaged|learned|configured|delegation]";
        let mut words = std::env::args().skip(1);
        let upstream = Upstream::new(&words.next().ok_or(usage)?)?;
        let (mut turns, mut ways) = (60, WAYS.to_vec());
        while let Some(word) = words.next() {
            let value = words.next().ok_or(usage)?;
            match word.as_str() {
                "--turns" => turns = value.parse()?,
                "--run" => ways = vec![WAYS.into_iter().find(|way| way.name() == value).ok_or(usage)?],
                _ => return Err(usage.into()),
            }
        }
        Ok(Arguments { upstream, turns, ways })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { upstream, turns, ways } = Arguments::read()?;
    let mut wrong = Vec::new();
    for way in ways {
        if way == Way::Direct {
            println!("{}\n", direct(&upstream).await?);
            continue;
        }
        if way == Way::Delegation {
            println!("{}\n", delegation::run(&upstream).await?);
            continue;
        }
        let figures = run(way, &upstream, turns).await?;
        println!("{figures}\n");
        match (way, &figures.died) {
            (Way::Unmanaged, None) => wrong.push("the unmanaged run did not die"),
            (Way::Learned | Way::Configured, Some(_)) => wrong.push("a managed run died"),
            _ => {}
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ").into()) }
}

/// The model at an address.
fn model(url: &str, limits: Option<Limits>) -> Result<Model, Box<dyn Error>> {
    let name = ModelRef { provider: "llama-cpp".into(), model: "smollm2-135m-instruct".into() };
    let endpoint = Endpoint::new(Wire::Chat, url, None)?;
    // A busy machine reads a full window in minutes, and whole answers send nothing meanwhile.
    let options = ClientOptions { idle: Duration::from_secs(900), ..ClientOptions::default() };
    let mut model = Model::new(name, endpoint, &ModelTable::default(), options)?;
    model.limits = limits;
    model.options.max_tokens = Some(ANSWER);
    model.options.temperature = Some(0.0);
    Ok(model)
}

/// The checkout that this was built from, which the model reads.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Counts events into a tally.
fn noting(tally: &Arc<Mutex<Tally>>) -> EventSink {
    let tally = Arc::clone(tally);
    Arc::new(move |event| tally.lock().unwrap_or_else(PoisonError::into_inner).note(event))
}

fn copy(tally: &Mutex<Tally>) -> Tally {
    tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A few turns without anything between agent and server, so that the server's own streams are read too.
async fn direct(upstream: &Upstream) -> Result<String, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let archive =
        Archive::open(directory.path().join("plimsoll.db"), &Policy::default(), Durability::Process)?;
    let tally: Arc<Mutex<Tally>> = Arc::default();
    let mut agent = Agent::new(Arc::new(archive), model(&upstream.url(), None)?, directory.path());
    agent.events = noting(&tally);
    let mut conversation = agent.begin("").await?;
    let (started, mut words) = (Instant::now(), 0);
    let long = format!(
        "Which of these crates are about time?\n{}",
        std::fs::read_to_string(root().join("Cargo.lock"))?
    );
    for question in ["What is a load line on a ship?", "Say it in one word.", long.as_str()] {
        let report = conversation.run(question, &CancellationToken::new()).await?;
        words += report.text.split_whitespace().count();
    }
    let (took, tally) = (started.elapsed().as_secs_f64(), copy(&tally));
    Ok(format!(
        "direct\n  turns             3 streamed by the server itself, {words} words, {took:.0} s\n  \
         last prompt       {} bytes; {}",
        long.len(),
        tally.refused()
    ))
}

async fn run(way: Way, upstream: &Upstream, turns: u64) -> Result<RunFigures, Box<dyn Error>> {
    let root = root();
    let workload = Workload::of(&root)?;
    let shim = Shim::start(upstream.clone())?;
    let directory = tempfile::tempdir()?;
    let policy = Arc::new(way.policy()?);
    let archive = Archive::open(directory.path().join("plimsoll.db"), &policy, Durability::Process)?;
    let archive = Arc::new(archive);
    let tally: Arc<Mutex<Tally>> = Arc::default();
    let mut agent = Agent::new(Arc::clone(&archive), model(&shim.url(), way.limits())?, &root);
    agent.profile.tools =
        ToolSet::builtin(&policy, &agent.sandbox).filter(|tool| matches!(tool, "read" | "recall"));
    agent.policy = policy;
    agent.events = noting(&tally);
    let mut conversation = agent.begin("").await?;
    let started = Instant::now();
    let (mut done, mut died) = (0, None);
    for turn in 1..=turns {
        let task = workload.turn(turn);
        shim.script(task.answers);
        let ended = conversation.run(&task.prompt, &CancellationToken::new()).await;
        died = match ended.map(|report| report.end) {
            Ok(RunEnd::Finished { .. }) => None,
            Ok(end) => Some(format!("{end:?}")),
            Err(error) => Some(format!("{}: {error}", error.name())),
        };
        if died.is_some() {
            break;
        }
        done = turn;
        eprintln!("{}: turn {turn} of {turns}, {:.0} s", way.name(), started.elapsed().as_secs_f64());
    }
    let took = started.elapsed();
    let exchanges = shim.exchanges();
    check_exchanges(&exchanges)?;
    let (by_model, without_model) = summaries(&archive, conversation.session())?;
    let tally = copy(&tally);
    Ok(RunFigures { name: way.name(), turns: done, died, tally, by_model, without_model, exchanges, took })
}

/// How many summaries took the place of older messages: those by the model, and those without one.
fn summaries(archive: &Archive, session: &SessionId) -> Result<(u64, u64), Box<dyn Error>> {
    let (mut by_model, mut without_model) = (0, 0);
    for receipt in archive.store().receipts(session, None, u64::from(u32::MAX))? {
        match receipt.plan {
            Plan::Compact(plan) if plan.made == SummaryOrigin::ByModel => by_model += 1,
            Plan::Compact(_) => without_model += 1,
            _ => {}
        }
    }
    Ok((by_model, without_model))
}
