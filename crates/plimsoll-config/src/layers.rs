//! Reads each layer and merges them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use plimsoll::policy::{Overrides, Setting};
use plimsoll::{Policy, Preset};
use plimsoll_sandbox::Origin;
use serde_json::Value;

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::file::ConfigFile;
use crate::flags::Flags;
use crate::layer::{Layer, placed};
use crate::names::{self, POLICY, WINDOW};
use crate::paths::parent_directory;
use crate::run::{self, RunConfig, RunLayer};
use crate::store::{self, STORE_FIELDS, StoreConfig, StoreLayer};

/// Default context window.
const CONTEXT: u64 = 200_000;

/// The merged layers.
pub(crate) struct Merged {
    pub(crate) policy: Policy,
    pub(crate) context: u64,
    pub(crate) store: StoreConfig,
    pub(crate) run: Result<RunConfig, Arc<ConfigError>>,
    pub(crate) chosen: String,
    pub(crate) preset: Preset,
    pub(crate) origins: BTreeMap<String, Origin>,
}

/// Merges the layers, lowest priority first, and validates the result.
pub(crate) fn merge(layers: Vec<Layer>, env: &Environment) -> Result<Merged, ConfigError> {
    let mut all = Overrides::default();
    let built_in = ["context"].into_iter().chain(STORE_FIELDS);
    let mut origins: BTreeMap<String, Origin> =
        built_in.map(|field| (field.to_owned(), Origin::BuiltIn)).collect();
    let (mut context, mut store) = (CONTEXT, StoreLayer::default());
    let heaviest = layers.iter().rposition(|layer| layer.chosen.is_some());
    let mut chosen = Preset::Plimsoll.name().to_owned();
    let mut runs = Vec::new();
    for (place, layer) in layers.into_iter().enumerate() {
        if let Some(name) = layer.chosen {
            if Some(place) != heaviest {
                continue;
            }
            chosen = name;
        }
        all = all.with_higher(layer.overrides);
        context = layer.context.unwrap_or(context);
        store = layer.store.over(store);
        origins.extend(layer.origins);
        runs.push(layer.run);
    }
    let preset = all.preset.unwrap_or(Preset::Plimsoll);
    origins.entry("policy".to_owned()).or_insert(Origin::BuiltIn);
    let policy = all.policy().map_err(|error| placed(&error, &origins))?;
    let store = store.settle(env);
    let run = RunConfig::of_layers(runs, env);
    Ok(Merged { policy, context, store, run, chosen, preset, origins })
}

/// Returns a file's own fields and, below them, the policy that it names.
pub(crate) fn file_layers(file: &ConfigFile) -> Result<Vec<Layer>, ConfigError> {
    let named = match &file.policy {
        // Relative paths in a file start from the file's directory.
        Some((name, origin)) => Some(named(name, origin.clone(), parent_directory(&file.path))?),
        None => None,
    };
    Ok(stacked(named, file.layer()?, &file.path))
}

/// Places the policy that a file names below the file's own fields.
pub(crate) fn stacked(named: Option<Layer>, mut own: Layer, path: &Path) -> Vec<Layer> {
    let mut layers: Vec<Layer> = named.into_iter().collect();
    match own.overrides.preset.take() {
        // The guide's `TokenManagement` section implies a preset.
        Some(preset) if layers.is_empty() => {
            layers.push(of_preset(preset, Origin::File { path: path.to_owned(), line: None }));
        }
        _ => {}
    }
    layers.push(own);
    layers
}

/// Returns the policy that a layer names: a preset, or the fields of a file.
fn named(name: &str, origin: Origin, directory: &Path) -> Result<Layer, ConfigError> {
    let source = match name.parse::<Preset>() {
        Ok(preset) => return Ok(of_preset(preset, origin)),
        Err(unknown) => unknown,
    };
    let path = directory.join(name);
    if !path.exists() {
        return Err(ConfigError::UnknownPolicy { origin, source });
    }
    let file = match origin {
        Origin::Flag(_) | Origin::Variable(_) => ConfigFile::read_named(&path)?,
        _ => ConfigFile::read(&path)?,
    };
    of_policy_file(name, origin, &file)
}

/// Returns the fields of a policy file under the name by which it was selected.
pub(crate) fn of_policy_file(name: &str, origin: Origin, file: &ConfigFile) -> Result<Layer, ConfigError> {
    if let Some((further, origin)) = file.policy.as_ref().filter(|(name, _)| name.parse::<Preset>().is_err())
    {
        let problem = format!("a policy file must build on a preset, and `{further}` is not one");
        return Err(ConfigError::Value { origin: origin.clone(), problem });
    }
    if let Some(field) = file.store.fields().next() {
        return Err(ConfigError::StoreInPolicy { path: file.path.clone(), field });
    }
    if let Some(field) = file.run.0.keys().next() {
        return Err(ConfigError::RunInPolicy { path: file.path.clone(), field: field.clone() });
    }
    let mut layer = file.layer()?;
    layer.overrides.preset.get_or_insert(Preset::Plimsoll);
    layer.origins.insert("policy".to_owned(), origin);
    Ok(Layer { chosen: Some(name.to_owned()), ..layer })
}

pub(crate) fn of_preset(preset: Preset, origin: Origin) -> Layer {
    let overrides = Overrides { preset: Some(preset), ..Overrides::default() };
    let origins = BTreeMap::from([("policy".to_owned(), origin)]);
    Layer { chosen: Some(preset.name().to_owned()), overrides, origins, ..Layer::default() }
}

/// Returns the variables that set the policy and the context window.
pub(crate) fn environment_policy(env: &Environment) -> Result<Vec<Layer>, ConfigError> {
    let mut layers = Vec::new();
    if let Some(name) = env.variable(POLICY) {
        layers.push(named(name, Origin::Variable(POLICY.to_owned()), &env.directory)?);
    }
    if let Some(text) = env.variable(WINDOW) {
        let origin = Origin::Variable(WINDOW.to_owned());
        let tokens = names::tokens(text);
        let tokens = tokens.ok_or_else(|| {
            let problem = format!("expected {}, found `{text}`", names::TOKENS);
            ConfigError::Value { origin: origin.clone(), problem }
        })?;
        let origins = BTreeMap::from([("context".to_owned(), origin)]);
        layers.push(Layer { context: Some(tokens), origins, ..Layer::default() });
    }
    Ok(layers)
}

/// Returns the variables that set fields of the policy.
pub(crate) fn environment_fields(preset: Preset, env: &Environment) -> Result<Layer, ConfigError> {
    let opencode = preset.name().starts_with("opencode");
    let settings = Setting::all(opencode, |name| env.variable(name).map(str::to_owned));
    let settings = settings.map_err(ConfigError::Variable)?;
    let mut origins = BTreeMap::new();
    for setting in &settings {
        let variable = Origin::Variable(setting.variable.clone());
        let leaves = names::leaves(&setting.field, &setting.value);
        origins.extend(leaves.into_iter().map(|(field, _)| (field, variable.clone())));
    }
    Ok(Layer { overrides: Setting::overrides(&settings), origins, ..Layer::default() })
}

/// Returns the variables that set fields of the store.
pub(crate) fn environment_store(env: &Environment) -> Result<Layer, ConfigError> {
    let mut layer = Layer::default();
    for (name, field) in store::VARIABLES.into_iter().zip(store::SETTINGS) {
        let Some(text) = env.variable(name) else { continue };
        let origin = Origin::Variable(name.to_owned());
        let value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        let value = if field == "store" { text.into() } else { value };
        let set = layer.store.set(field, &value, &env.directory);
        set.map_err(|problem| ConfigError::Value { origin: origin.clone(), problem })?;
        let shown = if field == "spills.keep" { "spills.age" } else { field };
        layer.origins.insert(shown.to_owned(), origin);
    }
    Ok(layer)
}

/// Returns the variables that set fields of a run.
pub(crate) fn environment_run(env: &Environment) -> Result<Layer, ConfigError> {
    Ok(Layer { run: run::environment_layer(env)?, ..Layer::default() })
}

/// Returns the layers of flags.
pub(crate) fn flag_layers(flags: &Flags, env: &Environment) -> Result<Vec<Layer>, ConfigError> {
    let origin = |field: &str, flag| BTreeMap::from([(field.to_owned(), Origin::Flag(flag))]);
    let mut layers = Vec::new();
    if let Some(name) = &flags.policy {
        layers.push(named(name, Origin::Flag("--policy"), &env.directory)?);
    }
    if let Some(tokens) = flags.context {
        let origins = origin("context", "--context");
        layers.push(Layer { context: Some(tokens), origins, ..Layer::default() });
    }
    if let Some(path) = &flags.store {
        let store = StoreLayer::at(env.directory.join(path));
        layers.push(Layer { store, origins: origin("store", "--store"), ..Layer::default() });
    }
    let mut run = RunLayer::default();
    let numbers = [
        ("max_steps", "--max-steps", flags.max_steps.map(Value::from)),
        ("max_cost", "--max-cost", flags.max_cost.map(Value::from)),
        ("max_tokens", "--max-tokens", flags.max_tokens.map(Value::from)),
        ("model", "--model", flags.model.clone().map(Value::from)),
    ];
    for (field, flag, value) in numbers {
        let Some(value) = value else { continue };
        run.values.set(&[field], value);
        run.origins.insert(field.to_owned(), Origin::Flag(flag));
    }
    let mode = flags.sandbox.and_then(|mode| serde_json::to_value(mode).ok());
    let network = flags.network.then_some(Value::Bool(true));
    for (field, flag, value) in [("mode", "--sandbox", mode), ("network", "--allow network", network)] {
        let Some(value) = value else { continue };
        run.values.set(&["sandbox", field], value);
        run.origins.insert(format!("sandbox.{field}"), Origin::Flag(flag));
    }
    layers.push(Layer { run, ..Layer::default() });
    Ok(layers)
}
