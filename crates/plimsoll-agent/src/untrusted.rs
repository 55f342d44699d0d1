//! Text from outside: from servers and hooks.

/// Removes control characters and shortens a text.
///
/// Invisible characters and those that change the direction of writing are removed too: otherwise the user would see
/// another text than the model.
pub(crate) fn clean(text: &str, longest: usize) -> String {
    let is_hidden = |c: char| {
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
            || matches!(c, '\u{e0000}'..='\u{e007f}')
    };
    let kept: String =
        text.chars().filter(|c| (!c.is_control() || matches!(c, '\n' | '\t')) && !is_hidden(*c)).collect();
    let kept = kept.trim();
    match kept.char_indices().nth(longest) {
        Some((end, _)) => format!("{} […]", kept[..end].trim_end()),
        None => kept.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn invisible_characters_are_removed_and_long_texts_are_cut() {
        assert_eq!(clean("a\r\nb\tc\u{1b}[2J\u{202e}\u{e0041}", 20), "a\nb\tc[2J");
        assert_eq!(clean("one two three", 7), "one two […]");
        assert_eq!(clean(" \u{0} ", 7), "");
    }
}
