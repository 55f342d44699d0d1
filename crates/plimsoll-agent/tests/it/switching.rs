//! Switches to another model during a session.

use plimsoll::Limits;
use plimsoll_agent::Event;
use plimsoll_providers::Wire;
use plimsoll_testkit::server::{CapturedPart, Fault, ModelServer, Reply};
use rstest::rstest;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{Dock, WIRES, lines, model, provider, reader, run};

#[rstest]
#[tokio::test]
async fn another_provider_gets_only_its_own_signatures_and_readable_ids(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] from: Wire,
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] to: Wire,
) {
    let dock = Dock::on(from, ModelServer::builder().name("first").start().unwrap());
    dock.write("a.txt", "nine metres\n");
    let id =
        "call with spaces, dots … and a name that is much longer than the sixty-four letters OpenAI takes";
    dock.server.push_all([
        Reply::new().thinking("A secret thought.").text("I look.").call(
            id,
            "read",
            json!({ "path": "a.txt" }),
        ),
        Reply::new().text("Nine."),
    ]);
    let mut conversation = dock.begin().await;
    run(&mut conversation, "How deep?").await;
    // The other server rejects reasoning that it did not sign, and IDs that its provider would reject.
    let second = ModelServer::builder().name("second").start().unwrap();
    second.push_all([
        Reply::new().thinking("My own.").call("call_9", "list", json!({})),
        Reply::new().text("Still nine."),
    ]);
    let mut other = model(to, &second.url());
    if from == to {
        other.name.provider = "gateway".into();
    }
    conversation.switch_model(other).await.unwrap();
    assert_eq!(run(&mut conversation, "And now?").await.text, "Still nine.");
    let request = second.last().unwrap();
    assert!(request.contains("nine metres") && request.contains("I look."), "{}", request.outline());
    let foreign = request
        .parts()
        .any(|part| matches!(part, CapturedPart::Thinking { signature, .. } if signature.contains("first")));
    assert!(!foreign, "{}", request.outline());
    second.assert_legal();
    // And back: the first provider recognises its own.
    let back = model(from, &dock.server.url());
    conversation.switch_model(back).await.unwrap();
    dock.server.push(Reply::new().text("As I said."));
    assert_eq!(run(&mut conversation, "Sure?").await.text, "As I said.");
    dock.server.assert_legal();
    let log = dock.log(conversation.session());
    let providers: Vec<&str> =
        log.iter().filter_map(|message| message.info.extra.get("providerID")?.as_str()).collect();
    let middle = if from == to { "gateway" } else { provider(to) };
    assert_eq!(providers, [provider(from), provider(from), middle, middle, provider(from)]);
    assert_eq!(WIRES.len(), 3);
}

/// Another account or gateway with the same name rejects the first one's signatures in every later request. Reported
/// for many agents, whose sessions cannot continue (anthropics/claude-code 66204, github/copilot-cli 3407).
#[rstest]
#[tokio::test]
async fn rejected_reasoning_is_left_out_from_then_on(#[values(Wire::Anthropic, Wire::Responses)] wire: Wire) {
    let dock = Dock::on(wire, ModelServer::builder().name("first").start().unwrap());
    dock.write("a.txt", "nine metres\n");
    dock.server.push_all([
        Reply::new().thinking("A signed thought.").call("call_1", "read", json!({ "path": "a.txt" })),
        Reply::new().thinking("Another one.").text("Nine."),
    ]);
    let mut conversation = dock.begin().await;
    run(&mut conversation, "How deep?").await;
    let second = ModelServer::builder().name("second").start().unwrap();
    second.push_all([
        Reply::new().thinking("My own.").call("call_2", "list", json!({})),
        Reply::new().text("Still nine."),
        Reply::new().text("Quite sure."),
    ]);
    conversation.switch_model(model(wire, &second.url())).await.unwrap();
    assert_eq!(run(&mut conversation, "And now?").await.text, "Still nine.");
    assert_eq!(run(&mut conversation, "Sure?").await.text, "Quite sure.");
    // Only one request was rejected.
    assert_eq!(second.received(), 4);
    assert!(!second.take_problems().is_empty());
    assert_eq!(dock.happened().iter().filter(|event| *event == "refusedThoughts").count(), 1);
    for (at, request) in second.requests().iter().enumerate().skip(1) {
        let signed = |name: &str| {
            let parts = request.parts();
            let is_signed = |part: &&CapturedPart| matches!(part, CapturedPart::Thinking { signature, .. } if signature.contains(name));
            parts.filter(is_signed).count()
        };
        assert_eq!(signed("first"), 0, "{}", request.outline());
        // Reasoning that the second provider signed is still sent.
        assert_eq!(signed("second"), usize::from(at > 1), "{}", request.outline());
    }
}

#[tokio::test]
async fn a_provider_that_rejects_reasoning_in_requests_without_any_is_not_retried_forever() {
    let dock = Dock::new(ModelServer::start().unwrap());
    let body = json!({ "type": "error", "error": { "type": "invalid_request_error",
        "message": "messages.1.content.0: Invalid `signature` in `thinking` block" } });
    dock.server.repeat(Reply::failing(Fault::Status { status: 400, headers: Vec::new(), body: Some(body) }));
    let mut conversation = dock.begin().await;
    let error = conversation.run("How deep?", &CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("rejected replayed reasoning"), "{error}");
    assert_eq!(dock.server.received(), 2);
}

#[tokio::test]
async fn a_smaller_window_makes_the_next_climb_do_its_work_first() {
    let dock = Dock::new(ModelServer::answering(reader()).unwrap());
    dock.write("big.txt", &lines(300));
    let mut conversation = dock.begin().await;
    run(&mut conversation, "Read it 8 times").await;
    let before = dock.server.last().unwrap().tokens;
    assert!(before > 16_000);
    let small = ModelServer::builder().window(12_000).answering(reader()).start().unwrap();
    let mut other = model(Wire::Chat, &small.url());
    other.limits = Some(Limits::new(12_000, 2_000));
    conversation.switch_model(other).await.unwrap();
    run(&mut conversation, "Read it 1 times, with the small one").await;
    assert!(small.requests().iter().all(|request| request.tokens < 12_000));
    let refused = dock.events.lock().unwrap().iter().any(|event| matches!(event, Event::Refused { .. }));
    assert!(!refused, "it fits at the first try");
    assert!(small.last().unwrap().contains("with the small one"));
}
