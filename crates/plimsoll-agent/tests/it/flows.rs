//! Ordinary use under the default policy: nothing that the next step needs leaves the window below the line, whether
//! the provider's cache is warm or expired.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use plimsoll::{Limits, Millis};
use plimsoll_agent::Conversation;
use plimsoll_store::Clock;
use plimsoll_testkit::server::{Captured, ModelServer, Reply};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Dock, SUMMARY, is_summary, run};

/// Time between two requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    /// The cache is warm at every request.
    Warm,
    /// The cache has expired before every prompt.
    ColdPrompts,
    /// The cache has expired before every request, as after a tool that runs for ten minutes.
    ColdSteps,
}

struct Flow {
    dock: Dock,
    talk: Conversation,
    clock: Arc<AtomicU64>,
    pace: Pace,
    replies: Arc<Mutex<VecDeque<Reply>>>,
    calls: usize,
}

impl Flow {
    async fn new(context: u64, pace: Pace) -> Flow {
        let replies: Arc<Mutex<VecDeque<Reply>>> = Arc::default();
        let queue = Arc::clone(&replies);
        let answer = move |request: &Captured| match is_summary(request) {
            true => Reply::new().text(SUMMARY),
            false => queue.lock().unwrap().pop_front().unwrap_or_else(|| Reply::new().text("Nothing more.")),
        };
        let mut dock = Dock::new(ModelServer::answering(answer).unwrap()).allow("bash").allow("edit");
        dock.agent.model.limits = Some(Limits::new(context, 8_000));
        let clock = Arc::new(AtomicU64::new(1_794_775_451_033));
        let time = Arc::clone(&clock);
        // Each reading of the clock is a moment later; before each step of a cold pace ten minutes pass.
        let tick = if pace == Pace::ColdSteps { 10 * 60_000 } else { 1 };
        dock.agent.clock = Clock::new(move || Millis(time.fetch_add(tick, Ordering::Relaxed)));
        let talk = dock.begin().await;
        Flow { dock, talk, clock, pace, replies, calls: 0 }
    }

    /// A prompt that the model answers with these calls in sequence, and then with text. Returns the request after the
    /// last call.
    /// after the last call.
    async fn turn(&mut self, prompt: &str, calls: &[(&str, Value)]) -> Captured {
        if self.pace == Pace::ColdPrompts {
            self.clock.fetch_add(10 * 60_000, Ordering::Relaxed);
        }
        for (tool, input) in calls {
            self.calls += 1;
            let reply = Reply::new().call(format!("call_{}", self.calls), *tool, input.clone());
            self.replies.lock().unwrap().push_back(reply);
        }
        self.replies.lock().unwrap().push_back(Reply::new().text("Done."));
        run(&mut self.talk, prompt).await;
        self.dock.server.last().unwrap()
    }

    fn reductions(&self) -> Vec<String> {
        let kinds = ["prune", "compact", "shed"];
        self.dock.happened().into_iter().filter(|name| kinds.contains(&name.as_str())).collect()
    }
}

/// Returns a source file of about this size. Every line has a unique name.
fn source(name: &str, bytes: usize) -> String {
    let line =
        |number: usize| format!("pub fn {name}_line_{number:05}(input: &str) -> usize {{ input.len() }}\n");
    (0..bytes / line(0).len()).map(line).collect()
}

fn line(name: &str, number: usize) -> String {
    format!("{name}_line_{number:05}(input")
}

/// Reported by a new user: before the follow-up question both files had been cleared, at 1 % of the window.
#[rstest]
#[tokio::test]
async fn two_files_that_were_read_are_complete_when_the_next_prompt_asks_about_them(
    #[values(Pace::Warm, Pace::ColdPrompts, Pace::ColdSteps)] pace: Pace,
    #[values(1_000_000, 64_000)] context: u64,
) {
    let mut flow = Flow::new(context, pace).await;
    for name in ["alpha", "beta"] {
        flow.dock.write(&format!("{name}.rs"), &source(name, 26_000));
    }
    let read = |name: &str| ("read", json!({ "path": format!("{name}.rs") }));
    flow.turn("Read both files", &[read("alpha"), read("beta")]).await;
    let asked = flow.turn("What do both have in common?", &[]).await;
    for name in ["alpha", "beta"] {
        for number in [0, 150, 300] {
            assert!(asked.contains(&line(name, number)), "{name} {number}: {}", asked.outline());
        }
    }
    assert_eq!(flow.reductions(), [] as [&str; 0]);
}

#[rstest]
#[tokio::test]
async fn files_read_and_edited_in_a_turn_stay_complete_until_its_end(
    #[values(Pace::Warm, Pace::ColdPrompts, Pace::ColdSteps)] pace: Pace,
) {
    let mut flow = Flow::new(200_000, pace).await;
    // Sixty thousand tokens are read in one turn: more than any protected amount.
    let names: Vec<String> = (0..8).map(|number| format!("module{number}")).collect();
    for name in &names {
        flow.dock.write(&format!("{name}.rs"), &source(name, 30_000));
    }
    let mut calls: Vec<(&str, Value)> =
        names.iter().map(|name| ("read", json!({ "path": format!("{name}.rs") }))).collect();
    let edit = |name: &str| {
        let old = format!("{name}_line_00003");
        ("edit", json!({ "path": format!("{name}.rs"), "old": old, "new": format!("{name}_changed") }))
    };
    calls.extend([edit("module0"), ("bash", json!({ "command": "echo 2 tests failed" })), edit("module7")]);
    let last = flow.turn("Read all, change the first, test, and fix", &calls).await;
    for name in &names {
        assert!(
            last.contains(&line(name, 0)) && last.contains(&line(name, 340)),
            "{name}: {}",
            last.outline()
        );
    }
    assert!(last.contains("module0_changed") && last.contains("2 tests failed"));
    assert_eq!(flow.reductions(), [] as [&str; 0]);
}

#[rstest]
#[tokio::test]
async fn twenty_small_turns_leave_everything_in_the_window(
    #[values(Pace::Warm, Pace::ColdPrompts, Pace::ColdSteps)] pace: Pace,
) {
    let mut flow = Flow::new(200_000, pace).await;
    for number in 0..20 {
        let name = format!("note{number}");
        flow.dock.write(&format!("{name}.rs"), &source(&name, 2_000));
        flow.turn(&format!("Look at {name}"), &[("read", json!({ "path": format!("{name}.rs") }))]).await;
    }
    let asked = flow.turn("Which of them are alike?", &[]).await;
    for number in 0..20 {
        assert!(asked.contains(&line(&format!("note{number}"), 20)), "{number}: {}", asked.outline());
    }
    assert_eq!(flow.reductions(), [] as [&str; 0]);
}

#[rstest]
#[tokio::test]
async fn both_ends_of_a_large_build_log_stay_for_the_next_two_turns(
    #[values(Pace::Warm, Pace::ColdPrompts, Pace::ColdSteps)] pace: Pace,
) {
    let mut flow = Flow::new(200_000, pace).await;
    let script = "echo building release_candidate_7; for i in $(seq 1 60000); do echo compiling crate_$i; done; \
                  echo 'error[E0425]: cannot find value `missing_anchor` in src/harbour/mole.rs'";
    flow.turn("Build it", &[("bash", json!({ "command": script }))]).await;
    for prompt in ["Why does it fail?", "And what was built first?"] {
        let asked = flow.turn(prompt, &[]).await;
        for needed in ["release_candidate_7", "missing_anchor", "src/harbour/mole.rs", "recall spill_"] {
            assert!(asked.contains(needed), "{prompt} {needed}: {}", asked.outline());
        }
    }
    assert_eq!(flow.reductions(), [] as [&str; 0]);
}

/// Turns that each read a file of 8,000 tokens, until the window is this full; then what the next step needs.
#[rstest]
#[tokio::test]
async fn a_long_session_keeps_files_that_its_last_turns_read(
    #[values(Pace::Warm, Pace::ColdPrompts, Pace::ColdSteps)] pace: Pace,
    #[values(60, 85, 100)] percent: u64,
) {
    const CONTEXT: u64 = 200_000;
    let mut flow = Flow::new(CONTEXT, pace).await;
    let mut turns = 0;
    let (mut sent, mut unreduced) = (0, 0);
    // The length of the session is what all turns have read, not what is left in the window.
    while unreduced < (CONTEXT - 8_000) * percent / 100 {
        let name = format!("part{turns}");
        flow.dock.write(&format!("{name}.rs"), &source(&name, 26_000));
        let last =
            flow.turn(&format!("Read {name}"), &[("read", json!({ "path": format!("{name}.rs") }))]).await;
        assert!(last.contains(&line(&name, 300)), "the turn's own file: {}", last.outline());
        (turns, sent) = (turns + 1, last.tokens);
        unreduced = unreduced.max(sent).max(turns as u64 * 8_600);
    }
    let asked = flow.turn("Compare the last two", &[]).await;
    for number in [turns - 2, turns - 1] {
        let name = format!("part{number}");
        assert!(
            asked.contains(&line(&name, 0)) && asked.contains(&line(&name, 300)),
            "{name}: {}",
            asked.outline()
        );
    }
    assert!(sent <= CONTEXT - 8_000, "{sent}");
    // Below the line the newest 40,000 tokens before the last two turns stay too, and cleared outputs leave their
    // names.
    if percent < 100 {
        for number in turns - 6..turns {
            assert!(asked.contains(&line(&format!("part{number}"), 300)), "{number}: {}", asked.outline());
        }
        assert!(!flow.reductions().contains(&"compact".to_owned()));
    }
    for number in 0..turns {
        assert!(asked.contains(&format!("part{number}")), "{number}: {}", asked.outline());
    }
}
