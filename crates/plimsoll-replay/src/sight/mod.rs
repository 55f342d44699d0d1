//! What the model would have been given, under each kind of rules.

mod engine;
mod masked;
mod summarised;

use plimsoll::{Limits, PartId, Usage};
use plimsoll_session::SessionError;
use serde::Serialize;

use crate::pieces::{Piece, Pieces};
use crate::recording::{Call, Recording, Step};
use crate::report::is_zero;
use crate::rules::Rules;
use crate::run::Circumstances;
use engine::Engine;
use masked::Masked;
use summarised::Summarised;

/// A session as some rules show it.
pub(crate) trait Sight {
    /// Something was said or done. `usage` is what the provider counted, if it was the model.
    fn append(&mut self, step: &Step, usage: Option<Usage>) -> Result<(), SessionError>;

    /// Make ready for a call; with `refused` because the request as it was did not fit.
    fn prepare(&mut self, call: &Call, refused: bool, pieces: &mut Pieces<'_>) -> Result<(), SessionError>;

    /// The request as it stands.
    fn request(&mut self, pieces: &mut Pieces<'_>) -> Vec<Piece>;

    /// What was reduced since this was last asked.
    fn fired(&mut self) -> Vec<Noted>;

    /// Let the model bring back what it needs from these results. Gives the tokens of its call, or nothing if nothing can
    /// be brought back. `usage` is what the provider counted for the request in which it asks.
    fn recall(
        &mut self,
        _needed: &[Needed<'_>],
        _usage: Usage,
        _pieces: &mut Pieces<'_>,
    ) -> Result<Option<u64>, SessionError> {
        Ok(None)
    }
}

/// Something that a call needs and the window does not show.
pub(crate) struct Needed<'a> {
    /// The result that mentions it last.
    pub(crate) result: &'a PartId,
    /// What is needed, as it is written.
    pub(crate) words: &'a str,
}

/// A reduction, and what a summariser was asked for it.
pub(crate) struct Noted {
    pub(crate) reduction: Reduction,
    pub(crate) asked: Vec<Asked>,
}

/// A request for a summary.
pub(crate) struct Asked {
    /// The session's own request that it begins with, if it does: that much may be in the cache.
    pub(crate) prefix: Option<Vec<Piece>>,
    /// What it carries besides.
    pub(crate) more: u64,
    /// The tokens of its answer.
    pub(crate) answer: u64,
}

impl From<Reduction> for Noted {
    fn from(reduction: Reduction) -> Noted {
        Noted { reduction, asked: Vec::new() }
    }
}

/// A reduction that fired.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reduction {
    /// What kind: truncate, prune, compact, shed, clear, mask.
    pub kind: String,
    /// Tokens before; of a truncated output, its own, otherwise of the request.
    pub before: u64,
    /// The same after.
    pub after: u64,
    /// Tokens sent to the summariser, if one was asked.
    #[serde(skip_serializing_if = "is_zero")]
    pub asked: u64,
    /// Of these, tokens that were read from the cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub asked_cached: u64,
    /// Tokens it answered.
    #[serde(skip_serializing_if = "is_zero")]
    pub answered: u64,
}

/// A session before its first message, under those rules.
pub(crate) fn sight<'a>(
    rules: &'a Rules,
    recording: &'a Recording,
    circumstances: &Circumstances,
    fixed: u64,
    pieces: &mut Pieces<'_>,
) -> Result<Box<dyn Sight + 'a>, SessionError> {
    let limits = circumstances.limits();
    Ok(match rules {
        Rules::Engine(policy) => {
            Box::new(Engine::new(policy, rules.handles(), recording, circumstances, fixed)?)
        }
        Rules::Codex { user_tokens, output_tokens } => {
            // From 90 % on: the line itself counts.
            let line = limits.context.share(0.9).0;
            // In a window for which its constant was never meant, as much of it as in the model's own.
            let user_tokens = (*user_tokens).min(limits.context.share(0.1));
            let rule = summarised::Rule { line, user_tokens, output_tokens: Some(*output_tokens) };
            Box::new(Summarised::new(rule, limits, fixed))
        }
        Rules::ClaudeCode => {
            let rule = summarised::Rule {
                line: claude_code_line(limits),
                user_tokens: plimsoll::Tokens::ZERO,
                output_tokens: None,
            };
            Box::new(Summarised::new(rule, limits, fixed))
        }
        Rules::None => Box::new(Masked::new(recording, None, fixed, pieces)),
        Rules::Mask { keep, polling } => {
            let mask = masked::Mask { trigger: None, keep: *keep, polling: *polling };
            Box::new(Masked::new(recording, Some(mask), fixed, pieces))
        }
        Rules::ClearToolUses { trigger, keep } => {
            let mask = masked::Mask { trigger: Some(trigger.tokens(limits)), keep: *keep, polling: 1 };
            Box::new(Masked::new(recording, Some(mask), fixed, pieces))
        }
    })
}

/// The window less the longest answer, of which no more than 20,000 count, less 13,000. In a window for which that was
/// never meant it is half of it.
fn claude_code_line(limits: Limits) -> u64 {
    let context = limits.context.0;
    context.saturating_sub(limits.output.0.min(20_000)).saturating_sub(13_000).max(context / 2)
}
