//! The client reads what a reply contains, in all wire formats.

use plimsoll::{Tokens, Usage};
use plimsoll_providers::{AnswerEvent, Wire};
use plimsoll_testkit::History;
use plimsoll_testkit::server::{AnswerEnd, Captured, Finish, ModelServer, Reply};
use rstest::rstest;
use serde_json::json;

use crate::tools::{WIRES, client, follow, joined, request};

fn go() -> History {
    History::new().user("go")
}

#[rstest]
#[tokio::test]
async fn thoughts_text_and_parallel_calls_arrive_in_order(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
    #[values(Some(1), Some(24), None)] size: Option<usize>,
) {
    let server = ModelServer::start().unwrap();
    server.push(
        Reply::new()
            .thinking("Zwei Dateien zu lesen — größer als gedacht.")
            .text("I read both.")
            .call("call_1", "bash", json!({ "path": "a/ü" }))
            .call("call_2", "read", json!({}))
            .piece_size(size),
    );
    let (events, error) = follow(&client(&server, wire), &request(wire, go())).await;
    assert_eq!(error, None);
    let events = joined(events);
    let call = |id: &str, tool: &str| AnswerEvent::CallBegin { call: id.into(), tool: tool.into() };
    let expected = [
        AnswerEvent::Thinking("Zwei Dateien zu lesen — größer als gedacht.".into()),
        AnswerEvent::PartEnd,
        AnswerEvent::Text("I read both.".into()),
        AnswerEvent::PartEnd,
        call("call_1", "bash"),
        AnswerEvent::CallInput("{\"path\":\"a/ü\"}".into()),
        AnswerEvent::CallReady(json!({ "path": "a/ü" })),
        call("call_2", "read"),
        AnswerEvent::CallInput("{}".into()),
        AnswerEvent::CallReady(json!({})),
    ];
    let received: Vec<AnswerEvent> = events
        .iter()
        .filter(|event| !matches!(event, AnswerEvent::Signature(_) | AnswerEvent::Finished { .. }))
        .cloned()
        .collect();
    assert_eq!(received, expected);
    let is_signed = events.iter().any(|event| matches!(event, AnswerEvent::Signature(_)));
    assert_eq!(is_signed, wire != Wire::Chat);
    let reason = match wire {
        Wire::Anthropic => "tool_use",
        Wire::Chat => "tool_calls",
        Wire::Responses => "completed",
    };
    assert!(matches!(events.last(), Some(AnswerEvent::Finished { reason: own, .. }) if own == reason));
    assert_eq!(server.last().unwrap().wait_end(), Some(AnswerEnd::Sent));
}

#[rstest]
#[tokio::test]
async fn usage_is_counted_fixed_or_missing(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    let server = ModelServer::start().unwrap();
    let mut given = Usage::new(Tokens(70), Tokens(11));
    (given.cache_read, given.cache_write, given.reasoning) = (Tokens(20), Tokens(10), Tokens(5));
    server.push(Reply::new().text("12345678"));
    server.push(Reply::new().text("x").usage(given));
    server.push(Reply::new().text("x").without_usage());
    let client = client(&server, wire);
    let mut usages = Vec::new();
    for _ in 0..3 {
        let (events, error) = follow(&client, &request(wire, go())).await;
        assert_eq!(error, None);
        let Some(AnswerEvent::Finished { usage, .. }) = events.last() else { panic!("no end") };
        usages.push(usage.clone());
    }
    let tokens = server.requests()[0].tokens;
    let counted = usages[0].clone().unwrap();
    assert_eq!((counted.input, counted.output), (Tokens(tokens), Tokens(2)));
    let given = usages[1].clone().unwrap();
    assert_eq!((given.input, given.cache_read, given.cache_write), (Tokens(70), Tokens(20), Tokens(10)));
    // Anthropic does not report thoughts separately.
    assert_eq!(given.output.0 + given.reasoning.0, 16);
    assert_eq!(usages[2], None);
}

#[tokio::test]
async fn stop_reasons_use_the_names_of_the_wire_format() {
    let server = ModelServer::start().unwrap();
    let rows = [
        (Finish::Length, ["max_tokens", "length", "max_output_tokens"]),
        (Finish::Filter, ["refusal", "content_filter", "content_filter"]),
        (Finish::Other("pause_turn".into()), ["pause_turn", "pause_turn", "pause_turn"]),
    ];
    for (finish, words) in rows {
        for (wire, word) in WIRES.into_iter().zip(words) {
            server.push(Reply::new().text("x").finish(finish.clone()));
            let (events, _) = follow(&client(&server, wire), &request(wire, go())).await;
            let Some(AnswerEvent::Finished { reason, .. }) = events.last() else { panic!("no end") };
            assert_eq!(reason, word);
        }
    }
}

#[tokio::test]
async fn replies_can_depend_on_the_request() {
    let server = ModelServer::answering(|captured: &Captured| {
        Reply::new().text(format!("you said {}", captured.last_user_text()))
    })
    .unwrap();
    for wire in WIRES {
        let (events, _) = follow(&client(&server, wire), &request(wire, History::new().user("hello"))).await;
        assert_eq!(joined(events)[0], AnswerEvent::Text("you said hello".into()));
    }
    // Pushed replies have precedence.
    server.push(Reply::new().text("pushed"));
    let (events, _) = follow(&client(&server, Wire::Chat), &request(Wire::Chat, go())).await;
    assert_eq!(joined(events)[0], AnswerEvent::Text("pushed".into()));
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn requests_are_captured_in_one_form_without_keys() {
    let server = ModelServer::start().unwrap();
    let history = History::new()
        .user("look at the files")
        .tools(&[("bash", "one".into()), ("read", "two".into())])
        .say("Both are short.")
        .user("and now?");
    let mut outlines = Vec::new();
    for wire in WIRES {
        server.push(Reply::new().text("x"));
        let (_, error) = follow(&client(&server, wire), &request(wire, history.clone())).await;
        assert_eq!(error, None);
        let captured = server.last().unwrap();
        assert_eq!(captured.model, "some-model");
        assert_eq!(captured.result("call_1_1"), Some("two"));
        assert_eq!(captured.call_ids(), ["call_1_0", "call_1_1"]);
        assert!(captured.contains("are short") && !captured.contains("absent"));
        assert!(!format!("{captured:?}").contains("k-test-secret"));
        outlines.push(captured.outline());
    }
    assert_eq!(outlines[0], outlines[1]);
    assert_eq!(outlines[0], outlines[2]);
    insta::assert_snapshot!(outlines[0], @r#"
    system: 9 chars
    tools: bash, read
    user: text (17 chars) "look at the files"
    assistant: call bash call_1_0 (7 chars), call read call_1_1 (7 chars)
    tool: result call_1_0 (3 chars), result call_1_1 (3 chars)
    assistant: text (15 chars) "Both are short."
    user: text (8 chars) "and now?"
    "#);
}

#[tokio::test]
async fn keep_requests_limits_the_kept_requests() {
    let server = ModelServer::builder().keep_requests(2).start().unwrap();
    server.repeat(Reply::new().text("x"));
    let client = client(&server, Wire::Chat);
    for number in 0..5 {
        let request = request(Wire::Chat, History::new().user(format!("number {number}")));
        assert_eq!(follow(&client, &request).await.1, None);
    }
    let kept: Vec<String> = server.requests().iter().map(Captured::last_user_text).collect();
    assert_eq!((server.received(), kept), (5, vec!["number 3".into(), "number 4".into()]));
}
