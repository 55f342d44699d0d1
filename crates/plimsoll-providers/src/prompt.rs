//! What a model is asked, whatever the wire, and what building a request from it needs.

use plimsoll::{CachePlan, Illegal, Text, Window};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::Extra;
use crate::names::IdRule;

/// What the model is asked.
#[derive(Clone, Copy, Debug)]
pub struct Prompt<'a> {
    /// The provider's name. Signatures and unknown blocks under this name are given back, those of others are not.
    pub provider: &'a str,
    /// The model.
    pub model: &'a str,
    /// The conversation.
    pub window: &'a Window,
    /// The system prompt, in pieces from the most stable to the least.
    pub system: &'a [String],
    /// What the model may call.
    pub tools: &'a [ToolSpec],
    /// Where the provider is told to keep what came before.
    pub cache: Option<&'a CachePlan>,
    /// Everything else.
    pub options: &'a RequestOptions,
}

/// A tool the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name here.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON Schema of its input.
    pub schema: Value,
}

/// How the model is to answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestOptions {
    /// The longest answer, thoughts included.
    pub max_tokens: Option<u64>,
    /// Randomness.
    pub temperature: Option<f64>,
    /// Whether it thinks.
    pub thinking: Thinking,
    /// Whether it may or must call tools.
    pub tool_choice: ToolChoice,
    /// Requests with the same key are sent to the same cache; OpenAI's APIs have it.
    pub cache_key: Option<String>,
    /// How long Anthropic keeps what it caches.
    pub cache_ttl: CacheTtl,
    /// How call ids have to look.
    pub call_ids: CallIds,
    /// The field in which thoughts without a signature are given back in Chat Completions, such as
    /// `reasoning_content`. Some models (DeepSeek with tools) refuse a call without it, others refuse the field.
    pub thinking_field: Option<String>,
    /// The field that says how long the answer may get in Chat Completions.
    pub max_tokens_field: MaxTokensField,
    /// What Chat Completions has as the words of an answer that only calls.
    pub wordless_content: WordlessContent,
    /// Further fields of the body, over those that are set here.
    pub extra: Extra,
}

/// Whether the model thinks before it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    /// As the model does without being told.
    #[default]
    Unset,
    /// Up to so many tokens; Anthropic only.
    Budget(u64),
    /// As long as the model finds right; Anthropic only.
    Adaptive,
    /// In the provider's words: `low`, `medium`, `high`, …
    Effort(String),
}

/// Whether the model may or must call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must not. The tools are declared all the same, because the prompt cache begins with them.
    None,
    /// It must call one.
    Required,
    /// It must call this one.
    Named(String),
}

/// How long Anthropic keeps what it caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheTtl {
    /// Five minutes.
    #[default]
    FiveMinutes,
    /// An hour, at a higher price.
    OneHour,
}

/// How call ids have to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallIds {
    /// As the wire format has it.
    #[default]
    Wire,
    /// Nine letters and digits, as Mistral insists.
    Mistral,
}

/// The field that says how long the answer may get in Chat Completions. OpenAI's newer models refuse the old one, many
/// other servers do not know the new one, and both together are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxTokensField {
    /// `max_completion_tokens`, as OpenAI has it.
    #[default]
    MaxCompletionTokens,
    /// `max_tokens`, as most others have it.
    MaxTokens,
}

/// What Chat Completions has as the words of an answer that only calls. OpenAI documents `null`. Servers that put the
/// conversation through a model's own template often fail on it, because most templates add the words to a string;
/// gateways in front of Bedrock refuse an empty text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WordlessContent {
    /// `null`.
    #[default]
    Null,
    /// An empty text.
    EmptyText,
}

/// A request that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// The window is no legal conversation.
    #[error("the window is not a legal conversation: {0}")]
    Illegal(#[from] Illegal),
    /// There is nothing to send.
    #[error("the window has no message that this provider could be sent")]
    Empty,
    /// A tool is to be called that is not declared.
    #[error("tool `{0}` is required but not declared")]
    UnknownTool(String),
    /// The further fields of the options make no request.
    #[error("the further fields of the request do not fit it: {0}")]
    Extra(String),
}

impl<'a> Prompt<'a> {
    /// A prompt without system prompt, tools and cache plan.
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

    /// The tool that must be called, if it is declared.
    pub(crate) fn check_choice(&self) -> Result<(), BuildError> {
        match &self.options.tool_choice {
            ToolChoice::Named(name) if !self.tools.iter().any(|tool| tool.name == *name) => {
                Err(BuildError::UnknownTool(name.clone()))
            }
            _ => Ok(()),
        }
    }

    /// A block that this provider made, out of its envelope.
    pub(crate) fn own_block<'b>(&self, value: &'b Value) -> Option<&'b Value> {
        value.get(self.provider).filter(|block| block.is_object())
    }

    /// What this provider's model left in a thought's metadata. Newer models refuse the thoughts of other models.
    ///
    /// Metadata without a model comes from another tool's session, and is not returned: its signature belongs to that
    /// tool's account, gateway or region. A provider that refuses one signature refuses every later request that repeats
    /// it, while thoughts of finished turns may be left out.
    pub(crate) fn own_metadata<'b>(&self, metadata: &'b Option<Value>) -> Option<&'b Map<String, Value>> {
        let own = metadata.as_ref()?.get(self.provider)?.as_object()?;
        let made_by = own.get("model").and_then(Value::as_str);
        (made_by == Some(self.model)).then_some(own)
    }
}

/// A body with further fields laid over it. It is read again, so that a field that is typed is set and not sent twice.
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

/// Whether a model is one of OpenAI's that always think: those refuse a temperature.
pub(crate) fn is_openai_reasoning(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let generation = |prefix: &str| name.strip_prefix(prefix)?.chars().next()?.to_digit(10);
    let is_gpt = generation("gpt-").is_some_and(|generation| generation >= 5) && !name.contains("chat");
    is_gpt || generation("o").is_some() || name.starts_with("codex")
}

/// A schema as the object that providers insist on.
pub(crate) fn object_schema(schema: &Value) -> Value {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        schema.insert("type".into(), "object".into());
    }
    // OpenAI refuses an object schema without the field, even an empty one.
    schema.entry("properties").or_insert_with(|| json!({}));
    Value::Object(schema)
}

/// A tool's input as the object that providers insist on.
pub(crate) fn as_object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        Value::Null => json!({}),
        other => json!({ "input": other }),
    }
}

/// A file as the window has it.
pub(crate) struct File<'a> {
    mime: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) url: Option<&'a str>,
}

impl<'a> File<'a> {
    pub(crate) fn new(mime: &'a Option<String>, name: &'a Option<String>, url: &'a Option<Text>) -> File<'a> {
        File { mime: mime.as_deref(), name: name.as_deref(), url: url.as_ref().map(Text::as_str) }
    }

    /// Files that came with a tool's result.
    pub(crate) fn all(files: &'a [Value]) -> impl Iterator<Item = File<'a>> {
        let text = |file: &'a Value, key: &str| file.get(key).and_then(Value::as_str);
        files.iter().map(move |file| File {
            mime: text(file, "mime"),
            name: text(file, "filename"),
            url: text(file, "url"),
        })
    }

    /// Media type and base64 of a `data:` address.
    pub(crate) fn data(&self) -> Option<(&'a str, &'a str)> {
        let (mime, data) = self.url?.strip_prefix("data:")?.split_once(";base64,")?;
        // Parameters such as `;charset=utf-8` are no part of the media type.
        Some((mime.split(';').next().unwrap_or(mime), data)).filter(|(_, data)| !data.is_empty())
    }

    pub(crate) fn mime(&self) -> Option<&'a str> {
        self.data().map(|(mime, _)| mime).or(self.mime)
    }

    /// The kinds of images that all providers take.
    pub(crate) fn is_image(&self) -> bool {
        matches!(self.mime(), Some("image/jpeg" | "image/png" | "image/gif" | "image/webp"))
    }

    pub(crate) fn is_pdf(&self) -> bool {
        self.mime() == Some("application/pdf")
    }

    pub(crate) fn is_web(&self) -> bool {
        self.url.is_some_and(|url| url.starts_with("https://") || url.starts_with("http://"))
    }

    /// What is written for a file the provider has no place for.
    pub(crate) fn mention(&self) -> String {
        let name = self.name.or(self.url.filter(|url| !url.starts_with("data:"))).unwrap_or("unnamed");
        format!("[Attached file: {name} ({})]", self.mime().unwrap_or("unknown type"))
    }
}
