//! Rules by tool and pattern.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::origin::Origin;

// Exhaustive, so that no caller treats an action it does not know as allowed. The comments are part of the JSON Schema.
/// Effect of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// The call is made.
    Allow,
    /// The user is asked. If that is not possible, the call is denied.
    Ask,
    /// The call is denied.
    Deny,
}

impl Action {
    /// Returns the word for the action in a configuration.
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

/// A rule for calls of one or several tools.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermissionRule {
    /// Tool name, or a pattern of names.
    pub tool: String,
    /// Command, path or address that the tool is called with, or a pattern of them.
    pub pattern: String,
    /// Effect of the rule.
    pub action: Action,
    /// Source of the rule.
    pub origin: Origin,
}

impl PermissionRule {
    /// Creates a rule.
    pub fn new(
        tool: impl Into<String>,
        pattern: impl Into<String>,
        action: Action,
        origin: Origin,
    ) -> PermissionRule {
        PermissionRule { tool: tool.into(), pattern: pattern.into(), action, origin }
    }
}

/// Rules in order. The last one that matches decides.
///
/// The rules of all configuration layers follow each other, those of the lowest priority first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permissions {
    /// The rules.
    pub rules: Vec<PermissionRule>,
}

impl From<Vec<PermissionRule>> for Permissions {
    fn from(rules: Vec<PermissionRule>) -> Permissions {
        Permissions { rules }
    }
}

impl FromIterator<PermissionRule> for Permissions {
    fn from_iter<I: IntoIterator<Item = PermissionRule>>(rules: I) -> Permissions {
        Permissions { rules: rules.into_iter().collect() }
    }
}

impl Permissions {
    /// Returns the rule that matches a tool's name and the text of its call. [`EffectiveRules`](crate::EffectiveRules)
    /// decides about real calls: it knows paths and command lines.
    ///
    /// ```
    /// use plimsoll_sandbox::{Action, Origin, PermissionRule, Permissions};
    /// let rule = |pattern, action| PermissionRule::new("bash", pattern, action, Origin::BuiltIn);
    /// let permissions = Permissions::from(vec![rule("*", Action::Ask), rule("git *", Action::Allow)]);
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

/// Returns whether a text matches a pattern: `*` is any text, `?` any character, and a trailing ` *` is optional, so
/// that `ls *` matches `ls`.
///
/// These are OpenCode's rules. Unlike in file globs `*` matches `/`, so that `src/*` covers everything below `src`.
pub fn matches(pattern: &str, text: &str) -> bool {
    if let Some(command) = pattern.strip_suffix(" *")
        && wildcard(command, text)
    {
        return true;
    }
    wildcard(pattern, text)
}

/// Backtracks to the last star only, so that the time is at most the product of both lengths for any pattern.
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
