//! Shapes of tokens: a known text followed by runs of characters.
//!
//! Typed runs instead of regular expressions: the table of services is checked by the compiler, needs no start-up
//! time for a hundred small automata, and a shape can only be matched in one way, from left to right, so that no
//! input makes it slow.

/// A set of ASCII characters that tokens are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// `0-9`
    Digit,
    /// `0-9a-fA-F`
    Hex,
    /// `A-Z0-9`
    Upper,
    /// `a-z0-9`
    Lower,
    /// `A-Za-z0-9`
    Alnum,
    /// `A-Za-z0-9_-`
    Word,
    /// `A-Za-z0-9_.~=-`
    Dotted,
    /// `A-Za-z0-9+/=`
    Standard64,
    /// `A-Za-z0-9+/=_-`, both alphabets of base64
    Base64,
    /// Everything a path of a URL is made of.
    Path,
}

impl Set {
    pub(crate) fn has(self, byte: u8) -> bool {
        match self {
            Set::Digit => byte.is_ascii_digit(),
            Set::Hex => byte.is_ascii_hexdigit(),
            Set::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Set::Lower => byte.is_ascii_lowercase() || byte.is_ascii_digit(),
            Set::Alnum => byte.is_ascii_alphanumeric(),
            Set::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Set::Dotted => Set::Word.has(byte) || matches!(byte, b'.' | b'~' | b'='),
            Set::Standard64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='),
            Set::Base64 => Set::Word.has(byte) || matches!(byte, b'+' | b'/' | b'='),
            Set::Path => Set::Base64.has(byte) || matches!(byte, b'.' | b'@' | b'%' | b'?' | b'&'),
        }
    }
}

/// One piece of a shape.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// From the first to the second number of characters of a set, as many as there are.
    Run(Set, usize, usize),
    /// This very text.
    Text(&'static str),
    /// Eight, four, four, four and twelve hexadecimal digits.
    Uuid,
    /// The token ends here: no letter, digit or underscore follows.
    Edge,
}

/// At least this many.
pub(crate) const fn run(set: Set, least: usize) -> Part {
    Part::Run(set, least, usize::MAX)
}

/// Exactly this many.
pub(crate) const fn exact(set: Set, length: usize) -> Part {
    Part::Run(set, length, length)
}

/// Where the shape ends, if it stands at `at`.
pub(crate) fn match_at(parts: &[Part], bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at;
    for part in parts {
        let rest = bytes.get(at..)?;
        at += match *part {
            Part::Run(set, least, most) => {
                let length = rest.iter().take(most).take_while(|byte| set.has(**byte)).count();
                (length >= least).then_some(length)?
            }
            Part::Text(text) => rest.starts_with(text.as_bytes()).then_some(text.len())?,
            Part::Uuid => is_uuid(rest).then_some(36)?,
            Part::Edge => rest.first().is_none_or(|byte| !is_word(*byte)).then_some(0)?,
        };
    }
    Some(at)
}

fn is_uuid(bytes: &[u8]) -> bool {
    bytes.len() >= 36
        && bytes.iter().take(36).enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Letters, digits and the underscore of ASCII.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a token may begin at `at`: no letter or digit stands before it, unless that ends an escape such as the
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
