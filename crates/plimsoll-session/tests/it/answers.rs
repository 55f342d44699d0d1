//! Answers as they stream.

use plimsoll::window::PROVIDER_BLOCK;
use plimsoll_session::blocking::Driver;
use plimsoll_session::{
    AnswerEvent, ModelPrice, PartBody, SessionError, SessionModel, Tokens, ToolStatus, Usage, WindowRole,
};
use serde_json::json;

use crate::support::{Harbour, LIMITS, answer, finished, request, shown};

fn text(text: &str) -> AnswerEvent {
    AnswerEvent::Text(text.into())
}

fn begin_call(tool: &str) -> AnswerEvent {
    AnswerEvent::CallBegin { call: "call_1".into(), tool: tool.into() }
}

#[test]
fn blocks_become_parts_in_the_order_of_the_wire() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    let prompt = driver.prompt("Do it").unwrap();
    let mut writer = request(&mut driver).begin_answer(Some("build")).unwrap();
    let events = [
        AnswerEvent::Thinking("I should ".into()),
        AnswerEvent::Thinking("look.".into()),
        AnswerEvent::Signature(json!({ "anthropic": { "signature": "c2ln" } })),
        AnswerEvent::PartEnd,
        text("Let me "),
        text("look."),
        begin_call("read"),
        AnswerEvent::CallInput("{\"path\":".into()),
        AnswerEvent::CallInput("\"a.rs\"}".into()),
        AnswerEvent::CallReady(json!({ "path": "a.rs" })),
        AnswerEvent::CallBegin { call: "call_2".into(), tool: "list".into() },
        AnswerEvent::CallReady(json!({})),
        AnswerEvent::Block(json!({ "type": "server_tool_use", "id": "srv_1" })),
        AnswerEvent::Usage(Usage::new(Tokens(100), Tokens(1))),
        finished("tool_use", Some(Usage::new(Tokens(100), Tokens(20)))),
    ];
    for event in events {
        writer.write(event).unwrap();
    }
    let done = writer.finish().unwrap();
    let log = harbour.stored(&driver);
    assert_eq!(driver.log(), &log);
    let answer = log.last().unwrap();
    assert_eq!(&done.message, answer);
    assert_eq!(answer.info.parent_id.as_ref(), Some(&prompt));
    assert_eq!(answer.info.agent.as_deref(), Some("build"));
    assert_eq!(answer.info.model_id.as_deref(), Some("some-model"));
    assert_eq!(answer.info.tokens, Some(Usage::new(Tokens(100), Tokens(20))));
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
            PartBody::Other(kind) if kind == PROVIDER_BLOCK => {
                assert_eq!(part.extra["block"]["id"], "srv_1");
                "block"
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["thinking", "text", "call", "call", "block"]);
    assert_eq!(driver.open_calls(), done.calls);
    let inputs: Vec<_> = done.calls.iter().map(|call| (call.tool.as_str(), call.input.clone())).collect();
    assert_eq!(inputs, [("read", json!({ "path": "a.rs" })), ("list", json!({}))]);
}

#[test]
fn deltas_are_stored_together_when_due_and_at_the_end_of_a_part_at_once() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    driver.prompt("Tell me").unwrap();
    let session = driver.session().clone();
    let mut writer = request(&mut driver).begin_answer(None).unwrap();
    let said = || harbour.archive.store().window(&session).unwrap().last().unwrap().text();
    writer.write(text("one ")).unwrap();
    assert_eq!(said(), "one ", "the first words are stored with their part");
    writer.write(text("two ")).unwrap();
    harbour.wait(30);
    writer.write(text("three ")).unwrap();
    writer.flush_due().unwrap();
    assert_eq!(said(), "one ", "not due yet");
    harbour.wait(20);
    writer.flush_due().unwrap();
    assert_eq!(said(), "one two three ");
    writer.write(text("four ")).unwrap();
    writer.write(AnswerEvent::PartEnd).unwrap();
    assert_eq!(said(), "one two three four ");
    writer.write(text("five")).unwrap();
    writer.write(finished("stop", None)).unwrap();
    writer.finish().unwrap();
    assert_eq!(driver.log(), &harbour.stored(&driver));
}

#[test]
fn an_interrupted_answer_keeps_its_text_and_the_next_request_is_legal() {
    let harbour = Harbour::new();
    // On purpose, or by dropping the writer.
    for (id, is_aborted) in [("ses_1", true), ("ses_2", false)] {
        let mut driver = harbour.open(id);
        driver.prompt("Do it").unwrap();
        let mut writer = request(&mut driver).begin_answer(None).unwrap();
        writer.write(text("I will do")).unwrap();
        writer.write(begin_call("bash")).unwrap();
        writer.write(AnswerEvent::CallInput("{\"command\": \"rm".into())).unwrap();
        match is_aborted {
            true => assert_eq!(writer.abort("the user pressed Ctrl-C").unwrap().text(), "I will do"),
            false => drop(writer),
        }
        let answer = driver.log().last().unwrap();
        assert!(answer.info.error.is_some() && !answer.is_open(), "{answer:?}");
        assert_eq!(driver.log(), &harbour.stored(&driver));
        assert!(driver.open_calls().is_empty());
        driver.prompt("Stop that").unwrap();
        let text = shown(&driver);
        assert!(text.contains("I will do") && text.contains("Stop that"), "{text}");
        assert_eq!(driver.log(), &harbour.stored(&driver));
    }
}

#[test]
fn an_answer_that_failed_is_left_out_of_the_window() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    driver.prompt("Do it").unwrap();
    let mut writer = request(&mut driver).begin_answer(None).unwrap();
    writer.write(text("Half a sen")).unwrap();
    writer.fail("APIError", "no").unwrap();
    assert!(!shown(&driver).contains("Half a sen"), "{}", shown(&driver));
    assert_eq!(driver.log(), &harbour.stored(&driver));
}

#[test]
fn a_process_that_dies_in_the_middle_of_an_answer_leaves_a_legal_session() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    let session = driver.session().clone();
    driver.prompt("Do it").unwrap();
    let mut writer = request(&mut driver).begin_answer(None).unwrap();
    writer.write(text("Half a sen")).unwrap();
    writer.write(begin_call("bash")).unwrap();
    // It gives nothing back and ends nothing.
    std::mem::forget(writer);
    std::mem::forget(driver);
    harbour.wait(120_000);
    let mut next: Driver = harbour.builder().holder("the next").session(session).open_blocking().unwrap();
    assert!(next.open_calls().is_empty(), "they cannot be answered");
    next.prompt("Go on").unwrap();
    let window = next.window();
    window.check().unwrap();
    let shown = shown(&next);
    assert!(shown.contains("Half a sen") && shown.contains("Go on"), "{shown}");
    assert_eq!(window.messages.last().unwrap().role, WindowRole::User);
    answer(request(&mut next), [text("Gone on.")], None);
    assert_eq!(next.log(), &harbour.stored(&next));
}

#[test]
fn events_in_the_wrong_order_are_rejected_and_change_nothing() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    driver.prompt("Do it").unwrap();
    let mut writer = request(&mut driver).begin_answer(None).unwrap();
    let refused = |done: Result<_, SessionError>| matches!(done, Err(SessionError::OutOfOrder(_)));
    assert!(refused(writer.write(AnswerEvent::CallInput("{}".into()))));
    assert!(refused(writer.write(AnswerEvent::CallReady(json!({})))));
    writer.write(finished("stop", None)).unwrap();
    assert!(refused(writer.write(text("x"))), "the answer is over");
    let done = writer.finish().unwrap();
    assert_eq!((done.message.parts.len(), done.message.info.finish.as_deref()), (0, Some("stop")));
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
        let mut writer = request(&mut driver).begin_answer(None).unwrap();
        let call = AnswerEvent::CallBegin { call: "call_1".into(), tool: "query".into() };
        let signature = AnswerEvent::Signature(nested.clone());
        let block = AnswerEvent::Block(nested.clone());
        for event in
            [AnswerEvent::Thinking("So.".into()), signature, call, AnswerEvent::CallReady(nested), block]
        {
            writer.write(event).unwrap();
        }
        writer.write(finished("tool_use", None)).unwrap();
        writer.finish().unwrap();
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
        let mut writer = request(&mut driver).begin_answer(None).unwrap();
        for call in 0..calls {
            let begin = AnswerEvent::CallBegin { call: format!("call_{call}"), tool: "read".into() };
            writer.write(begin).unwrap();
            writer.write(AnswerEvent::CallReady(json!({ "path": "a.rs" }))).unwrap();
        }
        let revision = || harbour.archive.store().session(&"ses_1".into()).unwrap().revision.0;
        let before = revision();
        writer.abort("The run was cancelled.").unwrap();
        assert_eq!(revision() - before, 2, "the calls, and the end of the answer");
        let log = harbour.stored(&driver);
        assert_eq!(&log, driver.log());
        let states = log.last().unwrap().parts.iter().map(|part| &part.as_tool().unwrap().state.status);
        assert_eq!(states.filter(|status| **status == ToolStatus::Error).count(), calls);
    }
}

#[test]
fn a_stream_without_its_last_event_is_not_a_finished_answer() {
    let harbour = Harbour::new();
    let mut driver = harbour.open("ses_1");
    driver.prompt("Do it").unwrap();
    let mut writer = request(&mut driver).begin_answer(None).unwrap();
    writer.write(text("Half a sen")).unwrap();
    assert!(matches!(writer.finish(), Err(SessionError::OutOfOrder(_))));
    let answer = driver.log().last().unwrap();
    assert!(answer.info.error.is_some() && answer.info.finish.is_none(), "{answer:?}");
    assert!(driver.is_broken_off());
}

/// The price of the model is known to the session, so that usage is recorded with its cost, also while the answer
/// streams.
#[test]
fn usage_is_recorded_with_its_cost() {
    let harbour = Harbour::new();
    let price = ModelPrice {
        input: 3.0,
        output: 15.0,
        cache_read: 0.3,
        cache_write: 3.75,
        cache_write_hour: None,
        long_prompt: None,
    };
    let model = SessionModel::new("some-model").limits(LIMITS).price(price);
    let builder = harbour.builder().model(model).session(harbour.session("ses_1"));
    let mut driver = builder.open_blocking().unwrap();
    driver.prompt("Do it").unwrap();
    let mut writer = request(&mut driver).begin_answer(None).unwrap();
    let usage = |output| Usage::new(Tokens(1_000_000), Tokens(output));
    let cost = |message: &plimsoll_session::Message| message.info.cost.as_ref().unwrap().as_f64().unwrap();
    writer.write(AnswerEvent::Usage(usage(0))).unwrap();
    let partial = writer.abort("stopped").unwrap();
    assert_eq!(cost(&partial), 3.0);
    let mut writer = request(&mut driver).begin_answer(None).unwrap();
    // Without final figures, the newest ones count.
    writer.write(AnswerEvent::Usage(usage(1_000_000))).unwrap();
    writer.write(finished("stop", None)).unwrap();
    let done = writer.finish().unwrap().message;
    assert_eq!((cost(&done), done.info.tokens.clone()), (18.0, Some(usage(1_000_000))));
}
