//! Formatting of usage and cost.

use plimsoll::Tokens;
use plimsoll_agent::tasks::Spend;
use plimsoll_host::dollars;

/// Decimals for costs that may be small.
pub(crate) const SMALL: usize = 4;

/// Formats charged tokens by kind: input, output, reasoning, read from and written to the cache.
pub(crate) fn usage_text([input, output, reasoning, cache_read, cache_write]: [u64; 5]) -> String {
    let parts = [
        ("input", input),
        ("output", output),
        ("reasoning", reasoning),
        ("cache read", cache_read),
        ("cache write", cache_write),
    ];
    let counted = parts.iter().filter(|(_, tokens)| *tokens > 0);
    counted.map(|(name, tokens)| format!("{name} {}", Tokens(*tokens))).collect::<Vec<_>>().join(", ")
}

/// Formats a cost after a prefix; empty if it is zero.
pub(crate) fn cost_after(before: &str, cost: f64) -> String {
    if cost > 0.0 { format!("{before}{}", dollars(cost, SMALL)) } else { String::new() }
}

/// Formats the usage and cost of tasks.
pub(crate) fn spend_text(spend: &Spend) -> String {
    format!("{} tokens{}", Tokens(spend.usage.total()), cost_after(", ", spend.cost))
}
