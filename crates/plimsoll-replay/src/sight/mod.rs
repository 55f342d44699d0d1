//! What the model would have been given, under each kind of rules.

mod codex;
mod engine;
mod masked;

use plimsoll::{Limits, Usage};
use plimsoll_session::SessionError;
use serde::Serialize;

use crate::pieces::{Piece, Pieces};
use crate::recording::{Call, Recording, Step};
use crate::rules::Rules;
use codex::Codex;
use engine::Engine;
use masked::Masked;

/// A session as some rules show it.
pub(crate) trait Sight {
    /// Something was said or done. `usage` is what the provider counted, if it was the model.
    fn append(&mut self, step: &Step, usage: Option<Usage>) -> Result<(), SessionError>;

    /// Make ready for a call; with `refused` because the request as it was did not fit.
    fn prepare(&mut self, call: &Call, refused: bool, pieces: &mut Pieces<'_>) -> Result<(), SessionError>;

    /// The request as it stands.
    fn request(&mut self, pieces: &mut Pieces<'_>) -> Vec<Piece>;

    /// What was reduced since this was last asked.
    fn fired(&mut self) -> Vec<Reduction>;
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
    /// Tokens it answered.
    #[serde(skip_serializing_if = "is_zero")]
    pub answered: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A session before its first message, under those rules.
pub(crate) fn sight<'a>(
    rules: &'a Rules,
    recording: &Recording,
    limits: Limits,
    fixed: u64,
    pieces: &mut Pieces<'_>,
) -> Result<Box<dyn Sight + 'a>, SessionError> {
    Ok(match rules {
        Rules::Engine(policy) => Box::new(Engine::new(policy, limits, fixed)?),
        Rules::Codex { user_tokens } => Box::new(Codex::new(*user_tokens, limits, fixed)),
        Rules::None => Box::new(Masked::new(recording, None, fixed, pieces)),
        Rules::Mask { keep } => {
            Box::new(Masked::new(recording, Some(masked::Mask { trigger: 0, keep: *keep }), fixed, pieces))
        }
        Rules::ClearToolUses { trigger, keep } => Box::new(Masked::new(
            recording,
            Some(masked::Mask { trigger: trigger.0, keep: *keep }),
            fixed,
            pieces,
        )),
    })
}
