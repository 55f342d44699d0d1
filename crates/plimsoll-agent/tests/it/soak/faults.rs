//! A model with random behaviour, and a provider that fails in every known way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use plimsoll::{Tokens, Usage};
use plimsoll_testkit::server::{Captured, Fault, Finish, ModelServer, OverflowShape, Reply, StreamError};
use serde_json::{Value, json};

use super::Dice;
use crate::support::{SUMMARY, is_summary, lines};

/// Larger events are rejected by the client; some are.
pub(super) const EVENT_LIMIT: usize = 64 << 10;

/// A provider with faults.
pub(super) struct Provider {
    pub(super) server: ModelServer,
    state: Arc<Mutex<State>>,
}

struct State {
    dice: Dice,
    is_calm: bool,
    calls: u64,
    summaries: u64,
    kinds: BTreeMap<String, u64>,
}

impl State {
    fn count(&mut self, kind: impl Into<String>) {
        *self.kinds.entry(kind.into()).or_default() += 1;
    }
}

impl Provider {
    /// Starts a provider whose model has a window of this size.
    pub(super) fn start(window: u64, seed: u64) -> Provider {
        let state =
            State { dice: Dice::new(seed), is_calm: false, calls: 0, summaries: 0, kinds: BTreeMap::new() };
        let state = Arc::new(Mutex::new(state));
        let known = Arc::clone(&state);
        let answer = move |request: &Captured| reply(request, window, &mut known.lock().unwrap());
        let server = ModelServer::builder().window(window).answering(answer).start().unwrap();
        Provider { server, state }
    }

    /// From now on nothing fails, and the model makes no calls.
    pub(super) fn calm_down(&self) {
        self.state.lock().unwrap().is_calm = true;
    }

    /// Number of each fault, and number of summary requests.
    pub(super) fn kinds(&self) -> (BTreeMap<String, u64>, u64) {
        let state = self.state.lock().unwrap();
        (state.kinds.clone(), state.summaries)
    }
}

fn reply(request: &Captured, window: u64, state: &mut State) -> Reply {
    let is_summary = is_summary(request);
    state.summaries += u64::from(is_summary);
    if state.is_calm {
        return Reply::new().text(if is_summary { SUMMARY } else { "All is well." });
    }
    let reply = if is_summary { summary(state) } else { answer(state) };
    let reply = miscount(reply, state);
    if state.dice.below(100) < 22 {
        let fault = fault(window, state);
        let name = match serde_json::to_value(&fault).unwrap() {
            Value::Object(fields) => fields.keys().next().unwrap().clone(),
            name => name.as_str().unwrap().to_owned(),
        };
        state.count(name.replace('_', " "));
        return reply.fault(fault);
    }
    reply
}

fn summary(state: &mut State) -> Reply {
    match state.dice.below(10) {
        0 => {
            state.count("empty summary");
            Reply::new().text("  ")
        }
        1 => {
            state.count("call in a summary");
            Reply::new().text(SUMMARY).call(next_call(state), "bash", json!({ "command": "rm -r ." }))
        }
        2 => {
            state.count("endless summary");
            Reply::new().text(lines(900)).finish(Finish::Length)
        }
        _ => Reply::new().text(SUMMARY),
    }
}

fn answer(state: &mut State) -> Reply {
    let mut reply = Reply::new().piece_size(Some(8 + state.dice.below(200) as usize));
    match state.dice.below(6) {
        0 | 1 => reply = reply.thinking("I weigh what is to be done next, and then do it."),
        2 => reply = reply.hidden_thinking(),
        _ => {}
    }
    let calls = state.dice.below(5).saturating_sub(1);
    if calls == 0 || state.dice.below(3) > 0 {
        let length = 1 + state.dice.below(40) as usize;
        reply = reply.text(lines(length));
    }
    for _ in 0..calls {
        reply = call(reply, state);
    }
    if state.dice.below(30) == 0 {
        state.count("cut by its limit");
        reply = reply.finish(Finish::Length);
    }
    reply
}

fn call(reply: Reply, state: &mut State) -> Reply {
    let name = next_call(state);
    match state.dice.below(14) {
        0 => {
            state.count("unknown tool");
            reply.call(name, "teleport", json!({ "to": "Lisbon" }))
        }
        1 => {
            state.count("broken arguments");
            reply.call_with_arguments(name, "read", "{\"path\": \"big.t")
        }
        2 => {
            state.count("denied call");
            reply.call(name, "bash", json!({ "command": "rm -r ." }))
        }
        3 => reply.call(name, "recall", json!({ "handle": "prt_unknown" })),
        4 => {
            state.count("huge output");
            let bytes = 200_000 + state.dice.below(2_000_000);
            reply.call(name, "flood", json!({ "bytes": bytes }))
        }
        5 | 6 => reply.call(name, "list", json!({})),
        7..=9 => reply.call(name, "flood", json!({ "bytes": state.dice.below(30_000) })),
        _ => {
            let limit = 1 + state.dice.below(300);
            reply.call(
                name,
                "read",
                json!({ "path": "big.txt", "offset": 1 + state.dice.below(500), "limit": limit }),
            )
        }
    }
}

fn next_call(state: &mut State) -> String {
    state.calls += 1;
    format!("call_{}", state.calls)
}

/// Sometimes reports wrong usage, or none.
fn miscount(reply: Reply, state: &mut State) -> Reply {
    match state.dice.below(20) {
        0 => {
            state.count("no usage");
            reply.without_usage()
        }
        1 => {
            state.count("wrong usage");
            let most = [0, 1, 1_000, 1_000_000, u64::from(u32::MAX)];
            let [input, output] = [0, 1].map(|_| Tokens(*state.dice.pick(&most)));
            reply.usage(Usage::new(input, output))
        }
        _ => reply,
    }
}

fn fault(window: u64, state: &mut State) -> Fault {
    let dice = &mut state.dice;
    let place = dice.below(24) as usize;
    match dice.below(14) {
        0 => Fault::status(*dice.pick(&[400, 401, 403, 404, 413, 422, 500, 502, 503, 529])),
        1 => Fault::rate_limited(0),
        2 | 3 => {
            // Never so small that the system prompt and tools do not fit.
            let shown = window * (60 + dice.below(41)) / 100;
            Fault::Overflow { shape: Some(*dice.pick(&OverflowShape::ALL)), window: shown }
        }
        4 => Fault::HangUp,
        5 => Fault::NoAnswer,
        6 => Fault::NotAStream,
        7 => {
            let errors =
                [StreamError::Overloaded, StreamError::Server, StreamError::RateLimit, StreamError::Overflow];
            Fault::ErrorEvent { after: place, error: *dice.pick(&errors) }
        }
        8 => Fault::Cut { after: place },
        9 => Fault::EndEarly { after: place },
        10 => Fault::Silence { after: place },
        11 => Fault::SlowBytes { bytes: 200, pause_ms: 1 },
        12 => Fault::BrokenJson { at: place },
        _ => Fault::HugeEvent { at: place, bytes: EVENT_LIMIT * 2 },
    }
}
