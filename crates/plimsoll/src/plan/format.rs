//! Plans as text.

use std::fmt::{self, Write as _};

use super::{CutItem, Plan, SummaryOrigin};
use crate::chars::Chars;
use crate::log::ContractFate;
use crate::numbers::thousands;
use crate::prune::{Cleared, PruneItem};
use crate::truncate::format_bytes;

impl Plan {
    /// Describes the reduction without sizes: those of a plan are estimates, and next to the sizes of its receipt, which are in
    /// the provider's tokens, the two would contradict each other.
    pub fn title(&self) -> String {
        match self {
            Plan::Prune(plan) if !plan.items.is_empty() => {
                format!("prune {}", cleared(&plan.items))
            }
            Plan::Compact(plan) => {
                let messages = some(plan.messages as usize, "message");
                format!("compact {messages} into {}", summary_name(plan.made))
            }
            Plan::Range(plan) => {
                let messages = some(plan.messages as usize, "message");
                format!("compact {messages} in place, into {}", summary_name(plan.made))
            }
            Plan::Pin(plan) => format!("pin {}", some(plan.items.len(), "text")),
            other => other.to_string(),
        }
    }

    /// Formats the plan with all its items.
    pub fn detail(&self) -> String {
        let mut text = format!("{self}\n");
        let mut row = |left: &dyn fmt::Display, right: String| {
            let _ = writeln!(text, "  {left}  {right}");
        };
        match self {
            Plan::Prune(plan) => {
                for item in &plan.items {
                    row(&item.handle(), format!("{:<12} {:>9} tokens", item.tool, item.tokens.to_string()));
                }
                // If nothing is cleared, the headline has the reason.
                if !plan.items.is_empty() {
                    row(&"reason", plan.explain());
                    if let Some(choice) = &plan.choice {
                        row(&"chosen", choice.to_string());
                    }
                    if plan.too_short > 0 {
                        let short = plan.short_outputs();
                        row(&"stay", format!("{short}, too short to be worth clearing"));
                    }
                }
            }
            Plan::Compact(plan) => {
                let (first, last) = (&plan.first, &plan.last);
                row(&"summarised", format!("{first} to {last}, {} tokens", plan.tokens));
                match &plan.tail_start {
                    Some(start) => {
                        row(
                            &"stays",
                            format!("{} from {start}", some(plan.tail_messages as usize, "message")),
                        );
                    }
                    None => row(&"stays", "nothing before the summary".into()),
                }
                if let Some(prompt) = &plan.prompt {
                    row(&"prompt", format!("{prompt} stays in view"));
                }
                if plan.merges_summary {
                    row(&"merges", "the summary before".into());
                }
                if !plan.contract.is_empty() {
                    let of = |fate| plan.contract.iter().filter(|item| item.fate == fate).count();
                    let [found, added, left] =
                        [ContractFate::Found, ContractFate::Added, ContractFate::LeftOut].map(of);
                    row(&"contract", format!("{found} found, {added} added, {left} left out"));
                }
                if !plan.unknown_names.is_empty() {
                    row(&"names", format!("not in the history: {}", plan.unknown_names.join(", ")));
                }
                plan.rejections.iter().for_each(|rejection| row(&"rejected", rejection.to_string()));
                plan.cut.iter().for_each(|item| row(&item.part, item.detail()));
            }
            Plan::Range(plan) => {
                row(&"summarised", format!("{} to {}, {} tokens", plan.first, plan.last, plan.tokens));
                row(&"stays", "everything before and after".into());
            }
            Plan::Shed(plan) => {
                for item in &plan.cleared {
                    row(
                        &item.handle(),
                        format!("{:<12} {:>9} tokens, cleared", item.tool, item.tokens.to_string()),
                    );
                }
                plan.cut.iter().for_each(|item| row(&item.part, item.detail()));
                plan.unpinned.iter().for_each(|part| row(part, "unpinned".to_owned()));
                for item in &plan.hidden {
                    row(&item.part, format!("{:<12} {:>9} tokens, left out", "", item.tokens.to_string()));
                }
            }
            Plan::Pin(plan) => {
                for item in &plan.items {
                    row(&item.part, format!("{:>9} tokens, pinned", item.tokens.to_string()));
                }
                row(&"pins", format!("{} of {} tokens", plan.total, plan.budget));
            }
            Plan::Edit(plan) => {
                for item in &plan.items {
                    let what = if item.is_removal() { "removed" } else { "changed" };
                    row(&item.part, what.to_owned());
                }
            }
            Plan::Truncate(plan) => {
                row(&"lines", format!("{} of {}", plan.kept_lines, plan.original_lines));
                let (kept, was) = (format_bytes(plan.kept_bytes), format_bytes(plan.original_bytes));
                row(&"size", format!("{kept} of {was}"));
                row(&"long lines shortened", plan.lines_shortened.to_string());
            }
            Plan::Purge(plan) => {
                plan.parts.iter().for_each(|part| row(part, "destroyed".to_owned()));
                plan.spills.iter().for_each(|spill| row(spill, "destroyed".to_owned()));
            }
            Plan::Fork(stats) => {
                row(&"messages", format!("{} of {}", stats.final_count, stats.original_count));
                row(&"chars", stats.total_chars.to_string());
                let tiers = &stats.tier_distribution;
                row(&"tool results", format!("{} / {} / {}", tiers.tier1, tiers.tier2, tiers.tier3));
                row(
                    &"cut",
                    format!(
                        "{}, {} of them keep both ends",
                        stats.truncated_results, stats.head_tail_applied
                    ),
                );
            }
        }
        text
    }
}

impl CutItem {
    fn detail(&self) -> String {
        match self.keep {
            Chars::ZERO => "left out".to_owned(),
            keep => format!("{} chars cut to {keep}", self.chars),
        }
    }
}

/// Formats a number with its noun, singular or plural.
fn some(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", thousands(count as u64))
}

/// Describes the origin of a summary.
fn summary_name(made: SummaryOrigin) -> &'static str {
    match made {
        SummaryOrigin::ByModel => "a summary",
        SummaryOrigin::WithoutModel => "a summary made without a model",
    }
}

/// Formats what is cleared: `3 tool outputs and 2 inputs`.
fn cleared(items: &[PruneItem]) -> String {
    let inputs = items.iter().filter(|item| item.what == Cleared::Input).count();
    match (items.len() - inputs, inputs) {
        (outputs, 0) => some(outputs, "tool output"),
        (0, inputs) => some(inputs, "tool input"),
        (outputs, inputs) => format!("{} and {}", some(outputs, "tool output"), some(inputs, "input")),
    }
}

/// Formats one line.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::Truncate(plan) if plan.truncated => {
                let (tool, kept, was) = (&plan.tool, plan.kept_lines, plan.original_lines);
                let size = format_bytes(plan.original_bytes);
                write!(f, "truncate {tool} output to {kept} of {was} lines ({size})")
            }
            Plan::Truncate(plan) => write!(f, "truncate nothing of {} output", plan.tool),
            Plan::Prune(plan) if plan.items.is_empty() => write!(f, "prune nothing: {}", plan.explain()),
            Plan::Prune(plan) => {
                write!(f, "prune {}, {} tokens", cleared(&plan.items), plan.freed_tokens)
            }
            Plan::Compact(plan) => {
                let how = summary_name(plan.made);
                let messages = some(plan.messages as usize, "message");
                write!(f, "compact {messages}, {} tokens, into {how}", plan.tokens)
            }
            Plan::Range(plan) => {
                let how = summary_name(plan.made);
                let messages = some(plan.messages as usize, "message");
                write!(f, "compact {messages}, {} tokens, in place, into {how}", plan.tokens)
            }
            Plan::Shed(plan) => {
                let parts = [
                    ("cut", plan.cut.len()),
                    ("leave out", plan.hidden.len()),
                    ("unpin", plan.unpinned.len()),
                ];
                let parts = parts.into_iter().filter(|(_, count)| *count > 0);
                let parts = parts.map(|(verb, count)| format!("{verb} {}", some(count, "part")));
                let clear = (!plan.cleared.is_empty()).then(|| format!("clear {}", cleared(&plan.cleared)));
                let steps: Vec<String> = clear.into_iter().chain(parts).collect();
                write!(f, "shed: {}", if steps.is_empty() { "nothing".to_owned() } else { steps.join(", ") })
            }
            Plan::Pin(plan) => {
                write!(f, "pin {}, {} tokens", some(plan.items.len(), "text"), plan.tokens())
            }
            Plan::Edit(plan) => {
                let removed = plan.items.iter().filter(|item| item.is_removal()).count();
                let steps = [("change", plan.items.len() - removed), ("remove", removed)];
                let steps = steps.into_iter().filter(|(_, count)| *count > 0);
                let steps: Vec<String> =
                    steps.map(|(verb, count)| format!("{verb} {}", some(count, "part"))).collect();
                write!(f, "edit: {}", steps.join(", "))
            }
            Plan::Purge(plan) => {
                let (parts, spills) =
                    (some(plan.parts.len(), "part"), some(plan.spills.len(), "spilled output"));
                write!(f, "purge {} in {parts} and {spills}", some(plan.places as usize, "place"))
            }
            Plan::Fork(stats) => {
                write!(f, "fork {} of {} messages", stats.final_count, stats.original_count)?;
                write!(f, ", {} chars", stats.total_chars)
            }
        }
    }
}
