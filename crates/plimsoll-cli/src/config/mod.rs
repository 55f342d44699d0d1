//! Configuration: one policy and one context window out of five layers.
//!
//! From the lightest to the heaviest: the preset, the project's `plimsoll.toml`, the user's `config.toml`, the
//! environment, flags. The project's file is lighter than the user's, because it comes with a checkout and must not
//! override what the user set.
//!
//! Any layer may name a policy, and the heaviest that does so decides: another policy is not used at all. A preset is
//! what everything else is laid over. The fields of a policy file have the weight of the layer that named it, just
//! under that layer's own.

mod file;
mod names;
mod show;
mod store;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use plimsoll::policy::{Overrides, Setting};
use plimsoll::{Policy, PolicyError, Preset};
use serde::Serialize;

use crate::args::PolicyArgs;
use crate::error::CliError;
use crate::surroundings::Surroundings;
use file::ConfigFile;
pub(crate) use names::nearest;
pub(crate) use show::run;
pub(crate) use store::StoreConfig;
use store::StoreLayer;

/// The context window where nobody names one.
const CONTEXT: u64 = 200_000;
/// Variables of the command itself; all others are fields of the policy.
const POLICY: &str = "PLIMSOLL_POLICY";
const WINDOW: &str = "PLIMSOLL_CONTEXT";
/// Variables that the project's tests read.
const OF_TESTS: [&str; 4] =
    ["PLIMSOLL_BLESS", "PLIMSOLL_CORPUS", "PLIMSOLL_OPENCODE_DB", "PLIMSOLL_OPENCODE_MESSAGES"];

/// What all layers together say.
#[derive(Debug)]
pub(crate) struct Config {
    /// The policy.
    pub(crate) policy: Policy,
    /// The model's context window, in tokens.
    pub(crate) context: u64,
    /// Where Plimsoll keeps sessions, and how.
    pub(crate) store: StoreConfig,
    /// The policy's name as it was given.
    chosen: String,
    preset: Preset,
    origins: BTreeMap<String, Origin>,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Origin {
    /// The command's own default.
    BuiltIn,
    /// The preset.
    Preset(&'static str),
    /// A file, and the line if it is known.
    File {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<usize>,
    },
    /// A variable.
    Variable(String),
    /// A flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::BuiltIn => f.write_str("built in"),
            Origin::Preset(name) => write!(f, "preset {name}"),
            Origin::File { path, line: Some(line) } => write!(f, "{}:{line}", path.display()),
            Origin::File { path, line: None } => write!(f, "{}", path.display()),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag(name) => f.write_str(name),
        }
    }
}

/// What one of the layers says.
#[derive(Default)]
struct Layer {
    /// Set if this is a policy that was named, under that name; else these are single settings.
    chosen: Option<String>,
    overrides: Overrides,
    context: Option<u64>,
    store: StoreLayer,
    origins: BTreeMap<String, Origin>,
}

impl Config {
    /// What holds here, with these flags.
    pub(crate) fn load(flags: &PolicyArgs, around: &Surroundings) -> Result<Config, CliError> {
        let mut layers = Vec::new();
        for path in [project_file(around), user_file(around)].into_iter().flatten() {
            let file = ConfigFile::read(&path)?;
            layers.extend(file_layers(&file, &path)?);
        }
        layers.extend(environment_policy(around)?);
        let asked = flag_layers(flags, around)?;
        // OpenCode's own variables count where one of its presets is followed, whoever chose it.
        let chosen = layers.iter().chain(&asked).rev().find_map(|layer| layer.overrides.preset);
        layers.push(environment_fields(chosen.unwrap_or(Preset::Plimsoll), around)?);
        layers.extend(asked);
        layers.push(environment_store(around)?);
        layers.extend(flag_store(around));
        let mut config = merged(layers)?;
        config.store.settle(around);
        Ok(config)
    }

    /// What one file says by itself.
    fn of_file(path: &Path) -> Result<Config, CliError> {
        merged(file_layers(&ConfigFile::read(path)?, path)?)
    }

    fn origin(&self, field: &str) -> Origin {
        let preset = || Origin::Preset(self.preset.name());
        self.origins.get(field).cloned().unwrap_or_else(preset)
    }
}

/// Lay the layers over each other and check what comes of it.
fn merged(layers: Vec<Layer>) -> Result<Config, CliError> {
    let mut all = Overrides::default();
    let built_in = ["context"].into_iter().chain(store::FIELDS);
    let mut origins: BTreeMap<String, Origin> =
        built_in.map(|field| (field.to_owned(), Origin::BuiltIn)).collect();
    let (mut context, mut store) = (CONTEXT, StoreLayer::default());
    let heaviest = layers.iter().rposition(|layer| layer.chosen.is_some());
    let mut chosen = Preset::Plimsoll.name().to_owned();
    for (place, layer) in layers.into_iter().enumerate() {
        if let Some(name) = layer.chosen {
            if Some(place) != heaviest {
                continue;
            }
            chosen = name;
        }
        all = all.under(layer.overrides);
        context = layer.context.unwrap_or(context);
        store = layer.store.over(store);
        origins.extend(layer.origins);
    }
    let preset = all.preset.unwrap_or(Preset::Plimsoll);
    origins.entry("policy".to_owned()).or_insert(Origin::BuiltIn);
    match all.policy() {
        Ok(policy) => {
            Ok(Config { policy, context, store: StoreConfig::from(store), chosen, preset, origins })
        }
        Err(error) => Err(placed(&error, &origins)),
    }
}

/// The error with the place of the value it is about.
fn placed(error: &PolicyError, origins: &BTreeMap<String, Origin>) -> CliError {
    let origin = match error {
        PolicyError::Field { field, .. } => origins.get(field).filter(|origin| **origin != Origin::BuiltIn),
        _ => None,
    };
    let mut message = error.to_string();
    // Words of programmers for people.
    for (theirs, ours) in [
        ("expected u64", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("unknown variant", "there is no choice"),
        ("invalid type: ", "found "),
        ("invalid value: ", "found "),
    ] {
        message = message.replace(theirs, ours);
    }
    if let Some(end) = message.find("expected struct ") {
        message.truncate(end);
        message.push_str("expected a section with fields");
    }
    let message = match origin {
        Some(origin) => format!("{origin}: {message}"),
        None => message,
    };
    CliError::usage(message).hint("`plimsoll config --schema` describes all fields")
}

/// The nearest `plimsoll.toml`, upwards from the current directory.
fn project_file(around: &Surroundings) -> Option<PathBuf> {
    around.directory.ancestors().map(|folder| folder.join("plimsoll.toml")).find(|file| file.is_file())
}

/// The user's own file, if there is one.
fn user_file(around: &Surroundings) -> Option<PathBuf> {
    let folder = around.path("XDG_CONFIG_HOME");
    let folder = folder.or_else(|| around.path("APPDATA").filter(|_| cfg!(windows)));
    let folder = folder.or_else(|| around.below_home(".config"));
    folder.map(|folder| folder.join("plimsoll").join("config.toml")).filter(|file| file.is_file())
}

/// A file's own fields, and under them the policy that it names.
fn file_layers(file: &ConfigFile, path: &Path) -> Result<Vec<Layer>, CliError> {
    let mut layers = Vec::new();
    if let Some((name, origin)) = &file.policy {
        // A path in a file is meant from where the file is.
        let folder = path.parent().unwrap_or(Path::new("."));
        layers.push(named(name, origin.clone(), folder)?);
    }
    let Layer { mut overrides, context, store, origins, .. } = file.layer()?;
    match overrides.preset.take() {
        // The guide's section stands on a preset of its own.
        Some(preset) if layers.is_empty() => {
            layers.push(of_preset(preset, Origin::File { path: path.to_owned(), line: None }));
        }
        _ => {}
    }
    layers.push(Layer { chosen: None, overrides, context, store, origins });
    Ok(layers)
}

/// The policy that a layer names: a preset, or the fields of a file.
fn named(name: &str, origin: Origin, folder: &Path) -> Result<Layer, CliError> {
    let unknown = match name.parse::<Preset>() {
        Ok(preset) => return Ok(of_preset(preset, origin)),
        Err(unknown) => unknown,
    };
    let path = folder.join(name);
    if !path.exists() {
        let place = if matches!(origin, Origin::Flag(_)) { String::new() } else { format!("{origin}: ") };
        return Err(CliError::usage(format!("{place}{unknown}")).hint("or give the path of a policy file"));
    }
    let file = ConfigFile::read(&path)?;
    if let Some((further, origin)) = file.policy.as_ref().filter(|(name, _)| name.parse::<Preset>().is_err())
    {
        let message = format!("{origin}: a policy file builds on a preset, and `{further}` is none");
        return Err(CliError::usage(message));
    }
    if let Some(field) = file.store.fields().next() {
        let message =
            format!("{}: a policy says nothing about the store, and this has `{field}`", path.display());
        return Err(CliError::usage(message).hint("put it into `plimsoll.toml` or your own `config.toml`"));
    }
    let mut layer = file.layer()?;
    layer.overrides.preset.get_or_insert(Preset::Plimsoll);
    layer.origins.insert("policy".to_owned(), origin);
    Ok(Layer { chosen: Some(name.to_owned()), ..layer })
}

fn of_preset(preset: Preset, origin: Origin) -> Layer {
    let overrides = Overrides { preset: Some(preset), ..Overrides::default() };
    let origins = BTreeMap::from([("policy".to_owned(), origin)]);
    Layer { chosen: Some(preset.name().to_owned()), overrides, origins, ..Layer::default() }
}

/// What the environment says about the policy as a whole and the context window.
fn environment_policy(around: &Surroundings) -> Result<Vec<Layer>, CliError> {
    names::check_variables(around)?;
    let mut layers = Vec::new();
    if let Some(name) = around.variable(POLICY) {
        layers.push(named(name, Origin::Variable(POLICY.to_owned()), &around.directory)?);
    }
    if let Some(text) = around.variable(WINDOW) {
        let tokens = text.trim().parse().ok().filter(|tokens| *tokens > 0);
        let tokens = tokens.ok_or_else(|| {
            CliError::usage(format!("{WINDOW}: expected a whole number above 0, found `{text}`"))
        })?;
        let origins = BTreeMap::from([("context".to_owned(), Origin::Variable(WINDOW.to_owned()))]);
        layers.push(Layer { context: Some(tokens), origins, ..Layer::default() });
    }
    Ok(layers)
}

/// What the environment says about single fields.
fn environment_fields(preset: Preset, around: &Surroundings) -> Result<Layer, CliError> {
    let opencode = preset.name().starts_with("opencode");
    let settings = Setting::all(opencode, |name| around.variable(name).map(str::to_owned));
    let settings = settings.map_err(|error| CliError::usage(error.to_string()))?;
    let mut origins = BTreeMap::new();
    for setting in &settings {
        let variable = Origin::Variable(setting.variable.clone());
        let leaves = names::leaves(&setting.field, &setting.value);
        origins.extend(leaves.into_iter().map(|(field, _)| (field, variable.clone())));
    }
    Ok(Layer { overrides: Setting::overrides(&settings), origins, ..Layer::default() })
}

/// What the environment says about the store.
fn environment_store(around: &Surroundings) -> Result<Layer, CliError> {
    let mut layer = Layer::default();
    for (name, field) in store::VARIABLES.into_iter().zip(store::SETTINGS) {
        let Some(text) = around.variable(name) else { continue };
        let value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        let value = if field == "store" { text.into() } else { value };
        let set = layer.store.set(field, &value, &around.directory);
        set.map_err(|problem| CliError::usage(format!("{name}: {problem}")))?;
        let shown = if field == "spills.keep" { "spills.age" } else { field };
        layer.origins.insert(shown.to_owned(), Origin::Variable(name.to_owned()));
    }
    Ok(layer)
}

/// The database that a flag names.
fn flag_store(around: &Surroundings) -> Option<Layer> {
    let path = around.directory.join(around.store.as_ref()?);
    let origins = BTreeMap::from([("store".to_owned(), Origin::Flag("--store"))]);
    Some(Layer { store: StoreLayer::at(path), origins, ..Layer::default() })
}

fn flag_layers(flags: &PolicyArgs, around: &Surroundings) -> Result<Vec<Layer>, CliError> {
    let mut layers = Vec::new();
    if let Some(name) = &flags.policy {
        layers.push(named(name, Origin::Flag("--policy"), &around.directory)?);
    }
    if let Some(tokens) = flags.context {
        let origins = BTreeMap::from([("context".to_owned(), Origin::Flag("--context"))]);
        layers.push(Layer { context: Some(tokens), origins, ..Layer::default() });
    }
    Ok(layers)
}
