//! Parsing of a typed line: a prompt or a command.

use super::messages::COMMANDS;
use plimsoll_config::nearest;

/// A typed line.
#[derive(Debug, PartialEq)]
pub(super) enum Typed<'a> {
    /// An empty line.
    Nothing,
    /// A prompt for the model.
    Words(&'a str),
    /// A command and its input.
    Command(&'static str, &'a str),
    /// An unknown command, and the most similar known one.
    Unknown(&'a str, Option<&'static str>),
}

/// Parses a line.
pub(super) fn parse(line: &str) -> Typed<'_> {
    let line = line.trim();
    let Some(rest) = line.strip_prefix('/') else {
        return if line.is_empty() { Typed::Nothing } else { Typed::Words(line) };
    };
    if rest.starts_with('/') {
        return Typed::Words(rest);
    }
    let (name, input) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let name_known = match name {
        "quit" | "q" => "exit",
        "clear" => "new",
        "?" | "h" => "help",
        name => name,
    };
    match COMMANDS.iter().find(|command| command.name == name_known) {
        Some(command) => Typed::Command(command.name, input.trim()),
        None => {
            let near = nearest(name, COMMANDS.iter().map(|command| command.name));
            Typed::Unknown(name, near)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Typed, parse};

    #[test]
    fn a_slash_begins_a_command_and_two_escape_it() {
        assert_eq!(parse("  hello\nthere "), Typed::Words("hello\nthere"));
        assert_eq!(parse("/compact  the tests "), Typed::Command("compact", "the tests"));
        assert_eq!(parse("/quit"), Typed::Command("exit", ""));
        assert_eq!(parse("//etc/hosts is odd"), Typed::Words("/etc/hosts is odd"));
        assert_eq!(parse("/compcat x"), Typed::Unknown("compcat", Some("compact")));
        assert_eq!(parse("/xyzzyx"), Typed::Unknown("xyzzyx", None));
        assert_eq!(parse("   "), Typed::Nothing);
        assert_eq!(parse("/fork go\non"), Typed::Command("fork", "go\non"));
    }
}
