//! The window: what the model receives. A pure function of the log, its marks and the policy.
//!
//! Order: marker, summary, tail, later messages. The result is always a legal conversation, whatever
//! the log contains: it starts with a user message, every tool call has exactly one result right after it, and
//! no message is empty. Appending to the log never changes earlier messages of the window, because provider
//! caches depend on it. The exception is an open call, which is shown as interrupted until its result arrives.

mod check;
mod gained;
mod inputs;
mod placeholder;
mod view;
mod wire;

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::chars::Text;
use crate::log::{Input, Message, MessageId, PartId};
use crate::pivot::VisibleRange;
use crate::policy::Policy;

pub use check::InvalidWindow;
pub(crate) use gained::gained;
pub(crate) use placeholder::placeholder_with_names;
pub use placeholder::{PLACEHOLDER, is_bare_placeholder, is_placeholder, placeholder_handle};
pub(crate) use view::lead_of;
pub use wire::{Attachment, legal_name, object_input};

/// Precedes pinned texts whose messages are out of view.
pub const PINNED: &str = "Pinned earlier in this conversation, to be kept to word for word:";
/// Text of a compaction marker in the window.
pub const MARKER_QUESTION: &str = "What did we do so far?";
/// The result of a call without one.
pub const INTERRUPTED: &str = "[Tool execution was interrupted]";
/// The result of a call with empty output.
pub const NO_OUTPUT: &str = "(no output)";
/// Opens a conversation that starts with the model.
pub const OPENING: &str = "[The conversation starts with the assistant]";

/// The conversation that the model receives.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// The messages, oldest first.
    pub messages: Vec<WindowMessage>,
    /// The marker message of the pivot at its beginning.
    pub pivot: Option<MessageId>,
}

/// Message of the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WindowMessage {
    /// The role.
    pub role: WindowRole,
    /// The message of the log it comes from; `None` for text that the window adds.
    pub message: Option<MessageId>,
    /// The index of that message in the log.
    #[serde(skip)]
    pub place: Option<usize>,
    /// The content, never empty.
    pub blocks: Vec<Block>,
    /// Number of signed reasoning blocks of this answer. As long as any of its calls is shown, all of
    /// them must be.
    #[serde(skip)]
    pub signed: usize,
}

/// Role of a window message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WindowRole {
    /// The host.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// Results of the calls in the message before.
    Tool,
}

/// Piece of a window message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Block {
    /// Text.
    Text {
        /// The text, never blank.
        text: Text,
        /// The part it comes from.
        part: Option<PartId>,
    },
    /// Reasoning of the model, with the metadata that the provider needs to accept it.
    Reasoning {
        /// The reasoning.
        text: Text,
        /// The provider's data, such as a signature. Never changed.
        metadata: Option<Value>,
        /// The part it comes from.
        part: PartId,
    },
    /// A tool call.
    Call {
        /// Unique in the window.
        id: String,
        /// The tool.
        tool: String,
        /// The input.
        input: Input,
        /// The part it comes from.
        part: PartId,
    },
    /// The result of the call of the same id in the message before.
    Result {
        /// The call's id.
        id: String,
        /// The tool.
        tool: String,
        /// The output, never empty.
        text: Text,
        /// Whether the output is an error.
        is_error: bool,
        /// Files returned with the output.
        #[serde(skip_serializing_if = "no_files")]
        files: Arc<Vec<Value>>,
        /// Whether the output was cleared and this is its placeholder.
        cleared: bool,
        /// The part it comes from.
        part: PartId,
    },
    /// A block of the model's answer of an unknown kind. It is sent back to the provider that created it.
    Provider {
        /// The block, under the provider's name.
        value: Input,
        /// The part it comes from.
        part: PartId,
    },
    /// A file the user attached.
    File {
        /// The media type.
        mime: Option<String>,
        /// The name.
        filename: Option<String>,
        /// The URL.
        url: Option<Text>,
        /// The part it comes from.
        part: PartId,
    },
}

/// Kind of a part that holds a provider's block unchanged, in its field `block`.
pub const PROVIDER_BLOCK: &str = "provider-block";

fn no_files(files: &Arc<Vec<Value>>) -> bool {
    files.is_empty()
}

impl Window {
    /// Builds the window over a log.
    ///
    /// ```
    /// use plimsoll::{Message, Policy, Window};
    /// let log = [Message::user("msg_1".into(), "prt_1".into(), "hello")];
    /// let window = Window::of(&log, &Policy::default());
    /// assert_eq!(window.messages.len(), 1);
    /// window.check()?;
    /// # Ok::<(), plimsoll::InvalidWindow>(())
    /// ```
    pub fn of(messages: &[Message], policy: &Policy) -> Window {
        Window::of_visible(messages, &VisibleRange::of(messages), policy)
    }
}
