//! What the decoders of all wires need.

use plimsoll::AnswerEvent;

use crate::error::ProviderError;
use crate::names::ToolNames;

/// What a wire's decoder needs to know of the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) tools: ToolNames,
}

impl Context {
    /// The event that signs a thought, with the model that made it.
    pub(crate) fn sign(&self, mut own: serde_json::Value) -> AnswerEvent {
        own["model"] = self.model.as_str().into();
        AnswerEvent::Signature(crate::lanes::named(&self.provider, &own))
    }
}

/// Why an event could not be decoded.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// It is not what the wire format allows.
    Malformed(String),
    /// It is the provider's report of an error.
    Provider(ProviderError),
}

/// Read an event. Syntax errors name line and column, never the text, which may hold anything.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(data: &str) -> Result<T, DecodeError> {
    serde_json::from_str(data).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Data => "not the shape of an event",
            serde_json::error::Category::Eof => "JSON that ends too early",
            _ => "not JSON",
        };
        DecodeError::Malformed(format!("{what} at line {} column {}", error.line(), error.column()))
    })
}

/// An event that was kept as a raw value though its kind is known is malformed; one of an unknown kind is passed over.
pub(crate) fn check_unknown(value: &serde_json::Value, known: &[&str]) -> Result<(), DecodeError> {
    match value.get("type").and_then(serde_json::Value::as_str) {
        Some(kind) if known.contains(&kind) => {
            Err(DecodeError::Malformed(format!("`{kind}` without the fields it needs")))
        }
        _ => Ok(()),
    }
}
