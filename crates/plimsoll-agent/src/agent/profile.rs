//! Who speaks, and what it may do.

use std::path::PathBuf;

use plimsoll_config::ToolSwitch;
use plimsoll_sandbox::{EffectiveRules, Permissions, matches};

use super::ToolSet;
use crate::spend::RunLimits;

/// Who speaks, and what it may do.
#[derive(Clone)]
pub struct Profile {
    /// The agent's name, recorded with its answers.
    pub name: String,
    /// The system prompt, in pieces from the most stable to the least.
    pub system: Vec<String>,
    /// What it can do.
    pub tools: ToolSet,
    /// Tools that it has or has not, where they are known only later: those of MCP servers. The last that matches decides.
    pub switches: Vec<ToolSwitch>,
    /// What of that it may do.
    pub permissions: Permissions,
    /// So many of these rules, from the first, hold for all agents; those of this one and of flags follow.
    pub general_rules: usize,
    /// Places that only a rule which names them opens for changes, wherever they lie.
    pub closed: Vec<PathBuf>,
    /// What those that launched it have and may, for a background task: it may do nothing that one of them may not.
    pub bounds: Vec<Bound>,
    /// Whether a run waits for the session's background tasks when the model has said its last word, and lets it answer
    /// what came of them. A host that stays takes their notes later instead.
    pub awaits_tasks: bool,
    /// When a run ends at the latest.
    pub limits: RunLimits,
}

/// What one agent has and may, as a bound for the tasks that it launches.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// What it may do.
    pub permissions: Permissions,
    /// So many of these rules, from the first, hold for all agents.
    pub general_rules: usize,
    /// Tools that it has or has not. The last that matches decides.
    pub switches: Vec<ToolSwitch>,
}

impl Bound {
    /// Whether it has a tool of that name, by its switches alone.
    pub(crate) fn has(&self, tool: &str) -> bool {
        is_on(&self.switches, tool)
    }
}

fn is_on(switches: &[ToolSwitch], tool: &str) -> bool {
    switches.iter().rev().find(|switch| matches(&switch.tool, tool)).is_none_or(|switch| switch.on)
}

impl Profile {
    /// Whether it has a tool of that name, by its switches and by those of the agents above it. A tool that one of them is
    /// without would let it do through a task what it cannot do itself.
    pub(crate) fn wants(&self, tool: &str) -> bool {
        is_on(&self.switches, tool) && self.bounds.iter().all(|bound| bound.has(tool))
    }

    /// Returns the rules that decide about calls. `granted` are those that the user has agreed to in this session.
    pub(crate) fn rules<'a>(&'a self, granted: &'a Permissions) -> EffectiveRules<'a> {
        let above = self.bounds.iter().map(|bound| &bound.permissions);
        EffectiveRules::new(&self.permissions).within(above).closing(&self.closed).granting(granted)
    }

    /// What bounds the tasks of this agent: what bounds it, and what it has and may itself.
    pub(crate) fn bounds_below(&self) -> Vec<Bound> {
        let own = Bound {
            permissions: self.permissions.clone(),
            general_rules: self.general_rules,
            switches: self.switches.clone(),
        };
        self.bounds.iter().cloned().chain([own]).collect()
    }
}
