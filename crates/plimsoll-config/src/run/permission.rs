//! What an agent may do: rules by tool and pattern.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::origin::Origin;

/// What happens when a tool is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It runs.
    Allow,
    /// A person is asked; without one it does not run.
    Ask,
    /// It does not run.
    Deny,
}

impl Action {
    /// The action as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Ask => "ask",
            Action::Deny => "deny",
        }
    }
}

impl FromStr for Action {
    type Err = ();

    fn from_str(text: &str) -> Result<Action, ()> {
        [Action::Allow, Action::Ask, Action::Deny].into_iter().find(|action| action.name() == text).ok_or(())
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRule {
    /// The tool, or a pattern of names.
    pub tool: String,
    /// What the tool is called with: a command, a path, an address, or a pattern of them.
    pub pattern: String,
    /// What happens then.
    pub action: Action,
    /// Where the rule stands.
    pub origin: Origin,
}

/// Rules in order; the last that matches decides.
///
/// The rules of all layers stand one after the other, the lightest layer first, so that a heavier layer decides
/// whatever it has a rule for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// The rules.
    pub rules: Vec<PermissionRule>,
}

impl Permissions {
    /// The rule that decides about a call, by the tool's name and by what it is called with.
    ///
    /// ```
    /// use plimsoll_config::{Action, Origin, PermissionRule, Permissions};
    /// let rule = |pattern: &str, action| PermissionRule {
    ///     tool: "bash".into(), pattern: pattern.into(), action, origin: Origin::BuiltIn,
    /// };
    /// let permissions = Permissions { rules: vec![rule("*", Action::Ask), rule("git *", Action::Allow)] };
    /// let action = |command| permissions.rule("bash", command).map(|rule| rule.action);
    /// assert_eq!(action("git status"), Some(Action::Allow));
    /// assert_eq!(action("rm -r ."), Some(Action::Ask));
    /// assert_eq!(permissions.rule("read", "a.txt"), None);
    /// ```
    pub fn rule(&self, tool: &str, subject: &str) -> Option<&PermissionRule> {
        let fits = |rule: &&PermissionRule| matches(&rule.tool, tool) && matches(&rule.pattern, subject);
        self.rules.iter().rev().find(fits)
    }
}

/// A tool that an agent has or has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSwitch {
    /// The tool, or a pattern of names.
    pub tool: String,
    /// Whether the agent has it.
    pub on: bool,
    /// Where this is said.
    pub origin: Origin,
}

/// Whether a text fits a pattern: `*` is any text, `?` any character, and a last ` *` may be missing with its space, so
/// that `ls *` is `ls` too.
///
/// These are OpenCode's rules. `*` goes across `/`, unlike in globs of files: a rule for `src/*` is meant for everything
/// below `src`.
pub fn matches(pattern: &str, text: &str) -> bool {
    if let Some(command) = pattern.strip_suffix(" *")
        && wildcard(command, text)
    {
        return true;
    }
    wildcard(pattern, text)
}

/// The usual walk with one place to come back to: time is at most the product of both lengths, whatever the pattern.
fn wildcard(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, seen));
                at += 1;
            }
            Some(c) if *c == '?' || *c == text[seen] => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((after, from)) = star else { return false };
                star = Some((after, from + 1));
                (at, seen) = (after, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_opencode() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("*", "anything at all", true),
            ("git *", "git", true),
            ("git *", "git push", true),
            ("git *", "gitk", false),
            ("src/*", "src/a/b.rs", true),
            ("*.env", "deep/.env", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("", "", true),
            ("", "x", false),
            ("[a]", "a", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} on {text}");
        }
        // A pattern of a checkout's choosing takes no time of its choosing.
        assert!(!matches(&"*a".repeat(200), &"b".repeat(2_000)));
    }
}
