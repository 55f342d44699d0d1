//! Fits a digest to the child's window.
//!
//! The budget of a fork policy is a number of chars for large windows. A child with a small window would start over its
//! line, or without room to work. So the digest is measured with the counter of the child's model. While it is too
//! long, it is made again with a scaled-down policy that prefers the newest results and the user's words.

use thiserror::Error;

use super::{Digest, DigestSource, summary};
use crate::chars::Chars;
use crate::count::RequestOverhead;
use crate::counter::Counter;
use crate::limits::Limits;
use crate::line::Line;
use crate::log::Message;
use crate::policy::{ForkPolicy, ForkRules, Policy};
use crate::tokens::Tokens;

/// The session that receives a digest.
#[derive(Clone, Copy, Debug)]
pub struct Child<'a> {
    /// Limits of the child's model.
    pub limits: Limits,
    /// Tokens of the child's requests in addition to the conversation.
    pub fixed: RequestOverhead,
    /// The child's task, a separate message after the digest.
    pub task: &'a str,
}

impl Child<'_> {
    /// Maximum tokens of a digest. `None` if the child's window is unknown, or if the policy limits only chars.
    pub fn room(&self, policy: &Policy, counter: &dyn Counter) -> Option<Tokens> {
        if policy.fork.rules == ForkRules::Document {
            return None;
        }
        let line = policy.overflow.line(self.limits).map(Line::room)?;
        let task = message_tokens(self.task, counter);
        Some((line - self.fixed.total() - task).share(policy.fork.child_share))
    }
}

/// The child's window is too small for any digest of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the smallest digest has {needed} tokens, but the child has room for {room}")]
#[non_exhaustive]
pub struct NoRoom {
    /// Tokens of the smallest digest.
    pub needed: Tokens,
    /// Maximum tokens of a digest.
    pub room: Tokens,
}

/// Denominator of the minimum reduction per try, so that the number of tries is limited.
const STEPS: u64 = 30;

/// Returns the digest of a parent's history for a child: the one from [`fork`](super::fork) if it fits, else a smaller
/// one.
///
/// ```
/// use plimsoll::fork::{Child, fork_for};
/// use plimsoll::{Counter, RequestOverhead, Limits, Message, Policy, Tokens};
/// let policy = Policy::default();
/// let log = [Message::user("msg_1".into(), "prt_1".into(), "a long story ".repeat(9_000))];
/// let child = Child { limits: Limits::new(16_000, 4_000), fixed: RequestOverhead::default(), task: "Retell it." };
/// let digest = fork_for(&log, &policy, &child, &policy.count)?;
/// // Half of the room that the task leaves of 12,000 tokens.
/// assert!(policy.count.count(&digest.message().unwrap()) < Tokens(6_000));
/// # Ok::<(), plimsoll::fork::NoRoom>(())
/// ```
pub fn fork_for(
    messages: &[Message],
    policy: &Policy,
    child: &Child<'_>,
    counter: &dyn Counter,
) -> Result<Digest, NoRoom> {
    fork_for_until(messages, None, policy, child, counter)
}

/// Like [`fork_for`], with one more message after the others.
pub(crate) fn fork_for_until(
    messages: &[Message],
    last: Option<&Message>,
    policy: &Policy,
    child: &Child<'_>,
    counter: &dyn Counter,
) -> Result<Digest, NoRoom> {
    let source = DigestSource::until(messages, last);
    let digest = source.digest(&policy.fork);
    let Some(room) = child.room(policy, counter) else { return Ok(digest) };
    let fits = |digest: &Digest| digest.message().is_none_or(|text| message_tokens(&text, counter) <= room);
    if fits(&digest) || counter.is_stopped() {
        return Ok(digest);
    }
    let plain = sized(&source, &policy.fork, room, counter);
    let is_complete =
        |digest: &Digest| digest.stats.removed_messages == 0 && !digest.stats.compaction_detected;
    if plain.as_ref().is_ok_and(is_complete) || counter.is_stopped() {
        return plain;
    }
    summary::digest(&source, policy, room, counter).filter(fits).map_or(plain, Ok)
}

/// Returns the largest digest of at most `room` tokens.
pub(super) fn sized(
    source: &DigestSource<'_>,
    policy: &ForkPolicy,
    room: Tokens,
    counter: &dyn Counter,
) -> Result<Digest, NoRoom> {
    let mut budget = policy.char_budget;
    let mut digest = source.digest(policy);
    loop {
        let Some(message) = digest.message() else { return Ok(digest) };
        let needed = message_tokens(&message, counter);
        if needed <= room {
            return Ok(digest);
        }
        if budget <= ForkPolicy::MIN_BUDGET {
            return Err(NoRoom { needed, room });
        }
        let preamble = message_tokens(&digest.preamble, counter);
        if counter.is_stopped() {
            return Ok(digest);
        }
        let (has, may_have) = ((needed - preamble).0.max(1), (room - preamble).0);
        let chars = digest.stats.total_chars.min(budget).0;
        // As many chars as the density of the text allows. A smaller digest may be denser, so it is measured again.
        // Each is smaller by at least one step, so the loop ends.
        let fitting = (chars as f64 * may_have as f64 / has as f64) as u64;
        budget = Chars(fitting.min(chars - chars / STEPS)).max(ForkPolicy::MIN_BUDGET);
        digest = source.digest(&policy.sized_to(budget));
    }
}

pub(super) fn message_tokens(text: &str, counter: &dyn Counter) -> Tokens {
    counter.count(text) + counter.message_overhead()
}

impl ForkPolicy {
    /// Scales the policy to a smaller budget. Limits shrink with the budget, the newest results get a part of it, and
    /// some of the user's words stay if messages have to be removed.
    pub fn sized_to(&self, budget: Chars) -> ForkPolicy {
        let budget = budget.max(ForkPolicy::MIN_BUDGET);
        if budget >= self.char_budget {
            return self.clone();
        }
        let ratio = budget.0 as f64 / self.char_budget.0 as f64;
        // Small limits are not scaled, because fragments are useless.
        let scaled = |limit: Chars, least: Chars| limit.share(ratio).max(least).min(limit);
        let result = |limit| scaled(limit, self.least_result);
        let input = |limit| scaled(limit, self.params_tier3);
        let smaller = |own: Option<Chars>, share: f64| {
            let share = budget.share(share);
            Some(own.map_or(share, |own| own.min(share)))
        };
        ForkPolicy {
            char_budget: budget,
            no_removal: self.no_removal.min(budget),
            tier2_limit: result(self.tier2_limit),
            tier3_limit: result(self.tier3_limit),
            params_tier1: input(self.params_tier1),
            params_tier2: input(self.params_tier2),
            newest_room: smaller(self.newest_room, self.newest_share),
            words_room: smaller(self.words_room, self.words_share),
            ..self.clone()
        }
    }
}
