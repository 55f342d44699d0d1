//! Fork: a child session's digest of its parent.
//!
//! Three pure stages, each callable alone, and [`fork`] for all of them: find the [`boundary`] behind which a
//! summary already speaks, cut old tool results by [`tiers`], keep the whole within a [`budget`]; [`mod@format`]
//! writes the text and [`preamble`] tells the child what was done to it. No model is asked and nothing is
//! changed.
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
pub mod format;
pub mod preamble;
pub mod tiers;

use serde::{Deserialize, Serialize};

use crate::chars::Chars;
use crate::log::Message;
use crate::policy::ForkPolicy;

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

/// What the pipeline did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkStats {
    /// Messages of the parent.
    pub original_count: usize,
    /// Messages in the digest.
    pub final_count: usize,
    /// Chars of the digest.
    pub total_chars: Chars,
    /// Messages removed to fit the budget; those before the boundary are not counted.
    pub removed_messages: usize,
    /// Whether a summary stands for older messages.
    pub compaction_detected: bool,
    /// Where that summary stands in the parent's list; -1 if there is none.
    pub compaction_slice_index: i64,
    /// Tool results that were cut.
    pub truncated_results: usize,
    /// Tool results by age, cut or not.
    pub tier_distribution: TierDistribution,
    /// Cut results that keep their end as well.
    pub head_tail_applied: usize,
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

/// Boundary, tiers, budget, format, preamble.
pub fn fork(messages: &[Message], policy: &ForkPolicy) -> Digest {
    let slice = boundary::slice(messages);
    let tiered = tiers::apply(&slice.messages, policy);
    let fitted = budget::fit(&tiered.messages, slice.pinned(), policy);
    let stats = ForkStats {
        original_count: messages.len(),
        final_count: fitted.count,
        total_chars: fitted.chars,
        removed_messages: fitted.removed,
        compaction_detected: slice.summary.is_some(),
        compaction_slice_index: slice.summary.map(|at| at as i64).unwrap_or(-1),
        truncated_results: tiered.truncated,
        tier_distribution: tiered.distribution,
        head_tail_applied: tiered.head_tail,
    };
    Digest { preamble: preamble::preamble(&stats, policy), context: fitted.text, stats }
}
