//! The JSON of Anthropic's Messages API: requests, events of a stream, errors.
//!
//! Unknown fields are kept in `extra`, unknown kinds of blocks, deltas and events as raw values: the API grows
//! without a new version, and what is not understood has to be given back as it came.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::lenient::count;

/// The body of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessagesRequest {
    /// The model.
    pub model: String,
    /// The longest answer; the API insists on it.
    pub max_tokens: u64,
    /// The system prompt, in blocks so that it can carry breakpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<Content>,
    /// What the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Whether it may or must call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Whether it thinks before it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Randomness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The conversation.
    pub messages: Vec<Turn>,
    /// Whether the answer is streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// One turn of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: Content,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Content is a string or a list of blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// One text.
    Text(String),
    /// Blocks.
    Blocks(Vec<ContentBlock>),
}

/// A block of content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Words.
    Text {
        /// The words.
        text: String,
        /// A breakpoint of the prompt cache.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
        /// Everything else.
        #[serde(flatten)]
        extra: Extra,
    },
    /// An image.
    Image {
        /// Where its bytes are.
        source: Source,
        /// A breakpoint of the prompt cache.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
        /// Everything else.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A document, such as a PDF.
    Document {
        /// Where its bytes are.
        source: Source,
        /// A breakpoint of the prompt cache.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
        /// Everything else.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Thoughts of the model.
    Thinking {
        /// What is shown of them.
        thinking: String,
        /// What the provider recognises them by.
        #[serde(default)]
        signature: String,
        /// Everything else.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Thoughts that are not shown.
    RedactedThinking {
        /// The encrypted thoughts.
        data: String,
        /// Everything else.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A call of a tool.
    ToolUse {
        /// Names the call.
        id: String,
        /// The tool.
        name: String,
        /// What it is given; an object.
        input: Value,
        /// A breakpoint of the prompt cache.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
        /// Everything else.
        #[serde(flatten)]
        extra: Extra,
    },
    /// The result of a call.
    ToolResult {
        /// The call.
        tool_use_id: String,
        /// What the tool answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Content>,
        /// Whether it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        /// A breakpoint of the prompt cache.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
        /// Everything else.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A block of another kind, as it came.
    #[serde(untagged)]
    Other(Value),
}

/// Where the bytes of a file are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Source {
    /// In the request.
    Base64 {
        /// Their media type.
        media_type: String,
        /// The bytes.
        data: String,
    },
    /// On the web.
    Url {
        /// The address.
        url: String,
    },
    /// Elsewhere.
    #[serde(untagged)]
    Other(Value),
}

/// A breakpoint of the prompt cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheControl {
    /// `ephemeral`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `5m`, the default, or `1h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
}

/// A tool the model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its input. Tools that the provider runs itself have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// A breakpoint of the prompt cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether the model may or must call a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolChoice {
    /// `auto`, `any`, `none` or `tool`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The tool, for `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether the model thinks before it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thinking {
    /// `enabled`, `adaptive` or `disabled`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The most tokens it may think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The answer begins.
    MessageStart {
        /// The answer as far as it is known: its usage above all.
        message: MessageStart,
    },
    /// A block begins.
    ContentBlockStart {
        /// Its place in the answer.
        index: u64,
        /// The block, still empty.
        content_block: ContentBlock,
    },
    /// More of a block.
    ContentBlockDelta {
        /// The block's place in the answer.
        index: u64,
        /// What is added.
        delta: Delta,
    },
    /// A block is whole.
    ContentBlockStop {
        /// Its place in the answer.
        index: u64,
    },
    /// What is known of the answer at its end.
    MessageDelta {
        /// Why it stopped.
        delta: MessageDelta,
        /// What was counted, summed up since the beginning.
        #[serde(default)]
        usage: Option<Usage>,
    },
    /// The answer is whole: the closing event.
    MessageStop {},
    /// Nothing, to keep the connection open.
    Ping {},
    /// The answer failed in the middle.
    Error {
        /// What went wrong.
        error: ErrorDetail,
    },
    /// An event of another kind, as it came.
    #[serde(untagged)]
    Other(Value),
}

/// The names of the events above, to tell a malformed one from an unknown one.
pub(crate) const KNOWN_EVENTS: [&str; 8] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "error",
];

/// An answer that begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageStart {
    /// Names the answer.
    #[serde(default)]
    pub id: String,
    /// The model that answers.
    #[serde(default)]
    pub model: String,
    /// What was counted so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What is added to a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delta {
    /// More words.
    TextDelta {
        /// The words.
        text: String,
    },
    /// More thoughts.
    ThinkingDelta {
        /// The thoughts.
        thinking: String,
    },
    /// The signature of a thought.
    SignatureDelta {
        /// The signature.
        signature: String,
    },
    /// More of a call's input.
    InputJsonDelta {
        /// A piece of the input's JSON.
        partial_json: String,
    },
    /// Something else, as it came.
    #[serde(untagged)]
    Other(Value),
}

/// What is known of an answer at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageDelta {
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What the provider counted. Reads and writes of the cache are not part of `input_tokens`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Input outside of the cache.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// The answer, thoughts included.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Input written to the cache.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub cache_creation_input_tokens: Option<u64>,
    /// Input read from the cache.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub cache_read_input_tokens: Option<u64>,
    /// What was written, by how long it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_creation: Option<CacheCreation>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What was written to the cache, by how long it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheCreation {
    /// For five minutes.
    #[serde(default)]
    pub ephemeral_5m_input_tokens: u64,
    /// For an hour.
    #[serde(default)]
    pub ephemeral_1h_input_tokens: u64,
}

/// The body of an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// `error`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// What went wrong.
    pub error: ErrorDetail,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What went wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// The kind of error, such as `overloaded_error`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// In words.
    #[serde(default)]
    pub message: String,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}
