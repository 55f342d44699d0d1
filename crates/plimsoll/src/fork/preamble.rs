//! The introduction of a digest for the child.
//!
//! With [`ForkRules::Fitted`], every figure describes the text that follows: results that were removed with their
//! messages are not counted, and a result that was short enough for its tier counts as full. With
//! [`ForkRules::Document`], wording and counts are the document's: results by tier, cut or not.

use super::{ForkStats, TierDistribution};
use crate::policy::{ForkPolicy, ForkRules};

/// Returns the preamble for a digest with these figures.
pub fn preamble(stats: &ForkStats, policy: &ForkPolicy) -> String {
    let compaction = if stats.compaction_detected {
        "Compaction summary included (messages before compaction removed)"
    } else {
        "No compaction detected"
    };
    let mut lines = vec![
        "You are working with forked context from a parent agent session.".to_owned(),
        "Context processing applied:".to_owned(),
        format!("- {compaction}"),
        format!("- {}", results(stats, policy)),
        format!("- {}", messages(stats, policy)),
    ];
    if stats.summarised_messages > 0 {
        let count = stats.summarised_messages;
        lines.push(format!("- Summary of {count} older messages, made without a model, comes first"));
    }
    lines.push(
        "If you need complete file contents or detailed results, re-read the files directly.".to_owned(),
    );
    lines.join("\n")
}

fn results(stats: &ForkStats, policy: &ForkPolicy) -> String {
    if policy.rules == ForkRules::Document {
        let TierDistribution { tier1, tier2, tier3 } = stats.tier_distribution;
        let (second, third) = (policy.tier2_limit.0, policy.tier3_limit.0);
        return format!(
            "Tool results: {tier1} full, {tier2} truncated to {second} chars, {tier3} truncated to {third} chars"
        );
    }
    let cut = &stats.truncated_by;
    let full = stats.tier_distribution.total().saturating_sub(stats.truncated_results);
    let (second, third) = (policy.tier2_limit.0, policy.tier3_limit.0);
    let mut text = if policy.tier1_count == 0 && policy.tier2_count == 0 {
        // There is only one limit.
        format!("Tool results: {full} full, {} truncated to {third} chars", cut.tier3)
    } else {
        let newest = match cut.tier1 {
            0 => String::new(),
            cut => format!("{cut} newest truncated, "),
        };
        format!(
            "Tool results: {full} full, {newest}{} truncated to {second} chars, {} truncated to {third} chars",
            cut.tier2, cut.tier3
        )
    };
    if cut.budget > 0 {
        text.push_str(&format!(", {} cut to fit {} char budget", cut.budget, policy.char_budget.0));
    }
    text
}

fn messages(stats: &ForkStats, policy: &ForkPolicy) -> String {
    let budget = policy.char_budget.0;
    let removed = stats.removed_messages;
    if policy.rules == ForkRules::Document {
        return match removed {
            0 => "All messages preserved".to_owned(),
            removed => format!("{removed} oldest messages removed to fit {budget} char budget"),
        };
    }
    let mut text = match (removed, stats.kept_words) {
        (0, _) if !stats.compaction_detected => "All messages preserved".to_owned(),
        // Messages before the compaction are removed, as the first line says.
        (0, _) => "All messages after the compaction preserved".to_owned(),
        (_, 0) => format!("{removed} oldest messages removed to fit {budget} char budget"),
        (_, words) => format!(
            "{removed} older messages removed to fit {budget} char budget, {words} older messages of the user kept"
        ),
    };
    if stats.shortened_messages > 0 {
        text.push_str(&format!(", {} shortened to fit {budget} char budget", stats.shortened_messages));
    }
    text
}
