//! The JSON of OpenAI's Responses API: requests and events of a stream. Errors have the body of
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
    /// What the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// `auto`, `none`, `required`, or an object that names a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// The longest answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Whether and how it thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// What the answer should bring besides, such as `reasoning.encrypted_content`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Whether the provider keeps the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<bool>,
    /// Randomness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Requests with the same key are sent to the same cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_cache_key: Option<String>,
    /// Whether the answer is streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Whether and how the model thinks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// How long: `minimal`, `low`, `medium`, `high`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// What is shown of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An item of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// Something said.
    Message {
        /// `system`, `developer`, `user` or `assistant`.
        role: String,
        /// What is said.
        content: Content,
        /// Names the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// Everything else.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Thoughts of the model.
    Reasoning {
        /// Names the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// What is shown of them.
        #[serde(default)]
        summary: Vec<SummaryPart>,
        /// The thoughts, encrypted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        encrypted_content: Option<String>,
        /// Everything else.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A call of a tool.
    FunctionCall {
        /// Names the call; its result refers to it.
        call_id: String,
        /// The tool.
        name: String,
        /// Its input as JSON in a string.
        #[serde(default)]
        arguments: String,
        /// Names the item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// Everything else.
        #[serde(flatten)]
        extra: Extra,
    },
    /// The result of a call.
    FunctionCallOutput {
        /// The call.
        call_id: String,
        /// What the tool answered.
        output: Output,
        /// Everything else.
        #[serde(flatten)]
        extra: Extra,
    },
    /// An item of another kind, as it came.
    #[serde(untagged)]
    Other(Value),
}

/// Content is a string or a list of parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// One text.
    Text(String),
    /// Parts.
    Parts(Vec<ContentPart>),
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Output {
    /// One text.
    Text(String),
    /// Parts.
    Parts(Vec<ContentPart>),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Words to the model.
    InputText {
        /// The words.
        text: String,
    },
    /// An image.
    InputImage {
        /// An address on the web, or a `data:` address.
        image_url: String,
        /// How closely it is looked at: `auto`, `low` or `high`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// A file.
    InputFile {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filename: Option<String>,
        /// Its bytes, as a `data:` address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_data: Option<String>,
        /// Its address on the web.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_url: Option<String>,
    },
    /// Words of the model.
    OutputText {
        /// The words.
        text: String,
        /// Everything else.
        #[serde(flatten)]
        extra: Extra,
    },
    /// Why the model refuses to answer.
    Refusal {
        /// In words.
        refusal: String,
    },
    /// A part of another kind, as it came.
    #[serde(untagged)]
    Other(Value),
}

/// A part of what is shown of thoughts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryPart {
    /// `summary_text`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The words.
    pub text: String,
}

/// A tool the model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// `function`, or the kind of a tool that the provider runs itself.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// Whether the input is forced into the schema. The API's default would refuse schemas with optional fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Everything else.
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
        /// Its place in the answer.
        output_index: u64,
        /// The item, still empty.
        item: Item,
    },
    /// An item is whole.
    #[serde(rename = "response.output_item.done")]
    ItemDone {
        /// Its place in the answer.
        output_index: u64,
        /// The item.
        item: Item,
    },
    /// More words.
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        /// The item's place in the answer.
        output_index: u64,
        /// The words.
        delta: String,
    },
    /// More of a refusal.
    #[serde(rename = "response.refusal.delta")]
    RefusalDelta {
        /// The item's place in the answer.
        output_index: u64,
        /// The words.
        delta: String,
    },
    /// More of what is shown of thoughts.
    #[serde(rename = "response.reasoning_summary_text.delta")]
    SummaryDelta {
        /// The item's place in the answer.
        output_index: u64,
        /// The part of the summary.
        #[serde(default)]
        summary_index: u64,
        /// The words.
        delta: String,
    },
    /// More thoughts, of models that show them.
    #[serde(rename = "response.reasoning_text.delta")]
    ReasoningDelta {
        /// The item's place in the answer.
        output_index: u64,
        /// The words.
        delta: String,
    },
    /// More of a call's input.
    #[serde(rename = "response.function_call_arguments.delta")]
    ArgumentsDelta {
        /// The item's place in the answer.
        output_index: u64,
        /// A piece of the input's JSON.
        delta: String,
    },
    /// The answer is whole: a closing event.
    #[serde(rename = "response.completed")]
    Completed {
        /// The whole answer.
        response: Response,
    },
    /// The answer was broken off by a limit or a filter: a closing event.
    #[serde(rename = "response.incomplete")]
    Incomplete {
        /// The answer so far.
        response: Response,
    },
    /// The answer failed: a closing event.
    #[serde(rename = "response.failed")]
    Failed {
        /// What is known of it, its error included.
        response: Response,
    },
    /// The answer failed.
    #[serde(rename = "error")]
    Error {
        /// A code, such as `context_length_exceeded`.
        #[serde(default)]
        code: Option<Value>,
        /// In words.
        #[serde(default)]
        message: Option<String>,
        /// The same in an object, as some servers have it.
        #[serde(default)]
        error: Option<Value>,
    },
    /// An event of another kind, as it came.
    #[serde(untagged)]
    Other(Value),
}

/// The names of the events above, to tell a malformed one from an unknown one.
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
    /// Names the answer.
    #[serde(default)]
    pub id: String,
    /// `completed`, `incomplete`, `failed`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// Why it is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete_details: Option<IncompleteDetails>,
    /// Everything else.
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

/// What the provider counted. Cached input is part of `input_tokens`, reasoning of `output_tokens`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// All input.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// The answer.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Both.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// What the input is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens_details: Option<InputDetails>,
    /// What the answer is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens_details: Option<OutputDetails>,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Extra,
}
