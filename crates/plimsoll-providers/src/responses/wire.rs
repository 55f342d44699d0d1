//! JSON types of OpenAI's Responses API: requests and stream events. Errors use
//! [`chat::wire::ErrorBody`](crate::chat::wire::ErrorBody).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::chat::wire::{InputDetails, OutputDetails};
use crate::lenient::count;

/// The body of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponsesRequest {
    /// The model.
    pub model: String,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The conversation.
    pub input: Vec<Item>,
    /// Tools that the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// `auto`, `none`, `required`, or an object that names a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// Maximum tokens of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Whether and how the model thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// Additional content of the answer, such as `reasoning.encrypted_content`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Whether the provider stores the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<bool>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Requests with the same key are routed to the same cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_cache_key: Option<String>,
    /// Whether the answer is streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether and how the model thinks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// Effort: `minimal`, `low`, `medium`, `high`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Which summary of the reasoning is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An item of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// A message.
    Message {
        /// `system`, `developer`, `user` or `assistant`.
        role: String,
        /// Content of the message.
        content: Content,
        /// Id of the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// Other fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Reasoning of the model.
    Reasoning {
        /// Id of the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The visible reasoning.
        #[serde(default)]
        summary: Vec<SummaryPart>,
        /// The encrypted reasoning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encrypted_content: Option<String>,
        /// Other fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A tool call.
    FunctionCall {
        /// Id of the call, which its result refers to.
        call_id: String,
        /// Name of the tool.
        name: String,
        /// Input of the call: JSON in a string.
        #[serde(default)]
        arguments: String,
        /// Id of the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// Other fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// The result of a call.
    FunctionCallOutput {
        /// Id of the call.
        call_id: String,
        /// Output of the tool.
        output: Output,
        /// Other fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// An item of an unknown kind, unchanged.
    #[serde(untagged)]
    Other(Value),
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

/// Output of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Output {
    /// A text.
    Text(String),
    /// Parts.
    Parts(Vec<ContentPart>),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Text for the model.
    InputText {
        /// The text.
        text: String,
    },
    /// An image.
    InputImage {
        /// A web URL or a `data:` URL.
        image_url: String,
        /// Resolution that the model sees: `auto`, `low` or `high`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// A file.
    InputFile {
        /// Name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filename: Option<String>,
        /// Content as a `data:` URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_data: Option<String>,
        /// Web URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_url: Option<String>,
    },
    /// Text of the model.
    OutputText {
        /// The text.
        text: String,
        /// Other fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Why the model refuses to answer.
    Refusal {
        /// The message.
        refusal: String,
    },
    /// A part of an unknown kind, unchanged.
    #[serde(untagged)]
    Other(Value),
}

/// A part of the visible reasoning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryPart {
    /// `summary_text`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text.
    pub text: String,
}

/// A tool the model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// `function`, or the kind of a tool that the provider runs itself.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Description for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// Whether the input must match the schema. With the API's default, schemas with optional fields are rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    /// An item begins.
    #[serde(rename = "response.output_item.added")]
    ItemAdded {
        /// Index in the answer.
        output_index: u64,
        /// The item, still empty.
        item: Item,
    },
    /// An item ends.
    #[serde(rename = "response.output_item.done")]
    ItemDone {
        /// Index in the answer.
        output_index: u64,
        /// The item.
        item: Item,
    },
    /// More text.
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        /// Index of the item in the answer.
        output_index: u64,
        /// The text.
        delta: String,
    },
    /// More of a refusal.
    #[serde(rename = "response.refusal.delta")]
    RefusalDelta {
        /// Index of the item in the answer.
        output_index: u64,
        /// The text.
        delta: String,
    },
    /// More of the visible reasoning.
    #[serde(rename = "response.reasoning_summary_text.delta")]
    SummaryDelta {
        /// Index of the item in the answer.
        output_index: u64,
        /// Index of the part of the summary.
        #[serde(default)]
        summary_index: u64,
        /// The text.
        delta: String,
    },
    /// More reasoning, from models that show it.
    #[serde(rename = "response.reasoning_text.delta")]
    ReasoningDelta {
        /// Index of the item in the answer.
        output_index: u64,
        /// The text.
        delta: String,
    },
    /// More of a call's input.
    #[serde(rename = "response.function_call_arguments.delta")]
    ArgumentsDelta {
        /// Index of the item in the answer.
        output_index: u64,
        /// A piece of the input's JSON.
        delta: String,
    },
    /// The answer is complete: a closing event.
    #[serde(rename = "response.completed")]
    Completed {
        /// The complete answer.
        response: Response,
    },
    /// A limit or a filter ended the answer: a closing event.
    #[serde(rename = "response.incomplete")]
    Incomplete {
        /// The answer so far.
        response: Response,
    },
    /// The answer failed: a closing event.
    #[serde(rename = "response.failed")]
    Failed {
        /// The answer so far, with its error.
        response: Response,
    },
    /// The answer failed.
    #[serde(rename = "error")]
    Error {
        /// A code, such as `context_length_exceeded`.
        #[serde(default)]
        code: Option<Value>,
        /// The message.
        #[serde(default)]
        message: Option<String>,
        /// The error as an object, as some servers send it.
        #[serde(default)]
        error: Option<Value>,
    },
    /// An event of an unknown kind, unchanged.
    #[serde(untagged)]
    Other(Value),
}

/// Names of the events above, to distinguish a malformed event from an unknown one.
pub(crate) const KNOWN_EVENTS: [&str; 11] = [
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
    "response.function_call_arguments.delta",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "error",
];

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Id of the answer.
    #[serde(default)]
    pub id: String,
    /// `completed`, `incomplete`, `failed`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// Why it is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete_details: Option<IncompleteDetails>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Why an answer is incomplete.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IncompleteDetails {
    /// `max_output_tokens` or `content_filter`.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Usage as the provider reports it. `input_tokens` includes cached input, `output_tokens` includes reasoning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Total input.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Total output.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Input and output.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Breakdown of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens_details: Option<InputDetails>,
    /// Breakdown of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens_details: Option<OutputDetails>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Extra,
}
