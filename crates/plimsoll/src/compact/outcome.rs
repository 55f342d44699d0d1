//! The result of a climb and its messages for users.

use std::fmt;

use serde::Serialize;

use super::context::Breaker;
use crate::line::Line;
use crate::log::Usage;
use crate::plan::Rejection;
use crate::reduction::Reduction;
use crate::tokens::Tokens;

/// Result of a climb.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// Whether the next request fits.
    pub verdict: FitResult,
    /// The changes, to be committed onto the log.
    pub reduction: Reduction,
    /// Reasons for which summaries were rejected.
    pub rejections: Vec<Rejection>,
    /// Usage of each call of the summariser, in order, including rejected answers.
    pub usage: Vec<Usage>,
    /// Tokens of the next request before the climb.
    pub before: Tokens,
    /// Tokens of the next request after the climb.
    pub after: Tokens,
    /// The line. `None` if the model has no known limit.
    pub line: Option<Line>,
    /// State of the circuit breaker, for the next climb of the session.
    pub breaker: Breaker,
}

/// Whether the next request fits after a climb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "verdict")]
pub enum FitResult {
    /// The next request fits.
    Fits,
    /// The next request does not fit, and the policy allows no further reduction.
    StillOver,
    /// The next request cannot be made to fit.
    TooHeavy(OverflowBreakdown),
}

/// Tokens by source in a request that cannot be made to fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OverflowBreakdown {
    /// The line.
    pub line: Tokens,
    /// The system prompt.
    pub system: Tokens,
    /// The tool schemas.
    pub tools: Tokens,
    /// System messages of the host.
    pub laid_down: Tokens,
    /// Pinned texts.
    pub pins: Tokens,
    /// The user's newest message.
    pub prompt: Tokens,
    /// The rest of the conversation.
    pub conversation: Tokens,
    /// Difference between the provider's figure and the sum of these estimates.
    pub unknown: Tokens,
}

impl fmt::Display for OverflowBreakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = [
            ("the system prompt", self.system, "shorten the system prompt"),
            ("the tools", self.tools, "offer fewer tools or shorten their descriptions"),
            ("messages of the host", self.laid_down, "shorten the host's system messages"),
            ("pins", self.pins, "unpin something"),
            ("the newest prompt", self.prompt, "shorten the prompt"),
            ("the rest of the conversation", self.conversation, "start a new session"),
            (
                "not accounted for",
                self.unknown,
                "pass everything that is sent to the engine, or start a new session",
            ),
        ];
        rows.sort_by_key(|(_, tokens, _)| std::cmp::Reverse(*tokens));
        let heavy = rows.iter().filter(|(_, tokens, _)| *tokens > Tokens::ZERO);
        let named: Vec<String> = heavy.map(|(what, tokens, _)| format!("{what} {tokens} tokens")).collect();
        let advice = rows[0].2;
        let line = self.line;
        write!(
            f,
            "the line is {line} tokens, and these take the room: {}; {advice}, or use a model with a larger window",
            named.join(", ")
        )
    }
}

impl fmt::Display for FitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FitResult::Fits => f.write_str("the next request fits"),
            FitResult::StillOver => {
                f.write_str("the next request does not fit, and the policy allows no further reduction")
            }
            FitResult::TooHeavy(breakdown) => {
                write!(f, "the next request cannot be made to fit: {breakdown}")
            }
        }
    }
}
