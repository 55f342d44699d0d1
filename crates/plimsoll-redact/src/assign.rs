//! Values of things named like secrets: `password=…`, `"api_key": "…"`, `<password>…</password>`, `--token …`,
//! `the password is …`.
//!
//! Written by hand and not as patterns, because what counts as a value depends on everything around the name: quotes
//! and how often they are escaped, spaces, brackets, whether it is code, a configuration, a command or a sentence.
//! This file finds the name and what links it to a value; [`crate::forms`] knows the links of special notations and
//! [`crate::judge`] decides about the value.

use std::ops::Range;

use crate::cursor::{Cursor, Quote, between_others, near_before};
use crate::names::{Name, classify};

/// Longer identifiers name nothing that a person reads.
const LONGEST_NAME: usize = 80;

/// The identifier around a keyword, and what stands before it.
pub(crate) struct Named<'t> {
    pub(crate) text: &'t str,
    /// Without the dashes of an option.
    pub(crate) name: &'t str,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) class: Name,
    pub(crate) is_option: bool,
    /// A parameter of a URL.
    pub(crate) is_parameter: bool,
    /// The byte before the name and its dashes.
    pub(crate) before: Option<u8>,
}

/// The secret that the name around a keyword gives away. `done` is how far names were looked at; it moves on.
pub(crate) fn secret(text: &str, keyword: Range<usize>, done: &mut usize) -> Option<Range<usize>> {
    if keyword.start < *done {
        return None;
    }
    let bytes = text.as_bytes();
    let length_before =
        bytes[*done..keyword.start].iter().rev().take_while(|byte| is_name_byte(**byte)).count();
    let length_after = bytes[keyword.end..].iter().take_while(|byte| is_name_byte(**byte)).count();
    let whole = keyword.start - length_before..keyword.end + length_after;
    *done = whole.end;
    if whole.len() > LONGEST_NAME {
        return None;
    }
    let value = Named::new(text, whole, &keyword)?.value()?;
    let value = Cursor::new(text, value.start).whole(value);
    // What is replaced needs no second look.
    *done = value.end.max(*done);
    Some(value)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Whether a separator, a quote, a tag's end, white space or a bracket follows.
fn may_follow(bytes: &[u8], end: usize) -> bool {
    bytes.get(end).is_some_and(|byte| *byte >= 0x80 || b"=:\"'`\\ \t\n\r>(*&%?!|".contains(byte))
}

/// `API key`, `Secret Access Key`: the one word before belongs to the name.
fn with_word_before(text: &str, start: usize, end: usize) -> (usize, &str) {
    let near = near_before(text, start, 20);
    let before = near.trim_end_matches(' ');
    let word = before.bytes().rev().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let from = if near.len() == before.len() + 1 && word > 0 { start - 1 - word } else { start };
    (from, &text[from..end])
}

/// What stands between a name and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// `name=value`, `name := value`, with spaces or without.
    Equals { spaced: bool },
    /// `name: value`.
    Colon,
    /// `'name' => 'value'`.
    Arrow,
    /// `"name", "value"`.
    Comma,
    /// `name is value`, `name -> value`.
    Is,
    /// `name || "value"`: what is taken where nothing else is given.
    Or,
    /// `name%3Dvalue`: as a part of a URL.
    Encoded,
    /// `name("value")`.
    Call,
    /// `name = wrap("value")`.
    Wrapped,
    /// `| name | value |`.
    Cell,
    /// `name value`.
    Space,
}

impl<'t> Named<'t> {
    /// The name in `whole`, a run of characters that names are made of, around a keyword.
    fn new(text: &'t str, whole: Range<usize>, keyword: &Range<usize>) -> Option<Named<'t>> {
        let bytes = text.as_bytes();
        let byte_before = |at: usize| at.checked_sub(1).and_then(|at| bytes.get(at)).copied();
        let mut start = whole.start;
        // The `n` of the two characters `\n`, and the digits of `%26`, belong to what stands before the name.
        match byte_before(start) {
            Some(b'\\') if matches!(bytes[start], b'n' | b'r' | b't') && start < keyword.start => start += 1,
            Some(b'%') if start + 2 <= keyword.start => start += 2,
            _ => {}
        }
        let before = byte_before(start);
        let whole = &text[start..whole.end];
        let dashes = whole.len() - whole.trim_start_matches('-').len();
        let trimmed = whole.trim_start_matches(['-', '.']);
        start += whole.len() - trimmed.len();
        let name = trimmed.trim_end_matches(['-', '.']);
        let end = start + name.len();
        // Most names in a text are not followed by anything that could give them a value.
        if end < keyword.end || !may_follow(bytes, end) {
            return None;
        }
        let needs_word = name.eq_ignore_ascii_case("key") || name.eq_ignore_ascii_case("phrase");
        let (start, name) = if needs_word { with_word_before(text, start, end) } else { (start, name) };
        let is_parameter = matches!(before, Some(b'?' | b'&' | b'#')) || text[..start].ends_with("&amp;");
        let is_key = is_parameter && name.eq_ignore_ascii_case("key");
        let class = classify(name).or(is_key.then_some(Name::Weak))?;
        // A part of the name of a resource: `AWS::IAM::AccessKey`, `arn:aws:secretsmanager:…:secret:…`.
        let is_resource =
            text[..start].ends_with("::") || (before == Some(b':') && bytes.get(end) == Some(&b':'));
        let opens = before.is_none_or(|byte| byte.is_ascii_whitespace() || b"\"'`[(,n".contains(&byte));
        let is_option = (1..=2).contains(&dashes) && opens;
        (!is_resource).then_some(Named { text, name, start, end, class, is_option, is_parameter, before })
    }

    /// The value of the name, if it is a secret.
    fn value(&self) -> Option<Range<usize>> {
        let mut cursor = Cursor::new(self.text, self.end);
        let name_quote = cursor.quote();
        let special = self.element().or_else(|| self.paired(cursor)).filter(|_| self.class > Name::Faint);
        if special.is_some() {
            return special;
        }
        let link = self.link(&mut cursor, name_quote)?;
        if self.class == Name::Faint && !matches!(link, Link::Equals { .. } | Link::Colon | Link::Arrow) {
            return None;
        }
        match link {
            Link::Space => return self.after_space(cursor),
            Link::Cell => return self.cell(cursor),
            _ => {}
        }
        if near_before(self.text, self.start, 2) == "${" {
            return self.shell_default(cursor);
        }
        cursor.skip_spaces();
        if cursor.eat("**") || cursor.eat("__") {
            cursor.skip_spaces();
        }
        let link = self.skip_type(&mut cursor, link);
        if ["mnemonic", "phrase"].iter().any(|end| self.name.to_ascii_lowercase().ends_with(end)) {
            let words = self.mnemonic(cursor);
            if words.is_some() || self.class != Name::Password {
                return words;
            }
        }
        if let Some((quote, is_call)) = self.open_literal(&mut cursor) {
            let link = if is_call { Link::Wrapped } else { link };
            let quoted = cursor.quoted(quote);
            if quoted.closed {
                return self.judge_quoted(quoted.range, link, name_quote.is_some());
            }
            // The text was cut behind the word, or this is no opening quote.
            let word = Cursor::new(self.text, quoted.range.start).word(between_others);
            let is_cut = Cursor::new(self.text, word.end).line(1).is_empty();
            return if is_cut { self.judge_quoted(word, link, name_quote.is_some()) } else { None };
        }
        match link {
            Link::Call | Link::Wrapped | Link::Comma | Link::Arrow | Link::Or => None,
            Link::Encoded => self.encoded(cursor),
            Link::Is => self.judge_told(cursor),
            Link::Equals { spaced } => self.judge_equals(cursor, spaced),
            _ => self.judge_colon(cursor, name_quote.is_some()),
        }
    }

    /// Step over what links the name to a value.
    fn link(&self, cursor: &mut Cursor<'t>, name_quote: Option<Quote>) -> Option<Link> {
        if name_quote.is_some() && !cursor.eat("]") {
            cursor.eat(")");
        }
        let _ = cursor.eat("**") || cursor.eat("__");
        if name_quote.is_none() && cursor.peek() == Some(b'(') {
            cursor.at += 1;
            return Some(Link::Call);
        }
        let spaces = cursor.skip_spaces();
        let rest = cursor.rest();
        let next = rest.as_bytes().get(1).copied();
        match cursor.peek()? {
            b'=' if next == Some(b'>') => {
                cursor.at += 2;
                Some(Link::Arrow)
            }
            b'=' if matches!(next, Some(b'=' | b'~')) => None,
            b'=' => {
                cursor.at += 1;
                let spaced = spaces > 0 || matches!(next, Some(b' ' | b'\t'));
                Some(Link::Equals { spaced })
            }
            b':' if next == Some(b':') => None,
            b':' if next == Some(b'=') => {
                cursor.at += 2;
                Some(Link::Equals { spaced: true })
            }
            b':' => {
                cursor.at += 1;
                Some(Link::Colon)
            }
            b'?' | b'!' if next == Some(b':') => {
                cursor.at += 2;
                Some(Link::Colon)
            }
            // Of a list of names none is another's value.
            b',' if name_quote.is_some()
                && near_before(self.text, self.start, 8)
                    .trim_end_matches(['"', '\'', '\\', '['])
                    .ends_with('(') =>
            {
                cursor.at += 1;
                Some(Link::Comma)
            }
            b'|' | b'?' if spaces > 0 && next == cursor.peek() => {
                cursor.at += 2;
                Some(Link::Or)
            }
            b'%' => ["%3A", "%3D", "%3a", "%3d"].iter().any(|sign| cursor.eat(sign)).then_some(Link::Encoded),
            b'-' if next == Some(b'>') => {
                cursor.at += 2;
                (spaces > 0).then_some(Link::Is)
            }
            b'|' if spaces > 0 && next != Some(b'|') => {
                cursor.at += 1;
                Some(Link::Cell)
            }
            _ if cursor.eat("：") => Some(Link::Colon),
            _ if spaces > 0 && cursor.eat("→") => Some(Link::Is),
            _ if name_quote.is_none() => {
                // Something about the secret may stand in between: `password (temporary): X`, `password for db: X`.
                let mut probe = *cursor;
                if self.skip_aside(&mut probe) {
                    if probe.eat(":") {
                        *cursor = probe;
                        return Some(Link::Is);
                    }
                    probe.skip_spaces();
                    if eat_verb(&mut probe) {
                        *cursor = probe;
                        return Some(Link::Is);
                    }
                }
                if spaces > 0 && eat_verb(cursor) {
                    return Some(Link::Is);
                }
                let is_break = matches!(cursor.peek(), Some(b'\n' | b'\r'));
                (spaces > 0 || is_break).then_some(Link::Space)
            }
            _ => None,
        }
    }

    /// Step over what says whose or what kind of password it is.
    fn skip_aside(&self, cursor: &mut Cursor<'t>) -> bool {
        if self.class != Name::Password {
            return false;
        }
        if cursor.eat("(") {
            let line = cursor.line(40);
            let Some(end) = line.find(')') else { return false };
            cursor.at += end + 1;
            return true;
        }
        if !(cursor.eat_word("for") || cursor.eat_word("of") || cursor.eat_word("to")) {
            return false;
        }
        for _ in 0..4 {
            cursor.skip_spaces();
            let word = cursor
                .rest()
                .bytes()
                .take(40)
                .take_while(|b| {
                    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'@' | b'.' | b'`' | b'\'' | b'"')
                })
                .count();
            if word == 0 || matches!(&cursor.rest()[..word], "is" | "was") {
                break;
            }
            cursor.at += word;
            if cursor.peek() == Some(b':') {
                break;
            }
        }
        true
    }

    /// `name: Type = value`: step over the type.
    fn skip_type(&self, cursor: &mut Cursor<'t>, link: Link) -> Link {
        if link != Link::Colon {
            return link;
        }
        let line = cursor.line(64);
        let is_type = |byte: u8| byte.is_ascii_alphanumeric() || b"_&<>[]|?.' ".contains(&byte);
        let length = line.bytes().take_while(|byte| is_type(*byte)).count();
        let rest = &line[length..];
        let assigns = rest.starts_with('=') && !rest.starts_with("==") && !rest.starts_with("=>");
        if assigns
            && line[..length].ends_with(' ')
            && line.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'&')
        {
            cursor.at += length + 1;
            cursor.skip_spaces();
            return Link::Equals { spaced: true };
        }
        link
    }

    /// Step over the quote of a literal: with the letters before it that languages have, or inside a call such as
    /// `Some("…")` or `String::from("…")`. Also says whether it is a call.
    fn open_literal(&self, cursor: &mut Cursor<'t>) -> Option<(Quote, bool)> {
        if let Some(quote) = cursor.quote() {
            return Some((quote, false));
        }
        let rest = cursor.rest();
        let letters = rest
            .bytes()
            .take(40)
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"_:.@$#".contains(byte))
            .count();
        let mut probe = *cursor;
        probe.at += letters;
        let is_call = letters > 0 && probe.eat("(");
        if letters == 0 || (!is_call && letters > 2) {
            return None;
        }
        let quote = probe.quote()?;
        *cursor = probe;
        Some((quote, is_call))
    }
}

/// `is`, `was changed to`, `set to`: what a sentence has between a secret and its value.
fn eat_verb(cursor: &mut Cursor<'_>) -> bool {
    const VERBS: [&[&str]; 4] = [&["is", "was"], &["has", "been"], &["will", "should", "be"], &[]];
    const PARTICIPLES: [&str; 5] = ["set", "changed", "reset", "updated", "equal"];
    const ADVERBS: [&str; 5] = ["now", "currently", "still", "simply", "just"];
    let mut probe = *cursor;
    let mut eat_any =
        |words: &[&str]| words.iter().any(|word| probe.eat_word(word) && probe.skip_spaces() > 0);
    let has_verb = match VERBS.iter().find(|verbs| verbs.is_empty() || eat_any(verbs)) {
        Some([_, "been"]) => eat_any(&["been"]),
        Some([_, _, "be"]) => eat_any(&["be"]),
        Some(verbs) => !verbs.is_empty(),
        None => false,
    };
    eat_any(&ADVERBS);
    let is_set = eat_any(&PARTICIPLES) && eat_any(&["to", "as"]);
    probe.eat(":");
    if has_verb || is_set {
        *cursor = probe;
    }
    has_verb || is_set
}
