//! Text that is safe to print.
//!
//! A transcript may hold anything, and a terminal obeys escape sequences.

/// Returns the text without control characters and bidirectional overrides.
///
/// ```
/// assert_eq!(plimsoll::printable("a\u{1b}[31m \u{202e}txt\n"), "a[31m txt\n");
/// ```
pub fn printable(text: &str) -> String {
    text.chars().filter(|c| is_printable(*c)).collect()
}

/// Whether a character is safe to print: not a control character other than newline and tab, not a bidirectional override.
pub fn is_printable(c: char) -> bool {
    let turns_direction = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    matches!(c, '\n' | '\t') || !(c.is_control() || turns_direction)
}

/// Returns the first words of a text on one line, at most `most` characters.
///
/// ```
/// assert_eq!(plimsoll::first_words("  fix\u{1b}[31m \n the   build", 20), "fix[31m the build");
/// ```
pub fn first_words(text: &str, most: usize) -> String {
    let mut words = String::new();
    let mut length = 0;
    for word in text.split_whitespace().map(printable).filter(|word| !word.is_empty()) {
        if length >= most {
            break;
        }
        if length > 0 {
            words.push(' ');
            length += 1;
        }
        length += word.chars().count();
        words.push_str(&word);
    }
    if length > most { words.chars().take(most).collect() } else { words }
}
