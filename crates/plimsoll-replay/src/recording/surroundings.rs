//! Surroundings of a reference: whether a text still shows what stood around it.
//!
//! A cleared output may leave a list of its names, and a summary may end with an index. A reference is in such a text, but the
//! line that it stood in is not. To tell the two apart without any knowledge of how lists and indexes look, each occurrence
//! has a fingerprint of the text around it, and fingerprints are compared with those of the recorded texts.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Letters and digits that count on each side of a reference. The end of its line ends them earlier.
const WIDTH: usize = 80;
/// Characters that are looked at on each side. Without a limit, a megabyte of blanks would be read for each reference
/// beside it.
const MOST_READ: usize = 4 * WIDTH;

/// A fingerprint of the reference at `start..end` of `text` together with the line around it, at most [`WIDTH`] letters and
/// digits on each side.
///
/// Blanks, punctuation and quotes do not count, so that a line is recognised with a bullet in front of it; a line may also end
/// with an escaped newline, so that the same output is recognised as plain text and inside a JSON string. A line that holds
/// nothing but the reference, as in the output of `ls`, says nothing about where the name is from: then the lines around it
/// count as well.
pub(crate) fn fingerprint(text: &str, start: usize, end: usize, reference: u32) -> u64 {
    let sides = |stop: Stop| {
        let before = side(&mut Unescaped { chars: text[..start].chars().rev(), backwards: true }, stop);
        let after = side(&mut Unescaped { chars: text[end..].chars(), backwards: false }, stop);
        (before, after)
    };
    let mut around = sides(Stop::LineEnd);
    if around.0.is_empty() && around.1.is_empty() {
        around = sides(Stop::Never);
    }
    let mut hasher = DefaultHasher::new();
    (reference, around).hash(&mut hasher);
    hasher.finish()
}

#[derive(Clone, Copy, PartialEq)]
enum Stop {
    LineEnd,
    Never,
}

/// The letters and digits on one side of a reference, nearest first.
fn side(chars: &mut dyn Iterator<Item = char>, stop: Stop) -> String {
    let within = chars.take(MOST_READ).take_while(|letter| stop == Stop::Never || *letter != '\n');
    within.filter(|letter| letter.is_alphanumeric()).take(WIDTH).collect()
}

/// Characters with escaped line ends and tabs as what they stand for. It reads in either direction, and both find the same.
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
    fn the_line_around_a_reference_is_recognised_wherever_it_stands() {
        let original = of("first line\n   12  let needle = open(path);\nlast line");
        assert_eq!(original, of("12 let needle = open(path);"));
        assert_eq!(original, of("[cleared]\n  - `12 let needle = open(path);`   \nother"));
        assert_ne!(original, of("names: path, needle, open"));
        assert_ne!(original, of("12 let needle = close(path);"));
    }

    #[test]
    fn an_output_inside_json_is_the_same_as_its_plain_text() {
        let plain = of("a\n\tsay(\"needle\", 'x');\nb");
        assert_eq!(plain, of(r#"{"output":"a\n\tsay(\"needle\", 'x');\nb"}"#));
        assert_eq!(of("see C:\\new needle now"), of(r"see C:\\new needle now"));
    }

    #[test]
    fn of_a_long_line_eighty_characters_on_each_side_count() {
        let (near, far) = ("n".repeat(80), "f".repeat(500));
        let line = |edge: &str, near: &str| of(&format!("{edge}{near}needle{near}{edge}"));
        assert_eq!(line(&far, &near), line("other edge ", &near));
        assert_ne!(line(&far, &near), line(&far, &near[1..]));
    }

    #[test]
    fn a_line_with_nothing_but_the_reference_takes_its_neighbours_in() {
        let listed = of("alpha.rs\nneedle\nomega.rs\n");
        assert_eq!(listed, of("alpha.rs\nneedle\nomega.rs"));
        assert_ne!(listed, of("names kept:\nneedle\nomega.rs\n"), "a list of names, one on each line");
        assert_ne!(listed, of("needle"));
    }

    #[test]
    fn blanks_without_end_are_not_read_to_their_end() {
        let blanks = " ".repeat(1_000_000);
        assert_eq!(of(&format!("far{blanks}needle")), of(&format!("away{blanks}needle")));
    }
}
