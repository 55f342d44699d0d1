//! The fewest tokens that a text can have, whatever the vocabulary.
//!
//! Two facts make this bound. Vocabularies split a text at white space first, so words that are apart are different tokens. And the
//! longest tokens have 128 bytes: runs of spaces or of the same character. White space itself may cost next to nothing.

use crate::tokens::Tokens;
use crate::work;

/// Weight of a byte in a word; a byte that repeats the one before it weighs a quarter of that.
const BYTE: u64 = 4;
const REPEATED_BYTE: u64 = 1;
/// Weight of a token: 64 different bytes, or 256 of a kind.
const TOKEN: u64 = 64 * BYTE;
/// Number of words that count as one token. One would be enough for all vocabularies in use, but research has some
/// with tokens of two words.
const WORDS: u64 = 2;

/// Inverse of the maximum share of bytes outside ASCII. Above it, vocabularies differ too much.
const FOREIGN: u64 = 10;

/// Lower bound of the tokens of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LowerBound {
    /// Fewest tokens in any vocabulary.
    pub(crate) tokens: Tokens,
    /// Whether nearly all of the text is ASCII. Vocabularies count such text alike; rare scripts differ by a factor of ten.
    pub(crate) is_ascii: bool,
}

/// Returns the lower bound for a text. Linear in its length.
pub(crate) fn of_text(text: &str) -> LowerBound {
    let (mut words, mut weight, mut before, mut foreign) = (0, 0, b' ', 0);
    for &byte in work::read(text).as_bytes() {
        foreign += u64::from(!byte.is_ascii());
        if byte.is_ascii_whitespace() {
            words += of_word(weight);
            weight = 0;
        } else {
            weight += if byte == before { REPEATED_BYTE } else { BYTE };
        }
        before = byte;
    }
    let tokens = Tokens((words + of_word(weight)) / WORDS);
    LowerBound { tokens, is_ascii: foreign * FOREIGN <= text.len() as u64 }
}

fn of_word(weight: u64) -> u64 {
    if weight == 0 { 0 } else { (weight / TOKEN).max(1) }
}

#[cfg(test)]
mod tests {
    use super::LowerBound;
    use crate::tokens::Tokens;

    fn of_text(text: &str) -> Tokens {
        super::of_text(text).tokens
    }

    #[test]
    fn text_with_a_few_accents_is_ascii_and_other_scripts_are_not() {
        let is_ascii = |text: &str| {
            let LowerBound { is_ascii, .. } = super::of_text(text);
            is_ascii
        };
        assert!(
            is_ascii("")
                && is_ascii("fn main() {}")
                && is_ascii("Die Prüfung der Werte läuft in der Nacht am Bahnhof")
        );
        assert!(!is_ascii("проверка") && !is_ascii("\u{1780}\u{17b6} ok"));
    }

    #[test]
    fn words_and_bytes_make_the_floor() {
        assert_eq!(of_text(""), Tokens(0));
        assert_eq!(of_text("one two three four"), Tokens(2));
        assert_eq!(of_text(&"the quick brown fox ".repeat(100)), Tokens(200));
        // Base64 without a line break has a token for every few bytes.
        let base64: String = (0..6_400).map(|n| char::from(b"ABCDEFGHIJKLMNOP"[n * 7 % 16])).collect();
        assert_eq!(of_text(&base64), Tokens(50));
    }

    #[test]
    fn white_space_and_repeated_characters_cost_next_to_nothing() {
        assert_eq!(of_text(&" ".repeat(100_000)), Tokens(0));
        assert_eq!(of_text(&"\n\t".repeat(100_000)), Tokens(0));
        assert!(of_text(&"=".repeat(100_000)) < Tokens(100_000 / 256));
    }
}
