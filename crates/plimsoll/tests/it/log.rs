//! The log's types, their JSON, and the log's rules.

use plimsoll::log::{Effect, ShapeError};
use plimsoll::{Ids, Log, LogError, Message, Millis, Part, PartBody, ReadError, ToolState};
use plimsoll_testkit::{History, ids};
use rstest::rstest;
use serde_json::{Value, json};

fn round_trip(value: Value) {
    let message: Message = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&message).unwrap(), value);
}

#[test]
fn an_opencode_message_round_trips() {
    round_trip(json!({
        "info": {
            "id": "msg_1", "sessionID": "ses_1", "role": "assistant", "parentID": "msg_0",
            "time": { "created": 1, "completed": 2, "odd": true },
            "modelID": "m", "providerID": "p", "mode": "build", "agent": "build",
            "path": { "cwd": "/a", "root": "/" }, "cost": 0, "summary": true, "finish": "stop",
            "tokens": { "total": 5, "input": 1, "output": 2, "reasoning": 0, "cache": { "read": 0, "write": 3 } },
            "error": { "name": "X" }, "unknown": [1, 2]
        },
        "parts": [
            { "id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "step-start", "snapshot": "s" },
            { "id": "prt_2", "type": "text", "text": "hi", "synthetic": false, "time": { "start": 1, "end": 2 } },
            { "id": "prt_3", "type": "reasoning", "text": "hm", "metadata": { "anthropic": { "signature": "x" } } },
            { "id": "prt_4", "type": "tool", "callID": "c", "tool": "bash", "state": {
                "status": "completed", "input": { "b": 1, "a": [null, 1.5] }, "output": "o", "title": "t",
                "metadata": { "exit": 0 }, "time": { "start": 1, "end": 2, "compacted": 3 }, "attachments": [] } },
            { "id": "prt_5", "type": "tool", "callID": "c2", "tool": "x", "state": { "status": "weird" } },
            { "id": "prt_6", "type": "compaction", "auto": true, "overflow": true, "tail_start_id": "msg_9" },
            { "id": "prt_7", "type": "file", "mime": "image/png", "filename": "f", "url": "u", "source": {} },
            { "id": "prt_8", "type": "never-heard-of", "state": "not an object", "text": 7 },
            { "type": "tool_result", "tool_use_id": "c", "content": [{ "type": "text", "text": "r" }], "is_error": true },
            { "type": "tool_result", "text": "r", "name": "bash", "callID": "c" },
            { "type": "tool_use", "id": "toolu_1", "name": "bash", "input": { "a": 1 } },
            { "type": "tool_call", "callID": "c", "tool": "bash", "input": "text" }
        ],
        "beside": 1
    }));
}

/// Found by fuzzing: the last digit of a float changed.
#[test]
fn floats_round_trip_to_the_last_digit() {
    let json = r#"[{"info":{"cost":2.2222000000000002e30,"x":0.1},"parts":[]}]"#;
    let messages = Message::read_all(json).unwrap();
    let again = Message::read_all(&serde_json::to_string(&messages).unwrap()).unwrap();
    assert_eq!(again, messages);
}

#[test]
fn a_users_summary_object_is_not_a_summary_flag() {
    let value = json!({ "info": { "role": "user", "summary": { "diffs": [] } }, "parts": [] });
    round_trip(value.clone());
    let message: Message = serde_json::from_value(value).unwrap();
    assert!(!message.info.summary);
}

#[test]
fn marks_survive_a_round_trip() {
    let mut log = History::new().user("u").tool("read", "x").marker().summary("s").log();
    let receipt = "rcp_1".into();
    log.mark(&"m0.0".into(), Effect::Cut(plimsoll::Chars(300)), &receipt, Millis(4)).unwrap();
    log.mark(&"m0.0".into(), Effect::Pin("u".into()), &receipt, Millis(4)).unwrap();
    log.mark(&"m1.0".into(), Effect::clear(), &receipt, Millis(5)).unwrap();
    log.mark(&"m3.0".into(), Effect::Hide, &receipt, Millis(5)).unwrap();
    log.set_aside(&"m2".into(), Millis(6)).unwrap();
    let json = serde_json::to_string(log.messages()).unwrap();
    assert_eq!(Message::read_all(&json).unwrap(), log.messages());
}

#[test]
fn tool_inputs_keep_the_order_of_their_keys() {
    let text = r#"{"zebra":1,"apple":{"y":1,"b":2},"mango":3}"#;
    let json = format!(
        r#"[{{"info":{{}},"parts":[{{"type":"tool","callID":"c","tool":"t","state":{{"status":"completed","input":{text}}}}}]}}]"#
    );
    let messages = Message::read_all(&json).unwrap();
    let tool = messages[0].parts[0].as_tool().unwrap();
    assert_eq!(tool.state.input.as_ref().unwrap().json().as_str(), text);
}

#[rstest]
#[case("[{]", "not valid JSON: key must be a string at line 1 column 3")]
#[case("7", "not a list of messages: the value: expected an array, found 7")]
#[case("[7]", "not a list of messages: [0]: expected an object, found 7")]
#[case(r#"[{"info":[]}]"#, "not a list of messages: [0].info: expected an object, found an array of 0")]
#[case(r#"[{"info":{"role":5}}]"#, "not a list of messages: [0].info.role: expected a string, found 5")]
#[case(
    r#"[{"parts":{}}]"#,
    "not a list of messages: [0].parts: expected an array, found an object of 0 fields"
)]
#[case(
    r#"[{},{"parts":[{"type":"text","text":null}]}]"#,
    "not a list of messages: [1].parts[0].text: expected a string, found null"
)]
#[case(
    r#"[{"parts":[{"type":"tool"}]}]"#,
    "not a list of messages: [0].parts[0]: a tool part needs a `state`"
)]
#[case(
    r#"[{"parts":[{"type":"tool","state":{"time":{"start":-1}}}]}]"#,
    "not a list of messages: [0].parts[0].state.time.start: expected a whole number of zero or more, found -1"
)]
#[case(
    r#"[{"info":{"tokens":{"cache":{"read":"7"}}}}]"#,
    "not a list of messages: [0].info.tokens.cache.read: expected a whole number of zero or more, found a string of 1 bytes"
)]
#[case(
    r#"[{"parts":[{"type":1}]}]"#,
    "not a list of messages: [0].parts[0].type: the kind of a part must be a string"
)]
fn invalid_input_is_reported_with_place_and_reason(#[case] json: &str, #[case] message: &str) {
    assert_eq!(Message::read_strict(json).unwrap_err().to_string(), message);
}

#[test]
fn an_error_does_not_repeat_private_text() {
    let error = Message::read_strict(r#"[{"info":{"time":"hunter2"}}]"#).unwrap_err();
    assert!(matches!(&error, ReadError::Shape(ShapeError { at, .. }) if at == "[0].info.time"));
    assert!(!error.to_string().contains("hunter2"));
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    let json = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(Message::read_all(&json).unwrap_err().to_string().contains("recursion limit"));
}

#[test]
fn an_export_is_read_like_a_list() {
    let json = r#"{"info":{"id":"ses_1"},"messages":[{"info":{"role":"user"},"parts":[]}]}"#;
    assert_eq!(Message::read_all(json).unwrap().len(), 1);
}

/// The prefix is the time in milliseconds times 4096 plus a counter, as in OpenCode's ids.
#[test]
fn ids_have_opencodes_shape_and_order() {
    let mut ids = ids();
    let now = Millis(1_794_775_451_033);
    let (first, second) = (ids.message(now), ids.message(now));
    assert!(first.as_str().starts_with("msg_1e0f40599001"));
    assert!(second.as_str().starts_with("msg_1e0f40599002"));
    assert_eq!(first.as_str().len(), "msg_1e0f40599001MqRMKGqo0oDpjo".len());
    assert!(first.as_str()[4..].chars().all(|c| c.is_ascii_alphanumeric()));
    let (old, new) = (ids.session(Millis(1)), ids.session(now));
    assert!(new < old, "newer sessions sort first");
}

#[test]
fn ids_ascend_even_if_the_clock_jumps_back() {
    let mut ids = Ids::new(|| 0);
    let times = [5_000u64, 5_000, 4_000, 1, 6_000, 6_000];
    let made: Vec<_> = times.iter().map(|at| ids.part(Millis(*at))).collect();
    assert!(made.windows(2).all(|pair| pair[0] < pair[1]), "{made:?}");
}

#[test]
fn the_log_rejects_missing_and_repeated_ids() {
    let mut log = Log::new();
    let message = |id: &str, part: &str| Message::user(id.into(), part.into(), "x");
    assert_eq!(log.append(message("", "p")), Err(LogError::Nameless { kind: "message" }));
    assert_eq!(log.append(message("m", "")), Err(LogError::Nameless { kind: "part" }));
    log.append(message("m", "p")).unwrap();
    let error = log.append(message("m2", "p")).unwrap_err();
    assert_eq!(error.to_string(), "part `p` already exists in this log");
    assert_eq!(log.len(), 1, "a rejected message changes nothing");
    assert!(log.append(message("m2", "p2")).is_ok());
}

#[test]
fn imported_messages_get_unique_ids_and_keep_everything_else() {
    let bare: Vec<Message> = (0..3).map(|_| History::new().user("x").messages().remove(0)).collect();
    let log = Log::from_messages(bare);
    let mut ids: Vec<&str> = log.iter().map(|message| message.info.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    assert!(log.iter().all(|message| log.part(&message.parts[0].id).is_ok()));
}

#[test]
fn parts_only_go_forward() {
    let mut log = Log::new();
    let tool = |state| Part::tool("t".into(), "c", "bash", state);
    let parts = vec![Part::text("p".into(), "hel"), tool(ToolState::pending(json!({})))];
    log.append(Message { parts: parts.into(), ..Message::begun("m".into(), Millis(1)) }).unwrap();
    log.advance(Part::text("p".into(), "hello")).unwrap();
    assert!(log.advance(Part::text("p".into(), "help")).is_err());
    log.advance(tool(ToolState::completed(json!({}), "out"))).unwrap();
    for wrong in [ToolState::pending(json!({})), ToolState::completed(json!({}), "other")] {
        let error = log.advance(tool(wrong)).unwrap_err();
        assert!(error.to_string().starts_with("part `t` cannot change like that"), "{error}");
    }
    assert!(log.advance(Part::text("t".into(), "now text")).is_err());
    assert!(matches!(&log.part(&"p".into()).unwrap().body, PartBody::Text(text) if &*text.text == "hello"));
}

#[test]
fn a_finished_call_keeps_its_input_error_and_marks() {
    let mut log =
        History::new().user("u").tool_state("bash", ToolState::failed(json!({ "a": 1 }), "boom")).log();
    log.mark(&"m1.0".into(), Effect::clear(), &"rcp_1".into(), Millis(5)).unwrap();
    for wrong in [ToolState::failed(json!({ "a": 2 }), "boom"), ToolState::failed(json!({ "a": 1 }), "other")]
    {
        assert!(log.advance(Part::tool("m1.0".into(), "call_1", "bash", wrong)).is_err());
    }
    let same = ToolState::failed(json!({ "a": 1 }), "boom");
    log.advance(Part::tool("m1.0".into(), "call_1", "bash", same)).unwrap();
    assert_eq!(log.part(&"m1.0".into()).unwrap().cleared(), Some(Millis(5)));
}

/// Existing ids with the form of generated ones must not make generating slow.
#[test]
fn naming_20000_messages_is_linear() {
    let named =
        |n: usize| Message::user(format!("msg_{n}").as_str().into(), format!("prt_{n}").as_str().into(), "x");
    let bare = Message::user("".into(), "".into(), "x");
    let messages = (0..20_000).map(named).chain(std::iter::repeat_n(bare, 20_000));
    assert_eq!(Log::from_messages(messages).len(), 40_000);
}
