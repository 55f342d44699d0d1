//! A floor for token counts: fewer tokens than this no provider can have counted for a text.
//!
//! Usage is the best figure there is for a request, and some of it is wrong: gateways report the uncached part alone, servers
//! report the last message, and a session whose window is believed to be almost empty is never reduced. An estimate cannot tell
//! wrong from unusual, because vocabularies differ by a factor of ten on rare scripts. A floor can: it is far below every real
//! count, and what is below it is not a count of this text.
//!
//! Two facts make the floor. Vocabularies split a text at white space first, so words that are apart are different tokens. And the
//! longest tokens have 128 bytes: runs of spaces or of the same character. White space itself may cost next to nothing.

use crate::count::Tokens;
use crate::log::Usage;
use crate::window::{Block, Window, WindowMessage};
use crate::work;

/// Weight of a byte in a word; a byte that repeats the one before it weighs a quarter of that.
const BYTE: u64 = 4;
const REPEATED_BYTE: u64 = 1;
/// Weight of a token: 64 different bytes, or 256 of a kind.
const TOKEN: u64 = 64 * BYTE;
/// Words that are taken for one token. One would do for all vocabularies in use; research has some with tokens of two words.
const WORDS: u64 = 2;

/// The fewest tokens that a text can have. Linear in its length.
pub(crate) fn of_text(text: &str) -> Tokens {
    let (mut words, mut weight, mut before) = (0, 0, b' ');
    for &byte in work::read(text).as_bytes() {
        if byte.is_ascii_whitespace() {
            words += of_word(weight);
            weight = 0;
        } else {
            weight += if byte == before { REPEATED_BYTE } else { BYTE };
        }
        before = byte;
    }
    Tokens((words + of_word(weight)) / WORDS)
}

fn of_word(weight: u64) -> u64 {
    if weight == 0 { 0 } else { (weight / TOKEN).max(1) }
}

/// The fewest tokens that a request with this window can have. Reasoning, files and blocks of the provider are left out:
/// providers drop them or count them in ways of their own.
pub fn of_window(window: &Window) -> Tokens {
    window.messages.iter().map(of_message).sum()
}

pub(crate) fn of_message(message: &WindowMessage) -> Tokens {
    let texts = message.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } | Block::Result { text, .. } => Some(text),
        Block::Call { input, .. } => Some(input.json()),
        Block::Reasoning { .. } | Block::Provider { .. } | Block::File { .. } => None,
    });
    texts.map(|text| text.least_tokens()).sum()
}

/// Whether usage can be that of a request with at least `least` tokens. What the cache held counts.
pub fn is_credible(usage: &Usage, least: Tokens) -> bool {
    let request = usage.input + usage.cache_read + usage.cache_write;
    request.max(usage.total.unwrap_or_default()) >= least
}

#[cfg(test)]
mod tests {
    use super::of_text;
    use crate::count::Tokens;

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
