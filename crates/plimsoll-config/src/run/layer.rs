//! Settings of a run in a single layer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use plimsoll_sandbox::{Action, Grants, Origin, PermissionRule};
use serde_json::{Map, Value};

use super::agent::ToolSwitch;
use super::hook::HookCommand;
use super::instructions::InstructionSource;
use super::provider;
use super::skills::SkillSource;
use super::spec::{HookSpec, SandboxSwitch};
use super::tree::Tree;
use crate::error::ConfigError;
use crate::notice::Notice;

/// Settings of a run in a single layer.
///
/// Rules, switches, instructions, skills and hooks are separate from the other settings: those of all layers are
/// combined in order, while for other settings the layer with the highest priority wins.
///
/// A broken section must not stop commands that need no model, so errors are kept in the layer instead of failing at
/// once.
#[derive(Debug, Default)]
pub(crate) struct RunLayer {
    pub(crate) values: Tree,
    /// Rules with the agent they are for; `None` for all agents.
    pub(crate) rules: Vec<(Option<String>, PermissionRule)>,
    /// Switches with the agent they are for.
    pub(crate) switches: Vec<(String, ToolSwitch)>,
    pub(crate) instructions: Vec<InstructionSource>,
    pub(crate) hooks: Vec<HookCommand>,
    pub(crate) skills: Vec<SkillSource>,
    pub(crate) origins: BTreeMap<String, Origin>,
    /// Whether these are the variables of the official SDKs.
    pub(crate) is_environment: bool,
    /// Whether this layer comes with a project.
    pub(crate) is_project: bool,
    /// Settings that have no effect.
    pub(crate) ignored: Vec<Notice>,
    /// Variables that the providers of lower layers refer to.
    pub(crate) key_variables: BTreeSet<String>,
    /// Why the layer cannot be used. The rest of the configuration works without it.
    pub(crate) problem: Option<Arc<ConfigError>>,
}

/// Settings of a run in a file, before they are split.
pub(crate) struct RunSource<'a> {
    pub(crate) values: &'a Tree,
    /// Directory that relative paths start from.
    pub(crate) base: &'a Path,
    /// Why the file cannot be used.
    pub(crate) problem: Option<Arc<ConfigError>>,
    /// Function that returns the location of a key.
    pub(crate) place: &'a dyn Fn(&str) -> Origin,
}

/// Returns the key of a rule, with its pattern unless it applies to everything.
pub(crate) fn rule_key(agent: Option<&str>, rule: &PermissionRule) -> String {
    let section = match agent {
        Some(agent) => format!("agents.{agent}.permission"),
        None => "permissions".to_owned(),
    };
    let pattern = if rule.pattern == "*" { String::new() } else { format!(".{}", rule.pattern) };
    format!("{section}.{}{pattern}", rule.tool)
}

impl RunLayer {
    /// Splits the settings of a file.
    pub(crate) fn of_source(file: &RunSource<'_>) -> RunLayer {
        let mut layer = RunLayer { problem: file.problem.clone(), ..RunLayer::default() };
        if let Err(error) = layer.take(file) {
            layer.problem.get_or_insert(Arc::new(error));
        }
        layer
    }

    fn take(&mut self, file: &RunSource<'_>) -> Result<(), ConfigError> {
        let mut values = file.values.clone();
        if let Some(permissions) = values.0.shift_remove("permissions") {
            self.take_rules(None, "permissions", &permissions, file)?;
        }
        self.take_instructions(values.0.shift_remove("instructions"), file)?;
        self.take_hooks(values.0.shift_remove("hooks"), file)?;
        self.take_skills(values.0.shift_remove("skills"), file)?;
        if let Some(Value::Object(agents)) = values.0.get_mut("agents") {
            for (name, agent) in agents.iter_mut() {
                let Value::Object(agent) = agent else { continue };
                if let Some(permissions) = agent.shift_remove("permission") {
                    let key = format!("agents.{name}.permission");
                    self.take_rules(Some(name), &key, &permissions, file)?;
                }
                if let Some(tools) = agent.shift_remove("tools") {
                    self.take_switches(name, &tools, file)?;
                }
            }
            agents.retain(|_, agent| agent.as_object().is_none_or(|fields| !fields.is_empty()));
            if agents.is_empty() {
                values.0.shift_remove("agents");
            }
        }
        for (mut path, value) in values.leaves() {
            let origin = (file.place)(&path.join("."));
            // Header names are case-insensitive, and a layer must override the same header of a lower one.
            if let [section, _, headers, header] = path.as_mut_slice()
                && ["providers", "mcp"].contains(&section.as_str())
                && headers == "headers"
            {
                header.make_ascii_lowercase();
            }
            self.origins.insert(path.join("."), origin);
            self.values.set(&path.iter().map(String::as_str).collect::<Vec<_>>(), value);
        }
        Ok(())
    }

    /// Marks a layer as a project's, and removes what only the user's own configuration can set.
    pub(crate) fn hold_to_project(&mut self) {
        self.is_project = true;
        let mut ignore = |key: String, origin: Origin| {
            let reason = Some("only your own configuration can turn the sandbox off".to_owned());
            self.ignored.push(Notice { key, origin, reason });
        };
        for (number, hook) in self.hooks.iter_mut().enumerate() {
            if std::mem::take(&mut hook.grants.unconfined) {
                ignore(format!("hooks.{number}.sandbox"), hook.origin.clone());
            }
        }
        for (path, value) in self.values.leaves() {
            if matches!(path.as_slice(), [section, _, field] if section == "mcp" && field == "sandbox") {
                let key = path.join(".");
                self.values.remove(&path);
                let origin = self.origins.remove(&key);
                if value != "on" {
                    ignore(key, origin.unwrap_or(Origin::BuiltIn));
                }
            }
        }
    }

    fn take_rules(
        &mut self,
        agent: Option<&str>,
        key: &str,
        value: &Value,
        file: &RunSource<'_>,
    ) -> Result<(), ConfigError> {
        let mut add = |tool: &str, pattern: &str, key: &str, value: &Value| {
            let action = value.as_str().and_then(|text| text.parse::<Action>().ok());
            let wrong = || format!("`{key}`: expected \"allow\", \"ask\" or \"deny\", found {value}");
            let origin = (file.place)(key);
            let action =
                action.ok_or_else(|| ConfigError::Value { origin: origin.clone(), problem: wrong() })?;
            let rule = PermissionRule::new(tool, pattern, action, origin);
            self.rules.push((agent.map(str::to_owned), rule));
            Ok(())
        };
        let Value::Object(tools) = value else { return add("*", "*", key, value) };
        for (tool, value) in tools {
            let key = format!("{key}.{tool}");
            let Value::Object(patterns) = value else {
                add(tool, "*", &key, value)?;
                continue;
            };
            for (pattern, value) in patterns {
                add(tool, pattern, &format!("{key}.{pattern}"), value)?;
            }
        }
        Ok(())
    }

    fn take_switches(&mut self, agent: &str, value: &Value, file: &RunSource<'_>) -> Result<(), ConfigError> {
        let key = format!("agents.{agent}.tools");
        let wrong = |key: &str, found: &Value, expected: &str| {
            let problem = format!("`{key}`: expected {expected}, found {found}");
            ConfigError::Value { origin: (file.place)(key), problem }
        };
        let tools: &Map<String, Value> =
            value.as_object().ok_or_else(|| wrong(&key, value, "tools with true or false"))?;
        for (tool, value) in tools {
            let key = format!("{key}.{tool}");
            let on = value.as_bool().ok_or_else(|| wrong(&key, value, "true or false"))?;
            let switch = ToolSwitch { tool: tool.clone(), on, origin: (file.place)(&key) };
            self.switches.push((agent.to_owned(), switch));
        }
        Ok(())
    }

    fn take_hooks(&mut self, value: Option<Value>, file: &RunSource<'_>) -> Result<(), ConfigError> {
        let Some(value) = value else { return Ok(()) };
        let wrong = |key: &str, problem: String| ConfigError::Value { origin: (file.place)(key), problem };
        let specs: Vec<HookSpec> = serde_path_to_error::deserialize(value).map_err(|error| {
            let at = error.path().to_string();
            let at = if at == "." { String::new() } else { at };
            let key = format!("hooks{}", at.replace('[', ".").replace(']', ""));
            wrong(&key, format!("`hooks{at}`: {}", super::settle::plain(&error.inner().to_string())))
        })?;
        for (number, spec) in specs.into_iter().enumerate() {
            let HookSpec { event, command, timeout, tools, sandbox, network, unix_sockets, write } = spec;
            let key = format!("hooks.{number}");
            if command.first().is_none_or(|program| program.trim().is_empty()) {
                return Err(wrong(&key, "`hooks`: a hook without a `command`".to_owned()));
            }
            let timeout = timeout.as_ref().map(provider::duration).transpose();
            let timeout = timeout
                .map_err(|problem| wrong(&format!("{key}.timeout"), format!("`hooks.timeout`: {problem}")))?;
            let origin = (file.place)(&key);
            // The paths are kept as written: `~` is resolved when all layers are merged.
            let grants = Grants::default()
                .unconfined(sandbox == Some(SandboxSwitch::Off))
                .network(network.unwrap_or(false))
                .unix_sockets(unix_sockets.unwrap_or(false))
                .write(write);
            self.hooks.push(HookCommand { event, command, timeout, tools, grants, origin, problem: None });
        }
        Ok(())
    }

    fn take_skills(&mut self, value: Option<Value>, file: &RunSource<'_>) -> Result<(), ConfigError> {
        let Some(value) = value else { return Ok(()) };
        let origin = (file.place)("skills");
        let wrong = || {
            let problem = "`skills`: expected a list of directories".to_owned();
            ConfigError::Value { origin: origin.clone(), problem }
        };
        for path in value.as_array().ok_or_else(wrong)? {
            let path = path.as_str().ok_or_else(wrong)?.to_owned();
            let (directory, origin) = (file.base.to_owned(), origin.clone());
            self.skills.push(SkillSource { path, directory, within: None, origin });
        }
        Ok(())
    }

    fn take_instructions(&mut self, value: Option<Value>, file: &RunSource<'_>) -> Result<(), ConfigError> {
        let Some(value) = value else { return Ok(()) };
        let origin = (file.place)("instructions");
        let wrong = || {
            let problem = "`instructions`: expected a list of paths".to_owned();
            ConfigError::Value { origin: origin.clone(), problem }
        };
        for pattern in value.as_array().ok_or_else(wrong)? {
            let pattern = pattern.as_str().ok_or_else(wrong)?.to_owned();
            let (directory, origin) = (file.base.to_owned(), origin.clone());
            let source = InstructionSource { pattern, directory, within: None, origin, problem: None };
            self.instructions.push(source);
        }
        Ok(())
    }
}
