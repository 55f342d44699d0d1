//! Merges the layers of a run and converts the result to its types.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll_providers::ModelRef;
use plimsoll_sandbox::{Grants, Origin, PermissionRule, Permissions, SandboxConfig};
use serde_json::{Map, Value};

use super::agent::AgentConfig;
use super::command::CommandConfig;
use super::hook::HookCommand;
use super::instructions::InstructionSource;
use super::layer::{RunLayer, rule_key};
use super::mcp::{McpConnection, McpServer};
use super::provider::{self, ProviderConfig};
use super::spec::{AgentSpec, CommandSpec, McpSpec, RunSpec, SandboxSpec, SandboxSwitch, TaskSpec};
use super::tasks::TaskConfig;
use super::webfetch::WebfetchConfig;
use super::{RunCaps, RunConfig, RunField, mask, reference};
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::notice::Notice;
use crate::paths::parent_directory;

impl RunLayer {
    /// Merges a layer with higher priority into this one.
    pub(super) fn merge_layer(&mut self, mut heavier: RunLayer) {
        if heavier.is_environment {
            self.keep_keys_with_their_addresses(&mut heavier);
        }
        if heavier.is_project {
            self.keep_grants_with_their_commands(&heavier);
        }
        // Collected from every layer: a variable still contains a key after a later layer replaces the setting.
        for (_, value) in heavier.values.leaves().into_iter().filter(|(path, _)| path[0] == "providers") {
            self.key_variables.extend(reference::variables(&value));
        }
        self.ignored.append(&mut heavier.ignored);
        self.values.merge(heavier.values);
        self.rules.extend(heavier.rules);
        self.switches.extend(heavier.switches);
        self.instructions.extend(heavier.instructions);
        self.hooks.extend(heavier.hooks);
        self.skills.extend(heavier.skills);
        self.origins.extend(heavier.origins);
    }

    /// If a file sets the base URL of a provider and its key, ignores `ANTHROPIC_API_KEY` and similar variables: they
    /// contain the key of another host, which must not be sent to this one.
    fn keep_keys_with_their_addresses(&self, environment: &mut RunLayer) {
        for (name, ..) in provider::BUILT_IN {
            let is_set =
                |layer: &RunLayer, field: &str| layer.values.get(&["providers", name, field]).is_some();
            let headers = self.values.get(&["providers", name, "headers"]).and_then(Value::as_object);
            let in_header =
                headers.is_some_and(|headers| headers.keys().any(|name| provider::carries_key(name)));
            let has_key = is_set(self, "key") || in_header;
            if has_key && is_set(self, "base_url") && !is_set(environment, "base_url") {
                for field in ["key", "headers"] {
                    let path = ["providers", name, field].map(str::to_owned);
                    environment.values.remove(&path);
                    let key = path.join(".");
                    environment.origins.retain(|origin, _| !is_at_or_below(origin, &key));
                }
            }
        }
    }

    /// Removes grants of a lower layer for a server whose command a project changes: the user made them for another
    /// program. The project's own grants, which are trusted with its command, are in the higher layer or added later.
    fn keep_grants_with_their_commands(&mut self, project: &RunLayer) {
        let servers = project.values.get(&["mcp"]).and_then(Value::as_object).into_iter().flatten();
        for (name, server) in servers {
            if !["command", "environment", "cwd"].iter().any(|field| server.get(field).is_some()) {
                continue;
            }
            for field in ["sandbox", "network", "unix_sockets", "write"] {
                let path = ["mcp", name, field].map(str::to_owned);
                let key = path.join(".");
                if self.values.remove(&path).is_some()
                    && let Some(origin) = self.origins.remove(&key)
                {
                    let reason =
                        Some(format!("the project sets how `{name}` is started; its files can grant this"));
                    self.ignored.push(Notice { key, origin, reason });
                }
            }
        }
    }

    /// Replaces references and converts everything to its type.
    pub(super) fn settle(mut self, env: &Environment) -> Result<RunConfig, ConfigError> {
        let fields = self.shown_fields();
        let mut keys = self.provider_keys(env);
        let problems = self.resolve_references(env);
        let problem_of = |section: &str, name: &str| {
            let is_below =
                |path: &[String]| matches!(path, [of, named, ..] if of == section && named == name);
            problems.iter().find(|(path, _)| is_below(path)).map(|(_, problem)| problem.clone())
        };
        let spec = self.typed()?;
        let model = |name: Option<String>, key: &str| {
            let parsed = name.map(|name| name.parse::<ModelRef>()).transpose();
            parsed.map_err(|error| self.wrong(key, &error.to_string()))
        };
        let positive = |is_wrong: bool, key: &str| {
            if is_wrong {
                Err(self.wrong(key, &format!("`{key}`: expected a number above 0")))
            } else {
                Ok(())
            }
        };
        positive(spec.max_steps == Some(0), "max_steps")?;
        positive(spec.max_tokens == Some(0), "max_tokens")?;
        positive(spec.max_cost.is_some_and(|cost| cost <= 0.0 || !cost.is_finite()), "max_cost")?;
        let mut providers = BTreeMap::new();
        for (name, provider) in spec.providers {
            let key = format!("providers.{name}");
            let built = ProviderConfig::new(provider, problem_of("providers", &name));
            let built = built.map_err(|(field, problem)| {
                let key = format!("{key}.{field}");
                self.wrong(&key, &format!("`{key}`: {problem}"))
            })?;
            providers.insert(name, built);
        }
        keys.add_providers(providers.values());
        let mut agents = BTreeMap::new();
        // An agent may be defined only by its rules.
        let named = self.rules.iter().filter_map(|(agent, _)| agent.clone());
        let named = named.chain(self.switches.iter().map(|(agent, _)| agent.clone()));
        let mut specs = spec.agents;
        for name in named {
            specs.entry(name).or_default();
        }
        for (name, agent) in specs {
            let key = format!("agents.{name}");
            let agent_model = model(agent.model.clone(), &format!("{key}.model"))?;
            let problem = problem_of("agents", &name);
            let built = self.agent(&name, agent, agent_model, problem, env)?;
            agents.insert(name, built);
        }
        let (mut commands, mut without_text) = (BTreeMap::new(), Vec::new());
        for (name, command) in spec.commands {
            let CommandSpec { description, template, agent, model: named, subtask } = command;
            let key = format!("commands.{name}");
            // One command without a text must not keep the others from working.
            let Some(template) = template.filter(|template| !template.trim().is_empty()) else {
                let origin = self.origins.iter().find(|(known, _)| known.starts_with(&format!("{key}.")));
                let origin = origin.map_or(Origin::BuiltIn, |(_, origin)| origin.clone());
                let reason = Some("a command needs a `template`".to_owned());
                without_text.push(Notice { key, origin, reason });
                continue;
            };
            let model = model(named, &format!("{key}.model"))?;
            let problem = problem_of("commands", &name);
            commands.insert(name, CommandConfig { description, template, agent, model, subtask, problem });
        }
        let mut mcp = BTreeMap::new();
        for (name, server) in spec.mcp {
            if let Some(server) = self.mcp_server(&name, server, problem_of("mcp", &name), env)? {
                mcp.insert(name, server);
            }
        }
        Ok(RunConfig {
            model: model(spec.model, "model")?,
            small_model: model(spec.small_model, "small_model")?,
            default_agent: spec.default_agent,
            providers,
            agents,
            commands,
            permissions: self.permissions_of(None, env),
            mcp,
            sandbox: self.sandbox(&spec.sandbox, env)?,
            webfetch: WebfetchConfig { hosts: spec.webfetch.hosts, proxy: spec.webfetch.proxy },
            tasks: self.task_config(&spec.tasks)?,
            // Set by `Config::load`, which knows the projects.
            is_trusted: false,
            caps: RunCaps { steps: spec.max_steps, cost: spec.max_cost, tokens: spec.max_tokens },
            hooks: resolve_hooks(self.hooks, env),
            keys,
            ignored: [self.ignored, without_text].concat(),
            fields,
            standing: InstructionSource::standing(env),
            instructions: self.instructions,
            skills: self.skills,
            origins: self.origins,
        })
    }

    /// Replaces the references in values from files. Values from variables are literal.
    fn resolve_references(&mut self, env: &Environment) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        for (path, mut value) in self.values.leaves() {
            let key = path.join(".");
            let Some(Origin::File { path: file, .. }) = self.origins.get(&key) else { continue };
            let origin = self.origins[&key].clone();
            match replace(&mut value, parent_directory(file), env) {
                Ok(false) => {}
                Ok(true) => self.values.set(&path.iter().map(String::as_str).collect::<Vec<_>>(), value),
                Err(problem) => problems.push((path, format!("{origin}: `{key}`: {problem}"))),
            }
        }
        problems
    }

    fn typed(&self) -> Result<RunSpec, ConfigError> {
        let tree = Value::Object(self.values.0.clone());
        serde_path_to_error::deserialize(tree).map_err(|error| {
            let key = error.path().to_string();
            let text = error.inner().to_string();
            // The value itself may be a key in the wrong place.
            let problem = match text.rfind("expected ") {
                Some(at) => text[at..].to_owned(),
                None => text,
            };
            self.wrong(&key, &format!("`{key}`: {}", plain(&problem)))
        })
    }

    fn agent(
        &self,
        name: &str,
        spec: AgentSpec,
        model: Option<ModelRef>,
        problem: Option<String>,
        env: &Environment,
    ) -> Result<AgentConfig, ConfigError> {
        let key = |field: &str| format!("agents.{name}.{field}");
        for (is_zero, field) in [(spec.steps == Some(0), "steps"), (spec.output == Some(0), "output")] {
            if is_zero {
                return Err(self.wrong(&key(field), &format!("`{}`: expected a number above 0", key(field))));
            }
        }
        let timeout = spec.timeout.as_ref().map(provider::duration).transpose();
        let timeout = timeout
            .map_err(|problem| self.wrong(&key("timeout"), &format!("`{}`: {problem}", key("timeout"))))?;
        let tools = self.switches.iter().filter(|(agent, _)| agent == name);
        Ok(AgentConfig {
            description: spec.description,
            prompt: spec.prompt,
            model,
            tools: tools.map(|(_, switch)| switch.clone()).collect(),
            steps: spec.steps,
            output: spec.output,
            timeout,
            temperature: spec.temperature,
            top_p: spec.top_p,
            options: spec.options,
            mode: spec.mode,
            permissions: self.permissions_of(Some(name), env),
            fork: spec.fork,
            disabled: spec.disable.unwrap_or(false),
            problem,
        })
    }

    /// Returns the paths of a setting, relative to the directory of its file.
    fn granted_paths(
        &self,
        key: &str,
        paths: &[String],
        env: &Environment,
    ) -> Result<Vec<PathBuf>, ConfigError> {
        let place = match self.origins.get(key) {
            Some(Origin::File { path, .. }) => parent_directory(path),
            _ => &env.directory,
        };
        let meant = |path: &String| {
            let no_home = || self.wrong(key, &format!("`{key}`: cannot resolve `{path}`: no home directory"));
            reference::referenced_path(path, place, env).ok_or_else(no_home)
        };
        paths.iter().map(meant).collect()
    }

    fn sandbox(&self, spec: &SandboxSpec, env: &Environment) -> Result<SandboxConfig, ConfigError> {
        // `Config::load` knows where the store is and sets the closed paths.
        Ok(SandboxConfig::default()
            .mode(spec.mode.unwrap_or_default())
            .write(self.granted_paths("sandbox.write", &spec.write, env)?)
            .network(spec.network.unwrap_or(false))
            .unix_sockets(spec.unix_sockets.unwrap_or(false)))
    }

    fn task_config(&self, spec: &TaskSpec) -> Result<TaskConfig, ConfigError> {
        let TaskSpec { at_once, depth, steps, ref time, tokens, cost, fork } = *spec;
        let is_zero = [
            (at_once == Some(0), "tasks.at_once"),
            (steps == Some(0), "tasks.steps"),
            (tokens == Some(0), "tasks.tokens"),
            (cost.is_some_and(|cost| cost <= 0.0 || !cost.is_finite()), "tasks.cost"),
        ];
        if let Some((_, key)) = is_zero.into_iter().find(|(is_zero, _)| *is_zero) {
            return Err(self.wrong(key, &format!("`{key}`: expected a number above 0")));
        }
        let time = time.as_ref().map(provider::duration).transpose();
        let time = time.map_err(|problem| self.wrong("tasks.time", &format!("`tasks.time`: {problem}")))?;
        Ok(TaskConfig { at_once, depth, steps, time, tokens, cost, fork })
    }

    fn mcp_server(
        &self,
        name: &str,
        spec: McpSpec,
        problem: Option<String>,
        env: &Environment,
    ) -> Result<Option<McpServer>, ConfigError> {
        let key = format!("mcp.{name}");
        let enabled = spec.enabled.unwrap_or(true);
        let timeout = spec.timeout.as_ref().map(provider::duration).transpose();
        let timeout = timeout.map_err(|problem| {
            let key = format!("{key}.timeout");
            self.wrong(&key, &format!("`{key}`: {problem}"))
        })?;
        let grants = Grants::default()
            .unconfined(spec.sandbox == Some(SandboxSwitch::Off))
            .network(spec.network.unwrap_or(false))
            .unix_sockets(spec.unix_sockets.unwrap_or(false))
            .write(self.granted_paths(&format!("{key}.write"), &spec.write, env)?);
        let connection = match (spec.command, spec.url) {
            (Some(command), None) if !command.is_empty() => {
                let origin = self.origins.get(&format!("{key}.cwd"));
                let place = match origin {
                    Some(Origin::File { path, .. }) => parent_directory(path),
                    _ => Path::new("."),
                };
                McpConnection::Local {
                    command,
                    environment: provider::secrets(spec.environment),
                    directory: spec.cwd.map(|cwd| place.join(cwd)),
                }
            }
            (None, Some(url)) => McpConnection::Remote { url, headers: provider::secrets(spec.headers) },
            // The server is only disabled or granted something: its definition is in a layer that does not exist here.
            (None, None) if !enabled || !grants.is_empty() => return Ok(None),
            (Some(_), Some(_)) => {
                let problem = format!("`{key}` has both `command` and `url`; remove one");
                return Err(self.wrong(&format!("{key}.url"), &problem));
            }
            _ => return Err(self.wrong(&key, &format!("`{key}` has neither `command` nor `url`"))),
        };
        Ok(Some(McpServer { connection, enabled, timeout, grants, problem }))
    }

    /// Returns the rules for an agent, or those for all, with the home directory in their patterns.
    fn permissions_of(&self, agent: Option<&str>, env: &Environment) -> Permissions {
        let home = env.home.as_ref().map(|home| home.display().to_string());
        let rules = self.rules.iter().filter(|(of, _)| of.as_deref() == agent).map(|(_, rule)| {
            let rest = ["~", "$HOME"].iter().find_map(|prefix| rule.pattern.strip_prefix(prefix));
            let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with('/'));
            let pattern = match (rest, &home) {
                (Some(rest), Some(home)) => format!("{home}{rest}"),
                _ => rule.pattern.clone(),
            };
            PermissionRule::new(&rule.tool, pattern, rule.action, rule.origin.clone())
        });
        rules.collect()
    }

    /// Returns every setting except the built-in ones, with secrets masked.
    fn shown_fields(&self) -> Vec<RunField> {
        let mut fields = Vec::new();
        for (path, value) in self.values.leaves() {
            let key = path.join(".");
            if let Some(origin) = self.origins.get(&key).filter(|origin| **origin != Origin::BuiltIn) {
                fields.push(RunField { key, value: mask::masked(&path, &value), origin: origin.clone() });
            }
        }
        let rules = self.rules.iter().map(|(agent, rule)| {
            let (key, value) = (rule_key(agent.as_deref(), rule), rule.action.name().into());
            RunField { key, value, origin: rule.origin.clone() }
        });
        let switches = self.switches.iter().map(|(agent, switch)| {
            let key = format!("agents.{agent}.tools.{}", switch.tool);
            RunField { key, value: switch.on.into(), origin: switch.origin.clone() }
        });
        let instructions = self.instructions.iter().map(|source| {
            let value = plimsoll::redact::redact(&source.pattern).text.into();
            RunField { key: "instructions".to_owned(), value, origin: source.origin.clone() }
        });
        let skills = self.skills.iter().map(|source| {
            let value = plimsoll::redact::redact(&source.path).text.into();
            RunField { key: "skills".to_owned(), value, origin: source.origin.clone() }
        });
        let hooks = self.hooks.iter().map(|hook| {
            let key = ["hooks".to_owned()];
            let value = mask::masked(&key, &hook_value(hook));
            RunField { key: "hooks".to_owned(), value, origin: hook.origin.clone() }
        });
        fields.extend(rules.chain(switches).chain(instructions).chain(skills).chain(hooks));
        fields
    }

    fn wrong(&self, key: &str, problem: &str) -> ConfigError {
        let mut known = key;
        let origin = loop {
            let below = self.origins.iter().find(|(origin, _)| is_at_or_below(origin, known));
            match (below, known.rfind('.')) {
                (Some((_, origin)), _) => break origin.clone(),
                (None, Some(end)) => known = &known[..end],
                (None, None) => break Origin::BuiltIn,
            }
        };
        ConfigError::Value { origin, problem: problem.to_owned() }
    }
}

/// Returns a hook for display.
pub(crate) fn hook_value(hook: &HookCommand) -> Value {
    let mut fields = Map::new();
    fields.insert("event".to_owned(), hook.event.name().into());
    fields.insert("command".to_owned(), hook.command.clone().into());
    fields.extend(hook.tools.clone().map(|tools| ("tools".to_owned(), tools.into())));
    let Grants { unconfined, network, unix_sockets, write, .. } = &hook.grants;
    fields.extend(unconfined.then(|| ("sandbox".to_owned(), "off".into())));
    fields.extend(network.then(|| ("network".to_owned(), true.into())));
    fields.extend(unix_sockets.then(|| ("unix_sockets".to_owned(), true.into())));
    if !write.is_empty() {
        let paths: Vec<String> = write.iter().map(|path| path.display().to_string()).collect();
        fields.insert("write".to_owned(), paths.into());
    }
    fields
        .extend(hook.timeout.map(|limit| ("timeout".to_owned(), format!("{}ms", limit.as_millis()).into())));
    Value::Object(fields)
}

/// Replaces the references in the commands of hooks. A hook with an unresolved reference is not run.
fn resolve_hooks(hooks: Vec<HookCommand>, env: &Environment) -> Vec<HookCommand> {
    let resolve = |mut hook: HookCommand| {
        let place = match &hook.origin {
            Origin::File { path, .. } => parent_directory(path).to_owned(),
            _ => env.directory.clone(),
        };
        for word in &mut hook.command {
            match reference::resolve(word, &place, env) {
                Ok(resolved) => *word = resolved,
                Err(problem) => hook.problem = Some(format!("{}: `hooks`: {problem}", hook.origin)),
            }
        }
        for path in &mut hook.grants.write {
            match path.to_str().and_then(|written| reference::referenced_path(written, &place, env)) {
                Some(meant) => *path = meant,
                None => {
                    let problem =
                        format!("`hooks.write`: cannot resolve `{}`: no home directory", path.display());
                    hook.problem = Some(format!("{}: {problem}", hook.origin));
                }
            }
        }
        hook
    };
    hooks.into_iter().map(resolve).collect()
}

/// Replaces the references in a value. Returns whether there were any.
fn replace(value: &mut Value, directory: &Path, env: &Environment) -> Result<bool, String> {
    match value {
        Value::String(text) => {
            let is_plain =
                reference::pieces(text).iter().all(|piece| matches!(piece, reference::Piece::Text(_)));
            if is_plain {
                return Ok(false);
            }
            *text = reference::resolve(text, directory, env)?;
            Ok(true)
        }
        Value::Array(items) => {
            let mut any = false;
            for item in items {
                any |= replace(item, directory, env)?;
            }
            Ok(any)
        }
        _ => Ok(false),
    }
}

/// Whether a key equals another one or is below it.
fn is_at_or_below(key: &str, other: &str) -> bool {
    key.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Replaces serde's terms in a message.
pub(super) fn plain(problem: &str) -> String {
    let mut problem = problem.to_owned();
    for (theirs, ours) in [
        ("a string", "a text"),
        ("u32", "a whole number"),
        ("u64", "a whole number"),
        ("f64", "a number"),
        ("a map", "a section with fields"),
        ("a sequence", "a list"),
        ("a boolean", "true or false"),
    ] {
        problem = problem.replace(theirs, ours);
    }
    if problem.contains("expected struct") {
        problem = "expected a section with fields".to_owned();
    }
    problem
}
