//! Endless answers are cut off, whatever they consist of.

use plimsoll_providers::{AnswerEvent, Body, Decoder, ProviderError, Request, StreamFault, Wire};
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::request;

/// An endless answer: an event that opens a block, and one that is repeated forever.
fn endless(wire: Wire, kind: &str, piece: &str) -> (Vec<Value>, Value) {
    match wire {
        Wire::Anthropic => {
            let (block, delta) = match kind {
                "text" => {
                    (json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": piece }))
                }
                "thinking" => (
                    json!({ "type": "thinking", "thinking": "", "signature": "" }),
                    json!({ "type": "thinking_delta", "thinking": piece }),
                ),
                "signature" => (
                    json!({ "type": "thinking", "thinking": "", "signature": "" }),
                    json!({ "type": "signature_delta", "signature": piece }),
                ),
                _ => (
                    json!({ "type": "tool_use", "id": "call_1", "name": "write", "input": {} }),
                    json!({ "type": "input_json_delta", "partial_json": piece }),
                ),
            };
            let open = json!({ "type": "content_block_start", "index": 0, "content_block": block });
            // A second block waits for the first, which never ends.
            let mut opened = vec![open];
            let index = u64::from(kind == "second");
            if kind == "second" {
                opened.push(json!({ "type": "content_block_start", "index": 1, "content_block": block }));
            }
            (opened, json!({ "type": "content_block_delta", "index": index, "delta": delta }))
        }
        Wire::Chat => {
            let call = |extra: Value| json!({ "tool_calls": [extra] });
            let (first, delta) = match kind {
                "text" => (json!({}), json!({ "content": piece })),
                "thinking" => (json!({}), json!({ "reasoning_content": piece })),
                "signature" => {
                    let detail = json!({ "type": "reasoning.encrypted", "index": 0, "data": piece });
                    (json!({}), json!({ "reasoning_details": [detail] }))
                }
                _ => (
                    call(json!({ "index": 0, "id": "call_1", "function": { "name": "write" } })),
                    call(json!({ "index": 0, "function": { "arguments": piece } })),
                ),
            };
            let chunk = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta }] });
            (vec![chunk(first)], chunk(delta))
        }
        Wire::Responses => {
            let (item, event) = match kind {
                "text" => (json!({ "type": "message", "role": "assistant", "content": [] }), "output_text"),
                "thinking" | "signature" => (json!({ "type": "reasoning", "summary": [] }), "reasoning_text"),
                _ => (
                    json!({ "type": "function_call", "call_id": "call_1", "name": "write", "arguments": "" }),
                    "function_call_arguments",
                ),
            };
            let begin = json!({ "type": "response.output_item.added", "output_index": 0, "item": item });
            let delta = format!("response.{event}.delta");
            (vec![begin], json!({ "type": delta, "output_index": 0, "content_index": 0, "delta": piece }))
        }
    }
}

fn data(event: &Value) -> Vec<u8> {
    format!("data: {event}\n\n").into_bytes()
}

/// Returns a request for at most `tokens` output tokens.
fn asking(wire: Wire, tokens: u64) -> Request {
    let mut request = request(wire);
    match &mut request.body {
        Body::Anthropic(body) => body.max_tokens = tokens,
        Body::Chat(body) => (body.max_completion_tokens, body.max_tokens) = (None, Some(tokens)),
        Body::Responses(body) => body.max_output_tokens = Some(tokens),
    }
    request
}

/// Feeds an endless answer until it is over. Returns the bytes that were emitted, the bytes fed, and the error.
fn feed(mut decoder: Decoder, wire: Wire, kind: &str) -> (usize, usize, Option<ProviderError>) {
    let (opened, again) = endless(wire, kind, &"x1 ".repeat(1_000));
    let (mut came, mut fed) = (0, 0);
    let again = data(&again);
    for event in opened.iter().map(data).chain(std::iter::repeat_with(|| again.clone()).take(100_000)) {
        fed += event.len();
        for event in decoder.push(&event) {
            match event {
                Ok(AnswerEvent::Text(text) | AnswerEvent::Thinking(text) | AnswerEvent::CallInput(text)) => {
                    came += text.len();
                }
                Ok(_) => {}
                Err(error) => {
                    assert!(decoder.is_over() && decoder.push(&again).is_empty());
                    return (came, fed, Some(error));
                }
            }
        }
    }
    (came, fed, None)
}

#[rstest]
fn an_endless_answer_is_cut_off_by_its_tokens_and_by_its_bytes(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
    #[values("text", "thinking", "call")] kind: &str,
) {
    // Requested tokens bound the model's content.
    let (came, fed, error) = feed(Decoder::new(&asking(wire, 65_536)), wire, kind);
    let limit = 65_536 * 64;
    assert_eq!(error, Some(StreamFault::TooLong { limit }.into()));
    assert!(came <= limit && fed < 2 * limit, "{came} of {fed} bytes");
    assert!(error.unwrap().to_string().contains("the answer was cut off at 4194304 bytes"));
    // Bytes are bounded even if many tokens were requested.
    let decoder = Decoder::with_limits(&asking(wire, u64::MAX), 1 << 20, 1 << 20);
    let (came, fed, error) = feed(decoder, wire, kind);
    assert_eq!(error, Some(StreamFault::TooLong { limit: 1 << 20 }.into()));
    assert!(came <= 1 << 20 && fed < 2 << 20, "{came} of {fed} bytes");
}

#[rstest]
#[case::signature(Wire::Anthropic, "signature")]
#[case::details(Wire::Chat, "signature")]
#[case::a_block_that_waits(Wire::Anthropic, "second")]
fn text_that_a_decoder_holds_back_is_bounded(#[case] wire: Wire, #[case] kind: &str) {
    let (_, fed, error) = feed(Decoder::with_limits(&asking(wire, 8_192), 1 << 20, 1 << 20), wire, kind);
    assert!(matches!(error, Some(ProviderError::Stream(StreamFault::TooLong { .. }))), "{error:?}");
    assert!(fed < 2 << 20, "{fed}");
}

/// Returns the number of calls without an input at which an answer is cut off.
fn most_calls(mut decoder: Decoder, wire: Wire) -> usize {
    let cut = (0..100_000).find(|index| {
        let id = format!("c{index}");
        let event = match wire {
            Wire::Chat => {
                let call = json!({ "index": index, "id": id, "function": { "name": "t" } });
                json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] })
            }
            Wire::Anthropic => {
                let block = json!({ "type": "tool_use", "id": id, "name": "t", "input": {} });
                json!({ "type": "content_block_start", "index": index, "content_block": block })
            }
            Wire::Responses => {
                let item =
                    json!({ "type": "function_call", "id": id, "call_id": id, "name": "t", "arguments": "" });
                json!({ "type": "response.output_item.added", "output_index": index, "item": item })
            }
        };
        decoder.push(&data(&event)).iter().any(Result::is_err)
    });
    cut.expect("calls without an end")
}

/// Each call is a part of the session and gets a result when the answer is broken off.
#[rstest]
fn calls_without_content_are_bounded_by_the_requested_tokens(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    assert_eq!(most_calls(Decoder::new(&asking(wire, 32_768)), wire), 3_276, "ten tokens each");
    assert_eq!(most_calls(Decoder::new(&asking(wire, 1)), wire), 1_638, "however few were requested");
    assert!(most_calls(Decoder::new(&asking(wire, u64::MAX)), wire) < 20_000);
}

/// Vocabularies have tokens of many bytes, and servers that do not count reasoning exceed small limits.
#[test]
fn an_honest_answer_is_never_cut_off() {
    for (tokens, bytes) in [(16, 200 << 10), (8_192, 500 << 10), (128_000, 7 << 20)] {
        let mut decoder = Decoder::new(&asking(Wire::Chat, tokens));
        let (_, again) = endless(Wire::Chat, "text", &" ".repeat(1_024));
        let again = data(&again);
        for _ in 0..bytes / 1_024 {
            assert!(decoder.push(&again).iter().all(Result::is_ok), "{tokens} tokens, {bytes} bytes");
        }
    }
}
