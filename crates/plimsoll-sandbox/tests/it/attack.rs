//! Attacks the sandbox from inside with programs that try the system calls and paths that might lead out: `just
//! attack`.

mod calls;

use std::collections::BTreeMap;

use plimsoll_sandbox::{Guard, SandboxConfig};
use plimsoll_testkit::also_as_user;

use crate::support::{Bystander, Terminal, Yard, can};

const PROBE: &str = include_str!("probe.py");

/// Open by design; the table in `docs/AGENT.md` has the reasons.
const OPEN: [&str; 9] = [
    "/dev/",
    "command line of",
    "pair of stream sockets",
    "reading outside",
    "mode of a file outside",
    "times of a file outside",
    "extended attribute of a file outside",
    "shared memory of System V",
    "memory file",
];
/// Open on some systems, depending on kernel settings, or for root.
const OPEN_SOMEWHERE: [&str; 2] = ["kernel log", "user namespace"];

#[test]
#[ignore = "an attack: `just attack`"]
fn a_probe_of_system_calls_and_paths_finds_no_way_out() {
    let test = "attack::a_probe_of_system_calls_and_paths_finds_no_way_out";
    let again = also_as_user(&["--exact", test, "--include-ignored", "--nocapture"]);
    println!("{}", again.unwrap_or_else(|failures| panic!("{failures}")));
    assert!(can(Guard::ALL), "this kernel enforces less than the newest known one");
    assert_eq!(std::env::consts::ARCH, "x86_64", "the probe has the numbers of x86-64");
    let mut yard = Yard::new();
    let store = yard.directory().join("plimsoll.db");
    for end in ["", "-wal", "-shm", "-journal", "-newest", ".v2.bak"] {
        std::fs::write(format!("{}{end}", store.display()), "sessions").unwrap();
    }
    yard.confine(SandboxConfig::default().closed([&store]).private([&store]));
    std::fs::write(yard.outside.join("victim"), "kept").unwrap();
    std::fs::create_dir(yard.outside.join("empty")).unwrap();
    let (terminal, mut bystander) = (Terminal::open(), Bystander::new());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    yard.write("probe.py", PROBE);
    let command = format!(
        "python3 probe.py {} {} {} {} {} {} > report 2>&1",
        yard.outside.display(),
        store.display(),
        terminal.path,
        bystander.pid(),
        std::process::id(),
        listener.local_addr().unwrap().port()
    );
    let output = yard.bash(&command);
    let report = std::fs::read_to_string(yard.project.join("report")).unwrap();
    assert!(!output.contains("[exit code"), "{output}{}", tail(&report));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in report.lines() {
        let (verdict, name) = line.split_once(' ').unwrap();
        *counts.entry(verdict).or_default() += 1;
        let is_known = OPEN.iter().chain(&OPEN_SOMEWHERE).any(|known| name.starts_with(known));
        assert!(verdict != "open" || is_known, "{line}");
        if verdict == "FAILED" {
            println!("{line}");
        }
    }
    let user = if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" };
    let count = |verdict: &str| counts.get(verdict).copied().unwrap_or(0);
    println!(
        "sandbox probe as {user}: {} held, {} open by design, {} failed",
        count("held"),
        count("open"),
        count("FAILED")
    );
    assert_eq!(counts.keys().filter(|verdict| !["held", "open", "FAILED"].contains(verdict)).count(), 0);
    assert_eq!(count("FAILED"), 0);
    assert!(count("held") > 400 && count("open") >= OPEN.len(), "the probe broke off: {}", tail(&report));
    assert_eq!(std::fs::read_to_string(yard.outside.join("victim")).unwrap(), "kept");
    assert_eq!(terminal.left(), Terminal::TYPED);
    assert!(bystander.is_alive());
}

fn tail(report: &str) -> String {
    let lines: Vec<&str> = report.lines().rev().take(12).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
