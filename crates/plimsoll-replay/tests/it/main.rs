//! Replays of generated sessions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cost;
mod extremes;
mod properties;
mod recall;
mod recorded;
mod rules;
mod work;

use plimsoll::{Message, Millis, Policy, Tokens};
use plimsoll_replay::{Recording, ReplayParams, Report, Rules};
use plimsoll_testkit::History;
use serde_json::json;

/// Default parameters with a window of that size.
fn window(context: u64) -> ReplayParams {
    ReplayParams { context: Tokens(context), ..ReplayParams::default() }
}

fn replay(messages: Vec<Message>, rules: &str, params: &ReplayParams) -> Report {
    Recording::of(messages).replay(&rules.parse::<Rules>().unwrap(), params).unwrap()
}

/// Like [`replay`] under the default policy, but it reduces only at the line.
fn replay_without_thrift(messages: Vec<Message>, params: &ReplayParams) -> Report {
    let policy = Policy::from_json(r#"{ "thrift": "off" }"#).unwrap();
    Recording::of(messages).replay(&policy.into(), params).unwrap()
}

/// Returns `tokens` tokens in lines of forty characters.
fn lines(tokens: usize) -> String {
    "there are exactly forty characters her\n\n".repeat(tokens / 10)
}

/// Turns in which a file is read; each output has that many tokens.
fn reading(turns: usize, tokens: usize) -> History {
    (0..turns).fold(History::new(), |history, turn| {
        let path = json!({ "path": format!("src/file_{turn}.rs") });
        let output = format!("the_symbol_{turn:04} ") + &lines(tokens);
        history
            .user(format!("Read src/file_{turn}.rs"))
            .tool_with("read", path, output)
            .say("I have read it.")
    })
}

/// Dates the messages one minute apart.
fn a_minute_apart(mut messages: Vec<Message>) -> Vec<Message> {
    for (minute, message) in messages.iter_mut().enumerate() {
        let at = Millis(1_794_775_451_033 + minute as u64 * 60_000);
        let time = message.info.time.get_or_insert_default();
        (time.created, time.completed) = (Some(at), Some(at));
    }
    messages
}
