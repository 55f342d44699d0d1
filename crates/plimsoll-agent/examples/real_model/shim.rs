//! Stands between the agent and the real server, because the model is too small to call tools reliably.
//!
//! Every request goes to the real server, so that overflow errors and usage are true ones. Where the script has a call,
//! the call takes the place of what the model said. The server reports no usage in streams, so it is asked for whole
//! answers, and the scripted model server streams them.

use std::collections::VecDeque;
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll::{Tokens, Usage};
use plimsoll_testkit::server::{Captured, Fault, Finish, ModelServer, Reply};
use serde_json::{Value, json};

use crate::upstream::{Answer, Upstream};

/// Replacement of the model's answer.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedAnswer {
    /// Words before the calls; models often have none.
    pub(crate) words: &'static str,
    /// Tools and inputs.
    pub(crate) calls: Vec<(&'static str, Value)>,
}

/// A request that went to the real server, and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) asked: RequestKind,
    pub(crate) status: u16,
    pub(crate) took: Duration,
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// The next answer of the conversation.
    Answer,
    /// A summary.
    Summary,
}

/// The server that the agent is pointed at.
pub(crate) struct Shim {
    server: ModelServer,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    script: VecDeque<ScriptedAnswer>,
    calls: u64,
    exchanges: Vec<Exchange>,
}

impl Shim {
    pub(crate) fn start(upstream: Upstream) -> io::Result<Shim> {
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = Arc::clone(&state);
        let server = ModelServer::answering(move |request| answer(&upstream, &shared, request))?;
        Ok(Shim { server, state })
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Replacements for the answers to the next accepted requests.
    pub(crate) fn script(&self, answers: Vec<ScriptedAnswer>) {
        lock(&self.state).script = answers.into();
    }

    /// The requests of the agent.
    pub(crate) fn requests(&self) -> Vec<Captured> {
        self.server.requests()
    }

    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        lock(&self.state).exchanges.clone()
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(upstream: &Upstream, state: &Mutex<State>, request: &Captured) -> Reply {
    let asked = if is_summary(&request.body) { RequestKind::Summary } else { RequestKind::Answer };
    let scripted = if asked == RequestKind::Answer { lock(state).script.front().cloned() } else { None };
    let mut body = request.body.clone();
    body["stream"] = false.into();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("stream_options");
    }
    if scripted.is_some() {
        // The prompt is read and counted all the same, and stays in the server's cache.
        body["max_tokens"] = 1.into();
    }
    let started = Instant::now();
    let answer = upstream.post("/v1/chat/completions", &body);
    let took = started.elapsed();
    let answer = answer.unwrap_or_else(|error| Answer {
        status: 502,
        body: json!({ "error": { "message": format!("the real server gave no answer: {error}") } }),
    });
    let mut state = lock(state);
    state.exchanges.push(Exchange { asked, status: answer.status, took });
    if answer.status != 200 {
        let Answer { status, body } = answer;
        return Reply::failing(Fault::Status { status, headers: Vec::new(), body: Some(body) });
    }
    let Some(scripted) = scripted else { return spoken(&answer.body) };
    state.script.pop_front();
    let mut reply = Reply::new();
    let mut said = scripted.words.to_owned();
    if !said.is_empty() {
        reply = reply.text(&said);
    }
    for (tool, input) in scripted.calls {
        state.calls += 1;
        said.push_str(&input.to_string());
        reply = reply.call(format!("call_{}", state.calls), tool, input);
    }
    drop(state);
    // As the model would have been charged for saying it.
    let output = upstream.count(&said).unwrap_or(said.len() as u64 / 4);
    let mut usage = usage_of(&answer.body);
    usage.output = Tokens(output);
    reply.usage(usage)
}

/// A summary is asked for with tools that must not be called, or without tools.
fn is_summary(body: &Value) -> bool {
    let has_tools = body.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty());
    !has_tools || body.get("tool_choice").is_some_and(|choice| choice == "none")
}

/// Text of the model's answer.
fn spoken(body: &Value) -> Reply {
    let text = body.pointer("/choices/0/message/content").and_then(Value::as_str).unwrap_or_default();
    let finish = match body.pointer("/choices/0/finish_reason").and_then(Value::as_str) {
        Some("stop") => Finish::Stop,
        Some("length") => Finish::Length,
        other => Finish::Other(other.unwrap_or("none").to_owned()),
    };
    let reply = Reply::new().finish(finish).usage(usage_of(body));
    if text.is_empty() { reply } else { reply.text(text) }
}

fn usage_of(body: &Value) -> Usage {
    let count = |field: &str| body.pointer(field).and_then(Value::as_u64).unwrap_or_default();
    Usage::new(Tokens(count("/usage/prompt_tokens")), Tokens(count("/usage/completion_tokens")))
}

/// Errors of the real server other than rejections; they invalidate a run.
pub(crate) fn check_exchanges(exchanges: &[Exchange]) -> Result<(), Box<dyn Error>> {
    match exchanges.iter().find(|exchange| !matches!(exchange.status, 200 | 400)) {
        Some(exchange) => Err(format!("the real server answered with status {}", exchange.status).into()),
        None => Ok(()),
    }
}
