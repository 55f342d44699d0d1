//! Figures about a digest for a child session.

use serde::{Deserialize, Serialize};

use crate::chars::Chars;
#[cfg(doc)]
use crate::policy::ForkRules;

/// Figures about a digest. [`ForkRules`] decides whether figures about tool results describe the second stage, before the
/// budget removes messages, or the delivered text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ForkStats {
    /// Number of messages of the parent: in the digest, removed, or left out.
    pub original_count: usize,
    /// Number of messages in the digest.
    pub final_count: usize,
    /// Length of the digest.
    pub total_chars: Chars,
    /// Number of messages removed to fit the budget, without those before the boundary.
    pub removed_messages: usize,
    /// Number of removed messages that a summary at the beginning of the digest covers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub summarised_messages: usize,
    /// Number of older messages of the user that are in the digest although other messages of their age were removed.
    #[serde(default)]
    pub kept_words: usize,
    /// Number of messages left out by the boundary: those that a summary covers, markers, failed summaries.
    #[serde(default)]
    pub left_out_messages: usize,
    /// Number of messages in the digest whose text was cut to fit the budget.
    #[serde(default)]
    pub shortened_messages: usize,
    /// Whether a summary covers older messages.
    pub compaction_detected: bool,
    /// Position of that summary in the parent's list; -1 if there is none.
    pub compaction_slice_index: i64,
    /// Number of cut tool results. With [`ForkRules::Document`], only those cut by their tier.
    pub truncated_results: usize,
    /// Cut tool results by reason. Those cut by the budget are listed with either rules.
    #[serde(default)]
    pub truncated_by: TruncatedBy,
    /// Tool results by tier, cut or not.
    pub tier_distribution: TierDistribution,
    /// Number of cut results that keep their end as well.
    pub head_tail_applied: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Number of tool results by tier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TierDistribution {
    /// The newest, which stay whole.
    pub tier1: usize,
    /// The next newest, with the medium limit.
    pub tier2: usize,
    /// All older ones.
    pub tier3: usize,
}

impl TierDistribution {
    /// Number of all results.
    pub fn total(&self) -> usize {
        self.tier1 + self.tier2 + self.tier3
    }
}

/// Number of cut tool results by reason. Each is counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TruncatedBy {
    /// Cut so that the first tier fits its room.
    pub tier1: usize,
    /// Cut to the second tier's limit.
    pub tier2: usize,
    /// Cut to the third tier's limit.
    pub tier3: usize,
    /// Cut, or cut further, together with a message that was too long for the budget.
    pub budget: usize,
}
