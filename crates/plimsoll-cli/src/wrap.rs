//! Word wrapping.

use console::measure_text_width;

/// Wraps text at spaces to `width` columns. Lines after the first are indented by `hang`. A word longer than a line is
/// not broken, so that ids can be copied.
pub(crate) fn wrap(text: &str, width: usize, hang: usize) -> String {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        let (mut current, mut column, mut is_first) = (indent.clone(), indent.len(), true);
        for word in line.split(' ').filter(|word| !word.is_empty()) {
            let length = measure_text_width(word);
            if !is_first && column + 1 + length > width {
                lines.push(current);
                current = format!("{indent}{}", " ".repeat(hang));
                column = indent.len() + hang;
            } else if !is_first {
                current.push(' ');
                column += 1;
            }
            current.push_str(word);
            column += length;
            is_first = false;
        }
        lines.push(current);
    }
    lines.join("\n")
}

/// Wraps a line of text as a paragraph with a final newline. Lines that follow keep its indentation, at least two columns.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    let hang = if text.starts_with(' ') { 0 } else { 2 };
    wrap(text, width, hang) + "\n"
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn words_are_wrapped_whole() {
        assert_eq!(wrap("one two three", 8, 2), "one two\n  three");
        assert_eq!(wrap("  a bb ccc\nx", 6, 0), "  a bb\n  ccc\nx");
        assert_eq!(
            wrap("x rcp_1e55d6718001ytsX1vhG9GUXP2 y", 10, 2),
            "x\n  rcp_1e55d6718001ytsX1vhG9GUXP2\n  y"
        );
        assert_eq!(wrap("文字 文字", 6, 0), "文字\n文字");
    }
}
