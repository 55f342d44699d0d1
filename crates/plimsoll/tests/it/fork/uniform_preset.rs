//! The preset with one limit for all results.

use super::*;

fn uniform() -> ForkPolicy {
    ForkPolicy::uniform()
}

#[test]
fn r75_long_results_are_cut_to_1500_with_the_original_length() {
    let digest = fork(&read_results(1, 2_000), &uniform());
    let expected =
        format!("[Tool result]\n[Tool result truncated - original 2000 chars]\n{}...", "x".repeat(1_500));
    assert!(digest.context.contains(&expected));
    assert_eq!(digest.stats.truncated_results, 1);
}

#[test]
fn r76_short_results_stay() {
    let digest = fork(&read_results(1, 1_500), &uniform());
    assert_eq!(result_lengths(&digest.context), [1_500]);
    assert_eq!(digest.stats.truncated_results, 0);
}

#[test]
fn r77_over_100000_tokens_the_oldest_are_removed() {
    let log = (0..50).fold(History::new(), |h, n| h.user(format!("{n:02}{}", "x".repeat(9_998)))).messages();
    let digest = fork(&log, &uniform());
    assert!(digest.stats.total_chars <= Chars(400_000));
    assert!(digest.stats.removed_messages > 0 && !digest.context.contains("\n00x"));
    assert!(digest.context.contains("\n49x"));
}

#[test]
fn the_preamble_of_the_uniform_preset_states_its_limit() {
    let digest = fork(&[read_results(2, 2_000), read_results(1, 5)].concat(), &uniform());
    assert!(digest.preamble.contains("- Tool results: 1 full, 2 truncated to 1500 chars\n"));
}
