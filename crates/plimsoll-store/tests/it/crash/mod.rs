//! A child process writes and is killed; everything that was acknowledged must be there.
//!
//! The child is this test binary, started again with a variable set. It logs each step before it is made, and its
//! result afterwards. When it has been killed, the last step may have happened or not, but only as a whole; everything
//! before it has happened, and nothing else has.
//!
//! `just torture` repeats this a thousand times and more.

mod child;
mod expected;
mod imports;
mod journal;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll::{Millis, Policy};
use plimsoll_store::{Archive, Durability, Filter};
use tempfile::TempDir;

use expected::Expected;

/// The child's directory; set only for the child.
const DIRECTORY: &str = "PLIMSOLL_TORTURED_DIRECTORY";
/// Number of the child.
const ROUND: &str = "PLIMSOLL_TORTURED_ROUND";
/// Number of the process, of two that run at once.
const PROCESS: &str = "PLIMSOLL_TORTURED_PROCESS";
/// Number of children that are killed.
const KILLS: &str = "PLIMSOLL_TORTURE_KILLS";
/// Seed of the random numbers.
const SEED: &str = "PLIMSOLL_TORTURE_SEED";

/// Number of children on one database.
const ROUNDS: u64 = 40;
/// Number of threads that write in each child, each in its own sessions.
const THREADS: u64 = 2;
/// Number of processes that run at once. The second takes over sessions of the first, never the other way round, so the
/// order of their changes to a session is known: first the first process, then the second.
const PROCESSES: u64 = 2;
/// Distance between the clocks of two children.
const APART: u64 = 1_000_000;

/// Pseudo-random numbers that are the same in every run.
#[derive(Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d);
        (0..4).for_each(|_| {
            dice.next();
        });
        dice
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }
}

/// Start of a child's clock.
fn clock(round: u64) -> Millis {
    Millis(super::NOW.0 + round * APART)
}

fn open(directory: &Path) -> Archive {
    let mut archive =
        Archive::open(directory.join("plimsoll.db"), &Policy::default(), Durability::Process).unwrap();
    archive.retention = plimsoll_store::Retention { age: None, max_bytes: Some(200_000) };
    archive
}

/// Runs in the child; does nothing unless it was started as one.
#[test]
fn the_tortured_child() {
    let (Ok(directory), Ok(round)) = (std::env::var(DIRECTORY), std::env::var(ROUND)) else { return };
    let process = std::env::var(PROCESS).unwrap();
    child::work(Path::new(&directory), round.parse().unwrap(), process.parse().unwrap());
}

#[test]
fn acknowledged_writes_survive_a_kill() {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let kills = number(KILLS).unwrap_or(12);
    let seed = number(SEED).unwrap_or(1);
    let mut dice = Dice::new(seed);
    let mut tally = Tally::default();
    let begun = Instant::now();
    let mut left = kills;
    while left > 0 {
        let rounds = left.div_ceil(PROCESSES).min(ROUNDS);
        torture(rounds, &mut dice, &mut tally);
        left = left.saturating_sub(rounds * PROCESSES);
    }
    println!("{kills} kills from seed {seed} in {} s: {tally}", begun.elapsed().as_secs());
    assert!(tally.done > kills, "the children did something: {tally}");
}

/// Counts for the report of a long run.
#[derive(Default)]
struct Tally {
    done: u64,
    refused: u64,
    interrupted_calls: u64,
    /// By kind of step: how many interrupted ones had not happened, and how many had.
    cut_off: BTreeMap<&'static str, (u64, u64)>,
    by_kind: BTreeMap<&'static str, u64>,
    spills: u64,
    messages: u64,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { done, refused, interrupted_calls, cut_off, by_kind, spills, messages } = self;
        write!(
            f,
            "{done} steps acknowledged, {refused} refused, {messages} messages and {spills} spills looked at, \
             {interrupted_calls} calls marked as interrupted; steps {by_kind:?}; cut off (had not happened, had \
             happened) {cut_off:?}"
        )
    }
}

/// Runs several children, one after the other, on one database.
fn torture(rounds: u64, dice: &mut Dice, tally: &mut Tally) {
    let directory = TempDir::new().unwrap();
    let mut expected = Expected::default();
    let first = dice.below(1_000_000) * 1_000;
    for round in first..first + rounds {
        let mut children: Vec<Child> =
            (0..PROCESSES).map(|process| start(directory.path(), round, process)).collect();
        if dice.below(10) > 0 {
            wait_for_work(&mut children, directory.path(), round);
        }
        // One dies before the other.
        for child in children {
            std::thread::sleep(Duration::from_micros(dice.below(60_000)));
            kill(child);
        }
        let archive = open(directory.path());
        // Dead processes do not release their leases; taking them over settles what was left.
        let mut leases = Vec::new();
        for session in archive.store().sessions(&Filter { all: true, ..Filter::default() }).unwrap() {
            let lease = archive.store().break_lease(&session.id, "parent", Duration::from_secs(60)).unwrap();
            tally.interrupted_calls += lease.settled.calls;
            leases.push(lease);
        }
        for thread in 0..PROCESSES * THREADS {
            expected.take_in(&archive, &journal::read(directory.path(), round, thread), tally);
        }
        // The next sweep finishes a purge that was killed.
        archive.finish_purges(clock(round)).unwrap();
        expected.hold(&archive, tally);
        expected.hold_purged(directory.path());
        let findings = archive.check().unwrap();
        assert_eq!(findings.problems, Vec::<String>::new(), "round {round}");
        leases.iter().for_each(|lease| archive.store().release(lease).unwrap());
    }
    // Stages of dead processes are swept when they are old.
    let archive = open(directory.path());
    archive.sweep(Millis(clock(first + rounds).0 + 1_000_000_000_000)).unwrap();
    let spill = directory.path().join("spill");
    let left = super::blobs(&spill).len();
    let database = rusqlite::Connection::open(directory.path().join("plimsoll.db")).unwrap();
    let kept = "SELECT count(DISTINCT hash) FROM spill WHERE expired IS NULL";
    let kept: usize = database.query_row(kept, [], |row| row.get(0)).unwrap();
    assert_eq!(left, kept, "a file for each spill, and no other");
    imports::sweep(&archive, &database);
}

fn start(directory: &Path, round: u64, process: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::the_tortured_child", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(ROUND, round.to_string())
        .env(PROCESS, process.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until the children have done something.
fn wait_for_work(children: &mut [Child], directory: &Path, round: u64) {
    let begun = Instant::now();
    while (0..PROCESSES * THREADS).any(|thread| journal::is_empty(directory, round, thread)) {
        for child in &mut *children {
            assert!(child.try_wait().unwrap().is_none(), "the child ended: {}", said(child));
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the child does nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = stderr.read_to_string(&mut text);
    }
    text
}

fn kill(mut child: Child) {
    if child.try_wait().unwrap().is_some() {
        panic!("the child ended by itself: {}", said(&mut child));
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success());
    #[cfg(unix)]
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{}", said(&mut child));
}
