//! The pre-tokenisers: where a text is cut before pairs of bytes are merged.
//!
//! Each vocabulary has a regular expression for this. The first alternative that matches at a position wins, and is
//! greedy:
//!
//! ```text
//! cl100k  (?i:'s|'t|'re|'ve|'m|'ll|'d)
//!         [^\r\n\p{L}\p{N}]?\p{L}+
//!         \p{N}{1,3}
//!          ?[^\s\p{L}\p{N}]+[\r\n]*
//!         \s*[\r\n]+ | \s+(?!\S) | \s+
//!
//! o200k   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//!         [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//!         \p{N}{1,3}
//!          ?[^\s\p{L}\p{N}]+[\r\n/]*
//!         \s*[\r\n]+ | \s+(?!\S) | \s+
//! ```
//!
//! The scanner below returns the same pieces. It reads each character at most twice and needs no table but the classes.

use super::classes::Class;

/// The expression to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Cl100k,
    O200k,
}

/// The pieces of a text, in order and without gaps.
pub(super) struct Pieces<'a> {
    pattern: Pattern,
    text: &'a str,
    at: usize,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(pattern: Pattern, text: &'a str) -> Pieces<'a> {
        Pieces { pattern, text, at: 0 }
    }

    /// The class of the character at a position, and the next position; `None` at the end.
    #[inline]
    fn class(&self, at: usize) -> Option<(Class, usize)> {
        let byte = *self.text.as_bytes().get(at)?;
        if let Some(class) = Class::of_ascii(byte) {
            return Some((class, at + 1));
        }
        let c = self.text.get(at..)?.chars().next()?;
        Some((Class::of(c), at + c.len_utf8()))
    }

    fn is(&self, at: usize, byte: u8) -> bool {
        self.text.as_bytes().get(at) == Some(&byte)
    }

    /// The end of a run of characters of a kind.
    #[inline]
    fn run(&self, mut at: usize, is: impl Fn(Class) -> bool) -> usize {
        while let Some((class, next)) = self.class(at)
            && is(class)
        {
            at = next;
        }
        at
    }

    /// The end of the piece that starts at `start` with a character of a class.
    fn end(&self, start: usize, class: Class, next: usize) -> usize {
        let word = match self.pattern {
            Pattern::Cl100k => self.plain_word(start, class, next),
            Pattern::O200k => self.cased_word(start, class, next),
        };
        if let Some(end) = word {
            return end;
        }
        match class {
            Class::Number => self.number(next),
            Class::Newline => self.blank(start),
            Class::Space => {
                let symbols = if self.is(start, b' ') { self.symbols(next) } else { None };
                symbols.unwrap_or_else(|| self.blank(start))
            }
            _ => self.symbols(start).unwrap_or(next),
        }
    }

    fn plain_word(&self, start: usize, class: Class, next: usize) -> Option<usize> {
        if let Some(end) = self.contraction(start) {
            return Some(end);
        }
        let first = if class.may_lead() { next } else { start };
        let end = self.run(first, Class::is_letter);
        (end > first).then_some(end)
    }

    fn cased_word(&self, start: usize, class: Class, next: usize) -> Option<usize> {
        let leads = class.may_lead();
        let first = if leads { next } else { start };
        let mut upper = first;
        // The end of the last character that could also end the lower-case part.
        let mut caseless = None;
        while let Some((class, next)) = self.class(upper)
            && class.is_upper()
        {
            upper = next;
            if class.is_lower() {
                caseless = Some(next);
            }
        }
        let lower = self.run(upper, Class::is_lower);
        let end = if lower > upper {
            lower
        } else if let Some(end) = caseless {
            end
        } else if class == Class::Mark {
            // The first expression matches a single mark before the second may take it as the start of capitals.
            next
        } else if upper > first {
            upper
        } else {
            return None;
        };
        Some(self.contraction(end).unwrap_or(end))
    }

    /// The end of `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` or `'d` in any case. The long s counts as an s.
    fn contraction(&self, at: usize) -> Option<usize> {
        if !self.is(at, b'\'') {
            return None;
        }
        match self.text.as_bytes().get(at + 1..)? {
            [b's' | b'S' | b't' | b'T' | b'm' | b'M' | b'd' | b'D', ..] => Some(at + 2),
            [b'r' | b'R' | b'v' | b'V', b'e' | b'E', ..] | [b'l' | b'L', b'l' | b'L', ..] => Some(at + 3),
            [0xc5, 0xbf, ..] => Some(at + 3),
            _ => None,
        }
    }

    /// One to three digits, the first of which ends at `next`.
    fn number(&self, next: usize) -> usize {
        let mut end = next;
        for _ in 0..2 {
            match self.class(end) {
                Some((Class::Number, next)) => end = next,
                _ => break,
            }
        }
        end
    }

    fn symbols(&self, start: usize) -> Option<usize> {
        let mut end = self.run(start, Class::is_symbol);
        if end == start {
            return None;
        }
        let slash = self.pattern == Pattern::O200k;
        while let Some(b'\r' | b'\n' | b'/') = self.text.as_bytes().get(end)
            && (slash || !self.is(end, b'/'))
        {
            end += 1;
        }
        Some(end)
    }

    /// White space up to its last newline. Without a newline, all of it at the end of the text, and elsewhere all but
    /// its last character, which belongs to the next piece.
    fn blank(&self, start: usize) -> usize {
        let (mut end, mut last, mut newline) = (start, start, None);
        while let Some((class, next)) = self.class(end)
            && class.is_space()
        {
            last = end;
            end = next;
            if class == Class::Newline {
                newline = Some(next);
            }
        }
        match newline {
            Some(newline) => newline,
            None if end == self.text.len() || last == start => end,
            None => last,
        }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let start = self.at;
        let (class, next) = self.class(start)?;
        self.at = self.end(start, class, next);
        self.text.get(start..self.at)
    }
}
