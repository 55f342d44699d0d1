//! Rules from the text of a flag, from an answer of the user, and for suggestions.

use std::path::Path;

use thiserror::Error;

use super::command::{is_simple, plain_command};
use super::{Action, PermissionRequest, PermissionRule, Subject};
use crate::origin::Origin;

/// Error for a text that is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` does not say what to allow: write `all`, a tool such as `bash`, or `TOOL:PATTERN` such as `bash:git *`"
)]
pub struct BadRule(String);

/// Parses the value of `--allow`: `all`, `TOOL` or `TOOL:PATTERN`. A path may begin with `~/` if there is a home.
pub fn parse_allow(text: &str, home: Option<&Path>) -> Result<PermissionRule, BadRule> {
    let (tool, pattern) = match text.split_once(':') {
        Some((tool, pattern)) => (tool.trim(), pattern.trim()),
        None => (text.trim(), "*"),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-*".contains(c);
    if tool.is_empty() || pattern.is_empty() || !tool.chars().all(is_name) {
        return Err(BadRule(text.to_owned()));
    }
    let tool = if tool == "all" { "*" } else { tool };
    let pattern = match (pattern.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) if tool != "bash" => home.join(rest).display().to_string(),
        _ => pattern.to_owned(),
    };
    // A directory includes everything in it.
    let pattern = match pattern.strip_suffix('/') {
        Some(directory) if tool != "bash" => format!("{directory}/*"),
        _ => pattern,
    };
    Ok(PermissionRule::new(tool, pattern, Action::Allow, Origin::Flag("--allow")))
}

impl PermissionRule {
    /// Returns the rule that the user agrees to with "always" when asked about a call.
    pub fn remembered_for(request: PermissionRequest<'_>) -> PermissionRule {
        PermissionRule { origin: Origin::Answer, ..rule_for(request) }
    }

    /// Returns the rule to suggest for a flag or a file.
    ///
    /// Such a rule applies literally. A remembered one does not cover options with which the same program does more,
    /// and this one would, so a command that has such options is suggested literally.
    pub fn suggested_for(request: PermissionRequest<'_>) -> PermissionRule {
        let rule = rule_for(request);
        match request.subject {
            Subject::Command(command) if can_exceed_answer(command.trim()) => {
                PermissionRule { pattern: literal(command.trim()), ..rule }
            }
            _ => rule,
        }
    }
}

/// Returns the narrowest rule that would allow such calls and is worth remembering.
pub(super) fn rule_for(request: PermissionRequest<'_>) -> PermissionRule {
    let pattern = match request.subject {
        Subject::Path { real, .. } => {
            let inside = real.strip_prefix(request.project).unwrap_or(real).display().to_string();
            match (real.is_dir(), inside.is_empty()) {
                (true, false) => format!("{}/*", literal(&inside)),
                (_, true) => "*".into(),
                (false, false) => literal(&inside),
            }
        }
        Subject::Command(command) => command_pattern(command.trim()),
        Subject::Address(address) => match address.split_once("://") {
            // An address without a path covers all of its pages.
            Some((scheme, rest)) => {
                format!("{scheme}://{}/*", rest.split(['/', '?', '#']).next().unwrap_or(rest))
            }
            None => address.clone(),
        },
        Subject::Name(name) => name.clone(),
        Subject::None => "*".into(),
    };
    PermissionRule::new(request.tool, pattern, Action::Allow, Origin::Flag("--allow"))
}

/// Returns a pattern that matches only this text: a name that a model chose must not widen the rule that the user
/// agrees to.
fn literal(text: &str) -> String {
    text.replace('*', "?")
}

/// Returns the pattern for a command: with any arguments if those can do no more than what was asked, otherwise the
/// literal command.
///
/// A list of harmless programs decides. The opposite, a list of programs that run others, was never complete: `sed` has
/// a command `e`, `sort` compresses with a program it is given, `rg` has `--pre`. A line of several commands is taken
/// literally, because a rule about its first word would allow every line.
fn command_pattern(command: &str) -> String {
    if !is_simple(command) {
        return command.to_owned();
    }
    let mut words = command.split_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let has_command =
        || HARMLESS_COMMANDS.iter().any(|(program, all)| *program == first && all.contains(&second));
    if HARMLESS.contains(&first) {
        format!("{first} *")
    } else if has_command() && !exceeds_answer(command) {
        format!("{first} {second} *")
    } else {
        literal(command)
    }
}

/// Programs that run no other program and change no existing file, whatever their arguments. `pytest` runs the
/// project's code, which is what the user agreed to.
const HARMLESS: [&str; 50] = [
    "basename",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "comm",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expr",
    "false",
    "fgrep",
    "fold",
    "free",
    "grep",
    "head",
    "hexdump",
    "id",
    "join",
    "jq",
    "ls",
    "md5sum",
    "mkdir",
    "nl",
    "nproc",
    "od",
    "paste",
    "printf",
    "ps",
    "pwd",
    "pytest",
    "readlink",
    "realpath",
    "rev",
    "seq",
    "sha1sum",
    "sha256sum",
    "sleep",
    "stat",
    "tac",
    "tail",
    "test",
    "touch",
    "true",
    "wc",
];

/// Subcommands for which the same holds: agreeing to `git status` does not cover `git push`. `cargo test` runs the
/// project's code, as `pytest` does.
const HARMLESS_COMMANDS: [(&str, &[&str]); 3] = [
    (
        "git",
        &[
            "add",
            "blame",
            "commit",
            "describe",
            "diff",
            "log",
            "ls-files",
            "rev-parse",
            "shortlog",
            "show",
            "status",
        ],
    ),
    ("cargo", &["bench", "build", "check", "clippy", "doc", "fmt", "metadata", "test", "tree"]),
    ("go", &["test", "version"]),
];

/// Returns whether a program has options with which it does more than the user agreed to.
fn can_exceed_answer(command: &str) -> bool {
    command.starts_with("git ")
}

/// Returns whether a command that matches a pattern of [`HARMLESS_COMMANDS`] does more than the user agreed to: `git
/// log
/// --output=FILE` writes, and other options run programs of git's configuration. Git accepts abbreviated options. A
/// file name may look like an option as well, so a glob could expand to one.
pub(super) fn exceeds_answer(command: &str) -> bool {
    let plain = plain_command(command);
    let is_effect = |word: &str| ["--ou", "--ext", "--textc"].iter().any(|begin| word.starts_with(begin));
    can_exceed_answer(&plain) && (plain.contains(['*', '?', '[']) || plain.split(' ').any(is_effect))
}
