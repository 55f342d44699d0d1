//! Helpers of the decoders of all wire formats.

use plimsoll::AnswerEvent;

use crate::error::ProviderError;
use crate::names::ToolNames;

/// Fields of the request that a decoder needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodeContext {
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) tools: ToolNames,
}

impl DecodeContext {
    /// Returns the event that signs a block of reasoning, with the model that produced it.
    pub(crate) fn sign(&self, mut own: serde_json::Value) -> AnswerEvent {
        own["model"] = self.model.as_str().into();
        AnswerEvent::Signature(crate::lanes::named(&self.provider, &own))
    }
}

/// Why an event could not be decoded.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// The event violates the wire format.
    Malformed(String),
    /// The event is the provider's report of an error.
    Provider(ProviderError),
}

/// Parses an event. Errors contain line and column, never the text, which may contain anything.
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

/// Returns an error for an event of a known kind that was kept as a raw value: it is malformed. Unknown kinds are
/// skipped.
pub(crate) fn check_unknown(value: &serde_json::Value, known: &[&str]) -> Result<(), DecodeError> {
    match value.get("type").and_then(serde_json::Value::as_str) {
        Some(kind) if known.contains(&kind) => {
            Err(DecodeError::Malformed(format!("`{kind}` without the fields it needs")))
        }
        _ => Ok(()),
    }
}
