//! A summary at the beginning of a digest from which messages had to be removed.
//!
//! A child with a small window gets only the newest messages of its parent, without goal, rules, findings, decisions
//! and changed files. At equal size, a summary of the removed messages answers more of a child's questions than more of
//! the newest messages (measured, see `docs/SUMMARY.md`).

use super::child::{message_tokens, sized};
use super::format::{OPEN, push_harmless};
use super::{Digest, DigestSource, preamble};
use crate::chars::{Chars, Text};
use crate::compact::extract_before;
use crate::counter::Counter;
use crate::log::Message;
use crate::policy::{ForkPolicy, Policy};
use crate::tokens::Tokens;

/// Label of the summary in a digest.
const LABEL: &str = "Summary:";

/// Returns a digest of at most `room` tokens that begins with a summary of the removed messages. `None` if the policy
/// has no room for a summary, if nothing is removed, or if both do not fit.
pub(super) fn digest(
    source: &DigestSource<'_>,
    policy: &Policy,
    room: Tokens,
    counter: &dyn Counter,
) -> Option<Digest> {
    let most = room.share(policy.fork.summary_share);
    if most < policy.compact.extractive_least {
        return None;
    }
    // The summary contains the user's older words, so the digest need not keep them. An existing summary is merged.
    let fork = ForkPolicy { words_share: 0.0, words_room: None, ..policy.fork.clone() };
    let (source, prior) = source.without_summary();
    let smallest = sized(&source, &fork, room - most, counter).ok()?;
    let removed = smallest.stats.removed_messages;
    if removed == 0 && prior.is_none() || counter.is_stopped() {
        return None;
    }
    let (older, newer) = source.slice.messages.split_at(removed.min(source.slice.messages.len()));
    let summary = extract_before(older, newer, prior.as_ref(), most, &policy.summary, counter);
    if counter.is_stopped() {
        return None;
    }
    let block = block(&summary);
    // Room that the summary does not need goes to the newest messages.
    let rest = sized(&source, &fork, room - message_tokens(&block, counter), counter).unwrap_or(smallest);
    Some(with_summary(rest, &block, older, &fork))
}

/// Formats the summary for a digest, escaped so that it cannot close the block.
fn block(summary: &Text) -> String {
    let mut text = format!("\n{LABEL}\n");
    push_harmless(&mut text, summary);
    text
}

fn with_summary(mut digest: Digest, block: &str, older: &[&Message], policy: &ForkPolicy) -> Digest {
    // The first tag is the real one: all others are escaped.
    digest.context = digest.context.replacen(OPEN, &format!("{OPEN}{block}"), 1);
    digest.stats.total_chars = Chars::of(&digest.context);
    digest.stats.summarised_messages = older.len().min(digest.stats.removed_messages);
    digest.preamble = preamble::preamble(&digest.stats, policy);
    digest
}
