//! Checks: the named conditions that a row of `patterns.txt` puts on a value.

use std::ops::Range;

use crate::cursor::{Cursor, Quote, near_before};
use crate::identifier::Named;
use crate::value::{
    has_digit, is_base64_login, is_chosen_word, is_code, is_filled_in, is_identifier, is_joined_passphrase,
    is_long_path, is_mixed, is_passphrase, is_path, is_placeholder, is_prose_word, is_quoted_placeholder,
    is_random, is_rule, is_template, is_title, is_wordy,
};
use crate::words::is_listed;

/// A value with its location.
pub(crate) struct Found<'t> {
    pub(crate) text: &'t str,
    pub(crate) value: &'t str,
    pub(crate) range: Range<usize>,
    /// Position of the clue that produced this candidate.
    pub(crate) clue: Range<usize>,
    pub(crate) quote: Option<Quote>,
    /// The name that introduces the value, if it was found by a name.
    pub(crate) named: Option<&'t Named<'t>>,
}

/// A condition on a value.
#[derive(Clone, Copy)]
pub(crate) enum Check {
    /// `6`: minimum number of bytes.
    Least(usize),
    /// `<1024`: maximum number of bytes.
    Most(usize),
    /// `mixed`, `!mixed`
    Is(fn(&Found<'_>) -> bool, bool),
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Check::Least(length) => write!(f, "{length}"),
            Check::Most(length) => write!(f, "<{length}"),
            Check::Is(_, expected) => f.write_str(if *expected { "is" } else { "is not" }),
        }
    }
}

impl Check {
    /// Splits a column into its checks and its other words.
    pub(crate) fn parse(column: &'static str) -> (Vec<&'static str>, Vec<Check>) {
        let mut others = Vec::new();
        let checks = column.split(' ').filter(|word| !word.is_empty()).filter_map(|word| {
            if let Ok(length) = word.parse() {
                return Some(Check::Least(length));
            }
            if let Some(length) = word.strip_prefix('<') {
                return length.parse().ok().map(Check::Most);
            }
            let name = word.trim_start_matches('!');
            let test = test(name).map(|test| Check::Is(test, name.len() == word.len()));
            if test.is_none() {
                others.push(word);
            }
            test
        });
        let checks = checks.collect();
        (others, checks)
    }

    pub(crate) fn passes(self, found: &Found<'_>) -> bool {
        match self {
            Check::Least(length) => found.value.len() >= length,
            Check::Most(length) => found.value.len() <= length,
            Check::Is(test, expected) => test(found) == expected,
        }
    }
}

/// Returns the condition with a name.
fn test(name: &str) -> Option<fn(&Found<'_>) -> bool> {
    Some(match name {
        // Characters of the value.
        "digit" => |found| has_digit(found.value),
        "digits" => |found| found.value.bytes().all(|byte| byte.is_ascii_digit()),
        "lowercase" => |found| found.value.bytes().any(|byte| byte.is_ascii_lowercase()),
        "lower" => |found| found.value.bytes().all(|byte| byte.is_ascii_lowercase()),
        "space" => |found| found.value.contains([' ', '\t']),
        "dash" => |found| found.value.contains('-'),
        "dot" => |found| found.value.contains('.'),
        "plus" => |found| found.value.contains('+'),
        "list" => |found| found.value.contains([':', ',']),
        "call" => |found| found.value.contains('(') || found.value.contains("->"),
        "base64" => {
            |found| found.value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+/=".contains(&byte))
        }
        // Appearance of the value.
        "mixed" => |found| is_mixed(found.value),
        "random" => |found| is_random(found.value),
        "wordy" => |found| is_wordy(found.value),
        "title" => |found| is_title(found.value),
        "code" => |found| is_code(found.value),
        "identifier" => |found| is_identifier(found.value),
        "path" => |found| is_path(found.value),
        "long-path" => |found| is_long_path(found.value),
        "elsewhere" => |found| {
            is_long_path(found.value)
                || (is_path(found.value) && is_named(found, Named::is_working_directory))
        },
        "rule" => |found| is_rule(found.value),
        // The location of a secret: `spec.auth.key`, `repo:applicationId`.
        "label-of" => |found| {
            found.value.contains(['.', ':'])
                && found.value.bytes().all(|byte| byte.is_ascii_alphabetic() || b"-_.:".contains(&byte))
        },
        "id" => |found| found.value.starts_with("id="),
        "option-like" => |found| found.value.starts_with('-'),
        "prose" => |found| is_prose_word(found.value),
        "particle" => |found| is_listed("particles", found.value),
        "chosen" => |found| is_chosen_word(found.value),
        "passphrase" => |found| is_passphrase(found.value),
        "joined" => |found| is_joined_passphrase(found.value),
        "three-words" => |found| found.value.split_whitespace().nth(2).is_some(),
        "reference" => |found| {
            let first = found.value.split(' ').next().unwrap_or_default();
            is_placeholder(first) || is_identifier(first) || is_path(first)
        },
        // `The password is shared by all of them`: the word says what happens to the password.
        "deed" => |found| {
            let first = found.value.split_whitespace().next().unwrap_or_default();
            first.len() > 4 && ["ed", "ing", "ly"].iter().any(|end| first.ends_with(end))
        },
        "login" => |found| is_base64_login(found.value),
        "placeholder" => |found| is_placeholder(found.value),
        "template" => |found| is_template(&found.value.to_ascii_lowercase()),
        "filled" => |found| is_filled_in(found.value),
        // Not a template, and `"password=" + password` has the quotes the other way round.
        "clean" => {
            |found| found.value.trim().len() == found.value.len() && !is_quoted_placeholder(found.value)
        }
        "single-quoted" => |found| matches!(found.quote, Some(Quote::Mark(b'\'', _))),
        // Context of the value.
        "checksum" => |found| {
            let before = near_before(found.text, found.clue.start, 7);
            ["sha256", "sha384", "sha512"].iter().any(|hash| before.starts_with(hash))
                && before.ends_with(['=', '-'])
        },
        // A prefix of letters and digits only also occurs in every long run of base64.
        "in-base64" => |found| {
            near_before(found.text, found.clue.start, 1).contains(['/', '+'])
                && found.text[found.clue.clone()].bytes().all(|byte| byte.is_ascii_alphanumeric())
        },
        // In prose, `identified by` is followed by a `name`.
        "sql" => |found| {
            matches!(found.quote, Some(Quote::Mark(b'\'', _)))
                || !found.text[found.clue.clone()].ends_with("by ")
        },
        "parameters" => |found| {
            let before = near_before(found.text, found.range.start, 40).trim_end();
            let scheme = before.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).next();
            is_listed("parameter-schemes", &scheme.unwrap_or_default().to_ascii_lowercase())
        },
        "ends-line" => |found| {
            let after = Cursor::new(found.text, found.range.end).line(80);
            after.trim_matches([' ', '"', '\'', '`', '*']).is_empty()
                || after.starts_with("\\n")
                || after.starts_with("\\r")
        },
        "ends-clause" => |found| {
            let after = found.text.get(found.range.end..).unwrap_or_default();
            after.is_empty()
                || after.starts_with(['.', ',', ';', '\n', '\r', ')', '"', '`'])
                || after.starts_with(" and ")
        },
        "resource" => |found| near_before(found.text, found.range.start, 4) == "arn:",
        "secret-line" => |found| {
            is_named(found, |named| named.is_called(&["secret"]))
                && test("ends-line").is_some_and(|test| test(found))
        },
        "argument" => |found| {
            found.text[found.range.end..].starts_with([',', ')']) || is_named(found, Named::is_argument)
        },
        "statement" => |found| found.named.is_some_and(|named| named.is_statement(found.range.end)),
        // Spelling of the name.
        "upper" => |found| is_named(found, Named::is_upper),
        "environment" => |found| is_named(found, |named| named.is_upper() && named.name.contains('_')),
        "key" => |found| is_named(found, |named| named.is_called(&["key"])),
        "secret-or-pass" => |found| is_named(found, |named| named.is_called(&["secret", "pass"])),
        "short-name" => |found| is_named(found, |named| named.is_called(&["pass", "pw"])),
        "login-name" => {
            |found| is_named(found, |named| named.is_called(&["credentials", "creds", "credential"]))
        }
        "directive" => |found| is_named(found, |named| named.is_called(&["requirepass", "masterauth"])),
        "netrc" => |found| is_named(found, |named| named.name == "password"),
        "working-directory" => |found| is_path(found.value) && is_named(found, Named::is_working_directory),
        "header-name" => |found| is_named(found, Named::is_header),
        "option-name" => |found| is_named(found, |named| named.is_option),
        "named-in-quotes" => |found| is_named(found, |named| named.is_quoted),
        "label" => |found| is_named(found, Named::is_label),
        "led" => |found| is_named(found, Named::is_led),
        "opened" => |found| is_named(found, Named::is_in_call),
        // In YAML a chosen word is in lower case, after a label in any case.
        "chosen-case" => |found| {
            found.value.chars().all(char::is_lowercase)
                || is_named(found, |named| named.name.starts_with(|c: char| c.is_ascii_uppercase()))
        },
        _ => return None,
    })
}

fn is_named<'t>(found: &Found<'t>, test: impl Fn(&Named<'t>) -> bool) -> bool {
    found.named.is_some_and(test)
}
