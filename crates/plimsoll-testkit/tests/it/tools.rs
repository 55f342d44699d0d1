//! Helpers for the tests.

use std::time::Duration;

use plimsoll::{Policy, Window};
use plimsoll_providers::{
    AnswerEvent, Client, ClientOptions, Endpoint, Prompt, ProviderError, Request, RequestOptions,
    RetryPolicy, Secret, ToolSpec, Wire,
};
use plimsoll_testkit::History;
use plimsoll_testkit::server::ModelServer;
use serde_json::{Value, json};

pub(crate) const WIRES: [Wire; 3] = [Wire::Anthropic, Wire::Chat, Wire::Responses];

pub(crate) fn client(server: &ModelServer, wire: Wire) -> Client {
    let options = ClientOptions {
        retry: RetryPolicy::never(),
        idle: Duration::from_secs(20),
        ..ClientOptions::default()
    };
    client_with(server, wire, options)
}

pub(crate) fn client_with(server: &ModelServer, wire: Wire, options: ClientOptions) -> Client {
    let endpoint = Endpoint::new(wire, &server.url(), Some(Secret::new("k-test-secret"))).unwrap();
    Client::new(endpoint, options).unwrap()
}

pub(crate) fn tool(name: &str) -> ToolSpec {
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    ToolSpec { name: name.into(), description: format!("The tool {name}."), schema }
}

/// A request over a history, with two tools.
pub(crate) fn request(wire: Wire, history: History) -> Request {
    let window = Window::of(&history.messages(), &Policy::default());
    let options = RequestOptions::default();
    let (tools, system) = ([tool("bash"), tool("read")], ["Be brief.".to_owned()]);
    let prompt =
        Prompt { tools: &tools, system: &system, ..Prompt::new("test", "some-model", &window, &options) };
    Request::build(wire, &prompt).unwrap()
}

/// The events of an answer, and its error, if any.
pub(crate) async fn follow(client: &Client, request: &Request) -> (Vec<AnswerEvent>, Option<ProviderError>) {
    let mut events = Vec::new();
    let mut answer = match client.stream(request, |_| {}).await {
        Ok(answer) => answer,
        Err(error) => return (events, Some(error)),
    };
    while let Some(event) = answer.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

/// Joins deltas of the same kind, so that the size of pieces does not matter.
pub(crate) fn joined(events: Vec<AnswerEvent>) -> Vec<AnswerEvent> {
    let mut whole: Vec<AnswerEvent> = Vec::new();
    for event in events {
        match (whole.last_mut(), &event) {
            (Some(AnswerEvent::Text(text)), AnswerEvent::Text(more))
            | (Some(AnswerEvent::Thinking(text)), AnswerEvent::Thinking(more))
            | (Some(AnswerEvent::CallInput(text)), AnswerEvent::CallInput(more)) => text.push_str(more),
            _ => whole.push(event),
        }
    }
    whole.retain(|event| !matches!(event, AnswerEvent::Usage(_)));
    whole
}

/// Posts JSON to a path without a client. Returns status and body of the answer.
pub(crate) fn post(server: &ModelServer, path: &str, body: &Value) -> (u16, Value) {
    use std::io::{Read as _, Write as _};
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.0\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned())))
}

pub(crate) fn path(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "/v1/messages",
        Wire::Chat => "/v1/chat/completions",
        Wire::Responses => "/v1/responses",
    }
}
