//! From a prompt to a request on one of the wires.

use serde_json::Value;

use crate::endpoint::Wire;
use crate::names::ToolNames;
use crate::prompt::{BuildError, Prompt};
use crate::{anthropic, chat, responses};

/// A request, with what is needed to read its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What is sent.
    pub body: Body,
    /// The provider's name.
    pub provider: String,
    /// The model.
    pub model: String,
    /// What the tools are called on the wire.
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
    /// Build the request for a prompt. Whatever the window holds, the provider's rules are kept: an answer that was
    /// made by another provider loses its signatures, call ids are adapted, files the provider has no place for are
    /// named instead.
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

    /// The wire format it is written in.
    pub fn wire(&self) -> Wire {
        match self.body {
            Body::Anthropic(_) => Wire::Anthropic,
            Body::Chat(_) => Wire::Chat,
            Body::Responses(_) => Wire::Responses,
        }
    }

    /// The longest answer in tokens, if the request sets one.
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
        // None of these types has keys that are not strings, the one thing that cannot be written.
        value.unwrap_or_default()
    }

    /// The body as it is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = match &self.body {
            Body::Anthropic(body) => serde_json::to_vec(body),
            Body::Chat(body) => serde_json::to_vec(body),
            Body::Responses(body) => serde_json::to_vec(body),
        };
        bytes.unwrap_or_default()
    }
}
