//! How the work of a replay grows with its session.

use plimsoll::Message;
use plimsoll_testkit::History;
use serde_json::json;

use super::{a_minute_apart, replay, window};

/// Turns of ten calls, each with a short read.
fn short_reads(calls: usize) -> Vec<Message> {
    let read = |history: History, call: usize| {
        let history = if call.is_multiple_of(10) { history.user(format!("Step {call}")) } else { history };
        let path = json!({ "path": format!("src/part_{call}.rs") });
        history.tool_with("read", path, format!("fn part_{call}() {{}}\n").repeat(20))
    };
    a_minute_apart((0..calls).fold(History::new(), read).messages())
}

/// Returns the messages that are read for half of a session and for all of it.
fn work(policy: &str, context: u64) -> [u64; 2] {
    [1_000, 2_000].map(|calls| replay(short_reads(calls), policy, &window(context)).visited)
}

#[test]
fn a_replay_reads_each_message_once_if_nothing_is_reduced() {
    for policy in ["plimsoll", "openfork", "opencode-1.18"] {
        let [half, whole] = work(policy, 100_000_000);
        // Each call has an answer and its result, and every tenth has a prompt.
        assert!(half <= 2_100 && whole <= 4_200, "{policy}: {half} for 1,000 calls, {whole} for 2,000");
    }
}

#[test]
fn the_work_of_a_replay_with_reductions_grows_with_its_calls_and_not_with_their_square() {
    for policy in ["plimsoll", "opencode", "openfork", "opencode-1.18"] {
        let [half, whole] = work(policy, 16_000);
        assert!(whole <= half * 9 / 4, "{policy}: {half} messages for 1,000 calls, {whole} for 2,000");
    }
}
