//! Agents of the configuration.

use std::time::Duration;

use plimsoll_providers::ModelRef;
use plimsoll_sandbox::{Origin, Permissions, matches};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Where an agent may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AgentMode {
    /// By the user.
    Primary,
    /// By another agent.
    Subagent,
    /// By both.
    #[default]
    All,
}

/// How much of its parent's conversation a sub-agent receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AgentFork {
    /// A digest within the fork policy's budget.
    Digest,
    /// The history as the model last saw it.
    History,
}

/// Settings of an agent. Unset ones come from the built-in agent with that name, or from the session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentConfig {
    /// Description for other agents.
    pub description: Option<String>,
    /// System prompt.
    pub prompt: Option<String>,
    /// Model; the session's if it is not set.
    pub model: Option<ModelRef>,
    /// Switches for tools, in order.
    pub tools: Vec<ToolSwitch>,
    /// Maximum model calls in one run.
    pub steps: Option<u32>,
    /// Maximum tokens of an answer.
    pub output: Option<u64>,
    /// Timeout of a request.
    pub timeout: Option<Duration>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling: cumulative probability of the tokens to sample from.
    pub top_p: Option<f64>,
    /// Additional fields of the request, in the provider's format.
    pub options: Map<String, Value>,
    /// Where the agent may be used.
    pub mode: Option<AgentMode>,
    /// Permission rules of the agent, with a higher priority than those of the configuration.
    pub permissions: Permissions,
    /// How much of its parent's conversation the agent receives.
    pub fork: Option<AgentFork>,
    /// Whether the agent is disabled.
    pub disabled: bool,
    /// Problem with a reference in its settings; the agent cannot be used until it is fixed.
    pub problem: Option<String>,
}

/// Enables or disables a tool for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSwitch {
    /// Name of the tool, or a pattern.
    pub tool: String,
    /// Whether the agent has the tool.
    pub on: bool,
    /// Location of the setting.
    pub origin: Origin,
}

impl AgentConfig {
    /// Whether the agent has a tool, by the last switch that matches; `None` if none does.
    pub fn has_tool(&self, tool: &str) -> Option<bool> {
        self.tools.iter().rev().find(|switch| matches(&switch.tool, tool)).map(|switch| switch.on)
    }
}
