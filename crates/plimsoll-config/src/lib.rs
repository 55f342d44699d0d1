#![doc = include_str!("../README.md")]

mod bounded;
mod closed;
mod environment;
mod error;
mod file;
mod flags;
mod guard;
mod layer;
mod layers;
mod ledger;
mod names;
mod nearest;
mod notice;
mod opencode;
mod paths;
mod project;
mod review;
mod risk;
mod run;
#[cfg(feature = "schema")]
mod schema;
mod shell;
mod store;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll::{Policy, Preset};
use serde_json::Value;

use file::ConfigFile;
use layers::Merged;

pub use bounded::{FileHead, read_in_time, read_regular, read_resolved};
pub use environment::Environment;
pub use error::ConfigError;
pub use flags::Flags;
pub use guard::GuardedSetting;
pub use ledger::{Ledger, LedgerError, TrustedFile, TrustedProject};
pub use nearest::{nearest, nearest_few};
pub use notice::{Notice, UnknownVariable};
pub use opencode::opencode_tool_names;
pub use plimsoll_sandbox::{
    Action, Grants, Origin, PermissionRule, Permissions, SandboxConfig, SandboxMode, matches,
};
pub use project::{DistrustReason, LeftOut, Project};
pub use review::Review;
pub use run::{
    AgentConfig, AgentFork, AgentMode, CommandConfig, HookCommand, HookEvent, INSTRUCTION_ENTRIES,
    InstructionSource, McpConnection, McpServer, ModelConfig, ProviderConfig, ProviderKeys, ResolvedModel,
    RunCaps, RunConfig, RunField, SetupError, SkillSource, TaskConfig, ToolSwitch, WebfetchConfig,
};
pub use shell::shell_quoted;
pub use store::{Durability, STORE_FIELDS, SpillAge, StoreConfig};

/// The merged configuration.
#[derive(Debug)]
#[non_exhaustive]
pub struct Config {
    /// The policy.
    pub policy: Policy,
    /// Context window of the model in tokens.
    pub context: u64,
    /// Location and settings of the store.
    pub store: StoreConfig,
    /// Settings for runs of an agent, or why they cannot be used. Commands that need no model work without them.
    pub run: Result<RunConfig, Arc<ConfigError>>,
    /// Name of the selected policy: a preset or a file.
    pub chosen: String,
    /// Settings of projects that are ignored because the project is not trusted, outermost project first.
    pub left_out: Vec<LeftOut>,
    /// Settings that have no effect.
    pub notices: Vec<Notice>,
    /// Environment variables that look like settings and are ignored.
    pub unknown_variables: Vec<UnknownVariable>,
    preset: Preset,
    origins: BTreeMap<String, Origin>,
}

impl Config {
    /// Loads the configuration for an environment and flags.
    pub fn load(flags: &Flags, env: &Environment) -> Result<Config, ConfigError> {
        let mut layers = Vec::new();
        let mut notices = opencode::unread(env);
        for path in opencode::user_files(env) {
            let mut file = ConfigFile::read_opencode(&path);
            // OpenCode looks for the user's instructions in the current project.
            file.base = env.directory.clone();
            layers.push(file.layer()?);
            notices.extend(file.notices);
        }
        if let Some(path) = user_file(env) {
            layers.extend(layers::file_layers(&ConfigFile::read(&path)?)?);
        }
        let (mut own, mut left_out) = (Vec::new(), Vec::new());
        // A record that cannot be read is reported with the settings that it leaves out.
        let ledger = Ledger::read(env).ok();
        let projects = Project::in_effect(env)?;
        let is_known =
            |project: &Project| ledger.as_ref().is_some_and(|ledger| project.distrust(ledger, env).is_none());
        let is_trusted = !projects.is_empty() && projects.iter().all(|(project, _)| is_known(project));
        for (project, with_own) in projects {
            let of_project = project.layers(env, with_own)?;
            layers.extend(of_project.opencode);
            own.extend(of_project.own);
            left_out.extend(of_project.left_out);
            notices.extend(project.notices().cloned());
        }
        // After all OpenCode files: a `plimsoll.toml` outranks those of every directory.
        layers.extend(own);
        layers.extend(layers::environment_policy(env)?);
        let asked = layers::flag_layers(flags, env)?;
        // OpenCode's own variables count if one of its presets is used, whichever layer selected it.
        let chosen = layers.iter().chain(&asked).rev().find_map(|layer| layer.overrides.preset);
        layers.push(layers::environment_fields(chosen.unwrap_or(Preset::Plimsoll), env)?);
        layers.push(layers::environment_store(env)?);
        layers.push(layers::environment_run(env)?);
        layers.extend(asked);
        let mut config = Config::of(layers::merge(layers, env)?);
        if let Ok(run) = &mut config.run {
            run.is_trusted = is_trusted;
            let spills = &config.policy.truncate.spill_directory;
            let private = closed::private_places(env, config.store.path.as_deref(), spills);
            run.sandbox.closed = closed::closed_places(env, &private);
            run.sandbox.private = private;
            notices.extend(run.take_ignored());
        }
        let unknown_variables = names::unknown_variables(env);
        Ok(Config { left_out, notices, unknown_variables, ..config })
    }

    fn of(merged: Merged) -> Config {
        let Merged { policy, context, store, run, chosen, preset, origins } = merged;
        Config {
            policy,
            context,
            store,
            run,
            chosen,
            left_out: Vec::new(),
            notices: Vec::new(),
            unknown_variables: Vec::new(),
            preset,
            origins,
        }
    }

    /// Loads a single file, as if it were trusted.
    pub fn of_file(path: &Path, env: &Environment) -> Result<Config, ConfigError> {
        let file = ConfigFile::read(path)?;
        let config = Config::of(layers::merge(layers::file_layers(&file)?, env)?);
        Ok(Config { notices: file.notices, ..config })
    }

    /// Returns the origin of a value: a policy field by its path, `policy`, `context`, or one of [`STORE_FIELDS`].
    pub fn origin(&self, field: &str) -> Origin {
        let preset = || Origin::Preset(self.preset.name());
        self.origins.get(field).cloned().unwrap_or_else(preset)
    }

    /// Returns the JSON Schema of a configuration file: policy, store and runs.
    #[cfg(feature = "schema")]
    pub fn schema() -> Value {
        schema::config_schema()
    }

    /// Returns every field of the policy by its path, with its value.
    pub fn fields(&self) -> Vec<(String, Value)> {
        // A policy is plain data, so serialising it cannot fail.
        names::leaves("", &serde_json::to_value(&self.policy).unwrap_or_default())
    }
}

/// Returns the user's own file, if it exists.
fn user_file(env: &Environment) -> Option<PathBuf> {
    env.config_directory().map(|directory| directory.join("config.toml")).filter(|file| file.is_file())
}
