//! Names: paths, identifiers, numbers and hashes, the words of a text that a model copies and cannot guess.
//!
//! Content that leaves the window leaves its names. A model that still sees `parse_window` or `src/view.rs:48213` can
//! use them in its next call, and knows what to recall; with a bare placeholder it would have to recall the output
//! to find out. Names that other text in the window repeats are left out: they cost tokens and add nothing.
//!
//! Extraction is linear in the text, and a name has a maximum length: a megabyte of base64 in one word is data, not a name.

use crate::fnv::Fnv;
use crate::work;

/// Longest name in bytes. Longer words are data: base64, minified code, random tokens.
const LONGEST: usize = 120;
/// Shortest identifier. Shorter ones are seldom unique to one output.
const SHORTEST_IDENTIFIER: usize = 6;
/// Shortest dotted name, such as `a.rs`.
const SHORTEST_DOTTED: usize = 4;
/// Shortest number.
const SHORTEST_NUMBER: usize = 4;
/// Shortest hash.
const SHORTEST_HASH: usize = 7;
/// Path suffixes that count as mentioned with the path: `src/lib.rs` and `lib.rs` for `/repo/src/lib.rs`.
const SUFFIXES: usize = 8;

/// Kinds of names, the most useful to continue with first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameKind {
    Path,
    Identifier,
    Number,
}

/// Calls `visit` for each name in `text`, in order, repeats included.
pub(crate) fn each_name<'t>(text: &'t str, mut visit: impl FnMut(&'t str, NameKind)) {
    let mut start = None;
    let mut chars = work::read(text).char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if is_run_char(c) {
            start.get_or_insert(at);
            continue;
        }
        if let Some(start) = start.take() {
            run(&text[start..at], &mut visit);
        }
        // An escape of JSON is one character: `\nfoo_bar` is not the name `nfoo_bar`.
        if c == '\\' && chars.peek().is_some_and(|(_, next)| matches!(next, 'n' | 'r' | 't' | 'u')) {
            chars.next();
        }
    }
    if let Some(start) = start {
        run(&text[start..], &mut visit);
    }
}

/// Characters of words and paths. A colon ends a name: a line number or the rest of a URL follows it.
fn is_run_char(c: char) -> bool {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '.' | '/' | '-' | '~' | '@' | '+' => true,
        c => !c.is_ascii() && c.is_alphanumeric(),
    }
}

fn run<'t>(run: &'t str, visit: &mut impl FnMut(&'t str, NameKind)) {
    let word = run.strip_prefix("./").unwrap_or(run);
    let word = word.trim_end_matches(['.', '-', '/', '+', '@', '~']).trim_start_matches(['-', '+', '@']);
    if word.is_empty() {
        return;
    }
    if word.contains('/') {
        let inner = word.trim_start_matches(['/', '.', '~']);
        let is_path =
            inner.len() >= 3 && inner.chars().any(char::is_alphabetic) && !word.starts_with("/dev/");
        if is_path && word.len() <= LONGEST {
            visit(word, NameKind::Path);
        }
        return;
    }
    let word = word.trim_start_matches('.');
    if let Some(kind) = kind_of_word(word) {
        visit(word, kind);
        return;
    }
    // A compound that is not a name may contain names: `x-my_header`, `old_name-new_name`.
    for piece in word.split(['-', '+', '@', '~', '.']).filter(|piece| piece.len() < word.len()) {
        if let Some(kind) = kind_of_word(piece) {
            visit(piece, kind);
        }
    }
}

/// The kind of a word without slashes; `None` if it is not a name.
fn kind_of_word(word: &str) -> Option<NameKind> {
    let bytes = word.as_bytes();
    if bytes.len() < SHORTEST_DOTTED || bytes.len() > LONGEST {
        return None;
    }
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_number = bytes.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'_'));
    if is_number {
        let is_plain = digits == bytes.len();
        let is_kept = digits >= SHORTEST_NUMBER && !(is_plain && is_common_number(word));
        return is_kept.then_some(NameKind::Number);
    }
    if digits > 0 && bytes.len() >= SHORTEST_HASH && bytes.iter().all(u8::is_ascii_hexdigit) {
        return Some(NameKind::Number);
    }
    let inner = word.trim_matches(['_', '-', '.']);
    let has = |c: char| inner.contains(c);
    let is_mixed = inner.chars().skip(1).any(char::is_uppercase) && inner.chars().any(char::is_lowercase);
    let is_dotted = has('.') && !inner.contains("..");
    let is_kebab = inner.matches('-').count() >= 2 || (has('-') && digits > 0);
    let is_identifier =
        bytes.len() >= SHORTEST_IDENTIFIER && (has('_') || is_mixed || (digits > 0 && !has('-')) || is_kebab);
    (is_identifier || is_dotted).then_some(NameKind::Identifier)
}

/// Returns whether a number can be known without having read it: a year, a round number or a power of two.
pub fn is_common_number(word: &str) -> bool {
    let significant = word.trim_end_matches('0').len();
    let number: u64 = word.parse().unwrap_or(u64::MAX);
    significant <= 2 || (1900..2100).contains(&number) || number.is_power_of_two()
}

/// Hashes of the names in a text, and of the suffixes of its paths; sorted, each once.
pub(crate) fn hashes(text: &str) -> Vec<u64> {
    let mut found = Vec::new();
    each_name(text, |name, kind| {
        found.push(Fnv::of(name.as_bytes()));
        if kind == NameKind::Path {
            let suffixes = name.rmatch_indices('/').map(|(at, _)| &name[at + 1..]);
            found.extend(
                suffixes.take(SUFFIXES).filter(|suffix| !suffix.is_empty()).map(|s| Fnv::of(s.as_bytes())),
            );
        }
    });
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, each_name};

    fn names(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        each_name(text, |name, _| found.push(name));
        found
    }

    #[test]
    fn paths_identifiers_numbers_and_hashes_are_names() {
        let text = "error[E0425]: cannot find `read_to_end` in ./src/window/view.rs:48, see HashMap and 3fa9c01; pid 48213";
        assert_eq!(names(text), ["read_to_end", "src/window/view.rs", "HashMap", "3fa9c01", "48213"]);
        assert_eq!(
            names("claude-sonnet-4-5 x-session-id well-known a.rs v1.18.33 1.18.33"),
            ["claude-sonnet-4-5", "x-session-id", "a.rs", "v1.18.33", "1.18.33"]
        );
    }

    #[test]
    fn words_years_round_numbers_and_devices_are_not_names() {
        assert_eq!(
            names("The answer of 2026 is 12000 or 65536, cat x 2>/dev/null e.g. i.e. done."),
            Vec::<&str>::new()
        );
    }

    #[test]
    fn an_escaped_newline_is_not_part_of_a_name() {
        assert_eq!(
            names(r#"{"output":"first_line\nsecond_line\tthird_line"}"#),
            ["first_line", "second_line", "third_line"]
        );
    }

    #[test]
    fn a_word_of_a_megabyte_is_not_a_name() {
        let long = "Ab1".repeat(400_000);
        assert_eq!(names(&long), Vec::<&str>::new());
        let path = format!("/{}/x", "d1/".repeat(LONGEST));
        assert_eq!(names(&path), Vec::<&str>::new());
    }

    #[test]
    fn names_in_other_scripts_are_found_completely() {
        assert_eq!(names("siehe src/überblick.rs und 文件/说明.md"), ["src/überblick.rs", "文件/说明.md"]);
    }
}
