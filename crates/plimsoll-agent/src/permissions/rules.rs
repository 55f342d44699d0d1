//! Rules as they are written for a flag, and the rule that a person's yes or a hint stands for.

use std::path::Path;

use plimsoll_config::{Action, Origin, PermissionRule};
use thiserror::Error;

use super::Subject;
use super::command::is_simple;

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

/// What a person allows for good when they are asked about a call. A line of several commands is allowed as it stands, for a
/// rule about its first word would allow every line. Of a program with commands of its own, only that command is: a yes
/// to `git status` is none to `git push`.
pub(crate) fn remembered_rule(tool: &str, subject: &Subject, project: &Path) -> PermissionRule {
    let rule = PermissionRule { origin: Origin::Answer, ..rule_for(tool, subject, project) };
    let Subject::Command(command) = subject else { return rule };
    let command = command.trim();
    if !is_simple(command) {
        return PermissionRule { pattern: command.to_owned(), ..rule };
    }
    let mut words = command.split_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next());
    if !WITH_COMMANDS.contains(&first) {
        return rule;
    }
    let is_name = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_:".contains(c));
    let pattern = match second.filter(|word| !word.starts_with('-') && is_name(word)) {
        Some(second) => format!("{first} {second} *"),
        // Options before the command may change what it runs.
        None => literal(command),
    };
    PermissionRule { pattern, ..rule }
}

/// Programs with commands of their own, some of which do much more than others.
const WITH_COMMANDS: [&str; 24] = [
    "apt",
    "apt-get",
    "aws",
    "az",
    "brew",
    "bundle",
    "cargo",
    "composer",
    "dotnet",
    "gcloud",
    "gh",
    "git",
    "go",
    "gradle",
    "helm",
    "jj",
    "kubectl",
    "mvn",
    "pip",
    "pnpm",
    "poetry",
    "systemctl",
    "terraform",
    "yarn",
];

/// The narrowest rule that would allow such calls and is worth writing down.
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
        Subject::Command(command) if is_simple(command) => match command.split_whitespace().next() {
            Some(word) if !runs_others(word) => format!("{} *", literal(word)),
            _ => literal(command.trim()),
        },
        Subject::Address(address) => match address.split_once("://") {
            // An address without a path is meant with all of its pages.
            Some((scheme, rest)) => {
                format!("{scheme}://{}/*", rest.split(['/', '?', '#']).next().unwrap_or(rest))
            }
            None => address.clone(),
        },
        Subject::Name(name) => name.clone(),
        Subject::Command(_) | Subject::None => "*".into(),
    };
    let origin = Origin::Flag("--allow");
    PermissionRule { tool: tool.to_owned(), pattern, action: Action::Allow, origin }
}

/// A text as a pattern of itself alone: what a model names must not widen the rule that a person agrees to.
fn literal(text: &str) -> String {
    text.replace('*', "?")
}

/// Programs that run what their arguments say; a rule for such a word would be a rule for everything.
const RUNNERS: [&str; 56] = [
    "ash", "awk", "bash", "builtin", "busybox", "chroot", "command", "dash", "docker", "doas", "env", "eval",
    "exec", "find", "fish", "ionice", "ksh", "nice", "node", "nohup", "npx", "parallel", "perl", "php",
    "python", "python3", "ruby", "setsid", "sh", "source", "ssh", "stdbuf", "strace", "su", "sudo", "time",
    "timeout", "watch", "xargs", "zsh", "bun", "bunx", "deno", "entr", "gawk", "just", "lua", "make", "mawk",
    "npm", "script", "tar", "tclsh", "unshare", "uv", "uvx",
];

fn runs_others(word: &str) -> bool {
    let bare: String = word.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
    let name = bare.rsplit('/').next().unwrap_or(&bare);
    // A variable before a command says nothing of the command.
    let is_python = name.starts_with("python");
    bare.contains('=') || name == "." || is_python || RUNNERS.contains(&name)
}
