//! Removes settings that need trust from a layer.

use std::path::Path;

use plimsoll_sandbox::Origin;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::file::ConfigFile;
use crate::layer::Layer;
use crate::names;
use crate::risk::{self, Risk};
use crate::run::settle::hook_value;
use crate::run::{RunLayer, SECTIONS, mask, rule_key};

/// A setting that only takes effect in a trusted project.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GuardedSetting {
    /// Key of the setting.
    pub key: String,
    /// Value as written in the file.
    pub value: Value,
    /// Location of the setting.
    pub origin: Origin,
}

impl GuardedSetting {
    /// Whether the setting only matters to runs of an agent.
    pub fn is_about_run(&self) -> bool {
        self.key.split('.').next().is_some_and(|section| SECTIONS.contains(&section))
    }
}

/// Returns all settings of a policy file.
pub(crate) fn all_settings(file: &ConfigFile) -> Vec<GuardedSetting> {
    let preset = file.policy.iter().map(|(name, _)| ("preset".to_owned(), name.as_str().into()));
    let context = file.context.iter().map(|tokens| ("context".to_owned(), (*tokens).into()));
    let fields = file.fields.iter().flat_map(|(section, value)| names::leaves(section, value));
    let all = preset.chain(context).chain(fields);
    all.map(|(key, value)| GuardedSetting { origin: file.place(&key), key, value }).collect()
}

/// Removes settings of a run that need trust.
fn guard_run(layer: &mut RunLayer, directory: &Path, guard: &mut impl FnMut(String, Value)) {
    for (path, value) in layer.values.leaves() {
        if risk::of_run(&path, &value) == Risk::NeedsTrust {
            layer.values.remove(&path);
            let key = path.join(".");
            layer.origins.remove(&key);
            guard(key, mask::reviewed(&path, &value));
        }
    }
    layer.rules.retain(|(agent, rule)| {
        let is_harmless = risk::of_rule(rule.action) == Risk::Harmless;
        if !is_harmless {
            guard(rule_key(agent.as_deref(), rule), rule.action.name().into());
        }
        is_harmless
    });
    layer.switches.retain(|(agent, switch)| {
        let is_harmless = risk::of_switch(switch.on) == Risk::Harmless;
        if !is_harmless {
            guard(format!("agents.{agent}.tools.{}", switch.tool), switch.on.into());
        }
        is_harmless
    });
    // All hooks are commands, and all need trust; the table has the same entry.
    for hook in layer.hooks.drain(..) {
        guard("hooks".to_owned(), mask::reviewed(&["hooks".to_owned()], &hook_value(&hook)));
    }
    layer.instructions.retain_mut(|source| {
        // A link inside the project may point out of it, so the files that are found are restricted to the project as
        // well.
        source.within = Some(directory.to_owned());
        let is_harmless = risk::of_instruction(&source.pattern) == Risk::Harmless;
        if !is_harmless {
            guard("instructions".to_owned(), source.pattern.as_str().into());
        }
        is_harmless
    });
    layer.skills.retain_mut(|source| {
        source.within = Some(directory.to_owned());
        let is_harmless = risk::of_instruction(&source.path) == Risk::Harmless;
        if !is_harmless {
            guard("skills".to_owned(), source.path.as_str().into());
        }
        is_harmless
    });
}

/// Removes settings that need trust.
pub(crate) fn take_guarded(layer: &mut Layer, file: &ConfigFile, directory: &Path) -> Vec<GuardedSetting> {
    let mut guarded = Vec::new();
    let mut guard = |key: String, value: Value| {
        guarded.push(GuardedSetting { origin: file.place(&key), key, value });
    };
    if !file.store_values.is_empty() {
        // All settings of the store need trust; a test checks that the table agrees.
        file.store_values.iter().for_each(|(key, value)| guard(key.clone(), value.clone()));
        layer.store = Default::default();
    }
    guard_run(&mut layer.run, directory, &mut guard);
    let names_fork = file.fields.get("fork").is_some_and(Value::is_string);
    let mut kept = Map::new();
    for (section, value) in std::mem::take(&mut layer.overrides.fields) {
        match value {
            // The name of a fork policy is as harmless as a preset, and its lists are not the checkout's.
            Value::Object(fields) if section != "fork" || !names_fork => {
                let (harmless, needs_trust): (Vec<_>, Vec<_>) = fields
                    .into_iter()
                    .partition(|(name, value)| risk::of_value(&section, name, value) == Risk::Harmless);
                let guarded = needs_trust.into_iter();
                guarded.for_each(|(name, value)| guard(format!("{section}.{name}"), value));
                kept.insert(section, Value::Object(harmless.into_iter().collect()));
            }
            // Unknown sections are left to the policy's own check, which has a better message.
            value if risk::of_key("", &section).is_none() => drop(kept.insert(section, value)),
            value if risk::of_value("", &section, &value) == Risk::Harmless => {
                kept.insert(section, value);
            }
            value => guard(section, value),
        }
    }
    layer.overrides.fields = kept;
    let is_guarded = |field: &str| {
        guarded.iter().any(|GuardedSetting { key, .. }| {
            let shown = if key == "spills.keep" { "spills.age" } else { key };
            field.strip_prefix(shown).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    layer.origins.retain(|field, _| !is_guarded(field));
    guarded
}
