//! Notations that link a name and its value in a way of their own: elements, pairs, connection strings, options, cells
//! of tables, statements.

use std::ops::Range;

use crate::assign::Named;
use crate::command;
use crate::cursor::{Cursor, Quote, between_others, near_before, never};
use crate::judge::{LONG, SHORTEST, SHORTEST_MIXED, is_quoted_placeholder};
use crate::names::Name;
use crate::shape::Set;
use crate::values::{
    has_digit, is_code, is_identifier, is_long_path, is_mixed, is_passphrase, is_placeholder, is_prose_word,
    is_random, is_wordy,
};

/// As far as this the end of an element is looked for.
const LONGEST_ELEMENT: usize = 4096;

/// The secret behind a name in a language whose words this cannot take apart.
pub(crate) fn foreign_secret(text: &str, keyword: Range<usize>) -> Option<Range<usize>> {
    let mut cursor = Cursor::new(text, keyword.end);
    cursor.skip_spaces();
    let separators = ["：", ":", "=", "是", "为", "為", "は", "ist", "lautet", "es", "é", "est"];
    separators.iter().any(|separator| cursor.eat(separator)).then_some(())?;
    cursor.skip_spaces();
    let range = match cursor.quote() {
        Some(quote) => cursor.quoted(quote).range,
        None => cursor.word(between_others),
    };
    let value = &text[range.clone()];
    let fits =
        value.len() >= SHORTEST_MIXED && !value.contains(' ') && is_mixed(value) && !is_placeholder(value);
    fits.then_some(range)
}

/// The literal behind words that only a secret follows: `IDENTIFIED BY '…'`.
pub(crate) fn literal(text: &str, end: usize) -> Option<Range<usize>> {
    let mut cursor = Cursor::new(text, end);
    cursor.skip_spaces();
    let quote = cursor.quote()?;
    let quoted = cursor.quoted(quote);
    // In prose something is identified by a `name`.
    let before = near_before(text, end, 14);
    let is_statement = matches!(quote, Quote::Mark(b'\'', _)) || !before.ends_with("by ");
    (is_statement && quoted.closed && !is_quoted_placeholder(&text[quoted.range.clone()]))
        .then_some(quoted.range)
}

impl<'t> Named<'t> {
    /// `${PASSWORD:-X}`: what a shell takes if the variable is not set.
    pub(crate) fn shell_default(&self, mut cursor: Cursor<'t>) -> Option<Range<usize>> {
        cursor.eat("-").then_some(())?;
        let line = cursor.line(200);
        let value = &line[..line.find('}')?];
        let fits = value.len() >= SHORTEST && !is_quoted_placeholder(value) && !value.contains(' ');
        fits.then_some(cursor.at..cursor.at + value.len())
    }

    /// A field of a form in several parts: the name in a header, an empty line, the value.
    fn form_field(&self, mut cursor: Cursor<'t>) -> Option<Range<usize>> {
        near_before(self.text, self.start, 6).ends_with("name=\"").then_some(())?;
        let breaks = ["\r\n\r\n", "\n\n", "\\r\\n\\r\\n"];
        breaks.iter().any(|gap| cursor.eat(gap)).then_some(())?;
        let range = cursor.word(never);
        let value = &self.text[range.clone()];
        (value.len() >= SHORTEST && !value.starts_with("--") && !is_placeholder(value)).then_some(range)
    }

    /// `password%3DX%26…`: up to the next escape.
    pub(crate) fn encoded(&self, cursor: Cursor<'t>) -> Option<Range<usize>> {
        let rest = cursor.rest();
        let length = rest.bytes().take_while(|byte| Set::Dotted.has(*byte)).count();
        let value = &rest[..length];
        let is_sure = self.class == Name::Password || is_mixed(value);
        (length >= SHORTEST && is_sure && !is_placeholder(value)).then_some(cursor.at..cursor.at + length)
    }

    /// `name="password" value="X"`, `{"name": "DB_PASSWORD", "value": "X"}` and the same on two lines of YAML.
    pub(crate) fn paired(&self, mut cursor: Cursor<'t>) -> Option<Range<usize>> {
        if let Some(value) = self.form_field(cursor) {
            return Some(value);
        }
        let bytes = cursor.rest().as_bytes();
        let gap =
            bytes.iter().take(40).take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
        cursor.at += gap;
        if gap == 0 {
            return None;
        }
        cursor.quote();
        cursor.eat_word("value").then_some(())?;
        cursor.quote();
        cursor.skip_spaces();
        (cursor.eat(":") || cursor.eat("=")).then_some(())?;
        cursor.skip_spaces();
        let range = match cursor.quote() {
            Some(quote) => cursor.quoted(quote).range,
            None => cursor.word(between_others),
        };
        let value = &self.text[range.clone()];
        let fits = value.len() >= SHORTEST
            && !is_quoted_placeholder(value)
            && !value.contains(' ')
            && !is_prose_word(value);
        (fits && (self.class == Name::Password || is_mixed(value))).then_some(range)
    }

    /// `Password=…;` between others of its kind: up to the semicolon, spaces and all.
    pub(crate) fn connection_string(&self, cursor: Cursor<'t>, spaced: bool) -> Option<Range<usize>> {
        let before = near_before(self.text, self.start, 48).trim_end_matches(' ');
        if spaced
            || self.class <= Name::Weak
            || !before.ends_with(';')
            || before.contains('(')
            || !before.contains('=')
        {
            return None;
        }
        let line = cursor.line(256);
        let end = line.find([';', '"', '\'', '`', '\\', '<']).unwrap_or(line.len());
        let value = line[..end].trim_end();
        let fits =
            value.len() >= 2 && !is_placeholder(value) && !value.contains("->") && !value.contains('(');
        fits.then_some(cursor.at..cursor.at + value.len())
    }

    /// Options take the next word; a line of netrc too; SQL a literal; and a sentence may say `with password X`.
    pub(crate) fn after_space(&self, mut cursor: Cursor<'t>) -> Option<Range<usize>> {
        if self.name == "password"
            && let Some(value) = command::netrc(self.text, self.start..self.end)
        {
            return Some(value);
        }
        // Redis is configured without signs, and a long random word needs none.
        let is_directive = self.name == "requirepass" || self.name == "masterauth";
        let word = cursor.word(never);
        if !self.is_option && self.class != Name::Password && !is_directive {
            let value = &self.text[word.clone()];
            let fits =
                value.len() >= LONG && is_random(value) && value.bytes().all(|byte| Set::Base64.has(byte));
            return (fits && !is_placeholder(value)).then_some(word);
        }
        cursor.eat_word("by").then(|| cursor.skip_spaces());
        if matches!(cursor.peek(), Some(b'\n' | b'\r')) {
            return None;
        }
        let is_column = self.text[self.end..].starts_with("  ") || self.text[self.end..].starts_with('\t');
        let quote = cursor.quote();
        let range = match quote {
            Some(quote) => cursor.quoted(quote).range,
            None => cursor.word(never),
        };
        // OpenSSL's options say where the password comes from.
        let range =
            if self.text[range.clone()].starts_with("pass:") { range.start + 5..range.end } else { range };
        let value = &self.text[range.clone()];
        if is_placeholder(value) || value.contains(' ') || is_prose_word(value) {
            return None;
        }
        let fits = if is_directive {
            value.len() >= SHORTEST
        } else if self.is_option {
            value.len() > SHORTEST
                && !value.starts_with('-')
                && !is_code(value)
                && !is_long_path(value)
                && !value.starts_with("id=")
        } else if matches!(quote, Some(Quote::Mark(b'\'', _))) {
            value.len() >= SHORTEST
        } else {
            let before = near_before(self.text, self.start, 24).to_ascii_lowercase();
            let is_led = ["with", "using", "and", "as"].iter().any(|word| before.trim_end().ends_with(word));
            let is_led = is_led || is_column;
            is_led
                && value.len() >= SHORTEST_MIXED
                && is_mixed(value)
                && !is_code(value)
                && !is_identifier(value)
        };
        fits.then_some(range)
    }

    /// `| password | X |`.
    pub(crate) fn cell(&self, mut cursor: Cursor<'t>) -> Option<Range<usize>> {
        cursor.skip_spaces();
        cursor.quote();
        let range = cursor.word(between_others);
        let value = &self.text[range.clone()];
        // A sign alone, as in `String!`, makes a type of many a schema.
        let is_mixed_value = is_mixed(value) && (has_digit(value) || !is_wordy(value));
        let fits = self.class == Name::Password && value.len() >= SHORTEST_MIXED && is_mixed_value;
        (fits && !is_code(value) && !is_placeholder(value)).then_some(range)
    }

    /// `<password>X</password>`, also with attributes and with CDATA.
    pub(crate) fn element(&self) -> Option<Range<usize>> {
        let near = near_before(self.text, self.start, 24);
        let before = near.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == ':');
        let mut cursor = Cursor::new(self.text, self.end);
        if before.ends_with("&lt;") && cursor.eat("&gt;") {
            let line = cursor.line(LONGEST_ELEMENT);
            let value = &line[..line.find("&lt;/")?];
            let fits = value.len() >= 2 && !value.contains(' ') && !is_placeholder(value);
            return fits.then_some(cursor.at..cursor.at + value.len());
        }
        if !before.ends_with('<') {
            return None;
        }
        let attributes = cursor.line(200);
        let close = attributes
            .find('>')
            .filter(|end| !attributes[..*end].contains(['<', '{']) && !attributes[..*end].ends_with('/'))?;
        cursor.at += close + 1;
        cursor.eat("<![CDATA[");
        cursor.skip_spaces();
        let line = cursor.line(LONGEST_ELEMENT);
        let end = line.find(['<', ']'])?;
        let rest = &line[end..];
        let value = line[..end].trim_end();
        if !(rest.starts_with("</") || rest.starts_with("]]>")) || is_placeholder(value) {
            return None;
        }
        let fits = match self.class {
            Name::Password => value.len() >= 2 && (!value.contains(' ') || is_passphrase(value)),
            _ => value.len() >= 16 || (value.len() >= SHORTEST_MIXED && is_mixed(value)),
        };
        (fits && (self.class == Name::Password || !value.contains(' ')))
            .then_some(cursor.at..cursor.at + value.len())
    }

    /// Twelve words or more in lower case.
    pub(crate) fn mnemonic(&self, mut cursor: Cursor<'t>) -> Option<Range<usize>> {
        cursor.quote();
        let line = cursor.line(400);
        let is_word =
            |word: &&str| (3..=8).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let phrase_end = line.find(['"', '\'', '`', '\\', '.', ',', ';']).unwrap_or(line.len());
        let phrase = line[..phrase_end].trim_end();
        let words: Vec<&str> = phrase.split(' ').collect();
        (words.len() >= 12 && words.iter().all(is_word)).then_some(cursor.at..cursor.at + phrase.len())
    }
}
