//! Answers as they stream.

use std::sync::Arc;

use plimsoll::{PartBody, Tokens, ToolStatus, Usage, WindowRole};
use plimsoll_session::{AnswerEnd, AnswerEvent, BLOCK, Driver, SessionError};
use serde_json::json;

use crate::support::{Harbour, finished, say, shown};

fn text(text: &str) -> AnswerEvent {
    AnswerEvent::Text(text.into())
}

#[test]
fn blocks_become_parts_in_the_order_of_the_wire() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    let prompt = driver.prompt("Do it").unwrap();
    driver.begin_answer(Some("build")).unwrap();
    let events = [
        AnswerEvent::Thinking("I should ".into()),
        AnswerEvent::Thinking("look.".into()),
        AnswerEvent::Signature(json!({ "anthropic": { "signature": "c2ln" } })),
        AnswerEvent::PartEnd,
        text("Let me "),
        text("look."),
        AnswerEvent::CallBegin { call: "call_1".into(), tool: "read".into() },
        AnswerEvent::CallInput("{\"path\":".into()),
        AnswerEvent::CallInput("\"a.rs\"}".into()),
        AnswerEvent::CallReady(json!({ "path": "a.rs" })),
        AnswerEvent::CallBegin { call: "call_2".into(), tool: "list".into() },
        AnswerEvent::CallReady(json!({})),
        AnswerEvent::Block(json!({ "type": "server_tool_use", "id": "srv_1" })),
        AnswerEvent::Usage { usage: Usage::new(Tokens(100), Tokens(1)), cost: None },
    ];
    for event in events {
        driver.write(event).unwrap();
    }
    let usage = Some(Usage::new(Tokens(100), Tokens(20)));
    driver.end_answer(AnswerEnd::Finished { reason: "tool_use".into(), usage, cost: None }).unwrap();
    let log = harbour.stored(&driver);
    assert_eq!(driver.log(), &log);
    let answer = log.last().unwrap();
    assert_eq!(answer.info.parent_id.as_ref(), Some(&prompt));
    assert_eq!(answer.info.agent.as_deref(), Some("build"));
    assert_eq!(answer.info.model_id.as_deref(), Some("some-model"));
    let kinds: Vec<&str> = answer
        .parts
        .iter()
        .map(|part| match &part.body {
            PartBody::Reasoning(thought) => {
                assert_eq!(thought.text.as_str(), "I should look.");
                assert_eq!(part.extra["metadata"]["anthropic"]["signature"], "c2ln");
                "thinking"
            }
            PartBody::Text(said) => {
                assert_eq!(said.text.as_str(), "Let me look.");
                "text"
            }
            PartBody::Tool(tool) => {
                assert_eq!(tool.state.status, ToolStatus::Pending);
                assert!(!tool.state.extra.contains_key("raw"), "the raw input has served");
                "call"
            }
            PartBody::Other(kind) if kind == BLOCK => {
                assert_eq!(part.extra["block"]["id"], "srv_1");
                "block"
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["thinking", "text", "call", "call", "block"]);
    assert_eq!(driver.open_calls().len(), 2);
}

#[test]
fn deltas_are_stored_together_when_due_and_at_the_end_of_a_part_at_once() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    driver.prompt("Tell me").unwrap();
    driver.begin_answer(None).unwrap();
    let said = |driver: &Driver| harbour.stored(driver).last().unwrap().text();
    driver.write(text("one ")).unwrap();
    assert_eq!(said(&driver), "one ", "the first words are stored with their part");
    driver.write(text("two ")).unwrap();
    harbour.wait(30);
    driver.write(text("three ")).unwrap();
    driver.flush_due().unwrap();
    assert_eq!(said(&driver), "one ", "not due yet");
    harbour.wait(20);
    driver.flush_due().unwrap();
    assert_eq!(said(&driver), "one two three ");
    driver.write(text("four ")).unwrap();
    driver.write(AnswerEvent::PartEnd).unwrap();
    assert_eq!(said(&driver), "one two three four ");
    driver.write(text("five")).unwrap();
    driver.end_answer(finished()).unwrap();
    assert_eq!(driver.log(), &harbour.stored(&driver));
}

#[test]
fn an_answer_that_is_broken_off_keeps_what_it_said_and_the_next_request_is_legal() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    driver.prompt("Do it").unwrap();
    driver.begin_answer(None).unwrap();
    driver.write(text("I will do")).unwrap();
    driver.write(AnswerEvent::CallBegin { call: "call_1".into(), tool: "bash".into() }).unwrap();
    driver.write(AnswerEvent::CallInput("{\"command\": \"rm".into())).unwrap();
    driver.end_answer(AnswerEnd::Aborted("the user pressed Ctrl-C".into())).unwrap();
    driver.prompt("Stop that").unwrap();
    let text = shown(&driver);
    assert!(text.contains("I will do") && text.contains("Stop that"), "{text}");
    assert_eq!(driver.log(), &harbour.stored(&driver));
}

#[test]
fn a_process_that_dies_in_the_middle_of_an_answer_leaves_a_legal_session() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    let session = driver.session().clone();
    driver.prompt("Do it").unwrap();
    driver.begin_answer(None).unwrap();
    driver.write(text("Half a sen")).unwrap();
    driver.write(AnswerEvent::CallBegin { call: "call_1".into(), tool: "bash".into() }).unwrap();
    // It gives nothing back and ends nothing.
    std::mem::forget(driver);
    harbour.wait(120_000);
    let settings = plimsoll_session::Settings { holder: "the next".into(), ..harbour.settings() };
    let mut next = Driver::open(Arc::clone(&harbour.archive), &session, settings).unwrap();
    assert!(next.open_calls().is_empty(), "nobody will answer them");
    next.prompt("Go on").unwrap();
    let window = next.window();
    window.check().unwrap();
    let text = shown(&next);
    assert!(text.contains("Half a sen") && text.contains("Go on"), "{text}");
    assert_eq!(window.messages.last().unwrap().role, WindowRole::User);
    say(&mut next, "Gone on.");
    assert_eq!(next.log(), &harbour.stored(&next));
}

#[test]
fn calls_in_the_wrong_order_are_refused_and_change_nothing() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    driver.prompt("Do it").unwrap();
    assert!(matches!(driver.write(text("x")), Err(SessionError::OutOfOrder(_))));
    assert!(matches!(driver.end_answer(finished()), Err(SessionError::OutOfOrder(_))));
    driver.begin_answer(None).unwrap();
    assert!(matches!(driver.begin_answer(None), Err(SessionError::OutOfOrder(_))));
    assert!(matches!(driver.write(AnswerEvent::CallInput("{}".into())), Err(SessionError::OutOfOrder(_))));
    driver.end_answer(finished()).unwrap();
    assert_eq!(driver.log().len(), 2);
    assert_eq!(driver.log(), &harbour.stored(&driver));
}

/// A document may hold 127 levels of JSON, and so may the input of a call. Stored inside a part it would be more.
#[test]
fn json_that_is_nested_as_deeply_as_can_be_does_not_make_a_session_unreadable() {
    for levels in [1, 99, 100, 101, 124, 125, 126, 127] {
        let nested: serde_json::Value =
            serde_json::from_str(&format!("{}1{}", "[".repeat(levels), "]".repeat(levels))).unwrap();
        let harbour = Harbour::new();
        let mut driver = harbour.open("ses_1");
        driver.prompt("Go on").unwrap();
        driver.begin_answer(None).unwrap();
        let call = AnswerEvent::CallBegin { call: "call_1".into(), tool: "query".into() };
        let signature = AnswerEvent::Signature(nested.clone());
        let block = AnswerEvent::Block(nested.clone());
        for event in
            [AnswerEvent::Thinking("So.".into()), signature, call, AnswerEvent::CallReady(nested), block]
        {
            driver.write(event).unwrap();
        }
        let log = harbour.stored(&driver);
        assert_eq!(&log, driver.log(), "{levels} levels");
        let document = serde_json::to_string(&json!({ "messages": log.messages() })).unwrap();
        serde_json::from_str::<serde_json::Value>(&document).unwrap();
    }
}

/// Ctrl-C in an answer of thousands of calls waited for a write for each of them.
#[test]
fn the_calls_of_a_broken_answer_are_settled_in_one_write() {
    for calls in [2, 300] {
        let harbour = Harbour::new();
        let mut driver = harbour.open("ses_1");
        driver.prompt("Go on").unwrap();
        driver.begin_answer(None).unwrap();
        for call in 0..calls {
            let begin = AnswerEvent::CallBegin { call: format!("call_{call}"), tool: "read".into() };
            driver.write(begin).unwrap();
            driver.write(AnswerEvent::CallReady(json!({ "path": "a.rs" }))).unwrap();
        }
        let revision = || harbour.archive.store().session(&"ses_1".into()).unwrap().revision.0;
        let before = revision();
        driver.end_answer(AnswerEnd::Aborted("The run was cancelled.".into())).unwrap();
        assert_eq!(revision() - before, 2, "the calls, and the end of the answer");
        let log = harbour.stored(&driver);
        assert_eq!(&log, driver.log());
        let states = log.last().unwrap().parts.iter().map(|part| &part.as_tool().unwrap().state.status);
        assert_eq!(states.filter(|status| **status == ToolStatus::Error).count(), calls);
    }
}
