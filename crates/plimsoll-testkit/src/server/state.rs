//! State of the server, and its decision about each request.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_providers::Wire;
use serde_json::{Value, json};

use super::Answer;
use super::cache::CacheModel;
use super::captured::Captured;
use super::check::{self, Memory};
use super::fault::{StreamError, error_body, refusal_in_stream};
use super::overflow::OverflowShape;
use super::render::{Counts, WireEvent};
use super::reply::Reply;
use super::segments;
use super::sign::{Signer, wire_name};

#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<State>>);

impl Shared {
    pub(crate) fn new(state: State) -> Shared {
        Shared(Arc::new(Mutex::new(state)))
    }

    /// Ignores poisoning: a test that panicked with the lock has already failed, but its server must still stop.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct State {
    pub(crate) signer: Signer,
    pub(crate) queue: VecDeque<Reply>,
    pub(crate) answer: Option<Answer>,
    pub(crate) window: Option<u64>,
    pub(crate) overflow: Option<OverflowShape>,
    pub(crate) cache: CacheModel,
    pub(crate) cache_minimum: u64,
    pub(crate) is_lenient: bool,
    pub(crate) requests: Vec<Captured>,
    pub(crate) kept_requests: usize,
    /// Number of received requests, including those that are not kept.
    pub(crate) received: usize,
    pub(crate) problems: Vec<String>,
    pub(crate) memory: Memory,
    pub(crate) log: Option<File>,
    /// Number of answers, from which ids are made.
    answers: u64,
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("State")
            .field("requests", &self.requests.len())
            .field("problems", &self.problems)
            .finish_non_exhaustive()
    }
}

/// Decision about a request.
pub(crate) enum RequestFate {
    /// Reject with this status and body.
    Refuse(u16, Value),
    /// Reject with events in the stream.
    RefuseInStream(Vec<WireEvent>),
    /// Answer with the next reply.
    Answer(Box<Captured>),
}

const DEFAULT_CACHE_MINIMUM: u64 = 1_024;

impl State {
    pub(crate) fn new(name: &str) -> State {
        State {
            signer: Signer::new(name),
            queue: VecDeque::new(),
            answer: None,
            window: None,
            overflow: None,
            cache: CacheModel::default(),
            cache_minimum: DEFAULT_CACHE_MINIMUM,
            is_lenient: false,
            requests: Vec::new(),
            kept_requests: usize::MAX,
            received: 0,
            problems: Vec::new(),
            memory: Memory::default(),
            log: None,
            answers: 0,
        }
    }

    /// Checks and records a request.
    pub(crate) fn receive(&mut self, mut captured: Captured) -> RequestFate {
        let wire = captured.wire;
        let segments = segments::segments(wire, &captured.body);
        captured.tokens = segments::count(&segments);
        captured.problems = check::check(wire, &captured.body, &captured.headers, &self.signer, &self.memory);
        let refused = captured.problems.first().filter(|_| !self.is_lenient).cloned();
        if refused.is_some() {
            let number = self.received;
            let path = &captured.path;
            let named =
                captured.problems.iter().map(|problem| format!("request {number} to {path}: {problem}"));
            self.problems.extend(named);
        }
        let window = self.window.filter(|window| captured.tokens > *window);
        if refused.is_none() && window.is_none() {
            captured.cache = self.cache.request(wire, &captured.body, &segments, self.cache_minimum);
        }
        self.requests.push(captured.clone());
        self.received += 1;
        let surplus = self.requests.len().saturating_sub(self.kept_requests);
        self.requests.drain(..surplus);
        self.write_log(&captured, window);
        if let Some(problem) = refused {
            return RequestFate::Refuse(400, error_body(wire, 400, Some(&problem)));
        }
        let Some(window) = window else { return RequestFate::Answer(Box::new(captured)) };
        let is_streamed = captured.body.get("stream").and_then(Value::as_bool).unwrap_or(false);
        if wire == Wire::Responses && is_streamed && self.overflow.is_none() {
            // The Responses API starts the stream before it detects the overflow.
            let events = refusal_in_stream(&captured.model, StreamError::Overflow);
            return RequestFate::RefuseInStream(events.iter().map(WireEvent::named).collect());
        }
        let shape = self.overflow.unwrap_or(OverflowShape::of_wire(wire));
        let (status, body) = shape.answer(captured.tokens, window);
        RequestFate::Refuse(status, body)
    }

    /// Remembers what later requests have to replay, and returns the number of the answer.
    pub(crate) fn begin_answer(&mut self, captured: &Captured, reply: &Reply) -> u64 {
        self.memory.remember(captured, reply, &self.signer);
        self.answers += 1;
        self.answers
    }

    /// Reports that no reply was left for a request.
    pub(crate) fn report_no_reply(&mut self, why: &str) {
        let number = self.received.saturating_sub(1);
        self.problems.push(format!("request {number}: {why}"));
    }

    fn write_log(&mut self, captured: &Captured, window: Option<u64>) {
        let Some(log) = &mut self.log else { return };
        let line = json!({
            "wire": wire_name(captured.wire),
            "path": captured.path,
            "tokens": captured.tokens,
            "over": window,
            "cache": {
                "read": captured.cache.read,
                "write": captured.cache.write,
                "missed_at": captured.cache.missed_at,
            },
            "problems": captured.problems,
            "outline": captured.outline(),
            "body": captured.body,
        });
        // The log is optional: a full disk must not stop the server.
        let _ = writeln!(log, "{line}");
    }
}

/// Input tokens that the server counted for a request.
pub(crate) fn input_counts(captured: &Captured) -> Counts {
    let super::CacheReport { read, write, for_an_hour, .. } = captured.cache;
    let input = captured.tokens.saturating_sub(read).saturating_sub(write);
    Counts { input, read, write, for_an_hour, ..Counts::default() }
}
