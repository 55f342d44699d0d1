//! Settings for runs of an agent: models and their providers, agents, permissions, MCP servers, instructions, limits,
//! the sandbox.
//!
//! Every file, including OpenCode's, is converted into one shape ([`tree::Tree`]). Then the layers are merged,
//! references are replaced, and only then the values get their types. A layer can therefore set a part of a provider,
//! and an error still names the line that it is about.

mod agent;
mod command;
mod hook;
mod instructions;
mod keys;
mod layer;
pub(crate) mod mask;
mod mcp;
mod provider;
pub(crate) mod reference;
mod resolve;
pub(crate) mod settle;
mod skills;
mod spec;
mod tasks;
mod tree;
mod webfetch;

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_providers::ModelRef;
use plimsoll_sandbox::{Origin, Permissions, SandboxConfig};
use serde::Serialize;
use serde_json::Value;

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::notice::Notice;
#[cfg(feature = "schema")]
use spec::RunSpec;

pub use agent::{AgentConfig, AgentFork, AgentMode, ToolSwitch};
pub use command::CommandConfig;
pub(crate) use hook::OPENCODE_EVENTS;
pub use hook::{HookCommand, HookEvent};
pub use instructions::{INSTRUCTION_ENTRIES, InstructionSource};
pub use keys::ProviderKeys;
pub(crate) use layer::{RunLayer, RunSource, rule_key};
pub use mcp::{McpConnection, McpServer};
pub use provider::{ModelConfig, ProviderConfig};
pub(crate) use provider::{RUN_VARIABLES, environment_layer};
pub use resolve::{ResolvedModel, SetupError};
pub use skills::SkillSource;
pub use tasks::TaskConfig;
pub(crate) use tree::Tree;
pub use webfetch::WebfetchConfig;

/// Sections of a file that belong to runs.
pub(crate) const SECTIONS: [&str; 17] = [
    "model",
    "small_model",
    "default_agent",
    "max_steps",
    "max_cost",
    "max_tokens",
    "instructions",
    "skills",
    "permissions",
    "providers",
    "agents",
    "commands",
    "mcp",
    "sandbox",
    "webfetch",
    "tasks",
    "hooks",
];

/// The merged settings for runs of an agent.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunConfig {
    /// The model of a session.
    pub model: Option<ModelRef>,
    /// A cheaper model for titles and similar tasks.
    pub small_model: Option<ModelRef>,
    /// The default agent.
    pub default_agent: Option<String>,
    /// Providers by name, including the built-in ones.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Agents by name, including disabled ones.
    pub agents: BTreeMap<String, AgentConfig>,
    /// Commands by name.
    pub commands: BTreeMap<String, CommandConfig>,
    /// Permission rules.
    pub permissions: Permissions,
    /// MCP servers by name, including disabled ones.
    pub mcp: BTreeMap<String, McpServer>,
    /// `AGENTS.md` of the user and of the project, outermost first. Their text goes into the system prompt.
    pub standing: Vec<InstructionSource>,
    /// Hooks, in order.
    pub hooks: Vec<HookCommand>,
    /// Additional files whose text goes into the system prompt.
    pub instructions: Vec<InstructionSource>,
    /// Directories with skills, in addition to the default ones.
    pub skills: Vec<SkillSource>,
    /// Limits of a run.
    pub caps: RunCaps,
    /// Confinement of commands.
    pub sandbox: SandboxConfig,
    /// Hosts that `webfetch` may reach.
    pub webfetch: WebfetchConfig,
    /// Background tasks.
    pub tasks: TaskConfig,
    /// Keys of providers, which commands, hooks and MCP servers must not inherit.
    pub keys: ProviderKeys,
    /// Whether the user has trusted the current project with its current files.
    pub is_trusted: bool,
    /// Settings that have no effect.
    ignored: Vec<Notice>,
    fields: Vec<RunField>,
    origins: BTreeMap<String, Origin>,
}

/// A setting of a run for display.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunField {
    /// Key of the setting.
    pub key: String,
    /// Value, with secrets masked.
    pub value: Value,
    /// Origin of the value.
    pub origin: Origin,
}

/// Limits of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunCaps {
    /// Maximum model calls.
    pub steps: Option<u32>,
    /// Maximum cost in dollars.
    pub cost: Option<f64>,
    /// Maximum tokens, input and output together.
    pub tokens: Option<u64>,
}

impl RunConfig {
    /// Returns the origin of a setting by its key.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::BuiltIn)
    }

    /// Returns every setting that a layer makes, including all rules and instructions in their order.
    pub fn fields(&self) -> &[RunField] {
        &self.fields
    }

    /// Takes the settings that have no effect, including instructions that are URLs: they are not fetched.
    pub(crate) fn take_ignored(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.ignored);
        self.instructions.retain(|source| {
            let is_address = instructions::is_address(&source.pattern);
            if is_address {
                let reason = Some(format!(
                    "`{}` is not fetched; save it as a file",
                    plimsoll::redact::redact(&source.pattern).text
                ));
                notices.push(Notice {
                    key: "instructions".to_owned(),
                    origin: source.origin.clone(),
                    reason,
                });
            }
            !is_address
        });
        notices
    }

    /// Merges the layers, lowest priority first.
    pub(crate) fn of_layers(layers: Vec<RunLayer>, env: &Environment) -> Result<RunConfig, Arc<ConfigError>> {
        let mut all = provider::built_in_layer();
        for layer in layers {
            if let Some(problem) = layer.problem {
                return Err(problem);
            }
            all.merge_layer(layer);
        }
        all.settle(env).map_err(Arc::new)
    }
}

/// Returns the JSON Schema of the settings of a run.
#[cfg(feature = "schema")]
pub(crate) fn schema() -> Value {
    schemars::schema_for!(RunSpec).to_value()
}
