//! Agents of the configuration.

use std::time::Duration;

use plimsoll_providers::ModelRef;
use plimsoll_sandbox::{Origin, Permissions, matches};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Where an agent may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentMode {
    /// By a person.
    Primary,
    /// By another agent.
    Subagent,
    /// By both.
    #[default]
    All,
}

/// What a sub-agent is told of the conversation it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentFork {
    /// A digest within the fork policy's budget.
    Digest,
    /// The history as the model last saw it.
    History,
}

/// An agent: what is set of it. Everything else is as the built-in agent of that name has it, or the session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentConfig {
    /// What it is for; other agents read it.
    pub description: Option<String>,
    /// Its system prompt.
    pub prompt: Option<String>,
    /// Its model; the session's where it is not set.
    pub model: Option<ModelRef>,
    /// Tools it has or has not, in order.
    pub tools: Vec<ToolSwitch>,
    /// Most calls of the model in one run.
    pub steps: Option<u32>,
    /// The longest answer, in tokens.
    pub output: Option<u64>,
    /// The longest time of one request.
    pub timeout: Option<Duration>,
    /// How freely the model chooses its words.
    pub temperature: Option<f64>,
    /// How many of the likeliest words the model chooses from.
    pub top_p: Option<f64>,
    /// Further fields of the request, as its provider has them.
    pub options: Map<String, Value>,
    /// Where it may be used.
    pub mode: Option<AgentMode>,
    /// Rules of its own, heavier than those of the configuration.
    pub permissions: Permissions,
    /// What it is told of the conversation it comes from.
    pub fork: Option<AgentFork>,
    /// Whether it is not there at all.
    pub disabled: bool,
    /// What is wrong with a reference of it; it cannot be used before that is mended.
    pub problem: Option<String>,
}

/// A tool that an agent has or has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSwitch {
    /// The tool, or a pattern of names.
    pub tool: String,
    /// Whether the agent has it.
    pub on: bool,
    /// Where this is said.
    pub origin: Origin,
}

impl AgentConfig {
    /// Whether it has a tool: as the last switch that matches says, and nothing where none does.
    pub fn has_tool(&self, tool: &str) -> Option<bool> {
        self.tools.iter().rev().find(|switch| matches(&switch.tool, tool)).map(|switch| switch.on)
    }
}
