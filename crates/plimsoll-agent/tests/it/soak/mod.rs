//! Many turns with random faults of the provider, while the process is killed repeatedly.
//!
//! Each session has its own wire, window and preset, and a provider that fails in about a fifth of its answers. A child
//! process runs the turns until it dies, at some event or after some time. Another one continues the session. After
//! each death the promises of events are compared with the store. `just soak` runs 2,000 turns, the ordinary tests
//! about forty.

mod child;
mod faults;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll::{Preset, SessionId};
use plimsoll_agent::RunEnd;
use plimsoll_providers::Wire;
use plimsoll_store::NewSession;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::journal;
use crate::support::{WIRES, lines, open_archive};
use faults::Provider;

/// Settings of a child; set only for the child.
const LIFE: &str = "PLIMSOLL_SOAKED_LIFE";
/// Number of turns.
const TURNS: &str = "PLIMSOLL_SOAK_TURNS";
/// Seed of the random numbers.
const SEED: &str = "PLIMSOLL_SOAK_SEED";

const SESSION: &str = "ses_soaked";
/// Number of turns in one session of a long soak.
const SESSION_TURNS: u64 = 50;
/// Number of concurrent sessions.
const THREADS: usize = 6;

/// Pseudorandom numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

/// Settings of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Life {
    directory: PathBuf,
    url: String,
    wire: String,
    preset: String,
    window: u64,
    /// Whether the model's window is known, or must be learned from errors.
    is_known: bool,
    /// Number of this life.
    number: u64,
    /// Turns.
    first: u64,
    end: u64,
    /// Whether it first continues the turn in which the previous life ended.
    resumes: bool,
    /// Number of the event at which it dies, from 1; 0 for never.
    die_at: u64,
}

impl Life {
    fn wire(&self) -> Wire {
        WIRES.iter().find(|(_, name)| *name == self.wire).unwrap().0
    }

    fn preset(&self) -> Preset {
        Preset::ALL.into_iter().find(|preset| preset.name() == self.preset).unwrap()
    }

    fn journal(&self) -> PathBuf {
        self.directory.join(format!("journal-{}", self.number))
    }
}

/// Counts.
#[derive(Debug, Default)]
struct Tally {
    turns: u64,
    lives: u64,
    kills: u64,
    requests: usize,
    most_requests: u64,
    summaries: u64,
    events: usize,
    reductions: BTreeMap<String, u64>,
    ends: BTreeMap<String, u64>,
    faults: BTreeMap<String, u64>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.turns += other.turns;
        self.lives += other.lives;
        self.kills += other.kills;
        self.requests += other.requests;
        self.most_requests = self.most_requests.max(other.most_requests);
        self.summaries += other.summaries;
        self.events += other.events;
        let add = |sum: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>| {
            more.into_iter().for_each(|(kind, count)| *sum.entry(kind).or_default() += count);
        };
        add(&mut self.reductions, other.reductions);
        add(&mut self.ends, other.ends);
        add(&mut self.faults, other.faults);
    }
}

#[test]
fn turns_with_faults_and_kills_lose_nothing_and_end() {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let (turns, seed) = (number(TURNS).unwrap_or(42), number(SEED).unwrap_or(1));
    println!("{turns} turns from seed {seed}");
    let per_session = SESSION_TURNS.min(turns.div_ceil(6));
    let sessions = turns.div_ceil(per_session);
    let (tally, next, begun) = (Mutex::new(Tally::default()), AtomicU64::new(0), Instant::now());
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::SeqCst);
            if place >= sessions {
                break;
            }
            let soaked = soak_session(seed.wrapping_mul(1_000) + place, place, per_session);
            tally.lock().unwrap().add(soaked);
        }
    };
    // Most of the time is spent waiting for silent providers.
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    let tally = tally.into_inner().unwrap();
    println!("{:.0} s: {tally:#?}", begun.elapsed().as_secs_f64());
    assert!(tally.turns >= turns && tally.kills > 0, "{tally:?}");
}

/// Runs the turns of one session, from first to last.
fn soak_session(seed: u64, place: u64, turns: u64) -> Tally {
    let (mut dice, mut tally) = (Dice::new(seed), Tally::default());
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("project")).unwrap();
    std::fs::write(directory.path().join("project/big.txt"), lines(900)).unwrap();
    let new = NewSession::new(SessionId::new(SESSION));
    open_archive(directory.path()).store().create(new, plimsoll::Millis(1)).unwrap();
    let window = *dice.pick(&[16_000, 24_000, 32_000, 48_000, 64_000]);
    let provider = Provider::start(window, seed);
    let mut life = Life {
        directory: directory.path().to_owned(),
        url: provider.server.url(),
        wire: WIRES[place as usize % 3].1.to_owned(),
        preset: [Preset::Plimsoll, Preset::Opencode118][place as usize / 3 % 2].name().to_owned(),
        window,
        is_known: place % 5 != 4,
        number: 0,
        first: 0,
        end: turns,
        resumes: false,
        die_at: 0,
    };
    let context = format!("seed {seed}, {} {} {window}", life.wire, life.preset);
    while life.first < turns || life.resumes {
        live(&mut life, turns, &mut dice, &context, &mut tally);
        assert!(life.number < 40 * turns, "{context}: it does not come forward");
    }
    tally.turns += turns;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(end_session(&life, &provider, &context, &mut tally));
    println!("{context}: {} turns, {} kills, {} requests", tally.turns, tally.kills, tally.requests);
    tally
}

/// Runs one life of the child, and checks what it leaves.
fn live(life: &mut Life, turns: u64, dice: &mut Dice, context: &str, tally: &mut Tally) {
    // Some die at an event, some after a time, and some finish a few turns.
    let way = dice.below(20);
    life.end = turns.min(life.first + 1 + dice.below(8));
    life.die_at = if way < 12 { 1 + dice.below(160) } else { 0 };
    let age = (12..18).contains(&way).then(|| Duration::from_millis(50 + dice.below(4_000)));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "soak::child::the_soaked_child", "--nocapture"])
        .env(LIFE, serde_json::to_string(&life).unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    if let Some(age) = age {
        std::thread::sleep(age);
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert!(status.success() || signal == Some(9), "{context}, life {}: {status}", life.number);
    tally.lives += 1;
    tally.kills += u64::from(signal.is_some());
    let entries = journal::read(&life.journal());
    let archive = open_archive(&life.directory);
    journal::hold(&entries, &archive, &SESSION.into());
    let problems = archive.check().unwrap().into_all();
    assert_eq!(problems, Vec::<String>::new(), "{context}, life {}", life.number);
    let count = |event: &str| entries.iter().filter(|entry| entry.event == event).count() as u64;
    for entry in &entries {
        match entry.event.split(' ').collect::<Vec<_>>()[..] {
            ["turn", how, requests] => {
                *tally.ends.entry(how.to_owned()).or_default() += 1;
                tally.most_requests = tally.most_requests.max(requests.parse().unwrap());
            }
            [kind @ ("truncate" | "prune" | "compact" | "shed")] => {
                *tally.reductions.entry(kind.to_owned()).or_default() += 1;
            }
            _ => {}
        }
    }
    tally.events += entries.len();
    let begun = count("prompted");
    let ended = entries.iter().filter(|entry| entry.event.starts_with("turn ")).count() as u64;
    let was_resumed = u64::from(life.resumes);
    let is_cut_off = begun + was_resumed > ended;
    // A prompt that was not acknowledged is sent again.
    life.first += begun;
    life.resumes = is_cut_off && dice.below(2) == 0;
    life.number += 1;
}

/// The provider has recovered: a last turn succeeds, nothing was lost, and no request was illegal.
async fn end_session(life: &Life, provider: &Provider, context: &str, tally: &mut Tally) {
    provider.calm_down();
    let agent = child::agent(&life.directory, life);
    let mut conversation = agent.open(&SESSION.into()).await.unwrap();
    let report = conversation.run("Is all well?", &CancellationToken::new()).await;
    match report {
        Ok(report) => assert!(matches!(report.end, RunEnd::Finished { .. }), "{context}: {report:?}"),
        // A policy that follows another tool may have no way to make it fit.
        Err(error) => assert_ne!(life.preset(), Preset::Plimsoll, "{context}: {error}"),
    }
    drop(conversation);
    hold_all(&life.directory, life.number, &agent);
    assert_eq!(agent.archive.check().unwrap().into_all(), Vec::<String>::new(), "{context}");
    let problems = provider.server.take_problems();
    assert!(problems.is_empty(), "{context}: {problems:#?}");
    tally.requests += provider.server.requests().len();
    let (kinds, summaries) = provider.kinds();
    tally.summaries += summaries;
    kinds.into_iter().for_each(|(kind, count)| *tally.faults.entry(kind).or_default() += count);
}

fn hold_all(directory: &Path, lives: u64, agent: &plimsoll_agent::Agent) {
    for number in 0..lives {
        let entries = journal::read(&directory.join(format!("journal-{number}")));
        journal::hold(&entries, &agent.archive, &SESSION.into());
    }
}
