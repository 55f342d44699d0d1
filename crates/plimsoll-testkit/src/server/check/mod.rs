//! The rules of the providers, as far as a request can break them.
//!
//! They are held against the JSON as it came rather than against the wire types, so that a mistake in those types
//! cannot hide one in the request. The sentences are the providers' own where they are known.

mod anthropic;
mod chat;
mod responses;

use std::collections::BTreeMap;

use plimsoll_providers::Wire;
use serde_json::{Map, Value};

use super::captured::Captured;
use super::reply::{Reply, ReplyPart};
use super::sign::Signer;

/// What the server has sent and has to be given back.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The thoughts before each call. Scripts use the same call id in several answers: any of them will do.
    thoughts: BTreeMap<String, Vec<Thoughts>>,
    /// What came after each reasoning item, by its encrypted content.
    followers: BTreeMap<String, Vec<Follower>>,
}

/// The thoughts that led to a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Thoughts {
    model: String,
    signatures: Vec<String>,
}

/// What came after a reasoning item.
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

/// What a rule is held against.
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

    /// Report unless it holds.
    fn require(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(problem());
        }
    }

    fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(own, _)| own == name)
    }
}

/// What is illegal in a request; the first is what the provider would report.
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
    // The types of the providers' crate have to read what is legal.
    let read = match wire {
        Wire::Anthropic => read::<plimsoll_providers::anthropic::wire::MessagesRequest>(body),
        Wire::Chat => read::<plimsoll_providers::chat::wire::ChatRequest>(body),
        // A conversation may be a string there, which the type does not have.
        Wire::Responses if body.get("input").is_some_and(Value::is_string) => Ok(()),
        Wire::Responses => read::<plimsoll_providers::responses::wire::ResponsesRequest>(body),
    };
    if let (Err(error), true) = (read, subject.problems.is_empty()) {
        subject.report(format!("the wire types do not read the request: {error}"));
    }
    subject.problems
}

fn read<T: serde::de::DeserializeOwned>(body: &Value) -> Result<(), serde_json::Error> {
    T::deserialize(body).map(|_| ())
}

/// Letters, digits, `_` and `-`, and not more than `limit`.
fn is_name(name: &str, limit: usize) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.len() <= limit && name.bytes().all(legal)
}

/// Fields that an object may not have.
fn unknown_fields<'a>(object: Option<&'a Map<String, Value>>, known: &[&str]) -> Vec<&'a str> {
    let fields = object.into_iter().flat_map(Map::keys).map(String::as_str);
    fields.filter(|field| !known.contains(field)).collect()
}
