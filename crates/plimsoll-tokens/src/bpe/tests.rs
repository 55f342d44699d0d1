//! Compares pieces and counts with `bpe-openai`, which compiles the expressions and decodes the tables.

use std::path::{Path, PathBuf};

use bpe_openai::Tokenizer;
use plimsoll::Counter;
use proptest::prelude::*;

use super::Bpe;
use super::split::{Pattern, Pieces};

fn both() -> [(Bpe, Pattern, &'static Tokenizer); 2] {
    [
        (Bpe::O200k, Pattern::O200k, bpe_openai::o200k_base()),
        (Bpe::Cl100k, Pattern::Cl100k, bpe_openai::cl100k_base()),
    ]
}

fn check(text: &str) {
    for (bpe, pattern, reference) in both() {
        let pieces = Pieces::new(pattern, text);
        // Pieces are compared first: two wrong cuts can give the right number of tokens.
        if let Some((piece, expected)) =
            pieces.zip(reference.split(text)).find(|(piece, expected)| piece != expected)
        {
            panic!("{bpe:?}: piece {piece:?}, expected {expected:?} in {text:?}");
        }
        assert_eq!(bpe.count(text).0, reference.count(text) as u64, "{bpe:?}: {text:?}");
    }
}

#[test]
fn every_code_point_is_split_and_counted_as_by_bpe_openai() {
    for block in 0..0x11_0000 / 256 {
        // Most of planes 4 to 16 is unassigned: the ends of each block are enough there.
        let step = if block < 0x400 || (0xe00..0xe02).contains(&block) { 1 } else { 255 };
        let points = (block * 256..(block + 1) * 256).step_by(step).filter_map(char::from_u32);
        // Between letters of either case, digits, symbols and spaces, where its class matters.
        let text: String = points.map(|c| format!("{c} {c}a{c}B{c}1{c}.{c}\n{c}{c}'s ")).collect();
        check(&text);
    }
}

#[test]
fn texts_of_the_repository_are_counted_as_by_bpe_openai() {
    fn texts(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
            if path.is_dir() {
                texts(&path, found);
            } else if ["md", "rs", "json", "jsonl", "toml", "txt"].contains(&kind) {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for directory in ["docs", "examples", "fuzz/seeds", "crates/plimsoll-formats", "crates/plimsoll-tokens"] {
        texts(&root.join(directory), &mut found);
    }
    assert!(found.len() > 50, "{found:?}");
    for path in found {
        if let Ok(text) = std::fs::read_to_string(&path) {
            check(&text);
        }
    }
}

#[test]
fn pieces_longer_than_a_window_are_counted_as_by_bpe_openai() {
    let units = [
        " ",
        "\n",
        "\t",
        "\u{a0}",
        "a",
        "A",
        "中",
        "-",
        "=",
        "/",
        "#",
        "👨‍👩‍👧‍👦",
        "\u{301}",
        "aA",
        "ACGT",
        "-=",
        "é",
        "\0",
        "abcdefghijklmnopqrstuvwxyz",
    ];
    for unit in units {
        for length in [16_383, 16_384, 16_385, 50_000] {
            check(&unit.repeat(length / unit.len() + 1));
        }
    }
    // Nothing repeats, and any letter can follow any other.
    let mut seed = 7u64;
    let letters = |alphabet: &str, seed: &mut u64| -> String {
        let alphabet: Vec<char> = alphabet.chars().collect();
        (0..40_000)
            .map(|_| {
                *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                alphabet[(*seed >> 33) as usize % alphabet.len()]
            })
            .collect()
    };
    for alphabet in [
        "abcdefghijklmnopqrstuvwxyz",
        "aeinrst",
        "ab",
        "-=*#_/.,",
        " \t\u{a0}\u{2003}",
        "のはをがに中国人的",
        "\n\r ",
    ] {
        check(&letters(alphabet, &mut seed));
    }
}

proptest! {
    #[test]
    fn properties_any_text_is_counted_as_by_bpe_openai(text in any::<String>()) {
        check(&text);
    }

    /// Few kinds of characters, so that corner cases of the expressions are frequent.
    #[test]
    fn properties_dense_texts_are_counted_as_by_bpe_openai(
        text in "([ \t\n\r\u{a0}\u{2028}]|[aAzZsSlLeE]|[ǅʰ中あ\u{17f}]|[\u{301}\u{903}]|['’/.(]|[0-9٣Ⅷ½]|'(s|S|ll|LL|lL|re|VE|\u{17f}|l|r)|[🚢\0\u{200d}\u{e000}]){0,60}"
    ) {
        check(&text);
    }

    #[test]
    fn properties_runs_are_counted_as_by_bpe_openai(
        runs in prop::collection::vec(("[ \n\t\r]|[a-zA-Z]|[-=*/#.]|[中\u{301}é]|[0-9]", 1usize..300), 1..12)
    ) {
        let text: String = runs.iter().map(|(unit, times)| unit.repeat(*times)).collect();
        check(&text);
    }
}
