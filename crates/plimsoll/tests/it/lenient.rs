//! An invalid value does not make a session unreadable: it is kept and named in the notes.

use plimsoll::log::{Effect, Notes};
use plimsoll::{Chars, Log, Message, Millis, PartBody, Policy, Tokens, Window};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

/// A session with every field that the log knows, and some unknown ones.
fn session() -> Value {
    json!([
        {
            "info": { "id": "msg_1", "sessionID": "ses_1", "role": "user", "time": { "created": 1 },
                "agent": "build", "model": { "providerID": "p", "modelID": "m" } },
            "parts": [
                { "id": "prt_1", "sessionID": "ses_1", "type": "text", "text": "hi", "synthetic": false,
                    "ignored": false },
                { "id": "prt_2", "type": "file", "mime": "image/png", "filename": "f.png", "url": "data:x" }
            ]
        },
        {
            "info": { "id": "msg_2", "sessionID": "ses_1", "role": "assistant", "parentID": "msg_1",
                "time": { "created": 2, "completed": 3, "odd": 1 }, "modelID": "m", "mode": "build",
                "agent": "build", "cost": 0.5, "finish": "stop",
                "tokens": { "total": 9, "input": 1, "output": 2, "reasoning": 3,
                    "cache": { "read": 4, "write": 5, "odd": 6 }, "odd": 7 },
                "error": { "name": "X" }, "odd": [1, { "a": 2 }] },
            "parts": [
                { "id": "prt_3", "type": "step-start", "snapshot": "s" },
                { "id": "prt_4", "type": "reasoning", "text": "hm", "metadata": { "a": { "signature": "x" } } },
                { "id": "prt_5", "type": "tool", "callID": "c1", "tool": "bash", "state": {
                    "status": "completed", "input": { "command": "ls" }, "output": "a.txt", "error": "e",
                    "title": "t", "metadata": { "exit": 0 },
                    "time": { "start": 2, "end": 3, "compacted": 4, "odd": 5 },
                    "attachments": [{ "type": "file", "url": "u" }] } },
                { "id": "toolu_1", "type": "tool_use", "name": "bash", "input": { "a": 1 } },
                { "id": "prt_6", "type": "tool_call", "callID": "c2", "tool": "bash", "input": { "a": 1 } },
                { "id": "prt_7", "type": "tool_result", "callID": "c2", "tool": "bash", "text": "r",
                    "isError": false, "time": { "compacted": 5, "start": 1, "odd": 6 } },
                { "id": "prt_8", "type": "text", "text": "done", "plimsoll": { "theirs": 1 } }
            ],
            "beside": 1
        },
        {
            "info": { "id": "msg_3", "role": "user" },
            "parts": [
                { "id": "prt_9", "type": "compaction", "auto": true, "tail_start_id": "msg_2",
                    "compactedMessages": 2, "compactedTokens": 9, "extractive": true, "setAside": 7,
                    "summary": "s", "overflow": true },
                { "id": "prt_10", "type": "tool", "callID": "c3", "tool": "x", "state": {} },
                { "id": "prt_11", "type": "never-heard-of", "state": 1 }
            ]
        }
    ])
}

/// Fields that the log does not interpret, so any value is valid.
const FREE: [&str; 12] = [
    "odd", "model", "error", "snapshot", "metadata", "input", "title", "theirs", "plimsoll", "beside",
    "overflow", "snapshot",
];

/// The JSON pointers of all values in a value, outermost first.
fn places(value: &Value) -> Vec<String> {
    fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        match value {
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, item)| walk(item, &format!("{path}/{at}"), found));
            }
            Value::Object(map) => {
                map.iter().for_each(|(key, item)| walk(item, &format!("{path}/{key}"), found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(value, "", &mut found);
    found
}

/// Whether a place is the list itself or a message, which must be an object.
fn is_structural(place: &str) -> bool {
    place.matches('/').count() < 2
}

fn with(place: &str, value: Value) -> Value {
    let mut session = session();
    *session.pointer_mut(place).unwrap() = value;
    session
}

/// Checks that everything of the source is written back. Missing fields may be written as an empty text, list or zero.
fn assert_written_back(source: &Value, written: &Value) {
    fn is_empty(value: &Value) -> bool {
        match value {
            Value::Object(map) => map.values().all(is_empty),
            other => *other == json!("") || *other == json!(0) || *other == json!([]),
        }
    }
    match (source, written) {
        (Value::Object(source), Value::Object(written)) => {
            for (key, value) in written {
                match source.get(key) {
                    Some(said) => assert_written_back(said, value),
                    None => assert!(is_empty(value), "`{key}` is {value}, but not in the source"),
                }
            }
            let lost = source.keys().find(|key| !written.contains_key(*key));
            assert_eq!(lost, None, "lost in {written:?}");
        }
        (Value::Array(source), Value::Array(written)) => {
            assert_eq!(source.len(), written.len());
            source.iter().zip(written).for_each(|(source, written)| assert_written_back(source, written));
        }
        _ => assert_eq!(source, written),
    }
}

/// Reads a session, and checks that it is written back unchanged and that the engine can work with it.
fn read(session: &Value) -> (Vec<Message>, Notes) {
    let json = session.to_string();
    let (messages, notes) = Message::read_noted(&json).unwrap();
    let written = serde_json::to_value(&messages).unwrap();
    assert_written_back(session, &written);
    let (again, noted) = Message::read_noted(&written.to_string()).unwrap();
    // The order of fields and notes may differ.
    assert_eq!((&again, noted.count()), (&messages, notes.count()));
    assert!(noted.first().iter().all(|note| notes.first().contains(note)));
    assert_eq!(Message::read_strict(&json).is_ok(), notes.is_empty());
    let log = Log::from_messages(messages.clone());
    for policy in [Policy::default(), plimsoll::Preset::Openfork.policy()] {
        Window::of(&log, &policy).check().unwrap();
    }
    (messages, notes)
}

#[test]
fn a_session_with_every_known_field_has_nothing_to_note() {
    let (_, notes) = read(&session());
    assert_eq!(notes.first(), []);
}

#[rstest]
#[case("/1/info/finish", json!(null), "[1].info.finish: expected a string, found null")]
#[case("/1/info/role", json!(null), "[1].info.role: expected a string, found null")]
#[case("/1/info/id", json!(""), "[1].info.id: expected a name, found an empty string")]
#[case("/1/info/id", json!(7), "[1].info.id: expected a name, found 7")]
#[case("/1/info/cost", json!("free"), "[1].info.cost: expected a number, found a string of 4 bytes")]
#[case("/1/info", json!(null), "[1].info: expected an object, found null")]
#[case("/1/parts", json!({}), "[1].parts: expected an array, found an object of 0 fields")]
#[case("/1/parts/0", json!(null), "[1].parts[0]: expected an object, found null")]
#[case("/1/parts/0", json!({}), "[1].parts[0]: a part needs a `type`")]
#[case("/1/parts/0/type", json!(1), "[1].parts[0].type: the kind of a part must be a string")]
#[case("/1/parts/2/state", json!("x"), "[1].parts[2].state: expected an object, found a string of 1 bytes")]
#[case("/1/parts/2/state/output", json!(null), "[1].parts[2].state.output: expected a string, found null")]
#[case(
    "/1/info/time/created",
    json!(1.5),
    "[1].info.time.created: expected a whole number of zero or more, found 1.5"
)]
#[case(
    "/1/info/tokens/cache/read",
    json!(-1),
    "[1].info.tokens.cache.read: expected a whole number of zero or more, found -1"
)]
fn an_invalid_value_is_kept_and_named(#[case] place: &str, #[case] value: Value, #[case] note: &str) {
    let (_, notes) = read(&with(place, value));
    let messages: Vec<String> = notes.first().iter().map(ToString::to_string).collect();
    assert_eq!(messages, [format!("{note}; kept unchanged")]);
}

#[test]
fn a_float_is_truncated_and_a_number_out_of_range_is_ignored() {
    let created = |value: Value| {
        let (messages, notes) = read(&with("/1/info/time/created", value));
        assert_eq!(notes.count(), 1);
        messages[1].info.time.as_ref().unwrap().created
    };
    assert_eq!(created(json!(1_700_000_000_000.75)), Some(Millis(1_700_000_000_000)));
    assert_eq!(created(json!(2.0)), Some(Millis(2)));
    assert_eq!(created(json!(-0.5)), None);
    assert_eq!(created(json!(1e300)), None);
    // The first whole number that does not fit is a float to the parser.
    let huge: Value = serde_json::from_str("18446744073709551616").unwrap();
    assert_eq!(created(huge), None);
    let (messages, _) = read(&with("/1/info/tokens/input", json!(1e3)));
    assert_eq!(messages[1].info.tokens.as_ref().unwrap().input, Tokens(1_000));
}

#[test]
fn a_field_that_is_set_replaces_the_invalid_value() {
    let open = json!([{ "info": { "id": "msg_1", "role": "assistant", "finish": 7, "time": { "completed": "late" },
        "tokens": null }, "parts": [] }]);
    let mut log = Log::from_messages(read(&open).0);
    let usage = plimsoll::Usage::new(Tokens(3), Tokens(4));
    log.finish(&"msg_1".into(), "stop", Some(usage), Millis(9)).unwrap();
    let info = &serde_json::to_value(log.messages()).unwrap()[0]["info"];
    assert_eq!((&info["finish"], &info["time"]["completed"]), (&json!("stop"), &json!(9)));
    assert_eq!(info["tokens"]["input"], 3);

    let names = with("/1/info/id", json!(""));
    let log = Log::from_messages(Message::read_all(&names.to_string()).unwrap());
    let name = serde_json::to_value(log.messages()).unwrap()[1]["info"]["id"].clone();
    assert_eq!(name, log[1].info.id.as_str());
    assert!(!log[1].info.id.is_empty());
}

#[test]
fn a_mark_with_a_fraction_that_is_lifted_does_not_come_back() {
    for place in ["/1/parts/2/state/time/compacted", "/1/parts/5/time/compacted"] {
        let session = with(place, json!(4.5));
        let messages = Message::read_all(&session.to_string()).unwrap();
        let index = if place.contains("state") { 2 } else { 5 };
        assert_eq!(messages[1].parts[index].cleared(), Some(Millis(4)), "{place}");
        let mut parts = messages;
        match &mut parts[1].parts[index].body {
            PartBody::Tool(tool) => tool.state.time.compacted = None,
            PartBody::ToolResult(result) => result.compacted = None,
            other => panic!("{other:?}"),
        }
        let written = serde_json::to_value(&parts).unwrap();
        assert_eq!(written.pointer(place), None, "{place}");
        let beside = place.replace("compacted", "odd");
        assert!(written.pointer(&beside).is_some(), "the other times stay: {place}");
    }
}

#[test]
fn our_marks_and_foreign_fields_can_have_the_same_name() {
    let mut log = Log::from_messages(Message::read_all(&session().to_string()).unwrap());
    log.mark(&"prt_8".into(), Effect::Cut(Chars(300)), &"rcp_1".into(), Millis(4)).unwrap();
    let written = serde_json::to_value(log.messages()).unwrap();
    let again = Message::read_strict(&written.to_string()).unwrap();
    assert_eq!(again[1].parts[6], log[1].parts[6]);
    assert_eq!(written[1]["parts"][6]["plimsoll"]["theirs"], 1);
    assert_eq!(again[1].parts[6].marks.len(), 1);
}

#[test]
fn invalid_marks_are_kept_and_noted() {
    for (marks, note) in [
        (json!({ "marks": 7 }), "plimsoll.marks: expected an array, found 7"),
        (json!({ "marks": [null] }), "plimsoll.marks[0]: expected a mark, found null"),
        (
            json!({ "cut": { "keep": 300, "at": -1 } }),
            "plimsoll.cut.at: expected a whole number of zero or more, found -1",
        ),
    ] {
        let (messages, notes) = read(&with("/1/parts/6/plimsoll", marks));
        assert!(messages[1].parts[6].marks.is_empty());
        assert_eq!(notes.first()[0].to_string(), format!("[1].parts[6].{note}; kept unchanged"));
    }
}

/// Replaces every value of a session with every kind of value.
#[test]
fn any_replaced_value_is_kept_and_named() {
    let others = [
        json!(null),
        json!(true),
        json!(-1),
        json!(7),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("other"),
        json!("nul \u{0} in it"),
        json!([]),
        json!([null, { "type": "text" }]),
        json!({}),
        json!({ "type": "text", "text": "x" }),
    ];
    let whole = session();
    for place in places(&whole) {
        for other in &others {
            let changed = if place.is_empty() { other.clone() } else { with(&place, other.clone()) };
            if is_structural(&place) {
                let is_message = other.is_object() && !place.is_empty();
                let is_list = place.is_empty() && other.as_array().is_some_and(Vec::is_empty);
                let read = Message::read_all(&changed.to_string());
                assert_eq!(read.is_ok(), is_message || is_list, "{place}: {other}");
                continue;
            }
            let (_, notes) = read(&changed);
            let was = whole.pointer(&place).unwrap();
            if !is_free(&place) && !is_alike(&place, was, other) {
                let at = named(&place);
                let count = notes.first().iter().filter(|note| note.at == at).count();
                assert_eq!(count, 1, "{place}: {was} replaced by {other}: {:?}", notes.first());
            }
        }
    }
}

/// Converts `/1/parts/0/text` to the form in notes: `[1].parts[0].text`.
fn named(place: &str) -> String {
    let mut named = String::new();
    for step in place.split('/').skip(1) {
        match step.parse::<usize>() {
            Ok(index) => named += &format!("[{index}]"),
            Err(_) if named.is_empty() => named += step,
            Err(_) => named += &format!(".{step}"),
        }
    }
    named
}

fn is_free(place: &str) -> bool {
    let is_in_part_of_unknown_kind = place.starts_with("/2/parts/2/state");
    let is_time_without_a_mark = place == "/1/parts/5/time";
    place.split('/').any(|step| FREE.contains(&step))
        || place.contains("/attachments/")
        || (place.ends_with("/sessionID") && place.contains("/parts/"))
        || is_in_part_of_unknown_kind
        || is_time_without_a_mark
}

/// Whether a value is valid in place of the other.
fn is_alike(place: &str, was: &Value, is: &Value) -> bool {
    let is_name = place.ends_with("/id") || place.ends_with("/status") || place == "/1/parts/4/callID";
    match (was, is) {
        (Value::Number(was), Value::Number(is)) => !was.is_u64() || is.is_u64(),
        (Value::String(_), Value::String(text)) => !is_name || !text.is_empty(),
        (was, is) => std::mem::discriminant(was) == std::mem::discriminant(is),
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    let known = prop::sample::select(vec![
        "id",
        "type",
        "text",
        "state",
        "time",
        "created",
        "compacted",
        "cut",
        "at",
        "keep",
        "plimsoll",
        "cache",
        "read",
        "info",
        "parts",
        "role",
        "content",
    ]);
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let key = prop_oneof![known.clone().prop_map(str::to_owned), ".{0,3}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn properties_a_replaced_value_is_read_or_was_the_message_itself(at: prop::sample::Index, value in any_json()) {
        let whole = session();
        let places = places(&whole);
        let place = &places[at.index(places.len())];
        let changed = if place.is_empty() { value } else { with(place, value) };
        let read = Message::read_noted(&changed.to_string());
        prop_assert!(read.is_ok() || is_structural(place), "{}", place);
        let Ok((messages, notes)) = read else { return Ok(()) };
        let written = serde_json::to_string(&messages).unwrap();
        prop_assert_eq!(&Message::read_noted(&written).unwrap().0, &messages);
        prop_assert!(notes.first().iter().all(|note| !note.to_string().is_empty()));
        Window::of(&Log::from_messages(messages), &Policy::default()).check().unwrap();
    }
}
