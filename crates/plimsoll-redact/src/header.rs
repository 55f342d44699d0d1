//! Credentials in headers: `Authorization`, `Bearer`, `Basic`, `Cookie`.

use std::ops::Range;

use crate::cursor::{Cursor, Quote, never};
use crate::names::is_among;
use crate::shape::Set;
use crate::values::{is_mixed, is_placeholder, is_wordy};

/// Shorter credentials are words of a sentence.
const SHORTEST: usize = 6;

/// A bearer token without a header around it.
const SHORTEST_BEARER: usize = 20;

/// Cookies of a line looked through.
const MOST_COOKIES: usize = 100;

/// Longer names name no cookie.
const LONGEST_COOKIE_NAME: usize = 128;

/// Attributes of a cookie, which are no secrets.
const ATTRIBUTES: &str = "path domain expires max-age samesite secure httponly partitioned priority version";

/// Schemes whose credentials are parameters, of which the names tell.
const WITH_PARAMETERS: &str = "digest oauth hawk mac signature aws4-hmac-sha256 aws4-ecdsa-p256-sha256";

/// The credentials of the `Authorization` header whose name ends at `end`, and how far that was read.
pub(crate) fn authorization(text: &str, end: usize) -> (Option<Range<usize>>, usize) {
    let Some(value) = authorization_value(text, end) else { return (None, end) };
    let read = value.range.end;
    let credentials = &text[value.range.clone()];
    let is_plain_word = credentials.bytes().all(|byte| byte.is_ascii_lowercase());
    // A word in lower case is a credential only where nothing but a credential can stand.
    let is_sentence = is_plain_word && !(value.is_quoted && value.is_scheme_known);
    let is_credential = value.is_scheme_known || (is_mixed(credentials) && !is_wordy(credentials));
    let fits = credentials.len() >= SHORTEST && !is_sentence && is_credential && !is_placeholder(credentials);
    (fits.then(|| Cursor::new(text, end).whole(value.range)), read)
}

struct AuthorizationValue {
    /// What follows the scheme.
    range: Range<usize>,
    is_quoted: bool,
    is_scheme_known: bool,
}

fn authorization_value(text: &str, end: usize) -> Option<AuthorizationValue> {
    const SCHEMES: &str = "bearer basic token apikey api-key key bot ssws geniekey splunk";
    let mut cursor = Cursor::new(text, end);
    let name_quote = cursor.quote();
    if name_quote.is_some() {
        cursor.eat("]");
    }
    cursor.skip_spaces();
    let is_argument = name_quote.is_some() && cursor.eat(",");
    let is_separated = is_argument || cursor.eat(":") || cursor.eat("=");
    if !is_separated || cursor.rest().starts_with(['=', ':']) {
        return None;
    }
    cursor.eat(">");
    cursor.skip_spaces();
    let is_quoted = literal_quote(&mut cursor).is_some();
    // The scheme is a word of its own, and the credentials are the next one.
    let scheme = cursor.word(never);
    let mut after = Cursor::new(text, scheme.end);
    let is_word = scheme.len() < 30 && text[scheme.clone()].bytes().all(|byte| Set::Word.has(byte));
    let name = text[scheme.clone()].to_ascii_lowercase();
    let has_scheme = after.skip_spaces() > 0 && is_word;
    let is_scheme_known = has_scheme && is_among(&name, SCHEMES);
    if (is_argument && !is_quoted) || is_among(&name, WITH_PARAMETERS) {
        return None;
    }
    let from = if has_scheme && (is_scheme_known || is_quoted || is_capitalised(&text[scheme])) {
        after
    } else {
        cursor
    };
    Some(AuthorizationValue { range: from.word(ends_credentials), is_quoted, is_scheme_known })
}

fn is_capitalised(word: &str) -> bool {
    word.bytes().next().is_some_and(|byte| byte.is_ascii_uppercase())
}

fn ends_credentials(line: &str, at: usize) -> bool {
    matches!(line.as_bytes()[at], b',' | b';' | b')' | b'}' | b']' | b'<' | b'>' | b'|')
}

/// The quote that opens a literal, also behind the letters that Python, Rust and C# put before one.
fn literal_quote(cursor: &mut Cursor<'_>) -> Option<Quote> {
    let mut probe = *cursor;
    if matches!(probe.peek(), Some(b'f' | b'b' | b'r' | b'u' | b'$' | b'@')) {
        probe.at += 1;
        if let Some(quote) = probe.quote() {
            *cursor = probe;
            return Some(quote);
        }
    }
    cursor.quote()
}

/// The token behind a `Bearer` that ends at `end`, wherever it stands.
pub(crate) fn bearer(text: &str, end: usize) -> Option<Range<usize>> {
    let mut cursor = Cursor::new(text, end);
    if cursor.skip_spaces() == 0 {
        return None;
    }
    let rest = cursor.rest();
    let length =
        rest.bytes().take_while(|byte| Set::Base64.has(*byte) || matches!(byte, b'.' | b'~')).count();
    let value = rest[..length].trim_end_matches('.');
    let fits = value.len() >= SHORTEST_BEARER && is_mixed(value) && !is_placeholder(value);
    fits.then_some(cursor.at..cursor.at + value.len())
}

/// The credentials behind a `Basic` that ends at `end`: base64 of a user, a colon and a password.
pub(crate) fn basic(text: &str, end: usize) -> Option<Range<usize>> {
    let mut cursor = Cursor::new(text, end);
    if cursor.skip_spaces() == 0 {
        return None;
    }
    let length = cursor.rest().bytes().take(512).take_while(|byte| Set::Base64.has(*byte)).count();
    let value = &cursor.rest()[..length];
    is_user_and_password(value).then_some(cursor.at..cursor.at + length)
}

/// Whether base64 holds `user:password`.
pub(crate) fn is_user_and_password(base64: &str) -> bool {
    let mut bits = 0_u32;
    let mut filled = 0;
    let mut colons = 0;
    let mut decoded = 0;
    for byte in base64.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return false,
        };
        bits = (bits << 6) | u32::from(value);
        filled += 6;
        if filled >= 8 {
            filled -= 8;
            let byte = (bits >> filled) as u8;
            bits &= (1 << filled) - 1;
            if !(b' '..=b'~').contains(&byte) {
                return false;
            }
            colons += usize::from(byte == b':' && decoded > 0);
            decoded += 1;
        }
    }
    decoded >= 5 && colons > 0
}

/// The values of all cookies of the `Cookie` or `Set-Cookie` header of that name.
/// Also says where they end.
pub(crate) fn cookies(text: &str, name: Range<usize>) -> (Vec<Range<usize>>, usize) {
    let mut cursor = Cursor::new(text, name.end);
    let is_flag = text[..name.start].ends_with("--");
    let name_quote = cursor.quote();
    if name_quote.is_some() {
        cursor.eat("]");
    }
    let spaces = cursor.skip_spaces();
    let is_separated = cursor.eat(":") || cursor.eat("=") || (name_quote.is_some() && cursor.eat(","));
    if !is_separated && (!is_flag || spaces == 0) {
        return (Vec::new(), name.end);
    }
    cursor.skip_spaces();
    let is_list = cursor.eat("[");
    cursor.quote();
    let (mut found, mut end) = cookie_pairs(text, cursor.at);
    // Several headers as a list of strings.
    while is_list && found.len() < MOST_COOKIES {
        let mut next = Cursor::new(text, end);
        next.quote();
        let has_comma = next.eat(",");
        next.skip_spaces();
        let goes_on = has_comma && next.quote().is_some();
        let (more, read) = cookie_pairs(text, next.at);
        if !goes_on || more.is_empty() {
            break;
        }
        found.extend(more);
        end = read;
    }
    (found, end)
}

/// The values of the cookies that stand at `at`, and where they end.
pub(crate) fn cookie_pairs(text: &str, at: usize) -> (Vec<Range<usize>>, usize) {
    let mut found = Vec::new();
    let mut cursor = Cursor::new(text, at);
    let mut end = cursor.at;
    for _ in 0..MOST_COOKIES {
        cursor.skip_spaces();
        let rest = cursor.rest();
        let length = rest.bytes().take(LONGEST_COOKIE_NAME).take_while(|byte| is_cookie_name(*byte)).count();
        let name = rest[..length].to_ascii_lowercase();
        let is_attribute = is_among(&name, ATTRIBUTES);
        cursor.at += length;
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
