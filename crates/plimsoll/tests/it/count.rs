//! Estimates and their cache.

use plimsoll::{
    CharCounter, Chars, Counter, Memo, Part, Policy, Preset, RequestOverhead, Rounding, Text, Tokens, Window,
    message_tokens, part_tokens, request_tokens,
};
use plimsoll_testkit::History;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

#[rstest]
#[case("128000", Some(128_000))]
#[case("128k", Some(128_000))]
#[case("128K", Some(128_000))]
#[case("1m", Some(1_000_000))]
#[case("1.5M", Some(1_500_000))]
#[case("0.5k", Some(500))]
#[case("1,048,576", Some(1_048_576))]
#[case("200_000", Some(200_000))]
#[case(" 64k\n", Some(64_000))]
#[case("0", Some(0))]
#[case("18446744073709551615", Some(u64::MAX))]
#[case("18446744073709551616", None)]
#[case("18446744073709551615k", None)]
#[case("", None)]
#[case("k", None)]
#[case(".5k", None)]
#[case("1.k", None)]
#[case("1.5", None)]
#[case("1.0001k", None)]
#[case("1,5k", None)]
#[case("1,,000", None)]
#[case("-1", None)]
#[case("+1", None)]
#[case("1e3", None)]
#[case("128kb", None)]
#[case("128 k", None)]
#[case("12８k", None)]
fn tokens_are_parsed_in_the_form_in_which_they_are_printed(#[case] text: &str, #[case] tokens: Option<u64>) {
    assert_eq!(text.parse::<Tokens>().ok(), tokens.map(Tokens), "{text:?}");
}

#[rstest]
#[case("", 0)]
#[case("abcd", 1)]
#[case("abcde", 2)]
fn r150_tokens_are_a_quarter_of_the_chars_rounded_up(#[case] text: &str, #[case] tokens: u64) {
    assert_eq!(CharCounter::default().count(text), Tokens(tokens));
}

#[test]
fn r150_a_message_costs_four_more() {
    let message = &History::new().user("abcd").messages()[0];
    assert_eq!(message_tokens(message, &CharCounter::default()), Tokens(5));
}

#[test]
fn r150_system_prompt_and_tools_are_counted_once() {
    let counter = CharCounter::default();
    let fixed = RequestOverhead::count("12345678", ["abcd", "efgh"], &counter);
    assert_eq!((fixed.system, fixed.tools), (Tokens(2), Tokens(2)));
    let one = Window::of(&History::new().user("abcd").messages(), &Policy::default());
    let two = Window::of(&History::new().user("abcd").user("abcd").messages(), &Policy::default());
    assert_eq!(request_tokens(&one, fixed, &counter), Tokens(9));
    assert_eq!(request_tokens(&two, fixed, &counter), Tokens(14));
}

/// The guide sends each result of a step as a separate message. The other documents do not mention such an overhead.
#[test]
fn r150_openfork_counts_four_tokens_for_each_parallel_result() {
    let calls = ["a", "b", "c"].map(|tool| (tool, "abcd".to_owned()));
    let log = History::new().user("abcd").tools(&calls).messages();
    let weigh = |preset: Preset| {
        let policy = preset.policy();
        request_tokens(&Window::of(&log, &policy), RequestOverhead::default(), &policy.count)
    };
    assert_eq!(weigh(Preset::Openfork), weigh(Preset::Plimsoll) + Tokens(2 * 4));
}

#[test]
fn r151_estimates_by_kind_of_part() {
    let tokens = |part: serde_json::Value| {
        let part: Part = serde_json::from_value(part).unwrap();
        part_tokens(&part, &CharCounter::default()).0
    };
    assert_eq!(tokens(json!({ "type": "text", "text": "abcde" })), 2);
    assert_eq!(tokens(json!({ "type": "reasoning", "text": "abcd" })), 1);
    let state = json!({ "status": "completed", "input": { "a": 1 }, "output": "abcdefgh" });
    assert_eq!(tokens(json!({ "type": "tool", "callID": "c", "tool": "t", "state": state })), 2 + 2);
    assert_eq!(tokens(json!({ "type": "compaction", "summary": "abcdefghi" })), 3);
    assert_eq!(tokens(json!({ "type": "step-start", "snapshot": "abcdefgh" })), 0);
    assert_eq!(tokens(json!({ "type": "patch", "files": ["abcdefgh"] })), 0);
}

#[rstest]
#[case(Rounding::Ceil, [0, 1, 1, 1, 1, 2])]
#[case(Rounding::Round, [0, 0, 1, 1, 1, 1])]
#[case(Rounding::Floor, [0, 0, 0, 0, 1, 1])]
fn c18_rounding_modes(#[case] rounding: Rounding, #[case] expected: [u64; 6]) {
    let counter = CharCounter { rounding, ..CharCounter::default() };
    let counted: Vec<u64> = (0..6).map(|chars| counter.of_chars(Chars(chars)).0).collect();
    assert_eq!(counted, expected);
}

/// A counter that has to read the text.
struct Words;

impl Counter for Words {
    fn name(&self) -> &'static str {
        "words"
    }
    fn count(&self, text: &str) -> Tokens {
        Tokens(text.split_whitespace().count() as u64)
    }
}

#[test]
fn r159_unchanged_content_is_counted_once() {
    let counter = Memo::new(Words);
    let mut log = History::new().user("a b").tool("read", "c d e").say("f").log();
    let weigh = |log: &plimsoll::Log, counter: &Memo<Words>| {
        request_tokens(&Window::of(log, &Policy::default()), RequestOverhead::default(), counter)
    };
    let first = weigh(&log, &counter);
    let computed = counter.computed();
    assert_eq!(weigh(&log, &counter), first);
    // The tool's name is a plain string and cheap to count; texts are not counted again.
    assert_eq!(counter.computed() - computed, 1);
    log.append(plimsoll::Message::user("n".into(), "n.0".into(), "g")).unwrap();
    weigh(&log, &counter);
    assert_eq!(counter.computed() - computed, 3);
    assert_eq!(
        CharCounter::default().count_text(&Text::from("abcde")),
        Tokens(2),
        "another counter is not fooled"
    );
}

proptest! {
    #[test]
    fn properties_chars_are_utf16_units(text in "\\PC{0,200}") {
        prop_assert_eq!(Chars::of(&text), Chars(text.encode_utf16().count() as u64));
        prop_assert_eq!(Text::from(text.as_str()).chars(), Chars::of(&text));
    }

    #[test]
    fn r42_properties_head_and_tail_keep_whole_characters(text in "[a🚢é漢\n]{0,60}", limit in 0u64..80) {
        let head = plimsoll::head(&text, Chars(limit));
        let tail = plimsoll::tail(&text, Chars(limit));
        prop_assert!(text.starts_with(head) && text.ends_with(tail));
        for kept in [head, tail] {
            let missing = limit.min(Chars::of(&text).0) - Chars::of(kept).0;
            prop_assert!(missing <= 1, "{missing} chars fewer than allowed");
        }
    }

    #[test]
    fn properties_a_cut_text_is_never_longer_than_its_limit(text in "[a🚢\n]{0,400}", limit in 0u64..300, share in 0.1f64..1.0) {
        let cut = plimsoll::cut_middle(&Text::from(text), Chars(limit), share);
        prop_assert!(cut.chars() <= Chars(limit));
    }
}
