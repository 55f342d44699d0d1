//! Agents that can run tasks, by name.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll::Policy;
use plimsoll_config::{AgentConfig, AgentFork, AgentMode, RunConfig};
use plimsoll_sandbox::{PermissionRule, matches};
use plimsoll_store::Archive;

use crate::agent::Agent;
use crate::ask::Asker;
use crate::builtin::{BUILT_IN, over_built_in};
use crate::event::EventSink;
use crate::setup::{INTERNAL, RunOverrides};
use crate::task::RosterError;

/// Description of the parent's own agent, if a fork inherits the conversation.
const OWN_AGENT: &str =
    "(This session's own agent: with `fork`, it continues from this conversation, which is cheap.)";
const LAUNCH_TOOL: &str = "background_task";

/// Creates agents by name. Implemented for closures of a name and a model, as `provider/model`.
pub trait Roster: Send + Sync {
    /// Returns the agent of this name, with this model or its own. Its tools are those of a session that is not a task,
    /// without the tools for background tasks, which the board adds.
    fn agent(&self, name: &str, model: Option<&str>) -> Result<RosterAgent, RosterError>;

    /// Returns what the user of this process allows. These rules override all others, including the bounds of a task.
    fn allowed(&self) -> Vec<PermissionRule> {
        Vec::new()
    }

    /// Returns the agents that a session of agent `parent` can launch, with their descriptions for the model.
    fn agents(&self, _parent: &str) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Returns whether an agent is offered a tool for background tasks. An agent that runs as a task is offered one
    /// only if that is configured by name, because an agent that launches itself would never end.
    fn has_task_tool(&self, _agent: &str, _tool: &str, is_task: bool) -> bool {
        !is_task
    }
}

/// An agent of a roster.
#[derive(Clone)]
pub struct RosterAgent {
    /// The agent.
    pub agent: Agent,
    /// Whether the model is its own or the requested one. If not, a task inherits its parent's.
    pub is_own_model: bool,
    /// Kind of fork, if configured.
    pub fork: Option<AgentFork>,
}

impl<F> Roster for F
where
    F: Fn(&str, Option<&str>) -> Result<RosterAgent, String> + Send + Sync,
{
    fn agent(&self, name: &str, model: Option<&str>) -> Result<RosterAgent, RosterError> {
        self(name, model).map_err(RosterError::from)
    }
}

/// The agents of a configuration.
pub struct ConfiguredRoster {
    /// Archive that stores the sessions.
    pub archive: Arc<Archive>,
    /// How windows are kept under the line.
    pub policy: Policy,
    /// The configuration.
    pub run: Arc<RunConfig>,
    /// Rules of the user that override all rules of the configuration.
    pub allow: Vec<PermissionRule>,
    /// The project's directory.
    pub directory: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// Asks the user, for tasks whose parent is not loaded.
    pub asker: Option<Arc<dyn Asker>>,
    /// Receives events of tasks whose parent is not loaded.
    pub events: EventSink,
}

impl ConfiguredRoster {
    /// Returns the configuration of an agent, merged over its built-in configuration.
    fn config(&self, name: &str) -> AgentConfig {
        over_built_in(name, self.run.agents.get(name).cloned().unwrap_or_default())
    }

    /// Returns whether a fork of this agent by itself starts with its parent's conversation.
    fn inherits_history(&self, name: &str) -> bool {
        self.config(name).fork.or(self.run.tasks.fork) == Some(AgentFork::History)
    }

    /// Returns whether the user's agent is listed as one that it can launch. A fork inherits the conversation only if
    /// parent and task are the same agent, so a model that does not know its own agent could never request one; and an
    /// agent whose tasks may launch tasks is meant to delegate to itself. For other agents it is not listed, to keep
    /// the list to agents that are made for tasks.
    fn allows_self_fork(&self, name: &str) -> bool {
        self.inherits_history(name) || self.has_task_tool(name, LAUNCH_TOOL, true)
    }
}

impl Roster for ConfiguredRoster {
    fn agent(&self, name: &str, model: Option<&str>) -> Result<RosterAgent, RosterError> {
        let overrides = RunOverrides {
            agent: Some(name.to_owned()),
            model: model.map(str::to_owned),
            allow: self.allow.clone(),
        };
        let (archive, home) = (Arc::clone(&self.archive), self.home.as_deref());
        let policy = self.policy.clone();
        let made = Agent::configured(archive, policy, &self.run, &overrides, &self.directory, home);
        let mut agent = made?;
        agent.asker.clone_from(&self.asker);
        agent.events = Arc::clone(&self.events);
        let own = self.config(name);
        let is_own_model = model.is_some() || own.model.is_some();
        Ok(RosterAgent { agent, is_own_model, fork: own.fork })
    }

    fn allowed(&self) -> Vec<PermissionRule> {
        self.allow.clone()
    }

    fn agents(&self, parent: &str) -> Vec<(String, String)> {
        let configured = self.run.agents.keys().map(String::as_str);
        let names: BTreeSet<&str> = BUILT_IN.into_iter().chain(configured).collect();
        let is_given_tasks = |name: &&str| {
            let own = self.config(name);
            let is_listed =
                own.mode != Some(AgentMode::Primary) || (*name == parent && self.allows_self_fork(parent));
            !own.disabled && !INTERNAL.contains(name) && is_listed
        };
        let described = |name: &str| {
            let mut about = self.config(name).description.unwrap_or_default();
            if name == parent && self.inherits_history(name) {
                let blank = if about.is_empty() { "" } else { " " };
                about.push_str(&format!("{blank}{OWN_AGENT}"));
            }
            (name.to_owned(), about)
        };
        names.into_iter().filter(is_given_tasks).map(described).collect()
    }

    fn has_task_tool(&self, agent: &str, tool: &str, is_task: bool) -> bool {
        let own = self.config(agent);
        if !is_task {
            return own.has_tool(tool).unwrap_or(true);
        }
        // `"*" = true` means the tools that an agent has anyway.
        let named = own
            .tools
            .iter()
            .rev()
            .find(|switch| matches(&switch.tool, tool) && switch.tool.starts_with(super::TOOL_PREFIX));
        named.is_some_and(|switch| switch.on)
    }
}
