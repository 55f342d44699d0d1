//! Starts of tokens, and tokens without a clue.

use std::ops::Range;

use crate::table::TABLE;
use crate::value::is_random;

/// Letters, digits and the underscore of ASCII.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a token may begin at `at`: no letter or digit precedes it, unless it ends an escape such as the
/// `\n` of a string or the `%3D` of a URL.
pub(crate) fn is_start(bytes: &[u8], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).and_then(|at| bytes.get(at)).copied();
    match before(1) {
        Some(byte) if is_word(byte) => {
            let escape = matches!(byte, b'n' | b'r' | b't') && before(2) == Some(b'\\');
            let percent = byte.is_ascii_hexdigit()
                && before(2).is_some_and(|byte| byte.is_ascii_hexdigit())
                && before(3) == Some(b'%');
            escape || percent
        }
        _ => true,
    }
}

/// Minimum length of a token without a clue.
const SHORTEST_UNMARKED: usize = 34;

/// Returns all tokens without a clue in a text.
pub(crate) fn without_clue(text: &str) -> Vec<(&'static str, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    // Every long word contains a byte at one of these positions, so most of the text is skipped.
    while at + SHORTEST_UNMARKED <= bytes.len() {
        let probe = at + SHORTEST_UNMARKED - 1;
        if !IS_IN_LONG_WORD[usize::from(bytes[probe])] {
            at = probe + 1;
            continue;
        }
        let is_in = |byte: &&u8| IS_IN_LONG_WORD[usize::from(**byte)];
        let start = probe - bytes[at..probe].iter().rev().take_while(is_in).count();
        let end = probe + bytes[probe..].iter().take_while(is_in).count();
        if end - start >= SHORTEST_UNMARKED {
            in_long_word(text, start..end, &mut found);
        }
        at = end;
    }
    found
}

fn in_long_word(text: &str, word: Range<usize>, found: &mut Vec<(&'static str, Range<usize>)>) {
    let bytes = text.as_bytes();
    let mut at = word.start;
    while at < word.end {
        let mut next = at + 1;
        if (at == word.start || is_start(bytes, at))
            && let Some(shape) = TABLE.shape.match_at(text, at)
            && let Some(service) = TABLE.shapes.get(shape.alternative)
            && is_random(&text[shape.range.clone()])
        {
            next = shape.range.end;
            found.push((*service, shape.range));
        }
        at = next;
    }
}

/// Bytes of long words: letters, digits and joiners. A table, because every byte of a text is looked up.
static IS_IN_LONG_WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        table[byte] = c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.' | b':');
        byte += 1;
    }
    table
};
