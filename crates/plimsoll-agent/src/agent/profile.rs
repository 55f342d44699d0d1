//! Name, system prompt, tools and permissions of an agent.

use std::path::PathBuf;

use plimsoll_config::ToolSwitch;
use plimsoll_sandbox::{EffectiveRules, Permissions, matches};

use super::ToolSet;
use crate::spend::RunLimits;

/// Name, system prompt, tools and permissions of an agent.
#[derive(Clone)]
#[non_exhaustive]
pub struct Profile {
    /// Name, recorded with its answers.
    pub name: String,
    /// System prompt, in parts from the most stable to the least.
    pub system: Vec<String>,
    /// Tools.
    pub tools: ToolSet,
    /// Switches for tools that become known later, those of MCP servers. The last match decides.
    pub switches: Vec<ToolSwitch>,
    /// Permissions for its tools.
    pub permissions: Permissions,
    /// Number of leading rules that apply to all agents. Rules of this agent and of flags follow.
    pub general_rules: usize,
    /// Places where changes need a rule that names them.
    pub closed: Vec<PathBuf>,
    /// For a background task: bounds of the agents that launched it. A task never has permissions that its ancestors
    /// lack.
    pub bounds: Vec<Bound>,
    /// Whether a run waits for background tasks after the last answer and lets the model answer their results.
    /// Interactive hosts take in their notes later instead.
    pub awaits_tasks: bool,
    /// Limits of a run.
    pub limits: RunLimits,
}

/// Permissions of one agent, as a bound for the tasks that it launches.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Bound {
    /// Permissions.
    pub permissions: Permissions,
    /// Number of leading rules that apply to all agents.
    pub general_rules: usize,
    /// Switches of its tools. The last match decides.
    pub switches: Vec<ToolSwitch>,
    /// Whether no setting widens it, because a client has set it for one session.
    pub is_fixed: bool,
}

impl Bound {
    /// Returns whether its own switches enable a tool.
    pub(crate) fn has(&self, tool: &str) -> bool {
        is_on(&self.switches, tool)
    }
}

fn is_on(switches: &[ToolSwitch], tool: &str) -> bool {
    switches.iter().rev().find(|switch| matches(&switch.tool, tool)).is_none_or(|switch| switch.on)
}

impl Profile {
    /// Returns whether its switches and those of all agents above it enable a tool. Without the latter, an agent could
    /// do through a task what it cannot do itself.
    pub(crate) fn wants(&self, tool: &str) -> bool {
        is_on(&self.switches, tool) && self.bounds.iter().all(|bound| bound.has(tool))
    }

    /// Returns the rules that decide about calls. `granted` are those that the user has agreed to in this session.
    pub(crate) fn rules<'a>(&'a self, granted: &'a Permissions) -> EffectiveRules<'a> {
        let above = self.bounds.iter().map(|bound| &bound.permissions);
        EffectiveRules::new(&self.permissions).within(above).closing(&self.closed).granting(granted)
    }

    /// Returns the bounds of this agent's tasks: its own bounds, and itself.
    pub(crate) fn bounds_below(&self) -> Vec<Bound> {
        let own = Bound {
            permissions: self.permissions.clone(),
            general_rules: self.general_rules,
            switches: self.switches.clone(),
            is_fixed: false,
        };
        self.bounds.iter().cloned().chain([own]).collect()
    }
}
