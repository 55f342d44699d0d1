//! Usage in each provider's convention.

use plimsoll::{Tokens, Usage};
use plimsoll_providers::{anthropic, chat, responses};
use rstest::rstest;
use serde_json::{Value, json};

/// Returns input, output, reasoning, cache reads, cache writes and total.
fn counts(usage: Option<Usage>) -> Option<[u64; 6]> {
    usage.map(|u| {
        [u.input, u.output, u.reasoning, u.cache_read, u.cache_write, u.total.unwrap_or(Tokens(0))]
            .map(|t| t.0)
    })
}

#[rstest]
#[case::outside(json!({ "input_tokens": 12, "output_tokens": 30, "cache_read_input_tokens": 1000,
    "cache_creation_input_tokens": 200, "cache_creation": { "ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 0 },
    "service_tier": "standard" }), Some([12, 30, 0, 1000, 200, 0]))]
#[case::only_by_ttl(json!({ "input_tokens": 1, "output_tokens": 1,
    "cache_creation": { "ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4 } }), Some([1, 1, 0, 0, 7, 0]))]
#[case::no_cache(json!({ "input_tokens": 5, "output_tokens": 6 }), Some([5, 6, 0, 0, 0, 0]))]
#[case::nulls(json!({ "input_tokens": 5, "output_tokens": null, "cache_read_input_tokens": null }), Some([5, 0, 0, 0, 0, 0]))]
#[case::all_cached(json!({ "input_tokens": 0, "cache_read_input_tokens": 9, "output_tokens": 1 }), Some([0, 1, 0, 9, 0, 0]))]
#[case::only_output(json!({ "output_tokens": 6 }), None)]
#[case::odd_numbers(json!({ "input_tokens": 5.0, "output_tokens": -1 }), Some([5, 0, 0, 0, 0, 0]))]
#[case::nothing(json!({}), None)]
fn anthropic_counts_the_cache_outside_of_the_input(#[case] usage: Value, #[case] expected: Option<[u64; 6]>) {
    let usage: anthropic::wire::Usage = serde_json::from_value(usage).unwrap();
    assert_eq!(counts(usage.normalise()), expected);
}

#[rstest]
#[case::inside(json!({ "prompt_tokens": 1200, "completion_tokens": 300, "total_tokens": 1500,
    "prompt_tokens_details": { "cached_tokens": 1000, "cache_write_tokens": 150, "audio_tokens": 0 },
    "completion_tokens_details": { "reasoning_tokens": 200 } }), Some([50, 100, 200, 1000, 150, 1500]))]
#[case::plain(json!({ "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10 }), Some([7, 3, 0, 0, 0, 10]))]
#[case::deepseek(json!({ "prompt_tokens": 100, "completion_tokens": 3, "total_tokens": 103,
    "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36 }), Some([36, 3, 0, 64, 0, 103]))]
#[case::reasoning_beside(json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115,
    "completion_tokens_details": { "reasoning_tokens": 100 } }), Some([10, 5, 100, 0, 0, 115]))]
#[case::reasoning_beside_but_less(json!({ "prompt_tokens": 10, "completion_tokens": 50, "total_tokens": 80,
    "completion_tokens_details": { "reasoning_tokens": 20 } }), Some([10, 50, 20, 0, 0, 80]))]
#[case::more_cached_than_sent(json!({ "prompt_tokens": 10, "completion_tokens": 1,
    "prompt_tokens_details": { "cached_tokens": 99 } }), Some([0, 1, 0, 10, 0, 0]))]
#[case::no_prompt(json!({ "completion_tokens": 3, "total_tokens": 10 }), Some([7, 3, 0, 0, 0, 10]))]
#[case::zeros(json!({ "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0 }), None)]
#[case::nulls(json!({ "prompt_tokens": null, "prompt_tokens_details": null }), None)]
#[case::huge(json!({ "prompt_tokens": u64::MAX, "completion_tokens": u64::MAX }), Some([u64::MAX, u64::MAX, 0, 0, 0, 0]))]
fn openai_counts_the_cache_and_reasoning_inside(#[case] usage: Value, #[case] expected: Option<[u64; 6]>) {
    let usage: chat::wire::Usage = serde_json::from_value(usage).unwrap();
    assert_eq!(counts(usage.normalise()), expected);
}

#[test]
fn responses_has_other_names_for_the_same_counts() {
    let usage: responses::wire::Usage = serde_json::from_value(json!({
        "input_tokens": 1200, "output_tokens": 300, "total_tokens": 1500,
        "input_tokens_details": { "cached_tokens": 1000, "cache_write_tokens": 100 },
        "output_tokens_details": { "reasoning_tokens": 250 } }))
    .unwrap();
    assert_eq!(counts(usage.normalise()), Some([100, 50, 250, 1000, 100, 1500]));
}
