//! The providers' rules for requests.
//!
//! The rules are checked on the received JSON instead of the wire types, so that a fault in those types cannot hide one in
//! the request. The messages are the providers' own if known.

mod anthropic;
mod chat;
mod responses;

use std::collections::BTreeMap;

use plimsoll_providers::Wire;
use serde_json::{Map, Value};

use super::captured::Captured;
use super::reply::{Reply, ReplyPart};
use super::sign::Signer;

/// Content that the server has sent and that requests have to replay.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The thoughts before each call. Scripts use the same call id in several answers: any of them will do.
    thoughts: BTreeMap<String, Vec<Thoughts>>,
    /// The item after each reasoning item, by its encrypted content.
    followers: BTreeMap<String, Vec<Follower>>,
}

/// The thoughts before a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Thoughts {
    model: String,
    signatures: Vec<String>,
}

/// The item after a reasoning item.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Follower {
    Call(String),
    Message,
    Other,
}

impl Memory {
    pub(crate) fn remember(&mut self, captured: &Captured, reply: &Reply, signer: &Signer) {
        let sign = |part: &ReplyPart| match part {
            ReplyPart::Thinking(thought) => Some(signer.sign(captured.wire, thought)),
            ReplyPart::HiddenThinking => Some(signer.sign(captured.wire, "")),
            _ => None,
        };
        let mut before: Vec<String> = Vec::new();
        for (at, part) in reply.parts.iter().enumerate() {
            if let ReplyPart::Call { id, .. } = part {
                let thoughts = Thoughts { model: captured.model.clone(), signatures: before.clone() };
                self.thoughts.entry(id.clone()).or_default().push(thoughts);
            }
            let Some(signature) = sign(part) else { continue };
            let follower = match reply.parts.get(at + 1) {
                Some(ReplyPart::Call { id, .. }) => Some(Follower::Call(id.clone())),
                Some(ReplyPart::Text(_)) => Some(Follower::Message),
                Some(_) => Some(Follower::Other),
                None => None,
            };
            self.followers.entry(signature.clone()).or_default().extend(follower);
            before.push(signature);
        }
    }
}

/// The request that is checked.
struct Subject<'a> {
    body: &'a Value,
    headers: &'a [(String, String)],
    signer: &'a Signer,
    memory: &'a Memory,
    problems: Vec<String>,
}

impl Subject<'_> {
    fn report(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    /// Reports a problem unless `holds`.
    fn require(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(problem());
        }
    }

    fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(own, _)| own == name)
    }
}

/// Returns the problems of a request. The first is the one that the provider would report.
pub(crate) fn check(
    wire: Wire,
    body: &Value,
    headers: &[(String, String)],
    signer: &Signer,
    memory: &Memory,
) -> Vec<String> {
    let mut subject = Subject { body, headers, signer, memory, problems: Vec::new() };
    match wire {
        Wire::Anthropic => anthropic::check(&mut subject),
        Wire::Chat => chat::check(&mut subject),
        Wire::Responses => responses::check(&mut subject),
    }
    // The wire types must be able to parse legal requests.
    let read = match wire {
        Wire::Anthropic => read::<plimsoll_providers::anthropic::wire::MessagesRequest>(body),
        Wire::Chat => read::<plimsoll_providers::chat::wire::ChatRequest>(body),
        // The input may be a string, which the type does not support.
        Wire::Responses if body.get("input").is_some_and(Value::is_string) => Ok(()),
        Wire::Responses => read::<plimsoll_providers::responses::wire::ResponsesRequest>(body),
    };
    if let (Err(error), true) = (read, subject.problems.is_empty()) {
        subject.report(format!("the wire types cannot parse the request: {error}"));
    }
    subject.problems
}

fn read<T: serde::de::DeserializeOwned>(body: &Value) -> Result<(), serde_json::Error> {
    T::deserialize(body).map(|_| ())
}

/// Whether a name has at most `limit` letters, digits, `_` and `-`.
fn is_name(name: &str, limit: usize) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.len() <= limit && name.bytes().all(legal)
}

/// Fields of an object that are not known.
fn unknown_fields<'a>(object: Option<&'a Map<String, Value>>, known: &[&str]) -> Vec<&'a str> {
    let fields = object.into_iter().flat_map(Map::keys).map(String::as_str);
    fields.filter(|field| !known.contains(field)).collect()
}
