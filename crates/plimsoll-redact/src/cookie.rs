//! Cookies: all values of a `Cookie` or `Set-Cookie` header.

use std::ops::Range;

use crate::cursor::Cursor;
use crate::words::is_listed;

/// Maximum number of cookies in a line.
const MAX_COOKIES: usize = 100;

/// Maximum length of a cookie's name.
const LONGEST_COOKIE_NAME: usize = 128;

/// Returns the values of all cookies in a `Cookie` or `Set-Cookie` header, and their end.
pub(crate) fn cookies(text: &str, name: Range<usize>) -> (Vec<Range<usize>>, usize) {
    let mut cursor = Cursor::new(text, name.end);
    let is_flag = text[..name.start].ends_with("--");
    let name_quote = cursor.quote();
    if name_quote.is_some() {
        cursor.eat("]");
    }
    let spaces = cursor.skip_spaces();
    let is_separated = cursor.eat(":") || cursor.eat("=") || (name_quote.is_some() && cursor.eat(","));
    // `--cookie VALUE` has no separator.
    if !is_separated && (!is_flag || spaces == 0) {
        return (Vec::new(), name.end);
    }
    cursor.skip_spaces();
    let is_list = cursor.eat("[");
    cursor.quote();
    let (mut found, mut end) = cookie_pairs(text, cursor.at);
    // Several headers as a list of strings.
    while is_list && found.len() < MAX_COOKIES {
        let mut next = Cursor::new(text, end);
        next.quote();
        let has_comma = next.eat(",");
        next.skip_spaces();
        let continues = has_comma && next.quote().is_some();
        let (more, read) = cookie_pairs(text, next.at);
        if !continues || more.is_empty() {
            break;
        }
        found.extend(more);
        end = read;
    }
    (found, end)
}

/// Returns the values of the cookies at `at`, and their end.
pub(crate) fn cookie_pairs(text: &str, at: usize) -> (Vec<Range<usize>>, usize) {
    let mut found = Vec::new();
    let mut cursor = Cursor::new(text, at);
    let mut end = cursor.at;
    for _ in 0..MAX_COOKIES {
        cursor.skip_spaces();
        let rest = cursor.rest();
        let length = rest.bytes().take(LONGEST_COOKIE_NAME).take_while(|byte| is_cookie_name(*byte)).count();
        let name = rest[..length].to_ascii_lowercase();
        let is_attribute = is_listed("cookie-attributes", &name);
        cursor.at += length;
        // `==` is a comparison in code.
        if length > 0 && cursor.eat("=") && cursor.peek() != Some(b'=') {
            cursor.eat("\"");
            let value = cookie_value(&cursor);
            cursor.at = value.end;
            let value_text = &text[value.clone()];
            let is_template = value_text.contains(['$', '{', '<', '*', '[', '(', '…'])
                || value_text.contains("...")
                || value_text.starts_with("%s");
            if !value_text.is_empty() && !is_template && !is_attribute {
                found.push(value);
            }
            cursor.quote();
        } else if !is_attribute {
            break;
        }
        // The date of an `Expires` has spaces and a comma.
        if name == "expires" {
            let line = cursor.line(64);
            cursor.at += line.find([';', '"', '\'']).unwrap_or(line.len());
        }
        end = cursor.at;
        if !cursor.eat(";") {
            break;
        }
    }
    (found, end)
}

fn is_cookie_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'_' | b'-' | b'.' | b'$' | b'!' | b'#' | b'%' | b'~' | b'|')
}

fn cookie_value(cursor: &Cursor<'_>) -> Range<usize> {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b";,\"'`\\".contains(byte);
    let length = cursor.rest().bytes().take_while(|byte| !ends(byte)).count();
    cursor.at..cursor.at + length
}
