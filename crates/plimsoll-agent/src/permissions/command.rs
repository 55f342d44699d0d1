//! Command lines as patterns of rules are held against them.

use plimsoll_config::matches;

/// Whether what a pattern is about begins at any word of a line, or of one of its commands.
pub(super) fn is_within(pattern: &str, line: &str) -> bool {
    let anything_after = format!("{pattern}*");
    let plain = plain_command(line);
    // `{rm,a}` is `rm a`, and each command of a line is looked at without the next.
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

/// A command without what a shell takes away: quotes, backslashes, ends of lines behind them, more than one space.
pub(super) fn plain_command(command: &str) -> String {
    let spaced = command.replace("\\\n", "").replace("${IFS}", " ").replace("$IFS", " ");
    let spaced = spaced.replace(['\n', '\r'], ";");
    let bare: String = spaced.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
    bare.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a command line is one command.
pub(super) fn is_simple(command: &str) -> bool {
    !command.contains([';', '&', '|', '<', '>', '`', '\n', '\r', '(', ')', '{', '}', '$'])
}
