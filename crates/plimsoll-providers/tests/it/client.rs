//! The client against a server with faults.

use std::time::{Duration, Instant};

use plimsoll::{Tokens, Usage};
use plimsoll_providers::{
    AnswerEvent, Client, ClientOptions, Endpoint, ProviderError, RetryNotice, RetryPolicy, StreamFault,
    TimeoutKind, Wire,
};

use crate::server::{Answer, Server, request};

const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n";
const END: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn quick() -> RetryPolicy {
    RetryPolicy {
        retries: 3,
        base: Duration::from_millis(1),
        longest: Duration::from_millis(5),
        longest_asked: Duration::from_secs(2),
    }
}

fn hello() -> Answer {
    Answer::stream(&format!("{HELLO}{END}"))
}

/// Returns the events before the end, and the error if there was one.
async fn follow(client: &Client) -> (Vec<AnswerEvent>, Option<ProviderError>, Vec<RetryNotice>) {
    let mut notices = Vec::new();
    let mut events = Vec::new();
    let mut answer = match client.stream(&request(Wire::Chat), |notice| notices.push(notice.clone())).await {
        Ok(answer) => answer,
        Err(error) => return (events, Some(error), notices),
    };
    while let Some(event) = answer.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error), notices),
        }
    }
    (events, None, notices)
}

fn finished() -> Vec<AnswerEvent> {
    let finished = AnswerEvent::Finished { reason: "stop".into(), usage: None };
    vec![AnswerEvent::Text("Hello".into()), AnswerEvent::PartEnd, finished]
}

#[tokio::test]
async fn an_answer_is_streamed_to_its_end() {
    for answer in [hello(), Answer::pieces(&[(0, HELLO), (30, &END[..20]), (30, &END[20..])])] {
        let server = Server::start(vec![answer]).await;
        let (events, error, notices) = follow(&server.client(Wire::Chat, quick())).await;
        assert_eq!((events, error, notices), (finished(), None, vec![]));
        let sent = server.requests().await.remove(0);
        assert!(sent.starts_with("POST /chat/completions HTTP/1.1\r\n"), "{sent}");
        assert!(sent.contains("\"model\":\"some-model\"") && sent.contains("\"stream\":true"), "{sent}");
    }
}

#[tokio::test]
async fn each_wire_has_its_path_and_headers() {
    for (wire, path, key) in [
        (Wire::Anthropic, "/v1/messages", "x-api-key: k-test"),
        (Wire::Responses, "/responses", "authorization: bearer k-test"),
    ] {
        let server = Server::start(vec![Answer::status(400, "{}")]).await;
        let error = server.client(wire, quick()).stream(&request(wire), |_| {}).await.err();
        assert!(matches!(error, Some(ProviderError::BadRequest { .. })));
        let sent = server.requests().await.remove(0).to_ascii_lowercase();
        assert!(sent.starts_with(&format!("post {path} http/1.1\r\n")) && sent.contains(key), "{sent}");
        assert_eq!(sent.contains("anthropic-version: 2023-06-01"), wire == Wire::Anthropic);
    }
}

#[tokio::test]
async fn transient_errors_are_retried_until_they_pass() {
    let error_event = "data: {\"error\":{\"message\":\"try later\",\"code\":500}}\n\n";
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":0}}\n\n";
    for fault in [
        Answer::status(500, "{}"),
        Answer::status(529, "{}"),
        Answer::status(429, "{\"error\":{\"message\":\"slow down\"}}"),
        Answer::stream(""),
        Answer::cut(""),
        Answer::stream(error_event),
        Answer::stream(&format!("{usage}{error_event}")),
        Answer::stream("data: garbage\n\n"),
        Answer::default(),
    ] {
        let server = Server::start(vec![fault.clone(), fault.clone(), hello()]).await;
        let (events, error, notices) = follow(&server.client(Wire::Chat, quick())).await;
        assert_eq!((events, error), (finished(), None), "{fault:?}");
        assert_eq!(notices.iter().map(|notice| notice.retry).collect::<Vec<_>>(), [1, 2], "{fault:?}");
    }
}

/// llama-cpp-python begins to stream before it checks the length of the prompt, and reports an overflow as an empty
/// stream.
#[tokio::test]
async fn an_empty_stream_is_checked_for_an_overflow() {
    let message = "This model's maximum context length is 8192 tokens. However, you requested 9051 tokens";
    let refusal = format!("{{\"error\":{{\"message\":\"{message}\",\"code\":\"context_length_exceeded\"}}}}");
    let nothing = || Answer::stream("");
    // Which of the two happens is random.
    for second in [nothing(), Answer::cut("")] {
        let server = Server::start(vec![nothing(), second, Answer::status(400, &refusal)]).await;
        let (events, error, notices) = follow(&server.client(Wire::Chat, quick())).await;
        let overflow = ProviderError::Overflow {
            window: Some(Tokens(8_192)),
            asked: Some(Tokens(9_051)),
            message: message.into(),
        };
        assert_eq!((events, error, notices.len()), (vec![], Some(overflow), 1));
        let asked = server.requests().await.remove(2);
        assert!(asked.contains("\"stream\":false") && asked.contains("_tokens\":1}"), "{asked}");
        assert!(!asked.contains("stream_options"), "{asked}");
    }
    // Any other answer says nothing about the stream, and the stream is retried.
    for other in [Answer::status(400, "{}"), Answer::status(200, "{}"), nothing()] {
        let server = Server::start(vec![nothing(), nothing(), other, hello()]).await;
        let (events, error, notices) = follow(&server.client(Wire::Chat, quick())).await;
        assert_eq!((events, error, notices.len()), (finished(), None, 2));
        assert_eq!(server.requests().await.len(), 4);
    }
}

#[tokio::test]
async fn retries_are_bounded() {
    let server = Server::start(vec![Answer::status(500, "{}")]).await;
    let (_, error, notices) = follow(&server.client(Wire::Chat, quick())).await;
    assert!(matches!(error, Some(ProviderError::Server { status: Some(500), .. })), "{error:?}");
    assert_eq!((notices.len(), server.requests().await.len()), (3, 4));
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    for (status, body) in [
        (400, "{\"error\":{\"code\":\"context_length_exceeded\"}}"),
        (413, ""),
        (400, "{\"error\":{\"message\":\"bad\"}}"),
        (401, "{}"),
        (403, "{}"),
        (404, "{}"),
        (307, ""),
    ] {
        let server =
            Server::start(vec![Answer::status(status, body).with_header("location: /elsewhere")]).await;
        let (_, error, notices) = follow(&server.client(Wire::Chat, quick())).await;
        assert!(error.is_some() && notices.is_empty(), "{status}: {error:?}");
        assert_eq!(server.requests().await.len(), 1, "{status}");
    }
}

#[tokio::test]
async fn nothing_is_retried_after_content_was_streamed() {
    for fault in [
        Answer::cut(HELLO),
        Answer::stream(HELLO),
        Answer::stream(&format!("{HELLO}data: {{\"error\":{{\"code\":500}}}}\n\n")),
        Answer::stream(&format!("{HELLO}data: garbage\n\n")),
    ] {
        let server = Server::start(vec![fault.clone(), hello()]).await;
        let (events, error, notices) = follow(&server.client(Wire::Chat, quick())).await;
        assert_eq!(events[0], AnswerEvent::Text("Hello".into()), "{fault:?}");
        assert!(error.is_some() && notices.is_empty(), "{fault:?}: {error:?}");
        assert_eq!(server.requests().await.len(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn the_wait_that_the_provider_asks_for_is_kept() {
    let busy = |header: &str| Answer::status(429, "{}").with_header(header);
    let server = Server::start(vec![busy("retry-after-ms: 300"), hello()]).await;
    let started = Instant::now();
    let (events, _, notices) = follow(&server.client(Wire::Chat, quick())).await;
    assert_eq!((events, notices.len()), (finished(), 1));
    assert!(started.elapsed() >= Duration::from_millis(300) && notices[0].wait >= Duration::from_millis(300));
    // A longer wait than the maximum is reported at once.
    let server = Server::start(vec![busy("retry-after: 3600"), hello()]).await;
    let (_, error, notices) = follow(&server.client(Wire::Chat, quick())).await;
    assert_eq!(error.and_then(|error| error.retry_after()), Some(Duration::from_secs(3_600)));
    assert!(notices.is_empty());
}

fn impatient(server: &Server, idle: u64, total: u64) -> Client {
    let endpoint = Endpoint::new(Wire::Chat, &server.url(), None).unwrap();
    let (idle, total) = (Duration::from_millis(idle), Duration::from_millis(total));
    let options = ClientOptions { idle, total, retry: RetryPolicy::never(), ..ClientOptions::default() };
    Client::new(endpoint, options).unwrap()
}

#[tokio::test]
async fn stalled_and_endless_streams_time_out() {
    let slow: Vec<(u64, &str)> = (0..40).map(|_| (50, ": wait\n\n")).collect();
    let stalls = Answer::pieces(&[(0, HELLO), (600_000, END)]);
    let silent = Answer { head: String::new(), ..Answer::pieces(&[(600_000, "")]) };
    for (answer, idle, total, expected) in [
        (stalls.clone(), 200, 60_000, TimeoutKind::Idle),
        (silent, 200, 60_000, TimeoutKind::Idle),
        (Answer::pieces(&slow), 60_000, 300, TimeoutKind::Total),
        (stalls, 60_000, 200, TimeoutKind::Total),
    ] {
        let server = Server::start(vec![answer]).await;
        let (_, error, _) = follow(&impatient(&server, idle, total)).await;
        assert!(
            matches!(&error, Some(ProviderError::Timeout { kind, .. }) if *kind == expected),
            "{error:?}"
        );
    }
    // A stream that keeps sending bytes has not stalled.
    let server = Server::start(vec![Answer::pieces(&[&slow[..8], &[(0, HELLO), (0, END)]].concat())]).await;
    assert_eq!(follow(&impatient(&server, 200, 60_000)).await.0, finished());
    // Durations that cannot be added to a clock mean no timeout.
    let server = Server::start(vec![hello()]).await;
    assert_eq!(follow(&impatient(&server, u64::MAX, u64::MAX)).await.0, finished());
}

#[tokio::test]
async fn a_huge_event_is_rejected() {
    let server = Server::start(vec![Answer::stream(&format!("{HELLO}data: {}", "x".repeat(100_000)))]).await;
    let endpoint = Endpoint::new(Wire::Chat, &server.url(), None).unwrap();
    let client =
        Client::new(endpoint, ClientOptions { event_limit: 10_000, ..ClientOptions::default() }).unwrap();
    let (events, error, _) = follow(&client).await;
    assert_eq!(events, [AnswerEvent::Text("Hello".into())]);
    assert_eq!(error, Some(ProviderError::Stream(StreamFault::EventTooLarge { limit: 10_000 })));
}

#[tokio::test]
async fn an_answer_that_is_not_a_stream_is_an_error_with_its_content_type() {
    let page =
        Answer { head: "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close".into(), ..hello() };
    let server = Server::start(vec![page]).await;
    let (_, error, _) = follow(&server.client(Wire::Chat, quick())).await;
    assert_eq!(
        error,
        Some(ProviderError::Stream(StreamFault::NotAStream { content_type: "text/html".into() }))
    );
    // Gateways report errors with a success status.
    let server =
        Server::start(vec![Answer::status(200, "{\"error\":{\"code\":\"context_length_exceeded\"}}")]).await;
    let (_, error, _) = follow(&server.client(Wire::Chat, quick())).await;
    assert!(matches!(error, Some(ProviderError::Overflow { .. })), "{error:?}");
}

#[tokio::test]
async fn waiting_for_an_event_is_cancellation_safe() {
    let server =
        Server::start(vec![Answer::pieces(&[(0, HELLO), (200, &END[..30]), (200, &END[30..])])]).await;
    let client = server.client(Wire::Chat, quick());
    let mut answer = client.stream(&request(Wire::Chat), |_| {}).await.unwrap();
    let (mut events, mut ticks) = (Vec::new(), 0);
    loop {
        tokio::select! {
            event = answer.next() => match event {
                Some(event) => events.push(event.unwrap()),
                None => break,
            },
            () = tokio::time::sleep(Duration::from_millis(20)) => ticks += 1,
        }
    }
    assert_eq!(events, finished());
    assert!(ticks > 3, "{ticks}");
}

#[tokio::test]
async fn dropping_the_answer_cancels_the_request() {
    let server = Server::start(vec![Answer::pieces(&[(0, HELLO), (60_000, END)])]).await;
    let client = server.client(Wire::Chat, quick());
    let mut answer = client.stream(&request(Wire::Chat), |_| {}).await.unwrap();
    assert_eq!(answer.next().await, Some(Ok(AnswerEvent::Text("Hello".into()))));
    drop(answer);
    for _ in 0..100 {
        if server.dropped().await == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the connection is still open");
}

#[tokio::test]
async fn an_unreachable_server_is_a_network_error() {
    let server = Server::start(vec![hello()]).await;
    let url = server.url();
    drop(server);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let endpoint = Endpoint::new(Wire::Chat, &url, None).unwrap();
    let client = Client::new(endpoint, ClientOptions { retry: quick(), ..ClientOptions::default() }).unwrap();
    let (_, error, notices) = follow(&client).await;
    assert!(
        matches!(&error, Some(ProviderError::Network { message }) if message.contains("refused")),
        "{error:?}"
    );
    assert_eq!(notices.len(), 3);
}

#[tokio::test]
async fn a_query_of_the_base_url_follows_the_path_and_stays_out_of_errors() {
    const QUERY: &str = "api-version=2026-01-01&token=harbour~wall~7";
    let hides = |error: Option<ProviderError>| {
        let error = error.expect("an error");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("harbour") && !shown.contains("token="), "{shown}");
        shown
    };
    let server = Server::start(vec![Answer::status(
        400,
        &format!(
            "{{\"error\":{{\"message\":\"cannot post /chat/completions?{QUERY}, harbour~wall~7 is bad\"}}}}"
        ),
    )])
    .await;
    let endpoint = Endpoint::new(Wire::Chat, &format!("{}/v1/?{QUERY}", server.url()), None).unwrap();
    assert!(!format!("{endpoint:?}").contains("harbour"), "{endpoint:?}");
    let client = server.client_of(endpoint, quick());
    hides(follow(&client).await.1);
    let sent = server.requests().await.remove(0);
    assert!(sent.starts_with(&format!("POST /v1/chat/completions?{QUERY} HTTP/1.1\r\n")), "{sent}");
    drop(server);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let shown = hides(follow(&client).await.1);
    assert!(shown.contains("/v1/chat/completions") && shown.contains("refused"), "{shown}");
}

#[tokio::test]
async fn a_retry_after_date_is_followed_within_the_maximum_wait() {
    let dated = |date: &str, after: &str| {
        let headers = format!("date: {date}\r\nretry-after: {after}");
        Answer::status(429, "{\"error\":{\"message\":\"slow down\"}}").with_header(&headers)
    };
    let soon = dated("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT");
    let server = Server::start(vec![soon, hello()]).await;
    let (events, error, notices) = follow(&server.client(Wire::Chat, quick())).await;
    assert_eq!((events, error), (finished(), None));
    assert!(notices[0].wait >= Duration::from_secs(1), "{:?}", notices[0].wait);
    let late = dated("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 09:49:37 GMT");
    let server = Server::start(vec![late, hello()]).await;
    let (_, error, notices) = follow(&server.client(Wire::Chat, quick())).await;
    let hour = Some(Duration::from_secs(3_600));
    assert!(matches!(error, Some(ProviderError::RateLimited { retry_after, .. }) if retry_after == hour));
    assert!(notices.is_empty(), "an hour is longer than the policy waits");
}

#[tokio::test]
async fn usage_reports_before_any_content_do_not_pile_up() {
    let usage = |output: u64| {
        format!(
            "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{output}}}}}\n\n"
        )
    };
    let flood: String = (1..=20_000).map(usage).collect();
    let server = Server::start(vec![Answer::stream(&format!("{flood}{HELLO}{END}"))]).await;
    let (events, error, _) = follow(&server.client(Wire::Chat, quick())).await;
    assert_eq!(error, None);
    let newest = Usage::new(Tokens(9), Tokens(20_000));
    let finished = AnswerEvent::Finished { reason: "stop".into(), usage: Some(newest.clone()) };
    let hello = AnswerEvent::Text("Hello".into());
    assert_eq!(events, [AnswerEvent::Usage(newest), hello, AnswerEvent::PartEnd, finished]);
}
