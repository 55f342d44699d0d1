//! Passwords on command lines, given by a short option or a position.

use std::ops::Range;

use crate::cookie::cookie_pairs;
use crate::cursor::Cursor;
use crate::table::Command;
use crate::value::is_placeholder;

/// Maximum length of a command line.
const LONGEST_LINE: usize = 600;

/// A word of a command line.
struct Word<'t> {
    text: &'t str,
    start: usize,
    /// No space separates this word from the one before, as in `-p'X'`.
    is_glued: bool,
}

impl Word<'_> {
    /// The last `length` bytes.
    fn last(&self, length: usize) -> Range<usize> {
        let end = self.start + self.text.len();
        end - length..end
    }
}

/// Returns the passwords given to the program at `name` and the end of its command line, or `None` if `name` is not a
/// program.
pub(crate) fn passwords(
    text: &str,
    name: Range<usize>,
    command: &Command,
) -> Option<(Vec<Range<usize>>, usize)> {
    let before = name.start.checked_sub(1).and_then(|at| text.as_bytes().get(at));
    let begins =
        before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'-' | b'.'));
    if !begins {
        return None;
    }
    let (words, end) = split_line(text, name.end);
    if command.verb.is_some_and(|verb| words.iter().all(|word| word.text != verb)) {
        return Some((Vec::new(), end));
    }
    let secrets = (0..words.len()).flat_map(|at| command.ways.iter().map(move |way| (*way, at)));
    let secrets = secrets
        .filter_map(|(way, at)| password(way, &words, at))
        .filter(|secret| is_password_argument(&text[secret.clone()]));
    // `curl -b` takes cookies, or the name of a file that has them.
    let is_curl = command.programs.contains(&"curl");
    let cookies = words
        .windows(2)
        .filter(|pair| is_curl && pair[0].text == "-b" && pair[1].text.contains('='))
        .flat_map(|pair| cookie_pairs(text, pair[1].start).0);
    Some((secrets.chain(cookies).collect(), end))
}

/// Returns the password that the word at index `at` introduces: attached to an option (`-p#`), as the next word (`-p #`),
/// after a user (`-u user:#`), or as the second word after a verb (`add_user user #`).
fn password(way: &str, words: &[Word<'_>], at: usize) -> Option<Range<usize>> {
    let word = words.get(at)?;
    let next = words.get(at + 1);
    let whole = |word: &Word<'_>| word.last(word.text.len());
    let (flag, value) = way.split_once(' ').unwrap_or((way.trim_end_matches('#'), ""));
    let attached = word.text.strip_prefix(flag)?;
    match value {
        "" if attached.is_empty() => next.filter(|next| next.is_glued).map(whole),
        "" => Some(word.last(attached.len())),
        "#" if attached.is_empty() => next.map(whole),
        "user #" if attached.is_empty() => words.get(at + 2).map(whole),
        "#" | "user #" => None,
        _ => {
            let mark = value.strip_prefix("user")?.chars().next()?;
            let (pair, word) = match attached {
                "" => (next?.text, next?),
                _ if flag.starts_with("--") => (attached.strip_prefix('=')?, word),
                _ => (attached, word),
            };
            Some(word.last(pair.split_once(mark)?.1.len()))
        }
    }
}

/// Whether a value can be a password argument. Digits can, unless they are a port or a pair of ids.
fn is_password_argument(value: &str) -> bool {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    value.len() >= 2 && !value.starts_with(['-', '/', ')', ']']) && (is_number || !is_placeholder(value))
}

/// Splits the command line that continues at `start` into words and returns its end: an unescaped end of line, a pipe
/// or the next command.
fn split_line(text: &str, start: usize) -> (Vec<Word<'_>>, usize) {
    let bytes = text.as_bytes();
    let most = (start + LONGEST_LINE).min(bytes.len());
    let mut words = Vec::new();
    let mut at = start;
    let mut last_end = start;
    while at < most {
        let rest = &bytes[at..most];
        // In strings a line ends with the two characters `\n`, and an escaped one with `\\\n`.
        let escaped_end =
            [&b"\\\n"[..], b"\\\r\n", b"\\\\\\n", b"\\\\n"].into_iter().find(|end| rest.starts_with(end));
        if let Some(end) = escaped_end {
            at += end.len();
            continue;
        }
        match rest[0] {
            b' ' | b'\t' => {
                at += 1;
                continue;
            }
            b'\n' | b'\r' | b'|' | b';' | b'&' | b')' | b'`' => break,
            b'\\' if matches!(rest.get(1), Some(b'n' | b'r')) => break,
            _ => {}
        }
        let mut cursor = Cursor::new(text, at);
        let is_glued = at == last_end;
        let range = match cursor.quote() {
            Some(quote) => {
                let quoted = cursor.quoted(quote);
                at = cursor.at;
                quoted.range
            }
            None => {
                let length = rest.iter().position(|byte| ends_word(*byte)).unwrap_or(rest.len());
                let length = if length == 0 { 1 } else { length };
                at += length;
                at - length..at
            }
        };
        last_end = at;
        if let Some(text) = text.get(range.clone()) {
            words.push(Word { text, start: range.start, is_glued });
        }
    }
    (words, at.max(start))
}

fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'|' | b';' | b'\\' | b')')
}
