//! Rules as they are written for a flag, and the rule that a person's yes or a hint stands for.

use std::path::Path;

use plimsoll_config::{Action, Origin, PermissionRule};
use thiserror::Error;

use super::Subject;
use super::command::{is_simple, plain_command};

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` does not say what to allow: write `all`, a tool such as `bash`, or `TOOL:PATTERN` such as `bash:git *`"
)]
pub struct BadRule(String);

/// The rule that `--allow` names: `all`, `TOOL` or `TOOL:PATTERN`. A path may begin with `~/` where there is a home.
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
    // A directory is meant with what is in it; the home is written as `~` in rules everywhere.
    let pattern = match (pattern.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) if tool != "bash" => home.join(rest).display().to_string(),
        _ => pattern.to_owned(),
    };
    let pattern = match pattern.strip_suffix('/') {
        Some(folder) if tool != "bash" => format!("{folder}/*"),
        _ => pattern,
    };
    Ok(PermissionRule {
        tool: tool.to_owned(),
        pattern,
        action: Action::Allow,
        origin: Origin::Flag("--allow"),
    })
}

/// What a person allows for good when they are asked about a call.
pub(crate) fn remembered_rule(tool: &str, subject: &Subject, project: &Path) -> PermissionRule {
    PermissionRule { origin: Origin::Answer, ..rule_for(tool, subject, project) }
}

/// The rule to suggest for a flag or a file. Such a rule is taken as it is written: what [`exceeds_answer`] is asked again
/// about after a person's yes would be allowed by it, so a command that could do so is suggested as it stands.
pub(super) fn suggested_rule(tool: &str, subject: &Subject, project: &Path) -> PermissionRule {
    let rule = rule_for(tool, subject, project);
    match subject {
        Subject::Command(command) if can_exceed_answer(command.trim()) => {
            PermissionRule { pattern: literal(command.trim()), ..rule }
        }
        _ => rule,
    }
}

/// The narrowest rule that would allow such calls and is worth remembering.
pub(super) fn rule_for(tool: &str, subject: &Subject, project: &Path) -> PermissionRule {
    let pattern = match subject {
        Subject::Path { real, .. } => {
            let inside = real.strip_prefix(project).unwrap_or(real).display().to_string();
            match (real.is_dir(), inside.is_empty()) {
                (true, false) => format!("{}/*", literal(&inside)),
                (_, true) => "*".into(),
                (false, false) => literal(&inside),
            }
        }
        Subject::Command(command) => command_pattern(command.trim()),
        Subject::Address(address) => match address.split_once("://") {
            // An address without a path is meant with all of its pages.
            Some((scheme, rest)) => {
                format!("{scheme}://{}/*", rest.split(['/', '?', '#']).next().unwrap_or(rest))
            }
            None => address.clone(),
        },
        Subject::Name(name) => name.clone(),
        Subject::None => "*".into(),
    };
    let origin = Origin::Flag("--allow");
    PermissionRule { tool: tool.to_owned(), pattern, action: Action::Allow, origin }
}

/// A text as a pattern of itself alone: what a model names must not widen the rule that a person agrees to.
fn literal(text: &str) -> String {
    text.replace('*', "?")
}

/// The pattern for a command: with all other arguments where those can do no more than what was asked, and otherwise the
/// command as it stands.
///
/// That is decided by a list of what is known to be harmless. There was one of programs that run others, and it was never
/// complete: `sed` has a command `e`, `sort` compresses with a program it is given, `rg` has `--pre`. A line of several commands
/// is taken as it stands, for a rule about its first word would allow every line.
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

/// Programs that run no other and change no file that is there, whatever their arguments are. `pytest` runs what the project
/// says, which is what was agreed to.
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

/// Of programs with commands of their own, those commands for which the same holds: a yes to `git status` is none to
/// `git push`. What `cargo test` runs is the project, as with `pytest`.
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

/// Whether a program has options with which it does more than what was asked.
fn can_exceed_answer(command: &str) -> bool {
    command.starts_with("git ")
}

/// Whether a command that fits a pattern of [`HARMLESS_COMMANDS`] does more than what was asked: `git log --output=FILE` writes,
/// and other options run programs of git's configuration. Git takes the beginning of an option for the whole. The name of a
/// file may be an option as well, so what the shell would put names in place of is not known.
pub(super) fn exceeds_answer(command: &str) -> bool {
    let plain = plain_command(command);
    let is_effect = |word: &str| ["--ou", "--ext", "--textc"].iter().any(|begin| word.starts_with(begin));
    can_exceed_answer(&plain) && (plain.contains(['*', '?', '[']) || plain.split(' ').any(is_effect))
}
