//! The input of a request, independent of the wire format, and helpers for building requests.

use plimsoll::{CachePlan, InvalidWindow, Window};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::Extra;
use crate::names::IdRule;

/// Everything that a request is built from.
#[derive(Clone, Copy, Debug)]
pub struct Prompt<'a> {
    /// Name of the provider. Only signatures and unknown blocks stored under this name are sent back.
    pub provider: &'a str,
    /// The model.
    pub model: &'a str,
    /// The conversation.
    pub window: &'a Window,
    /// The system prompt in pieces, from the most stable to the least.
    pub system: &'a [String],
    /// Tools that the model may call.
    pub tools: &'a [ToolSpec],
    /// Cache breakpoints.
    pub cache: Option<&'a CachePlan>,
    /// All other options.
    pub options: &'a RequestOptions,
}

/// A tool the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Name of the tool in Plimsoll.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// The JSON Schema of its input.
    pub schema: Value,
}

/// Options of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestOptions {
    /// Maximum tokens of the answer, including reasoning.
    pub max_tokens: Option<u64>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Whether the model thinks.
    pub thinking: Thinking,
    /// Whether the model may or must call tools.
    pub tool_choice: ToolChoice,
    /// Requests with the same key are routed to the same cache (OpenAI's APIs).
    pub cache_key: Option<String>,
    /// Lifetime of Anthropic's prompt cache.
    pub cache_ttl: CacheTtl,
    /// Format of call ids.
    pub call_ids: CallIds,
    /// Field for reasoning without a signature in Chat Completions, such as `reasoning_content`. Some models (DeepSeek
    /// with tools) reject a call without it, others reject the field.
    pub thinking_field: Option<String>,
    /// Field for the maximum output tokens in Chat Completions.
    pub max_tokens_field: MaxTokensField,
    /// Content of a message with only calls in Chat Completions.
    pub wordless_content: WordlessContent,
    /// Additional fields of the body, which override the others.
    pub extra: Extra,
}

/// Whether the model thinks before it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    /// The model's default.
    #[default]
    Unset,
    /// Maximum tokens of reasoning; Anthropic only.
    Budget(u64),
    /// The model decides; Anthropic only.
    Adaptive,
    /// The provider's effort level: `low`, `medium`, `high`, …
    Effort(String),
}

/// Whether the model may or must call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must not call. The tools are still declared, because the prompt cache begins with them.
    None,
    /// The model must call a tool.
    Required,
    /// The model must call this tool.
    Named(String),
}

/// Lifetime of Anthropic's prompt cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheTtl {
    /// Five minutes.
    #[default]
    FiveMinutes,
    /// One hour; cache writes cost more.
    OneHour,
}

/// Format of call ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallIds {
    /// The wire format's own.
    #[default]
    Wire,
    /// Nine letters and digits, as Mistral requires.
    Mistral,
}

/// Field for the maximum output tokens in Chat Completions. OpenAI's newer models reject the old one, many other
/// servers do not know the new one, and both together are rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MaxTokensField {
    /// `max_completion_tokens`, for OpenAI.
    #[default]
    MaxCompletionTokens,
    /// `max_tokens`, for most other servers.
    MaxTokens,
}

/// Content of a message with only calls in Chat Completions. OpenAI documents `null`. Servers that apply a model's own
/// chat template often fail on it, because most templates concatenate the content to a string. Gateways to Bedrock
/// reject an empty text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WordlessContent {
    /// `null`.
    #[default]
    Null,
    /// An empty string.
    EmptyText,
}

/// Why a request cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The window is not a legal conversation.
    #[error("the window is not a legal conversation: {0}")]
    InvalidWindow(#[from] InvalidWindow),
    /// The window is empty.
    #[error("the window has no message to send")]
    Empty,
    /// The required tool is not declared.
    #[error("tool `{0}` is required but not declared")]
    UnknownTool(String),
    /// The additional fields of the options do not fit the request.
    #[error("additional fields do not fit the request: {0}")]
    Extra(String),
}

impl<'a> Prompt<'a> {
    /// Creates a prompt without system prompt, tools and cache plan.
    pub fn new(
        provider: &'a str,
        model: &'a str,
        window: &'a Window,
        options: &'a RequestOptions,
    ) -> Prompt<'a> {
        Prompt { provider, model, window, system: &[], tools: &[], cache: None, options }
    }

    pub(crate) fn id_rule(&self, limit: usize) -> IdRule {
        match self.options.call_ids {
            CallIds::Wire => IdRule { limit, exact: false },
            CallIds::Mistral => IdRule { limit: 9, exact: true },
        }
    }

    /// Checks that a tool that must be called is declared.
    pub(crate) fn check_choice(&self) -> Result<(), BuildError> {
        match &self.options.tool_choice {
            ToolChoice::Named(name) if !self.tools.iter().any(|tool| tool.name == *name) => {
                Err(BuildError::UnknownTool(name.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Returns a block that this provider produced, without its envelope.
    pub(crate) fn own_block<'b>(&self, value: &'b Value) -> Option<&'b Value> {
        value.get(self.provider).filter(|block| block.is_object())
    }

    /// Returns the metadata that this provider's model stored with its reasoning. Newer models reject the reasoning of
    /// other models.
    ///
    /// Metadata without a model comes from another tool's session and is not returned: its signature belongs to that
    /// tool's account, gateway or region. A provider that rejects one signature rejects every later request that
    /// repeats it, while reasoning of finished turns may be omitted.
    pub(crate) fn own_metadata<'b>(&self, metadata: &'b Option<Value>) -> Option<&'b Map<String, Value>> {
        let own = metadata.as_ref()?.get(self.provider)?.as_object()?;
        let made_by = own.get("model").and_then(Value::as_str);
        (made_by == Some(self.model)).then_some(own)
    }
}

/// Applies additional fields to a body. The result is parsed again, so that a typed field is set and not sent twice.
pub(crate) fn overlay<T: Serialize + DeserializeOwned>(body: T, extra: &Extra) -> Result<T, BuildError> {
    if extra.is_empty() {
        return Ok(body);
    }
    let extra_error = |error: serde_json::Error| BuildError::Extra(error.to_string());
    let mut value = serde_json::to_value(body).map_err(extra_error)?;
    if let Value::Object(fields) = &mut value {
        fields.extend(extra.clone());
    }
    serde_json::from_value(value).map_err(extra_error)
}

/// Whether this is an OpenAI reasoning model. These reject `temperature`.
pub(crate) fn is_openai_reasoning(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let generation = |prefix: &str| name.strip_prefix(prefix)?.chars().next()?.to_digit(10);
    let is_gpt = generation("gpt-").is_some_and(|generation| generation >= 5) && !name.contains("chat");
    is_gpt || generation("o").is_some() || name.starts_with("codex")
}

/// Returns a schema as an object, which providers require.
pub(crate) fn object_schema(schema: &Value) -> Value {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        schema.insert("type".into(), "object".into());
    }
    // OpenAI rejects an object schema without the field, even if it is empty.
    schema.entry("properties").or_insert_with(|| json!({}));
    Value::Object(schema)
}
