//! The fork pipeline: boundary, tiers, budget and format, preamble, and all of it together.

mod preamble_and_whole;
mod sized_to_a_child;
mod stage_1_boundary;
mod stage_2_tiers;
mod stage_3_budget_and_format;
mod to_the_letter;
mod uniform_preset;

use plimsoll::fork::{ForkStats, Slice, TierDistribution, TruncatedBy, fork, preamble, slice};
use plimsoll::{Chars, ForkPolicy, Message, Policy, ToolState};
use plimsoll_testkit::History;
use rstest::rstest;
use serde_json::json;

/// The document to the letter.
fn tiered() -> ForkPolicy {
    ForkPolicy::tiered()
}

/// The default.
fn fitted() -> ForkPolicy {
    ForkPolicy::fitted()
}

fn read_results(count: usize, chars: usize) -> Vec<Message> {
    results("read", count, chars)
}

fn results(tool: &str, count: usize, chars: usize) -> Vec<Message> {
    let history = (0..count).fold(History::new(), |history, _| history.tool(tool, "x".repeat(chars)));
    history.messages()
}

/// Lengths of the results in a digest, oldest first.
fn result_lengths(context: &str) -> Vec<u64> {
    let body = context.strip_suffix("\n</inherited_context>").unwrap();
    let results = body.split("[Tool result]\n").skip(1);
    results.map(|result| Chars::of(result.split("\nAgent:").next().unwrap()).0).collect()
}

fn texts(slice: &Slice<'_>) -> Vec<String> {
    slice.messages.iter().map(|message| message.text()).collect()
}
