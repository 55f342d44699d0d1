//! The client's error for every fault.

use std::time::{Duration, Instant};

use plimsoll::Tokens;
use plimsoll_providers::{
    AnswerEvent, ClientOptions, ProviderError, RetryPolicy, StreamFault, TimeoutKind, Wire,
};
use plimsoll_testkit::History;
use plimsoll_testkit::server::{AnswerEnd, Fault, Gate, ModelServer, OverflowShape, Reply, StreamError};
use rstest::rstest;
use serde_json::json;

use crate::tools::{WIRES, client, client_with, follow, joined, request};

fn go() -> History {
    History::new().user("go")
}

/// The client's events and error for an answer with this fault, for each wire format.
async fn with_fault(fault: Fault) -> Vec<(Wire, Vec<AnswerEvent>, Option<ProviderError>)> {
    let mut results = Vec::new();
    for wire in WIRES {
        let server = ModelServer::start().unwrap();
        server.push(Reply::new().text("one two three four five").piece_size(Some(4)).fault(fault.clone()));
        // Short only if the timeout is expected: a loaded machine is slow.
        let is_silent = matches!(fault, Fault::NoAnswer | Fault::Silence { .. });
        let options = ClientOptions {
            retry: RetryPolicy::never(),
            idle: Duration::from_millis(if is_silent { 500 } else { 30_000 }),
            event_limit: 100_000,
            ..ClientOptions::default()
        };
        let (events, error) = follow(&client_with(&server, wire, options), &request(wire, go())).await;
        results.push((wire, joined(events), error));
    }
    results
}

#[tokio::test]
async fn a_status_instead_of_a_stream_is_classified() {
    for (status, name) in [
        (400, "BadRequestError"),
        (401, "ProviderAuthError"),
        (402, "QuotaError"),
        (403, "ProviderAuthError"),
        (404, "BadRequestError"),
        (413, "ContextOverflowError"),
        (429, "RateLimitError"),
        (500, "APIError"),
        (502, "APIError"),
        (503, "OverloadedError"),
        (529, "OverloadedError"),
    ] {
        for (wire, events, error) in with_fault(Fault::status(status)).await {
            assert_eq!(events, [], "{wire:?} {status}");
            assert_eq!(error.as_ref().map(ProviderError::name), Some(name), "{wire:?} {status}: {error:?}");
        }
    }
}

#[tokio::test]
async fn a_rate_limit_has_its_delay_and_a_custom_body() {
    for (_, _, error) in with_fault(Fault::rate_limited(7)).await {
        assert_eq!(error.and_then(|error| error.retry_after()), Some(Duration::from_secs(7)));
    }
    let body = Some(json!({ "error": { "message": "insufficient balance" } }));
    for (_, _, error) in with_fault(Fault::Status { status: 400, headers: vec![], body }).await {
        assert!(matches!(error, Some(ProviderError::Quota { .. })), "{error:?}");
    }
}

#[tokio::test]
async fn retries_succeed() {
    for wire in WIRES {
        let server = ModelServer::start().unwrap();
        server.push_all([
            Reply::failing(Fault::status(500)),
            Reply::failing(Fault::HangUp),
            Reply::failing(Fault::ErrorEvent { after: 0, error: StreamError::Overloaded }),
            Reply::failing(Fault::Cut { after: 1 }),
        ]);
        // After two broken connections, the client asks a local Chat server whether the request was too long.
        let asked = usize::from(wire == Wire::Chat);
        server.push_all((0..asked).map(|_| Reply::new().text("it was not")));
        server.push(Reply::new().text("at last"));
        let retry = RetryPolicy { retries: 4, base: Duration::from_millis(1), ..RetryPolicy::default() };
        let options = ClientOptions { retry, ..ClientOptions::default() };
        let (events, error) = follow(&client_with(&server, wire, options), &request(wire, go())).await;
        assert_eq!((joined(events)[0].clone(), error), (AnswerEvent::Text("at last".into()), None));
        assert_eq!((server.requests().len(), server.left()), (5 + asked, 0), "{wire:?}");
    }
}

#[tokio::test]
async fn overflow_errors_of_every_provider_are_recognised() {
    for shape in OverflowShape::ALL {
        for (wire, _, error) in with_fault(Fault::Overflow { shape: Some(shape), window: 8_192 }).await {
            let Some(ProviderError::Overflow { window, .. }) = error else {
                panic!("{wire:?} {shape:?}: {error:?}")
            };
            assert_eq!(window, shape.has_window().then_some(Tokens(8_192)), "{wire:?} {shape:?}");
        }
    }
}

#[tokio::test]
async fn a_window_rejects_only_larger_requests() {
    for wire in WIRES {
        let server = ModelServer::builder().window(400).start().unwrap();
        server.push(Reply::new().text("fits"));
        let client = client(&server, wire);
        assert_eq!(follow(&client, &request(wire, go())).await.1, None);
        let large = request(wire, History::new().user("x".repeat(2_000)));
        let (events, error) = follow(&client, &large).await;
        let Some(ProviderError::Overflow { window, asked, .. }) = error else { panic!("{error:?}") };
        let tokens = server.last().unwrap().tokens;
        assert!(events.is_empty() && tokens > 400, "{events:?}");
        if wire != Wire::Responses {
            assert_eq!((window, asked), (Some(Tokens(400)), Some(Tokens(tokens))), "{wire:?}");
        }
        // An overflow is not an illegal request, and does not use a reply.
        server.assert_legal();
        server.window(10_000);
        server.push(Reply::new().text("fits now"));
        assert_eq!(follow(&client, &large).await.1, None);
    }
}

#[rstest]
#[case(StreamError::Overloaded, "OverloadedError")]
#[case(StreamError::Server, "APIError")]
#[case(StreamError::RateLimit, "RateLimitError")]
#[case(StreamError::Overflow, "ContextOverflowError")]
#[tokio::test]
async fn an_error_event_in_the_middle_of_a_stream_is_classified(
    #[case] error: StreamError,
    #[case] name: &str,
) {
    for (wire, events, error) in with_fault(Fault::ErrorEvent { after: 5, error }).await {
        assert!(matches!(&events[..], [AnswerEvent::Text(_)]), "{wire:?}: {events:?}");
        assert_eq!(error.as_ref().map(ProviderError::name), Some(name), "{wire:?}: {error:?}");
    }
}

#[tokio::test]
async fn broken_connections_and_early_ends_are_errors() {
    for (wire, events, error) in with_fault(Fault::Cut { after: 5 }).await {
        assert!(matches!(&events[..], [AnswerEvent::Text(_)]), "{wire:?}: {events:?}");
        assert!(matches!(error, Some(ProviderError::Network { .. })), "{wire:?}: {error:?}");
    }
    for (wire, events, error) in with_fault(Fault::EndEarly { after: 5 }).await {
        assert!(matches!(&events[..], [AnswerEvent::Text(_)]), "{wire:?}: {events:?}");
        let unfinished = ProviderError::Stream(StreamFault::Unfinished { events: 5 });
        assert_eq!(error, Some(unfinished), "{wire:?}");
    }
    // Even if the fault is far after the end, the closing event is not sent.
    for (wire, _, error) in with_fault(Fault::EndEarly { after: 1_000 }).await {
        // In Chat Completions the stop reason ends an answer, with or without `[DONE]`.
        assert_eq!(error.is_none(), wire == Wire::Chat, "{wire:?}: {error:?}");
    }
    for (wire, events, error) in with_fault(Fault::HangUp).await {
        assert!(matches!(error, Some(ProviderError::Network { .. })), "{wire:?}: {error:?} {events:?}");
    }
}

#[tokio::test]
async fn silence_before_and_during_a_stream_times_out() {
    for (fault, count) in
        [(Fault::NoAnswer, 0), (Fault::Silence { after: 0 }, 0), (Fault::Silence { after: 5 }, 1)]
    {
        for (wire, events, error) in with_fault(fault.clone()).await {
            assert_eq!(events.len(), count, "{wire:?} {fault:?}");
            let is_idle = matches!(error, Some(ProviderError::Timeout { kind: TimeoutKind::Idle, .. }));
            assert!(is_idle, "{wire:?} {fault:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn slow_bytes_are_not_an_error() {
    for wire in WIRES {
        let server = ModelServer::start().unwrap();
        server.push(Reply::new().text("grün").fault(Fault::SlowBytes { bytes: 7, pause_ms: 1 }));
        let begun = Instant::now();
        let (events, error) = follow(&client(&server, wire), &request(wire, go())).await;
        assert_eq!((joined(events)[0].clone(), error), (AnswerEvent::Text("grün".into()), None), "{wire:?}");
        assert!(begun.elapsed() > Duration::from_millis(20), "{wire:?}");
    }
}

#[tokio::test]
async fn invalid_json_huge_events_and_html_pages_are_errors() {
    for (wire, events, error) in with_fault(Fault::BrokenJson { at: 5 }).await {
        assert!(matches!(&events[..], [AnswerEvent::Text(_)]), "{wire:?}: {events:?}");
        let is_named = matches!(error, Some(ProviderError::Stream(StreamFault::Malformed { event: 6, .. })));
        assert!(is_named, "{wire:?}: {error:?}");
    }
    for (wire, _, error) in with_fault(Fault::HugeEvent { at: 5, bytes: 200_000 }).await {
        let limit = StreamFault::EventTooLarge { limit: 100_000 };
        assert_eq!(error, Some(ProviderError::Stream(limit)), "{wire:?}");
    }
    for (_, _, error) in with_fault(Fault::NotAStream).await {
        assert!(matches!(error, Some(ProviderError::Stream(StreamFault::NotAStream { .. }))), "{error:?}");
    }
}

#[tokio::test]
async fn huge_texts_unknown_tools_and_invalid_inputs_reach_the_client() {
    for wire in WIRES {
        let server = ModelServer::start().unwrap();
        let huge = "word ".repeat(200_000);
        server.push(
            Reply::new()
                .text(huge.clone())
                .call("call_1", "format_disk", json!({ "path": "/" }))
                .call_with_arguments("call_2", "bash", "{\"path\": ")
                .piece_size(Some(10_000)),
        );
        let (events, error) = follow(&client(&server, wire), &request(wire, go())).await;
        assert_eq!(error, None);
        let events = joined(events);
        assert_eq!(events[0], AnswerEvent::Text(huge), "{wire:?}");
        let begin = AnswerEvent::CallBegin { call: "call_1".into(), tool: "format_disk".into() };
        assert!(events.contains(&begin), "{wire:?}");
        assert!(events.contains(&AnswerEvent::CallReady(json!("{\"path\": "))), "{wire:?}: {events:?}");
    }
}

#[tokio::test]
async fn a_gate_pauses_the_stream_until_release_or_disconnect() {
    for wire in WIRES {
        let server = ModelServer::start().unwrap();
        let gate = Gate::new();
        let reply = Reply::new().text("one two three").piece_size(Some(4)).gate(5, &gate);
        server.push_all([reply.clone(), reply]);
        let (client, request) = (client(&server, wire), request(wire, go()));
        // The client disconnects while the stream is paused.
        let mut answer = client.stream(&request, |_| {}).await.unwrap();
        assert!(matches!(answer.next().await, Some(Ok(_))));
        gate.reached().await;
        assert_eq!(server.last().unwrap().progress().events, 5, "{wire:?}");
        drop(answer);
        let captured = server.last().unwrap();
        let end = tokio::task::spawn_blocking(move || captured.wait_end()).await.unwrap();
        assert_eq!(end, Some(AnswerEnd::HungUp), "{wire:?}");
        gate.release();
        let (events, error) = follow(&client, &request).await;
        assert_eq!((joined(events)[0].clone(), error), (AnswerEvent::Text("one two three".into()), None));
    }
}

#[test]
fn a_dropped_server_stops_listening() {
    let server = ModelServer::start().unwrap();
    server.push(Reply::failing(Fault::NoAnswer));
    let address = server.url().trim_start_matches("http://").to_owned();
    // One connection is open and waits forever.
    let mut waiting = std::net::TcpStream::connect(&address).unwrap();
    let body = r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#;
    let head =
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    std::io::Write::write_all(&mut waiting, format!("{head}{body}").as_bytes()).unwrap();
    while server.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let begun = Instant::now();
    drop(server);
    // Only catches a server that waits for its connections.
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(std::net::TcpStream::connect(&address).is_err());
}
