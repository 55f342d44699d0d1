//! Events of a streamed answer: what a client of a provider decodes and a session stores.

use serde_json::Value;

use crate::log::Usage;

/// Event of a model's answer.
///
/// Blocks come one after the other, as the provider sends them: text and reasoning end with
/// [`PartEnd`](AnswerEvent::PartEnd), a call with [`CallReady`](AnswerEvent::CallReady). The last event of an answer
/// is [`Finished`](AnswerEvent::Finished). A stream that ends without it has failed.
///
/// The enum is exhaustive on purpose: code that stores answers must handle every kind, or content would be lost.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerEvent {
    /// More text.
    Text(String),
    /// More reasoning.
    Thinking(String),
    /// Metadata by which the provider recognises the reasoning that is being written, under the provider's name:
    /// `{"anthropic": {"signature": "…", "model": "…"}}`.
    Signature(Value),
    /// A call begins; its input follows.
    CallBegin {
        /// The provider's id of the call.
        call: String,
        /// The name under which the host declared the tool.
        tool: String,
    },
    /// More of the call's input, as raw JSON text.
    CallInput(String),
    /// The call's complete input. Input that is not valid JSON is a string.
    CallReady(Value),
    /// A block of an unknown kind, under the provider's name: `{"anthropic": {"type": "…", …}}`. It is kept unchanged and
    /// sent back to the provider.
    Block(Value),
    /// The block that was being written is complete.
    PartEnd,
    /// Usage so far.
    Usage(Usage),
    /// The answer is complete.
    Finished {
        /// Why the model stopped, in the provider's words.
        reason: String,
        /// Final usage, if the provider reports it.
        usage: Option<Usage>,
    },
}

impl AnswerEvent {
    /// Whether the event carries content that is lost if the request is sent again.
    pub fn is_content(&self) -> bool {
        !matches!(self, AnswerEvent::Usage(_))
    }
}
