//! Whether a summariser's answer may take the place of what it summarises.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::chars::Text;
use crate::count::{Counter, Tokens};
use crate::log::Usage;
use crate::redact::redact;

/// What came back from the summariser.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The text of the answer.
    pub text: String,
    /// Why the model stopped, in the provider's words; none if the stream broke off.
    pub finish: Option<String>,
    /// Names of tools the model tried to call.
    pub tool_calls: Vec<String>,
    /// What the provider counted for the call.
    pub usage: Option<Usage>,
    /// What the call cost, if the host knows prices.
    pub cost: Option<f64>,
    /// The model that answered.
    pub model: Option<String>,
    /// Whether no model made it: it was extracted, and may have been edited by a person.
    pub is_extracted: bool,
}

impl Reply {
    /// A finished answer.
    pub fn finished(text: impl Into<String>) -> Reply {
        Reply { text: text.into(), finish: Some("stop".into()), ..Reply::default() }
    }
}

/// Why an answer was not taken. The history stays as it was.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Rejection {
    /// The call itself failed.
    #[error("the summary call failed: {0}")]
    Failed(String),
    /// It broke off.
    #[error("the summary was not finished (the model stopped with `{0}`)")]
    Unfinished(String),
    /// It said nothing.
    #[error("the summary was empty")]
    Empty,
    /// It wanted to work instead.
    #[error("the summariser tried to call the tool `{0}`, which is not allowed while it summarises")]
    ToolCall(String),
    /// It saved nothing.
    #[error("the summary of {summary} tokens is not smaller than the {replaced} tokens it would replace")]
    NotSmaller {
        /// Its size.
        summary: Tokens,
        /// The size of what it would replace.
        replaced: Tokens,
    },
}

impl Rejection {
    /// Whether asking again could help.
    pub fn is_worth_a_retry(&self) -> bool {
        !matches!(self, Rejection::NotSmaller { .. })
    }
}

/// Take an answer as a summary: finished, not empty, no tool call, smaller than what it replaces; known shapes
/// of secrets are replaced in it.
pub fn accept(reply: &Reply, replaced: Tokens, counter: &dyn Counter) -> Result<Text, Rejection> {
    if let Some(tool) = reply.tool_calls.first() {
        return Err(Rejection::ToolCall(tool.clone()));
    }
    // A list of what is finished, not of what is not: providers keep inventing reasons to break off.
    const FINISHED: [&str; 7] = ["stop", "end_turn", "stop_sequence", "completed", "complete", "eos", "end"];
    const TOOLS: [&str; 3] = ["tool-calls", "tool_calls", "tool_use"];
    let reason = reply.finish.as_deref().unwrap_or("nothing");
    if TOOLS.contains(&reason) {
        return Err(Rejection::ToolCall(reason.into()));
    }
    if !FINISHED.iter().any(|known| known.eq_ignore_ascii_case(reason)) {
        return Err(Rejection::Unfinished(reason.into()));
    }
    let text = reply.text.trim();
    if text.is_empty() {
        return Err(Rejection::Empty);
    }
    let too_long =
        |size| if size < replaced { Ok(()) } else { Err(Rejection::NotSmaller { summary: size, replaced }) };
    // Before the search for secrets, so that a model gone wild costs little; and after, because that adds words.
    too_long(counter.count(text))?;
    let summary = Text::from(redact(text).text);
    too_long(counter.count_text(&summary))?;
    Ok(summary)
}
