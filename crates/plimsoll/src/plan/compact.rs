//! Compactions: which messages a summary replaces, and why a model's summary was rejected.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::CutItem;
use crate::chars::Text;
use crate::log::{ContractItem, MessageId, PartId};
use crate::tokens::Tokens;

/// A compaction: messages that a summary replaces, and messages that stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompactPlan {
    /// The oldest message that is summarised.
    pub first: MessageId,
    /// The newest message that is summarised.
    pub last: MessageId,
    /// Number of summarised messages.
    pub messages: u64,
    /// Tokens of the summarised messages.
    pub tokens: Tokens,
    /// The first message of the tail, which stays verbatim. `None` if there is no tail.
    pub tail_start: Option<MessageId>,
    /// Number of messages in the tail.
    pub tail_messages: u64,
    /// Tokens of the tail.
    pub tail_tokens: Tokens,
    /// Whether an earlier summary is merged into the new one.
    pub merges_summary: bool,
    /// Origin of the summary.
    pub made: SummaryOrigin,
    /// Number of calls of the summariser.
    pub calls: u64,
    /// The prompt being worked on, kept in view before a tail that begins after it.
    #[serde(default)]
    pub prompt: Option<MessageId>,
    /// Parts of the newest step or the prompt that are cut because they are too long.
    #[serde(default)]
    pub cut: Vec<CutItem>,
    /// Items for which the summary was checked, and the result for each.
    #[serde(default)]
    pub contract: Vec<ContractItem>,
    /// The marker of the pivot. `None` before the plan is applied.
    pub marker: Option<MessageId>,
    /// The part of the request to continue that was appended with it.
    // The name in stored receipts.
    #[serde(default, rename = "goOn")]
    pub continuation: Option<PartId>,
    /// Names in a model's summary that the history does not contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_names: Vec<String>,
    /// Rejected answers of the summariser.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejections: Vec<Rejection>,
}

/// A range of messages that a summary replaces in place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RangePlan {
    /// The oldest message.
    pub first: MessageId,
    /// The newest message.
    pub last: MessageId,
    /// Number of messages.
    pub messages: u64,
    /// Tokens of the messages.
    pub tokens: Tokens,
    /// The part that shows the summary.
    pub host: PartId,
    /// The parts that are no longer shown.
    pub parts: Vec<PartId>,
    /// The shown text: the summary between its delimiters.
    pub text: Text,
    /// Origin of the summary.
    pub made: SummaryOrigin,
    /// Number of calls of the summariser.
    pub calls: u64,
}

/// Origin of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum SummaryOrigin {
    /// Written by a model.
    ByModel,
    /// Extracted, without a model.
    WithoutModel,
}

/// Reason for which an answer was rejected. The history stays unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Rejection {
    /// The call failed.
    #[error("the summary call failed: {0}")]
    Failed(String),
    /// The answer broke off.
    #[error("the summary was not finished (the model stopped with `{0}`)")]
    Unfinished(String),
    /// The answer has no text.
    #[error("the summary was empty")]
    Empty,
    /// The model refused to summarise.
    #[error("the summariser refused to write a summary")]
    Refused,
    /// Too short for the messages that the summary would replace.
    #[error("the summary of {summary} tokens is too short (at least {least}, or headings)")]
    TooShort {
        /// Size of the summary.
        summary: Tokens,
        /// Minimum size.
        least: Tokens,
    },
    /// Much longer than requested.
    #[error("the summary of {summary} tokens is too long (at most {most})")]
    TooLong {
        /// Size of the summary.
        summary: Tokens,
        /// Maximum size.
        most: Tokens,
    },
    /// The model called a tool instead of answering.
    #[error("the summariser tried to call the tool `{0}`, which is not allowed while it summarises")]
    ToolCall(String),
    /// Not smaller than the messages it would replace.
    #[error("the summary of {summary} tokens is not smaller than the {replaced} tokens it would replace")]
    NotSmaller {
        /// Size of the summary.
        summary: Tokens,
        /// Size of the messages it would replace.
        replaced: Tokens,
    },
    /// The compaction timed out. The summariser is not called again.
    #[error("the summariser timed out after {seconds} seconds")]
    TimedOut {
        /// The policy's timeout for all requests of a compaction together.
        seconds: u64,
    },
    /// The summariser was not called because it failed too often in a row.
    #[error("the summariser was not called after {failures} failures in a row")]
    GivenUp {
        /// Number of failures in a row.
        failures: u32,
    },
}

impl Rejection {
    /// Whether a retry could help.
    pub fn is_worth_a_retry(&self) -> bool {
        match self {
            Rejection::NotSmaller { .. }
            | Rejection::TooLong { .. }
            | Rejection::TimedOut { .. }
            | Rejection::GivenUp { .. } => false,
            Rejection::Failed(_)
            | Rejection::Unfinished(_)
            | Rejection::Empty
            | Rejection::Refused
            | Rejection::TooShort { .. }
            | Rejection::ToolCall(_) => true,
        }
    }

    /// Whether the answer was cut off at its limit. The same request would be cut off again.
    pub fn is_cut_off(&self) -> bool {
        const LENGTH: [&str; 5] =
            ["length", "max_tokens", "max_output_tokens", "incomplete", "model_context_window_exceeded"];
        matches!(self, Rejection::Unfinished(reason) if LENGTH.iter().any(|known| known.eq_ignore_ascii_case(reason)))
    }
}
