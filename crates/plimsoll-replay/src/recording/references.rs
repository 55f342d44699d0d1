//! References: names in tool calls that the model must have seen before.
//!
//! A reference is a path, a long identifier, a long number or a hash. A model does not guess these; it copies them from
//! the conversation. Whether they are still in the window when a call uses them shows what a reduction cost.
//!
//! Common knowledge is not a reference: `/dev/null`, years, round numbers, powers of two. Nor are the components of a
//! Windows path: its backslashes are doubled in some texts and slashes in others, so that components would be found in
//! place of the path.

use std::collections::BTreeSet;

use plimsoll::is_common_number;
use serde_json::Value;

/// Minimum length of an identifier that is not an ordinary word.
const IDENTIFIER: usize = 8;
/// Minimum length of a number.
const NUMBER: usize = 4;
/// Minimum length of a hash.
const HEX: usize = 7;

/// Returns the references in all texts of a tool's input.
pub(crate) fn of_input(input: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    gather(input, &mut found);
    found
}

fn gather(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => of_text(text, found),
        Value::Number(number) => of_text(&number.to_string(), found),
        Value::Array(items) => items.iter().for_each(|item| gather(item, found)),
        Value::Object(map) => map.values().for_each(|value| gather(value, found)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Adds the references in a text.
fn of_text(text: &str, found: &mut BTreeSet<String>) {
    outside_windows_paths(text).into_iter().for_each(|text| of_plain_text(text, found));
}

/// Returns the text between paths such as `C:\Users\me
/// otes.txt`.
fn outside_windows_paths(text: &str) -> Vec<&str> {
    let mut stretches = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(at) = rest[from..].find(":\\").map(|at| at + from) {
        let before = &rest[..at];
        let is_drive = before.ends_with(|c: char| c.is_ascii_alphabetic())
            && !before.chars().rev().nth(1).is_some_and(is_word_char);
        if !is_drive {
            from = at + 1;
            continue;
        }
        stretches.push(&before[..before.len() - 1]);
        let path = &rest[at..];
        let ends = |c: char| {
            c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '|' | '<' | '>' | '*' | '?' | ';' | ',')
        };
        rest = &path[path.find(ends).unwrap_or(path.len())..];
        from = 0;
    }
    stretches.push(rest);
    stretches
}

fn of_plain_text(text: &str, found: &mut BTreeSet<String>) {
    for run in text.split(|c: char| !is_path_char(c)) {
        match path(run) {
            Some(path) => {
                found.insert(path.to_owned());
            }
            None => {
                let words = run.split(|c: char| !is_word_char(c));
                found.extend(words.filter(|word| is_reference(word)).map(str::to_owned));
            }
        }
    }
}

/// Whether a character can be part of a path. A colon cannot: a line number or a part of a URL follows it.
fn is_path_char(c: char) -> bool {
    is_word_char(c) || matches!(c, '.' | '/' | '-' | '~' | '@' | '+')
}

/// Whether a character can be part of a name or number.
pub(crate) fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the path in a run of path characters, without surrounding punctuation.
fn path(run: &str) -> Option<&str> {
    let path = run.strip_prefix("./").unwrap_or(run);
    let path = path.trim_end_matches(['.', '-', '/', '+', '@']);
    let inner = path.trim_start_matches(['/', '.', '~']);
    let lettered = inner.chars().any(char::is_alphabetic);
    // A single name after the root, as in `/etc`, is a path; so is `~/notes`. `and/or` is not, although it looks like
    // one.
    let known = path.starts_with("/dev/");
    (path.contains('/') && lettered && inner.len() >= 3 && !known).then_some(path)
}

fn is_reference(word: &str) -> bool {
    let bytes = word.as_bytes();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    if digits == bytes.len() {
        return digits >= NUMBER && !is_common_number(word);
    }
    if bytes.len() >= HEX && digits > 0 && bytes.iter().all(u8::is_ascii_hexdigit) {
        return true;
    }
    let starts_a_name = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    starts_a_name && word.chars().count() >= IDENTIFIER && (has_underscore(word) || has_inner_capital(word))
}

fn has_underscore(word: &str) -> bool {
    word.trim_matches('_').contains('_')
}

/// Whether a word has a capital after the first letter and is not all capitals.
fn has_inner_capital(word: &str) -> bool {
    word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase)
}

/// Whether the match at `start..end` of `text` is a whole name, so that `1234` is not found in `912345`. More of a path
/// may precede a path: a model that saw `/home/me/src/lib.rs` has seen `src/lib.rs`.
pub(crate) fn is_whole_name(text: &str, start: usize, end: usize) -> bool {
    let before = text[..start].chars().next_back();
    let after = text[end..].chars().next();
    !before.is_some_and(is_word_char) && !after.is_some_and(is_word_char)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{is_whole_name, of_input};

    #[test]
    fn a_reference_is_a_path_an_identifier_a_number_or_a_hash() {
        let input = json!({
            "command": "git show 3fa9c01:./src/window/view.rs | grep -n read_to_end && kill 48213; ls /etc ../up/x",
            "pattern": "HashMap|parseWindow|short_a|SCREAMING|defaced|12|_private_name_",
            "nested": [{ "line": 40_960 }, true, null],
            "and": "either/or, e.g. https://example.org/a/b.",
        });
        let found: Vec<String> = of_input(&input).into_iter().collect();
        let expected = [
            "../up/x",
            "//example.org/a/b",
            "/etc",
            "3fa9c01",
            "40960",
            "48213",
            "_private_name_",
            "either/or",
            "parseWindow",
            "read_to_end",
            "src/window/view.rs",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn common_knowledge_is_not_a_reference() {
        let input = json!({
            "command": "cat x 2>/dev/null; sleep 1500; date -d 2026; head -c 65536; nc -z host 20000 12000 4817",
            "path": "C:\\Users\\someName\\AppData\\my_project_dir\\main.rs and https://a/b",
            "code": "printf(\"a:\\n long_enough_name\")",
        });
        let found: Vec<String> = of_input(&input).into_iter().collect();
        assert_eq!(found, ["//a/b", "4817", "long_enough_name"]);
    }

    #[test]
    fn only_whole_names_match() {
        let whole = |text: &str, what: &str| {
            let start = text.find(what).unwrap_or_default();
            is_whole_name(text, start, start + what.len())
        };
        assert!(whole("in /home/me/src/lib.rs:12", "src/lib.rs"));
        assert!(whole("(read_to_end)", "read_to_end"));
        assert!(!whole("912345", "1234") && !whole("src/lib.rss", "src/lib.rs"));
        assert!(!whole("éread_to_end", "read_to_end"));
    }
}
