//! What a run of an agent stands on: models and their providers, agents, permissions, MCP servers, instructions, caps, what
//! commands are held to.
//!
//! Every file, OpenCode's too, is brought into one shape ([`tree::Tree`]), the layers are merged, references are
//! replaced, and only then the values get their types. So a layer may say a part of a provider, and an error still
//! names the line that it is about.

mod agent;
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

use crate::error::ConfigError;
use crate::notice::Notice;
use crate::surroundings::Surroundings;
use spec::RunSpec;

pub use agent::{AgentConfig, AgentFork, AgentMode, ToolSwitch};
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

/// The sections of a file that are about a run.
pub(crate) const SECTIONS: [&str; 16] = [
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
    "mcp",
    "sandbox",
    "webfetch",
    "tasks",
    "hooks",
];

/// What all layers together say about a run.
#[derive(Debug)]
pub struct RunConfig {
    /// The model of a session.
    pub model: Option<ModelRef>,
    /// A cheaper model, for titles and the like.
    pub small_model: Option<ModelRef>,
    /// The agent that runs where none is named.
    pub default_agent: Option<String>,
    /// Providers by name, the built-in ones among them.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Agents by name, those that are disabled too.
    pub agents: BTreeMap<String, AgentConfig>,
    /// What agents may do.
    pub permissions: Permissions,
    /// MCP servers by name, those that are disabled too.
    pub mcp: BTreeMap<String, McpServer>,
    /// `AGENTS.md` of the user and of the project, the farthest first. Their text goes into the system prompt.
    pub standing: Vec<InstructionSource>,
    /// Commands that are run at certain moments, in order.
    pub hooks: Vec<HookCommand>,
    /// Further files whose text goes into the system prompt.
    pub instructions: Vec<InstructionSource>,
    /// Folders with skills, besides those that are looked into anyway.
    pub skills: Vec<SkillSource>,
    /// What a run must not exceed.
    pub caps: RunCaps,
    /// What commands are held to.
    pub sandbox: SandboxConfig,
    /// What may be fetched.
    pub webfetch: WebfetchConfig,
    /// Background tasks.
    pub tasks: TaskConfig,
    /// Keys of providers, which are kept from commands, hooks and MCP servers.
    pub keys: ProviderKeys,
    /// Whether a person has trusted the project at hand, as its files are now.
    pub is_trusted: bool,
    /// What layers say that has no effect.
    ignored: Vec<Notice>,
    fields: Vec<RunField>,
    origins: BTreeMap<String, Origin>,
}

/// A setting of a run, as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunField {
    /// Its key.
    pub key: String,
    /// Its value; what is secret is hidden.
    pub value: Value,
    /// Where it comes from.
    pub origin: Origin,
}

/// What a run must not exceed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunCaps {
    /// Most calls of the model.
    pub steps: Option<u32>,
    /// Most that it may cost, in dollars.
    pub cost: Option<f64>,
    /// Most tokens, input and output together.
    pub tokens: Option<u64>,
}

impl RunConfig {
    /// Where a setting comes from, by its key.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::BuiltIn)
    }

    /// Every setting that a layer makes. Of rules and instructions all are here, in their order.
    pub fn fields(&self) -> &[RunField] {
        &self.fields
    }

    /// Takes out what has no effect, with the instructions that are addresses: they are not fetched.
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

    /// The layers laid over each other, the lightest first.
    pub(crate) fn of_layers(
        layers: Vec<RunLayer>,
        around: &Surroundings,
    ) -> Result<RunConfig, Arc<ConfigError>> {
        let mut all = provider::built_in_layer();
        for layer in layers {
            if let Some(problem) = layer.problem {
                return Err(problem);
            }
            all.lay(layer);
        }
        all.settle(around).map_err(Arc::new)
    }
}

/// The JSON Schema of what a file may say about a run.
pub(crate) fn schema() -> Value {
    schemars::schema_for!(RunSpec).to_value()
}
