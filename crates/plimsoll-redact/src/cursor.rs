//! Reads a text from a position: spaces, quotes, values.

use std::ops::Range;

use memchr::memchr2;

/// Maximum length of a word that is judged. Longer words are not ordinary, and hostile texts consist of long words.
const LONGEST_WORD: usize = 512;

/// Maximum distance of a closing quote.
const LONGEST_QUOTED: usize = 16 * 1024;

/// Maximum number of spaces between a name and its value.
const MAX_SPACES: usize = 24;

/// Quote marks that are written in several characters, and how each closes.
const WRITTEN_QUOTES: [(&str, &str); 9] = [
    ("&quot;", "&quot;"),
    ("&#34;", "&#34;"),
    ("&#39;", "&#39;"),
    ("&apos;", "&apos;"),
    ("\\u0022", "\\u0022"),
    ("\\u0027", "\\u0027"),
    ("%22", "%22"),
    ("“", "”"),
    ("‘", "’"),
];

/// An opening quote mark. Each level of JSON in JSON adds a backslash before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quote {
    /// The mark and the backslashes before it.
    Mark(u8, usize),
    /// Closing text of a mark that is written in several characters.
    Written(&'static str),
}

/// The content of a pair of quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quoted {
    pub(crate) range: Range<usize>,
    /// Whether the closing quote was found. It is missing if the text is truncated.
    pub(crate) closed: bool,
}

/// A place in a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'t> {
    text: &'t str,
    pub(crate) at: usize,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str, at: usize) -> Cursor<'t> {
        Cursor { text, at }
    }

    pub(crate) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips `expected` if it is next.
    pub(crate) fn eat(&mut self, expected: &str) -> bool {
        let stands = self.rest().starts_with(expected);
        if stands {
            self.at += expected.len();
        }
        stands
    }

    /// Skips spaces and tabs and returns their number.
    pub(crate) fn skip_spaces(&mut self) -> usize {
        let bytes = self.rest().as_bytes();
        let spaces = bytes.iter().take(MAX_SPACES).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        self.at += spaces;
        spaces
    }

    /// Skips a quote mark.
    pub(crate) fn quote(&mut self) -> Option<Quote> {
        let rest = self.rest();
        let escapes = rest.bytes().take(16).take_while(|byte| *byte == b'\\').count();
        if let Some(mark @ (b'"' | b'\'' | b'`')) = rest.as_bytes().get(escapes) {
            self.at += escapes + 1;
            return Some(Quote::Mark(*mark, escapes));
        }
        let (open, close) = WRITTEN_QUOTES.iter().find(|(open, _)| rest.starts_with(open))?;
        self.at += open.len();
        Some(Quote::Written(close))
    }

    /// Reads up to the closing `quote` on the same line, and skips it.
    pub(crate) fn quoted(&mut self, quote: Quote) -> Quoted {
        let start = self.at;
        let (length, after) = match quote {
            Quote::Written(close) => {
                let line = self.line(LONGEST_WORD);
                line.find(close).map_or((line.len(), None), |end| (end, Some(close.len())))
            }
            Quote::Mark(mark, escapes) => self.closing(mark, escapes),
        };
        self.at = start + length + after.unwrap_or(0);
        Quoted { range: start..start + length, closed: after.is_some() }
    }

    fn closing(&self, mark: u8, escapes: usize) -> (usize, Option<usize>) {
        let rest = self.rest();
        let mut backslashes = 0;
        for (at, byte) in rest.bytes().take(LONGEST_QUOTED).enumerate() {
            if byte == b'\n' {
                return (at, None);
            }
            if byte == b'\\' {
                backslashes += 1;
                continue;
            }
            // A mark inside the value has more backslashes before it than the enclosing ones.
            if byte == mark && (backslashes <= escapes || (escapes == 0 && backslashes % 2 == 0)) {
                let own = if escapes == 0 { 0 } else { backslashes };
                return (at - own, Some(own + 1));
            }
            backslashes = 0;
        }
        (self.line(LONGEST_QUOTED).len(), None)
    }

    /// Extends `judged` to the end of its word if the word was too long to be judged as a whole.
    pub(crate) fn whole(&self, judged: Range<usize>) -> Range<usize> {
        if judged.len() + 4 < LONGEST_WORD {
            return judged;
        }
        let rest = self.text.as_bytes().get(judged.end..).unwrap_or_default();
        let more =
            rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_-+/=.~%".contains(byte)).count();
        judged.start..judged.end + more
    }

    /// The rest of the line, but no more than about `most` bytes of it.
    pub(crate) fn line(&self, most: usize) -> &'t str {
        let rest = self.rest();
        let mut end = most.min(rest.len());
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let near = &rest[..end];
        memchr2(b'\n', b'\r', near.as_bytes()).map_or(near, |end| &near[..end])
    }

    /// The word that begins here: everything up to white space, a quote, or the two characters `\n` that strings
    /// write for it, without trailing punctuation.
    pub(crate) fn word(&self, stops: fn(&str, usize) -> bool) -> Range<usize> {
        let line = self.line(LONGEST_WORD);
        let bytes = line.as_bytes();
        let ends = |at: usize| {
            let Some(c) = line.get(at..).and_then(|rest| rest.chars().next()) else { return false };
            let is_escape = c == '\\'
                && matches!(bytes.get(at + 1), Some(b'n' | b'r' | b't' | b'"' | b'\'' | b'\\' | b'`') | None);
            is_escape
                || c.is_whitespace()
                || matches!(c, '"' | '\'' | '`' | '“' | '”' | '。' | '，')
                || stops(line, at)
        };
        // Most characters do not end a word, so they are not decoded.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"=_-./+(:@%!$*".contains(&byte);
        let end = (0..bytes.len()).find(|at| !is_plain(bytes[*at]) && ends(*at)).unwrap_or(bytes.len());
        let whole = &line[..end];
        let word = whole.trim_end_matches(['.', ',', ';', ':']);
        // Three dots belong to the word: they show that it was shortened.
        let word = if whole[word.len()..].contains("...") { whole } else { unwrap_brackets(word) };
        self.at..self.at + word.len()
    }
}

/// Returns at most `most` bytes of the text before `at`. The bound keeps many names on one long line cheap.
pub(crate) fn near_before(text: &str, at: usize, most: usize) -> &str {
    let mut from = at.saturating_sub(most);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text.get(from..at).unwrap_or_default()
}

/// `word` without the closing brackets at its end that were opened before it.
fn unwrap_brackets(word: &str) -> &str {
    let mut word = word;
    for (open, close) in [('(', ')'), ('[', ']'), ('{', '}'), ('<', '>')] {
        while word.ends_with(close) && word.matches(open).count() < word.matches(close).count() {
            word = word[..word.len() - 1].trim_end_matches(['.', ',', ';', ':']);
        }
    }
    word
}

/// For [`Cursor::word`]: only white space and quotes end a word.
pub(crate) fn never(_: &str, _: usize) -> bool {
    false
}

/// For [`Cursor::word`]: what ends a value between others, as in `a=1;b=2`, `a=1&b=2`, `f(a=1, b=2)` and `a=1 | cmd`.
pub(crate) fn between_others(line: &str, at: usize) -> bool {
    let bytes = line.as_bytes();
    match bytes[at] {
        b';' => true,
        b'&' | b',' | b'|' => {
            let rest = &line[at + 1..];
            let name = rest.trim_start_matches(['&', '|', '#']);
            let length = name
                .bytes()
                .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
                .count();
            let is_pair = length > 0 && matches!(name.as_bytes().get(length), Some(b'=' | b':'));
            is_pair
                || rest.is_empty()
                || rest.starts_with([' ', '\t', '&', '|', '"', '\'', '\\'])
                || name.starts_with("amp;")
        }
        b')' | b'}' | b']' => {
            let open = [(b')', b'('), (b'}', b'{'), (b']', b'[')]
                .iter()
                .find(|(close, _)| *close == bytes[at])
                .map(|(_, open)| *open);
            !bytes[..at].iter().any(|byte| Some(*byte) == open)
        }
        b'<' => bytes.get(at + 1).is_some_and(|byte| *byte == b'/' || byte.is_ascii_alphabetic()),
        _ => false,
    }
}
