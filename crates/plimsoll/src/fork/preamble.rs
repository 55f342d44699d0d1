//! What the child is told about its digest.

use super::ForkStats;
use crate::policy::ForkPolicy;

/// The preamble for a digest with those figures.
pub fn preamble(stats: &ForkStats, policy: &ForkPolicy) -> String {
    let compaction = if stats.compaction_detected {
        "Compaction summary included (messages before compaction removed)".to_owned()
    } else {
        "No compaction detected".to_owned()
    };
    let tiers = &stats.tier_distribution;
    let results = if policy.tier1_count == 0 && policy.tier2_count == 0 {
        // One limit for all: what was short enough is whole.
        let whole = (tiers.tier1 + tiers.tier2 + tiers.tier3).saturating_sub(stats.truncated_results);
        let (cut, limit) = (stats.truncated_results, policy.tier3_limit.0);
        format!("Tool results: {whole} full, {cut} truncated to {limit} chars")
    } else {
        let (second, third) = (policy.tier2_limit.0, policy.tier3_limit.0);
        format!(
            "Tool results: {} full, {} truncated to {second} chars, {} truncated to {third} chars",
            tiers.tier1, tiers.tier2, tiers.tier3
        )
    };
    let removed = if stats.removed_messages > 0 {
        format!(
            "{} oldest messages removed to fit {} char budget",
            stats.removed_messages, policy.char_budget.0
        )
    } else {
        "All messages preserved".to_owned()
    };
    [
        "You are working with forked context from a parent agent session.",
        "Context processing applied:",
        &format!("- {compaction}"),
        &format!("- {results}"),
        &format!("- {removed}"),
        "If you need complete file contents or detailed results, re-read the files directly.",
    ]
    .join("\n")
}
