//! Each rule of the providers, with a request that follows it and one that breaks it.

use plimsoll::log::ReasoningPart;
use plimsoll::{CachePlan, Message, Part, PartBody, PartId, Policy, ToolState, Window};
use plimsoll_providers::{AnswerEvent, BuildError, Prompt, Request, RequestOptions, Thinking, Wire};
use plimsoll_testkit::server::{Captured, CapturedPart, ModelServer, Reply};
use plimsoll_testkit::{History, histories};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use crate::tools::{WIRES, client, follow, path, post, request, tool};

/// Checks that the first request is answered, and the second is rejected in the provider's format with these words, and
/// recorded.
fn check(wire: Wire, good: &Value, bad: &Value, words: &str) {
    let server = ModelServer::start().unwrap();
    server.repeat(Reply::new().text("fine"));
    let (status, body) = post(&server, path(wire), good);
    assert_eq!(status, 200, "{body}");
    assert_eq!(server.problems(), [""; 0]);
    let (status, body) = post(&server, path(wire), bad);
    assert_eq!(status, 400, "{body}");
    let said = body.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
    let problems = server.take_problems();
    assert!(problems.iter().any(|problem| problem.contains(words)), "{problems:#?}");
    assert!(problems[0].ends_with(said), "{said}");
    assert_eq!(body.pointer("/error/type"), Some(&json!("invalid_request_error")));
    assert_eq!(body.get("type").is_some(), wire == Wire::Anthropic);
}

/// Replaces a value. `null` removes it.
fn set(mut value: Value, pointer: &str, new: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap();
    match parent {
        Value::Object(fields) if new.is_null() => {
            fields.remove(key);
        }
        Value::Object(fields) => {
            fields.insert(key.into(), new);
        }
        Value::Array(list) if new.is_null() => {
            list.remove(key.parse().unwrap());
        }
        Value::Array(list) if key == "-" => list.push(new),
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = new,
        _ => panic!("no such place: {pointer}"),
    }
    value
}

fn anthropic() -> Value {
    json!({
        "model": "some-model",
        "max_tokens": 4_096,
        "system": [{ "type": "text", "text": "Be brief." }],
        "tools": [{ "name": "read", "input_schema": { "type": "object", "properties": {} } }],
        "messages": [
            { "role": "user", "content": "go" },
            { "role": "assistant", "content": [
                { "type": "text", "text": "Reading." },
                { "type": "tool_use", "id": "call_1", "name": "read", "input": {} },
                { "type": "tool_use", "id": "call_2", "name": "read", "input": {} },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "call_1", "content": "one" },
                { "type": "tool_result", "tool_use_id": "call_2", "content": [{ "type": "text", "text": "two" }] },
                { "type": "text", "text": "and?" },
            ] },
        ],
    })
}

fn marked(count: usize) -> Value {
    let mark = json!({ "type": "ephemeral" });
    let block = json!({ "type": "text", "text": "x", "cache_control": mark });
    set(anthropic(), "/system", json!(vec![block; count]))
}

fn image(media: &str) -> Value {
    json!({ "type": "image", "source": { "type": "base64", "media_type": media, "data": "aGk=" } })
}

#[rstest]
#[case::model_is_named("/model", json!(null), "model: Field required")]
#[case::max_tokens_is_there("/max_tokens", json!(null), "max_tokens: Field required")]
#[case::unknown_fields("/session", json!("s"), "session: Extra inputs are not permitted")]
#[case::unknown_fields_of_a_message("/messages/0/id", json!("m"), "id: Extra inputs are not permitted")]
#[case::unknown_fields_of_a_block("/messages/1/content/1/state", json!("s"), "state: Extra inputs are not permitted")]
#[case::no_messages("/messages", json!([]), "at least one message")]
#[case::roles("/messages/0/role", json!("tool"), "Unexpected role")]
#[case::first_is_the_user("/messages/0", json!(null), "first message must use")]
#[case::content_is_not_empty("/messages/0/content", json!([]), "non-empty content")]
#[case::texts_are_not_empty("/messages/0/content", json!(""), "text content blocks must be non-empty")]
#[case::texts_are_not_blank("/messages/2/content/2/text", json!(" \n"), "non-whitespace text")]
#[case::system_is_not_blank("/system/0/text", json!(""), "system.0: text content blocks")]
#[case::block_has_a_type("/messages/1/content/0", json!({ "text": "x" }), "type: Field required")]
#[case::calls_are_the_models("/messages/0/content", json!([{ "type": "tool_use", "id": "c", "name": "read", "input": {} }]), "not allowed in `user`")]
#[case::results_are_the_users("/messages/1/content/0", json!({ "type": "tool_result", "tool_use_id": "c", "content": "x" }), "not allowed in `assistant`")]
#[case::a_call_without_result("/messages/2/content/1", json!(null), "without `tool_result` blocks immediately after: call_2")]
#[case::a_result_in_a_later_message("/messages/2/content", json!("wait"), "without `tool_result` blocks")]
#[case::an_orphaned_result("/messages/1/content/2", json!(null), "unexpected `tool_use_id` found in `tool_result` blocks: call_2")]
#[case::two_results("/messages/2/content/1/tool_use_id", json!("call_1"), "single result")]
#[case::results_come_first("/messages/2/content/-", json!({ "type": "tool_result", "tool_use_id": "call_2", "content": "x" }), "must come before any other content")]
#[case::ids_are_unique("/messages/1/content/2/id", json!("call_1"), "ids must be unique")]
#[case::id_pattern("/messages/1/content/1/id", json!("call.1"), "tool_use.id: String should match")]
#[case::name_pattern("/messages/1/content/1/name", json!("mcp.read"), "tool_use.name: String should match")]
#[case::input_is_an_object("/messages/1/content/1/input", json!("x"), "valid dictionary")]
#[case::tools_are_declared("/tools", json!(null), "must define tools")]
#[case::tool_names("/tools/0/name", json!("a b"), "name: String should match")]
#[case::tool_names_are_unique("/tools/-", json!({ "name": "read", "input_schema": { "type": "object" } }), "names must be unique")]
#[case::tool_schema("/tools/0/input_schema", json!({}), "input_schema.type: Field required")]
#[case::choice_names_a_tool("/tool_choice", json!({ "type": "tool", "name": "write" }), "not found in provided tools")]
#[case::image_media("/messages/0/content", json!([image("image/tiff")]), "media_type")]
#[case::a_signature_of_another("/messages/1/content/0", json!({ "type": "thinking", "thinking": "x", "signature": "EqQB" }), "Invalid `signature`")]
#[case::data_of_another("/messages/1/content/0", json!({ "type": "redacted_thinking", "data": "EqQB" }), "Invalid `data`")]
#[case::budget_is_large_enough("/thinking", json!({ "type": "enabled", "budget_tokens": 1_000 }), "greater than or equal to 1024")]
#[case::budget_is_below_the_limit("/thinking", json!({ "type": "enabled", "budget_tokens": 4_096 }), "must be greater than")]
#[case::budget_wants_a_thought("/thinking", json!({ "type": "enabled", "budget_tokens": 2_000 }), "Expected `thinking`")]
fn anthropics_rules(#[case] place: &str, #[case] bad: Value, #[case] words: &str) {
    check(Wire::Anthropic, &anthropic(), &set(anthropic(), place, bad), words);
}

#[test]
fn anthropics_rules_about_several_fields() {
    let check = |good: &Value, bad: &Value, words: &str| check(Wire::Anthropic, good, bad, words);
    check(&marked(4), &marked(5), "maximum of 4 blocks with cache_control");
    let hour = |at: &str| {
        set(marked(2), &format!("/system/{at}/cache_control"), json!({ "type": "ephemeral", "ttl": "1h" }))
    };
    check(&hour("0"), &hour("1"), "must not come after");
    let with_image = |is_error: bool| {
        let value = set(anthropic(), "/messages/2/content/1/content", json!([image("image/png")]));
        set(value, "/messages/2/content/1/is_error", json!(is_error))
    };
    check(&with_image(false), &with_image(true), "all content must be type \"text\"");
    let prefilled =
        |text: &str| set(anthropic(), "/messages/-", json!({ "role": "assistant", "content": text }));
    check(&prefilled("So"), &prefilled("So "), "trailing whitespace");
    let choice = |value: Value, kind: &str| set(value, "/tool_choice", json!({ "type": kind }));
    let without_tools = json!({
        "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": "go" }],
    });
    check(&choice(anthropic(), "any"), &choice(without_tools.clone(), "any"), "while providing tools");
    let adaptive = |kind: &str| choice(set(anthropic(), "/thinking", json!({ "type": "adaptive" })), kind);
    check(&adaptive("auto"), &adaptive("any"), "forces tool use");
    let warm = |degree: f64| {
        set(
            set(without_tools.clone(), "/thinking", json!({ "type": "adaptive" })),
            "/temperature",
            json!(degree),
        )
    };
    check(&warm(1.0), &warm(0.5), "may only be set to 1");
}

/// A turn with thoughts and a call, as sent by the server, and the request that replays it.
fn thinking_turn(server: &ModelServer) -> Value {
    server.push(Reply::new().thinking("First a look.").text("Reading.").hidden_thinking().call(
        "call_9",
        "read",
        json!({ "path": "a" }),
    ));
    let first = json!({
        "model": "some-model",
        "max_tokens": 4_096,
        "thinking": { "type": "enabled", "budget_tokens": 2_000 },
        "tools": [{ "name": "read", "input_schema": { "type": "object" } }],
        "messages": [{ "role": "user", "content": "go" }],
    });
    let (status, answer) = post(server, "/v1/messages", &first);
    assert_eq!(status, 200, "{answer}");
    let next = set(first, "/messages/-", json!({ "role": "assistant", "content": answer["content"] }));
    let result = json!({ "type": "tool_result", "tool_use_id": "call_9", "content": "ok" });
    set(next, "/messages/-", json!({ "role": "user", "content": [result] }))
}

#[rstest]
#[case::as_they_were(None, "")]
#[case::changed_words(Some(("/messages/1/content/0/thinking", json!("Second a look."))), "Invalid `signature`")]
#[case::changed_signature(Some(("/messages/1/content/0/signature", json!("testkit.anthropic.0.0"))), "Invalid `signature`")]
#[case::first_left_out(Some(("/messages/1/content/0", json!(null))), "Expected `thinking`")]
#[case::second_left_out(Some(("/messages/1/content/2", json!(null))), "before `call_9` cannot be modified")]
#[case::a_thought_last(Some(("/messages/1/content/3", json!(null))), "cannot be `thinking`")]
#[case::a_breakpoint_on_one(Some(("/messages/1/content/0/cache_control", json!({ "type": "ephemeral" }))), "cache_control: Extra inputs")]
#[case::another_model_needs_none(Some(("/model", json!("other-model"))), "")]
fn thoughts_must_be_replayed_during_the_turn(#[case] change: Option<(&str, Value)>, #[case] words: &str) {
    let server = ModelServer::start().unwrap();
    let mut next = thinking_turn(&server);
    if let Some((place, value)) = change {
        next = set(next, place, value);
    }
    server.push(Reply::new().text("done"));
    let (status, body) = post(&server, "/v1/messages", &next);
    let problems = server.take_problems();
    assert_eq!(status == 200, words.is_empty(), "{body}");
    assert!(words.is_empty() || problems.iter().any(|problem| problem.contains(words)), "{problems:#?}");
}

#[test]
fn thoughts_may_be_dropped_after_the_turn() {
    let server = ModelServer::start().unwrap();
    let next = thinking_turn(&server);
    let next = set(next, "/messages/1/content/2", json!(null));
    let next = set(next, "/messages/1/content/0", json!(null));
    let next = set(next, "/messages/-", json!({ "role": "assistant", "content": "done" }));
    let next = set(next, "/messages/-", json!({ "role": "user", "content": "more" }));
    server.push(Reply::new().text("done"));
    assert_eq!(post(&server, "/v1/messages", &next).0, 200);
}

#[test]
fn thoughts_of_another_provider_are_rejected() {
    let (one, other) = (
        ModelServer::builder().name("one").start().unwrap(),
        ModelServer::builder().name("other").start().unwrap(),
    );
    let next = thinking_turn(&one);
    other.push(Reply::new().text("done"));
    assert_eq!(post(&other, "/v1/messages", &next).0, 400);
    assert!(other.take_problems()[0].contains("Invalid `signature`"));
    // A server with the same name accepts the thoughts, even after a restart.
    let again = ModelServer::builder().name("one").start().unwrap();
    again.push(Reply::new().text("done"));
    assert_eq!(post(&again, "/v1/messages", &next).0, 200);
}

fn chat() -> Value {
    let call =
        |id: &str| json!({ "id": id, "type": "function", "function": { "name": "read", "arguments": "{}" } });
    json!({
        "model": "some-model",
        "tools": [{ "type": "function", "function": { "name": "read", "parameters": { "type": "object" } } }],
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "go" },
            { "role": "assistant", "content": null, "tool_calls": [call("call_1"), call("call_2")] },
            { "role": "tool", "tool_call_id": "call_2", "content": "two" },
            { "role": "tool", "tool_call_id": "call_1", "content": "one" },
            { "role": "user", "content": [{ "type": "text", "text": "and?" }] },
        ],
    })
}

#[rstest]
#[case::model_is_named("/model", json!(null), "provide a model")]
#[case::unknown_fields("/session", json!("s"), "Unrecognized request argument supplied: session")]
#[case::no_messages("/messages", json!([]), "Invalid 'messages': empty array")]
#[case::roles("/messages/1/role", json!("human"), "Invalid value: 'human'")]
#[case::a_call_without_result("/messages/4", json!(null), "did not have response messages: call_1")]
#[case::a_call_without_result_at_the_end("/messages/-", json!({ "role": "assistant", "tool_calls": [{ "id": "c", "type": "function", "function": { "name": "read", "arguments": "{}" } }] }), "did not have response messages: c")]
#[case::an_orphaned_result("/messages/2", json!({ "role": "assistant", "content": "x" }), "must be a response to a preceeding message")]
#[case::two_results("/messages/4/tool_call_id", json!("call_2"), "must be a response to a preceeding message")]
#[case::ids_are_unique("/messages/2/tool_calls/1/id", json!("call_1"), "Duplicate value for 'tool_call_id'")]
#[case::ids_are_short("/messages/2/tool_calls/0/id", json!("c".repeat(41)), "Expected 1 to 40")]
#[case::names("/messages/2/tool_calls/0/function/name", json!("mcp.read"), "does not match pattern")]
#[case::arguments_are_json("/messages/2/tool_calls/0/function/arguments", json!("{"), "not a string of JSON")]
#[case::arguments_are_a_string("/messages/2/tool_calls/0/function/arguments", json!({}), "not a string of JSON")]
#[case::calls_are_not_empty("/messages/2/tool_calls", json!([]), "tool_calls': empty array")]
#[case::an_answer_says_something("/messages/-", json!({ "role": "assistant", "content": null }), "expected a string, got null")]
#[case::content_is_there("/messages/1/content", json!(null), "Invalid value for 'content'")]
#[case::parts_are_not_empty("/messages/5/content", json!([]), "content': empty array")]
#[case::parts_fit_the_role("/messages/0/content", json!([{ "type": "image_url", "image_url": { "url": "https://x" } }]), "Invalid value: 'image_url'")]
#[case::tools_are_not_empty("/tools", json!([]), "Invalid 'tools': empty array")]
#[case::tool_names("/tools/0/function/name", json!("a b"), "does not match pattern")]
#[case::tool_schema("/tools/0/function/parameters", json!({}), "schema must be a JSON Schema")]
#[case::stream_options("/stream_options", json!({ "include_usage": true }), "only allowed when 'stream' is enabled")]
fn chats_rules(#[case] place: &str, #[case] bad: Value, #[case] words: &str) {
    check(Wire::Chat, &chat(), &set(chat(), place, bad), words);
}

#[test]
fn chats_rules_about_several_fields() {
    let limit = |value: Value, key: &str| set(value, key, json!(100));
    let (new, old) = ("/max_completion_tokens", "/max_tokens");
    check(Wire::Chat, &limit(chat(), new), &limit(limit(chat(), new), old), "at the same time");
    let bare = json!({ "model": "m", "messages": [{ "role": "user", "content": "go" }] });
    let choice = |value: Value| set(value, "/tool_choice", json!("none"));
    check(Wire::Chat, &choice(chat()), &choice(bare), "only allowed when 'tools'");
}

fn responses() -> Value {
    let said = |role: &str, kind: &str| json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": "x" }] });
    json!({
        "model": "some-model",
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "tools": [{ "type": "function", "name": "read", "parameters": { "type": "object" }, "strict": false }],
        "input": [
            said("user", "input_text"),
            said("assistant", "output_text"),
            { "type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}" },
            { "type": "function_call", "call_id": "call_2", "name": "read", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "call_1", "output": "one" },
            { "type": "function_call_output", "call_id": "call_2", "output": [{ "type": "input_text", "text": "two" }] },
            said("user", "input_text"),
        ],
    })
}

#[rstest]
#[case::model_is_named("/model", json!(null), "'model'")]
#[case::unknown_fields("/session", json!("s"), "Unknown parameter: 'session'")]
#[case::no_input("/input", json!([]), "'input'")]
#[case::answer_is_long_enough("/max_output_tokens", json!(15), ">= 16")]
#[case::roles("/input/0/role", json!("human"), "Invalid value: 'human'")]
#[case::users_parts("/input/0/content/0/type", json!("output_text"), "Supported values are: 'input_text'")]
#[case::models_parts("/input/1/content/0/type", json!("input_text"), "Supported values are: 'output_text'")]
#[case::content_is_not_empty("/input/0/content", json!([]), "input[0].content")]
#[case::images_have_a_detail("/input/0/content", json!([{ "type": "input_image", "image_url": "https://x" }]), "content[0].detail")]
#[case::a_call_without_output("/input/5", json!(null), "No tool output found for function call call_2")]
#[case::an_output_without_call("/input/3", json!(null), "No tool call found for function call output with call_id call_2")]
#[case::an_output_before_its_call("/input/0", json!({ "type": "function_call_output", "call_id": "call_1", "output": "one" }), "No tool call found")]
#[case::two_outputs("/input/5/call_id", json!("call_1"), "Duplicate function call output")]
#[case::two_calls("/input/3/call_id", json!("call_1"), "Duplicate function call with")]
#[case::ids_are_short("/input/2/call_id", json!("c".repeat(65)), "Expected 1 to 64")]
#[case::names("/input/2/name", json!("mcp.read"), "does not match pattern")]
#[case::arguments_are_json("/input/2/arguments", json!("{"), "not a string of JSON")]
#[case::output_is_there("/input/4/output", json!(null), "input[4].output")]
#[case::output_parts("/input/5/output/0/type", json!("text"), "Invalid value: 'text'")]
#[case::item_ids("/input/2/id", json!("msg_1"), "begins with 'fc'")]
#[case::item_ids_are_unique("/input/-", json!({ "type": "item_reference", "id": "x" }), "")]
#[case::tool_names("/tools/0/name", json!("a b"), "does not match pattern")]
#[case::tool_schema("/tools/0/parameters", json!({}), "schema must be a JSON Schema")]
#[case::thoughts_are_encrypted("/input/1", json!({ "type": "reasoning", "id": "rs_1", "summary": [] }), "not persisted")]
#[case::thoughts_are_own("/input/1", json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA" }), "could not be verified")]
fn responses_rules(#[case] place: &str, #[case] bad: Value, #[case] words: &str) {
    if words.is_empty() {
        // The same item twice.
        let once = set(responses(), place, bad.clone());
        return check(Wire::Responses, &once, &set(once.clone(), place, bad), "Duplicate item found");
    }
    check(Wire::Responses, &responses(), &set(responses(), place, bad), words);
}

#[test]
fn a_reasoning_item_must_be_replayed_before_its_following_item() {
    let server = ModelServer::start().unwrap();
    server.push(Reply::new().thinking("First a look.").call("call_7", "read", json!({})).call(
        "call_8",
        "read",
        json!({}),
    ));
    let (_, answer) = post(&server, "/v1/responses", &responses());
    let output = answer["output"].as_array().unwrap();
    let result = |id: &str| json!({ "type": "function_call_output", "call_id": id, "output": "ok" });
    let request = |items: &[&Value]| {
        items.iter().fold(responses(), |body, item| set(body, "/input/-", (*item).clone()))
    };
    let (thought, first, second) = (&output[0], &output[1], &output[2]);
    let (one, two) = (&result("call_7"), &result("call_8"));
    let said = &json!({ "type": "message", "role": "assistant", "content": "so" });
    server.repeat(Reply::new().text("fine"));
    for (items, words) in [
        (vec![thought, first, second, one, two], ""),
        (vec![first, second, one, two], ""),
        (vec![thought, second, first, one, two], "without its required following item"),
        (vec![thought, said, first, second, one, two], "without its required following item"),
        (vec![first, second, one, two, thought], "without its required following item"),
        (vec![first, thought, one], "without its required following item"),
    ] {
        let (status, body) = post(&server, "/v1/responses", &request(&items));
        let problems = server.take_problems();
        assert_eq!(status == 200, words.is_empty(), "{body}");
        assert!(words.is_empty() || problems.iter().any(|problem| problem.contains(words)), "{problems:?}");
    }
}

#[test]
fn input_can_be_a_string() {
    let server = ModelServer::start().unwrap();
    server.push(Reply::new().text("fine"));
    assert_eq!(post(&server, "/responses", &json!({ "model": "m", "input": "hi" })).0, 200);
    assert_eq!(server.last().unwrap().last_user_text(), "hi");
}

#[test]
fn a_test_with_an_illegal_request_fails() {
    let failing = || {
        let server = ModelServer::start().unwrap();
        post(&server, "/v1/messages", &json!({ "model": "m", "max_tokens": 1, "messages": [] }));
    };
    let message = std::panic::catch_unwind(failing).unwrap_err();
    let message = message.downcast_ref::<String>().unwrap();
    assert!(message.contains("request 0 to /v1/messages: messages: at least one message"), "{message}");
    // So does a test with more requests than replies, or whose function panics.
    let unscripted = || {
        let server = ModelServer::start().unwrap();
        post(&server, "/v1/responses", &json!({ "model": "m", "input": "hi" }));
    };
    assert!(std::panic::catch_unwind(unscripted).is_err());
    let asserting = || {
        let server = ModelServer::answering(|_: &Captured| panic!("not as expected")).unwrap();
        assert_eq!(post(&server, "/v1/responses", &json!({ "model": "m", "input": "hi" })).0, 500);
    };
    assert!(std::panic::catch_unwind(asserting).is_err());
}

#[test]
fn a_lenient_server_answers_and_records_problems() {
    let server = ModelServer::builder().lenient().start().unwrap();
    server.push(Reply::new().text("fine"));
    let (status, _) = post(&server, "/v1/messages", &json!({ "model": "m", "messages": [] }));
    assert_eq!((status, server.problems().len()), (200, 0));
    assert_eq!(server.last().unwrap().problems.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn properties_every_generated_history_makes_a_legal_request(log in histories(12)) {
        let server = ModelServer::builder().lenient().start().unwrap();
        server.repeat(Reply::new().text("fine"));
        for wire in WIRES {
            // Under the name of another provider, because the thoughts were not signed by this server.
            let Ok(request) = build(wire, &log) else { continue };
            post(&server, path(wire), &request.to_json());
            let captured = server.last().unwrap();
            prop_assert_eq!(&captured.problems, &Vec::<String>::new(), "{}", captured.outline());
        }
    }
}

fn build(wire: Wire, log: &[Message]) -> Result<Request, BuildError> {
    let window = Window::of(log, &Policy::default());
    let options = RequestOptions {
        thinking: Thinking::Budget(2_000),
        cache_key: Some("k".into()),
        ..RequestOptions::default()
    };
    let cache = CachePlan::new(&window, log, None, 2, &Policy::default().cache);
    let (tools, system) = ([tool("bash"), tool("a.b")], ["Be brief.".to_owned()]);
    let prompt = Prompt {
        tools: &tools,
        system: &system,
        cache: Some(&cache),
        ..Prompt::new("another", "some-model", &window, &options)
    };
    Request::build(wire, &prompt)
}

#[tokio::test]
async fn the_server_accepts_a_replay_of_what_the_client_read() {
    for wire in WIRES {
        let server = ModelServer::start().unwrap();
        server.push(Reply::new().thinking("A look.").text("Reading.").call("call_1", "read", json!({})));
        server.push(Reply::new().text("done"));
        let client = client(&server, wire);
        let (events, _) = follow(&client, &request(wire, History::new().user("go"))).await;
        let signature = events.iter().find_map(|event| match event {
            AnswerEvent::Signature(signature) => Some(signature.clone()),
            _ => None,
        });
        let history = History::new().user("go").say("Reading.").change(|message| {
            let mut thought =
                Part::new(PartId::new("t"), PartBody::Reasoning(ReasoningPart { text: "A look.".into() }));
            if let Some(signature) = signature {
                thought.extra.insert("metadata".into(), signature);
            }
            message.parts.insert(0, thought);
            let state = ToolState::completed(json!({}), "contents");
            message.parts.push(Part::tool(PartId::new("c"), "call_1", "read", state));
        });
        let (_, error) = follow(&client, &request(wire, history)).await;
        assert_eq!(error, None, "{wire:?}");
        let captured = server.last().unwrap();
        let is_back = captured.parts().any(|part| matches!(part, CapturedPart::Thinking { .. }));
        assert_eq!(is_back, wire != Wire::Chat, "{}", captured.outline());
    }
}
