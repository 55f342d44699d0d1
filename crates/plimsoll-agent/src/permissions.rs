//! What an agent may do without being asked.
//!
//! Rules are read in order and the last one that matches decides, as users of OpenCode know it. Without a rule, tools
//! that only read may do so inside the project, and everything else is denied.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use globset::GlobBuilder;
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

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is made.
    Allow,
    /// It is not made.
    Deny,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The tool; none for all of them.
    pub tool: Option<String>,
    /// What the call must be about: a path with `*` and `**`, relative to the project or absolute, or a command in which
    /// `*` stands for anything. None for whatever it is about.
    pub pattern: Option<String>,
    /// What then.
    pub action: Action,
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` does not say what to allow: write `all`, a tool such as `bash`, or `TOOL:PATTERN` such as `bash:git *`"
)]
pub struct BadRule(String);

/// What is to be allowed, as `--allow` takes it: `all`, `TOOL` or `TOOL:PATTERN`.
impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Rule, BadRule> {
        let bad = || BadRule(text.to_owned());
        let (tool, pattern) = match text.split_once(':') {
            Some((tool, pattern)) => (tool.trim(), Some(pattern.trim())),
            None => (text.trim(), None),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-*".contains(c);
        if tool.is_empty() || !tool.chars().all(is_name) || pattern.is_some_and(str::is_empty) {
            return Err(bad());
        }
        let tool = (tool != "all" && tool != "*").then(|| tool.to_owned());
        Ok(Rule { tool, pattern: pattern.map(str::to_owned), action: Action::Allow })
    }
}

/// What an agent may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// The rules, the last one that matches deciding.
    pub rules: Vec<Rule>,
}

impl Permissions {
    /// Whether a call may be made.
    pub fn decide(&self, tool: &str, access: Access, subject: &Subject, project: &Path) -> Action {
        let rule = self.rules.iter().rev().find(|rule| rule.matches(tool, access, subject, project));
        match (rule, access, subject) {
            (Some(rule), _, _) => rule.action,
            (None, Access::Session, _) => Action::Allow,
            (None, Access::Read, Subject::Path(path)) if path.starts_with(project) => Action::Allow,
            (None, Access::Read | Access::Act, _) => Action::Deny,
        }
    }

    /// What `--allow` would have to say so that such a call is made.
    pub fn flag_for(tool: &str, access: Access, subject: &Subject) -> String {
        match (access, subject) {
            (Access::Read, Subject::Path(path)) => {
                let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
                format!("--allow '{tool}:{}/**'", folder.display().to_string().trim_end_matches('/'))
            }
            _ => format!("--allow {tool}"),
        }
    }
}

impl Rule {
    fn matches(&self, tool: &str, access: Access, subject: &Subject, project: &Path) -> bool {
        if self.tool.as_deref().is_some_and(|name| !wild(name, tool)) {
            return false;
        }
        match (&self.pattern, subject) {
            // A bare `read` does not open the whole disk: whatever only reads outside the project needs a pattern, or `all`.
            (None, Subject::Path(path)) if access == Access::Read && self.action == Action::Allow => {
                self.tool.is_none() || path.starts_with(project)
            }
            (None, _) => true,
            (Some(pattern), Subject::Path(path)) => path_matches(pattern, path, project),
            (Some(pattern), Subject::Command(command)) => match self.action {
                Action::Allow => is_simple(command) && wild(pattern, command.trim()),
                // What is denied stays denied wherever in a line it stands.
                Action::Deny => wild(pattern, command.trim()) || wild(&format!("*{pattern}"), command.trim()),
            },
            (Some(_), Subject::None) => false,
        }
    }
}

fn path_matches(pattern: &str, path: &Path, project: &Path) -> bool {
    let whole = if Path::new(pattern).is_absolute() {
        pattern.to_owned()
    } else {
        format!("{}/{pattern}", globset::escape(&project.display().to_string()))
    };
    // `src/**` is meant to hold for `src` itself, too.
    let folder = whole.strip_suffix("/**").map(str::to_owned);
    std::iter::once(whole).chain(folder).any(|glob| {
        let glob = GlobBuilder::new(&glob).literal_separator(true).build();
        glob.is_ok_and(|glob| glob.compile_matcher().is_match(path))
    })
}

/// Whether a command is one command: a pattern for `git *` must not let `git status; rm -r .` through.
fn is_simple(command: &str) -> bool {
    !command.contains([';', '&', '|', '<', '>', '`', '\n', '\r', '(', ')', '{', '}', '$'])
}

/// `*` stands for anything.
fn wild(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(place) => rest = &rest[place + piece.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Access, Action, Permissions, Rule, Subject};

    fn allowed(rules: &[&str], tool: &str, access: Access, subject: &Subject) -> bool {
        let permissions = Permissions { rules: rules.iter().map(|rule| rule.parse().unwrap()).collect() };
        permissions.decide(tool, access, subject, Path::new("/project")) == Action::Allow
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
        assert!(!allowed(&[], "bash", Access::Act, &command("ls")));
        assert!(allowed(&[], "recall", Access::Session, &Subject::None));
    }

    #[test]
    fn a_bare_tool_does_not_open_the_disk_for_reading() {
        assert!(!allowed(&["read"], "read", Access::Read, &path("/etc/passwd")));
        assert!(allowed(&["read:/etc/**"], "read", Access::Read, &path("/etc/passwd")));
        assert!(allowed(&["all"], "read", Access::Read, &path("/etc/passwd")));
        assert!(!allowed(&["read:/etc/*.conf"], "read", Access::Read, &path("/etc/a/b.conf")));
        assert!(allowed(&["read:/etc/**"], "list", Access::Read, &path("/project")));
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
        let deny = Rule { tool: Some("bash".into()), pattern: Some("rm *".into()), action: Action::Deny };
        let permissions = Permissions { rules: vec!["all".parse().unwrap(), deny] };
        let decide = |line| permissions.decide("bash", Access::Act, &command(line), Path::new("/project"));
        assert_eq!(
            (decide("ls"), decide("rm a"), decide("ls; rm a")),
            (Action::Allow, Action::Deny, Action::Deny)
        );
    }

    #[test]
    fn what_is_no_rule_is_said_to_be_none() {
        for bad in ["", ":git", "bash:", "ba sh", "b/a"] {
            assert!(bad.parse::<Rule>().is_err(), "{bad}");
        }
        assert_eq!("all".parse::<Rule>().unwrap().tool, None);
    }
}
