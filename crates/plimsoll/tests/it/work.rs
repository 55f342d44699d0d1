//! Preparing a request takes linear time, whatever its content.
//!
//! A word of 20,000 zeros once took a minute, because an automaton was built over names of any length. Each step runs
//! with a size and with four times that size, and its work is counted: bytes of text read ([`plimsoll::work`]) and
//! bytes allocated. Four times the work is linear, sixteen times is quadratic. One count would not be enough: a scan
//! inside a loop allocates nothing, and a table that is too large is not read. Processor time would detect both, but
//! differs between runs. Counts are the same in every run, except for the caches of regular expressions, which threads
//! share.

#![cfg(debug_assertions)]

use plimsoll::compact::{CompactionContext, Ladder, Reply, Step, Summariser};
use plimsoll::fork::{Child, fork, fork_for};
use plimsoll::prune::{PruneChoice, plan_choice};
use plimsoll::recall::{Lookup, RecallAnswer, RecallContent, RecallQuery};
use plimsoll::redact::redact_messages;
use plimsoll::truncate::{Address, Spill};
use plimsoll::{
    CachePlan, CharCounter, Limits, Load, Log, Message, Millis, Policy, RequestOverhead, Role, Text, Tokens,
    ToolState, Window, floor, prune, truncate, work,
};
use plimsoll_testkit::{History, ids};
use rstest::rstest;
use serde_json::{Value, json};

/// Bytes of the smaller text.
const SIZE: usize = 5_000;
/// Factor between the two sizes.
const GROWTH: usize = 4;
/// Maximum factor between the two counts. Linear work has a factor of 4, in these tests up to 4.4, because a step may
/// do less below a limit than above it.
const MOST: u64 = 6;

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

/// A text of about `size` bytes that is unusual in one way.
fn ugly(kind: &str, size: usize) -> String {
    let base64 =
        |n: usize| char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[n % 64]);
    let random = |n: usize| (n * 2_654_435_761) >> 7;
    let repeated = |text: &str| text.repeat(size / text.len());
    match kind {
        // Long words and long lines.
        "zeros" => repeated("0"),
        "letters" => repeated("a"),
        "base64 in a line" => filled(size, |n| base64(random(n)).to_string()),
        "one deep path" => filled(size, |n| format!("/d{n}")),
        "dots" => repeated("a.b"),
        "dashes" => repeated("a-b_"),
        "camel humps" => repeated("aB1"),
        "quotes" => repeated("\"'`"),
        "backslashes" => repeated("\\"),
        "escaped dots" => repeated("\\."),
        "brackets" => "[".repeat(size / 2) + &"]".repeat(size / 2),
        "open links" => "[".repeat(size) + "](x",
        "open tags" => repeated("<"),
        "host tags" => repeated("<skill "),
        "emoji" => repeated("🚢"),
        "other scripts" => repeated("漢字，"),
        // White space.
        "spaces" => repeated(" "),
        "empty lines" => repeated("\n"),
        "short lines" => repeated("a b\n"),
        "wrapped lines" => repeated("so many words that this line is wrapped by an editor at some column\n"),
        // Many names.
        "distinct names" => filled(size, |n| format!("name_{n}_x ")),
        "distinct paths" => filled(size, |n| format!("src/m{n}/f{n}.rs:{n}\n")),
        "distinct numbers" => filled(size, |n| format!("{} ", 100_003 + random(n) % 900_000)),
        "addresses" => repeated("https://a:b"),
        "local addresses" => filled(size, |n| format!("http://localhost:{} ", 10_000 + n)),
        "assignments" => repeated("token = "),
        // Text as users, models and programs write it.
        "headings" => filled(size, |n| format!("## Heading {n}\n- [ ] do {n}\n")),
        "diff" => filled(size, |n| format!("@@ -{n} +{n} @@\n-a{n}\n+b{n}\n")),
        "patch" => filled(size, |n| format!("*** Begin Patch\n*** Update File: src/f{n}.rs\n+a\n")),
        "errors" => filled(size, |n| format!("error[E{n}]: failed at src/a.rs:{n}:1\n")),
        "test results" => filled(size, |n| format!("test result: ok. {n} passed; 0 failed\n")),
        "sentences" => filled(size, |n| format!("Never touch file {n}, because it must stay. ")),
        "messages of a host" => repeated("The user sent the following message: "),
        "plan of a script" => {
            filled(size, |n| format!("update_plan({{step: \"do {n}\", status: \"pending\"}}) "))
        }
        // Command lines.
        "commands" => repeated("ls;"),
        "wrapped commands" => repeated("sudo "),
        "settings" => filled(size, |n| format!("VAR_{n}=1 ")),
        "exports" => filled(size, |n| format!("export VAR_{n}=1; ")),
        "pipes" => format!("cat a.rs{}", repeated(" | head -3")),
        "here-documents" => repeated("cat <<A <<B\n"),
        "shells" => repeated("bash -c 'sudo x' ; "),
        // JSON.
        "deep JSON" => "{\"a\":[".repeat(size / 14) + &"]}".repeat(size / 14),
        "wide JSON" => format!("[{}1]", filled(size, |n| format!("{{\"a{n}\":[[{n}]]}},"))),
        "nested JSON" => {
            let nested = |_| "[".repeat(100) + "\"a b\"" + &"]".repeat(100) + ",";
            format!("[{}1]", filled(size, nested))
        }
        other => panic!("no input `{other}`"),
    }
}

/// A session that has a text as prompt, answer, input and output of calls.
fn session(text: &str) -> Log {
    // JSON that is nested too deeply stays a text.
    let value: Value = serde_json::from_str(text).unwrap_or_else(|_| json!({ "text": text }));
    let history = History::new()
        .user(text)
        .tool_with("write", json!({ "path": "a.rs", "content": text }), text)
        .tool_with("bash", json!({ "command": text }), text)
        .tool_with("exec", json!({ "code": text }), text)
        .tool_with("question", json!({ "question": text }), text)
        .tool_with("server_query", value, text)
        .think(text, text);
    Log::from_messages(history.user("And now?").messages())
}

/// A session of very many similar messages.
fn long(kind: &str, size: usize) -> Log {
    let failed = |n: usize| {
        let input = json!({ "command": format!("cargo test case_{n}") });
        ToolState::failed(input, format!("error: case_{n} failed"))
    };
    let next = |history: History, n: usize| match kind {
        "failed commands" => history.tool_state("bash", failed(n)),
        "edits" => history.tool_with("edit", json!({ "path": format!("src/m{n}/f{n}.rs") }), "done"),
        "versions" => {
            let input = json!({ "command": format!("tool_{n} --version") });
            history.tool_with("bash", input, format!("tool_{n} 1.{n}"))
        }
        "orders" => {
            history.user(format!("Never touch file_{n}.rs.")).say(format!("I won't touch file_{n}.rs."))
        }
        "prompts" => history.user(format!("Look at part {n} of the plan, please")),
        "answers" => history.say(format!("Part {n} was broken because of `part_{n}`, and is fixed now.")),
        "system messages" => {
            history.user(format!("Rule {n}")).change(|message| message.info.role = Some(Role::System))
        }
        "reads" => history.tool_with("read", json!({ "path": "a.rs", "offset": n }), format!("line_{n}\n")),
        other => panic!("no session of `{other}`"),
    };
    let history = (0..size / 10).fold(History::new().user("Begin."), next);
    Log::from_messages(history.say("Done.").user("And now?").messages())
}

/// A policy that clears as much as possible, so that the smaller input is treated like the larger one.
fn clearing() -> Policy {
    let mut spec = Policy::default().into_spec();
    (spec.prune.protect_tokens, spec.prune.min_tokens, spec.prune.active_turns) = (Tokens(0), Tokens(0), 0);
    Policy::new(spec).unwrap()
}

/// A policy that truncates the smaller text as well as the larger one.
fn truncating() -> Policy {
    let mut spec = Policy::default().into_spec();
    (spec.truncate.max_lines, spec.truncate.max_bytes) = (20, 1_000);
    Policy::new(spec).unwrap()
}

/// The outputs of a session's calls.
fn outputs(log: &Log) -> Vec<Text> {
    let parts = log.iter().flat_map(|message| &message.parts);
    parts.filter_map(|part| part.as_tool()?.state.result().cloned()).collect()
}

fn recall(text: &Text, query: &Value) -> RecallAnswer {
    let query = RecallQuery::parse(query).unwrap();
    let content = RecallContent::new("prt_1", "output of bash", text.clone());
    query.answer(&Lookup::Found(content), &Policy::default().recall)
}

/// Climbs to the end with a summariser that copies names from the history.
fn climb(log: &Log, with_model: bool) {
    let policy = Policy::default();
    let limits = Limits::new(1_500, 300);
    let summariser = with_model.then(|| Summariser::named("small", Limits::new(2_000_000, 8_000)));
    let context =
        CompactionContext { summariser, ..CompactionContext::new(&policy, limits, Millis(9_000_000)) };
    let said = log.iter().map(Message::text).collect::<Vec<_>>().join(" ");
    let said: String = said.chars().take(4_000).collect();
    let (mut ladder, mut names) = (Ladder::new(log.clone(), context), ids());
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

type Work = fn(&Log);

/// The steps of preparing a request, and other uses of a session.
const STEPS: [(&str, Work); 15] = [
    ("redact", |log| drop(redact_messages(&mut log.messages().to_vec()))),
    ("window", |log| drop(Window::of(log, &Policy::default()))),
    ("floor", |log| _ = floor::of_window(&Window::of(log, &Policy::default()), &CharCounter::default())),
    ("load", |log| {
        drop(Load::of(log, &Policy::default(), RequestOverhead::default(), &CharCounter::default()));
    }),
    ("prune", |log| drop(prune::plan(log, &clearing(), None))),
    ("prune what was read again", |log| {
        let choice = PruneChoice { repeated: true, ..PruneChoice::default() };
        drop(plan_choice(log, &clearing(), &choice, None));
    }),
    ("cache", |log| {
        let policy = Policy::default();
        let window = Window::of(log, &policy);
        let plan = CachePlan::new(&window, log, None, 0, &policy.cache);
        drop(CachePlan::new(&window, log, Some(&plan.fingerprint), 0, &policy.cache));
    }),
    ("json", |log| {
        let written = serde_json::to_string(log.messages()).unwrap();
        drop(serde_json::from_str::<Vec<Message>>(&written).unwrap());
    }),
    ("truncate", |log| {
        for text in outputs(log) {
            let plan = truncate::plan(text.as_bytes(), "bash", &truncating());
            drop(plan.render(&Spill::Saved(Address::Handle("spill_9c2f".into()))));
        }
    }),
    ("recall", |log| {
        for text in outputs(log) {
            // A large offset would leave more than its share of the longer text.
            drop(recall(&text, &json!({ "handle": "prt_1", "offset": 50 })));
        }
    }),
    ("search", |log| {
        for text in outputs(log) {
            drop(recall(&text, &json!({ "handle": "prt_1", "search": "a.*e|[0-9]+x$" })));
        }
    }),
    ("climb", |log| climb(log, false)),
    ("climb with a model", |log| climb(log, true)),
    ("fork", |log| drop(fork(log, &Policy::default().fork))),
    ("fork for a small child", |log| {
        let policy = Policy::default();
        let child =
            Child { limits: Limits::new(1_500, 300), fixed: RequestOverhead::default(), task: "Look." };
        drop(fork_for(log, &policy, &child, &policy.count));
    }),
];

/// Bytes read and allocated. Texts cache computed values, so each step gets its own session.
fn measure(step: Work, log: &Log) -> u64 {
    let read = work::bytes_read();
    let allocated = allocation_counter::measure(|| step(log)).bytes_total;
    allocated + work::bytes_read() - read
}

fn check(session: impl Fn(usize) -> Log) {
    let mut slow = Vec::new();
    for (step, work) in STEPS {
        // Compiling patterns and building tables once does not count.
        work(&session(SIZE));
        let (before, after) = (measure(work, &session(SIZE)), measure(work, &session(SIZE * GROWTH)));
        if after > MOST * before {
            slow.push(format!("{step}: {before}, then {after}"));
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

#[rstest]
fn every_step_of_preparing_a_request_is_linear_in_ugly_input(
    #[values(
        "zeros",
        "letters",
        "base64 in a line",
        "one deep path",
        "dots",
        "dashes",
        "camel humps",
        "quotes",
        "backslashes",
        "escaped dots",
        "brackets",
        "open links",
        "open tags",
        "host tags",
        "emoji",
        "other scripts",
        "spaces",
        "empty lines",
        "short lines",
        "wrapped lines",
        "distinct names",
        "distinct paths",
        "distinct numbers",
        "addresses",
        "local addresses",
        "assignments",
        "headings",
        "diff",
        "patch",
        "errors",
        "test results",
        "sentences",
        "messages of a host",
        "plan of a script",
        "commands",
        "wrapped commands",
        "settings",
        "exports",
        "pipes",
        "here-documents",
        "shells",
        "deep JSON",
        "wide JSON",
        "nested JSON"
    )]
    kind: &str,
) {
    check(|size| session(&ugly(kind, size)));
}

#[rstest]
fn every_step_of_preparing_a_request_is_linear_in_the_number_of_messages(
    #[values(
        "failed commands",
        "edits",
        "versions",
        "orders",
        "prompts",
        "answers",
        "system messages",
        "reads"
    )]
    kind: &str,
) {
    check(|size| long(kind, size));
}

/// Bytes of a text for the measurement of memory.
const LARGE: usize = 100_000;
/// Maximum of memory that a step holds at a time, per byte of the session's JSON. A line of 4 MB once took 2.2 GB, which is 70
/// times the session.
const MAX_HELD: u64 = 12;

#[rstest]
fn no_step_holds_more_than_a_few_times_the_session(
    #[values("zeros", "base64 in a line", "distinct names", "deep JSON")] kind: &str,
) {
    let text = ugly(kind, LARGE);
    let size = serde_json::to_string(session(&text).messages()).unwrap().len() as u64;
    let mut large = Vec::new();
    for (step, work) in STEPS {
        work(&session(&ugly(kind, SIZE)));
        let log = session(&text);
        let held = allocation_counter::measure(|| work(&log)).bytes_max;
        if held > MAX_HELD * size {
            large.push(format!("{step}: {held} bytes for a session of {size}"));
        }
    }
    assert!(large.is_empty(), "{}", large.join("\n"));
}
