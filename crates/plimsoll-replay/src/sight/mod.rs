//! What the model would have been given, under each kind of rules.

mod engine;
mod masked;
mod summarised;

use plimsoll::{Limits, PartId, Usage};
use plimsoll_session::SessionError;

use crate::billing::Billing;
use crate::recording::{Call, HOUR, Pieces, Recording, Step};
use crate::report::Reduction;
use crate::request::Request;
use crate::rules::Rules;
use engine::Engine;
use masked::Masked;
use summarised::Summarised;

/// A session as some rules show it.
pub(crate) trait Sight {
    /// Something was said or done. `usage` is what the provider counted, if it was the model.
    fn append(&mut self, step: &Step, usage: Option<Usage>) -> Result<(), SessionError>;

    /// Brings the request up to date for a call. `refused` says that the last one for this call did not fit.
    fn prepare(
        &mut self,
        call: &Call,
        refused: bool,
        request: &mut Request,
        pieces: &mut Pieces<'_>,
    ) -> Result<(), SessionError>;

    /// What was reduced since this was last asked.
    fn fired(&mut self) -> Vec<Noted>;

    /// Messages of windows that were looked at so far, for rules that look at windows.
    fn visited(&self) -> u64 {
        0
    }

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
#[derive(Default)]
pub(crate) struct Asked {
    /// Tokens of the session's own request that it begins with, if it does.
    pub(crate) own: u64,
    /// Of these, tokens that are read from the cache.
    pub(crate) read: u64,
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

/// A session before its first message, under those rules.
pub(crate) fn sight<'a>(
    rules: &'a Rules,
    recording: &'a Recording,
    billing: Billing<'a>,
    pieces: &mut Pieces<'_>,
) -> Result<Box<dyn Sight + 'a>, SessionError> {
    let limits = billing.circumstances.limits();
    let masked = |mask, pieces: &mut Pieces<'_>| Box::new(Masked::new(recording, mask, billing, pieces));
    Ok(match rules {
        Rules::Engine(policy) => Box::new(Engine::new(policy, rules.handles(), recording, billing)?),
        Rules::Codex { user_tokens, output_tokens } => {
            let rule = summarised::Rule {
                // From 90 % on: the line itself counts.
                line: limits.context.share(0.9).0,
                // In a window for which its constant was never meant, as much of it as in the model's own.
                user_tokens: (*user_tokens).min(limits.context.share(0.1)),
                output_tokens: Some(*output_tokens),
                clears_when_idle: None,
            };
            Box::new(Summarised::new(rule, recording, billing))
        }
        Rules::ClaudeCode => {
            let rule = summarised::Rule {
                line: claude_code_line(limits),
                user_tokens: plimsoll::Tokens::ZERO,
                output_tokens: None,
                clears_when_idle: Some(summarised::Idle { after: HOUR, keep: 5 }),
            };
            Box::new(Summarised::new(rule, recording, billing))
        }
        Rules::None => masked(None, pieces),
        Rules::Mask { keep, polling } => {
            masked(Some(masked::Mask { trigger: None, keep: *keep, polling: *polling }), pieces)
        }
        Rules::ClearToolUses { trigger, keep } => {
            let trigger = Some(trigger.tokens(limits));
            masked(Some(masked::Mask { trigger, keep: *keep, polling: 1 }), pieces)
        }
    })
}

/// The window less the longest answer, of which no more than 20,000 count, less 13,000. In a window for which that was
/// never meant it is half of it.
fn claude_code_line(limits: Limits) -> u64 {
    let context = limits.context.0;
    context.saturating_sub(limits.output.0.min(20_000)).saturating_sub(13_000).max(context / 2)
}
