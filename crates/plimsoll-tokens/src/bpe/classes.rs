//! Character classes of the pre-tokenisers.
//!
//! `data/classes.bin` (written by `just tables`) is a two-stage table: one byte for each block of 256 code points with
//! the number of its row, then the rows, one byte for each code point. It is used in place; regular expressions with
//! the same classes would have to be compiled at every start.

/// The class of a character, by its Unicode general category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Punctuation, symbols, control characters, unassigned code points.
    Other,
    /// `Lu` and `Lt`.
    Upper,
    /// `Ll`.
    Lower,
    /// Letters without case: `Lm` and `Lo`.
    Caseless,
    /// `M`.
    Mark,
    /// `N`.
    Number,
    /// `White_Space`, but not a newline.
    Space,
    /// `\r` and `\n`.
    Newline,
}

static TABLE: &[u8] = include_bytes!("../../data/classes.bin");

const BLOCK: usize = 256;
const BLOCKS: usize = 0x11_0000 / BLOCK;

const ASCII: [Class; 128] = {
    let mut classes = [Class::Other; 128];
    let mut at: u8 = 0;
    while at < 128 {
        classes[at as usize] = match at {
            b'\r' | b'\n' => Class::Newline,
            b'\t' | b'\x0b' | b'\x0c' | b' ' => Class::Space,
            b'0'..=b'9' => Class::Number,
            b'a'..=b'z' => Class::Lower,
            b'A'..=b'Z' => Class::Upper,
            _ => Class::Other,
        };
        at += 1;
    }
    classes
};

impl Class {
    /// The class of an ASCII character; `None` for other bytes.
    #[inline]
    pub(super) fn of_ascii(byte: u8) -> Option<Class> {
        ASCII.get(usize::from(byte)).copied()
    }

    pub(super) fn of(c: char) -> Class {
        let at = c as usize;
        let row = TABLE.get(at / BLOCK).copied().map_or(0, usize::from);
        match TABLE.get(BLOCKS + row * BLOCK + at % BLOCK) {
            Some(1) => Class::Upper,
            Some(2) => Class::Lower,
            Some(3) => Class::Caseless,
            Some(4) => Class::Mark,
            Some(5) => Class::Number,
            Some(6) => Class::Space,
            Some(7) => Class::Newline,
            _ => Class::Other,
        }
    }

    /// `\p{L}`.
    pub(super) fn is_letter(self) -> bool {
        matches!(self, Class::Upper | Class::Lower | Class::Caseless)
    }

    /// `\s`.
    pub(super) fn is_space(self) -> bool {
        matches!(self, Class::Space | Class::Newline)
    }

    /// `[^\s\p{L}\p{N}]`.
    pub(super) fn is_symbol(self) -> bool {
        matches!(self, Class::Other | Class::Mark)
    }

    /// `[^\r\n\p{L}\p{N}]`, which may precede a word.
    pub(super) fn may_lead(self) -> bool {
        matches!(self, Class::Other | Class::Mark | Class::Space)
    }

    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`.
    pub(super) fn is_upper(self) -> bool {
        matches!(self, Class::Upper | Class::Caseless | Class::Mark)
    }

    /// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`.
    pub(super) fn is_lower(self) -> bool {
        matches!(self, Class::Lower | Class::Caseless | Class::Mark)
    }
}
