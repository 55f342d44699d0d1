//! Fingerprints of the text around references.
//!
//! A cleared output may leave a list of its names, and a summary may end with an index. A reference is in such a text,
//! but the line that it came from is not. To distinguish the two without knowing how lists and indexes look, each
//! occurrence gets a fingerprint of the text around it, which is compared with those of the recorded texts.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum letters and digits on each side of a reference that count. The end of its line also ends them.
const WIDTH: usize = 80;
/// Maximum characters to read on each side. Without this limit, a megabyte of blanks would be read for each reference
/// next to it.
const MAX_READ: usize = 4 * WIDTH;

/// Returns a fingerprint of the reference at `start..end` of `text` with its line, at most [`WIDTH`] letters and digits
/// on each side.
///
/// Blanks, punctuation and quotes do not count, so that a line is recognised with a bullet before it. An escaped
/// newline also ends a line, so that an output has the same fingerprint as plain text and inside a JSON string. A line
/// that contains only the reference, as in the output of `ls`, says nothing about the origin of the name: then the
/// adjacent lines count as well.
///
/// Otherwise a policy that shows no output but lists its names would count as if it showed everything.
pub(crate) fn fingerprint(text: &str, start: usize, end: usize, reference: u32) -> u64 {
    let sides = |stop: Boundary| {
        let before = side(&mut Unescaped { chars: text[..start].chars().rev(), backwards: true }, stop);
        let after = side(&mut Unescaped { chars: text[end..].chars(), backwards: false }, stop);
        (before, after)
    };
    let mut around = sides(Boundary::LineEnd);
    if around.0.is_empty() && around.1.is_empty() {
        around = sides(Boundary::Never);
    }
    let mut hasher = DefaultHasher::new();
    (reference, around).hash(&mut hasher);
    hasher.finish()
}

#[derive(Clone, Copy, PartialEq)]
enum Boundary {
    LineEnd,
    Never,
}

/// Returns the letters and digits on one side of a reference, nearest first.
fn side(chars: &mut dyn Iterator<Item = char>, stop: Boundary) -> String {
    let within = chars.take(MAX_READ).take_while(|letter| stop == Boundary::Never || *letter != '\n');
    within.filter(|letter| letter.is_alphanumeric()).take(WIDTH).collect()
}

/// Iterator that replaces escaped line ends and tabs by the characters. It works in either direction with the same
/// result.
struct Unescaped<I: Iterator<Item = char> + Clone> {
    chars: I,
    backwards: bool,
}

impl<I: Iterator<Item = char> + Clone> Iterator for Unescaped<I> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let letter = self.chars.next()?;
        let mut ahead = self.chars.clone();
        let name = match (self.backwards, letter, ahead.next()) {
            (true, name, Some('\\')) | (false, '\\', Some(name)) => name,
            _ => return Some(letter),
        };
        let escaped = match name {
            'n' | 'r' => '\n',
            't' => '\t',
            _ => return Some(letter),
        };
        self.chars = ahead;
        Some(escaped)
    }
}

#[cfg(test)]
mod tests {
    use super::fingerprint;

    fn of(text: &str) -> u64 {
        let start = text.find("needle").unwrap_or_default();
        fingerprint(text, start, start + "needle".len(), 7)
    }

    #[test]
    fn the_line_around_a_reference_is_recognised_in_any_text() {
        let original = of("first line\n   12  let needle = open(path);\nlast line");
        assert_eq!(original, of("12 let needle = open(path);"));
        assert_eq!(original, of("[cleared]\n  - `12 let needle = open(path);`   \nother"));
        assert_ne!(original, of("names: path, needle, open"));
        assert_ne!(original, of("12 let needle = close(path);"));
    }

    #[test]
    fn an_output_inside_json_has_the_same_fingerprint_as_plain_text() {
        let plain = of("a\n\tsay(\"needle\", 'x');\nb");
        assert_eq!(plain, of(r#"{"output":"a\n\tsay(\"needle\", 'x');\nb"}"#));
        assert_eq!(of("see C:\\new needle now"), of(r"see C:\\new needle now"));
    }

    #[test]
    fn eighty_characters_on_each_side_of_a_long_line_count() {
        let (near, far) = ("n".repeat(80), "f".repeat(500));
        let line = |edge: &str, near: &str| of(&format!("{edge}{near}needle{near}{edge}"));
        assert_eq!(line(&far, &near), line("other edge ", &near));
        assert_ne!(line(&far, &near), line(&far, &near[1..]));
    }

    #[test]
    fn a_line_with_only_the_reference_includes_adjacent_lines() {
        let listed = of("alpha.rs\nneedle\nomega.rs\n");
        assert_eq!(listed, of("alpha.rs\nneedle\nomega.rs"));
        assert_ne!(listed, of("names kept:\nneedle\nomega.rs\n"), "a list of names, one on each line");
        assert_ne!(listed, of("needle"));
    }

    #[test]
    fn long_runs_of_blanks_are_not_read_to_their_end() {
        let blanks = " ".repeat(1_000_000);
        assert_eq!(of(&format!("far{blanks}needle")), of(&format!("away{blanks}needle")));
    }
}
