//! How a run ended, and what it came to.

use plimsoll::SessionId;
use serde::Serialize;

use crate::figures::{ReceiptFigures, UsageFigures};
use crate::metrics::TokenMetrics;
use crate::spend::Spend;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "how", rename_all = "camelCase")]
pub enum RunEnd {
    /// The model had nothing more to call.
    Finished {
        /// Why it stopped, in the provider's words.
        reason: String,
    },
    /// The model was asked as often as it may be.
    Steps,
    /// So many tokens were charged as may be.
    Tokens,
    /// It has cost as much as it may.
    Cost,
    /// The model made the same call with the same result again, although it was told.
    Repeating {
        /// The tool.
        tool: String,
    },
    /// A hook ended it after a compaction.
    StoppedByHook {
        /// The hook.
        hook: String,
    },
    /// It was cancelled.
    Cancelled,
}

/// Why the model stopped speaking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It had said everything.
    Done,
    /// The answer reached its longest, or the window its end.
    Cut,
    /// A filter or the model itself refused to go on.
    Filtered,
}

impl Stop {
    /// What a provider's word for it means.
    pub fn of(reason: &str) -> Stop {
        const CUT: [&str; 5] =
            ["length", "max_tokens", "max_output_tokens", "incomplete", "model_context_window_exceeded"];
        const FILTERED: [&str; 4] = ["content_filter", "refusal", "safety", "guardrail_intervened"];
        let is_one_of = |known: &[&str]| known.iter().any(|known| known.eq_ignore_ascii_case(reason));
        match (is_one_of(&CUT), is_one_of(&FILTERED)) {
            (true, _) => Stop::Cut,
            (_, true) => Stop::Filtered,
            _ => Stop::Done,
        }
    }
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// The session.
    pub session: SessionId,
    /// How it ended.
    pub end: RunEnd,
    /// The words of the last answer.
    pub text: String,
    /// How many requests were answered.
    pub steps: u64,
    /// What was charged, summaries included.
    pub usage: UsageFigures,
    /// What it cost in dollars, as far as prices are known.
    pub cost: f64,
    /// What the background tasks that it launched or resumed were charged by its end, beside that.
    #[serde(skip_serializing_if = "Spend::is_none")]
    pub tasks: Spend,
    /// What was reduced, oldest first.
    pub reductions: Vec<ReceiptFigures>,
    /// Figures of those reductions.
    pub metrics: TokenMetrics,
}
