//! Scripted answers, independent of the wire format.

use std::time::Duration;

use plimsoll::Usage;
use serde_json::Value;

use super::fault::Fault;
use super::gate::Gate;

/// A scripted answer. Its parts are sent in the order in which they were added.
///
/// ```
/// use plimsoll_testkit::server::Reply;
/// use serde_json::json;
///
/// let reply = Reply::new()
///     .thinking("Two files to read.")
///     .text("I read both.")
///     .call("call_1", "read", json!({ "path": "a.txt" }))
///     .call("call_2", "read", json!({ "path": "b.txt" }));
/// ```
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) parts: Vec<ReplyPart>,
    pub(crate) usage: UsageReport,
    pub(crate) finish: Option<Finish>,
    pub(crate) piece_size: usize,
    pub(crate) pause: Duration,
    pub(crate) gates: Vec<(usize, Gate)>,
    pub(crate) faults: Vec<Fault>,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReplyPart {
    /// A thought, signed by the server.
    Thinking(String),
    /// A thought that is not shown: `redacted_thinking`, a reasoning item without summary, nothing in Chat Completions.
    HiddenThinking,
    Text(String),
    /// A call. Its input is streamed unchanged and need not be JSON.
    Call {
        id: String,
        tool: String,
        arguments: String,
    },
    /// A provider-specific block or item, sent unchanged.
    Block(Value),
}

/// Usage that the server reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum UsageReport {
    /// A quarter of the request's bytes, split according to the model of the cache.
    #[default]
    Counted,
    /// These numbers, right or wrong.
    Fixed(Usage),
    /// No usage.
    Missing,
}

/// Stop reason, with the names in each wire format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The answer is complete: `end_turn`, `stop`, `completed`.
    Stop,
    /// The model waits for tool results: `tool_use`, `tool_calls`, `completed`.
    Calls,
    /// The answer reached its limit: `max_tokens`, `length`, `incomplete`.
    Length,
    /// A filter stopped the answer: `refusal`, `content_filter`, `incomplete`.
    Filter,
    /// Another name.
    Other(String),
}

/// Default length of a delta: most answers take a few deltas, and some words are split.
const DEFAULT_PIECE_SIZE: usize = 24;

impl Default for Reply {
    fn default() -> Reply {
        Reply {
            parts: Vec::new(),
            usage: UsageReport::default(),
            finish: None,
            piece_size: DEFAULT_PIECE_SIZE,
            pause: Duration::ZERO,
            gates: Vec::new(),
            faults: Vec::new(),
        }
    }
}

impl Reply {
    /// Creates an empty answer.
    pub fn new() -> Reply {
        Reply::default()
    }

    /// Creates an answer with only a fault.
    pub fn failing(fault: Fault) -> Reply {
        Reply::new().text("never read").fault(fault)
    }

    fn part(mut self, part: ReplyPart) -> Reply {
        self.parts.push(part);
        self
    }

    /// Adds a thought, with what the wire format has for verifying it: a signature, an encrypted reasoning item, or
    /// only `reasoning_content`.
    pub fn thinking(self, thought: impl Into<String>) -> Reply {
        self.part(ReplyPart::Thinking(thought.into()))
    }

    /// Adds a thought that is not shown.
    pub fn hidden_thinking(self) -> Reply {
        self.part(ReplyPart::HiddenThinking)
    }

    /// Adds text.
    pub fn text(self, text: impl Into<String>) -> Reply {
        self.part(ReplyPart::Text(text.into()))
    }

    /// Adds a tool call, whether or not the request offered the tool.
    #[expect(clippy::needless_pass_by_value, reason = "callers write `json!({ … })` in its place")]
    pub fn call(self, id: impl Into<String>, tool: impl Into<String>, input: Value) -> Reply {
        self.call_with_arguments(id, tool, input.to_string())
    }

    /// Like [`call`](Reply::call), with an input that need not be JSON.
    pub fn call_with_arguments(
        self,
        id: impl Into<String>,
        tool: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Reply {
        let (id, tool, arguments) = (id.into(), tool.into(), arguments.into());
        self.part(ReplyPart::Call { id, tool, arguments })
    }

    /// Adds a block (Anthropic) or an item (Responses) unchanged. Ignored in Chat Completions.
    pub fn block(self, block: Value) -> Reply {
        self.part(ReplyPart::Block(block))
    }

    /// Reports this usage, right or wrong, instead of the counted one.
    pub fn usage(mut self, usage: Usage) -> Reply {
        self.usage = UsageReport::Fixed(usage);
        self
    }

    /// Reports no usage.
    pub fn without_usage(mut self) -> Reply {
        self.usage = UsageReport::Missing;
        self
    }

    /// Sets the stop reason, instead of the one that fits the parts.
    pub fn finish(mut self, finish: Finish) -> Reply {
        self.finish = Some(finish);
        self
    }

    /// Streams texts, thoughts and inputs in pieces of this many characters. `None` sends each as one piece.
    pub fn piece_size(mut self, characters: Option<usize>) -> Reply {
        self.piece_size = characters.unwrap_or(usize::MAX).max(1);
        self
    }

    /// Waits before each event of the stream.
    pub fn pause(mut self, pause: Duration) -> Reply {
        self.pause = pause;
        self
    }

    /// Pauses the stream before an event, counted from zero, until the gate is released.
    pub fn gate(mut self, before: usize, gate: &Gate) -> Reply {
        self.gates.push((before, gate.clone()));
        self
    }

    /// Adds a fault.
    pub fn fault(mut self, fault: Fault) -> Reply {
        self.faults.push(fault);
        self
    }

    pub(crate) fn finish_reason(&self) -> Finish {
        let calls = self.parts.iter().any(|part| matches!(part, ReplyPart::Call { .. }));
        self.finish.clone().unwrap_or(if calls { Finish::Calls } else { Finish::Stop })
    }
}

/// Splits a text into pieces of `characters`. An empty text is one empty piece.
pub(crate) fn pieces(text: &str, characters: usize) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    if all.is_empty() {
        return vec![String::new()];
    }
    all.chunks(characters).map(|chunk| chunk.iter().collect()).collect()
}
