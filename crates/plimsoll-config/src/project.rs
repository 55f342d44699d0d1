//! A project's configuration, and which part of it takes effect.
//!
//! A project is a directory with a `plimsoll.toml` or OpenCode's files, identified by its canonical path. The same
//! project through a link to its directory is trusted, but a link in another directory to a trusted file is not,
//! because relative paths start from the directory in which the file was found.
//!
//! The files of one directory are trusted together. Each directory above it is a separate project.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use plimsoll::Preset;
use plimsoll_sandbox::Origin;
use serde_json::Value;

use crate::bounded::read_in_time;
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::file::ConfigFile;
use crate::guard::{GuardedSetting, all_settings, take_guarded};
use crate::layer::Layer;
use crate::layers;
use crate::ledger::{Ledger, LedgerError, TrustedFile};
use crate::notice::Notice;
use crate::opencode;
use crate::paths::{parent_directory, project_directories};
use crate::review::Review;
use crate::run::reference;

const FILE_NAME: &str = "plimsoll.toml";

/// The files of a project, with the policy file that its `plimsoll.toml` names.
#[derive(Debug)]
pub struct Project {
    /// Canonical path.
    directory: PathBuf,
    /// Path before resolving links.
    found: PathBuf,
    file: Option<ConfigFile>,
    policy: NamedPolicy,
    opencode: Vec<ConfigFile>,
}

/// The part of a project's files that takes effect.
pub(crate) struct ProjectLayers {
    /// OpenCode's files, lowest priority first.
    pub(crate) opencode: Vec<Layer>,
    /// Layers of its `plimsoll.toml`, which have a higher priority than OpenCode's files in any directory.
    pub(crate) own: Vec<Layer>,
    /// The settings that are ignored.
    pub(crate) left_out: Option<LeftOut>,
}

/// The policy that a project names.
#[derive(Debug)]
enum NamedPolicy {
    /// The project names no policy.
    Unnamed,
    /// A preset.
    Preset(Preset),
    /// A file inside the project's directory, read by its canonical path.
    Inside(Box<ConfigFile>),
    /// A file elsewhere. It is not opened before the project is trusted: the checkout chooses the path, which may be an
    /// endless device.
    Outside(PathBuf),
}

/// Settings of a project that is not trusted to make them.
#[derive(Debug)]
#[non_exhaustive]
pub struct LeftOut {
    /// The project's files that contain them.
    pub files: Vec<PathBuf>,
    /// The directory to trust.
    pub directory: PathBuf,
    /// Why it is not trusted.
    pub why: DistrustReason,
    /// The ignored settings.
    pub settings: Vec<GuardedSetting>,
}

/// Why a project is not trusted.
#[derive(Debug)]
pub enum DistrustReason {
    /// The user has not trusted it.
    NotTrusted,
    /// A file has changed since the user trusted it.
    Changed,
    /// The record of trust cannot be read, so nothing is trusted.
    NoLedger(LedgerError),
}

/// Maximum number of files that a configuration may refer to.
const MAX_REFERENCES: usize = 100;
/// Maximum bytes of a referenced file that are hashed.
const MAX_REFERENCED: u64 = 16 << 20;

impl Project {
    /// Returns the file of the nearest project, upwards from a directory.
    pub fn nearest_file(directory: &Path) -> Option<PathBuf> {
        let of_opencode = project_directories(directory);
        directory.ancestors().find_map(|directory| {
            let theirs = || opencode::files_in(directory).into_iter().next();
            own_file(directory).or_else(|| theirs().filter(|_| of_opencode.contains(&directory)))
        })
    }

    /// Returns the file that makes a directory a project: its `plimsoll.toml`, or one of OpenCode's.
    pub fn file_in(directory: &Path) -> Option<PathBuf> {
        own_file(directory).or_else(|| opencode::files_in(directory).into_iter().next())
    }

    /// Returns the directory of a project from the directory or one of its files.
    pub fn directory_of(path: &Path) -> &Path {
        match path.is_file() {
            false => path,
            true if opencode::is_own_name(path) => opencode::owner(path),
            true => parent_directory(path),
        }
    }

    /// Reads a project from its directory or one of its files, with the policy file that it names if that is inside.
    pub fn read(path: &Path) -> Result<Project, ConfigError> {
        let found = Project::directory_of(path);
        let unreadable = |source| ConfigError::Unreadable { path: found.to_owned(), source };
        let directory = found.canonicalize().map_err(unreadable)?;
        let file = own_file(found).map(|path| ConfigFile::read(&path)).transpose()?;
        let policy = match &file {
            Some(file) => NamedPolicy::of(file, &directory)?,
            None => NamedPolicy::Unnamed,
        };
        let opencode = opencode::files_in(found).iter().map(|path| ConfigFile::read_opencode(path)).collect();
        Ok(Project { directory, found: found.to_owned(), file, policy, opencode })
    }

    /// Returns the projects whose files take effect in a directory, outermost first. The flag says whether the
    /// `plimsoll.toml` counts, which is only the case for the nearest project.
    pub(crate) fn in_effect(env: &Environment) -> Result<Vec<(Project, bool)>, ConfigError> {
        let nearest = env.directory.ancestors().find(|directory| own_file(directory).is_some());
        let mut directories = match opencode::skips_projects(env) {
            true => Vec::new(),
            false => project_directories(&env.directory),
        };
        directories.retain(|directory| !opencode::files_in(directory).is_empty());
        if let Some(nearest) = nearest.filter(|nearest| !directories.contains(nearest)) {
            directories.push(nearest);
        }
        let read = |directory: &Path| Ok((Project::read(directory)?, Some(directory) == nearest));
        directories.into_iter().map(read).collect()
    }

    /// Returns the settings of its files that have no effect.
    pub(crate) fn notices(&self) -> impl Iterator<Item = &Notice> {
        self.opencode.iter().flat_map(|file| &file.notices)
    }

    /// Returns what trusting the project would mean. This reads a policy file outside of it.
    pub fn review(&self, env: &Environment) -> Result<Review, ConfigError> {
        let outside = match &self.policy {
            NamedPolicy::Outside(path) => Some(read_outside(path)?),
            _ => None,
        };
        let (_, mut settings) = self.harmless(true)?;
        // Before trust, a file outside has no effect, so all of its settings are new.
        settings.extend(outside.iter().flat_map(all_settings));
        if let (Some(file), Some((name, origin))) = (&outside, self.named_policy()) {
            // Reports errors in the file before it is trusted, not afterwards.
            layers::of_policy_file(name, origin.clone(), file)?;
        }
        let files = self.records(outside.as_ref(), env);
        Ok(Review { directory: self.directory.clone(), files, settings })
    }

    /// Returns why the project is not trusted according to a ledger; `None` if it is.
    pub fn distrust(&self, ledger: &Ledger, env: &Environment) -> Option<DistrustReason> {
        self.trusted_policy(ledger, env).err()
    }

    /// Returns the layers that take effect and the ignored settings. Without `with_own` its `plimsoll.toml` is not
    /// read.
    pub(crate) fn layers(&self, env: &Environment, with_own: bool) -> Result<ProjectLayers, ConfigError> {
        let (harmless, settings) = self.harmless(with_own)?;
        // Before the record is read: harmless settings must take effect without one.
        if settings.is_empty() {
            return Ok(harmless);
        }
        let trusted = Ledger::read(env).map_err(DistrustReason::NoLedger);
        match trusted.and_then(|ledger| self.trusted_policy(&ledger, env)) {
            Ok(outside) => self.all(outside.as_ref(), with_own),
            Err(why) => {
                let is_named = |path: &&PathBuf| {
                    settings.iter().any(|setting| {
                        matches!(&setting.origin, Origin::File { path: named, .. } if named == *path)
                    })
                };
                let files: Vec<PathBuf> =
                    self.files().map(|file| &file.path).filter(is_named).cloned().collect();
                // Settings of the project's policy file count as the project's.
                let files = if files.is_empty() {
                    self.file.iter().map(|file| file.path.clone()).collect()
                } else {
                    files
                };
                let left_out = LeftOut { files, directory: self.found.clone(), why, settings };
                Ok(ProjectLayers { left_out: Some(left_out), ..harmless })
            }
        }
    }

    /// Returns all settings of its files.
    fn all(&self, outside: Option<&ConfigFile>, with_own: bool) -> Result<ProjectLayers, ConfigError> {
        let own = match self.file.as_ref().filter(|_| with_own) {
            Some(file) => {
                let named = self.policy_layer(outside)?.map(|(layer, _)| layer);
                layers::stacked(named, project_layer(file)?, &file.path)
            }
            None => Vec::new(),
        };
        let opencode = self.opencode.iter().map(project_layer).collect::<Result<_, _>>()?;
        Ok(ProjectLayers { opencode, own, left_out: None })
    }

    /// Splits the settings into harmless and guarded ones.
    fn harmless(&self, with_own: bool) -> Result<(ProjectLayers, Vec<GuardedSetting>), ConfigError> {
        let mut guarded = Vec::new();
        let mut own = Vec::new();
        if let Some(file) = self.file.as_ref().filter(|_| with_own) {
            if let (NamedPolicy::Outside(_), Some((name, origin))) = (&self.policy, &file.policy) {
                let value = Value::from(name.as_str());
                guarded.push(GuardedSetting { key: "policy".to_owned(), value, origin: origin.clone() });
            }
            let named = self.policy_layer(None)?.map(|(mut layer, file)| {
                guarded.extend(
                    file.map(|file| take_guarded(&mut layer, file, &self.directory)).unwrap_or_default(),
                );
                layer
            });
            let mut layer = project_layer(file)?;
            guarded.extend(take_guarded(&mut layer, file, &self.directory));
            own = layers::stacked(named, layer, &file.path);
        }
        let mut opencode = Vec::new();
        for file in &self.opencode {
            let mut layer = project_layer(file)?;
            guarded.extend(take_guarded(&mut layer, file, &self.directory));
            opencode.push(layer);
        }
        // In the order in which the files were read, and by line within each.
        guarded.sort_by_key(|setting| match &setting.origin {
            Origin::File { path, line } => {
                let place = self.files().position(|file| file.path == *path);
                (place.unwrap_or(usize::MAX), *line)
            }
            _ => (usize::MAX, None),
        });
        Ok((ProjectLayers { opencode, own, left_out: None }, guarded))
    }

    /// Returns its files except the policy file.
    fn files(&self) -> impl Iterator<Item = &ConfigFile> {
        self.file.iter().chain(&self.opencode)
    }

    fn named_policy(&self) -> Option<&(String, Origin)> {
        self.file.as_ref()?.policy.as_ref()
    }

    /// Returns the policy it names as a layer, with the file that it is read from.
    fn policy_layer<'a>(
        &'a self,
        outside: Option<&'a ConfigFile>,
    ) -> Result<Option<(Layer, Option<&'a ConfigFile>)>, ConfigError> {
        let Some((name, origin)) = self.named_policy() else { return Ok(None) };
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

    /// Returns the policy file outside of the project, if the project is trusted and names one.
    fn trusted_policy(
        &self,
        ledger: &Ledger,
        env: &Environment,
    ) -> Result<Option<ConfigFile>, DistrustReason> {
        let files = ledger.files(&self.directory).ok_or(DistrustReason::NotTrusted)?;
        // The project's own files are checked first: only if they are unchanged has the user seen the paths that they
        // name, which may then be opened.
        if !self.files().all(|file| files.contains(&self.record(file))) {
            return Err(DistrustReason::Changed);
        }
        let outside = match &self.policy {
            NamedPolicy::Outside(path) => Some(read_outside(path).map_err(|_| DistrustReason::Changed)?),
            _ => None,
        };
        if files != self.records(outside.as_ref(), env) {
            return Err(DistrustReason::Changed);
        }
        Ok(outside)
    }

    /// Returns all files that trust covers.
    fn records(&self, outside: Option<&ConfigFile>, env: &Environment) -> Vec<TrustedFile> {
        let policy = if let NamedPolicy::Inside(file) = &self.policy { Some(&**file) } else { outside };
        let policy = policy.map(|file| TrustedFile { path: file.path.clone(), hash: file.hash.clone() });
        let own = self.file.iter().map(|file| self.record(file)).chain(policy);
        let theirs = self.opencode.iter().map(|file| self.record(file));
        own.chain(theirs).chain(self.references(env)).collect()
    }

    fn record(&self, file: &ConfigFile) -> TrustedFile {
        let below = file.path.strip_prefix(&self.found).unwrap_or(&file.path);
        TrustedFile { path: self.directory.join(below), hash: file.hash.clone() }
    }

    /// Returns the files inside the project that its settings refer to with `{file:PATH}` or name in a command. They
    /// are part of the checkout like the settings. Files outside belong to the user, like a key, and may change.
    fn references(&self, env: &Environment) -> Vec<TrustedFile> {
        // Sorted, because trust compares the whole list with the recorded one.
        let mut paths = BTreeSet::new();
        for file in self.files() {
            for (path, value) in file.run.leaves() {
                // Trust in a command covers the script that it names.
                let words = command_words(&path, &value).into_iter().map(|word| self.directory.join(word));
                paths.extend(words.filter(|path| path.is_file()).filter_map(|path| path.canonicalize().ok()));
                let written = reference::files(&value);
                let beside = parent_directory(&file.path);
                let meant = written.iter().filter_map(|path| reference::referenced_path(path, beside, env));
                paths.extend(meant.filter_map(|path| path.canonicalize().ok()));
            }
        }
        let inside = paths.into_iter().filter(|path| path.starts_with(&self.directory)).take(MAX_REFERENCES);
        let read = inside.filter_map(|path| Some((read_in_time(&path, MAX_REFERENCED).ok()?.bytes, path)));
        read.map(|(bytes, path)| TrustedFile { path, hash: blake3::hash(&bytes).to_hex().to_string() })
            .collect()
    }
}

/// Returns the settings of a project's file.
fn project_layer(file: &ConfigFile) -> Result<Layer, ConfigError> {
    let mut layer = file.layer()?;
    layer.run.hold_to_project();
    Ok(layer)
}

/// Returns the words of the commands that a setting would run.
fn command_words<'v>(path: &[String], value: &'v Value) -> Vec<&'v str> {
    let words = |command: &'v Value| command.as_array().into_iter().flatten().filter_map(Value::as_str);
    match path {
        [section, _, field] if section == "mcp" && field == "command" => words(value).collect(),
        [section] if section == "hooks" => {
            let hooks = value.as_array().into_iter().flatten();
            hooks.filter_map(|hook| hook.get("command")).flat_map(words).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the `plimsoll.toml` of a directory.
fn own_file(directory: &Path) -> Option<PathBuf> {
    Some(directory.join(FILE_NAME)).filter(|file| file.is_file())
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
                Ok(NamedPolicy::Inside(Box::new(ConfigFile::read(&canonical)?)))
            }
            Ok(_) => Ok(NamedPolicy::Outside(path)),
            // The file does not exist. If the name cannot lead outside, this is an ordinary mistake and reported as
            // such.
            Err(_) if Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) => {
                Err(ConfigError::UnknownPolicy { origin: origin.clone(), source })
            }
            Err(_) => Ok(NamedPolicy::Outside(path)),
        }
    }
}

/// Reads a policy file elsewhere by its canonical path.
fn read_outside(path: &Path) -> Result<ConfigFile, ConfigError> {
    let canonical = path.canonicalize();
    ConfigFile::read(&canonical.map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?)
}
