//! Requests built from windows.

use plimsoll::{CachePlan, Message, Policy, ToolState, Window};
use plimsoll_providers::{
    BuildError, CallIds, MaxTokensField, Prompt, Request, RequestOptions, Thinking, ToolChoice, ToolSpec,
    Wire, WordlessContent,
};
use plimsoll_testkit::{History, histories};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

const WIRES: [(Wire, &str); 3] =
    [(Wire::Anthropic, "anthropic"), (Wire::Chat, "openai-chat"), (Wire::Responses, "openai")];
const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";

/// A session with a case for each rule of the providers.
fn everything() -> Vec<Message> {
    let thought = |id: &str, text: &str, metadata: Value| json!({ "id": id, "type": "reasoning", "text": text, "metadata": metadata });
    let call = |id: &str, call: &str, tool: &str, state: Value| json!({ "id": id, "type": "tool", "callID": call, "tool": tool, "state": state });
    let mut log = History::new().user("Look at both files.").messages();
    let answer = json!({
        "info": { "id": "m1", "role": "assistant", "finish": "tool-calls" },
        "parts": [
            thought("p0", "Both at once.", json!({ "anthropic": { "signature": "SIG1", "model": "some-model" },
                "openai": { "itemId": "rs_1", "reasoningEncryptedContent": "ENC1", "model": "some-model" },
                "openai-chat": { "reasoning_details": [{ "type": "reasoning.text", "text": "Both" }],
                    "model": "some-model" } })),
            { "id": "p1", "type": "text", "text": "Reading." },
            thought("p2", "", json!({ "anthropic": { "redactedData": "HIDDEN", "model": "some-model" } })),
            call("p3", "toolu_1", "read", json!({ "status": "completed", "input": { "path": "a.rs" },
                "output": "fn a() {}", "attachments": [{ "mime": "image/png", "url": PNG }] })),
            { "id": "p4", "type": "text", "text": "And the other." },
            call("p5", "call|with:odd/characters and far too long for any provider to accept it as it is",
                "mcp.server/read file", json!({ "status": "error", "input": { "path": "b.rs" }, "error": "no such file" })),
        ],
    });
    let old = History::new().tool("grep", "old output").cleared().messages();
    let system = json!({ "info": { "id": "m3", "role": "system" },
        "parts": [{ "id": "p6", "type": "text", "text": "The user is now in plan mode." }] });
    let file = json!({ "info": { "id": "m4", "role": "user" }, "parts": [
        { "id": "p7", "type": "text", "text": "What is in these?" },
        { "id": "p8", "type": "file", "mime": "image/png", "filename": "shot.png", "url": PNG },
        { "id": "p9", "type": "file", "mime": "application/pdf", "filename": "spec.pdf",
          "url": "data:application/pdf;base64,JVBERi0=" },
        { "id": "p10", "type": "file", "mime": "video/mp4", "filename": "clip.mp4", "url": "file:///clip.mp4" },
    ] });
    log.push(serde_json::from_value(answer).unwrap());
    log.extend(old);
    log.push(serde_json::from_value(system).unwrap());
    log.push(serde_json::from_value(file).unwrap());
    log
}

fn tools() -> Vec<ToolSpec> {
    let tool =
        |name: &str, schema| ToolSpec { name: name.into(), description: format!("The {name} tool."), schema };
    vec![
        tool("read", json!({ "type": "object", "properties": { "path": { "type": "string" } } })),
        tool("mcp.server/read file", Value::Null),
    ]
}

fn build(
    wire: Wire,
    provider: &str,
    log: &[Message],
    options: &RequestOptions,
) -> Result<Request, BuildError> {
    let policy = Policy::default();
    let window = Window::of(log, &policy);
    let cache = CachePlan::new(&window, log, None, 2, &policy.cache);
    let (tools, system) = (tools(), ["You are careful.".to_owned()]);
    let prompt = Prompt {
        system: &system,
        tools: &tools,
        cache: Some(&cache),
        ..Prompt::new(provider, "some-model", &window, options)
    };
    Request::build(wire, &prompt)
}

fn json_of(wire: Wire, provider: &str, log: &[Message], options: &RequestOptions) -> Value {
    build(wire, provider, log, options).unwrap().to_json()
}

#[rstest]
#[case(Wire::Anthropic, "anthropic")]
#[case(Wire::Chat, "openai-chat")]
#[case(Wire::Responses, "openai")]
fn a_window_with_everything(#[case] wire: Wire, #[case] provider: &str) {
    let options = RequestOptions {
        max_tokens: Some(8_000),
        cache_key: Some("ses_1".into()),
        thinking: if wire == Wire::Anthropic {
            Thinking::Budget(4_000)
        } else {
            Thinking::Effort("high".into())
        },
        ..RequestOptions::default()
    };
    let request = json_of(wire, provider, &everything(), &options);
    check(wire, &request);
    insta::assert_json_snapshot!(provider, request);
}

#[test]
fn reasoning_is_sent_only_to_the_provider_that_produced_it() {
    for (wire, provider) in WIRES {
        let own = json_of(wire, provider, &everything(), &RequestOptions::default());
        let foreign = json_of(wire, "another", &everything(), &RequestOptions::default());
        check(wire, &foreign);
        let (own, foreign) = (own.to_string(), foreign.to_string());
        let secrets = ["SIG1", "HIDDEN", "ENC1", "rs_1", "reasoning.text"];
        let mine: &[&str] = match wire {
            Wire::Anthropic => &secrets[..2],
            Wire::Responses => &secrets[2..4],
            Wire::Chat => &secrets[4..],
        };
        for secret in secrets {
            assert_eq!(own.contains(secret), mine.contains(&secret), "{provider}: {secret}");
            assert!(!foreign.contains(&format!("\"{secret}\"")), "{provider}: {secret} was given to another");
        }
    }
}

#[test]
fn unknown_blocks_are_sent_only_to_the_provider_that_produced_them() {
    let block = |id: &str, provider: &str, block: Value| json!({ "id": id, "type": "provider-block", "block": { provider: block } });
    let answer = json!({ "info": { "id": "m1", "role": "assistant", "finish": "stop" }, "parts": [
        block("b1", "anthropic", json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": {} })),
        block("b2", "anthropic", json!({ "type": "web_search_tool_result", "tool_use_id": "s1", "content": [] })),
        block("b3", "anthropic", json!({ "type": "server_tool_use", "id": "lone", "name": "web_search", "input": {} })),
        block("b4", "anthropic", json!({ "type": "of_tomorrow", "x": 1 })),
        block("b5", "openai", json!({ "type": "web_search_call", "id": "ws", "status": "completed" })),
        { "id": "t1", "type": "text", "text": "Found." },
    ] });
    let mut log = History::new().user("search").messages();
    log.push(serde_json::from_value(answer).unwrap());
    log.extend(History::new().user("go on").messages());
    let kinds = |wire, provider, path: &str| -> Vec<String> {
        let request = json_of(wire, provider, &log, &RequestOptions::default());
        let items = request.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
        items.iter().map(|item| item["type"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let sent = kinds(Wire::Anthropic, "anthropic", "/messages/1/content");
    assert_eq!(sent, ["server_tool_use", "web_search_tool_result", "of_tomorrow", "text"]);
    assert_eq!(kinds(Wire::Anthropic, "another", "/messages/1/content"), ["text"]);
    let sent = kinds(Wire::Responses, "openai", "/input");
    assert_eq!(sent, ["message", "web_search_call", "message", "message"]);
    let chat = json_of(Wire::Chat, "openai-chat", &log, &RequestOptions::default()).to_string();
    assert!(!chat.contains("web_search"));
}

#[test]
fn call_ids_are_adapted_and_stay_the_same_while_the_conversation_grows() {
    let ids = |request: &Value| -> Vec<String> {
        let calls = request["messages"].as_array().unwrap().iter();
        let calls = calls.flat_map(|message| message["tool_calls"].as_array().cloned().unwrap_or_default());
        calls.map(|call| call["id"].as_str().unwrap().to_owned()).collect()
    };
    let log = everything();
    let options = RequestOptions { call_ids: CallIds::Mistral, ..RequestOptions::default() };
    for options in [RequestOptions::default(), options] {
        let short = ids(&json_of(Wire::Chat, "x", &log[..2], &options));
        let long = ids(&json_of(Wire::Chat, "x", &log, &options));
        assert_eq!(long[..short.len()], short[..]);
        assert_eq!(short.len(), 2);
        if options.call_ids == CallIds::Mistral {
            assert!(
                long.iter().all(|id| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric())),
                "{long:?}"
            );
        } else {
            assert_eq!(short[0], "toolu_1");
        }
    }
}

#[test]
fn tool_names_are_mapped_back() {
    let request = build(Wire::Anthropic, "anthropic", &everything(), &RequestOptions::default()).unwrap();
    assert_eq!(request.to_json()["tools"][1]["name"], "mcp_server_read_file");
    assert_eq!(request.tools.own("mcp_server_read_file"), "mcp.server/read file");
    assert_eq!(request.tools.own("unheard_of"), "unheard_of");
}

#[test]
fn a_thinking_budget_is_omitted_if_it_would_be_rejected() {
    let ask = |log: &[Message], provider: &str, options: RequestOptions| {
        json_of(Wire::Anthropic, provider, log, &options)["thinking"].clone()
    };
    let budget = |tokens| RequestOptions {
        thinking: Thinking::Budget(tokens),
        max_tokens: Some(8_000),
        ..Default::default()
    };
    let log = everything();
    assert_eq!(ask(&log[..2], "anthropic", budget(2_000))["budget_tokens"], 2_000);
    // Another provider began this turn, so its answer has no reasoning that could be sent.
    assert_eq!(ask(&log[..2], "another", budget(2_000)), Value::Null);
    assert_eq!(ask(&log[..2], "anthropic", budget(10_000))["budget_tokens"], 7_999);
    assert_eq!(ask(&log[..2], "anthropic", budget(100)), Value::Null);
    let forced = RequestOptions { tool_choice: ToolChoice::Required, ..budget(2_000) };
    assert_eq!(ask(&log[..2], "anthropic", forced), Value::Null);
}

#[rstest]
#[case("claude-sonnet-4-5-20250929", "enabled", true)]
#[case("anthropic/claude-opus-4.6", "enabled", true)]
#[case("claude-opus-4", "enabled", true)]
#[case("claude-3-7-sonnet-latest", "enabled", true)]
#[case("kimi-k3", "enabled", true)]
#[case("claude-opus-4-8", "adaptive", false)]
#[case("claude-sonnet-5", "adaptive", false)]
#[case("claude-opus-5-5", "adaptive", false)]
fn models_that_reject_a_budget_and_a_temperature_get_none(
    #[case] model: &str,
    #[case] kind: &str,
    #[case] temperature: bool,
) {
    let window = Window::of(&History::new().user("go").messages(), &Policy::default());
    let mut options =
        RequestOptions { max_tokens: Some(8_000), temperature: Some(0.2), ..Default::default() };
    let build = |options: &RequestOptions| {
        Request::build(Wire::Anthropic, &Prompt::new("anthropic", model, &window, options)).unwrap().to_json()
    };
    assert_eq!(build(&options).get("temperature").is_some(), temperature);
    options.thinking = Thinking::Budget(2_000);
    let request = build(&options);
    assert_eq!((&request["thinking"]["type"], request.get("temperature")), (&json!(kind), None));
}

#[rstest]
#[case("gpt-5.1", false)]
#[case("openai/o3-mini", false)]
#[case("gpt-4o", true)]
#[case("gpt-5-chat-latest", true)]
#[case("qwen3:8b", true)]
#[case("olmo-2", true)]
fn models_that_always_think_get_no_temperature(#[case] model: &str, #[case] expected: bool) {
    let window = Window::of(&History::new().user("go").messages(), &Policy::default());
    let options = RequestOptions { temperature: Some(0.5), ..RequestOptions::default() };
    for wire in [Wire::Chat, Wire::Responses] {
        let request =
            Request::build(wire, &Prompt::new("openai", model, &window, &options)).unwrap().to_json();
        assert_eq!(request.get("temperature").is_some(), expected);
    }
}

#[test]
fn reasoning_is_not_sent_to_another_model() {
    let answer = json!({ "info": { "id": "m1", "role": "assistant", "finish": "stop" }, "parts": [
        { "id": "p1", "type": "reasoning", "text": "hm", "metadata": { "anthropic": { "signature": "S", "model": "some-model" } } },
        { "id": "p2", "type": "reasoning", "text": "hm", "metadata": { "anthropic": { "signature": "T", "model": "older" } } },
        { "id": "p3", "type": "text", "text": "yes" } ] });
    let mut log = History::new().user("go").messages();
    log.push(serde_json::from_value(answer).unwrap());
    let sent = json_of(Wire::Anthropic, "anthropic", &log, &RequestOptions::default())["messages"][1].clone();
    let thoughts: Vec<&Value> =
        sent["content"].as_array().unwrap().iter().map(|block| &block["signature"]).collect();
    assert_eq!(thoughts, [&json!("S"), &Value::Null]);
}

/// From a report: with an imported session of Claude Code, every request was rejected for the signature of its first
/// reasoning.
#[test]
fn reasoning_of_imported_sessions_is_not_sent() {
    for (wire, provider) in WIRES {
        let own = json!({ "signature": "ELSEWHERE", "reasoningEncryptedContent": "ELSEWHERE",
            "reasoning_details": [{ "type": "reasoning.text", "text": "ELSEWHERE" }] });
        let answer = json!({ "info": { "id": "m1", "role": "assistant", "finish": "stop" }, "parts": [
            { "id": "p1", "type": "reasoning", "text": "hm", "metadata": { provider: own } },
            { "id": "p2", "type": "text", "text": "yes" } ] });
        let mut log = History::new().user("go").messages();
        log.push(serde_json::from_value(answer).unwrap());
        let request = json_of(wire, provider, &log, &RequestOptions::default());
        check(wire, &request);
        let request = request.to_string();
        assert!(request.contains("yes") && !request.contains("ELSEWHERE"), "{wire:?}: {request}");
    }
}

#[test]
fn a_user_turn_is_added_to_a_conversation_that_ends_with_the_model() {
    let log = History::new().user("go").say("done ").messages();
    let request = json_of(Wire::Anthropic, "anthropic", &log, &RequestOptions::default());
    check(Wire::Anthropic, &request);
    assert_eq!(request["messages"][2]["content"][0]["text"], "Continue.");
}

#[test]
fn called_tools_are_declared_but_not_callable_if_none_are_declared() {
    let log = History::new().user("go").tool("read", "x").messages();
    let window = Window::of(&log, &Policy::default());
    let options = RequestOptions::default();
    let request =
        Request::build(Wire::Anthropic, &Prompt::new("anthropic", "m", &window, &options)).unwrap().to_json();
    assert_eq!(
        (&request["tools"][0]["name"], &request["tool_choice"]["type"]),
        (&json!("read"), &json!("none"))
    );
}

#[test]
fn tools_stay_declared_with_tool_choice_none() {
    let options = RequestOptions { tool_choice: ToolChoice::None, ..RequestOptions::default() };
    for (wire, provider) in WIRES {
        let request = json_of(wire, provider, &everything(), &options);
        assert_eq!(request["tools"].as_array().map(Vec::len), Some(2));
        let choice = &request["tool_choice"];
        assert_eq!(choice.get("type").unwrap_or(choice), "none");
    }
}

#[test]
fn invalid_prompts_are_build_errors() {
    let options =
        RequestOptions { tool_choice: ToolChoice::Named("gone".into()), ..RequestOptions::default() };
    for (wire, provider) in WIRES {
        let log = History::new().user("go").messages();
        assert_eq!(build(wire, provider, &log, &options), Err(BuildError::UnknownTool("gone".into())));
        assert_eq!(build(wire, provider, &[], &RequestOptions::default()), Err(BuildError::Empty));
    }
    let mut window = Window::of(&History::new().user("go").tool("t", "x").messages(), &Policy::default());
    window.messages.pop();
    let options = RequestOptions::default();
    let illegal = Request::build(Wire::Chat, &Prompt::new("x", "m", &window, &options));
    assert!(matches!(illegal, Err(BuildError::InvalidWindow(_))), "{illegal:?}");
}

#[test]
fn additional_fields_override_typed_ones() {
    let extra = json!({ "max_tokens": 77, "top_p": 0.5 }).as_object().cloned().unwrap();
    let options = RequestOptions { max_tokens: Some(5), extra, ..RequestOptions::default() };
    let request = build(Wire::Anthropic, "anthropic", &everything(), &options).unwrap();
    assert_eq!((&request.to_json()["max_tokens"], &request.to_json()["top_p"]), (&json!(77), &json!(0.5)));
    let sent = String::from_utf8(request.to_bytes()).unwrap();
    assert_eq!(sent.matches("\"max_tokens\"").count(), 1);
}

#[test]
fn options_for_particular_servers_are_applied() {
    let log = History::new().user("go").think("hm", "yes").messages();
    let options = RequestOptions {
        max_tokens: Some(9),
        max_tokens_field: MaxTokensField::MaxTokens,
        thinking_field: Some("reasoning_content".into()),
        ..RequestOptions::default()
    };
    let request = json_of(Wire::Chat, "deepseek", &log, &options);
    assert_eq!((&request["max_tokens"], request.get("max_completion_tokens")), (&json!(9), None));
    assert_eq!(request["messages"][2]["reasoning_content"], "hm");
}

/// The server of llama-cpp-python answers 500 to `null`: like many templates, that of SmolLM2 concatenates the content
/// to a string.
#[test]
fn a_message_with_only_calls_has_an_empty_text_if_the_server_needs_one() {
    let log = History::new().user("go").tool("read", "x").messages();
    let options =
        RequestOptions { wordless_content: WordlessContent::EmptyText, ..RequestOptions::default() };
    let content = |options| json_of(Wire::Chat, "llama-cpp", &log, options)["messages"][2]["content"].clone();
    assert_eq!(content(&options), json!(""));
    assert_eq!(content(&RequestOptions::default()), json!(null));
}

#[test]
fn there_are_never_more_than_four_breakpoints() {
    let mut log = History::new().user("go");
    for turn in 0..100 {
        log = log.tool("read", format!("output {turn}"));
    }
    let log = log.user("next").messages();
    let policy = Policy::default();
    let window = Window::of(&log, &policy);
    let cache = CachePlan::new(&window, &log, None, 0, &policy.cache);
    assert_eq!(cache.breakpoints.len(), 4);
    let (tools, system, options) = (tools(), ["a".to_owned(), "b".to_owned()], RequestOptions::default());
    let prompt = Prompt {
        system: &system,
        tools: &tools,
        cache: Some(&cache),
        ..Prompt::new("anthropic", "m", &window, &options)
    };
    let request = Request::build(Wire::Anthropic, &prompt).unwrap().to_json();
    check(Wire::Anthropic, &request);
    let last = request["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["content"].as_array().unwrap().last().unwrap()["cache_control"]["type"], "ephemeral");
}

proptest! {
    #[test]
    fn properties_no_history_makes_an_illegal_request(log in histories(12), wire in 0usize..3, own in any::<bool>()) {
        let (wire, provider) = WIRES[wire];
        let options = RequestOptions { thinking: Thinking::Budget(2_000), ..RequestOptions::default() };
        let provider = if own { provider } else { "another" };
        match build(wire, provider, &log, &options) {
            Ok(request) => check(wire, &request.to_json()),
            Err(error) => prop_assert_eq!(error, BuildError::Empty),
        }
    }
}

/// Checks the rules of the providers that a request alone can break.
fn check(wire: Wire, request: &Value) {
    match wire {
        Wire::Anthropic => check_anthropic(request),
        Wire::Chat => check_chat(request),
        Wire::Responses => check_responses(request),
    }
}

fn legal_id(id: &Value, limit: usize) -> String {
    let id = id.as_str().unwrap();
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    assert!(!id.is_empty() && id.len() <= limit && id.bytes().all(legal), "illegal id {id:?}");
    id.to_owned()
}

fn check_anthropic(request: &Value) {
    let turns = request["messages"].as_array().unwrap();
    let mut open: Vec<String> = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        let role = turn["role"].as_str().unwrap();
        assert_eq!(role, ["user", "assistant"][at % 2], "roles alternate, the user first");
        let blocks = turn["content"].as_array().unwrap();
        assert!(!blocks.is_empty());
        let kinds: Vec<&str> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
        if role == "user" {
            let results: Vec<String> = blocks
                .iter()
                .take_while(|block| block["type"] == "tool_result")
                .map(|block| legal_id(&block["tool_use_id"], 64))
                .collect();
            assert_eq!(results, open, "results of the calls before stand first");
            assert_eq!(kinds.iter().filter(|kind| **kind == "tool_result").count(), results.len());
            open.clear();
        } else {
            assert!(!kinds.last().unwrap().contains("thinking"), "a turn does not end on a thought");
            let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
            open = calls.map(|block| legal_id(&block["id"], 64)).collect();
            for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
                assert!(block["input"].is_object());
            }
        }
        for block in blocks {
            match block["type"].as_str().unwrap() {
                "text" => assert!(!block["text"].as_str().unwrap().trim().is_empty(), "blank text"),
                "thinking" => {
                    assert!(
                        !block["signature"].as_str().unwrap().is_empty()
                            && block.get("cache_control").is_none()
                    );
                }
                "tool_result" if block["is_error"] == true => {
                    assert!(block["content"].as_array().unwrap().iter().all(|part| part["type"] == "text"));
                }
                _ => {}
            }
        }
    }
    assert!(open.is_empty() && turns.last().unwrap()["role"] == "user", "the user speaks last");
    assert!(request.to_string().matches("\"cache_control\"").count() <= 4);
}

fn check_chat(request: &Value) {
    let mut open: Vec<String> = Vec::new();
    for (at, message) in request["messages"].as_array().unwrap().iter().enumerate() {
        let role = message["role"].as_str().unwrap();
        assert!(role != "system" || at == 0, "the system prompt stands first");
        if role == "tool" {
            assert_eq!(legal_id(&message["tool_call_id"], 40), open.remove(0));
            assert!(!message["content"].as_str().unwrap().is_empty());
            continue;
        }
        assert!(open.is_empty(), "every call has its result right after it");
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        assert!(message["content"] != json!([]) && (!message["content"].is_null() || !calls.is_empty()));
        for call in calls {
            open.push(legal_id(&call["id"], 40));
            let input: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
            assert!(input.is_object());
        }
    }
    assert!(open.is_empty());
}

fn check_responses(request: &Value) {
    let items = request["input"].as_array().unwrap();
    let mut open: Vec<String> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        match item["type"].as_str().unwrap() {
            "function_call" => open.push(legal_id(&item["call_id"], 64)),
            "function_call_output" => assert_eq!(legal_id(&item["call_id"], 64), open.remove(0)),
            "reasoning" => {
                let next = items[at + 1]["type"].as_str().unwrap();
                assert!(
                    matches!(next, "reasoning" | "message" | "function_call"),
                    "a thought needs what follows it"
                );
                assert!(item["encrypted_content"].is_string());
            }
            "message" => {
                // Text of the model may come between its calls.
                assert!(open.is_empty() || item["role"] == "assistant", "every call has its result");
                if item["role"] == "assistant" {
                    // A list of `output_text` would need the ids and statuses of items that the provider stores.
                    assert!(!item["content"].as_str().unwrap().is_empty());
                    continue;
                }
                let parts = item["content"].as_array().unwrap();
                assert!(!parts.is_empty());
                let is_image = |part: &&Value| part["type"] == "input_image";
                assert!(parts.iter().filter(is_image).all(|part| part["detail"] == "auto"));
            }
            other => panic!("{other}"),
        }
    }
    assert!(open.is_empty());
}

#[test]
fn an_input_that_is_not_an_object_is_wrapped_in_one() {
    let state = ToolState::completed(json!("ls -la"), "x");
    let log = History::new().user("go").tool_state("bash", state).messages();
    let request = json_of(Wire::Anthropic, "anthropic", &log, &RequestOptions::default());
    assert_eq!(request["messages"][1]["content"][0]["input"], json!({ "input": "ls -la" }));
}
