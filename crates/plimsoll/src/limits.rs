//! Limits of models.

use serde::{Deserialize, Serialize};

use crate::tokens::Tokens;

/// Limits of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Limits {
    /// The context window; 0 means unknown, and then nothing is over the line.
    pub context: Tokens,
    /// A separate limit on the input, if the model has one.
    #[serde(default)]
    pub input: Option<Tokens>,
    /// Maximum output; 0 means unknown.
    #[serde(default)]
    pub output: Tokens,
}

impl Limits {
    /// Creates the limits of a model with a context window and an output limit.
    pub fn new(context: u64, output: u64) -> Limits {
        Limits { context: Tokens(context), input: None, output: Tokens(output) }
    }

    /// Sets a separate limit on the input.
    pub fn with_input(self, input: u64) -> Limits {
        Limits { input: Some(Tokens(input)), ..self }
    }
}
