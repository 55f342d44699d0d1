//! Translates OpenCode's keys.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use plimsoll_sandbox::Origin;
use serde_json::{Map, Value, json};

use super::notice::plugin_reason;
use super::parse::Parsed;
use crate::error::ConfigError;
use crate::notice::Notice;
use crate::run::Tree;

/// A translated file.
#[derive(Default)]
pub(crate) struct Translation {
    /// The fields of a policy.
    pub(crate) fields: Map<String, Value>,
    /// Settings of a run.
    pub(crate) run: Tree,
    /// Lines of the translated keys.
    pub(crate) lines: BTreeMap<String, usize>,
    /// Keys without a counterpart.
    pub(crate) notices: Vec<Notice>,
    /// Error of the first invalid value.
    pub(crate) problem: Option<ConfigError>,
}

/// Keys without an effect on behaviour: labels for users and editors.
const LABELS: [&str; 2] = ["$schema", "username"];
const MODEL_LABELS: [&str; 4] = ["family", "release_date", "status", "experimental"];

/// Translates a file.
pub(crate) fn translate(parsed: &Parsed, path: &Path) -> Translation {
    let mut translator =
        Translator { lines: &parsed.lines, path, named: BTreeSet::new(), out: Translation::default() };
    for (key, value) in &parsed.values {
        translator.top(key, value, &parsed.values);
    }
    // OpenCode gives the older `mode` priority over `agent`, whatever their order.
    if let Some(modes) = parsed.values.get("mode") {
        translator.each("mode", modes, |translator, name, mode| translator.agent("mode", name, mode));
    }
    translator.out
}

struct Translator<'a> {
    /// Lines of OpenCode's keys.
    lines: &'a BTreeMap<String, usize>,
    path: &'a Path,
    /// Keys that already have a notice.
    named: BTreeSet<String>,
    out: Translation,
}

impl Translator<'_> {
    fn top(&mut self, key: &str, value: &Value, all: &Map<String, Value>) {
        match key {
            "model" | "small_model" | "default_agent" | "instructions" => {
                self.put(&[key], value.clone(), key);
            }
            "provider" => self.each(key, value, Translator::provider),
            "agent" => self.each(key, value, |this, name, agent| this.agent("agent", name, agent)),
            "command" => self.each(key, value, Translator::command),
            "mcp" => self.each(key, value, Translator::mcp),
            "skills" => self.each(key, value, Translator::skills),
            // Switches in `tools` are rules with a lower priority than those in `permission`.
            "tools" if !all.contains_key("permission") => self.permissions(None, Some(value), None, key),
            "permission" => self.permissions(None, all.get("tools"), Some(value), key),
            "tools" | "mode" => {}
            "compaction" => self.each(key, value, Translator::compaction),
            "tool_output" => self.each(key, value, Translator::tool_output),
            label if LABELS.contains(&label) => {}
            "plugin" => self.notice(key, key, Some(plugin_reason())),
            other => self.notice(other, other, None),
        }
    }

    fn skills(&mut self, name: &str, value: &Value) {
        let written = format!("skills.{name}");
        match name {
            "paths" => self.put(&["skills"], value.clone(), &written),
            "urls" => self.notice(&written, &written, Some("skills are not fetched".to_owned())),
            _ => self.notice(&written, &written, None),
        }
    }

    fn provider(&mut self, name: &str, value: &Value) {
        let above = format!("provider.{name}");
        let Some(fields) = self.object(&above, value) else { return };
        let options = fields.get("options").and_then(Value::as_object);
        let base_url = options.and_then(|options| options.get("baseURL"));
        let ours = |field: &'static str| ["providers", name, field];
        let is_built_in = matches!(name, "anthropic" | "openai");
        match fields.get("npm").and_then(Value::as_str) {
            Some("@ai-sdk/anthropic") => self.put(&ours("api"), "anthropic".into(), &format!("{above}.npm")),
            Some("@ai-sdk/openai") => self.put(&ours("api"), "openai".into(), &format!("{above}.npm")),
            Some("@ai-sdk/openai-compatible") => {
                self.put(&ours("api"), "openai-chat".into(), &format!("{above}.npm"));
            }
            Some(package) => {
                let reason = format!("`{package}` uses an unsupported wire format");
                self.notice(&format!("{above}.npm"), &format!("{above}.npm"), Some(reason));
            }
            // OpenCode treats a provider with a URL and no package as compatible with OpenAI.
            None if !is_built_in && (base_url.is_some() || fields.contains_key("api")) => {
                self.put(&ours("api"), "openai-chat".into(), &above);
            }
            None if !is_built_in => {
                let reason = "its URL is built into OpenCode; set `npm` and `options.baseURL`".to_owned();
                self.notice(&above, &above, Some(reason));
            }
            None => {}
        }
        if let (Some(names), None) = (fields.get("env"), options.and_then(|options| options.get("apiKey"))) {
            let first = names.as_array().and_then(|names| names.first()).and_then(Value::as_str);
            if let Some(first) = first {
                self.put(&ours("key"), format!("{{env:{first}}}").into(), &format!("{above}.env"));
            }
        }
        for (key, value) in fields {
            let written = format!("{above}.{key}");
            match key.as_str() {
                "npm" | "env" | "name" => {}
                "api" if base_url.is_none() => self.put(&ours("base_url"), value.clone(), &written),
                "api" => {}
                "options" => self.provider_options(name, value),
                "models" => self.each(&written, value, |this, model, value| this.model(name, model, value)),
                _ => self.notice(&written, &written, None),
            }
        }
    }

    fn provider_options(&mut self, name: &str, value: &Value) {
        let above = format!("provider.{name}.options");
        let Some(fields) = self.object(&above, value) else { return };
        for (key, value) in fields {
            let written = format!("{above}.{key}");
            match key.as_str() {
                "apiKey" => self.put(&["providers", name, "key"], value.clone(), &written),
                "baseURL" => self.put(&["providers", name, "base_url"], value.clone(), &written),
                "headers" => self.each(&written, value, |this, header, value| {
                    let written = format!("provider.{name}.options.headers.{header}");
                    this.put(&["providers", name, "headers", header], value.clone(), &written);
                }),
                "timeout" => self.put(&["providers", name, "timeout"], millis(value), &written),
                "chunkTimeout" => self.put(&["providers", name, "idle_timeout"], millis(value), &written),
                // Already our behaviour: a cache key is always sent if the provider accepts one.
                "setCacheKey" if *value == json!(true) => {}
                _ => self.notice(&written, &written, None),
            }
        }
    }

    fn model(&mut self, provider: &str, name: &str, value: &Value) {
        let above = format!("provider.{provider}.models.{name}");
        let Some(fields) = self.object(&above, value) else { return };
        let ours = |field| ["providers", provider, "models", name, field];
        for (key, value) in fields {
            let written = format!("{above}.{key}");
            match key.as_str() {
                "id" | "name" => self.put(&ours(key), value.clone(), &written),
                "limit" => self.each(&written, value, |this, limit, value| {
                    let written = format!("provider.{provider}.models.{name}.limit.{limit}");
                    match limit {
                        "context" | "input" | "output" => {
                            let path = ["providers", provider, "models", name, limit];
                            this.put(&path, whole(value), &written);
                        }
                        _ => this.notice(
                            &format!("provider.{provider}.models.*.limit.{limit}"),
                            &written,
                            None,
                        ),
                    }
                }),
                "cost" => self.each(&written, value, |this, cost, value| {
                    let written = format!("provider.{provider}.models.{name}.cost.{cost}");
                    match cost {
                        "input" | "output" | "cache_read" | "cache_write" => {
                            let path = ["providers", provider, "models", name, "price", cost];
                            this.put(&path, value.clone(), &written);
                        }
                        _ => {
                            this.notice(&format!("provider.{provider}.models.*.cost.{cost}"), &written, None);
                        }
                    }
                }),
                label if MODEL_LABELS.contains(&label) => {}
                _ => self.notice(&format!("provider.{provider}.models.*.{key}"), &written, None),
            }
        }
    }

    fn agent(&mut self, section: &str, name: &str, value: &Value) {
        let above = format!("{section}.{name}");
        let Some(fields) = self.object(&above, value) else { return };
        let ours = |field| ["agents", name, field];
        for (key, value) in fields {
            let written = format!("{above}.{key}");
            match key.as_str() {
                "description" | "prompt" | "model" | "temperature" | "top_p" | "steps" | "disable" => {
                    self.put(&ours(key), value.clone(), &written);
                }
                "mode" if section == "agent" => self.put(&ours(key), value.clone(), &written),
                "maxSteps" if !fields.contains_key("steps") => {
                    self.put(&ours("steps"), value.clone(), &written);
                }
                "permission" => self.permissions(Some(name), fields.get("tools"), Some(value), &written),
                "tools" => {
                    if !fields.contains_key("permission") {
                        self.permissions(Some(name), Some(value), None, &written);
                    }
                    self.switches(name, value, &written);
                }
                "color" | "name" | "mode" | "maxSteps" => {}
                // OpenCode passes unknown keys to the AI SDK, whose names differ from those of the wire format.
                _ => self.notice(&written, &written, None),
            }
        }
        if section == "mode" {
            self.put(&ours("mode"), "primary".into(), &above);
        }
    }

    fn command(&mut self, name: &str, value: &Value) {
        let above = format!("command.{name}");
        let Some(fields) = self.object(&above, value) else { return };
        for (key, value) in fields {
            let written = format!("{above}.{key}");
            match key.as_str() {
                "description" | "template" | "agent" | "model" | "subtask" => {
                    self.put(&["commands", name, key], value.clone(), &written);
                }
                _ => self.notice(&written, &written, None),
            }
        }
    }

    /// Translates rules of `tools` (booleans) and, with a higher priority, those of `permission`.
    fn permissions(
        &mut self,
        agent: Option<&str>,
        tools: Option<&Value>,
        permission: Option<&Value>,
        written: &str,
    ) {
        let key: Vec<&str> = match agent {
            Some(agent) => vec!["agents", agent, "permission"],
            None => vec!["permissions"],
        };
        let tools_written = match written.strip_suffix("permission") {
            Some(above) => format!("{above}tools"),
            None => written.to_owned(),
        };
        let mut rules = Rules::default();
        for (tool, on) in tools.and_then(Value::as_object).into_iter().flatten() {
            if self.is_without_counterpart(tool, &format!("{tools_written}.{tool}")) {
                continue;
            }
            // `write` and `patch` are variants of editing.
            let tool = if matches!(tool.as_str(), "write" | "patch") { "edit" } else { tool };
            let action = match on.as_bool() {
                Some(true) => "allow".into(),
                Some(false) => "deny".into(),
                None => on.clone(),
            };
            rules.add(tool, &action, &format!("{tools_written}.{tool}"));
        }
        match permission {
            Some(Value::Object(fields)) => {
                for (tool, value) in fields {
                    let written = format!("{written}.{tool}");
                    if !self.is_without_counterpart(tool, &written) {
                        rules.add(tool, value, &written);
                    }
                }
            }
            Some(action) => rules.add("*", action, written),
            None => {}
        }
        for (tool, value, written) in rules.0 {
            let path: Vec<&str> = key.iter().copied().chain([tool.as_str()]).collect();
            for pattern in value.as_object().into_iter().flat_map(Map::keys) {
                let line = self.lines.get(&format!("{written}.{pattern}")).copied();
                let ours = format!("{}.{pattern}", path.join("."));
                self.out.lines.extend(line.map(|line| (ours, line)));
            }
            self.put(&path, value, &written);
        }
    }

    /// Whether one of OpenCode's tools has no counterpart, so that a rule for it has no effect. Adds a notice.
    fn is_without_counterpart(&mut self, tool: &str, written: &str) -> bool {
        let Some((_, reason)) = WITHOUT_COUNTERPART.iter().find(|(name, _)| *name == tool) else {
            return false;
        };
        self.notice(written, written, Some((*reason).to_owned()));
        true
    }

    fn switches(&mut self, agent: &str, tools: &Value, written: &str) {
        for (tool, on) in tools.as_object().into_iter().flatten() {
            if self.is_without_counterpart(tool, &format!("{written}.{tool}")) {
                continue;
            }
            for tool in our_tools(if tool == "patch" { "edit" } else { tool }) {
                self.put(&["agents", agent, "tools", tool], on.clone(), &format!("{written}.{tool}"));
            }
        }
    }

    fn mcp(&mut self, name: &str, value: &Value) {
        let above = format!("mcp.{name}");
        let Some(fields) = self.object(&above, value) else { return };
        for (key, value) in fields {
            let written = format!("{above}.{key}");
            match key.as_str() {
                "type" => {}
                "command" | "cwd" | "url" | "enabled" => {
                    self.put(&["mcp", name, key], value.clone(), &written);
                }
                "environment" | "headers" => self.each(&written, value, |this, field, value| {
                    this.put(&["mcp", name, key, field], value.clone(), &format!("mcp.{name}.{key}.{field}"));
                }),
                "timeout" => self.put(&["mcp", name, key], millis(value), &written),
                _ => self.notice(&written, &written, None),
            }
        }
    }

    fn compaction(&mut self, key: &str, value: &Value) {
        let written = format!("compaction.{key}");
        match key {
            "auto" => self.policy_switch("overflow", "auto", value, &written),
            "prune" => self.policy_switch("prune", "enabled", value, &written),
            "reserved" => self.policy_number(&[("overflow", "inputReserve")], value, &written),
            "preserve_recent_tokens" => {
                self.policy_number(&[("compact", "tailMin"), ("compact", "tailMax")], value, &written);
            }
            _ => self.notice(&written, &written, None),
        }
    }

    fn tool_output(&mut self, key: &str, value: &Value) {
        let written = format!("tool_output.{key}");
        match key {
            "max_lines" => self.policy_number(&[("truncate", "maxLines")], value, &written),
            "max_bytes" => self.policy_number(&[("truncate", "maxBytes")], value, &written),
            _ => self.notice(&written, &written, None),
        }
    }

    fn policy_switch(&mut self, section: &str, field: &str, value: &Value, written: &str) {
        match value {
            Value::Bool(_) => self.policy(section, field, value.clone(), written),
            _ => self.wrong(written, "expected true or false"),
        }
    }

    fn policy_number(&mut self, fields: &[(&str, &str)], value: &Value, written: &str) {
        let number = whole(value);
        if number.as_u64().is_none() {
            return self.wrong(written, "expected a whole number");
        }
        for (section, field) in fields {
            self.policy(section, field, number.clone(), written);
        }
    }

    fn policy(&mut self, section: &str, field: &str, value: Value, written: &str) {
        let fields = self.out.fields.entry(section).or_insert_with(|| json!({}));
        if let Value::Object(fields) = fields {
            fields.insert(field.to_owned(), value);
        }
        self.line(&format!("{section}.{field}"), written);
    }

    fn put(&mut self, path: &[&str], value: Value, written: &str) {
        self.line(&path.join("."), written);
        self.out.run.set(path, value);
    }

    fn line(&mut self, ours: &str, written: &str) {
        if let Some(line) = self.line_of(written) {
            self.out.lines.insert(ours.to_owned(), line);
        }
    }

    /// Returns the line of a key, or of the innermost parent with a line.
    fn line_of(&self, written: &str) -> Option<usize> {
        let mut known = written;
        loop {
            match (self.lines.get(known), known.rfind('.')) {
                (Some(line), _) => return Some(*line),
                (None, Some(end)) => known = &known[..end],
                (None, None) => return None,
            }
        }
    }

    fn each(&mut self, key: &str, value: &Value, mut take: impl FnMut(&mut Self, &str, &Value)) {
        let Some(fields) = self.object(key, value) else { return };
        for (name, value) in fields {
            take(self, name, value);
        }
    }

    fn object<'v>(&mut self, key: &str, value: &'v Value) -> Option<&'v Map<String, Value>> {
        if value.as_object().is_none() {
            self.wrong(key, "expected a section with fields");
        }
        value.as_object()
    }

    fn notice(&mut self, key: &str, written: &str, reason: Option<String>) {
        if self.named.insert(key.to_owned()) {
            let origin = self.origin(written);
            self.out.notices.push(Notice { key: key.to_owned(), origin, reason });
        }
    }

    fn wrong(&mut self, written: &str, problem: &str) {
        let origin = self.origin(written);
        let error = ConfigError::Value { origin, problem: format!("`{written}`: {problem}") };
        self.out.problem.get_or_insert(error);
    }

    fn origin(&self, written: &str) -> Origin {
        Origin::File { path: self.path.to_owned(), line: self.line_of(written) }
    }
}

/// Rules by tool, in order, with the keys they came from.
#[derive(Default)]
struct Rules(Vec<(String, Value, String)>);

impl Rules {
    /// Adds the rules of a tool under our names for it. They replace previous ones.
    fn add(&mut self, tool: &str, value: &Value, written: &str) {
        for tool in our_tools(tool) {
            self.0.retain(|(known, ..)| known != tool);
            self.0.push((tool.to_owned(), value.clone(), written.to_owned()));
        }
    }
}

/// Tools of OpenCode without a counterpart, and the reason for the notice.
const WITHOUT_COUNTERPART: [(&str, &str); 8] = [
    ("question", "the model asks in its answer and has no tool for it"),
    ("lsp", "there is no such tool"),
    ("websearch", "there is no such tool"),
    ("codesearch", "there is no such tool"),
    ("batch", "there is no such tool"),
    ("plan_enter", "only the user switches agents, with `/agent plan`"),
    ("plan_exit", "only the user switches agents, with `/agent build`"),
    ("doom_loop", "repeated calls are always reported to the model and then end the run"),
];

/// Returns our names for one of OpenCode's tools.
pub fn our_tools(tool: &str) -> Vec<&str> {
    match tool {
        "edit" => vec!["edit", "write"],
        "todowrite" | "todoread" => vec!["todo"],
        "task" => vec!["background_task"],
        other => vec![other],
    }
}

/// Converts milliseconds to our format. Other values are left unchanged, so that they are rejected with their location.
fn millis(value: &Value) -> Value {
    match whole(value).as_u64() {
        Some(millis) => format!("{millis}ms").into(),
        None => value.clone(),
    }
}

/// Converts a number without a fraction, such as `5.0`, to an integer.
fn whole(value: &Value) -> Value {
    match value.as_f64() {
        Some(number)
            if value.as_u64().is_none() && number.fract() == 0.0 && (0.0..9e15).contains(&number) =>
        {
            (number as u64).into()
        }
        _ => value.clone(),
    }
}
