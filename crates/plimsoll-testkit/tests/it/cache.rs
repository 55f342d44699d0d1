//! Models of the providers' prompt caches.

use plimsoll_providers::Wire;
use plimsoll_testkit::server::{CacheReport, ModelServer, Reply};
use serde_json::{Value, json};

use crate::tools::{path, post};

fn server() -> ModelServer {
    let server = ModelServer::start().unwrap();
    server.repeat(Reply::new().text("fine"));
    server
}

fn ask(server: &ModelServer, wire: Wire, body: &Value) -> CacheReport {
    let (status, answer) = post(server, path(wire), body);
    assert_eq!(status, 200, "{answer}");
    server.last().unwrap().cache
}

fn text(text: &str, is_marked: bool) -> Value {
    match is_marked {
        true => json!({ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } }),
        false => json!({ "type": "text", "text": text }),
    }
}

/// A request with a system prompt of about `system` tokens, and messages of which `marked` have a breakpoint.
fn anthropic(system: usize, messages: usize, marked: &[usize]) -> Value {
    let turn = |at: usize| {
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        json!({ "role": role, "content": [text(&format!("message {at}"), marked.contains(&at))] })
    };
    json!({
        "model": "m",
        "max_tokens": 100,
        "system": [text(&"s".repeat(system * 4), true)],
        "messages": (0..messages).map(turn).collect::<Vec<_>>(),
    })
}

#[test]
fn anthropic_reads_a_prefix_written_at_a_breakpoint() {
    let server = server();
    let first = ask(&server, Wire::Anthropic, &anthropic(2_000, 1, &[0]));
    assert!(first.read == 0 && first.write > 2_000 && first.missed_at.is_none(), "{first:?}");
    let second = ask(&server, Wire::Anthropic, &anthropic(2_000, 3, &[2]));
    assert_eq!(second.read, first.write);
    assert!(second.write > 0 && second.write < 50 && second.missed_at.is_none(), "{second:?}");
    // Repeating the request reads everything.
    let third = ask(&server, Wire::Anthropic, &anthropic(2_000, 3, &[2]));
    assert_eq!((third.read, third.write), (second.read + second.write, 0));
    server.forget_cache();
    assert_eq!(ask(&server, Wire::Anthropic, &anthropic(2_000, 3, &[2])).read, 0);
}

#[test]
fn anthropic_looks_twenty_blocks_back_and_no_further() {
    for (messages, found) in [(20, true), (21, false)] {
        let server = server();
        ask(&server, Wire::Anthropic, &set_mark(anthropic(2_000, 1, &[0]), false));
        // The breakpoint is on the last message; the one of the first request was on the first.
        let report =
            ask(&server, Wire::Anthropic, &set_mark(anthropic(2_000, messages, &[messages - 1]), false));
        assert_eq!(report.read > 0, found, "{messages}: {report:?}");
        assert_eq!(report.missed_at, None);
    }
}

fn set_mark(mut body: Value, is_marked: bool) -> Value {
    body["system"][0]["cache_control"] = if is_marked { json!({ "type": "ephemeral" }) } else { Value::Null };
    body
}

#[test]
fn anthropic_caches_no_short_prefix_and_the_report_names_the_change() {
    let server = server();
    ask(&server, Wire::Anthropic, &anthropic(500, 1, &[0]));
    let again = ask(&server, Wire::Anthropic, &anthropic(500, 1, &[0]));
    assert_eq!((again.read, again.write), (0, 0));
    let short = ModelServer::builder().cache_minimum(100).start().unwrap();
    short.repeat(Reply::new().text("fine"));
    assert!(ask(&short, Wire::Anthropic, &anthropic(500, 1, &[0])).write > 500);

    ask(&server, Wire::Anthropic, &anthropic(2_000, 5, &[4]));
    let mut changed = anthropic(2_000, 7, &[6]);
    changed["messages"][3]["content"][0]["text"] = "something else".into();
    let report = ask(&server, Wire::Anthropic, &changed);
    assert_eq!(report.missed_at.as_deref(), Some("messages[3].content[0]"));
    // The system prompt is still cached.
    assert!(report.read > 2_000, "{report:?}");
}

#[test]
fn tool_choice_and_a_first_image_invalidate_anthropics_cached_messages() {
    let server = server();
    let with_choice = |choice: &str| {
        let mut body = anthropic(2_000, 3, &[2]);
        body["tools"] = json!([{ "name": "read", "input_schema": { "type": "object" } }]);
        body["tool_choice"] = json!({ "type": choice });
        body
    };
    ask(&server, Wire::Anthropic, &with_choice("auto"));
    let report = ask(&server, Wire::Anthropic, &with_choice("none"));
    assert_eq!(report.missed_at.as_deref(), Some("tool_choice, thinking, images"));
    assert!(report.read > 2_000 && report.write > 0, "{report:?}");
    let mut with_image = with_choice("none");
    let image = json!({ "type": "image", "source": { "type": "url", "url": "https://example.com/a.png" } });
    with_image["messages"][2]["content"].as_array_mut().unwrap().push(image);
    let report = ask(&server, Wire::Anthropic, &with_image);
    assert_eq!(report.missed_at.as_deref(), Some("tool_choice, thinking, images"));
}

#[test]
fn a_moved_breakpoint_is_not_a_change_and_a_string_equals_a_text_block() {
    let server = server();
    let mut first = anthropic(2_000, 1, &[]);
    first["messages"][0]["content"] = "message 0".into();
    ask(&server, Wire::Anthropic, &first);
    let report = ask(&server, Wire::Anthropic, &anthropic(2_000, 3, &[0, 2]));
    assert_eq!(report.missed_at, None);
    assert!(report.read > 2_000, "{report:?}");
}

#[test]
fn openai_reads_a_prefix_in_whole_steps() {
    for wire in [Wire::Chat, Wire::Responses] {
        let server = server();
        let body = |length: usize, more: &str, key: &str| match wire {
            Wire::Chat => json!({
                "model": "m", "prompt_cache_key": key,
                "messages": [{ "role": "system", "content": "s".repeat(length) }, { "role": "user", "content": more }],
            }),
            _ => json!({
                "model": "m", "prompt_cache_key": key, "instructions": "s".repeat(length),
                "input": [{ "role": "user", "content": more }],
            }),
        };
        let first = ask(&server, wire, &body(10_000, "one", "a"));
        assert_eq!((first.read, first.write % 128), (0, 0));
        assert!(first.write >= 2_400, "{first:?}");
        let second = ask(&server, wire, &body(10_000, "two", "a"));
        assert_eq!((second.read, second.read % 128), (first.write, 0), "{wire:?}");
        let place = if wire == Wire::Chat { "messages[1]" } else { "input[0]" };
        assert_eq!(second.missed_at.as_deref(), Some(place));
        // Another key has its own cache.
        assert_eq!(ask(&server, wire, &body(10_000, "one", "b")).read, 0);
        // Nothing is cached below 1,024 tokens.
        ask(&server, wire, &body(3_000, "one", "c"));
        assert_eq!(ask(&server, wire, &body(3_000, "one", "c")), CacheReport::default());
        // A change in the middle of a text is detected too.
        let mut changed = body(10_000, "one", "a");
        let place = if wire == Wire::Chat { "/messages/0/content" } else { "/instructions" };
        *changed.pointer_mut(place).unwrap() = format!("{}t{}", "s".repeat(6_000), "s".repeat(4_000)).into();
        let report = ask(&server, wire, &changed);
        assert!((1_408..=1_536).contains(&report.read), "{report:?}");
    }
}

#[test]
fn usage_reports_cache_reads_and_writes() {
    let server = server();
    ask(&server, Wire::Anthropic, &anthropic(2_000, 1, &[0]));
    let (_, answer) = post(&server, "/v1/messages", &anthropic(2_000, 3, &[2]));
    let captured = server.last().unwrap();
    let usage = &answer["usage"];
    assert_eq!(usage["cache_read_input_tokens"], captured.cache.read);
    assert_eq!(usage["cache_creation_input_tokens"], captured.cache.write);
    let rest = captured.tokens - captured.cache.read - captured.cache.write;
    assert_eq!(usage["input_tokens"], rest);
    assert_eq!(usage["cache_creation"]["ephemeral_5m_input_tokens"], captured.cache.write);
}
