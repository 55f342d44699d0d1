//! Simulates what the model would have received under each kind of rules.

mod engine;
mod mask;
mod proxy;
mod summary;

use plimsoll::{Limits, PartId, Usage};
use plimsoll_session::SessionError;

use crate::billing::Billing;
use crate::recording::{HOUR, ModelCall, Pieces, RecordedMessage, Recording};
use crate::report::Reduction;
use crate::request::Request;
use crate::rules::Rules;
use engine::EngineSimulator;
use mask::MaskSimulator;
use proxy::ProxySimulator;
use summary::SummarySimulator;

/// Simulates a session under some rules.
pub(crate) trait PolicySimulator {
    /// Appends a message. `usage` is the provider's, if it is a model's answer.
    fn append(&mut self, step: &RecordedMessage, usage: Option<Usage>) -> Result<(), SessionError>;

    /// Updates the request for a call. `refused` means that the previous one for this call did not fit.
    fn prepare(
        &mut self,
        call: &ModelCall,
        refused: bool,
        request: &mut Request,
        pieces: &mut Pieces<'_>,
    ) -> Result<(), SessionError>;

    /// Returns the reductions since the last call of this function.
    fn fired(&mut self) -> Vec<CostedReduction>;

    /// Returns the number of window messages read so far, for rules that read windows.
    fn visited(&self) -> u64 {
        0
    }

    /// Lets the model recall what it needs from these results. Returns the tokens of its call, or `None` if nothing can
    /// be recalled. `usage` is the provider's for the request in which it calls.
    fn recall(
        &mut self,
        _needed: &[NeededText<'_>],
        _usage: Usage,
        _pieces: &mut Pieces<'_>,
    ) -> Result<Option<u64>, SessionError> {
        Ok(None)
    }
}

/// Text that a call needs and the window does not show.
pub(crate) struct NeededText<'a> {
    /// The newest result that mentions it.
    pub(crate) result: &'a PartId,
    /// The text in the call.
    pub(crate) words: &'a str,
}

/// A reduction and its summary requests.
pub(crate) struct CostedReduction {
    pub(crate) reduction: Reduction,
    pub(crate) asked: Vec<SummaryTokens>,
}

/// Tokens of a summary request.
#[derive(Default)]
pub(crate) struct SummaryTokens {
    /// Tokens of the session's own request, if the summary request begins with it.
    pub(crate) own: u64,
    /// Tokens of `own` that are read from the cache.
    pub(crate) read: u64,
    /// Other tokens of the request.
    pub(crate) more: u64,
    /// Tokens of the answer.
    pub(crate) answer: u64,
}

impl From<Reduction> for CostedReduction {
    fn from(reduction: Reduction) -> CostedReduction {
        CostedReduction { reduction, asked: Vec::new() }
    }
}

/// Creates the simulator of a session under some rules.
pub(crate) fn simulator<'a>(
    rules: &'a Rules,
    recording: &'a Recording,
    billing: Billing<'a>,
    pieces: &mut Pieces<'_>,
) -> Result<Box<dyn PolicySimulator + 'a>, SessionError> {
    let limits = billing.params.limits();
    let masked =
        |mask, pieces: &mut Pieces<'_>| Box::new(MaskSimulator::new(recording, mask, billing, pieces));
    Ok(match rules {
        Rules::Engine(policy) => Box::new(EngineSimulator::new(policy, rules.handles(), recording, billing)?),
        Rules::Codex { user_tokens, output_tokens } => {
            let rule = summary::Rule {
                // From 90 % of the window on, regardless of the reserved output.
                line: limits.context.share(0.9).0,
                // Codex has a constant, which is larger than small windows. Limited to the share that it has of Codex'
                // models' windows.
                user_tokens: (*user_tokens).min(limits.context.share(0.1)),
                output_tokens: Some(*output_tokens),
                clears_when_idle: None,
            };
            Box::new(SummarySimulator::new(rule, recording, billing))
        }
        Rules::ClaudeCode => {
            let rule = summary::Rule {
                line: claude_code_line(limits),
                user_tokens: plimsoll::Tokens::ZERO,
                output_tokens: None,
                clears_when_idle: Some(summary::Idle { after: HOUR, keep: 5 }),
            };
            Box::new(SummarySimulator::new(rule, recording, billing))
        }
        Rules::Proxy => Box::new(ProxySimulator::new(recording, billing)),
        Rules::None => masked(None, pieces),
        Rules::Mask { keep, polling } => {
            masked(Some(mask::Mask { trigger: None, keep: *keep, polling: *polling }), pieces)
        }
        Rules::ClearToolUses { trigger, keep } => {
            let trigger = Some(trigger.tokens(limits));
            masked(Some(mask::Mask { trigger, keep: *keep, polling: 1 }), pieces)
        }
    })
}

/// Returns the window minus the maximum output (at most 20,000) minus 13,000. At least half of the window, because the
/// constants do not suit small ones.
fn claude_code_line(limits: Limits) -> u64 {
    let context = limits.context.0;
    context.saturating_sub(limits.output.0.min(20_000)).saturating_sub(13_000).max(context / 2)
}
