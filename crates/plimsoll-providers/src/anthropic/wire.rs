//! JSON types of Anthropic's Messages API: requests, stream events, errors.
//!
//! Unknown fields are kept in `extra`, unknown kinds of blocks, deltas and events as raw values: the API grows without
//! a new version, and later requests must repeat unknown content unchanged.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::lenient::count;

/// The body of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessagesRequest {
    /// The model.
    pub model: String,
    /// Maximum tokens of the answer; required by the API.
    pub max_tokens: u64,
    /// The system prompt, in blocks so that it can carry breakpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<Content>,
    /// Tools that the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Whether the model may or must call a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Whether the model thinks before it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The conversation.
    pub messages: Vec<Turn>,
    /// Whether the answer is streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A turn of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// `user` or `assistant`.
    pub role: String,
    /// Content of the message.
    pub content: Content,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Content is a string or a list of blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// A text.
    Text(String),
    /// Blocks.
    Blocks(Vec<ContentBlock>),
}

/// A block of content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// A breakpoint of the prompt cache.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
        /// Other fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// An image.
    Image {
        /// Location of the bytes.
        source: Source,
        /// A breakpoint of the prompt cache.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
        /// Other fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A document, such as a PDF.
    Document {
        /// Location of the bytes.
        source: Source,
        /// A breakpoint of the prompt cache.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
        /// Other fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Reasoning of the model.
    Thinking {
        /// The visible reasoning.
        thinking: String,
        /// Signature by which the provider recognises its own reasoning.
        #[serde(default)]
        signature: String,
        /// Other fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Reasoning that is not shown.
    RedactedThinking {
        /// The encrypted reasoning.
        data: String,
        /// Other fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A tool call.
    ToolUse {
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
        /// Input of the call, an object.
        input: Value,
        /// A breakpoint of the prompt cache.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
        /// Other fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// The result of a call.
    ToolResult {
        /// Id of the call.
        tool_use_id: String,
        /// Output of the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Content>,
        /// Whether the call failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        /// A breakpoint of the prompt cache.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
        /// Other fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A block of an unknown kind, unchanged.
    #[serde(untagged)]
    Other(Value),
}

/// Location of a file's bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Source {
    /// Contained in the request.
    Base64 {
        /// Media type.
        media_type: String,
        /// The bytes, in base64.
        data: String,
    },
    /// On the web.
    Url {
        /// The URL.
        url: String,
    },
    /// Another location, unchanged.
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
    /// Name.
    pub name: String,
    /// Description for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its input. Tools that the provider runs itself have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// A breakpoint of the prompt cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether the model may or must call a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolChoice {
    /// `auto`, `any`, `none` or `tool`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the tool, for `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether the model thinks before it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thinking {
    /// `enabled`, `adaptive` or `disabled`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Maximum tokens of reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The answer begins.
    MessageStart {
        /// The answer so far. Its usage counts the input.
        message: MessageStart,
    },
    /// A block begins.
    ContentBlockStart {
        /// Index in the answer.
        index: u64,
        /// The block, still empty.
        content_block: ContentBlock,
    },
    /// More of a block.
    ContentBlockDelta {
        /// Index of the block in the answer.
        index: u64,
        /// The added content.
        delta: Delta,
    },
    /// A block ends.
    ContentBlockStop {
        /// Index in the answer.
        index: u64,
    },
    /// Fields that are known at the end of the answer.
    MessageDelta {
        /// Why the answer ended.
        delta: MessageDelta,
        /// Usage since the beginning of the answer.
        #[serde(default)]
        usage: Option<Usage>,
    },
    /// The answer is complete: the closing event.
    MessageStop {},
    /// Keeps the connection open.
    Ping {},
    /// The answer failed after it began.
    Error {
        /// The error.
        error: ErrorDetail,
    },
    /// An event of an unknown kind, unchanged.
    #[serde(untagged)]
    Other(Value),
}

/// Names of the events above, to distinguish a malformed event from an unknown one.
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
    /// Id of the answer.
    #[serde(default)]
    pub id: String,
    /// The model that answers.
    #[serde(default)]
    pub model: String,
    /// Usage so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Content that is added to a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delta {
    /// More text.
    TextDelta {
        /// The text.
        text: String,
    },
    /// More reasoning.
    ThinkingDelta {
        /// The reasoning.
        thinking: String,
    },
    /// The signature of the reasoning.
    SignatureDelta {
        /// The signature.
        signature: String,
    },
    /// More of a call's input.
    InputJsonDelta {
        /// A piece of the input's JSON.
        partial_json: String,
    },
    /// A delta of an unknown kind, unchanged.
    #[serde(untagged)]
    Other(Value),
}

/// Fields of an answer that are known at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageDelta {
    /// Why the answer ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Usage as the provider reports it. `input_tokens` does not include cache reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Input that was neither read from nor written to the cache.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Output, including reasoning.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Input written to the cache.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub cache_creation_input_tokens: Option<u64>,
    /// Input read from the cache.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub cache_read_input_tokens: Option<u64>,
    /// Cache writes by lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_creation: Option<CacheCreation>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Cache writes by lifetime.
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
    /// The error.
    pub error: ErrorDetail,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// Kind of error, such as `overloaded_error`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}
