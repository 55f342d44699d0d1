//! What an agent may do, by the rules of the configuration.
//!
//! The last rule that matches decides, as users of OpenCode know it. Without a rule, tools that only read may do so inside
//! the project, and everything else is asked: where no person can be asked, that is a denial.

mod command;
mod guarded;
mod hint;
mod known;
mod rules;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use plimsoll_config::{Action, Origin, PermissionRule, Permissions, matches};

use crate::agent::Bound;
use command::{is_simple, is_within};
pub(crate) use hint::{AllowHint, DeniedCall, IN_PROJECT_FILE};
pub use known::{IdleRule, UnknownTool, idle_rules, require_tool};
pub(crate) use rules::remembered_rule;
pub use rules::{BadRule, parse_allow};

/// OpenCode's name for reading and writing outside the project.
const OUTSIDE: &str = "external_directory";

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

/// Whether a call may be made, and the rule that says so, if one does.
///
/// What a rule says of `read` holds for other tools too, as far as they show the same: see [`Call::reading_rule`].
fn judge<'p>(
    permissions: &'p Permissions,
    call: Call<'_>,
    access: Access,
) -> (Action, Option<&'p PermissionRule>) {
    let by_itself = match access {
        Access::Session | Access::Read => Action::Allow,
        Access::Act => Action::Ask,
    };
    let own = || match call.own_rule(permissions) {
        Some(rule) => (rule.action, Some(rule)),
        None => (by_itself, None),
    };
    let found = match call.rule(permissions) {
        // That a place outside is open says nothing of what may be done there.
        Some(rule) if call.is_outside() && !matches(&rule.tool, call.tool) => {
            stricter_of((rule.action, Some(rule)), own())
        }
        Some(rule) => (rule.action, Some(rule)),
        None if call.is_outside() => stricter_of((Action::Ask, None), own()),
        None => (by_itself, None),
    };
    match call.reading_rule(permissions) {
        Some(reading) => stricter_of((reading.action, Some(reading)), found),
        None => found,
    }
}

/// The one that lets less happen; the second where both let the same.
fn stricter_of<T>(one: (Action, T), other: (Action, T)) -> (Action, T) {
    if one.0 != other.0 && stricter(one.0, other.0) == one.0 { one } else { other }
}

/// The rules of an agent within those of the agents that launched it.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a> {
    /// Its own.
    pub(crate) own: &'a Permissions,
    /// Those of all that stand above it.
    pub(crate) above: &'a [Bound],
    /// Places that only a rule which names them opens for changes.
    pub(crate) closed: &'a [PathBuf],
    /// What a person has allowed for good in this session. It answers what a bound would ask, and lifts no denial.
    pub(crate) granted: &'a Permissions,
}

impl Bounds<'_> {
    /// Whether a call may be made: the strictest of all decides.
    pub(crate) fn decide(&self, tool: &str, access: Access, subject: &Subject, project: &Path) -> Action {
        self.judge(Call::new(tool, access, subject, project, self.closed), access).0
    }

    /// The rule that decides about a call, if one does.
    pub(crate) fn deciding(
        &self,
        tool: &str,
        access: Access,
        subject: &Subject,
        project: &Path,
    ) -> Option<&PermissionRule> {
        self.judge(Call::new(tool, access, subject, project, self.closed), access).1
    }

    fn judge(&self, call: Call<'_>, access: Access) -> (Action, Option<&PermissionRule>) {
        let is_granted = call.rule(self.granted).is_some();
        let above = self.above.iter().map(|bound| match judge(&bound.permissions, call, access) {
            (Action::Ask, rule) if is_granted => (Action::Allow, rule),
            found => found,
        });
        above.fold(judge(self.own, call, access), |strictest, found| stricter_of(found, strictest))
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
    let call = Call::new(tool, Access::Read, subject, project, &[]);
    let rules = [
        call.rule(permissions),
        call.own_rule(permissions).filter(|_| call.is_outside()),
        call.reading_rule(permissions),
    ];
    rules.into_iter().flatten().any(|rule| rule.action != Action::Allow)
}

/// Why a call without a rule is asked, in words for a person.
pub(crate) fn reason_to_ask(
    access: Access,
    subject: &Subject,
    project: &Path,
    closed: &[PathBuf],
) -> &'static str {
    let call = Call::new("", access, subject, project, closed);
    match (access, subject) {
        (Access::Act, _) if matches!(call.guarded, Some(Guarded::Place(_))) => {
            "it changes settings of your own, or what programs run when they start, which only a rule that names it allows"
        }
        (_, Subject::Path { .. }) if call.is_outside() => "it lies outside the project",
        (Access::Act, _) if call.guarded.is_some() => {
            "it changes what programs run or agents are told later, which only a rule that names it allows"
        }
        (Access::Act, Subject::Command(_)) => "it runs a command",
        (Access::Act, Subject::Path { .. }) => "it changes a file",
        (Access::Act, Subject::Address(_)) => "it fetches from the network",
        (Access::Act, Subject::None | Subject::Name(_)) => "it acts outside this program",
        (Access::Read | Access::Session, _) => "a rule says that it is asked",
    }
}

#[derive(Clone, Copy)]
struct Call<'a> {
    tool: &'a str,
    subject: &'a Subject,
    project: &'a Path,
    /// What only a rule which names it opens.
    guarded: Option<Guarded<'a>>,
}

/// What is not opened by a rule for all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guarded<'a> {
    /// By a name in its path, wherever it lies.
    Name(&'static str),
    /// By its place.
    Place(&'a Path),
}

impl<'a> Call<'a> {
    fn new(
        tool: &'a str,
        access: Access,
        subject: &'a Subject,
        project: &'a Path,
        closed: &'a [PathBuf],
    ) -> Call<'a> {
        let guarded = match subject {
            // What lies above the project is not chosen by what is in it.
            Subject::Path { named, real } if access == Access::Act => {
                let below = |path: &'a Path| path.strip_prefix(project).unwrap_or(path);
                let name = guarded::guarded_name(below(real)).or_else(|| guarded::guarded_name(below(named)));
                let is_in = |place: &&PathBuf| real.starts_with(place) || named.starts_with(place);
                let place = closed.iter().find(is_in).map(|place| Guarded::Place(place));
                place.or(name.map(Guarded::Name))
            }
            _ => None,
        };
        Call { tool, subject, project, guarded }
    }

    /// Whether a rule may allow such a call at all: one that does not name what is guarded may not.
    fn may_allow(&self, rule: &PermissionRule) -> bool {
        let names = |guarded: Guarded<'_>| match guarded {
            Guarded::Name(name) => guarded::names(&rule.pattern, name),
            Guarded::Place(place) => guarded::names_place(&rule.pattern, place, self.project),
        };
        rule.action != Action::Allow || self.guarded.is_none_or(names)
    }

    /// The rule that decides.
    fn rule<'p>(&self, permissions: &'p Permissions) -> Option<&'p PermissionRule> {
        permissions.rules.iter().rev().find(|rule| self.fits(rule))
    }

    /// The rule about `read` that holds for this tool as well. A search shows what is in files, so every rule does. `list`
    /// and `glob` show names, so a denial does: a name can be what is secret. What is only asked about keeps its name, or
    /// the model could never ask.
    fn reading_rule<'p>(&self, permissions: &'p Permissions) -> Option<&'p PermissionRule> {
        let rule = || Call { tool: "read", ..*self }.rule(permissions);
        match self.tool {
            "grep" => rule(),
            "list" | "glob" => rule().filter(|rule| rule.action == Action::Deny),
            _ => None,
        }
    }

    /// The rule that would decide about the tool if the place were inside the project.
    fn own_rule<'p>(&self, permissions: &'p Permissions) -> Option<&'p PermissionRule> {
        let Subject::Path { named, real } = self.subject else { return self.rule(permissions) };
        let fits = |rule: &&PermissionRule| {
            matches(&rule.tool, self.tool)
                && self.may_allow(rule)
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
                let by_tool = names_tool && is_meant && self.may_allow(rule);
                (by_tool || rule.tool == OUTSIDE) && self.path_fits(&rule.pattern, real)
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
                            let is_meant = !is_prefix || !rules::exceeds_answer(command);
                            let fits = fits && is_simple(command) && is_meant;
                            rule.pattern == "*" || rule.pattern == command || fits
                        }
                        // What is denied stays denied wherever in a line it stands. A shell has more ways to write a
                        // command than any pattern knows: this is a help against slips, not a barrier.
                        Action::Ask | Action::Deny => fits || is_within(&rule.pattern, command),
                    }
            }
        }
    }
}
