//! Configuration: one policy, one context window, one store and what a run stands on, out of layers, each value with its
//! origin.
//!
//! From the lightest to the heaviest: the preset, the user's files, the project's files, the environment, flags. It is
//! the order of git, cargo and uv: what is nearer to the work wins. The user's and the project's own are a `config.toml`
//! and a `plimsoll.toml`; under each of them lie the `opencode.json` files of that level.
//!
//! Any layer may name a policy, and the heaviest that does so decides: another policy is not used at all. A preset is
//! what everything else is laid over. The fields of a policy file have the weight of the layer that named it, just
//! under that layer's own.
//!
//! A project's file comes with a checkout. Until its user trusts it, it sets only what cannot hurt (`risk.rs` says what
//! that is, key by key); the rest is left out and told of in [`Config::left_out`]. Trust is for a directory and the content of the
//! files concerned, kept in a [`Ledger`] in the user's own data folder.
//!
//! ```
//! use plimsoll_config::{Config, Flags, Origin, Surroundings};
//! let around = Surroundings::new("/nowhere".into(), [("PLIMSOLL_CONTEXT".to_owned(), "64000".to_owned())]);
//! let config = Config::load(&Flags::default(), &around)?;
//! assert_eq!(config.context, 64_000);
//! assert_eq!(config.origin("context"), Origin::Variable("PLIMSOLL_CONTEXT".to_owned()));
//! # Ok::<(), plimsoll_config::ConfigError>(())
//! ```
//!
//! Models, providers, agents and permissions are in [`RunConfig`]:
//!
//! ```
//! use plimsoll_config::{Config, Flags, Surroundings};
//! let variables = [("OPENAI_BASE_URL".to_owned(), "http://localhost:11434/v1".to_owned())];
//! let config = Config::load(&Flags::default(), &Surroundings::new("/nowhere".into(), variables))?;
//! let run = config.run.as_ref().map_err(|error| error.to_string())?;
//! let model = run.resolve_model(Some("openai-chat/qwen3"))?;
//! assert_eq!(model.endpoint.url(), "http://localhost:11434/v1/chat/completions");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate reads files and writes the ledger. It has no terminal, prints nothing, and reads neither variables nor the
//! current directory of its process: [`Surroundings`] are passed in.

mod bounded;
mod closed;
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
mod schema;
mod store;
mod surroundings;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll::{Policy, Preset};
use serde_json::Value;

use file::ConfigFile;
use layers::Merged;

pub use bounded::{FileHead, read_in_time, read_regular};
pub use error::ConfigError;
pub use flags::Flags;
pub use guard::GuardedSetting;
pub use ledger::{Ledger, LedgerError, TrustedFile, TrustedProject};
pub use nearest::{nearest, nearest_few};
pub use notice::Notice;
pub use plimsoll_sandbox::{
    Action, Grants, Origin, PermissionRule, Permissions, SandboxConfig, SandboxMode, matches,
};
pub use project::{Distrust, LeftOut, Project};
pub use review::Review;
pub use run::{
    AgentConfig, AgentFork, AgentMode, HookCommand, HookEvent, INSTRUCTION_ENTRIES, InstructionSource,
    McpConnection, McpServer, ModelConfig, ProviderConfig, ProviderKeys, ResolvedModel, RunCaps, RunConfig,
    RunField, SetupError, SkillSource, TaskConfig, ToolSwitch, WebfetchConfig,
};
pub use store::{Durability, STORE_FIELDS, SpillAge, StoreConfig};
pub use surroundings::Surroundings;

/// What all layers together say.
#[derive(Debug)]
pub struct Config {
    /// The policy.
    pub policy: Policy,
    /// The model's context window, in tokens.
    pub context: u64,
    /// Where Plimsoll keeps sessions, and how.
    pub store: StoreConfig,
    /// What a run of an agent stands on; or why that part of the configuration cannot be used, which is no matter to
    /// what needs no model.
    pub run: Result<RunConfig, Arc<ConfigError>>,
    /// The policy's name as it was given: a preset, or a file.
    pub chosen: String,
    /// What files of projects say and are not trusted to say, the farthest project first.
    pub left_out: Vec<LeftOut>,
    /// What files say that has no effect here.
    pub notices: Vec<Notice>,
    preset: Preset,
    origins: BTreeMap<String, Origin>,
}

impl Config {
    /// What holds in these surroundings, with these flags.
    pub fn load(flags: &Flags, around: &Surroundings) -> Result<Config, ConfigError> {
        let mut layers = Vec::new();
        let mut notices = opencode::unread(around);
        for path in opencode::user_files(around) {
            let mut file = ConfigFile::read_opencode(&path);
            // OpenCode looks for the user's instructions in the project at hand.
            file.base = around.directory.clone();
            layers.push(file.layer()?);
            notices.extend(file.notices);
        }
        if let Some(path) = user_file(around) {
            layers.extend(layers::file_layers(&ConfigFile::read(&path)?)?);
        }
        let (mut own, mut left_out) = (Vec::new(), Vec::new());
        let ledger = Ledger::read(around).ok();
        let projects = Project::in_effect(around)?;
        let is_known = |project: &Project| {
            ledger.as_ref().is_some_and(|ledger| project.distrust(ledger, around).is_none())
        };
        let is_trusted = !projects.is_empty() && projects.iter().all(|(project, _)| is_known(project));
        for (project, with_own) in projects {
            let of_project = project.layers(around, with_own)?;
            layers.extend(of_project.opencode);
            own.extend(of_project.own);
            left_out.extend(of_project.left_out);
            notices.extend(project.notices().cloned());
        }
        layers.extend(own);
        layers.extend(layers::environment_policy(around)?);
        let asked = layers::flag_layers(flags, around)?;
        // OpenCode's own variables count where one of its presets is followed, whichever layer chose it.
        let chosen = layers.iter().chain(&asked).rev().find_map(|layer| layer.overrides.preset);
        layers.push(layers::environment_fields(chosen.unwrap_or(Preset::Plimsoll), around)?);
        layers.push(layers::environment_store(around)?);
        layers.push(layers::environment_run(around)?);
        layers.extend(asked);
        let mut config = Config::of(layers::merge(layers, around)?);
        if let Ok(run) = &mut config.run {
            run.is_trusted = is_trusted;
            let spills = &config.policy.truncate.spill_directory;
            let private = closed::private_places(around, config.store.path.as_deref(), spills);
            run.sandbox.closed = closed::closed_places(around, &private);
            run.sandbox.private = private;
            notices.extend(run.take_ignored());
        }
        Ok(Config { left_out, notices, ..config })
    }

    fn of(merged: Merged) -> Config {
        let Merged { policy, context, store, run, chosen, preset, origins } = merged;
        let (left_out, notices) = (Vec::new(), Vec::new());
        Config { policy, context, store, run, chosen, left_out, notices, preset, origins }
    }

    /// What one file says by itself, as if it were trusted.
    pub fn of_file(path: &Path, around: &Surroundings) -> Result<Config, ConfigError> {
        let file = ConfigFile::read(path)?;
        let config = Config::of(layers::merge(layers::file_layers(&file)?, around)?);
        Ok(Config { notices: file.notices, ..config })
    }

    /// Where a value comes from: a field of the policy by its path, `policy`, `context`, or one of [`STORE_FIELDS`].
    pub fn origin(&self, field: &str) -> Origin {
        let preset = || Origin::Preset(self.preset.name());
        self.origins.get(field).cloned().unwrap_or_else(preset)
    }

    /// The JSON Schema of a configuration file: the fields of a policy, the store, and what a run stands on.
    pub fn schema() -> Value {
        schema::config_schema()
    }

    /// Every field of the policy by its path, with its value.
    pub fn fields(&self) -> Vec<(String, Value)> {
        // A policy is plain data, and always can be written.
        names::leaves("", &serde_json::to_value(&self.policy).unwrap_or_default())
    }
}

/// The user's own file, if there is one.
fn user_file(around: &Surroundings) -> Option<PathBuf> {
    around.config_folder().map(|folder| folder.join("config.toml")).filter(|file| file.is_file())
}
