//! Building a request takes linear time and memory, whatever the window contains.

#![cfg(debug_assertions)]

use plimsoll::{CachePlan, Message, Policy, Window, work};
use plimsoll_providers::{Prompt, Request, RequestOptions, Wire};
use plimsoll_testkit::History;
use rstest::rstest;
use serde_json::{Value, json};

/// Bytes of the smaller content.
const SIZE: usize = 10_000;
/// Maximum factor between the work for four times the content and the work for it.
const MOST: u64 = 6;
/// Maximum of memory that is held at a time, per byte of the larger request. In these sessions a block has a few words, and
/// its fields take up to 20 times as much.
const MAX_HELD: u64 = 25;

fn session(kind: &str, size: usize) -> Vec<Message> {
    let history = History::new().user("Look around.");
    let history = match kind {
        "one long line" => {
            history.tool_with("write", json!({ "content": "0".repeat(size) }), "0".repeat(size))
        }
        "quotes" => {
            history.tool_with("write", json!({ "content": "\"\\\n".repeat(size / 3) }), "\"".repeat(size))
        }
        "deep JSON" => {
            let nested = "[".repeat(100) + "1" + &"]".repeat(100);
            let value = format!("{{\"a\":[{}1]}}", format!("{nested},").repeat(size / 201));
            history.tool_with("query", serde_json::from_str::<Value>(&value).unwrap(), "done")
        }
        "calls" => (0..size / 20).fold(history, |history, n| {
            history.tool_with("read", json!({ "path": format!("f{n}") }), format!("line {n}"))
        }),
        "tools" => (0..size / 20)
            .fold(history, |history, n| history.tool_with(&format!("server.tool/{n}"), json!({}), "done")),
        "turns" => {
            (0..size / 20).fold(history, |history, n| history.say(format!("Part {n}.")).user("Go on."))
        }
        other => panic!("no session of `{other}`"),
    };
    history.user("And now?").messages()
}

/// Bytes read and allocated, the most bytes held at a time, and the bytes of the request.
fn measure(wire: Wire, messages: &[Message]) -> (u64, u64, u64) {
    let policy = Policy::default();
    let window = Window::of(messages, &policy);
    let cache = CachePlan::new(&window, messages, None, 2, &policy.cache);
    let options = RequestOptions { max_tokens: Some(8_000), ..RequestOptions::default() };
    let prompt = Prompt { cache: Some(&cache), ..Prompt::new("test", "some-model", &window, &options) };
    let (read, mut size) = (work::bytes_read(), 0);
    let allocated =
        allocation_counter::measure(|| size = Request::build(wire, &prompt).unwrap().to_bytes().len() as u64);
    (allocated.bytes_total + work::bytes_read() - read, allocated.bytes_max, size)
}

#[rstest]
fn building_a_request_is_linear_in_its_size(
    #[values("one long line", "quotes", "deep JSON", "calls", "tools", "turns")] kind: &str,
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    // Building tables once does not count.
    measure(wire, &session(kind, SIZE));
    let (before, ..) = measure(wire, &session(kind, SIZE));
    let (after, held, size) = measure(wire, &session(kind, 4 * SIZE));
    assert!(after <= MOST * before, "{before}, then {after}");
    assert!(held <= MAX_HELD * size, "{held} bytes were held for a request of {size}");
}
