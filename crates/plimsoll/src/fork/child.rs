//! A digest sized to the window of the child that reads it.
//!
//! The budget of a fork policy is a number of chars, made for large windows. A child with a small one would start
//! over its line, or with nothing left to work in. So the digest is measured by the counter of the child's model,
//! and while it is too long it is made anew by a policy scaled down from the given one: newest results and the
//! user's words are the last to go.

use thiserror::Error;

use super::{Digest, DigestSource, summary};
use crate::chars::Chars;
use crate::count::{Counter, Fixed, Tokens};
use crate::limits::{Limits, Line};
use crate::log::Message;
use crate::policy::{ForkPolicy, ForkRules, Policy};

/// The session that is to read a digest.
#[derive(Clone, Copy, Debug)]
pub struct Child<'a> {
    /// Limits of its model.
    pub limits: Limits,
    /// What its requests carry besides the conversation.
    pub fixed: Fixed,
    /// What it is to do; a message of its own behind the digest.
    pub task: &'a str,
}

impl Child<'_> {
    /// Most tokens a digest may take; `None` if the child's window is unknown or the budget counts only chars.
    pub fn room(&self, policy: &Policy, counter: &dyn Counter) -> Option<Tokens> {
        if policy.fork.rules == ForkRules::Document {
            return None;
        }
        let line = policy.overflow.line(self.limits).map(Line::room)?;
        let task = message_tokens(self.task, counter);
        Some((line - self.fixed.total() - task).share(policy.fork.child_share))
    }
}

/// A child's window is too small for any digest of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the smallest digest takes {needed} tokens, and the child has room for {room}")]
pub struct NoRoom {
    /// What the smallest digest takes.
    pub needed: Tokens,
    /// What it may take.
    pub room: Tokens,
}

/// A digest that is still too long is made smaller by one in so many at least.
const STEPS: u64 = 30;

/// The digest of a parent's history for that child: as [`fork`](super::fork) makes it if that fits, else a smaller one.
///
/// ```
/// use plimsoll::fork::child::{Child, fork_for};
/// use plimsoll::{Counter, Fixed, Limits, Message, Policy, Tokens};
/// let policy = Policy::default();
/// let log = [Message::user("msg_1".into(), "prt_1".into(), "a long story ".repeat(9_000))];
/// let child = Child { limits: Limits::new(16_000, 4_000), fixed: Fixed::default(), task: "Retell it." };
/// let digest = fork_for(&log, &policy, &child, &policy.count)?;
/// // Half of what is left of 12,000 beside the task.
/// assert!(policy.count.count(&digest.message().unwrap()) < Tokens(6_000));
/// # Ok::<(), plimsoll::fork::child::NoRoom>(())
/// ```
pub fn fork_for(
    messages: &[Message],
    policy: &Policy,
    child: &Child<'_>,
    counter: &dyn Counter,
) -> Result<Digest, NoRoom> {
    fork_for_until(messages, None, policy, child, counter)
}

/// Like [`fork_for`], with one more message behind the others.
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

/// The largest digest that has at most `room` tokens.
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
        if budget <= ForkPolicy::LEAST_BUDGET {
            return Err(NoRoom { needed, room });
        }
        let preamble = message_tokens(&digest.preamble, counter);
        if counter.is_stopped() {
            return Ok(digest);
        }
        let (has, may_have) = ((needed - preamble).0.max(1), (room - preamble).0);
        let chars = digest.stats.total_chars.min(budget).0;
        // As many chars as the text's own density allows. A smaller digest may be denser, so it is measured again;
        // it is smaller by a step at least, so the loop ends.
        let fitting = (chars as f64 * may_have as f64 / has as f64) as u64;
        budget = Chars(fitting.min(chars - chars / STEPS)).max(ForkPolicy::LEAST_BUDGET);
        digest = source.digest(&policy.sized_to(budget));
    }
}

pub(super) fn message_tokens(text: &str, counter: &dyn Counter) -> Tokens {
    counter.count(text) + counter.message_overhead()
}

impl ForkPolicy {
    /// The same policy for a smaller digest: limits are scaled with the budget, the newest results share a part of
    /// it, and some of the user's words stay where messages must be removed.
    pub fn sized_to(&self, budget: Chars) -> ForkPolicy {
        let budget = budget.max(ForkPolicy::LEAST_BUDGET);
        if budget >= self.char_budget {
            return self.clone();
        }
        let ratio = budget.0 as f64 / self.char_budget.0 as f64;
        // What is small already stays as it is: nothing is gained by fragments.
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
