//! Values of things named like secrets: `password=…`, `"api_key": "…"`, `<password>…</password>`, `--token …`,
//! `the password is …`.
//!
//! The name is found around a keyword and classified. `patterns.txt` has the notations that link it to a value, and
//! which values are secrets in each of them.

use std::ops::Range;

use crate::check::Found;
use crate::cursor::{Cursor, near_before};
use crate::identifier::Named;
use crate::name::Name;
use crate::reader::{ReadValue, Reader};
use crate::table::{TABLE, ValueRow};

/// Maximum length of a name.
const LONGEST_NAME: usize = 80;

/// Maximum number of bytes before a name that patterns see.
const LONGEST_BEFORE: usize = 300;

/// Returns the secret that the name around a keyword introduces. Names before `done` are skipped; `done` advances.
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
    // A replaced value is not searched again.
    *done = value.end.max(*done);
    Some(value)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

impl<'t> Named<'t> {
    /// The value of the name, if it is a secret.
    fn value(&self) -> Option<Range<usize>> {
        let text = self.text;
        let first = text.as_bytes().get(self.end).copied().unwrap_or_default();
        let first = match first {
            _ if first.is_ascii_whitespace() => '␣',
            _ if first.is_ascii() => char::from(first),
            _ => '：',
        };
        for notation in TABLE.notations.iter().filter(|notation| notation.first.contains(first)) {
            if let Some(before) = &notation.before
                && before.match_before(text, self.start, LONGEST_BEFORE).is_none()
            {
                continue;
            }
            let Some(after) = notation.after.match_at(text, self.end) else { continue };
            let read = match after.group {
                Some(range) => Some(ReadValue { range, quote: None }),
                None => notation.reader.read(text, after.range.end),
            };
            let rows = TABLE.values.get(notation.name).into_iter().flatten();
            let mut rows = rows.filter(|row| self.is_in(row.names));
            if let Some(value) = read.and_then(|read| rows.find_map(|row| self.judge(row, read.clone()))) {
                return Some(value);
            }
        }
        // `${PASSWORD}` refers to a variable and does not set it.
        if near_before(text, self.start, 2) == "${" {
            return None;
        }
        let found = TABLE.link.match_at(text, self.end)?;
        let link = *TABLE.links.get(found.alternative)?;
        let mut cursor = Cursor::new(text, found.range.end);
        match link {
            "stop" => return None,
            "space" | "cell" => return self.read(link, cursor.at),
            _ => {}
        }
        cursor.skip_spaces();
        if cursor.eat("**") || cursor.eat("__") {
            cursor.skip_spaces();
        }
        let link = self.skip_type(&mut cursor, link);
        let is_wrapped = self.skip_wrapper(&mut cursor);
        if Cursor::quote(&mut cursor.clone()).is_some() {
            let notation = match link {
                _ if is_wrapped => "wrapped",
                "call" | "comma" | "or" => link,
                "is" | "aside" => "said",
                _ => "quoted",
            };
            return self.read(notation, cursor.at);
        }
        let notation = match link {
            "equals" | "spaced" if self.is_parameter => "parameter",
            "equals" if self.is_upper() => "variable",
            "equals" if self.is_option => "option",
            "equals" => "plain",
            "is" | "aside" => "stated",
            "spaced" | "colon" | "encoded" => link,
            _ => return None,
        };
        self.read(notation, cursor.at)
    }

    /// The value at `at` that passes a row of `notation`.
    fn read(&self, notation: &str, at: usize) -> Option<Range<usize>> {
        let mut last = None;
        for row in TABLE.values.get(notation)?.iter().filter(|row| self.is_in(row.names)) {
            let is_inline = matches!(row.reader, Reader::Variable) && !self.begins_line();
            let reader = if is_inline { &Reader::Item } else { &row.reader };
            // Neighbouring rows mostly have the same reader.
            let kind = std::mem::discriminant(reader);
            let read = match last.take() {
                Some((last, read)) if last == kind && !matches!(reader, Reader::Pattern(_)) => read,
                _ => reader.read(self.text, at),
            };
            let value = read.clone().and_then(|read| self.judge(row, read));
            if value.is_some() {
                return value;
            }
            last = Some((kind, read));
        }
        None
    }

    fn judge(&self, row: &ValueRow, read: ReadValue) -> Option<Range<usize>> {
        let found = Found {
            text: self.text,
            value: self.text.get(read.range.clone())?,
            range: read.range,
            clue: self.start..self.end,
            quote: read.quote,
            named: Some(self),
        };
        let is_secret = !found.value.is_empty() && row.checks.iter().all(|check| check.passes(&found));
        is_secret.then(|| Cursor::new(self.text, found.range.start).whole(found.range))
    }

    fn is_in(&self, names: &str) -> bool {
        (names == "m" && self.is_phrase())
            || names.contains(match self.class {
                Name::Faint => 'f',
                Name::Weak => 'w',
                Name::Strong => 's',
                Name::Password => 'p',
                Name::Phrase => 'm',
            })
    }

    /// Skips the type in `name: Type = value`.
    fn skip_type(&self, cursor: &mut Cursor<'t>, link: &'static str) -> &'static str {
        if link != "colon" {
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
            return "spaced";
        }
        link
    }

    /// Skips the prefix of a literal: letters such as the `b` of `b"…"`, or a call such as `Some("…")`. Returns whether it is
    /// a call.
    fn skip_wrapper(&self, cursor: &mut Cursor<'t>) -> bool {
        let letters = cursor
            .rest()
            .bytes()
            .take(40)
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"_:.@$#".contains(byte))
            .count();
        let mut probe = Cursor::new(self.text, cursor.at + letters);
        let is_call = letters > 0 && probe.eat("(");
        let literal = probe.at;
        if (is_call || (1..=2).contains(&letters)) && probe.quote().is_some() {
            cursor.at = literal;
            return is_call;
        }
        false
    }
}
