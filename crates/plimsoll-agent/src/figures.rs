//! Figures of responses, reductions and calls, without content.

use std::time::Duration;

use plimsoll::receipt::Made;
use plimsoll::{Plan, Receipt, ReceiptId, Tokens, Usage};
use serde::{Deserialize, Serialize};

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CallStatus {
    /// The tool has answered.
    Completed,
    /// The tool has failed, or the call made no sense.
    Failed,
    /// It was not allowed.
    Denied,
    /// The run was cancelled.
    Cancelled,
}

/// Tokens of one response or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageFigures {
    /// Input that had nothing to do with the cache.
    pub input: u64,
    /// Answers.
    pub output: u64,
    /// Thoughts.
    pub reasoning: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_write: u64,
}

impl UsageFigures {
    /// Add the figures of one response.
    pub fn add(&mut self, usage: &Usage) {
        self.add_figures(&UsageFigures::from(usage));
    }

    /// Add other figures.
    pub fn add_figures(&mut self, other: &UsageFigures) {
        let UsageFigures { input, output, reasoning, cache_read, cache_write } = *other;
        self.input = self.input.saturating_add(input);
        self.output = self.output.saturating_add(output);
        self.reasoning = self.reasoning.saturating_add(reasoning);
        self.cache_read = self.cache_read.saturating_add(cache_read);
        self.cache_write = self.cache_write.saturating_add(cache_write);
    }

    /// All of them together.
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

/// The figures of a receipt, without content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptFigures {
    /// The receipt, by which it can be looked at and undone.
    pub receipt: ReceiptId,
    /// What was done.
    pub kind: ReductionKind,
    /// How many outputs, messages or other parts of the conversation it concerns.
    pub items: u64,
    /// Whether what left the window can be brought back; not so of an output that was cut where nothing is spilled.
    pub kept: bool,
    /// Whether what left the window should have been kept and could not be; `reason` says why.
    pub lost: bool,
    /// Whether a summary was made without a model.
    pub without_model: bool,
    /// Tokens before.
    pub before: Tokens,
    /// Tokens after.
    pub after: Tokens,
    /// Why.
    pub reason: String,
}

/// What a reduction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ReductionKind {
    /// Layer 1 cut an output.
    Truncate,
    /// Layer 2 cleared old outputs.
    Prune,
    /// Layer 3 put a summary in the place of older messages.
    Compact,
    /// The last rungs of the ladder.
    Shed,
    /// Anything else that has a receipt.
    Other,
}

impl ReductionKind {
    /// Its name in logs and metrics.
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
            Plan::Fork(_) | Plan::Pin(_) | Plan::Purge(_) => (ReductionKind::Other, 0),
        };
        ReceiptFigures {
            receipt: receipt.id.clone(),
            kind,
            items,
            kept: kind != ReductionKind::Truncate || !receipt.handles.is_empty(),
            lost: receipt.handles.is_empty()
                && matches!(&receipt.plan, Plan::Truncate(plan) if plan.may_spill),
            without_model: matches!(&receipt.plan, Plan::Compact(plan) if plan.made == Made::WithoutModel),
            before: receipt.before,
            after: receipt.after,
            reason: receipt.reason.clone(),
        }
    }
}

/// A length of time in whole milliseconds.
pub(crate) fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
