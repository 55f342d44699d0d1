//! Fork: a child session's digest of its parent.
//!
//! Three pure stages, each callable alone, and [`fork`] for all of them: find the [`boundary`] behind which a
//! summary already speaks, cut old tool results by [`tiers`], keep the whole within a [`budget`]; [`mod@format`]
//! writes the text and [`preamble`] tells the child what was done to it. No model is asked and nothing is
//! changed. [`child`] sizes a digest to the window of the one who reads it, with a summary before it if messages must be removed, and [`history`] gives a child of the same
//! agent the parent's window itself, so that its first request is read from the cache.
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

pub mod boundary;
pub mod budget;
pub mod child;
pub mod format;
pub mod history;
pub mod preamble;
mod summary;
pub mod tiers;

use serde::{Deserialize, Serialize};

use self::format::{Results, Tier};
use crate::chars::{Chars, Text};
use crate::log::Message;
use crate::policy::{ForkPolicy, ForkRules};

/// A parent's history, ready for a child.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Digest {
    /// Tells the child what it is looking at.
    pub preamble: String,
    /// The history in `<inherited_context>`; empty if there was none.
    pub context: String,
    /// What was done to it.
    pub stats: ForkStats,
}

impl Digest {
    /// The one user message the child is given; none for an empty history.
    pub fn message(&self) -> Option<String> {
        (!self.context.is_empty()).then(|| format!("{}\n\n{}", self.preamble, self.context))
    }
}

/// Figures of the pipeline. [`ForkRules`] decides whether those about tool results count the second stage, before the
/// budget removes messages, or the delivered text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkStats {
    /// Messages of the parent: those in the digest, those removed and those left out.
    pub original_count: usize,
    /// Messages in the digest.
    pub final_count: usize,
    /// Chars of the digest.
    pub total_chars: Chars,
    /// Messages removed to fit the budget; those before the boundary are not counted.
    pub removed_messages: usize,
    /// Removed messages that a summary at the beginning of the digest covers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub summarised_messages: usize,
    /// Older messages of the user that are in the digest though others of their age were removed.
    #[serde(default)]
    pub kept_words: usize,
    /// Messages the boundary left out: those a summary stands for, markers, failed tries at a summary.
    #[serde(default)]
    pub left_out_messages: usize,
    /// Messages in the digest whose text was cut to fit the budget.
    #[serde(default)]
    pub shortened_messages: usize,
    /// Whether a summary stands for older messages.
    pub compaction_detected: bool,
    /// Where that summary stands in the parent's list; -1 if there is none.
    pub compaction_slice_index: i64,
    /// Tool results that were cut; with [`ForkRules::Document`] those that their tier cut.
    pub truncated_results: usize,
    /// Cut tool results by reason; what the budget cut is listed with either rules.
    #[serde(default)]
    pub truncated_by: TruncatedBy,
    /// Tool results by age, cut or not.
    pub tier_distribution: TierDistribution,
    /// Cut results that keep their end as well.
    pub head_tail_applied: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Tool results by age.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TierDistribution {
    /// The newest, kept whole.
    pub tier1: usize,
    /// The next, at the medium limit.
    pub tier2: usize,
    /// All older ones.
    pub tier3: usize,
}

impl TierDistribution {
    /// All of them.
    pub fn total(&self) -> usize {
        self.tier1 + self.tier2 + self.tier3
    }

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

/// Tool results that were cut, each counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TruncatedBy {
    /// Those cut so that all of the first tier fit their room.
    pub tier1: usize,
    /// Those cut to the second tier's limit.
    pub tier2: usize,
    /// Those cut to the third tier's limit.
    pub tier3: usize,
    /// Those cut, or cut further, with a message that was too long for the budget.
    pub budget: usize,
}

/// Boundary, tiers, budget, format, preamble.
pub fn fork(messages: &[Message], policy: &ForkPolicy) -> Digest {
    fork_until(messages, None, policy)
}

/// Like [`fork`], with one more message behind the others: the part of a step that came before its launching call. It is
/// given apart so that a long history need not be copied for it.
pub(crate) fn fork_until(messages: &[Message], last: Option<&Message>, policy: &ForkPolicy) -> Digest {
    DigestSource::until(messages, last).digest(policy)
}

/// What a digest is made of, found once for all digests that are tried.
pub(crate) struct DigestSource<'a> {
    slice: boundary::Slice<'a>,
    /// Messages of the parent.
    original: usize,
}

impl<'a> DigestSource<'a> {
    /// What was said in `messages`, and one more message behind them.
    pub(crate) fn until(messages: &'a [Message], last: Option<&'a Message>) -> DigestSource<'a> {
        let mut slice = boundary::slice(messages);
        slice.messages.extend(last);
        DigestSource { slice, original: messages.len() + usize::from(last.is_some()) }
    }

    /// Takes the summary out of the source.
    fn without_summary(&self) -> (DigestSource<'a>, Option<Text>) {
        let boundary::Slice { messages, summary, .. } = &self.slice;
        let pinned = self.slice.pinned();
        let prior = messages.first().filter(|_| pinned > 0).map(|message| Text::from(message.text()));
        let slice =
            boundary::Slice { messages: messages[pinned..].to_vec(), summary: *summary, is_apart: true };
        (DigestSource { slice, original: self.original }, prior)
    }

    /// Makes the digest by a policy.
    pub(crate) fn digest(&self, policy: &ForkPolicy) -> Digest {
        let DigestSource { slice, original } = self;
        let (fitted, left_out, results) = match policy.rules {
            ForkRules::Document => {
                let tiered = tiers::apply(&slice.messages, policy);
                let fitted = budget::fit(&tiered.messages, slice.pinned(), policy);
                (fitted, 0, Figures::of_stage_2(&tiered.results()))
            }
            // Costs what the digest is long and not what the history is: messages are looked at from the newest on, until
            // the budget is full.
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

    /// Every numbered result has its tier, those that were cleared before among them.
    fn of_stage_2(results: &Results) -> Figures {
        let distribution = results.distribution.plus(&results.cleared);
        Figures { distribution, ..Figures::of_delivered(results) }
    }
}
