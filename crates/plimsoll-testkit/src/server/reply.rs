//! What the server answers, whatever the wire.

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
    /// A call; its input as it is streamed, which need not be JSON.
    Call {
        id: String,
        tool: String,
        arguments: String,
    },
    /// A block or an item of a kind that only the provider knows, sent as it is.
    Block(Value),
}

/// What the server reports of the tokens it counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum UsageReport {
    /// The bytes of the request over four, split as the model of the cache has it.
    #[default]
    Counted,
    /// These numbers, right or wrong.
    Fixed(Usage),
    /// Nothing.
    Missing,
}

/// Why the model stopped, in the words of each wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It had said everything: `end_turn`, `stop`, `completed`.
    Stop,
    /// It waits for results: `tool_use`, `tool_calls`, `completed`.
    Calls,
    /// The answer was cut by its limit: `max_tokens`, `length`, `incomplete`.
    Length,
    /// A filter stopped it: `refusal`, `content_filter`, `incomplete`.
    Filter,
    /// In other words.
    Other(String),
}

/// Large enough that most answers take a few deltas, small enough that a word is cut now and then.
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
    /// An answer that says nothing.
    pub fn new() -> Reply {
        Reply::default()
    }

    /// Nothing but a fault.
    pub fn failing(fault: Fault) -> Reply {
        Reply::new().text("never read").fault(fault)
    }

    fn part(mut self, part: ReplyPart) -> Reply {
        self.parts.push(part);
        self
    }

    /// The model thinks. The thought carries what the wire has for recognising it: a signature, an encrypted
    /// reasoning item, or nothing but `reasoning_content`.
    pub fn thinking(self, thought: impl Into<String>) -> Reply {
        self.part(ReplyPart::Thinking(thought.into()))
    }

    /// The model thinks and does not show it.
    pub fn hidden_thinking(self) -> Reply {
        self.part(ReplyPart::HiddenThinking)
    }

    /// The model says something.
    pub fn text(self, text: impl Into<String>) -> Reply {
        self.part(ReplyPart::Text(text.into()))
    }

    /// The model calls a tool, whether or not the request offered or allowed it.
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

    /// A block (Anthropic) or item (Responses) as it is; Chat Completions has no place for one.
    pub fn block(self, block: Value) -> Reply {
        self.part(ReplyPart::Block(block))
    }

    /// Report this usage, right or wrong, instead of what the server counts.
    pub fn usage(mut self, usage: Usage) -> Reply {
        self.usage = UsageReport::Fixed(usage);
        self
    }

    /// Report no usage.
    pub fn without_usage(mut self) -> Reply {
        self.usage = UsageReport::Missing;
        self
    }

    /// Stop for this reason, instead of the one that fits the parts.
    pub fn finish(mut self, finish: Finish) -> Reply {
        self.finish = Some(finish);
        self
    }

    /// Stream texts, thoughts and inputs in pieces of so many characters; none streams each whole.
    pub fn piece_size(mut self, characters: Option<usize>) -> Reply {
        self.piece_size = characters.unwrap_or(usize::MAX).max(1);
        self
    }

    /// Wait before each event of the stream.
    pub fn pause(mut self, pause: Duration) -> Reply {
        self.pause = pause;
        self
    }

    /// Hold the stream before an event, counted from zero, until the gate is released.
    pub fn gate(mut self, before: usize, gate: &Gate) -> Reply {
        self.gates.push((before, gate.clone()));
        self
    }

    /// Add a fault.
    pub fn fault(mut self, fault: Fault) -> Reply {
        self.faults.push(fault);
        self
    }

    pub(crate) fn finish_reason(&self) -> Finish {
        let calls = self.parts.iter().any(|part| matches!(part, ReplyPart::Call { .. }));
        self.finish.clone().unwrap_or(if calls { Finish::Calls } else { Finish::Stop })
    }
}

/// A text in pieces of so many characters; an empty text is one empty piece.
pub(crate) fn pieces(text: &str, characters: usize) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    if all.is_empty() {
        return vec![String::new()];
    }
    all.chunks(characters).map(|chunk| chunk.iter().collect()).collect()
}
