//! What a streamed answer brings.

use plimsoll::Usage;
use serde_json::Value;

/// Something that a model's answer brings, in the order of the wire.
///
/// One block is written at a time: text and thoughts until [`PartEnd`](StreamEvent::PartEnd), a call until
/// [`CallReady`](StreamEvent::CallReady). The last event of an answer is [`Finished`](StreamEvent::Finished); a
/// stream without it failed.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// More words.
    Text(String),
    /// More thoughts.
    Thinking(String),
    /// What the provider needs to recognise the thought that is being written, under the provider's name:
    /// `{"anthropic": {"signature": "…", "model": "…"}}`.
    Signature(Value),
    /// A call begins; its input follows.
    CallBegin {
        /// The provider's name for the call.
        call: String,
        /// The tool, by the name it has here.
        tool: String,
    },
    /// More of the call's input, as it is written.
    CallInput(String),
    /// The call's input, whole. An input that is no JSON comes as a string.
    CallReady(Value),
    /// A block of a kind that is not known here, under the provider's name: `{"anthropic": {"type": "…", …}}`.
    Block(Value),
    /// The block that was being written is whole.
    PartEnd,
    /// What the provider has counted so far.
    Usage(Usage),
    /// The answer is whole.
    Finished {
        /// Why the model stopped, in the provider's words.
        reason: String,
        /// What the provider counted, if it did.
        usage: Option<Usage>,
    },
}

impl StreamEvent {
    /// Whether the model has said something that is lost if the request is sent again.
    pub fn is_content(&self) -> bool {
        !matches!(self, StreamEvent::Usage(_))
    }
}
