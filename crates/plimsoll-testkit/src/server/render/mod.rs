//! Renders replies in the wire formats.

mod anthropic;
mod chat;
mod responses;

use plimsoll_providers::Wire;
use serde_json::Value;

use super::reply::{Reply, ReplyPart, UsageReport};
use super::sign::Signer;

/// Properties of an answer besides its parts.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    /// Number of the answer, from which ids are made.
    pub(crate) number: u64,
    pub(crate) model: String,
    pub(crate) counts: Option<Counts>,
    pub(crate) signer: Signer,
    /// Whether the request asked for encrypted thoughts (Responses).
    pub(crate) encrypted: bool,
    /// Whether the request asked for a chunk with the usage (Chat Completions).
    pub(crate) usage_chunk: bool,
}

/// Tokens of an answer. Input is without cached tokens, output without thoughts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) input: u64,
    pub(crate) read: u64,
    pub(crate) write: u64,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
    /// Whether written tokens are kept for an hour.
    pub(crate) for_an_hour: bool,
}

impl Counts {
    /// Returns the counts that a reply reports. `input` has the counts of the request.
    pub(crate) fn of(reply: &Reply, input: Counts) -> Option<Counts> {
        match &reply.usage {
            UsageReport::Missing => None,
            UsageReport::Fixed(usage) => Some(Counts {
                input: usage.input.0,
                read: usage.cache_read.0,
                write: usage.cache_write.0,
                output: usage.output.0,
                reasoning: usage.reasoning.0,
                for_an_hour: input.for_an_hour,
            }),
            UsageReport::Counted => {
                let length = |part: &ReplyPart| match part {
                    ReplyPart::Text(text) => (text.len(), 0),
                    ReplyPart::Call { tool, arguments, .. } => (tool.len() + arguments.len(), 0),
                    ReplyPart::Thinking(thought) => (0, thought.len()),
                    ReplyPart::HiddenThinking => (0, 400),
                    ReplyPart::Block(block) => (block.to_string().len(), 0),
                };
                let sum =
                    reply.parts.iter().map(length).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                let tokens = |bytes: usize| (bytes as u64).div_ceil(4);
                Some(Counts { output: tokens(sum.0).max(1), reasoning: tokens(sum.1), ..input })
            }
        }
    }

    pub(crate) fn all_input(&self) -> u64 {
        self.input.saturating_add(self.read).saturating_add(self.write)
    }

    pub(crate) fn all_output(&self) -> u64 {
        self.output.saturating_add(self.reasoning)
    }
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WireEvent {
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

impl WireEvent {
    /// An event named by its type, as in Anthropic's and the Responses API.
    pub(crate) fn named(data: &Value) -> WireEvent {
        let name = data.get("type").and_then(Value::as_str).map(str::to_owned);
        WireEvent { name, data: data.to_string() }
    }

    pub(crate) fn unnamed(data: &Value) -> WireEvent {
        WireEvent { name: None, data: data.to_string() }
    }

    /// An error or another event in the framing of that wire format.
    pub(crate) fn of_wire(wire: Wire, data: &Value) -> WireEvent {
        match wire {
            Wire::Chat => WireEvent::unnamed(data),
            Wire::Anthropic | Wire::Responses => WireEvent::named(data),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let name = self.name.as_ref().map(|name| format!("event: {name}\n")).unwrap_or_default();
        format!("{name}data: {}\n\n", self.data).into_bytes()
    }
}

/// The events of a streamed answer.
pub(crate) fn stream(wire: Wire, reply: &Reply, envelope: &Envelope) -> Vec<WireEvent> {
    match wire {
        Wire::Anthropic => anthropic::stream(reply, envelope),
        Wire::Chat => chat::stream(reply, envelope),
        Wire::Responses => responses::stream(reply, envelope),
    }
}

/// The body of an answer that is not streamed.
pub(crate) fn whole(wire: Wire, reply: &Reply, envelope: &Envelope) -> Value {
    match wire {
        Wire::Anthropic => anthropic::whole(reply, envelope),
        Wire::Chat => chat::whole(reply, envelope),
        Wire::Responses => responses::whole(reply, envelope),
    }
}

/// A fixed time in 2026, so that runs are reproducible.
pub(crate) const CREATED: u64 = 1_790_000_000;

/// Converts fields to the `extra` of a wire type.
pub(crate) fn extra(fields: Value) -> plimsoll_providers::Extra {
    match fields {
        Value::Object(fields) => fields,
        _ => plimsoll_providers::Extra::new(),
    }
}

/// Parses a call's input. Invalid JSON stays a string.
pub(crate) fn input(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned()))
}
