//! Result of a run.

use plimsoll::SessionId;
use serde::Serialize;

use crate::figures::{ReceiptFigures, UsageFigures};
use crate::metrics::TokenMetrics;
use crate::spend::Spend;

/// Reason for the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "how", rename_all = "camelCase")]
#[non_exhaustive]
pub enum RunEnd {
    /// The model made no more calls.
    Finished {
        /// The provider's reason for the end of the last answer.
        reason: String,
    },
    /// Step limit reached.
    Steps,
    /// Token budget exhausted.
    Tokens,
    /// Cost limit reached.
    Cost,
    /// The model repeated a call with the same result after a warning.
    Repeating {
        /// Name of the tool.
        tool: String,
    },
    /// A hook stopped the turn after a compaction.
    StoppedByHook {
        /// Name of the hook.
        hook: String,
    },
    /// Cancelled.
    Cancelled,
}

/// Reason for the end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The answer was complete.
    Done,
    /// The output limit or the window was reached.
    Cut,
    /// A filter or the model itself refused to continue.
    Filtered,
}

impl StopReason {
    /// Classifies a provider's reason.
    pub fn of(reason: &str) -> StopReason {
        const CUT: [&str; 5] =
            ["length", "max_tokens", "max_output_tokens", "incomplete", "model_context_window_exceeded"];
        const FILTERED: [&str; 4] = ["content_filter", "refusal", "safety", "guardrail_intervened"];
        let is_one_of = |known: &[&str]| known.iter().any(|known| known.eq_ignore_ascii_case(reason));
        match (is_one_of(&CUT), is_one_of(&FILTERED)) {
            (true, _) => StopReason::Cut,
            (_, true) => StopReason::Filtered,
            _ => StopReason::Done,
        }
    }
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunReport {
    /// ID of the session.
    pub session: SessionId,
    /// Reason for the end.
    pub end: RunEnd,
    /// Text of the last answer.
    pub text: String,
    /// Number of answered requests.
    pub steps: u64,
    /// Charged usage, summaries included.
    pub usage: UsageFigures,
    /// Cost in dollars, as far as prices are known.
    pub cost: f64,
    /// Spending of background tasks that the run launched or resumed, up to its end. Not included above.
    #[serde(skip_serializing_if = "Spend::is_none")]
    pub tasks: Spend,
    /// Receipts, oldest first.
    pub reductions: Vec<ReceiptFigures>,
    /// Figures of those reductions.
    pub metrics: TokenMetrics,
}
