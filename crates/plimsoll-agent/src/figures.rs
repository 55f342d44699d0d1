//! Figures of responses, reductions and calls, without content.

use std::time::Duration;

use plimsoll::plan::SummaryOrigin;
use plimsoll::{Plan, Receipt, ReceiptId, Tokens, Usage};
use serde::{Deserialize, Serialize};

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CallStatus {
    /// The tool succeeded.
    Completed,
    /// The tool failed, or the input was invalid.
    Failed,
    /// The call was denied.
    Denied,
    /// The run was cancelled.
    Cancelled,
}

/// Tokens of one or more responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct UsageFigures {
    /// Input that was neither read from nor written to the cache.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Reasoning.
    pub reasoning: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_write: u64,
}

impl UsageFigures {
    /// Adds the usage of a response.
    pub fn add(&mut self, usage: &Usage) {
        self.add_figures(&UsageFigures::from(usage));
    }

    /// Adds other figures.
    pub fn add_figures(&mut self, other: &UsageFigures) {
        let UsageFigures { input, output, reasoning, cache_read, cache_write } = *other;
        self.input = self.input.saturating_add(input);
        self.output = self.output.saturating_add(output);
        self.reasoning = self.reasoning.saturating_add(reasoning);
        self.cache_read = self.cache_read.saturating_add(cache_read);
        self.cache_write = self.cache_write.saturating_add(cache_write);
    }

    /// Returns the total.
    pub fn total(&self) -> u64 {
        [self.input, self.output, self.reasoning, self.cache_read, self.cache_write]
            .iter()
            .fold(0, |sum: u64, next| sum.saturating_add(*next))
    }
}

impl From<&Usage> for UsageFigures {
    fn from(usage: &Usage) -> UsageFigures {
        UsageFigures {
            input: usage.input.0,
            output: usage.output.0,
            reasoning: usage.reasoning.0,
            cache_read: usage.cache_read.0,
            cache_write: usage.cache_write.0,
        }
    }
}

/// Figures of a receipt, without content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptFigures {
    /// ID of the receipt.
    pub receipt: ReceiptId,
    /// Kind of the reduction.
    pub kind: ReductionKind,
    /// Number of affected outputs, messages or other parts.
    pub items: u64,
    /// Whether the removed content can be recalled. False for a truncated output if the policy does not spill.
    pub kept: bool,
    /// Whether the removed content should have been stored and was not; `reason` explains it.
    pub lost: bool,
    /// Whether the summary was made without a model.
    pub without_model: bool,
    /// Tokens before.
    pub before: Tokens,
    /// Tokens after.
    pub after: Tokens,
    /// Reason for the reduction.
    pub reason: String,
}

/// Kind of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ReductionKind {
    /// Layer 1 truncated an output.
    Truncate,
    /// Layer 2 cleared old outputs.
    Prune,
    /// Layer 3 replaced older messages by a summary.
    Compact,
    /// The last rungs of the ladder.
    Shed,
    /// Any other reduction with a receipt.
    Other,
}

impl ReductionKind {
    /// Returns the name for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            ReductionKind::Truncate => "truncate",
            ReductionKind::Prune => "prune",
            ReductionKind::Compact => "compact",
            ReductionKind::Shed => "shed",
            ReductionKind::Other => "other",
        }
    }
}

impl From<&Receipt> for ReceiptFigures {
    fn from(receipt: &Receipt) -> ReceiptFigures {
        let (kind, items) = match &receipt.plan {
            Plan::Truncate(_) => (ReductionKind::Truncate, 1),
            Plan::Prune(plan) => (ReductionKind::Prune, plan.items.len() as u64),
            Plan::Compact(plan) => (ReductionKind::Compact, plan.messages),
            Plan::Range(plan) => (ReductionKind::Compact, plan.messages),
            Plan::Shed(_) => (ReductionKind::Shed, receipt.plan.effects().len() as u64),
            Plan::Fork(_) | Plan::Pin(_) | Plan::Edit(_) | Plan::Purge(_) => (ReductionKind::Other, 0),
        };
        ReceiptFigures {
            receipt: receipt.id.clone(),
            kind,
            items,
            kept: kind != ReductionKind::Truncate || !receipt.handles.is_empty(),
            lost: receipt.handles.is_empty()
                && matches!(&receipt.plan, Plan::Truncate(plan) if plan.may_spill),
            without_model: matches!(&receipt.plan, Plan::Compact(plan) if plan.made == SummaryOrigin::WithoutModel),
            before: receipt.before,
            after: receipt.after,
            reason: receipt.reason.clone(),
        }
    }
}

/// Returns a duration in whole milliseconds.
pub(crate) fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
