//! Fork: a child session's digest of its parent.
//!
//! Three pure stages, and [`fork`] for all of them: leave out what a summary already covers (`boundary`), cut old
//! tool results by age (`tiers`), and keep the digest within a `budget`. `format` writes the text, and
//! `preamble` describes to the child how it was made. No model is called and nothing is changed. [`fork_for`] fits a
//! digest to the child's window, with a summary of messages that have to be removed. [`inherit`] passes the parent's
//! window to a child with the same agent, so that its first request is read from the provider's cache.
//!
//! ```
//! use plimsoll::fork::fork;
//! use plimsoll::{Message, Part, Policy};
//! let log = [
//!     Message::user("msg_1".into(), "prt_1".into(), "hello"),
//!     Message::assistant("msg_2".into(), vec![Part::text("prt_2".into(), "hi")]),
//! ];
//! let digest = fork(&log, &Policy::default().fork);
//! assert_eq!(digest.context, "<inherited_context>\nUser:\nhello\nAgent:\nhi\n</inherited_context>");
//! assert_eq!(digest.stats.total_chars.0, 62);
//! ```

mod boundary;
mod budget;
mod child;
mod format;
mod history;
mod preamble;
mod summary;
mod tiers;

use serde::Serialize;

use self::format::{Results, Tier};
use crate::chars::Text;
use crate::log::Message;
use crate::policy::{ForkPolicy, ForkRules};

pub use crate::plan::{ForkStats, TierDistribution, TruncatedBy};
#[doc(hidden)]
pub use boundary::{Slice, slice};
#[doc(hidden)]
pub use budget::{Fitted, fit};
pub use child::{Child, NoRoom, fork_for};
pub use history::{
    Identity, Inheritance, InheritedHistory, LAUNCHED, NoHistory, PARENTS_CALL, Parent, Point,
    TASK_INTRODUCTION, inherit, same_agent, task_text,
};
#[doc(hidden)]
pub use preamble::preamble;
#[doc(hidden)]
pub use tiers::{Tiered, apply as cut_by_age};

/// A parent's history in a form for a child.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Digest {
    /// Introduction for the child.
    pub preamble: String,
    /// The history in `<inherited_context>`. Empty if there is none.
    pub context: String,
    /// Figures about the digest.
    pub stats: ForkStats,
}

impl Digest {
    /// Returns the user message for the child. `None` for an empty history.
    pub fn message(&self) -> Option<String> {
        (!self.context.is_empty()).then(|| format!("{}\n\n{}", self.preamble, self.context))
    }
}

impl TierDistribution {
    fn plus(&self, other: &TierDistribution) -> TierDistribution {
        TierDistribution {
            tier1: self.tier1 + other.tier1,
            tier2: self.tier2 + other.tier2,
            tier3: self.tier3 + other.tier3,
        }
    }

    fn of(&mut self, tier: Tier) -> &mut usize {
        match tier {
            Tier::First => &mut self.tier1,
            Tier::Second => &mut self.tier2,
            Tier::Third => &mut self.tier3,
        }
    }
}

/// Makes a digest: boundary, tiers, budget, format, preamble.
pub fn fork(messages: &[Message], policy: &ForkPolicy) -> Digest {
    fork_until(messages, None, policy)
}

/// Like [`fork`], with one more message after the others: the part of a step before its launching call. It is passed
/// separately so that a long history need not be copied for it.
pub(crate) fn fork_until(messages: &[Message], last: Option<&Message>, policy: &ForkPolicy) -> Digest {
    DigestSource::until(messages, last).digest(policy)
}

/// Input of a digest, computed once for all digests that are tried.
pub(crate) struct DigestSource<'a> {
    slice: boundary::Slice<'a>,
    /// Messages of the parent.
    original: usize,
}

impl<'a> DigestSource<'a> {
    /// Takes `messages` and one more message after them.
    pub(crate) fn until(messages: &'a [Message], last: Option<&'a Message>) -> DigestSource<'a> {
        let mut slice = boundary::slice(messages);
        slice.messages.extend(last);
        DigestSource { slice, original: messages.len() + usize::from(last.is_some()) }
    }

    /// Removes the summary from the source and returns it.
    fn without_summary(&self) -> (DigestSource<'a>, Option<Text>) {
        let boundary::Slice { messages, summary, .. } = &self.slice;
        let pinned = self.slice.pinned();
        let prior = messages.first().filter(|_| pinned > 0).map(|message| Text::from(message.text()));
        let slice =
            boundary::Slice { messages: messages[pinned..].to_vec(), summary: *summary, is_apart: true };
        (DigestSource { slice, original: self.original }, prior)
    }

    /// Makes a digest with a policy.
    pub(crate) fn digest(&self, policy: &ForkPolicy) -> Digest {
        let DigestSource { slice, original } = self;
        let (fitted, left_out, results) = match policy.rules {
            ForkRules::Document => {
                let tiered = tiers::apply(&slice.messages, policy);
                let fitted = budget::fit(&tiered.messages, slice.pinned(), policy);
                (fitted, 0, Figures::of_stage_2(&tiered.results()))
            }
            // O(digest), not O(history): messages are read from the newest on, until the budget is full.
            ForkRules::Fitted => {
                let (newest, left_out) = tiers::newest(&slice.messages, slice.pinned(), policy);
                let fitted = budget::fit(&newest, slice.pinned(), policy);
                let results = Figures::of_delivered(&fitted.results);
                (fitted, left_out, results)
            }
        };
        let stats = ForkStats {
            original_count: *original,
            final_count: fitted.count,
            total_chars: fitted.chars,
            removed_messages: fitted.removed + left_out,
            summarised_messages: 0,
            kept_words: fitted.words,
            left_out_messages: original - slice.messages.len(),
            shortened_messages: fitted.shortened,
            compaction_detected: slice.summary.is_some(),
            compaction_slice_index: slice.summary.map(|at| at as i64).unwrap_or(-1),
            truncated_results: results.truncated,
            truncated_by: TruncatedBy { budget: fitted.results.squeezed, ..results.by_tier },
            tier_distribution: results.distribution,
            head_tail_applied: results.head_tail,
        };
        Digest { preamble: preamble::preamble(&stats, policy), context: fitted.text, stats }
    }
}

/// The figures about tool results in [`ForkStats`].
struct Figures {
    truncated: usize,
    by_tier: TruncatedBy,
    distribution: TierDistribution,
    head_tail: usize,
}

impl Figures {
    fn of_delivered(results: &Results) -> Figures {
        let TierDistribution { tier1, tier2, tier3 } = results.cut;
        Figures {
            truncated: results.truncated(),
            by_tier: TruncatedBy { tier1, tier2, tier3, budget: 0 },
            distribution: results.distribution.clone(),
            head_tail: results.head_tail,
        }
    }

    /// Every numbered result has a tier, including cleared ones.
    fn of_stage_2(results: &Results) -> Figures {
        let distribution = results.distribution.plus(&results.cleared);
        Figures { distribution, ..Figures::of_delivered(results) }
    }
}
