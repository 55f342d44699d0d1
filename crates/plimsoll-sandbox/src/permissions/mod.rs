//! Decides whether a tool call may be made.
//!
//! The last rule that matches decides, as in OpenCode. Without a rule, tools that only read may do so inside the
//! project, and everything else is asked. If no user can be asked, that is a denial.

mod command;
mod guarded;
mod rule;
mod suggest;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::origin::Origin;
use command::{is_simple, is_within};

pub use rule::{Action, PermissionRule, Permissions, matches};
pub use suggest::{BadRule, parse_allow};

/// OpenCode's tool name for rules about reading and writing outside the project.
pub const EXTERNAL_DIRECTORY: &str = "external_directory";

/// Effect of a tool on the world.
///
/// Exhaustive, so that a new kind of access cannot be treated as reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only what belongs to the session itself.
    Session,
    /// Reads files.
    Read,
    /// Changes files, runs commands or uses the network.
    Act,
}

/// Object of a call, which the patterns of rules are matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// The call has no object.
    None,
    /// A file or directory.
    Path {
        /// The path as named, absolute and without `..`. A denial of this name holds wherever a link leads.
        named: PathBuf,
        /// The path with links resolved, which is what gets opened.
        real: PathBuf,
    },
    /// A command line of a shell.
    Command(String),
    /// A network address.
    Address(String),
    /// Something that has a name, such as a skill.
    Name(String),
}

impl Subject {
    /// Describes the subject for the user; `None` if there is none.
    pub fn describe(&self) -> Option<String> {
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

/// A tool call that needs a decision.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PermissionRequest<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// Effect of the tool.
    pub access: Access,
    /// Object of the call.
    pub subject: &'a Subject,
    /// Directory of the project, with links resolved.
    pub project: &'a Path,
}

impl<'a> PermissionRequest<'a> {
    /// Creates a request.
    pub fn new(
        tool: &'a str,
        access: Access,
        subject: &'a Subject,
        project: &'a Path,
    ) -> PermissionRequest<'a> {
        PermissionRequest { tool, access, subject, project }
    }

    /// Returns the same request for another tool.
    pub fn with_tool(self, tool: &'a str) -> PermissionRequest<'a> {
        PermissionRequest { tool, ..self }
    }
}

/// The rules that decide about one agent's calls: its own, within those of the agents that launched it.
///
/// ```
/// use std::path::Path;
/// use plimsoll_sandbox::{Access, Action, EffectiveRules, PermissionRequest, Permissions, Subject, parse_allow};
///
/// let permissions = Permissions::from(vec![parse_allow("bash:git *", None)?]);
/// let decide = |line: &str| {
///     let subject = Subject::Command(line.to_owned());
///     let request = PermissionRequest::new("bash", Access::Act, &subject, Path::new("/project"));
///     EffectiveRules::new(&permissions).decide(request)
/// };
/// assert_eq!(decide("git status"), Action::Allow);
/// assert_eq!(decide("git status; rm -r ."), Action::Ask);
/// # Ok::<(), plimsoll_sandbox::BadRule>(())
/// ```
#[derive(Clone, Debug)]
pub struct EffectiveRules<'a> {
    own: &'a Permissions,
    above: Vec<&'a Permissions>,
    closed: &'a [PathBuf],
    granted: &'a [PermissionRule],
}

impl<'a> EffectiveRules<'a> {
    /// Creates a set of rules that nothing else restricts.
    pub fn new(own: &'a Permissions) -> EffectiveRules<'a> {
        EffectiveRules { own, above: Vec::new(), closed: &[], granted: &[] }
    }

    /// Restricts the rules by those of the agents above: the strictest of all decides.
    pub fn within(self, above: impl IntoIterator<Item = &'a Permissions>) -> EffectiveRules<'a> {
        EffectiveRules { above: above.into_iter().collect(), ..self }
    }

    /// Sets the paths that only a rule which names them opens for changes.
    pub fn closing(self, closed: &'a [PathBuf]) -> EffectiveRules<'a> {
        EffectiveRules { closed, ..self }
    }

    /// Sets the rules that the user has agreed to in this session. They answer questions of agents above, and
    /// override no denial.
    pub fn granting(self, granted: &'a Permissions) -> EffectiveRules<'a> {
        EffectiveRules { granted: &granted.rules, ..self }
    }

    /// Decides about a call.
    pub fn decide(&self, request: PermissionRequest<'_>) -> Action {
        self.judge(request).0
    }

    /// Returns the rule that decides about a call, if one does.
    pub fn deciding_rule(&self, request: PermissionRequest<'_>) -> Option<&'a PermissionRule> {
        self.judge(request).1
    }

    /// Returns whether a rule denies a call or requires the user's agreement.
    pub fn restrict(&self, request: PermissionRequest<'_>) -> bool {
        let call = Call::new(request, self.closed);
        let restricts = |rule: Option<&PermissionRule>| rule.is_some_and(|rule| rule.action != Action::Allow);
        self.above.iter().chain([&self.own]).any(|permissions| {
            restricts(call.rule(&permissions.rules))
                || restricts(call.own_rule(&permissions.rules).filter(|_| call.is_outside()))
                || restricts(call.reading_rule(&permissions.rules))
        })
    }

    /// Explains to the user why a call that no rule decides needs an answer.
    pub fn reason_to_ask(&self, request: PermissionRequest<'_>) -> &'static str {
        let call = Call::new(request, self.closed);
        match (request.access, request.subject) {
            (Access::Act, _) if matches!(call.guarded, Some(Guarded::Place(_))) => {
                "it changes your own settings, or files that programs run when they start; only a rule that names it allows that"
            }
            (_, Subject::Path { .. }) if call.is_outside() => "it is outside the project",
            (Access::Act, _) if call.guarded.is_some() => {
                "it changes files that decide what programs run or agents read later; only a rule that names it allows that"
            }
            (Access::Act, Subject::Command(_)) => "it runs a command",
            (Access::Act, Subject::Path { .. }) => "it changes a file",
            (Access::Act, Subject::Address(_)) => "it fetches from the network",
            (Access::Act, Subject::None | Subject::Name(_)) => "it acts outside this program",
            (Access::Read | Access::Session, _) => "a rule requires it",
        }
    }

    fn judge(&self, request: PermissionRequest<'_>) -> Decision<'a> {
        let call = Call::new(request, self.closed);
        let is_granted = call.rule(self.granted).is_some();
        let above = self.above.iter().map(|permissions| match call.judge(&permissions.rules) {
            (Action::Ask, rule) if is_granted => (Action::Allow, rule),
            decision => decision,
        });
        above.fold(call.judge(&self.own.rules), |strictest, decision| stricter_of(decision, strictest))
    }
}

/// An action, and the rule that it comes from, if one applies.
type Decision<'p> = (Action, Option<&'p PermissionRule>);

/// Returns the stricter decision, the second if they are equally strict.
fn stricter_of<'p>(one: Decision<'p>, other: Decision<'p>) -> Decision<'p> {
    if one.0 > other.0 { one } else { other }
}

#[derive(Clone, Copy)]
struct Call<'a> {
    request: PermissionRequest<'a>,
    /// Set if only a rule that names the file or place may allow the call.
    guarded: Option<Guarded<'a>>,
}

/// A file that a rule for all files does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guarded<'a> {
    /// By a name in its path, in any directory.
    Name(&'static str),
    /// By its location.
    Place(&'a Path),
}

impl<'a> Call<'a> {
    fn new(request: PermissionRequest<'a>, closed: &'a [PathBuf]) -> Call<'a> {
        let guarded = match request.subject {
            Subject::Path { named, real } if request.access == Access::Act => {
                // Only names below the project are checked: the checkout does not choose the directories above it.
                let below = |path: &'a Path| path.strip_prefix(request.project).unwrap_or(path);
                let name = guarded::guarded_name(below(real)).or_else(|| guarded::guarded_name(below(named)));
                let is_in = |place: &&PathBuf| real.starts_with(place) || named.starts_with(place);
                let place = closed.iter().find(is_in).map(|place| Guarded::Place(place));
                let repository = || guarded::repository_of(real, request.project).map(Guarded::Place);
                place.or(name.map(Guarded::Name)).or_else(repository)
            }
            _ => None,
        };
        Call { request, guarded }
    }

    /// Decides by one set of rules. A rule about `read` also applies to tools that show the same content: see
    /// [`Call::reading_rule`].
    fn judge<'p>(&self, rules: &'p [PermissionRule]) -> Decision<'p> {
        let default = match self.request.access {
            Access::Session | Access::Read => Action::Allow,
            Access::Act => Action::Ask,
        };
        let own = || match self.own_rule(rules) {
            Some(rule) => (rule.action, Some(rule)),
            None => (default, None),
        };
        let found = match self.rule(rules) {
            // A rule that opens a directory outside says nothing about what may be done there.
            Some(rule) if self.is_outside() && !matches(&rule.tool, self.request.tool) => {
                stricter_of((rule.action, Some(rule)), own())
            }
            Some(rule) => (rule.action, Some(rule)),
            None if self.is_outside() => stricter_of((Action::Ask, None), own()),
            None => (default, None),
        };
        match self.reading_rule(rules) {
            Some(reading) => stricter_of((reading.action, Some(reading)), found),
            None => found,
        }
    }

    /// Returns whether a rule may allow the call at all. For a guarded file, only a rule that names it may.
    fn may_allow(&self, rule: &PermissionRule) -> bool {
        let names = |guarded: Guarded<'_>| match guarded {
            Guarded::Name(name) => guarded::names(&rule.pattern, name),
            Guarded::Place(place) => guarded::names_place(&rule.pattern, place, self.request.project),
        };
        rule.action != Action::Allow || self.guarded.is_none_or(names)
    }

    /// Returns the rule that decides.
    fn rule<'p>(&self, rules: &'p [PermissionRule]) -> Option<&'p PermissionRule> {
        rules.iter().rev().find(|rule| self.fits(rule))
    }

    /// Returns the rule about `read` that applies to this tool as well. A search shows the content of files, so every
    /// rule does. `list` and `glob` show names, so a denial does, because a name can be secret. A file that is only
    /// asked about keeps its name, or the model could never ask.
    fn reading_rule<'p>(&self, rules: &'p [PermissionRule]) -> Option<&'p PermissionRule> {
        let rule = || Call { request: self.request.with_tool("read"), ..*self }.rule(rules);
        match self.request.tool {
            "grep" => rule(),
            "list" | "glob" => rule().filter(|rule| rule.action == Action::Deny),
            _ => None,
        }
    }

    /// Returns the rule that would decide about the tool if the path were inside the project.
    fn own_rule<'p>(&self, rules: &'p [PermissionRule]) -> Option<&'p PermissionRule> {
        let Subject::Path { named, real } = self.request.subject else { return self.rule(rules) };
        let fits = |rule: &&PermissionRule| {
            matches(&rule.tool, self.request.tool)
                && self.may_allow(rule)
                && (self.path_fits(&rule.pattern, real)
                    || (rule.action != Action::Allow && self.path_fits(&rule.pattern, named)))
        };
        rules.iter().rev().find(fits)
    }

    /// Returns whether a path matches a pattern, relative to the project or as a whole.
    fn path_fits(&self, pattern: &str, path: &Path) -> bool {
        let inside = path.strip_prefix(self.request.project).ok();
        inside.into_iter().chain([path]).any(|path| {
            let text = path.to_string_lossy();
            // `src/*` covers `src` itself, too.
            matches(pattern, &text)
                || pattern.strip_suffix("/*").is_some_and(|directory| matches(directory, &text))
        })
    }

    fn is_outside(&self) -> bool {
        matches!(self.request.subject, Subject::Path { real, .. } if !real.starts_with(self.request.project))
    }

    fn fits(&self, rule: &PermissionRule) -> bool {
        let is_allow = rule.action == Action::Allow;
        let names_tool = matches(&rule.tool, self.request.tool);
        match self.request.subject {
            Subject::None => names_tool && rule.pattern == "*",
            // A restriction applies to the name as well, so that a link does not evade it.
            Subject::Path { named, .. }
                if !is_allow && names_tool && self.path_fits(&rule.pattern, named) =>
            {
                true
            }
            Subject::Path { real, .. } if self.is_outside() => {
                // `read = "allow"` does not open the whole disk: a path outside the project is allowed by a pattern
                // with a path, by OpenCode's own name for it, or by a rule for everything.
                let is_meant = !is_allow || rule.pattern.starts_with('/') || rule.tool == "*";
                let by_tool = names_tool && is_meant && self.may_allow(rule);
                (by_tool || rule.tool == EXTERNAL_DIRECTORY) && self.path_fits(&rule.pattern, real)
            }
            Subject::Path { real, .. } => {
                names_tool && self.may_allow(rule) && self.path_fits(&rule.pattern, real)
            }
            Subject::Address(text) | Subject::Name(text) => names_tool && matches(&rule.pattern, text),
            Subject::Command(command) => {
                let command = command.trim();
                let fits = matches(&rule.pattern, command);
                names_tool
                    && match rule.action {
                        // A pattern for `git *` must not let `git status; rm -r .` through.
                        Action::Allow => {
                            let is_prefix = rule.origin == Origin::Answer && rule.pattern.ends_with('*');
                            let is_meant = !is_prefix || !suggest::exceeds_answer(command);
                            let fits = fits && is_simple(command) && is_meant;
                            rule.pattern == "*" || rule.pattern == command || fits
                        }
                        // A denial applies anywhere in a line. A shell has more ways to write a command than any
                        // pattern matches, so this prevents mistakes but is not a barrier.
                        Action::Ask | Action::Deny => fits || is_within(&rule.pattern, command),
                    }
            }
        }
    }
}
