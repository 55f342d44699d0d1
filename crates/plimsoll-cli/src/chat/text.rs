//! Text of models and tools, made safe for a terminal.
//!
//! [`clean`] is for reading and removes whatever a terminal would interpret. [`visible`] is for text that the user decides
//! about: nothing may be hidden, so unusual characters are spelled out.

pub(super) use crate::wrap::wrap;

pub(super) use plimsoll::printable as clean;

/// Spells out every character that is invisible, looks like a space, or changes the appearance of others. Newlines stay.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push('\n'),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            '\u{1b}' => shown.push_str("\\e"),
            c if c.is_control() || is_hidden(c) => shown.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => shown.push(c),
        }
    }
    shown
}

/// Like [`visible`], on one line and no longer than `most` columns.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Only the beginning is examined: inputs of calls may be megabytes.
    let near: String = words.chars().take(most.saturating_mul(2)).collect();
    console::truncate_str(&visible(&near), most, "…").into_owned()
}

/// Characters without a shape, and unusual spaces.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{1680}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}'
        | '\u{2800}' | '\u{3000}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::{clean, one_line, visible};

    #[test]
    fn nothing_is_hidden_from_the_user_who_decides() {
        assert_eq!(visible("ls\u{1b}[2K\rrm -r ~"), "ls\\e[2K\\rrm -r ~");
        assert_eq!(visible("a\u{202e}b\u{200b}c\u{a0}d\u{e0041}"), "a\\u{202e}b\\u{200b}c\\u{a0}d\\u{e0041}");
        assert_eq!(visible("echo 文字\n\tls"), "echo 文字\n\\tls");
        assert_eq!(visible("\u{9b}31m\u{7f}\u{0}"), "\\u{9b}31m\\u{7f}\\u{0}");
    }

    #[test]
    fn terminal_controls_are_removed() {
        assert_eq!(clean("a\u{1b}]0;title\u{7}b\tc\n"), "a]0;titleb\tc\n");
        assert_eq!(clean("x\u{202e}y\u{2066}z"), "xyz");
        assert_eq!(clean("שלום 文字 é"), "שלום 文字 é");
    }

    #[test]
    fn a_line_is_cut_by_columns_not_by_characters() {
        assert_eq!(one_line("cargo\n test   --all", 40), "cargo test --all");
        assert_eq!(one_line("文字文字文字", 7), "文字文…");
        assert_eq!(one_line("\u{1b}[31m", 20), "\\e[31m");
    }
}
