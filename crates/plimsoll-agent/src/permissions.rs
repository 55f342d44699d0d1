//! What an agent may do, by the rules of the configuration.
//!
//! The last rule that matches decides, as users of OpenCode know it. Without a rule, tools that only read may do so inside
//! the project, and everything else is denied.

use std::path::{Path, PathBuf};

use plimsoll_config::{Action, Origin, PermissionRule, Permissions, matches};
use thiserror::Error;

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only looks at what the session itself has.
    Session,
    /// It reads files.
    Read,
    /// It changes files, runs commands, or talks to the network.
    Act,
}

/// What a call is about, as patterns of rules are held against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Nothing in particular.
    None,
    /// A file or directory, absolute and with links resolved.
    Path(PathBuf),
    /// A command line of a shell.
    Command(String),
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` does not say what to allow: write `all`, a tool such as `bash`, or `TOOL:PATTERN` such as `bash:git *`"
)]
pub struct BadRule(String);

/// OpenCode's name for reading and writing outside the project.
const OUTSIDE: &str = "external_directory";

/// The rule that `--allow` names: `all`, `TOOL` or `TOOL:PATTERN`.
pub fn parse_allow(text: &str) -> Result<PermissionRule, BadRule> {
    let (tool, pattern) = match text.split_once(':') {
        Some((tool, pattern)) => (tool.trim(), pattern.trim()),
        None => (text.trim(), "*"),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-*".contains(c);
    if tool.is_empty() || pattern.is_empty() || !tool.chars().all(is_name) {
        return Err(BadRule(text.to_owned()));
    }
    let tool = if tool == "all" { "*" } else { tool };
    Ok(PermissionRule {
        tool: tool.to_owned(),
        pattern: pattern.to_owned(),
        action: Action::Allow,
        origin: Origin::Flag("--allow"),
    })
}

/// Whether a call may be made.
pub(crate) fn decide(
    permissions: &Permissions,
    tool: &str,
    access: Access,
    subject: &Subject,
    project: &Path,
) -> Action {
    let call = Call { tool, subject, project };
    match (permissions.rules.iter().rev().find(|rule| call.fits(rule)), access) {
        (Some(rule), _) => rule.action,
        (None, Access::Session) => Action::Allow,
        (None, Access::Read) if !call.is_outside() => Action::Allow,
        (None, Access::Read | Access::Act) => Action::Deny,
    }
}

/// What `--allow` would have to say so that such a call is made.
pub(crate) fn flag_for(tool: &str, access: Access, subject: &Subject) -> String {
    match (access, subject) {
        (Access::Read, Subject::Path(path)) => {
            let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
            format!("--allow '{tool}:{}/*'", folder.display().to_string().trim_end_matches('/'))
        }
        _ => format!("--allow {tool}"),
    }
}

struct Call<'a> {
    tool: &'a str,
    subject: &'a Subject,
    project: &'a Path,
}

impl Call<'_> {
    fn is_outside(&self) -> bool {
        matches!(self.subject, Subject::Path(path) if !path.starts_with(self.project))
    }

    fn fits(&self, rule: &PermissionRule) -> bool {
        let is_allow = rule.action == Action::Allow;
        let names_tool = matches(&rule.tool, self.tool);
        match self.subject {
            Subject::None => names_tool && rule.pattern == "*",
            Subject::Path(path) if self.is_outside() => {
                // `read = "allow"` does not open the whole disk: whatever lies outside the project is allowed by a path,
                // by OpenCode's own name for it, or by a rule for everything.
                let is_meant = !is_allow || rule.pattern.starts_with('/') || rule.tool == "*";
                let by_tool = names_tool && is_meant;
                (by_tool || rule.tool == OUTSIDE) && path_fits(&rule.pattern, path)
            }
            Subject::Path(path) => {
                let inside = path.strip_prefix(self.project).unwrap_or(path);
                names_tool && (path_fits(&rule.pattern, inside) || path_fits(&rule.pattern, path))
            }
            Subject::Command(command) => {
                let command = command.trim();
                let fits = matches(&rule.pattern, command);
                names_tool
                    && match rule.action {
                        // A pattern for `git *` must not let `git status; rm -r .` through.
                        Action::Allow => rule.pattern == "*" || (fits && is_simple(command)),
                        // What is denied stays denied wherever in a line it stands.
                        Action::Ask | Action::Deny => fits || matches(&format!("*{}", rule.pattern), command),
                    }
            }
        }
    }
}

fn path_fits(pattern: &str, path: &Path) -> bool {
    let text = path.to_string_lossy();
    // `src/*` is meant to hold for `src` itself, too.
    matches(pattern, &text) || pattern.strip_suffix("/*").is_some_and(|folder| matches(folder, &text))
}

/// Whether a command line is one command.
fn is_simple(command: &str) -> bool {
    !command.contains([';', '&', '|', '<', '>', '`', '\n', '\r', '(', ')', '{', '}', '$'])
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use plimsoll_config::{Action, Permissions};

    use super::{Access, Subject, decide, parse_allow};

    fn allowed(rules: &[&str], tool: &str, access: Access, subject: &Subject) -> bool {
        let permissions =
            Permissions { rules: rules.iter().map(|rule| parse_allow(rule).unwrap()).collect() };
        decide(&permissions, tool, access, subject, Path::new("/project")) == Action::Allow
    }

    fn path(path: &str) -> Subject {
        Subject::Path(PathBuf::from(path))
    }

    fn command(command: &str) -> Subject {
        Subject::Command(command.into())
    }

    #[test]
    fn reading_in_the_project_is_allowed_and_nothing_else() {
        assert!(allowed(&[], "read", Access::Read, &path("/project/src/a.rs")));
        assert!(!allowed(&[], "read", Access::Read, &path("/etc/passwd")));
        assert!(!allowed(&[], "read", Access::Read, &path("/project-two/a.rs")));
        assert!(!allowed(&[], "bash", Access::Act, &command("ls")));
        assert!(allowed(&[], "recall", Access::Session, &Subject::None));
    }

    #[test]
    fn a_bare_tool_does_not_open_the_disk_for_reading() {
        assert!(!allowed(&["read"], "read", Access::Read, &path("/etc/passwd")));
        assert!(allowed(&["read:/etc/*"], "read", Access::Read, &path("/etc/passwd")));
        assert!(allowed(&["read:/etc/*"], "read", Access::Read, &path("/etc")));
        assert!(allowed(&["external_directory:/etc/*"], "read", Access::Read, &path("/etc/passwd")));
        assert!(allowed(&["all"], "read", Access::Read, &path("/etc/passwd")));
        assert!(!allowed(&["read:/etc/*.conf"], "read", Access::Read, &path("/etc/passwd")));
        assert!(allowed(&["read:/etc/*"], "list", Access::Read, &path("/project")));
    }

    #[test]
    fn a_pattern_for_a_command_allows_one_command_only() {
        let git = |line| allowed(&["bash:git *"], "bash", Access::Act, &command(line));
        assert!(git("git status") && git("git log --oneline -5"));
        assert!(
            !git("git status; rm -r .") && !git("git log | sh") && !git("git $(rm -r .)") && !git("gitk")
        );
        assert!(allowed(&["bash"], "bash", Access::Act, &command("git status; ls | wc")));
    }

    #[test]
    fn the_last_rule_that_matches_decides() {
        let mut deny = parse_allow("bash:rm *").unwrap();
        deny.action = Action::Deny;
        let permissions = Permissions { rules: vec![parse_allow("all").unwrap(), deny] };
        let decide = |line| decide(&permissions, "bash", Access::Act, &command(line), Path::new("/project"));
        assert_eq!(
            (decide("ls"), decide("rm a"), decide("ls; rm a")),
            (Action::Allow, Action::Deny, Action::Deny)
        );
    }

    #[test]
    fn what_is_no_rule_is_said_to_be_none() {
        for bad in ["", ":git", "bash:", "ba sh", "b/a"] {
            assert!(parse_allow(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_allow("all").unwrap().tool, "*");
    }
}
