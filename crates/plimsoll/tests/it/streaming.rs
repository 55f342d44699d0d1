//! Streaming answers: growing texts, updates of a message, and what is final.

use plimsoll::log::{MessageUpdate, ReasoningPart, ToolStatus};
use plimsoll::{
    Chars, Counter, Log, LogError, Memo, Message, Millis, Part, PartBody, Policy, Text, Tokens, ToolState,
    Usage, Window,
};
use plimsoll_testkit::odd_text;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Number, Value, json};

const NOW: Millis = Millis(1_000);

/// A log in which the model has started to answer: `a` has a text `t`, a thought `r` and a call `c`.
fn begun() -> Log {
    let mut log = Log::new();
    log.append(Message::user("u".into(), "u.0".into(), "go")).unwrap();
    log.append(Message::begun("a".into(), NOW)).unwrap();
    let thought = PartBody::Reasoning(ReasoningPart { text: Text::default() });
    log.append_part(&"a".into(), Part::new("r".into(), thought)).unwrap();
    log.append_part(&"a".into(), Part::text("t".into(), "")).unwrap();
    let call = Part::tool("c".into(), "call_1", "bash", ToolState::pending(json!({})));
    log.append_part(&"a".into(), call).unwrap();
    log
}

fn text(log: &Log, part: &str) -> Text {
    match &log.part(&part.into()).unwrap().body {
        PartBody::Text(text) => text.text.clone(),
        PartBody::Reasoning(reasoning) => reasoning.text.clone(),
        other => panic!("{other:?}"),
    }
}

fn finished(reason: &str) -> MessageUpdate {
    MessageUpdate { finish: Some(reason.into()), ..MessageUpdate::default() }
}

/// A counter of bytes that has no cached counts.
struct Bytes;

impl Counter for Bytes {
    fn name(&self) -> &'static str {
        "bytes"
    }
    fn count(&self, text: &str) -> Tokens {
        Tokens(text.len() as u64)
    }
}

proptest! {
    #[test]
    fn properties_extending_piece_by_piece_is_appending_whole(
        pieces in prop::collection::vec(odd_text(), 0..8),
        held in any::<bool>(),
    ) {
        let whole = pieces.concat();
        let counter = Memo::new(Bytes);
        let mut log = begun();
        let mut windows = Vec::new();
        let mut so_far = String::new();
        for piece in &pieces {
            for part in ["t", "r"] {
                log.extend(&part.into(), piece).unwrap();
            }
            so_far.push_str(piece);
            let grown = text(&log, "t");
            prop_assert_eq!(counter.count_text(&grown), Tokens(so_far.len() as u64), "no stale count");
            if held {
                windows.push((Window::of(&log, &Policy::default()), so_far.clone()));
            }
        }
        let appended = Text::from(whole.as_str());
        for part in ["t", "r"] {
            let grown = text(&log, part);
            prop_assert_eq!(grown.as_str(), whole.as_str());
            prop_assert_eq!(grown.chars(), Chars::of(&whole));
            prop_assert_eq!(&grown, &appended);
            prop_assert_eq!(serde_json::to_string(&grown).unwrap(), serde_json::to_string(&appended).unwrap());
        }
        let mut other = begun();
        other.advance(Part::text("t".into(), whole.as_str())).unwrap();
        let thought = PartBody::Reasoning(ReasoningPart { text: appended });
        other.advance(Part::new("r".into(), thought)).unwrap();
        prop_assert_eq!(&log, &other);
        // Text that was read before does not change when the log grows.
        for (window, then) in windows {
            let shown = window.messages.iter().flat_map(|message| &message.blocks).find_map(|block| match block {
                plimsoll::Block::Text { text, part: Some(part) } if part.as_str() == "t" => Some(text.as_str()),
                _ => None,
            });
            prop_assert_eq!(shown.unwrap_or_default(), if then.trim().is_empty() { "" } else { then.as_str() });
        }
    }
}

/// OpenCode keeps the input of a call that is still being written as raw text.
#[test]
fn the_input_of_a_call_streams_in_as_raw_text() {
    let mut log = begun();
    for piece in ["{\"command\":", "\"ls\"}"] {
        log.extend(&"c".into(), piece).unwrap();
    }
    let state = serde_json::to_value(log.part(&"c".into()).unwrap()).unwrap()["state"].clone();
    assert_eq!(state, json!({ "status": "pending", "input": {}, "raw": "{\"command\":\"ls\"}" }));
    let mut running = ToolState::pending(json!({ "command": "ls" }));
    running.status = ToolStatus::Running;
    log.advance(Part::tool("c".into(), "call_1", "bash", running)).unwrap();
    let error = log.extend(&"c".into(), "more").unwrap_err();
    assert_eq!(
        error.to_string(),
        "part `c` cannot change like that: the input of a started call cannot change"
    );
}

#[test]
fn only_what_streams_can_be_extended() {
    let mut log = begun();
    let missing = log.extend(&"nobody".into(), "x").unwrap_err();
    assert_eq!(missing, LogError::Missing { kind: "part", id: "nobody".into() });
    let file: Part = serde_json::from_value(json!({ "id": "f", "type": "file", "url": "u" })).unwrap();
    log.append_part(&"a".into(), file).unwrap();
    let error = log.extend(&"f".into(), "x").unwrap_err();
    assert!(matches!(error, LogError::Rewrite { .. }), "{error}");
    // Older parts can be extended too, because thoughts, text and calls may alternate.
    log.extend(&"r".into(), "hm").unwrap();
    assert_eq!(text(&log, "r").as_str(), "hm");
}

#[rstest]
#[case::finished(finished("stop"))]
#[case::failed(MessageUpdate::failed("APIError", "overloaded"))]
#[case::aborted(MessageUpdate::aborted("the user pressed escape"))]
fn a_finished_message_takes_no_more_parts_or_text(#[case] end: MessageUpdate) {
    let mut log = begun();
    log.extend(&"t".into(), "Done").unwrap();
    log.record(&"a".into(), end, Millis(2_000)).unwrap();
    let before = log.clone();
    let error = log.append_part(&"a".into(), Part::text("late".into(), "x")).unwrap_err();
    assert_eq!(error.to_string(), "message `a` is finished: it takes no more parts");
    for part in ["t", "r", "c"] {
        let error = log.extend(&part.into(), " and more").unwrap_err();
        assert_eq!(error.to_string(), "message `a` is finished: its parts grow no more");
    }
    let error = log.advance(Part::text("t".into(), "Done and more")).unwrap_err();
    assert_eq!(error.to_string(), "message `a` is finished: its parts grow no more");
    assert_eq!(log, before, "a rejected update changes nothing");
    // The same text can be set again, for example with its end time.
    log.advance(Part::text("t".into(), "Done")).unwrap();
    // Results come after the model has stopped.
    let mut state = ToolState::completed(json!({}), "README.md");
    state.status = ToolStatus::Completed;
    log.advance(Part::tool("c".into(), "call_1", "bash", state)).unwrap();
    assert!(log.part(&"c".into()).unwrap().as_tool().unwrap().state.status.is_final());
}

#[test]
fn an_abort_has_opencodes_shape_and_keeps_what_was_done() {
    let mut log = begun();
    log.extend(&"t".into(), "I was about to").unwrap();
    log.record(&"a".into(), MessageUpdate::aborted("the user pressed escape"), Millis(2_000)).unwrap();
    let info = serde_json::to_value(&log[1]).unwrap()["info"].clone();
    let error = json!({ "name": "MessageAbortedError", "data": { "message": "the user pressed escape" } });
    assert_eq!((&info["error"], &info["time"]), (&error, &json!({ "created": 1_000, "completed": 2_000 })));
    let shown = |log: &Log| serde_json::to_string(&Window::of(log, &Policy::default())).unwrap();
    assert!(shown(&log).contains("I was about to"), "what was done before the abort stays in view");
    let mut failed = begun();
    failed.extend(&"t".into(), "I was about to").unwrap();
    failed.record(&"a".into(), MessageUpdate::failed("APIError", "overloaded"), NOW).unwrap();
    assert!(!shown(&failed).contains("I was about to"), "an answer that failed is not shown");
}

#[test]
fn an_update_adds_facts_and_rewrites_nothing() {
    let mut log = begun();
    let id = "a".into();
    let model = |name: &str| MessageUpdate { model_id: Some(name.into()), ..MessageUpdate::default() };
    log.record(&id, model("claude"), NOW).unwrap();
    log.record(&id, model("claude"), NOW).unwrap();
    let error = log.record(&id, model("gpt"), NOW).unwrap_err();
    assert_eq!(error.to_string(), "message `a` already has another model recorded");

    // Usage and cost are running totals while the answer streams.
    let usage = |input, output| MessageUpdate {
        usage: Some(Usage::new(Tokens(input), Tokens(output))),
        cost: Number::from_f64(output as f64 / 100.0),
        ..MessageUpdate::default()
    };
    log.record(&id, usage(500, 1), NOW).unwrap();
    log.record(&id, usage(500, 7), NOW).unwrap();
    let before = log.clone();
    let error = log.record(&id, usage(500, 3), NOW).unwrap_err();
    assert_eq!(error.to_string(), "message `a` already has another usage recorded");
    // Atomic: the finish of a rejected update is not recorded either.
    let refused = MessageUpdate { finish: Some("stop".into()), ..usage(400, 9) };
    log.record(&id, refused, NOW).unwrap_err();
    assert_eq!(log, before);

    log.finish(&id, "stop", Some(Usage::new(Tokens(500), Tokens(9))), Millis(2_000)).unwrap();
    let info = &log[1].info;
    assert_eq!((info.finish.as_deref(), info.model_id.as_deref()), (Some("stop"), Some("claude")));
    assert_eq!(info.tokens.as_ref().map(|usage| usage.output), Some(Tokens(9)));
    assert_eq!(info.time.as_ref().and_then(|time| time.completed), Some(Millis(2_000)));

    // Repeating an update changes nothing, not even the time.
    let before = log.clone();
    log.record(&id, finished("stop"), Millis(3_000)).unwrap();
    assert_eq!(log, before);
    for (late, what) in [
        (finished("length"), "finish reason"),
        (MessageUpdate::failed("APIError", "late"), "end"),
        (usage(500, 10), "usage"),
    ] {
        let error = log.record(&id, late, Millis(3_000)).unwrap_err();
        assert_eq!(error.to_string(), format!("message `a` already has another {what} recorded"));
    }
    assert_eq!(log, before);
}

/// The cost may arrive after the answer.
#[test]
fn missing_facts_can_be_recorded_after_the_end() {
    let mut log = begun();
    log.record(&"a".into(), finished("stop"), Millis(2_000)).unwrap();
    let late = MessageUpdate {
        usage: Some(Usage::new(Tokens(5), Tokens(1))),
        cost: Number::from_f64(0.25),
        model_id: Some("claude".into()),
        ..MessageUpdate::default()
    };
    log.record(&"a".into(), late, Millis(9_000)).unwrap();
    let info = serde_json::to_value(&log[1]).unwrap()["info"].clone();
    assert_eq!((&info["cost"], &info["modelID"]), (&json!(0.25), &json!("claude")));
    assert_eq!(info["time"]["completed"], json!(2_000), "when it ended is when it ended");
    let missing = log.record(&"nobody".into(), MessageUpdate::default(), NOW).unwrap_err();
    assert_eq!(missing, LogError::Missing { kind: "message", id: "nobody".into() });
}

/// 400 KB in deltas of six chars took six seconds, because each delta copied the whole text. This test checks that
/// nothing is copied; the benchmarks measure the time.
#[test]
fn a_delta_grows_the_text_in_place() {
    let mut log = begun();
    log.extend(&"t".into(), &"x".repeat(100_000)).unwrap();
    let place = |log: &Log| match &log.part(&"t".into()).unwrap().body {
        PartBody::Text(text) => text.text.as_str().as_ptr() as usize,
        _ => 0,
    };
    let mut moves = 0;
    let mut at = place(&log);
    for _ in 0..100_000 {
        log.extend(&"t".into(), "delta ").unwrap();
        let now = place(&log);
        moves += usize::from(now != at);
        at = now;
    }
    assert!(moves <= 8, "moved {moves} times while it grew seven times as long");
    // A reader that holds the text keeps its content. That costs one copy, after which the text grows in place again.
    let seen = text(&log, "t");
    log.extend(&"t".into(), "one ").unwrap();
    let copied = place(&log);
    log.extend(&"t".into(), "two").unwrap();
    assert_eq!((copied == at, place(&log) == copied), (false, true));
    assert_eq!(seen.len() + 7, text(&log, "t").len());
    assert!(seen.ends_with("delta "));
}

#[test]
fn an_update_can_contain_the_providers_own_error() {
    let error: Value =
        json!({ "name": "ProviderAuthError", "data": { "providerID": "x", "message": "no key" } });
    let mut log = begun();
    let update = MessageUpdate { error: Some(error.clone()), ..MessageUpdate::default() };
    log.record(&"a".into(), update, NOW).unwrap();
    assert_eq!(log[1].info.error, Some(error));
    assert!(log[1].is_finished());
}
