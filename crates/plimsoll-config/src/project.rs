//! A project's own configuration, and what of it takes effect.
//!
//! A project is the directory of a `plimsoll.toml`, by its canonical path: the same project under a link to its
//! directory is trusted, and a link in another directory to a trusted file is not. The latter matters because relative
//! paths are meant from where the file was found.

use std::io;
use std::path::{Component, Path, PathBuf};

use plimsoll::Preset;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::ConfigError;
use crate::file::ConfigFile;
use crate::layers::{self, Layer};
use crate::ledger::{Ledger, LedgerError, TrustedFile};
use crate::names;
use crate::origin::Origin;
use crate::risk::{self, Risk};
use crate::run::{RunLayer, mask};
use crate::surroundings::Surroundings;

const FILE_NAME: &str = "plimsoll.toml";

/// A project's `plimsoll.toml`, read, with the policy file that it names.
#[derive(Debug)]
pub struct Project {
    directory: PathBuf,
    file: ConfigFile,
    policy: NamedPolicy,
}

/// The policy that a project names.
#[derive(Debug)]
enum NamedPolicy {
    /// None.
    Unnamed,
    /// A preset.
    Preset(Preset),
    /// A file inside the project's directory, read by its canonical path.
    Inside(Box<ConfigFile>),
    /// A file elsewhere. It is not opened before the project is trusted: a path of a checkout's choosing may be a
    /// device that never ends.
    Outside(PathBuf),
}

/// A setting that takes effect in a trusted project alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GuardedSetting {
    /// Its key.
    pub key: String,
    /// Its value as it is written.
    pub value: Value,
    /// Where it stands.
    pub origin: Origin,
}

/// What a project's files say and are not trusted to say.
#[derive(Debug)]
pub struct LeftOut {
    /// The project's file.
    pub file: PathBuf,
    /// The directory to trust.
    pub directory: PathBuf,
    /// Why it is not trusted.
    pub why: Distrust,
    /// What is left out.
    pub settings: Vec<GuardedSetting>,
}

/// Why a project is not trusted.
#[derive(Debug)]
pub enum Distrust {
    /// It never was.
    NotTrusted,
    /// It was, and one of its files is another since.
    Changed,
    /// What is trusted cannot be read, so nothing is.
    NoLedger(LedgerError),
}

/// What trusting a project would mean: what would take effect, and the files it is about.
#[derive(Debug, Serialize)]
pub struct Review {
    /// The project's directory, by its canonical path.
    pub directory: PathBuf,
    /// The files as they were when their settings were read.
    pub files: Vec<TrustedFile>,
    /// What would take effect.
    pub settings: Vec<GuardedSetting>,
}

impl Project {
    /// The nearest `plimsoll.toml`, upwards from a directory.
    pub fn nearest_file(directory: &Path) -> Option<PathBuf> {
        directory.ancestors().find_map(Project::file_in)
    }

    /// The `plimsoll.toml` of a directory itself.
    pub fn file_in(directory: &Path) -> Option<PathBuf> {
        Some(directory.join(FILE_NAME)).filter(|file| file.is_file())
    }

    /// Read a project's file and, if it is inside the project, the policy file that this names.
    pub fn read(path: &Path) -> Result<Project, ConfigError> {
        let file = ConfigFile::read(path)?;
        let folder = layers::folder(path);
        let directory = folder
            .canonicalize()
            .map_err(|source| ConfigError::Unreadable { path: folder.to_owned(), source })?;
        let policy = NamedPolicy::of(&file, &directory)?;
        Ok(Project { directory, file, policy })
    }

    /// What trusting it would mean. A policy file outside is read for this.
    pub fn review(&self) -> Result<Review, ConfigError> {
        let outside = match &self.policy {
            NamedPolicy::Outside(path) => Some(read_outside(path)?),
            _ => None,
        };
        let (_, mut settings) = self.harmless()?;
        // Of a file outside nothing takes effect before, so all of it does then.
        settings.extend(outside.iter().flat_map(all_settings));
        if let (Some(file), Some((name, origin))) = (&outside, &self.file.policy) {
            // What is wrong with it is said now, not after it was trusted.
            layers::of_policy_file(name, origin.clone(), file)?;
        }
        let policy = self.policy_record(outside.as_ref());
        let files = [Some(self.own_record()), policy].into_iter().flatten().collect();
        Ok(Review { directory: self.directory.clone(), files, settings })
    }

    /// Why the project is not trusted, by what a ledger says; nothing if it is.
    pub fn distrust(&self, ledger: &Ledger) -> Option<Distrust> {
        self.trusted_policy(ledger).err()
    }

    /// The layers that take effect, and what is left out.
    pub(crate) fn layers(&self, around: &Surroundings) -> Result<(Vec<Layer>, Option<LeftOut>), ConfigError> {
        let (harmless, settings) = self.harmless()?;
        if settings.is_empty() {
            return Ok((harmless, None));
        }
        let trusted = Ledger::read(around).map_err(Distrust::NoLedger);
        match trusted.and_then(|ledger| self.trusted_policy(&ledger)) {
            Ok(outside) => Ok((self.all(outside.as_ref())?, None)),
            Err(why) => {
                let (file, directory) = (self.file.path.clone(), layers::folder(&self.file.path).to_owned());
                Ok((harmless, Some(LeftOut { file, directory, why, settings })))
            }
        }
    }

    /// Everything that its files say.
    fn all(&self, outside: Option<&ConfigFile>) -> Result<Vec<Layer>, ConfigError> {
        let named = self.policy_layer(outside)?.map(|(layer, _)| layer);
        Ok(layers::stacked(named, self.file.layer()?, &self.file.path))
    }

    /// What of it is harmless, and what is not.
    fn harmless(&self) -> Result<(Vec<Layer>, Vec<GuardedSetting>), ConfigError> {
        let mut guarded = Vec::new();
        if let (NamedPolicy::Outside(_), Some((name, origin))) = (&self.policy, &self.file.policy) {
            let value = Value::from(name.as_str());
            guarded.push(GuardedSetting { key: "policy".to_owned(), value, origin: origin.clone() });
        }
        let named = self.policy_layer(None)?.map(|(mut layer, file)| {
            guarded.extend(file.map(|file| take_guarded(&mut layer, file)).unwrap_or_default());
            layer
        });
        let mut own = self.file.layer()?;
        guarded.extend(take_guarded(&mut own, &self.file));
        guarded.sort_by_key(|setting| match &setting.origin {
            Origin::File { path, line } => (*path != self.file.path, *line),
            _ => (true, None),
        });
        Ok((layers::stacked(named, own, &self.file.path), guarded))
    }

    /// The policy it names as a layer, with the file that it is read from.
    fn policy_layer<'a>(
        &'a self,
        outside: Option<&'a ConfigFile>,
    ) -> Result<Option<(Layer, Option<&'a ConfigFile>)>, ConfigError> {
        let Some((name, origin)) = &self.file.policy else { return Ok(None) };
        let file = match &self.policy {
            NamedPolicy::Preset(preset) => {
                return Ok(Some((layers::of_preset(*preset, origin.clone()), None)));
            }
            NamedPolicy::Inside(file) => Some(&**file),
            NamedPolicy::Outside(_) | NamedPolicy::Unnamed => outside,
        };
        let Some(file) = file else { return Ok(None) };
        Ok(Some((layers::of_policy_file(name, origin.clone(), file)?, Some(file))))
    }

    /// The policy file outside of the project, if the project is trusted and names one.
    fn trusted_policy(&self, ledger: &Ledger) -> Result<Option<ConfigFile>, Distrust> {
        let files = ledger.files(&self.directory).ok_or(Distrust::NotTrusted)?;
        // The project's own file comes first: only if it is the one that was trusted, the path it names is one that
        // its user has seen, and may be opened.
        if files.first() != Some(&self.own_record()) {
            return Err(Distrust::Changed);
        }
        let outside = match &self.policy {
            NamedPolicy::Outside(path) => Some(read_outside(path).map_err(|_| Distrust::Changed)?),
            _ => None,
        };
        if files.get(1) != self.policy_record(outside.as_ref()).as_ref() || files.len() > 2 {
            return Err(Distrust::Changed);
        }
        Ok(outside)
    }

    fn own_record(&self) -> TrustedFile {
        TrustedFile { path: self.directory.join(FILE_NAME), hash: self.file.hash.clone() }
    }

    fn policy_record(&self, outside: Option<&ConfigFile>) -> Option<TrustedFile> {
        let file = if let NamedPolicy::Inside(file) = &self.policy { Some(&**file) } else { outside };
        file.map(|file| TrustedFile { path: file.path.clone(), hash: file.hash.clone() })
    }
}

impl NamedPolicy {
    fn of(file: &ConfigFile, directory: &Path) -> Result<NamedPolicy, ConfigError> {
        let Some((name, origin)) = &file.policy else { return Ok(NamedPolicy::Unnamed) };
        let source = match name.parse::<Preset>() {
            Ok(preset) => return Ok(NamedPolicy::Preset(preset)),
            Err(unknown) => unknown,
        };
        let path = directory.join(name);
        match path.canonicalize() {
            Ok(canonical) if canonical.starts_with(directory) => {
                Ok(NamedPolicy::Inside(Box::new(read_regular(&canonical)?)))
            }
            Ok(_) => Ok(NamedPolicy::Outside(path)),
            // Nothing is there. A name that cannot lead outside is a mistake, and told as one.
            Err(_) if Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) => {
                Err(ConfigError::UnknownPolicy { origin: origin.clone(), source })
            }
            Err(_) => Ok(NamedPolicy::Outside(path)),
        }
    }
}

/// A policy file elsewhere, read by its canonical path.
fn read_outside(path: &Path) -> Result<ConfigFile, ConfigError> {
    let canonical = path.canonicalize();
    read_regular(&canonical.map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?)
}

/// Read a file whose path a checkout chose, if it is a regular one: a pipe or a device could be read for ever.
fn read_regular(path: &Path) -> Result<ConfigFile, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("not a regular file")));
    }
    ConfigFile::read(path)
}

/// Everything that a policy file sets.
fn all_settings(file: &ConfigFile) -> Vec<GuardedSetting> {
    let preset = file.policy.iter().map(|(name, _)| ("preset".to_owned(), name.as_str().into()));
    let context = file.context.iter().map(|tokens| ("context".to_owned(), (*tokens).into()));
    let fields = file.fields.iter().flat_map(|(section, value)| names::leaves(section, value));
    let all = preset.chain(context).chain(fields);
    all.map(|(key, value)| GuardedSetting { origin: file.place(&key), key, value }).collect()
}

/// Take out of a layer what needs trust about a run.
fn guard_run(layer: &mut RunLayer, guard: &mut impl FnMut(String, Value)) {
    for (path, value) in layer.values.leaves() {
        if risk::of_run(&path, &value) == Risk::NeedsTrust {
            layer.values.remove(&path);
            let key = path.join(".");
            layer.origins.remove(&key);
            guard(key, mask::masked(&path, &value));
        }
    }
    layer.rules.retain(|(agent, rule)| {
        let is_harmless = risk::of_rule(rule.action) == Risk::Harmless;
        if !is_harmless {
            let section = agent.as_ref().map(|agent| format!("agents.{agent}.permission"));
            let section = section.unwrap_or_else(|| "permissions".to_owned());
            let pattern = if rule.pattern == "*" { String::new() } else { format!(".{}", rule.pattern) };
            guard(format!("{section}.{}{pattern}", rule.tool), rule.action.name().into());
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
    layer.instructions.retain_mut(|source| {
        // A link inside the project may still lead out of it, so what is found is held to the project as well.
        source.within = Some(source.folder.canonicalize().unwrap_or_else(|_| source.folder.clone()));
        let is_harmless = risk::of_instruction(&source.pattern) == Risk::Harmless;
        if !is_harmless {
            guard("instructions".to_owned(), source.pattern.as_str().into());
        }
        is_harmless
    });
}

/// Take out of a layer what needs trust.
fn take_guarded(layer: &mut Layer, file: &ConfigFile) -> Vec<GuardedSetting> {
    let mut guarded = Vec::new();
    let mut guard = |key: String, value: Value| {
        guarded.push(GuardedSetting { origin: file.place(&key), key, value });
    };
    if !file.store_values.is_empty() {
        // All settings of the store need trust; a test holds the table to that.
        file.store_values.iter().for_each(|(key, value)| guard(key.clone(), value.clone()));
        layer.store = Default::default();
    }
    guard_run(&mut layer.run, &mut guard);
    let names_fork = file.fields.get("fork").is_some_and(Value::is_string);
    let mut kept = Map::new();
    for (section, value) in std::mem::take(&mut layer.overrides.fields) {
        match value {
            // A fork policy by its name is as harmless as a preset, and its lists are its own.
            Value::Object(fields) if section != "fork" || !names_fork => {
                let (harmless, needs_trust): (Vec<_>, Vec<_>) = fields
                    .into_iter()
                    .partition(|(name, value)| risk::of_value(&section, name, value) == Risk::Harmless);
                let guarded = needs_trust.into_iter();
                guarded.for_each(|(name, value)| guard(format!("{section}.{name}"), value));
                kept.insert(section, Value::Object(harmless.into_iter().collect()));
            }
            // A section that is none is refused by the policy's own check, which says more.
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
