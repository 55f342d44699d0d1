//! Classifies values: a placeholder, a path, code, words, or what users and generators create as passwords.

use crate::name::has_term;
use crate::words::{is_listed, words};

/// Maximum length of a name or a template.
const LONGEST_TEMPLATE: usize = 120;

/// Whether a value is only a place for a secret: a variable, a type, a call, a row of stars.
pub(crate) fn is_placeholder(value: &str) -> bool {
    if ["...", "…", "****", "••", "xxxxxx", "XXXXXX", "[redacted"].iter().any(|mark| value.contains(mark))
    {
        return true;
    }
    let value = value.trim_end_matches(['.', ',', ';', ':', ')', ']', '}', '>', '!', '?']);
    let bytes = value.as_bytes();
    if bytes.len() < 2 {
        return true;
    }
    if matches!(bytes[0], b'{' | b'<' | b'*' | b'[' | b'(' | b'\\' | b'#') {
        return true;
    }
    if is_variable(value) || is_filler(value) {
        return true;
    }
    let lower = value.to_ascii_lowercase();
    if is_listed("standing-in", &lower) || is_template(&lower) {
        return true;
    }
    words("references").any(|start| lower.starts_with(start))
        || ["${", "$(", "{{", "#{", "<%", "%>"].iter().any(|mark| value.contains(mark))
        || is_name_of_secret(value)
        || is_address(value)
}

/// Whether a value is the name of a secret: `access_token`, `DB_PASSWORD`, `userPassword`. A single lower-case word is
/// not one, because many users choose such a password.
pub(crate) fn is_name_of_secret(value: &str) -> bool {
    if value.len() > LONGEST_TEMPLATE {
        return false;
    }
    let bytes = value.as_bytes();
    let has_parts = value.contains(['_', '-'])
        || bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    let is_shouted = !value.bytes().any(|byte| byte.is_ascii_lowercase());
    has_parts
        && (is_shouted || !has_digit(value))
        && value.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
        && has_term(value)
}

/// Whether a value is the public address of an account or contract on a blockchain.
fn is_address(value: &str) -> bool {
    value.len() == 42 && value.starts_with("0x") && value.bytes().skip(2).all(|byte| byte.is_ascii_hexdigit())
}

/// `$TOKEN`, `%TOKEN%`, `%s`, `:token`, `@token`, `&token`, `!ref`.
fn is_variable(value: &str) -> bool {
    let Some((first, rest)) = value.split_at_checked(1) else { return false };
    let plain = |text: &str| !text.is_empty() && text.bytes().all(is_name_byte);
    match first {
        "$" | "&" | ":" => {
            plain(rest) || rest.starts_with(['{', '(']) || rest.contains('.') || rest.contains("::")
        }
        "@" | "!" => plain(rest) && !has_digit(rest),
        // Two hexadecimal digits make it an escape of a URL.
        "%" => !rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()) || rest.ends_with('%'),
        _ => false,
    }
}

/// Stars, dots, one character again and again, digits and punctuation only.
pub(crate) fn is_filler(value: &str) -> bool {
    let mut letters = value.chars().filter(|c| c.is_alphanumeric());
    let Some(first) = letters.next() else { return true };
    let first = first.to_ascii_lowercase();
    let same = letters.all(|c| c.to_ascii_lowercase() == first);
    same || value.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_punctuation())
}

/// `your-api-key`, `REPLACE_WITH_32_CHARACTERS`, `change_me_in_production`.
pub(crate) fn is_template(lower: &str) -> bool {
    if lower.len() > LONGEST_TEMPLATE {
        return false;
    }
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut previous = "";
    words.any(|word| {
        let says = is_listed("template", word)
            || word.starts_with("xxxxxx")
            || (previous == "change" && word == "me");
        previous = word;
        says
    })
}

pub(crate) fn has_digit(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_digit())
}

fn has_letter(value: &str) -> bool {
    value.chars().any(char::is_alphabetic)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Whether a value mixes letters with digits or symbols, as users and generators create passwords, and is not a path,
/// URL, version, date, size or name of an algorithm.
pub(crate) fn is_mixed(value: &str) -> bool {
    let signs = value.bytes().any(|byte| {
        matches!(byte, b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'*' | b'+' | b'?' | b'~' | b'&' | b'=')
    });
    has_letter(value) && (has_digit(value) || signs) && !is_technical(value) && !is_path(value)
}

/// Whether a value is a technical term with digits: `sha256`, `v1.2.3`, `2024-01-01`, `30s`, `oauth2`.
fn is_technical(value: &str) -> bool {
    let value = value.trim_end_matches(|c: char| !c.is_alphanumeric());
    let lower = value.to_ascii_lowercase();
    let letters = lower.bytes().take_while(|byte| !byte.is_ascii_digit()).count();
    let (stem, rest) = lower.split_at(letters);
    let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit()).count();
    let tail = &rest[digits..];
    if stem.is_empty() || stem.bytes().all(|byte| matches!(byte, b'^' | b'~' | b'<' | b'>' | b'=' | b'v')) {
        // A number first: a version, a date, a size, a number in another base.
        let mut tail_bytes = tail.bytes();
        let is_digit = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_digit());
        return match tail_bytes.next() {
            Some(b'.') => is_digit(tail_bytes.next()),
            Some(b'-') => digits == 4 && is_digit(tail_bytes.next()) && is_digit(tail_bytes.next()),
            Some(b'x') => digits == 1 && tail.len() <= 17 && tail_bytes.all(|byte| byte.is_ascii_hexdigit()),
            _ => is_listed("units", tail),
        };
    }
    digits > 0
        && digits <= 5
        && is_listed("stems", stem)
        && (tail.is_empty() || is_listed("tails", tail) || tail.len() < 2)
}

/// A path or an address without a password. Base64 has slashes too, but no lower-case words between them.
pub(crate) fn is_path(value: &str) -> bool {
    if value.contains("://")
        || value.starts_with(['/', '~'])
        || value.starts_with("./")
        || value.starts_with("../")
    {
        return true;
    }
    if value.as_bytes().get(1) == Some(&b':') && value.as_bytes().get(2) == Some(&b'\\') {
        return true;
    }
    let parts: Vec<&str> = value.split(['/', '\\']).collect();
    let is_part = |part: &&str| {
        let lower = part.bytes().filter(u8::is_ascii_lowercase).count();
        !part.is_empty()
            && (lower * 2 > part.len() || part.len() < 4 || part.bytes().all(|byte| byte.is_ascii_digit()))
            && !part.contains(['+', '=', '$', '!', '%'])
    };
    let has_extension = parts
        .last()
        .and_then(|last| last.split(':').next())
        .and_then(|last| last.rsplit_once('.'))
        .is_some_and(|(stem, ext)| {
            !stem.is_empty()
                && (1..=5).contains(&ext.len())
                && ext.bytes().all(|byte| byte.is_ascii_lowercase())
        });
    if parts.len() > 1 {
        return parts.iter().all(is_part) && (has_extension || parts.len() > 2 || !has_digit(value));
    }
    // `login2.rs`, also with a line number.
    has_extension
}

/// A path of several parts; two parts could be a password with a slash.
pub(crate) fn is_long_path(value: &str) -> bool {
    is_path(value) && (value.matches('/').count() >= 2 || value.contains('\\'))
}

/// Letters and digits without the structure of words: what generators write.
pub(crate) fn is_random(value: &str) -> bool {
    value.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| {
        run.len() >= 12 && !is_wordy(run) && {
            let bytes = run.as_bytes();
            let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
            let turns = bytes
                .windows(2)
                .filter(|pair| pair[0].is_ascii_uppercase() != pair[1].is_ascii_uppercase())
                .count();
            (digits > 0 && digits < run.len()) || turns * 4 >= run.len()
        }
    })
}

/// Made of words: `TestQueueDrainsAfter3Retries`, `login2`, `read-only-v2`.
pub(crate) fn is_wordy(value: &str) -> bool {
    let (mut words, mut letters, mut digits) = (0_usize, 0_usize, 0_usize);
    let mut previous = b'_';
    for byte in value.bytes() {
        if byte.is_ascii_alphabetic() {
            letters += 1;
            let begins = !previous.is_ascii_alphabetic()
                || (byte.is_ascii_uppercase() && previous.is_ascii_lowercase());
            words += usize::from(begins);
        } else if byte.is_ascii_digit() {
            digits += 1;
        }
        previous = byte;
    }
    words > 0 && letters >= words * 4 && digits * 6 <= letters + 6 && digits <= 4
}

/// Code: `res.body.token`, `user->password`, `tokens[0]`, `getToken()`.
pub(crate) fn is_code(value: &str) -> bool {
    if value.contains(['(', '[', '{', '<', '`', '|'])
        || value.contains("->")
        || value.contains("::")
        || value.contains("?.")
    {
        return true;
    }
    let mut parts = value.split('.');
    let is_ident = |part: &str| {
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$'))
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
            && (part.len() < 20 || !is_random(part))
    };
    value.contains('.') && parts.all(is_ident)
}

/// An identifier of more than one word, as programs name their variables.
pub(crate) fn is_identifier(value: &str) -> bool {
    let camel =
        value.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    let bytes_fit = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let constant =
        value.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            && value
                .split('_')
                .filter(|part| part.len() >= 3 && part.bytes().all(|byte| byte.is_ascii_uppercase()))
                .count()
                >= 2;
    bytes_fit && ((camel || value.contains('_')) && is_wordy(value) || constant)
}

/// Maximum number of words of a passphrase. A longer text is a sentence.
const MAX_WORDS: usize = 12;

/// Whether a value has several words that are not a sentence: `correct horse battery staple`.
pub(crate) fn is_passphrase(value: &str) -> bool {
    if value.contains([',', ';', ':', '(', '=', '|', '/']) {
        return false;
    }
    let (mut count, mut states) = (0, 0);
    for word in value.split([' ', '-']) {
        let plain = word.trim_matches(|c: char| c.is_ascii_punctuation());
        let lower = plain.to_lowercase();
        if plain.is_empty() || is_listed("prose", &lower) || !plain.chars().all(char::is_alphanumeric) {
            return false;
        }
        count += 1;
        if count > MAX_WORDS {
            return false;
        }
        states += usize::from(is_listed("states", &lower));
    }
    count >= 2 && states * 2 <= count && !is_placeholder(value)
}

/// Whether a word can be a password and does not describe one.
pub(crate) fn is_chosen_word(value: &str) -> bool {
    let lower = value.to_lowercase();
    value.len() >= 6
        && value.chars().all(char::is_alphabetic)
        && !words("endings").any(|end| lower.ends_with(end))
        && !is_listed("prose", &lower)
        && !is_listed("states", &lower)
        && !is_placeholder(value)
}

/// Words joined by hyphens that are a passphrase; `case-sensitive` and `two-factor` are not.
pub(crate) fn is_joined_passphrase(value: &str) -> bool {
    let parts: Vec<&str> = value.split('-').collect();
    let last = parts.last().copied().unwrap_or_default().to_ascii_lowercase();
    let first = parts.first().copied().unwrap_or_default().to_ascii_lowercase();
    parts.len() >= 2
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !["ed", "ing", "able", "less"].iter().any(|end| last.ends_with(end))
        && !is_listed("compound-last", &last)
        && !is_listed("compound-first", &first)
        && is_passphrase(&value.replace('-', " "))
}

/// A word that is said about secrets.
pub(crate) fn is_prose_word(value: &str) -> bool {
    let lower = value.to_lowercase();
    is_listed("prose", &lower) || is_listed("states", &lower)
}

/// Whether a quoted value is a template. In quotes, what would be a call or an index in code can be a value.
pub(crate) fn is_quoted_placeholder(value: &str) -> bool {
    let is_format = value.split_once('{').is_some_and(|(_, rest)| rest.contains('}'));
    let is_template = is_format || ["${", "$(", "#{", "<%", "%s"].iter().any(|mark| value.contains(mark));
    let is_between = value.starts_with('+') && value.ends_with('+');
    let is_bracketed = value.starts_with(['<', '{', '[']) && value.ends_with(['>', '}', ']']);
    is_template || is_bracketed || is_between || is_placeholder(value)
}

/// `sk-ant-xxxxxxxx`, `ghp_your-token-here`: the rest of a token that was not filled in.
pub(crate) fn is_filled_in(rest: &str) -> bool {
    (is_filler(rest) && !has_digit(rest)) || is_template(&rest.to_ascii_lowercase())
}

/// Rules of a validator: `required|min:8`.
pub(crate) fn is_rule(value: &str) -> bool {
    value.contains('|')
        && value.split('|').any(|part| is_listed("rules", part.split(':').next().unwrap_or_default()))
}

/// A word with a capital at its beginning, as sentences and types begin.
pub(crate) fn is_title(value: &str) -> bool {
    let mut chars = value.chars();
    chars.next().is_some_and(char::is_uppercase) && chars.all(|c| c.is_lowercase() || matches!(c, '.' | ','))
}

/// Whether base64 holds `user:password`.
pub(crate) fn is_base64_login(base64: &str) -> bool {
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
