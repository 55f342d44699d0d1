//! Command lines as the patterns of rules are matched against them.

use super::matches;

/// Returns whether a pattern matches from any word of a line, or of one of its commands.
pub(super) fn is_within(pattern: &str, line: &str) -> bool {
    let anything_after = format!("{pattern}*");
    let plain = plain_command(line);
    // `{rm,a}` is `rm a`, and each command of a line is matched without the next.
    let separators = [';', '&', '|', '(', ')', '{', '}', '`', '<', '>'];
    let listed = plain.replace(',', " ");
    let commands = plain.split(separators).chain(listed.split(separators)).map(str::trim);
    std::iter::once(plain.as_str()).chain(commands).any(|text| {
        let is_inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let mut before = None;
        text.char_indices().any(|(at, c)| {
            let begins = !before.is_some_and(is_inner) && !c.is_whitespace();
            before = Some(c);
            begins && (matches(pattern, &text[at..]) || matches(&anything_after, &text[at..]))
        })
    })
}

/// Returns a command without what a shell removes: quotes, backslashes, escaped line breaks, repeated spaces.
pub(super) fn plain_command(command: &str) -> String {
    let spaced = command.replace("\\\n", "").replace("${IFS}", " ").replace("$IFS", " ");
    let spaced = spaced.replace(['\n', '\r'], ";");
    let bare: String = spaced.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
    bare.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether a command line is one command.
pub(super) fn is_simple(command: &str) -> bool {
    !command.contains([';', '&', '|', '<', '>', '`', '\n', '\r', '(', ')', '{', '}', '$'])
}
