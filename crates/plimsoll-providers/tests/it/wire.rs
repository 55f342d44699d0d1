//! Wire types are read and written back without loss, including unknown content.

use plimsoll_providers::{anthropic, chat, responses};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn round<T: Serialize + DeserializeOwned>(value: Value) {
    let typed: T = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), value);
}

#[test]
fn requests_keep_unknown_fields_and_kinds() {
    round::<anthropic::wire::MessagesRequest>(json!({
        "model": "m", "max_tokens": 5, "metadata": { "user_id": "u" }, "system": "be brief",
        "tools": [{ "name": "t", "input_schema": { "type": "object" }, "strict": true },
                  { "type": "web_search_20250305", "name": "web_search" }],
        "messages": [{ "role": "user", "content": [
            { "type": "text", "text": "a", "citations": [] },
            { "type": "search_result", "title": "new" },
            { "type": "tool_result", "tool_use_id": "x", "content": "y" },
        ]}, { "role": "assistant", "content": "b" }],
        "context_management": { "edits": [] },
    }));
    round::<chat::wire::ChatRequest>(json!({
        "model": "m", "seed": 7,
        "messages": [{ "role": "user", "content": [{ "type": "input_audio", "input_audio": {} }], "name": "n" },
                     { "role": "assistant", "content": null, "tool_calls": [
                         { "id": "c", "type": "function", "function": { "name": "t", "arguments": "{}" },
                           "extra_content": { "google": {} } }] }],
    }));
    round::<responses::wire::ResponsesRequest>(json!({
        "model": "m", "text": { "verbosity": "low" },
        "input": [{ "type": "item_reference", "id": "i" },
                  { "type": "function_call_output", "call_id": "c", "output": "o", "status": "completed" }],
    }));
}

#[test]
fn events_keep_unknown_fields_and_kinds() {
    round::<anthropic::wire::Event>(json!({ "type": "new_event", "x": 1 }));
    round::<anthropic::wire::Event>(json!({
        "type": "content_block_start", "index": 0, "content_block": { "type": "server_tool_use", "id": "s" } }));
    round::<anthropic::wire::Event>(json!({ "type": "message_start", "message": {
        "id": "msg", "model": "m", "usage": { "input_tokens": 1, "service_tier": "standard" }, "role": "assistant" } }));
    round::<responses::wire::Event>(json!({ "type": "response.in_progress", "response": {} }));
    round::<responses::wire::Event>(json!({ "type": "response.output_item.done", "output_index": 1,
        "item": { "type": "web_search_call", "id": "ws", "status": "completed" } }));
    round::<chat::wire::Chunk>(json!({ "id": "c", "choices": [
        { "index": 0, "delta": { "content": "x", "annotations": [] }, "finish_reason": null, "logprobs": null }],
        "system_fingerprint": "f" }));
}

#[test]
fn errors_are_typed() {
    let body = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" },
                       "request_id": "req" });
    round::<anthropic::wire::ErrorBody>(body);
    let body = json!({ "error": { "message": "m", "type": "t", "code": "c", "param": null } });
    round::<chat::wire::ErrorBody>(body);
}
