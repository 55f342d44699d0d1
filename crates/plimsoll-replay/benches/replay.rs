//! Measures how the time of a replay grows with its session. `cargo bench -p plimsoll-replay`.
//!
//! Sessions of 12.5, 25 and 50 MB alternate under each default policy, in a window of 200,000 tokens. The baseline is
//! the session of half the size in the same run: if a replay is linear in its session, it takes twice as long.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use plimsoll::Message;
use plimsoll_replay::{DEFAULTS, Recording, ReplayParams, Rules};
use plimsoll_testkit::History;
use serde_json::json;

/// Number of calls in the smallest session. Each reads about 5,500 characters.
const CALLS: usize = 2_300;
const ROUNDS: usize = 2;

fn main() {
    let sessions = [CALLS, 2 * CALLS, 4 * CALLS].map(session);
    let took = Instant::now();
    let recordings = sessions.map(Recording::of);
    println!("taken apart in {:.1} s", took.elapsed().as_secs_f64());
    println!("{:<20}{:>10}{:>10}{:>10}   the last two", "policy", "12.5 MB", "25 MB", "50 MB");
    for policy in DEFAULTS {
        let rules: Rules = policy.parse().unwrap();
        let mut best = [f64::MAX; 3];
        for _ in 0..ROUNDS {
            for (recording, best) in recordings.iter().zip(&mut best) {
                let begun = Instant::now();
                recording.replay(&rules, &ReplayParams::default()).unwrap();
                *best = best.min(begun.elapsed().as_secs_f64());
            }
        }
        let [first, second, third] = best;
        println!("{policy:<20}{first:>8.2} s{second:>8.2} s{third:>8.2} s{:>8.2}", third / second);
    }
}

/// Creates a session that reads a file with every call and asks for one of the names in the previous file.
fn session(calls: usize) -> Vec<Message> {
    let mut history = History::new();
    for call in 0..calls {
        if call % 5 == 0 {
            history = history.user(format!("Step {call}: continue with the next part."));
        }
        let before = call.saturating_sub(1);
        let input =
            json!({ "path": format!("src/part_{call}.rs"), "symbol": format!("read_record_{before}_7") });
        let line = |number| {
            format!(
                "{number}: fn read_record_{call}_{number}(value: u64) -> Option<u64> {{ src/part_{number}.rs }}\n"
            )
        };
        history = history.tool_with("read", input, (0..70).map(line).collect::<String>());
    }
    history.messages()
}
