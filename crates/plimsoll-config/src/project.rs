//! A project's own configuration, and what of it takes effect.
//!
//! A project is a directory with a `plimsoll.toml` or files of OpenCode's, by its canonical path: the same project under
//! a link to its directory is trusted, and a link in another directory to a trusted file is not. The latter matters
//! because relative paths are meant from where the file was found.
//!
//! The files of one directory are trusted together. Of those above it, each directory is a project of its own.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use plimsoll::Preset;
use plimsoll_sandbox::Origin;
use serde_json::Value;

use crate::bounded::read_in_time;
use crate::error::ConfigError;
use crate::file::ConfigFile;
use crate::guard::{GuardedSetting, all_settings, take_guarded};
use crate::layer::Layer;
use crate::layers;
use crate::ledger::{Ledger, LedgerError, TrustedFile};
use crate::notice::Notice;
use crate::opencode;
use crate::paths::{folder, project_directories};
use crate::review::Review;
use crate::run::reference;
use crate::surroundings::Surroundings;

const FILE_NAME: &str = "plimsoll.toml";

/// The files of a project, read, with the policy file that its `plimsoll.toml` names.
#[derive(Debug)]
pub struct Project {
    /// By its canonical path.
    directory: PathBuf,
    /// As it was found.
    found: PathBuf,
    file: Option<ConfigFile>,
    policy: NamedPolicy,
    opencode: Vec<ConfigFile>,
}

/// What of a project's files takes effect.
pub(crate) struct ProjectLayers {
    /// OpenCode's, the lightest first.
    pub(crate) opencode: Vec<Layer>,
    /// Those of its `plimsoll.toml`, heavier than OpenCode's of any directory.
    pub(crate) own: Vec<Layer>,
    /// What is left out.
    pub(crate) left_out: Option<LeftOut>,
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

/// What a project's files say and are not trusted to say.
#[derive(Debug)]
pub struct LeftOut {
    /// The project's files that say it.
    pub files: Vec<PathBuf>,
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

/// More files than any configuration refers to.
const MOST_REFERENCES: usize = 100;
/// So much of a file that is referred to is held against what was trusted, in bytes.
const MOST_REFERENCED: u64 = 16 << 20;

impl Project {
    /// The file of the nearest project, upwards from a directory.
    pub fn nearest_file(directory: &Path) -> Option<PathBuf> {
        let of_opencode = project_directories(directory);
        directory.ancestors().find_map(|directory| {
            let theirs = || opencode::files_in(directory).into_iter().next();
            own_file(directory).or_else(|| theirs().filter(|_| of_opencode.contains(&directory)))
        })
    }

    /// The file that makes a directory a project: its `plimsoll.toml`, or one of OpenCode's.
    pub fn file_in(directory: &Path) -> Option<PathBuf> {
        own_file(directory).or_else(|| opencode::files_in(directory).into_iter().next())
    }

    /// The directory of a project, by itself or by one of its files.
    pub fn folder_of(path: &Path) -> &Path {
        match path.is_file() {
            false => path,
            true if opencode::is_own_name(path) => opencode::owner(path),
            true => folder(path),
        }
    }

    /// Read a project by its directory or one of its files, with the policy file that it names if that is inside.
    pub fn read(path: &Path) -> Result<Project, ConfigError> {
        let found = Project::folder_of(path);
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

    /// The projects whose files take effect in a directory, the farthest first, each with whether its `plimsoll.toml`
    /// is among them: that of the nearest is, those above it are not.
    pub(crate) fn in_effect(around: &Surroundings) -> Result<Vec<(Project, bool)>, ConfigError> {
        let nearest = around.directory.ancestors().find(|directory| own_file(directory).is_some());
        let mut directories = match opencode::skips_projects(around) {
            true => Vec::new(),
            false => project_directories(&around.directory),
        };
        directories.retain(|directory| !opencode::files_in(directory).is_empty());
        if let Some(nearest) = nearest.filter(|nearest| !directories.contains(nearest)) {
            directories.push(nearest);
        }
        let read = |directory: &Path| Ok((Project::read(directory)?, Some(directory) == nearest));
        directories.into_iter().map(read).collect()
    }

    /// What its files say that has no effect.
    pub(crate) fn notices(&self) -> impl Iterator<Item = &Notice> {
        self.opencode.iter().flat_map(|file| &file.notices)
    }

    /// What trusting it would mean. A policy file outside is read for this.
    pub fn review(&self, around: &Surroundings) -> Result<Review, ConfigError> {
        let outside = match &self.policy {
            NamedPolicy::Outside(path) => Some(read_outside(path)?),
            _ => None,
        };
        let (_, mut settings) = self.harmless(true)?;
        // Of a file outside nothing takes effect before, so all of it does then.
        settings.extend(outside.iter().flat_map(all_settings));
        if let (Some(file), Some((name, origin))) = (&outside, self.named_policy()) {
            // What is wrong with it is said now, not after it was trusted.
            layers::of_policy_file(name, origin.clone(), file)?;
        }
        let files = self.records(outside.as_ref(), around);
        Ok(Review { directory: self.directory.clone(), files, settings })
    }

    /// Why the project is not trusted, by what a ledger says; nothing if it is.
    pub fn distrust(&self, ledger: &Ledger, around: &Surroundings) -> Option<Distrust> {
        self.trusted_policy(ledger, around).err()
    }

    /// The layers that take effect, and what is left out. Without `with_own` its `plimsoll.toml` is not looked at.
    pub(crate) fn layers(&self, around: &Surroundings, with_own: bool) -> Result<ProjectLayers, ConfigError> {
        let (harmless, settings) = self.harmless(with_own)?;
        if settings.is_empty() {
            return Ok(harmless);
        }
        let trusted = Ledger::read(around).map_err(Distrust::NoLedger);
        match trusted.and_then(|ledger| self.trusted_policy(&ledger, around)) {
            Ok(outside) => self.all(outside.as_ref(), with_own),
            Err(why) => {
                let is_named = |path: &&PathBuf| {
                    settings.iter().any(|setting| {
                        matches!(&setting.origin, Origin::File { path: named, .. } if named == *path)
                    })
                };
                let files: Vec<PathBuf> =
                    self.files().map(|file| &file.path).filter(is_named).cloned().collect();
                // What a policy file of the project says, the project says.
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

    /// Everything that its files say.
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

    /// What of it is harmless, and what is not.
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
        // By the files as they were read, and in each by line.
        guarded.sort_by_key(|setting| match &setting.origin {
            Origin::File { path, line } => {
                let place = self.files().position(|file| file.path == *path);
                (place.unwrap_or(usize::MAX), *line)
            }
            _ => (usize::MAX, None),
        });
        Ok((ProjectLayers { opencode, own, left_out: None }, guarded))
    }

    /// Its own files, without the policy file.
    fn files(&self) -> impl Iterator<Item = &ConfigFile> {
        self.file.iter().chain(&self.opencode)
    }

    fn named_policy(&self) -> Option<&(String, Origin)> {
        self.file.as_ref()?.policy.as_ref()
    }

    /// The policy it names as a layer, with the file that it is read from.
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

    /// The policy file outside of the project, if the project is trusted and names one.
    fn trusted_policy(&self, ledger: &Ledger, around: &Surroundings) -> Result<Option<ConfigFile>, Distrust> {
        let files = ledger.files(&self.directory).ok_or(Distrust::NotTrusted)?;
        // The project's own files come first: only if they are those that were trusted, the paths they name are ones
        // that its user has seen, and may be opened.
        if !self.files().all(|file| files.contains(&self.record(file))) {
            return Err(Distrust::Changed);
        }
        let outside = match &self.policy {
            NamedPolicy::Outside(path) => Some(read_outside(path).map_err(|_| Distrust::Changed)?),
            _ => None,
        };
        if files != self.records(outside.as_ref(), around) {
            return Err(Distrust::Changed);
        }
        Ok(outside)
    }

    /// Everything that trust is for.
    fn records(&self, outside: Option<&ConfigFile>, around: &Surroundings) -> Vec<TrustedFile> {
        let policy = if let NamedPolicy::Inside(file) = &self.policy { Some(&**file) } else { outside };
        let policy = policy.map(|file| TrustedFile { path: file.path.clone(), hash: file.hash.clone() });
        let own = self.file.iter().map(|file| self.record(file)).chain(policy);
        let theirs = self.opencode.iter().map(|file| self.record(file));
        own.chain(theirs).chain(self.references(around)).collect()
    }

    fn record(&self, file: &ConfigFile) -> TrustedFile {
        let below = file.path.strip_prefix(&self.found).unwrap_or(&file.path);
        TrustedFile { path: self.directory.join(below), hash: file.hash.clone() }
    }

    /// The files inside the project that its settings refer to as `{file:PATH}`, or name in a command. They come with the
    /// checkout like the settings; those outside are the user's own, as a key is, and may change.
    fn references(&self, around: &Surroundings) -> Vec<TrustedFile> {
        let mut paths = BTreeSet::new();
        for file in self.files() {
            for (path, value) in file.run.leaves() {
                // A command is trusted for what it does, which is in the script that it names.
                let words = command_words(&path, &value).into_iter().map(|word| self.directory.join(word));
                paths.extend(words.filter(|path| path.is_file()).filter_map(|path| path.canonicalize().ok()));
                let written = reference::files(&value);
                let beside = folder(&file.path);
                let meant =
                    written.iter().filter_map(|path| reference::referenced_path(path, beside, around));
                paths.extend(meant.filter_map(|path| path.canonicalize().ok()));
            }
        }
        let inside = paths.into_iter().filter(|path| path.starts_with(&self.directory)).take(MOST_REFERENCES);
        let read = inside.filter_map(|path| Some((read_in_time(&path, MOST_REFERENCED).ok()?.bytes, path)));
        read.map(|(bytes, path)| TrustedFile { path, hash: blake3::hash(&bytes).to_hex().to_string() })
            .collect()
    }
}

/// What a file of a project says.
fn project_layer(file: &ConfigFile) -> Result<Layer, ConfigError> {
    let mut layer = file.layer()?;
    layer.run.hold_to_project();
    Ok(layer)
}

/// The words of the commands that a setting would run.
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

/// The `plimsoll.toml` of a directory.
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
    ConfigFile::read(&canonical.map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?)
}
