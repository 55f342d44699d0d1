//! Counters of the `metrics` crate. They cost next to nothing unless the host installs a recorder.
//!
//! | name | counts |
//! |---|---|
//! | [`TRUNCATIONS`], [`PRUNINGS`], [`COMPACTIONS`], [`SHEDDINGS`] | reductions |
//! | [`BYTES_TRUNCATED`], [`TOKENS_PRUNED`], [`TOKENS_COMPACTED`] | content that they removed from the window |
//! | [`SPILL_FILES`], [`SPILL_BYTES`] | outputs that were stored when they were truncated |
//! | [`REQUESTS`], [`RETRIES`], [`REFUSALS`] | requests to models |
//! | [`TOKENS_IN`], [`TOKENS_OUT`], [`TOKENS_CACHED`], [`TOKENS_WRITTEN`], [`COST`] | their usage and cost |
//! | [`LATENCY`] | seconds from a request to the end of its answer |
//! | [`TOOL_CALLS`] | tool calls, by tool and status |
//! | [`FORKS`], [`FORKS_CUT`], [`FORK_TOKENS`] | tasks with their parent's context, by kind of fork; those that the budget cut; the size of that context |

use std::ops::AddAssign;
use std::time::Duration;

use metrics::{counter, describe_counter, gauge, histogram};
use plimsoll::plan::{CompactPlan, RangePlan};
use plimsoll::{Plan, Receipt, Usage};
use serde::Serialize;

use crate::figures::{CallStatus, ReceiptFigures};
use crate::task::{ForkReceipt, ForkWay};

/// Truncated outputs.
pub const TRUNCATIONS: &str = "plimsoll_truncations_total";
/// Prunings.
pub const PRUNINGS: &str = "plimsoll_prunings_total";
/// Compactions.
pub const COMPACTIONS: &str = "plimsoll_compactions_total";
/// Sheddings.
pub const SHEDDINGS: &str = "plimsoll_sheddings_total";
/// Bytes of outputs that the window does not show.
pub const BYTES_TRUNCATED: &str = "plimsoll_truncated_bytes_total";
/// Tokens that prunings freed.
pub const TOKENS_PRUNED: &str = "plimsoll_pruned_tokens_total";
/// Tokens of messages that summaries replaced.
pub const TOKENS_COMPACTED: &str = "plimsoll_compacted_tokens_total";
/// Outputs that were stored when they were truncated.
pub const SPILL_FILES: &str = "plimsoll_spill_files_total";
/// Size of those outputs.
pub const SPILL_BYTES: &str = "plimsoll_spill_bytes_total";
/// Answered requests.
pub const REQUESTS: &str = "plimsoll_requests_total";
/// Retried requests.
pub const RETRIES: &str = "plimsoll_retries_total";
/// Requests that the provider rejected as too long.
pub const REFUSALS: &str = "plimsoll_refusals_total";
/// Input that was neither read from nor written to a cache.
pub const TOKENS_IN: &str = "plimsoll_input_tokens_total";
/// Output, including reasoning.
pub const TOKENS_OUT: &str = "plimsoll_output_tokens_total";
/// Input read from a cache.
pub const TOKENS_CACHED: &str = "plimsoll_cache_read_tokens_total";
/// Input written to a cache.
pub const TOKENS_WRITTEN: &str = "plimsoll_cache_write_tokens_total";
/// Dollars, as far as prices are known.
pub const COST: &str = "plimsoll_cost_dollars";
/// Seconds from a request to the end of its answer.
pub const LATENCY: &str = "plimsoll_answer_seconds";
/// Tool calls.
pub const TOOL_CALLS: &str = "plimsoll_tool_calls_total";

/// Tasks with their parent's context.
pub const FORKS: &str = "plimsoll_forks_total";
/// Tasks whose inherited context was cut by the budget.
pub const FORKS_CUT: &str = "plimsoll_forks_cut_total";
/// Size of that context, in tokens.
pub const FORK_TOKENS: &str = "plimsoll_fork_tokens";

/// Describes the counters of reductions to the recorder and sets them to zero, so that they are shown before anything
/// is reduced.
pub fn describe() {
    const MEANINGS: [&str; 8] = [
        "Truncated outputs.",
        "Prunings of the window.",
        "Compactions.",
        "Bytes of outputs that the window does not show.",
        "Tokens that prunings freed.",
        "Tokens of messages that summaries replaced.",
        "Outputs that were stored when they were truncated.",
        "Bytes of those outputs.",
    ];
    for ((name, _), meaning) in TokenMetrics::default().counters().into_iter().zip(MEANINGS) {
        describe_counter!(name, meaning);
        counter!(name).increment(0);
    }
}

/// Counts and logs a reduction, without content. Runs do it themselves; hosts that reduce between runs call it.
pub fn reduced(receipt: &Receipt) {
    let figures = ReceiptFigures::from(receipt);
    tracing::info!(
        kind = figures.kind.name(),
        receipt = %figures.receipt,
        policy = %receipt.policy,
        before = figures.before.0,
        after = figures.after.0,
        "reduced the window"
    );
    let figures = TokenMetrics::of(receipt);
    for (name, count) in figures.counters() {
        if count > 0 {
            counter!(name).increment(count);
        }
    }
    if matches!(receipt.plan, Plan::Shed(_)) {
        counter!(SHEDDINGS).increment(1);
    }
}

/// Figures of the token management guide, of a run or of one reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TokenMetrics {
    /// Truncated outputs.
    pub total_truncations: u64,
    /// Prunings of the window.
    pub total_prunings: u64,
    /// Compactions.
    pub total_compactions: u64,
    /// Bytes of outputs that the window does not show.
    pub bytes_truncated: u64,
    /// Tokens that prunings freed.
    pub tokens_pruned: u64,
    /// Tokens of messages that summaries replace.
    pub tokens_compacted: u64,
    /// Outputs that were stored when they were truncated.
    pub spill_files_created: u64,
    /// Bytes of those outputs.
    pub spill_bytes_written: u64,
}

impl TokenMetrics {
    /// Returns the figures of one reduction.
    pub fn of(receipt: &Receipt) -> TokenMetrics {
        let mut figures = TokenMetrics::default();
        match &receipt.plan {
            Plan::Truncate(plan) => {
                figures.total_truncations = 1;
                figures.bytes_truncated = plan.original_bytes.saturating_sub(plan.kept_bytes);
                if !plimsoll_store::handles(receipt).is_empty() {
                    (figures.spill_files_created, figures.spill_bytes_written) = (1, plan.original_bytes);
                }
            }
            Plan::Prune(plan) => {
                (figures.total_prunings, figures.tokens_pruned) = (1, plan.freed_tokens.0);
            }
            Plan::Compact(CompactPlan { tokens, .. }) | Plan::Range(RangePlan { tokens, .. }) => {
                (figures.total_compactions, figures.tokens_compacted) = (1, tokens.0);
            }
            _ => {}
        }
        figures
    }

    /// Returns whether nothing was reduced.
    pub fn is_empty(&self) -> bool {
        *self == TokenMetrics::default()
    }

    fn counters(&self) -> [(&'static str, u64); 8] {
        [
            (TRUNCATIONS, self.total_truncations),
            (PRUNINGS, self.total_prunings),
            (COMPACTIONS, self.total_compactions),
            (BYTES_TRUNCATED, self.bytes_truncated),
            (TOKENS_PRUNED, self.tokens_pruned),
            (TOKENS_COMPACTED, self.tokens_compacted),
            (SPILL_FILES, self.spill_files_created),
            (SPILL_BYTES, self.spill_bytes_written),
        ]
    }
}

impl AddAssign for TokenMetrics {
    fn add_assign(&mut self, more: TokenMetrics) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.total_truncations, more.total_truncations);
        add(&mut self.total_prunings, more.total_prunings);
        add(&mut self.total_compactions, more.total_compactions);
        add(&mut self.bytes_truncated, more.bytes_truncated);
        add(&mut self.tokens_pruned, more.tokens_pruned);
        add(&mut self.tokens_compacted, more.tokens_compacted);
        add(&mut self.spill_files_created, more.spill_files_created);
        add(&mut self.spill_bytes_written, more.spill_bytes_written);
    }
}

/// Counts an answer.
pub(crate) fn answered(model: &str, usage: Option<&Usage>, cost: Option<f64>, latency: Duration) {
    let label = || [("model", model.to_owned())];
    counter!(REQUESTS, &label()).increment(1);
    histogram!(LATENCY, &label()).record(latency.as_secs_f64());
    if let Some(usage) = usage {
        counter!(TOKENS_IN, &label()).increment(usage.input.0);
        counter!(TOKENS_OUT, &label()).increment(usage.output.0.saturating_add(usage.reasoning.0));
        counter!(TOKENS_CACHED, &label()).increment(usage.cache_read.0);
        counter!(TOKENS_WRITTEN, &label()).increment(usage.cache_write.0);
    }
    if let Some(cost) = cost {
        gauge!(COST, &label()).increment(cost);
    }
}

/// Counts a retry.
pub(crate) fn retried(model: &str) {
    counter!(RETRIES, "model" => model.to_owned()).increment(1);
}

/// Counts a request that was rejected as too long.
pub(crate) fn refused(model: &str) {
    counter!(REFUSALS, "model" => model.to_owned()).increment(1);
}

/// Counts a tool call. Names come from the model and may be anything, so only known tools are named.
pub(crate) fn called(tool: Option<&str>, status: CallStatus) {
    let status = match status {
        CallStatus::Completed => "completed",
        CallStatus::Failed => "failed",
        CallStatus::Denied => "denied",
        CallStatus::Cancelled => "cancelled",
    };
    counter!(TOOL_CALLS, "tool" => tool.unwrap_or("unknown").to_owned(), "status" => status).increment(1);
}

/// Counts a fork.
pub(crate) fn forked(receipt: &ForkReceipt) {
    let way = match receipt.way {
        ForkWay::Nothing => "nothing",
        ForkWay::Digest => "digest",
        ForkWay::History => "history",
    };
    counter!(FORKS, "way" => way).increment(1);
    if receipt.was_cut() {
        counter!(FORKS_CUT, "way" => way).increment(1);
    }
    if let Some(tokens) = receipt.tokens {
        histogram!(FORK_TOKENS, "way" => way).record(tokens as f64);
    }
}
