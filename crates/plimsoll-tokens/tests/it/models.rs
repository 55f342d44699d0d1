//! The table of models.

use plimsoll::{Limits, Millis, Tokens, Usage};
use plimsoll_tokens::{CacheRule, KnownFacts, LongPromptPrice, ModelOverride, ModelPrice, ModelTable};
use rstest::rstest;

#[test]
fn every_row_is_consistent() {
    for (name, facts) in ModelTable::default().rows() {
        let (limits, price) = (facts.limits, facts.price);
        assert!(limits.output > Tokens(0) && limits.output < limits.context, "{name}");
        assert!(limits.context >= Tokens(100_000) && limits.context <= Tokens(2_000_000), "{name}");
        let sum = limits.input.map(|input| input + limits.output);
        assert!(sum.is_none_or(|sum| sum <= limits.context), "{name}: input and output do not fit");
        assert!(0.0 < price.cache_read && price.cache_read < price.input, "{name}");
        assert!(price.input <= price.cache_write && price.cache_write <= 1.25 * price.input, "{name}");
        assert!(price.cache_write_hour.is_none_or(|hour| hour > price.cache_write), "{name}");
        assert!(price.input < price.output && price.output <= 150.0, "{name}");
        assert_eq!(facts.cache.breakpoints, name.starts_with("claude-"), "{name}");
        assert!(facts.cache.min_tokens >= 1_024, "{name}");
        // A row is found by its own name, which is in the form in which names are compared.
        assert!(!name.contains('.') && name == name.to_ascii_lowercase(), "{name}");
        assert_eq!(ModelTable::default().find(name).and_then(|found| found.limits), Some(limits), "{name}");
    }
}

#[rstest]
#[case("claude-opus-4-20250514", Some(15.0))]
#[case("anthropic/claude-opus-4-1-20250805", Some(15.0))]
#[case("claude-opus-4-5", Some(5.0))]
#[case("openrouter/anthropic/claude-sonnet-4.5", Some(3.0))]
#[case("us.anthropic.claude-haiku-4-5-20251001-v1:0", Some(1.0))]
#[case("claude-sonnet-4@20250514", Some(3.0))]
#[case("Claude-Sonnet-4-0", Some(3.0))]
#[case("gpt-5-2025-08-07", Some(1.25))]
#[case("gpt-5-mini", Some(0.25))]
#[case("gpt-5.1-codex", Some(1.25))]
#[case("openai/gpt-4o-mini-2024-07-18", Some(0.15))]
#[case("gemini-2.5-pro-preview-06-05", Some(1.25))]
#[case("gpt-5.9", None)]
#[case("gpt-5-turbo", None)]
#[case("claude-opus-4-99", None)]
#[case("claude-opus-5", Some(5.0))]
#[case("claude-opus-5-5", Some(4.0))]
#[case("claude-opus-9", None)]
#[case("gpt-5.2-codex", Some(1.75))]
#[case("openai/gpt-5.1-codex-max", Some(1.25))]
#[case("gpt-5.1-codex-max-xhigh", Some(1.25))]
#[case("claude-opus-4-5-thinking", Some(5.0))]
#[case("google/claude-sonnet-4-5-thinking-32k", Some(3.0))]
#[case("anthropic/claude-opus-4.8-fast", Some(10.0))]
#[case("claude-haiku-5-5", Some(0.1))]
#[case("glm-4.7", Some(0.6))]
#[case("gpt-5.1-codex-maximal", None)]
#[case("o33", None)]
#[case("smollm2:135m", None)]
#[case("", None)]
fn a_model_is_found_by_its_name_and_no_other_by_a_part_of_it(
    #[case] model: &str,
    #[case] input: Option<f64>,
) {
    let price = ModelTable::default().find(model).and_then(|facts| facts.price);
    assert_eq!(price.map(|price| price.input), input);
}

#[test]
fn configuration_overrides_the_table() {
    let mut table = ModelTable::default();
    let limits = Limits::new(1_000_000, 64_000);
    table.set("claude-sonnet-4-5", ModelOverride { limits: Some(limits), ..ModelOverride::default() });
    table.set(
        "local/Own:7b",
        ModelOverride { limits: Some(Limits::new(8_192, 0)), ..ModelOverride::default() },
    );
    let sonnet = table.find("anthropic/claude-sonnet-4-5").unwrap();
    assert_eq!((sonnet.limits, sonnet.price.map(|price| price.input)), (Some(limits), Some(3.0)));
    let own = KnownFacts { limits: Some(Limits::new(8_192, 0)), ..KnownFacts::default() };
    assert_eq!((table.find("local/own:7b"), table.find("other/own:7b")), (Some(own), None));
    let written =
        r#"{ "limits": { "context": 9, "output": 1 }, "cache": { "breakpoints": false, "minTokens": 1 } }"#;
    let read: ModelOverride = serde_json::from_str(written).unwrap();
    assert_eq!(read.cache, Some(CacheRule { breakpoints: false, min_tokens: 1 }));
    assert!(serde_json::from_str::<ModelOverride>(r#"{ "limit": {} }"#).is_err());
}

#[test]
fn a_cost_counts_each_token_once() {
    let price = ModelPrice {
        input: 3.0,
        output: 15.0,
        cache_read: 0.3,
        cache_write: 3.75,
        cache_write_hour: Some(6.0),
        long_prompt: Some(LongPromptPrice { above: 200_000, input: 2.0, output: 1.5 }),
    };
    let mut usage = Usage::new(Tokens(1_000), Tokens(100));
    (usage.cache_read, usage.cache_write) = (Tokens(100_000), Tokens(2_000));
    usage.reasoning = Tokens(900);
    assert!((price.cost(&usage) - (0.003 + 0.03 + 0.0075 + 0.015)).abs() < 1e-12);
    usage.cache_write_hour = Tokens(1_500);
    assert!(
        (price.cost(&usage) - (0.003 + 0.03 + 0.001_875 + 0.009 + 0.015)).abs() < 1e-12,
        "an hour costs more"
    );
    usage.cache_read = Tokens(300_000);
    assert!(
        (price.cost(&usage) - (2.0 * (0.003 + 0.09 + 0.010_875) + 1.5 * 0.015)).abs() < 1e-12,
        "a long prompt too"
    );
    let most = Usage::new(Tokens(u64::MAX), Tokens(u64::MAX));
    assert!(ModelPrice { input: f64::MAX, ..price }.cost(&most).is_finite());
}

#[test]
fn a_session_is_priced_as_its_model_was_at_the_time() {
    let table = ModelTable::default();
    let july = Some(Millis(1_783_700_000_000));
    let at = |model: &str, at| {
        table.price_at(model, at).map(|price| (price.input, price.cache_read, price.output))
    };
    assert_eq!(at("openai/gpt-5.6-sol", july), Some((5.0, 0.5, 30.0)));
    assert_eq!(at("gpt-5.6-sol", None), Some((4.0, 0.4, 20.0)));
    assert_eq!(at("gpt-5.6-luna-high", july), Some((1.0, 0.1, 6.0)));
    assert_eq!(at("gpt-5.6-luna", Some(Millis(1_785_369_600_000))), Some((0.2, 0.02, 1.2)));
    assert_eq!(at("gpt-5.5", july), at("gpt-5.5", None), "it was never changed");
    let mut own = ModelTable::default();
    let price = ModelPrice { input: 9.0, ..table.price_at("gpt-5.6-sol", None).unwrap() };
    own.set("gpt-5.6-sol", ModelOverride { price: Some(price), ..ModelOverride::default() });
    assert_eq!(own.price_at("gpt-5.6-sol", july), Some(price), "what is configured holds at all times");
}

/// Listed models can be requested: each name is one of its provider's, and is found in the table.
#[test]
fn names_are_those_of_the_providers() {
    let table = ModelTable::default();
    let names: Vec<String> = table.names().collect();
    for name in [
        "gpt-4.1",
        "gpt-4.1-mini",
        "gpt-4o",
        "gpt-5-mini",
        "gpt-5.1-codex",
        "gemini-2.5-pro",
        "o3-mini",
        "claude-opus-4-1",
    ] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    for name in ["gpt-4-1", "gpt-5-1-codex", "claude-3-haiku", "claude-opus-4"] {
        assert!(!names.iter().any(|known| known == name), "{name}");
    }
    assert!(names.iter().all(|name| table.find(name).is_some()));
}
