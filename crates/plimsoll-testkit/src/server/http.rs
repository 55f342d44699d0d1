//! The HTTP side: routes, streams, faults.
//!
//! Uses hyper instead of a framework on top of it: a service that fails closes the connection without an answer, and a
//! body that fails breaks it in the middle. Two of the faults need that.

use std::net::TcpListener;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use plimsoll_providers::Wire;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::captured::{AnswerEnd, Captured};
use super::fault::{Fault, error_body, error_event};
use super::render::{self, Counts, Envelope, WireEvent};
use super::reply::Reply;
use super::state::{RequestFate, Shared, input_counts};
use super::{overflow::OverflowShape, segments};

/// Breaks the connection.
#[derive(Debug, thiserror::Error)]
#[error("the script breaks the connection")]
pub(crate) struct Broken;

/// A body from a channel. The sender is notified when the client disconnects.
pub(crate) struct StreamBody(mpsc::Receiver<Result<Bytes, Broken>>);

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.0.poll_recv(context).map(|next| next.map(|result| result.map(Frame::data)))
    }
}

pub(crate) async fn serve(listener: TcpListener, shared: Shared, mut stopped: oneshot::Receiver<()>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => return,
        };
        let Ok((stream, _)) = accepted else { continue };
        // So that each event is sent immediately.
        let _ = stream.set_nodelay(true);
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, shared.clone()));
            // An error means that the client disconnected, or a fault of the script.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// The wire format of a path, and whether it only counts tokens.
fn route(path: &str) -> Option<(Wire, bool)> {
    match path.strip_prefix("/v1").unwrap_or(path) {
        "/messages" => Some((Wire::Anthropic, false)),
        "/messages/count_tokens" => Some((Wire::Anthropic, true)),
        "/chat/completions" => Some((Wire::Chat, false)),
        "/responses" => Some((Wire::Responses, false)),
        _ => None,
    }
}

async fn answer(request: Request<Incoming>, shared: Shared) -> Result<Response<StreamBody>, Broken> {
    let path = request.uri().path().to_owned();
    let Some((wire, counts_only)) = route(&path).filter(|_| *request.method() == Method::POST) else {
        return Ok(respond(404, &[], &json!({ "error": { "message": format!("no such path: {path}") } })));
    };
    let headers = redacted_headers(&request);
    let Ok(body) = request.into_body().collect().await else { return Err(Broken) };
    let raw = body.to_bytes();
    let body: Value = match serde_json::from_slice(&raw) {
        Ok(body) => body,
        Err(error) => {
            let message = format!("the body is not JSON: {error}");
            shared.lock().problems.push(format!("{path}: {message}"));
            return Ok(respond(400, &[], &error_body(wire, 400, Some(&message))));
        }
    };
    if counts_only {
        let tokens = segments::count(&segments::segments(wire, &body));
        return Ok(respond(200, &[], &json!({ "input_tokens": tokens })));
    }
    let raw = String::from_utf8_lossy(&raw).into_owned();
    let captured = Captured { raw, ..Captured::new(wire, &path, headers, body) };
    let verdict = shared.lock().receive(captured);
    match verdict {
        RequestFate::Refuse(status, body) => Ok(respond(status, &[], &body)),
        RequestFate::RefuseInStream(events) => {
            let bytes = events.iter().flat_map(WireEvent::to_bytes).collect();
            Ok(stream_response(one_piece(bytes)))
        }
        RequestFate::Answer(captured) => {
            let Some(reply) = next_reply(&shared, &captured).await else {
                return Ok(respond(500, &[], &error_body(wire, 500, Some("no reply is scripted"))));
            };
            carry_out(&shared, &captured, reply).await
        }
    }
}

async fn next_reply(shared: &Shared, captured: &Captured) -> Option<Reply> {
    let (queued, function) = {
        let mut state = shared.lock();
        (state.queue.pop_front(), state.answer.clone())
    };
    if queued.is_some() {
        return queued;
    }
    let Some(function) = function else {
        shared.lock().report_no_reply("no reply was left in the queue");
        return None;
    };
    // The test's function may block or panic.
    let captured = captured.clone();
    let reply = tokio::task::spawn_blocking(move || function(&captured)).await;
    if reply.is_err() {
        shared.lock().report_no_reply("the function that decides the reply panicked");
    }
    reply.ok()
}

async fn carry_out(
    shared: &Shared,
    captured: &Captured,
    reply: Reply,
) -> Result<Response<StreamBody>, Broken> {
    let wire = captured.wire;
    for fault in &reply.faults {
        match fault {
            Fault::HangUp => return Err(Broken),
            Fault::NoAnswer => std::future::pending::<()>().await,
            Fault::Status { status, headers, body } => {
                let body = body.clone().unwrap_or_else(|| error_body(wire, *status, None));
                return Ok(respond(*status, headers, &body));
            }
            Fault::Overflow { shape, window } => {
                let shape = shape.unwrap_or(OverflowShape::of_wire(wire));
                let (status, body) = shape.answer(captured.tokens.max(window + 1), *window);
                return Ok(respond(status, &[], &body));
            }
            Fault::NotAStream => {
                let page = b"<html><body>502 Bad Gateway</body></html>".to_vec();
                return Ok(response(200, "text/html", &[], one_piece(page)));
            }
            _ => {}
        }
    }
    let number = shared.lock().begin_answer(captured, &reply);
    let flag = |path: &str| captured.body.pointer(path).and_then(Value::as_bool).unwrap_or(false);
    let includes = captured.body.get("include").and_then(Value::as_array);
    let envelope = Envelope {
        number,
        model: captured.model.clone(),
        counts: Counts::of(&reply, input_counts(captured)),
        signer: shared.lock().signer.clone(),
        encrypted: includes.is_some_and(|all| all.iter().any(|it| it == "reasoning.encrypted_content")),
        usage_chunk: flag("/stream_options/include_usage"),
    };
    if !flag("/stream") {
        let body = render::whole(wire, &reply, &envelope);
        set_end(captured, AnswerEnd::Sent);
        return Ok(respond(200, &[], &body));
    }
    let events = render::stream(wire, &reply, &envelope);
    let (sender, receiver) = mpsc::channel(1);
    let captured = captured.clone();
    tokio::spawn(async move {
        let end = match send_events(&events, &reply, &captured, &sender).await {
            Ok(()) => AnswerEnd::Sent,
            Err(HungUp) => AnswerEnd::HungUp,
        };
        set_end(&captured, end);
    });
    Ok(stream_response(receiver))
}

/// The client disconnected.
struct HungUp;

type Pieces = mpsc::Sender<Result<Bytes, Broken>>;

async fn send_events(
    events: &[WireEvent],
    reply: &Reply,
    captured: &Captured,
    sender: &Pieces,
) -> Result<(), HungUp> {
    let last = events.len().saturating_sub(1);
    for (at, event) in events.iter().enumerate() {
        for (_, gate) in reply.gates.iter().filter(|(before, _)| (*before).min(last) == at) {
            tokio::select! {
                () = gate.pass() => {}
                () = sender.closed() => return Err(HungUp),
            }
        }
        for fault in &reply.faults {
            let is_here = |place: &usize| (*place).min(last) == at;
            match fault {
                Fault::Cut { after } if is_here(after) => {
                    // Earlier events must leave the buffers first, or they are lost with the connection.
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    let _ = sender.send(Err(Broken)).await;
                    return Ok(());
                }
                Fault::EndEarly { after } if is_here(after) => return Ok(()),
                Fault::Silence { after } if is_here(after) => {
                    sender.closed().await;
                    return Err(HungUp);
                }
                Fault::ErrorEvent { after, error } if is_here(after) => {
                    let event = WireEvent::of_wire(
                        captured.wire,
                        &error_event(captured.wire, *error, &captured.model, at),
                    );
                    return send(event.to_bytes(), reply, sender).await;
                }
                Fault::HugeEvent { at: place, bytes } if is_here(place) => {
                    let mut data = b"data: ".to_vec();
                    data.resize(data.len() + bytes, b'x');
                    data.extend_from_slice(b"\n\n");
                    send(data, reply, sender).await?;
                }
                _ => {}
            }
        }
        if !reply.pause.is_zero() {
            tokio::time::sleep(reply.pause).await;
        }
        let is_broken = reply
            .faults
            .iter()
            .any(|fault| matches!(fault, Fault::BrokenJson { at: place } if (*place).min(last) == at));
        let mut event = event.clone();
        if is_broken {
            let half = event.data.chars().count() / 2;
            event.data = event.data.chars().take(half.max(1)).collect();
        }
        send(event.to_bytes(), reply, sender).await?;
        if let Ok(mut progress) = captured.progress.lock() {
            progress.events += 1;
        }
    }
    Ok(())
}

async fn send(bytes: Vec<u8>, reply: &Reply, sender: &Pieces) -> Result<(), HungUp> {
    let slow = reply.faults.iter().find_map(|fault| match fault {
        Fault::SlowBytes { bytes, pause_ms } => Some(((*bytes).max(1), Duration::from_millis(*pause_ms))),
        _ => None,
    });
    let Some((size, pause)) = slow else {
        return sender.send(Ok(bytes.into())).await.map_err(|_| HungUp);
    };
    for piece in bytes.chunks(size) {
        tokio::time::sleep(pause).await;
        sender.send(Ok(Bytes::copy_from_slice(piece))).await.map_err(|_| HungUp)?;
    }
    Ok(())
}

fn set_end(captured: &Captured, end: AnswerEnd) {
    if let Ok(mut progress) = captured.progress.lock() {
        progress.end = Some(end);
    }
}

fn redacted_headers(request: &Request<Incoming>) -> Vec<(String, String)> {
    const KEYS: [&str; 4] = ["authorization", "x-api-key", "api-key", "cookie"];
    let headers = request.headers().iter().map(|(name, value)| {
        let is_key = KEYS.contains(&name.as_str());
        let value = if is_key { "[redacted]".into() } else { String::from_utf8_lossy(value.as_bytes()) };
        (name.as_str().to_owned(), value.into_owned())
    });
    headers.collect()
}

fn one_piece(bytes: Vec<u8>) -> mpsc::Receiver<Result<Bytes, Broken>> {
    let (sender, receiver) = mpsc::channel(1);
    // The channel has room for one piece, so this does not block.
    let _ = sender.try_send(Ok(bytes.into()));
    receiver
}

fn respond(status: u16, headers: &[(String, String)], body: &Value) -> Response<StreamBody> {
    response(status, "application/json", headers, one_piece(body.to_string().into_bytes()))
}

fn stream_response(pieces: mpsc::Receiver<Result<Bytes, Broken>>) -> Response<StreamBody> {
    response(200, "text/event-stream; charset=utf-8", &[], pieces)
}

fn response(
    status: u16,
    kind: &str,
    headers: &[(String, String)],
    pieces: mpsc::Receiver<Result<Bytes, Broken>>,
) -> Response<StreamBody> {
    let mut builder = Response::builder().status(status).header("content-type", kind);
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    // A script may contain an invalid status or header.
    builder.body(StreamBody(pieces)).unwrap_or_else(|_| {
        let (_, nothing) = mpsc::channel(1);
        let mut response = Response::new(StreamBody(nothing));
        *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}
