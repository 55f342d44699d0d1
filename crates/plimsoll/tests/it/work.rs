//! The work of preparing a request grows with its size and no faster, whatever the size is made of.
//!
//! A word of 20,000 zeros once took a minute, because an automaton was built over names of any length. Each step is measured at a
//! size and at four times that size, in processor time of this thread, which other work on the machine does not change. Four times
//! the work is linear, sixteen times is quadratic.

use plimsoll::compact::accept::Reply;
use plimsoll::compact::ladder::{Ladder, Situation, Step, Trigger};
use plimsoll::compact::request::Summariser;
use plimsoll::fork::child::{Child, fork_for};
use plimsoll::fork::fork;
use plimsoll::redact::redact;
use plimsoll::{
    CachePlan, CharCounter, Fixed, Limits, Load, Log, Message, Millis, Part, Policy, Tokens, ToolState,
    Window, floor, prune,
};
use plimsoll_testkit::ids;
use rstest::rstest;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

/// Bytes of the smaller input.
const SIZE: usize = 16_000;
/// Factor between the two sizes.
const GROWTH: usize = 4;
/// Largest factor between the times. Between linear and quadratic, and nearer to quadratic: sorting and caches add to linear.
const MOST: u64 = 9;
/// Shorter times are noise, and no hang.
const LEAST_NANOS: u64 = 10_000_000;

fn filled(size: usize, mut next: impl FnMut(usize) -> String) -> String {
    let mut text = String::with_capacity(size + 64);
    for number in 0.. {
        if text.len() >= size {
            break;
        }
        text.push_str(&next(number));
    }
    text
}

/// An input of about `size` bytes that is ugly in one way.
fn ugly(kind: &str, size: usize) -> String {
    let base64 =
        |n: usize| char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[n % 64]);
    let random = |n: usize| (n * 2_654_435_761) >> 7;
    match kind {
        "zeros" => "0".repeat(size),
        "letters" => "a".repeat(size),
        "spaces" => " ".repeat(size),
        "empty lines" => "\n".repeat(size),
        "base64 in a line" => filled(size, |n| base64(random(n)).to_string()),
        "distinct names" => filled(size, |n| format!("name_{n}_x ")),
        "distinct paths" => filled(size, |n| format!("src/m{n}/f{n}.rs:{n}\n")),
        "distinct numbers" => filled(size, |n| format!("{} ", 100_003 + random(n) % 900_000)),
        "one deep path" => filled(size, |n| format!("/d{n}")),
        "dots" => "a.b".repeat(size / 3),
        "dashes" => "a-b_".repeat(size / 4),
        "camel humps" => "aB1".repeat(size / 3),
        "short lines" => "a b\n".repeat(size / 4),
        "quotes" => "\"'`".repeat(size / 3),
        "backslashes" => "\\".repeat(size),
        "brackets" => "[".repeat(size / 2) + &"]".repeat(size / 2),
        "open links" => "[".repeat(size) + "](x",
        "wrapped lines" => {
            "so many words that this line is wrapped by an editor at some column\n".repeat(size / 68)
        }
        "assignments" => "token = ".repeat(size / 8),
        "addresses" => "https://a:b".repeat(size / 11),
        "headings" => filled(size, |n| format!("## Heading {n}\n- [ ] do {n}\n")),
        "diff" => filled(size, |n| format!("@@ -{n} +{n} @@\n-a{n}\n+b{n}\n")),
        "errors" => filled(size, |n| format!("error[E{n}]: failed at src/a.rs:{n}:1\n")),
        "sentences" => filled(size, |n| format!("Never touch file {n}, because it must stay. ")),
        "other scripts" => "漢字，".repeat(size / 9),
        "emoji" => "🚢".repeat(size / 4),
        other => panic!("no input `{other}`"),
    }
}

/// A session in which a text is everything that a text can be: prompt, answer, input and output of a call.
fn session(text: &str) -> Log {
    let mut messages = Vec::new();
    let mut names = ids();
    let mut now = Millis(1_000);
    for turn in 0..1 {
        now = Millis(now.0 + 1_000);
        messages.push(Message::user(names.message(now), names.part(now), text).at(now));
        let state = ToolState::completed(json!({ "path": "a.rs", "content": text }), text);
        let call = Part::tool(names.part(now), format!("call_{turn}"), "write", state);
        messages.push(Message::assistant(names.message(now), vec![call]).at(now));
        let said = Part::text(names.part(now), text);
        messages.push(Message::assistant(names.message(now), vec![said]).at(now));
    }
    messages.push(Message::user(names.message(now), names.part(now), "And now?").at(now));
    Log::from_messages(messages)
}

/// A policy that clears whatever it can, so that the smaller input is cleared as the larger one is.
fn clearing() -> Policy {
    let mut spec = Policy::default().into_spec();
    (spec.prune.protect_tokens, spec.prune.min_tokens, spec.prune.active_turns) = (Tokens(0), Tokens(0), 0);
    Policy::new(spec).unwrap()
}

/// Climbs to the end; the summariser copies names out of the history.
fn climb(log: &Log, trigger: Trigger, with_model: bool) {
    let policy = Policy::default();
    let limits = Limits::new(4_000, 500);
    let summariser = with_model.then(|| Summariser::named("small", Limits::new(2_000_000, 8_000)));
    let situation = Situation { summariser, trigger, ..Situation::new(&policy, limits, Millis(9_000_000)) };
    let said = log.iter().map(Message::text).collect::<Vec<_>>().join(" ");
    let said: String = said.chars().take(4_000).collect();
    let (mut ladder, mut names) = (Ladder::new(log.clone(), situation), ids());
    for _ in 0..1_000 {
        match ladder.climb(&mut names).unwrap() {
            Step::Ask(_) => {
                ladder.answer(Ok(Reply::finished(format!("## Goal\n{said}"))), &mut names).unwrap();
            }
            Step::Done(_) => return,
        }
    }
    panic!("the ladder does not end");
}

type Work = fn(&str);

/// The steps of preparing a request, each on a fresh session: what was computed once is kept with its text.
const STEPS: [(&str, Work); 12] = [
    ("redact", |text| drop(redact(text))),
    ("window", |text| drop(Window::of(&session(text), &Policy::default()))),
    ("floor", |text| {
        let _ = floor::of_window(&Window::of(&session(text), &Policy::default()));
    }),
    ("load", |text| {
        drop(Load::of(&session(text), &Policy::default(), Fixed::default(), &CharCounter::default()));
    }),
    ("prune", |text| drop(prune::plan(&session(text), &clearing(), None))),
    ("cache", |text| {
        let (log, policy) = (session(text), Policy::default());
        let window = Window::of(&log, &policy);
        let plan = CachePlan::new(&window, &log, None, 0, &policy.cache);
        drop(CachePlan::new(&window, &log, Some(&plan.fingerprint), 0, &policy.cache));
    }),
    ("json", |text| {
        let written = serde_json::to_string(session(text).messages()).unwrap();
        drop(serde_json::from_str::<Vec<Message>>(&written).unwrap());
    }),
    ("climb", |text| climb(&session(text), Trigger::Auto, false)),
    ("climb with a model", |text| climb(&session(text), Trigger::Auto, true)),
    ("climb after a refusal", |text| climb(&session(text), Trigger::Refused, false)),
    ("fork", |text| drop(fork(&session(text), &Policy::default().fork))),
    ("fork for a small child", |text| {
        let (log, policy) = (session(text), Policy::default());
        let child = Child { limits: Limits::new(8_000, 2_000), fixed: Fixed::default(), task: "Look." };
        drop(fork_for(&log, &policy, &child, &policy.count));
    }),
];

fn nanos(work: impl FnOnce()) -> u64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let start = now();
    work();
    now() - start
}

#[rstest]
fn every_step_of_preparing_a_request_is_linear_in_ugly_input(
    #[values(
        "zeros",
        "letters",
        "spaces",
        "empty lines",
        "base64 in a line",
        "distinct names",
        "distinct paths",
        "distinct numbers",
        "one deep path",
        "dots",
        "dashes",
        "camel humps",
        "short lines",
        "wrapped lines",
        "quotes",
        "backslashes",
        "brackets",
        "open links",
        "assignments",
        "addresses",
        "headings",
        "diff",
        "errors",
        "sentences",
        "other scripts",
        "emoji"
    )]
    kind: &str,
) {
    let (small, large) = (ugly(kind, SIZE), ugly(kind, SIZE * GROWTH));
    let mut slow = Vec::new();
    for (step, work) in STEPS {
        let (mut after, mut before) = (nanos(|| work(&large)), nanos(|| work(&small)));
        // A page that is touched for the first time or a table that is built once can look like growth. Twice more settles it.
        for _ in 0..2 {
            if after > LEAST_NANOS.max(before * MOST) {
                (after, before) = (after.min(nanos(|| work(&large))), before.max(nanos(|| work(&small))));
            }
        }
        if after > LEAST_NANOS.max(before * MOST) {
            slow.push(format!("{step}: {before} ns, then {after} ns"));
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
