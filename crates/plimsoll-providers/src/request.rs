//! Builds a request from a prompt for one of the wire formats.

use serde_json::Value;

use crate::endpoint::Wire;
use crate::names::ToolNames;
use crate::prompt::{BuildError, Prompt};
use crate::{anthropic, chat, responses};

/// A request, with what is needed to decode its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The body.
    pub body: Body,
    /// Name of the provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Mapping of tool names.
    pub tools: ToolNames,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// To Anthropic Messages.
    Anthropic(anthropic::wire::MessagesRequest),
    /// To OpenAI Chat Completions.
    Chat(chat::wire::ChatRequest),
    /// To OpenAI Responses.
    Responses(responses::wire::ResponsesRequest),
}

impl Request {
    /// Builds the request for a prompt. The result obeys the provider's rules for any window: reasoning of another
    /// provider is omitted, call ids are adapted, and files that cannot be sent are mentioned by name.
    pub fn build(wire: Wire, prompt: &Prompt<'_>) -> Result<Request, BuildError> {
        prompt.window.check()?;
        prompt.check_choice()?;
        let mut tools = ToolNames::default();
        let body = match wire {
            Wire::Anthropic => Body::Anthropic(anthropic::build(prompt, &mut tools)?),
            Wire::Chat => Body::Chat(chat::build(prompt, &mut tools)?),
            Wire::Responses => Body::Responses(responses::build(prompt, &mut tools)?),
        };
        let (provider, model) = (prompt.provider.to_owned(), prompt.model.to_owned());
        Ok(Request { body, provider, model, tools })
    }

    /// The wire format.
    pub fn wire(&self) -> Wire {
        match self.body {
            Body::Anthropic(_) => Wire::Anthropic,
            Body::Chat(_) => Wire::Chat,
            Body::Responses(_) => Wire::Responses,
        }
    }

    /// Maximum tokens of the answer, if the request sets it.
    pub fn max_tokens(&self) -> Option<u64> {
        match &self.body {
            Body::Anthropic(body) => Some(body.max_tokens),
            Body::Chat(body) => body.max_completion_tokens.or(body.max_tokens),
            Body::Responses(body) => body.max_output_tokens,
        }
    }

    /// The body as JSON.
    pub fn to_json(&self) -> Value {
        let value = match &self.body {
            Body::Anthropic(body) => serde_json::to_value(body),
            Body::Chat(body) => serde_json::to_value(body),
            Body::Responses(body) => serde_json::to_value(body),
        };
        // Serialising cannot fail: all keys of these types are strings.
        value.unwrap_or_default()
    }

    /// The body as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = match &self.body {
            Body::Anthropic(body) => serde_json::to_vec(body),
            Body::Chat(body) => serde_json::to_vec(body),
            Body::Responses(body) => serde_json::to_vec(body),
        };
        bytes.unwrap_or_default()
    }
}
