//! The cost of recalling two lines of a large output, and how long maintenance holds the writer.
//!
//! `cargo bench -p plimsoll-store --bench content`; `PLIMSOLL_BENCH_MEGABYTES` makes the output smaller.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use plimsoll::log::CompactionPart;
use plimsoll::prune::{PruneItem, PrunePlan};
use plimsoll::{
    Message, Millis, Part, PartBody, Plan, Policy, Receipt, ReceiptId, Reduction, Role, SessionId, Tokens,
    ToolState,
};
use plimsoll_store::{Archive, Claim, Durability, NewSession, Scope, Selection};

const NOW: Millis = Millis(1_794_775_451_033);
const DIRECTORY: &str = "PLIMSOLL_BENCH_DIRECTORY";
const HANDLE: &str = "PLIMSOLL_BENCH_HANDLE";

fn main() {
    match (std::env::var(DIRECTORY), std::env::var(HANDLE)) {
        (Ok(directory), Ok(handle)) => recall(Path::new(&directory), &handle),
        _ => {
            large_output();
            upkeep();
            marks();
        }
    }
}

fn open(directory: &Path) -> Archive {
    Archive::open(directory.join("plimsoll.db"), &Policy::default(), Durability::Process).unwrap()
}

/// Lines of about a hundred bytes, created on reading.
struct Lines {
    number: u64,
    left: u64,
    line: Vec<u8>,
    at: usize,
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.line.len() {
            if self.left == 0 {
                return Ok(0);
            }
            let noise = self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.line = format!(
                "{:>10} crates/engine/src/module_{noise:016x}.rs: let value = compute({noise:x}, {noise});\n",
                self.number
            )
            .into_bytes();
            (self.number, self.at) = (self.number + 1, 0);
            self.left = self.left.saturating_sub(self.line.len() as u64);
        }
        let count = buffer.len().min(self.line.len() - self.at);
        buffer[..count].copy_from_slice(&self.line[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Peak memory of this process, in kB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or_default()
}

fn large_output() {
    let megabytes: u64 =
        std::env::var("PLIMSOLL_BENCH_MEGABYTES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000);
    let directory = tempfile::tempdir().unwrap();
    let archive = open(directory.path());
    let session = archive.store().create(NewSession::new(SessionId::new("ses_1")), NOW).unwrap().id;
    let claim = Claim::unleased(&session);
    let before = peak();
    let started = Instant::now();
    let mut output = Lines { number: 1, left: megabytes * 1_000_000, line: Vec::new(), at: 0 };
    let part = "prt_1".into();
    let taken = archive.take_output(&claim, &part, "bash", &mut output, &Policy::default(), NOW).unwrap();
    println!(
        "an output of {megabytes} MB, {} lines: taken in {:.1} s, {} kB of memory",
        output.number - 1,
        started.elapsed().as_secs_f64(),
        peak().saturating_sub(before)
    );
    let handle = plimsoll_store::handles(&taken.receipt.unwrap()).remove(0);
    drop(archive);
    let child = Command::new(std::env::current_exe().unwrap())
        .env(DIRECTORY, directory.path())
        .env(HANDLE, handle)
        .status()
        .unwrap();
    assert!(child.success());
}

fn recall(directory: &Path, handle: &str) {
    let archive = open(directory);
    let before = peak();
    let started = Instant::now();
    let wanted = Selection { lines: Some((500_000, 500_001)), ..Selection::default() };
    let found = archive.recall(Scope::Everywhere, handle, &wanted).unwrap().found;
    assert_eq!(found.lines.len(), 2);
    println!(
        "two of its lines, verified against the hash of the whole: {:.2} s, {} kB of memory",
        started.elapsed().as_secs_f64(),
        peak().saturating_sub(before)
    );
}

/// Indexes 137 MB before a summary while other threads append.
fn upkeep() {
    let directory = tempfile::tempdir().unwrap();
    let archive = open(directory.path());
    let store = archive.store();
    let session = store.create(NewSession::new(SessionId::new("ses_1")), NOW).unwrap().id;
    let claim = Claim::unleased(&session);
    let mut output = Lines { number: 1, left: 137_000_000, line: Vec::new(), at: 0 };
    for n in 0..5_480 {
        let mut text = vec![0; 25_000];
        output.read_exact(&mut text).unwrap();
        let part = format!("prt_{n:08}").as_str().into();
        let message =
            Message::user(format!("msg_{n:08}").as_str().into(), part, String::from_utf8(text).unwrap());
        store.append(&claim, vec![message.at(Millis(NOW.0 + n))], NOW).unwrap();
    }
    let body = PartBody::Compaction(CompactionPart::default());
    let mut marker = Message { parts: vec![Part::new("prt_m".into(), body)].into(), ..Message::default() };
    (marker.info.id, marker.info.role) = ("msg_m".into(), Some(Role::User));
    let mut summary = Message::assistant("msg_s".into(), vec![Part::text("prt_s".into(), "in short")]);
    (summary.info.summary, summary.info.parent_id) = (true, Some("msg_m".into()));
    summary.info.finish = Some("stop".into());
    let late = Millis(NOW.0 + 10_000);
    store.append(&claim, vec![marker.at(late), summary.at(late)], late).unwrap();
    let other = store.create(NewSession::new(SessionId::new("ses_2")), NOW).unwrap().id;
    let started = Instant::now();
    let waits = std::thread::scope(|scope| {
        let indexing = scope.spawn(|| {
            let (mut steps, mut longest, mut next) = (0, Duration::ZERO, Some(0));
            while let Some(from) = next {
                let step = Instant::now();
                next = store.index_step(from).unwrap().next;
                (steps, longest) = (steps + 1, longest.max(step.elapsed()));
            }
            (steps, longest)
        });
        let mut waits = Vec::new();
        let mut n = 0;
        while !indexing.is_finished() {
            let append = Instant::now();
            let message = Message::user(
                format!("msg_{n:08}").as_str().into(),
                format!("prt_{n:08}").as_str().into(),
                "on",
            );
            store.append(&Claim::unleased(&other), vec![message], NOW).unwrap();
            waits.push(append.elapsed());
            n += 1;
            std::thread::sleep(Duration::from_millis(5));
        }
        let (steps, longest) = indexing.join().unwrap();
        println!(
            "indexing 137 MB: {:.1} s in {steps} steps, the longest {:.0} ms",
            started.elapsed().as_secs_f64(),
            longest.as_secs_f64() * 1e3
        );
        waits
    });
    let mut waits = waits;
    waits.sort();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{} appends meanwhile: median {:.1} ms, p99 {:.0} ms, longest {:.0} ms",
        waits.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    let started = Instant::now();
    archive.remove(&claim, late).unwrap();
    println!("removing the session: {:.0} ms", started.elapsed().as_secs_f64() * 1e3);
}

/// One reduction with 50,000 marks, and its undo.
fn marks() {
    const COUNT: usize = 50_000;
    let directory = tempfile::tempdir().unwrap();
    let archive = open(directory.path());
    let store = archive.store();
    let session = store.create(NewSession::new(SessionId::new("ses_1")), NOW).unwrap().id;
    let claim = Claim::unleased(&session);
    let message = |n: usize| {
        let state = ToolState::completed(serde_json::json!({ "path": "src/lib.rs" }), "x");
        let part = Part::tool(format!("prt_{n:08}").as_str().into(), format!("call_{n}"), "read", state);
        Message::assistant(format!("msg_{n:08}").as_str().into(), vec![part])
    };
    let item = |n: usize| {
        let (part, message) = (format!("prt_{n:08}"), format!("msg_{n:08}"));
        PruneItem::output(part.as_str().into(), message.as_str().into(), "read", Tokens(1))
    };
    for first in (0..COUNT).step_by(1_000) {
        store.append(&claim, (first..first + 1_000).map(message).collect(), NOW).unwrap();
    }
    let receipt = Receipt::new(
        ReceiptId::new("rcp_1"),
        NOW,
        Plan::Prune(PrunePlan::of((0..COUNT).map(item).collect())),
        (Tokens(2), Tokens(1)),
    );
    let reduction = Reduction { receipts: vec![receipt.clone()], ..Reduction::default() };
    let took = |work: &dyn Fn()| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64() * 1e3
    };
    let reduced = took(&|| store.reduce(&claim, reduction.clone(), None, NOW).unwrap());
    let undone = took(&|| drop(store.undo(&claim, &receipt.id, NOW).unwrap()));
    println!("50,000 marks: set in {reduced:.0} ms, undone in {undone:.0} ms");
}
