//! JSON types of OpenAI's Chat Completions: requests, stream chunks, errors.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::lenient::{count, null_as_default};

/// The body of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// The model.
    pub model: String,
    /// The conversation.
    pub messages: Vec<ChatMessage>,
    /// Tools that the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// `auto`, `none`, `required`, or an object that names a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// Maximum tokens of the answer, for OpenAI's newer models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_completion_tokens: Option<u64>,
    /// Maximum tokens of the answer, for other servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Reasoning effort: `low`, `medium`, `high`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Requests with the same key are routed to the same cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_cache_key: Option<String>,
    /// Whether the answer is streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Options of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_options: Option<StreamOptions>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Options of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamOptions {
    /// A last chunk with the usage.
    #[serde(default)]
    pub include_usage: bool,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A message of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    pub role: String,
    /// Content; `None` for an answer that only calls tools.
    #[serde(default)]
    pub content: Option<Content>,
    /// The calls of an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Content is a string or a list of parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// A text.
    Text(String),
    /// Parts.
    Parts(Vec<ContentPart>),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    ImageUrl {
        /// Location of the image.
        image_url: ImageUrl,
    },
    /// A part of an unknown kind, unchanged.
    #[serde(untagged)]
    Other(Value),
}

/// Location of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageUrl {
    /// A web URL or a `data:` URL.
    pub url: String,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id of the call.
    pub id: String,
    /// `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Function of a call.
    pub function: FunctionCall,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Function of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// Name of the tool.
    pub name: String,
    /// Input of the call: JSON in a string.
    pub arguments: String,
}

/// A tool the model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the tool.
    pub function: Function,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Name.
    pub name: String,
    /// Description for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A chunk of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// Id of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The model that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Additions to each answer. Empty in the chunk with the final usage.
    #[serde(default, deserialize_with = "null_as_default")]
    pub choices: Vec<Choice>,
    /// Usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// An error after the answer began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Addition to an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Index of the answer; we request only one.
    #[serde(default)]
    pub index: u64,
    /// The added content.
    #[serde(default, deserialize_with = "null_as_default")]
    pub delta: Delta,
    /// Why the answer ended.
    #[serde(default)]
    pub finish_reason: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The added content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delta {
    /// `assistant`, in the first delta.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// More text. Mistral sends a list of parts while the model thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// Why the model refuses to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// More reasoning, from DeepSeek, vLLM and llama.cpp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// More reasoning, from OpenRouter, Groq and Ollama.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Pieces of signed reasoning from OpenRouter, which later requests must contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_details: Option<Vec<Value>>,
    /// Additions to the calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCallDelta>>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Addition to a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolCallDelta {
    /// Index of the call in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Id of the call, in its first delta.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Function of a call.
    #[serde(default, deserialize_with = "null_as_default")]
    pub function: FunctionDelta,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Addition to the function of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionDelta {
    /// Name of the tool, in the first delta.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A piece of the input's JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
}

/// Usage as the provider reports it. `prompt_tokens` includes cached input, `completion_tokens` includes reasoning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Total input.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Total output.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// Input and output.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Breakdown of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_details: Option<InputDetails>,
    /// Breakdown of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens_details: Option<OutputDetails>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Breakdown of the input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputDetails {
    /// Read from the cache.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Written to the cache.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Breakdown of the output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputDetails {
    /// Reasoning.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The body of an error, which the Responses API shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// The message.
    #[serde(default)]
    pub message: String,
    /// The kind of error, such as `invalid_request_error`.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// A code, such as `context_length_exceeded`; some servers send a number.
    #[serde(default)]
    pub code: Option<Value>,
    /// Field of the request that caused the error.
    #[serde(default)]
    pub param: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}
