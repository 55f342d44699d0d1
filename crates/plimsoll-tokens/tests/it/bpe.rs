//! Exact counts, including those of unusual inputs.

use plimsoll::{Counter, Memo, Text, Tokens};
use plimsoll_tokens::Bpe;
use proptest::prelude::*;
use rstest::rstest;

// From OpenAI's cookbook and from tiktoken.
#[rstest]
#[case("", 0, 0)]
#[case("hello world", 2, 2)]
#[case("tiktoken is great!", 6, 6)]
#[case("antidisestablishmentarianism", 6, 6)]
#[case("2 + 2 = 4", 7, 7)]
#[case("お誕生日おめでとう", 8, 9)]
fn counts_are_those_of_tiktoken(#[case] text: &str, #[case] o200k: u64, #[case] cl100k: u64) {
    assert_eq!((Bpe::O200k.count(text), Bpe::Cl100k.count(text)), (Tokens(o200k), Tokens(cl100k)));
}

/// These inputs make other tokenisers quadratic: each is a single piece for the pre-tokeniser, or consists of pieces
/// only. At these sizes a quadratic one would not finish. The counts follow from the longest token of each kind, for
/// instance 128 spaces, 8 times the letter a, three digits.
#[rstest]
#[case::spaces(" ", 1_000_000, 7_813, 7_813)]
#[case::newlines("\n", 1_000_000, 62_500, 31_250)]
#[case::one_letter("a", 4_000_000, 500_000, 500_000)]
#[case::one_capital("A", 4_000_000, 500_000, 500_000)]
#[case::digits("7", 1_000_000, 333_334, 333_334)]
#[case::ideographs("中", 1_000_000, 1_000_000, 1_000_000)]
#[case::ships("🚢", 250_000, 500_000, 750_000)]
#[case::combining_marks("\u{301}", 500_000, 500_000, 500_000)]
#[case::dashes("-", 200_000, 3_125, 3_125)]
#[case::tabs("\t", 200_000, 12_500, 12_500)]
fn hostile_runs_are_counted_exactly(
    #[case] unit: &str,
    #[case] times: usize,
    #[case] o200k: u64,
    #[case] cl100k: u64,
) {
    let text = unit.repeat(times);
    assert_eq!((Bpe::O200k.count(&text), Bpe::Cl100k.count(&text)), (Tokens(o200k), Tokens(cl100k)));
}

#[rstest]
#[case::spaces_before_a_word(format!("{}x", " ".repeat(1_000_000)))]
#[case::newline_then_spaces(format!("\n{}x", " ".repeat(1_000_000)))]
#[case::spaces_then_newlines((" ".repeat(1_000) + "\n").repeat(1_000))]
#[case::windows_newlines("\r\n".repeat(500_000))]
#[case::alternating_case("aA".repeat(500_000))]
#[case::both_letter_classes("AAAAAAAA中".repeat(100_000))]
#[case::apostrophes("'s".repeat(500_000))]
#[case::families("👨‍👩‍👧‍👦".repeat(40_000))]
#[case::zeroes("\0".repeat(1_000_000))]
#[case::base64("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo".repeat(30_000))]
fn hostile_mixtures_are_counted_in_bounded_time(#[case] text: String) {
    for counter in [Bpe::O200k, Bpe::Cl100k] {
        let tokens = counter.count(&text).0;
        // No token of either vocabulary is longer than 128 bytes, none is shorter than one.
        assert!((text.len() as u64 / 128..=text.len() as u64).contains(&tokens), "{tokens}");
    }
}

#[test]
fn the_name_identifies_the_vocabulary() {
    assert_eq!((Bpe::O200k.name(), Bpe::Cl100k.name()), ("o200k", "cl100k"));
}

#[rstest]
#[case("gpt-4", Bpe::Cl100k)]
#[case("gpt-4-turbo-2024-04-09", Bpe::Cl100k)]
#[case("openai/gpt-3.5-turbo", Bpe::Cl100k)]
#[case("gpt-4o", Bpe::O200k)]
#[case("gpt-4.1-mini", Bpe::O200k)]
#[case("o3", Bpe::O200k)]
#[case("someone-elses-model", Bpe::O200k)]
fn a_model_has_its_vocabulary(#[case] model: &str, #[case] expected: Bpe) {
    assert_eq!(Bpe::for_model(model), expected);
}

#[test]
fn a_memo_counts_a_text_once() {
    let counter = Memo::new(Bpe::O200k);
    let text = Text::from("let x = 1;\n".repeat(1_000));
    assert_eq!(counter.count_text(&text), counter.count_text(&text.clone()));
    assert_eq!(counter.computed(), 1);
}

proptest! {
    #[test]
    fn properties_no_text_panics_and_none_has_more_tokens_than_bytes(text in any::<String>(), times in 1usize..50) {
        let text = text.repeat(times);
        for counter in [Bpe::O200k, Bpe::Cl100k] {
            let tokens = counter.count(&text).0;
            prop_assert!(tokens <= text.len() as u64);
            prop_assert_eq!(tokens == 0, text.is_empty());
        }
    }

    /// A line that ends in a newline, before a line that starts with a letter, is cut there by both pre-tokenisers. So
    /// counts of lines add up, which they would not if anything were chopped or dropped.
    #[test]
    fn properties_counts_of_lines_add_up(lines in prop::collection::vec("[a-z][ -~]{0,40}[a-z]\n", 1..40)) {
        for counter in [Bpe::O200k, Bpe::Cl100k] {
            let sum: Tokens = lines.iter().map(|line| counter.count(line)).sum();
            prop_assert_eq!(counter.count(&lines.concat()), sum);
        }
    }
}

/// Decoding the tables took 55 ms and 64 MB before the first figure of every command.
#[test]
fn the_first_count_decodes_no_table() {
    for vocabulary in [Bpe::O200k, Bpe::Cl100k] {
        let allocated =
            allocation_counter::measure(|| assert_eq!(vocabulary.count("hello world"), Tokens(2)));
        assert!(allocated.bytes_total < 10_000, "{allocated:?}");
    }
}
