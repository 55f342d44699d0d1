//! Where a climb ended, and what it says to people.

use std::fmt;

use serde::Serialize;

use super::accept::Rejection;
use super::situation::Breaker;
use crate::count::Tokens;
use crate::limits::Line;
use crate::log::Usage;
use crate::reduction::Reduction;

/// Where the climb ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// What was done, to be committed onto the log.
    pub reduction: Reduction,
    /// Summaries that were not taken, and why.
    pub rejections: Vec<Rejection>,
    /// What the summariser's calls were charged, each in turn, whether or not the answer was taken.
    pub usage: Vec<Usage>,
    /// Tokens of the next request before.
    pub before: Tokens,
    /// The same after.
    pub after: Tokens,
    /// The line, if the model has one.
    pub line: Option<Line>,
    /// To be handed to the next climb of the session.
    pub breaker: Breaker,
}

/// How a climb ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "verdict")]
pub enum Verdict {
    /// The next request fits.
    Fits,
    /// It does not, and the policy allows nothing more.
    StillOver,
    /// It cannot be made to fit.
    TooHeavy(Burden),
}

/// What takes the room in a request that cannot be made to fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Burden {
    /// Where the line is.
    pub line: Tokens,
    /// The system prompt.
    pub system: Tokens,
    /// The schemas of the tools.
    pub tools: Tokens,
    /// Messages that the host laid down.
    pub laid_down: Tokens,
    /// Pinned texts.
    pub pins: Tokens,
    /// The user's newest message.
    pub prompt: Tokens,
    /// Everything else that is left of the conversation.
    pub conversation: Tokens,
    /// What the provider counts beyond these estimates.
    pub unknown: Tokens,
}

impl fmt::Display for Burden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = [
            ("the system prompt", self.system, "shorten the system prompt"),
            ("the tools", self.tools, "offer fewer tools or shorten their descriptions"),
            ("messages of the host", self.laid_down, "let the host say less"),
            ("pins", self.pins, "unpin something"),
            ("the newest prompt", self.prompt, "ask in fewer words"),
            ("the rest of the conversation", self.conversation, "begin a new session"),
            (
                "what the provider counts beyond that",
                self.unknown,
                "tell the engine of everything that is sent, or begin a new session",
            ),
        ];
        rows.sort_by_key(|(_, tokens, _)| std::cmp::Reverse(*tokens));
        let heavy = rows.iter().filter(|(_, tokens, _)| *tokens > Tokens::ZERO);
        let named: Vec<String> = heavy.map(|(what, tokens, _)| format!("{what} {tokens} tokens")).collect();
        let advice = rows[0].2;
        let line = self.line;
        write!(
            f,
            "over the line at {line} there are {}; {advice}, or use a model with a larger window",
            named.join(", ")
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Fits => f.write_str("the next request fits"),
            Verdict::StillOver => {
                f.write_str("the next request does not fit, and the policy allows nothing more")
            }
            Verdict::TooHeavy(burden) => write!(f, "the next request cannot be made to fit: {burden}"),
        }
    }
}
