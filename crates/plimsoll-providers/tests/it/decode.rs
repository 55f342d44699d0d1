//! Decoding of streams: every wire format, every split, every fault.

use plimsoll::{Policy, Tokens, Window};
use plimsoll_providers::{
    AnswerEvent, Decoder, Prompt, ProviderError, Request, RequestOptions, StreamFault, ToolSpec, Wire,
};
use plimsoll_testkit::History;
use rstest::rstest;
use serde_json::{Value, json};

type Events = Vec<Result<AnswerEvent, ProviderError>>;

fn request(wire: Wire) -> Request {
    let window = Window::of(&History::new().user("go").messages(), &Policy::default());
    let options = RequestOptions::default();
    let tool = ToolSpec { name: "mcp.read".into(), description: String::new(), schema: Value::Null };
    let provider = match wire {
        Wire::Anthropic => "anthropic",
        Wire::Chat => "openai-chat",
        Wire::Responses => "openai",
    };
    let prompt = Prompt { tools: &[tool], ..Prompt::new(provider, "m", &window, &options) };
    Request::build(wire, &prompt).unwrap()
}

fn decode(wire: Wire, pieces: &[&[u8]]) -> Events {
    let mut decoder = Decoder::new(&request(wire));
    let mut events: Events = pieces.iter().flat_map(|piece| decoder.push(piece)).collect();
    events.extend(decoder.finish());
    assert!(decoder.is_over());
    events
}

fn stream(events: &[Value]) -> String {
    let line = |event: &Value| match event.as_str() {
        Some(text) => format!("data: {text}\n\n"),
        None => match event["type"].as_str() {
            Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        },
    };
    events.iter().map(line).collect()
}

/// Reasoning, text, two calls, and a block of an unknown kind.
fn anthropic() -> Vec<Value> {
    let start = |index: u64, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let delta =
        |index: u64, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let stop = |index: u64| json!({ "type": "content_block_stop", "index": index });
    vec![
        json!({ "type": "message_start", "message": { "id": "msg", "role": "assistant", "content": [],
            "usage": { "input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5, "output_tokens": 1 } } }),
        start(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        json!({ "type": "ping" }),
        delta(0, json!({ "type": "thinking_delta", "thinking": "Hm, " })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "ä…" })),
        delta(0, json!({ "type": "signature_delta", "signature": "S1" })),
        stop(0),
        start(1, json!({ "type": "text", "text": "" })),
        delta(1, json!({ "type": "text_delta", "text": "Look" })),
        delta(1, json!({ "type": "citations_delta", "citation": {} })),
        delta(1, json!({ "type": "text_delta", "text": "ing.\n" })),
        stop(1),
        start(2, json!({ "type": "redacted_thinking", "data": "R" })),
        stop(2),
        start(3, json!({ "type": "tool_use", "id": "toolu_1", "name": "mcp_read", "input": {} })),
        delta(3, json!({ "type": "input_json_delta", "partial_json": "" })),
        delta(3, json!({ "type": "input_json_delta", "partial_json": "{\"path\": \"a" })),
        delta(3, json!({ "type": "input_json_delta", "partial_json": ".rs\"}" })),
        stop(3),
        start(4, json!({ "type": "tool_use", "id": "toolu_2", "name": "bash", "input": {} })),
        stop(4),
        start(5, json!({ "type": "server_tool_use", "id": "srv", "name": "web_search", "input": {} })),
        delta(5, json!({ "type": "input_json_delta", "partial_json": "{\"query\":" })),
        delta(5, json!({ "type": "input_json_delta", "partial_json": "\"x\"}" })),
        stop(5),
        json!({ "type": "an_event_of_tomorrow" }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use", "stop_sequence": null },
            "usage": { "output_tokens": 42 } }),
        json!({ "type": "message_stop" }),
    ]
}

fn chat() -> Vec<Value> {
    let chunk = |delta: Value| json!({ "id": "c", "object": "chat.completion.chunk", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
    let call = |call: Value| chunk(json!({ "tool_calls": [call] }));
    vec![
        chunk(json!({ "role": "assistant", "content": "" })),
        chunk(json!({ "reasoning_content": "Hm, " })),
        chunk(json!({ "reasoning_content": "ä…" })),
        chunk(json!({ "content": "Look" })),
        chunk(json!({ "content": "ing.\n" })),
        call(
            json!({ "index": 0, "id": "call_1", "type": "function", "function": { "name": "mcp_read", "arguments": "" } }),
        ),
        call(json!({ "index": 0, "function": { "arguments": "{\"path\": \"a" } })),
        call(json!({ "index": 0, "function": { "arguments": ".rs\"}" } })),
        call(
            json!({ "index": 1, "id": "call_2", "type": "function", "function": { "name": "bash", "arguments": "" } }),
        ),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] }),
        json!({ "choices": [], "usage": { "prompt_tokens": 105, "completion_tokens": 42, "total_tokens": 147,
            "prompt_tokens_details": { "cached_tokens": 90 } } }),
        json!("[DONE]"),
    ]
}

fn responses() -> Vec<Value> {
    let added = |index: u64, item: Value| json!({ "type": "response.output_item.added", "output_index": index, "item": item });
    let done = |index: u64, item: Value| json!({ "type": "response.output_item.done", "output_index": index, "item": item });
    let delta = |kind: &str, index: u64, text: &str| json!({ "type": format!("response.{kind}.delta"), "output_index": index, "item_id": "i", "delta": text, "summary_index": 0 });
    vec![
        json!({ "type": "response.created", "response": { "id": "resp", "usage": null } }),
        added(0, json!({ "type": "reasoning", "id": "rs_1", "summary": [] })),
        delta("reasoning_summary_text", 0, "Hm, "),
        json!({ "type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "ä…" }),
        done(
            0,
            json!({ "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "Hm, " }],
            "encrypted_content": "ENC" }),
        ),
        added(1, json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": [] })),
        json!({ "type": "response.content_part.added", "output_index": 1, "part": {} }),
        delta("output_text", 1, "Look"),
        delta("output_text", 1, "ing.\n"),
        done(
            1,
            json!({ "type": "message", "id": "msg_1", "role": "assistant",
            "content": [{ "type": "output_text", "text": "Looking.\n", "annotations": [] }] }),
        ),
        added(
            2,
            json!({ "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "mcp_read", "arguments": "" }),
        ),
        delta("function_call_arguments", 2, "{\"path\": \"a"),
        delta("function_call_arguments", 2, ".rs\"}"),
        done(
            2,
            json!({ "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "mcp_read",
            "arguments": "{\"path\": \"a.rs\"}" }),
        ),
        added(
            3,
            json!({ "type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "bash", "arguments": "" }),
        ),
        done(
            3,
            json!({ "type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "bash", "arguments": "{}" }),
        ),
        added(4, json!({ "type": "web_search_call", "id": "ws" })),
        done(4, json!({ "type": "web_search_call", "id": "ws", "status": "completed" })),
        json!({ "type": "response.completed", "response": { "id": "resp", "status": "completed",
            "usage": { "input_tokens": 105, "output_tokens": 42, "total_tokens": 147,
                "input_tokens_details": { "cached_tokens": 90, "cache_write_tokens": 5 },
                "output_tokens_details": { "reasoning_tokens": 12 } } } }),
    ]
}

fn recorded(wire: Wire) -> Vec<Value> {
    match wire {
        Wire::Anthropic => anthropic(),
        Wire::Chat => chat(),
        Wire::Responses => responses(),
    }
}

fn ok(events: Events) -> Vec<AnswerEvent> {
    events.into_iter().map(|event| event.unwrap()).collect()
}

fn fault(events: &Events) -> &StreamFault {
    match events.last() {
        Some(Err(ProviderError::Stream(fault))) => fault,
        other => panic!("expected a broken stream, got {other:?}"),
    }
}

#[rstest]
fn events_come_block_by_block_in_wire_order(
    #[values((Wire::Anthropic, "anthropic"), (Wire::Chat, "chat"), (Wire::Responses, "responses"))] wire: (
        Wire,
        &str,
    ),
) {
    let events = ok(decode(wire.0, &[stream(&recorded(wire.0)).as_bytes()]));
    insta::assert_debug_snapshot!(wire.1, events);
}

#[rstest]
fn any_cut_gives_the_same_events(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
    #[values("\n", "\r", "\r\n")] end: &str,
) {
    let text = format!("\u{feff}: hello\n\n{}", stream(&recorded(wire))).replace('\n', end);
    let bytes = text.as_bytes();
    let whole = decode(wire, &[bytes]);
    assert!(whole.iter().all(Result::is_ok), "{whole:?}");
    for cut in 0..=bytes.len() {
        assert_eq!(decode(wire, &[&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(decode(wire, &single), whole);
}

#[rstest]
fn a_stream_that_ends_before_its_closing_event_is_an_error(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    let events = recorded(wire);
    let whole = ok(decode(wire, &[stream(&events).as_bytes()]));
    // In Chat Completions, the finish reason completes the answer.
    let closing = if wire == Wire::Chat { events.len() - 2 } else { events.len() };
    let closing = stream(&events[..closing]);
    let text = stream(&events);
    // A stream that lacks only the empty line after its closing event is complete.
    let whole_from = closing.trim_end().len();
    for cut in (0..whole_from).filter(|cut| text.is_char_boundary(*cut)) {
        let cut_events = decode(wire, &[&text.as_bytes()[..cut]]);
        let is_closing_line =
            wire == Wire::Chat && cut >= stream(&events[..events.len() - 2]).trim_end().len();
        if !is_closing_line {
            assert!(
                matches!(fault(&cut_events), StreamFault::Unfinished { .. }),
                "cut at {cut}: {cut_events:?}"
            );
        }
        // The events before the cut are a prefix of all events.
        let came: Vec<_> = cut_events.into_iter().filter_map(Result::ok).collect();
        assert!(whole.starts_with(&came), "cut at {cut}");
    }
    assert_eq!(ok(decode(wire, &[text.trim_end().as_bytes()])), whole);
}

#[test]
fn broken_json_is_an_error_with_its_position() {
    let text = format!("{}data: {{\"type\": \"message_delta\", \"delta\": }}\n\n", stream(&anthropic()[..3]));
    let events = decode(Wire::Anthropic, &[text.as_bytes()]);
    assert_eq!(
        fault(&events),
        &StreamFault::Malformed { event: 4, problem: "not JSON at line 1 column 36".into() }
    );
    let text = "data: {\"type\": \"content_block_delta\", \"delta\": {}}\n\n";
    let events = decode(Wire::Anthropic, &[text.as_bytes()]);
    assert_eq!(
        fault(&events).to_string(),
        "event 1 is malformed: `content_block_delta` without the fields it needs"
    );
    for wire in [Wire::Anthropic, Wire::Chat, Wire::Responses] {
        let events = decode(wire, &[b"data: <html>secret</html>\n\n"]);
        assert!(!fault(&events).to_string().contains("secret"));
    }
}

#[test]
fn an_event_above_the_cap_ends_the_stream() {
    let mut decoder = Decoder::with_limits(&request(Wire::Chat), 100, 1_000);
    let events = decoder.push(&[b'x'; 200]);
    assert_eq!(fault(&events), &StreamFault::EventTooLarge { limit: 100 });
    assert!(decoder.push(b"data: [DONE]\n\n").is_empty() && decoder.finish().is_empty());
}

#[rstest]
#[case(Wire::Anthropic, json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } }),
    ProviderError::Overloaded { retry_after: None, message: "Overloaded".into() })]
#[case(Wire::Anthropic, json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum" } }),
    ProviderError::Overflow { window: Some(Tokens(200_000)), asked: Some(Tokens(210_000)),
        message: "prompt is too long: 210000 tokens > 200000 maximum".into() })]
#[case(Wire::Chat, json!({ "error": { "message": "Upstream died", "code": 502 } }),
    ProviderError::Server { status: None, retry_after: None, message: "Upstream died".into() })]
#[case(Wire::Chat, json!({ "object": "error", "message": "bad", "type": "BadRequestError", "code": 400 }),
    ProviderError::BadRequest { status: None, message: "bad".into() })]
#[case(Wire::Responses, json!({ "type": "error", "code": "context_length_exceeded", "message": "Your input exceeds the context window of this model." }),
    ProviderError::Overflow { window: None, asked: None, message: "Your input exceeds the context window of this model.".into() })]
#[case(Wire::Responses, json!({ "type": "response.failed", "response": { "id": "r", "status": "failed",
    "error": { "code": "rate_limit_exceeded", "message": "Slow down" } } }),
    ProviderError::RateLimited { retry_after: None, request_too_large: false, message: "Slow down".into() })]
fn an_error_in_the_middle_is_typed(
    #[case] wire: Wire,
    #[case] error: Value,
    #[case] expected: ProviderError,
) {
    let text = stream(&[&recorded(wire)[..4], &[error]].concat());
    let events = decode(wire, &[text.as_bytes()]);
    assert_eq!(events.last(), Some(&Err(expected)));
}

#[test]
fn interleaved_parallel_calls_are_emitted_one_after_the_other() {
    let call = |index: u64, id: Option<&str>, input: &str| {
        let name = id.map(|_| "bash");
        json!({ "choices": [{ "delta": { "tool_calls": [{ "index": index, "id": id, "function": { "name": name, "arguments": input } }] } }] })
    };
    let events = [
        call(0, Some("a"), "{\"x\""),
        call(1, Some("b"), "{\"y\""),
        call(0, None, ":1}"),
        call(1, None, ":2}"),
        json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] }),
        json!("[DONE]"),
    ];
    let calls = calls(ok(decode(Wire::Chat, &[stream(&events).as_bytes()])));
    assert_eq!(calls, [("a".to_owned(), json!({ "x": 1 })), ("b".to_owned(), json!({ "y": 2 }))]);
}

/// Returns each call with its input, and checks that the calls are not interleaved.
fn calls(events: Vec<AnswerEvent>) -> Vec<(String, Value)> {
    let mut calls = Vec::new();
    let (mut open, mut written) = (None, String::new());
    for event in events {
        match event {
            AnswerEvent::CallBegin { call, .. } => assert!(open.replace(call).is_none(), "two calls at once"),
            AnswerEvent::CallInput(more) => written.push_str(&more),
            AnswerEvent::CallReady(input) => {
                let text = std::mem::take(&mut written);
                assert_eq!(serde_json::from_str::<Value>(&text).unwrap_or(json!(text)), input);
                calls.push((open.take().expect("a call"), input));
            }
            _ => assert!(open.is_none(), "something in the middle of a call"),
        }
    }
    calls
}

#[test]
fn calls_at_the_same_index_are_distinguished_by_their_ids() {
    let whole = |id: &str| {
        json!({ "choices": [{ "delta": { "tool_calls": [
        { "index": 0, "id": id, "function": { "name": "bash", "arguments": "{\"n\":1}" } }] } }] })
    };
    let events =
        [whole("a"), whole("b"), json!({ "choices": [{ "finish_reason": "stop" }] }), json!("[DONE]")];
    let calls = calls(ok(decode(Wire::Chat, &[stream(&events).as_bytes()])));
    assert_eq!(calls.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn an_input_that_is_not_json_is_passed_on_as_text() {
    let events = [
        json!({ "choices": [{ "delta": { "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "bash", "arguments": "{\"x\": " } }] } }] }),
        json!({ "choices": [{ "delta": {}, "finish_reason": "length" }] }),
        json!("[DONE]"),
    ];
    let calls = calls(ok(decode(Wire::Chat, &[stream(&events).as_bytes()])));
    assert_eq!(calls, [("a".to_owned(), json!("{\"x\": "))]);
}

#[test]
fn signed_reasoning_of_a_gateway_is_merged() {
    let detail = |detail: Value| json!({ "choices": [{ "delta": { "reasoning": "x", "reasoning_details": [detail] } }] });
    let events = [
        detail(json!({ "type": "reasoning.text", "index": 0, "text": "a", "format": "f" })),
        detail(json!({ "type": "reasoning.text", "index": 0, "text": "b", "signature": null })),
        detail(json!({ "type": "reasoning.text", "index": 0, "signature": "S" })),
        detail(json!({ "type": "reasoning.encrypted", "index": 1, "data": "D" })),
        json!({ "choices": [{ "delta": { "content": "hi" }, "finish_reason": "stop" }] }),
        json!("[DONE]"),
    ];
    let events = ok(decode(Wire::Chat, &[stream(&events).as_bytes()]));
    let expected = json!({ "openai-chat": { "model": "m", "reasoning_details": [
        { "type": "reasoning.text", "index": 0, "text": "ab", "format": "f", "signature": "S" },
        { "type": "reasoning.encrypted", "index": 1, "data": "D" }] } });
    let signature = events.iter().position(|event| *event == AnswerEvent::Signature(expected.clone()));
    let text = events.iter().position(|event| *event == AnswerEvent::Text("hi".into()));
    assert!(signature.is_some() && signature < text, "{events:?}");
}

#[test]
fn an_answer_that_is_only_in_the_closing_event_is_read() {
    let response = json!({ "id": "r", "output": [
        { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "Hi" }] }] });
    let events = [json!({ "type": "response.completed", "response": response })];
    let events = ok(decode(Wire::Responses, &[stream(&events).as_bytes()]));
    assert_eq!(events[0], AnswerEvent::Text("Hi".into()));
    assert_eq!(events.last(), Some(&AnswerEvent::Finished { reason: "completed".into(), usage: None }));
}

#[test]
fn an_answer_cut_by_its_limit_has_that_finish_reason() {
    let events = [json!({ "type": "response.incomplete", "response": { "id": "r",
        "incomplete_details": { "reason": "max_output_tokens" } } })];
    let events = ok(decode(Wire::Responses, &[stream(&events).as_bytes()]));
    assert_eq!(events, [AnswerEvent::Finished { reason: "max_output_tokens".into(), usage: None }]);
}
