//! A sweep over all numbers of system calls, compared with a table of the expected results.

use std::collections::BTreeMap;

use plimsoll_sandbox::Guard;
use plimsoll_testkit::also_as_user;

use crate::support::{Yard, can};

const SWEEP: &str = include_str!("calls.py");
const TABLE: &str = include_str!("calls.txt");

/// Numbers of each interface: those of x86-64, and the same calls under the numbers of x32.
const NUMBERS: u32 = 1024;
const X32: u32 = 0x4000_0000;

/// Returns the expected result of each known call, with its name.
fn table() -> BTreeMap<u32, (&'static str, &'static str)> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.map(|line| {
        let mut words = line.split_whitespace();
        let mut next = || words.next().unwrap_or_else(|| panic!("{line}"));
        (next().parse().unwrap(), (next(), next()))
    });
    rows.collect()
}

fn is_expected(expected: &str, result: &str) -> bool {
    match expected {
        "refused" | "denied" => result == "EPERM",
        "denied-to-users" => result == if is_root() { "EINVAL" } else { "EPERM" },
        "absent" => result == "ENOSYS",
        // An older kernel does not have the call.
        "error" => result.starts_with('E') && result != "EPERM",
        // The kernel may be built without it.
        "done" => result == "done" || result == "ENOSYS",
        other => result == other,
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
#[ignore = "an attack: `just attack`"]
fn each_system_call_answers_what_the_table_says_and_no_other_exists() {
    let test = "attack::calls::each_system_call_answers_what_the_table_says_and_no_other_exists";
    let again = also_as_user(&["--exact", test, "--include-ignored", "--nocapture"]);
    println!("{}", again.unwrap_or_else(|failures| panic!("{failures}")));
    assert!(can(Guard::ALL), "this kernel enforces less than the newest known one");
    assert_eq!(std::env::consts::ARCH, "x86_64", "the table has the numbers of x86-64");
    let yard = Yard::new();
    yard.write("calls.py", SWEEP);
    let output = yard.bash("python3 calls.py > report 2>&1");
    let report = std::fs::read_to_string(yard.project.join("report")).unwrap();
    assert_eq!(output, "", "{report}");
    let table = table();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in report.lines() {
        let (number, result) = line.split_once(' ').unwrap();
        let number: u32 = number.parse().unwrap();
        let (name, expected) = match table.get(&number) {
            Some(known) => *known,
            None if number >= X32 => ("of x32", "ENOSYS"),
            None => ("which is in no table", "ENOSYS"),
        };
        if result == "left-out" || is_expected(expected, result) {
            let kind = if expected == "ENOSYS" { name } else { expected };
            *counts.entry(kind).or_default() += 1;
        } else {
            wrong.push(format!("{number} {name}: {result}, expected {expected}"));
        }
    }
    let user = if is_root() { "root" } else { "an ordinary user" };
    println!("system calls as {user}: {counts:?}, {} failed", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(counts.values().sum::<usize>(), 2 * NUMBERS as usize, "the sweep broke off");
}
