//! Who can be given a task: agents by their names.

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
use crate::setup::{AgentSetupError, INTERNAL, RunOverrides};

/// Said of the parent's own agent where a fork inherits the conversation.
const OWN_AGENT: &str =
    "(This session's own agent: with `fork` it starts from this very conversation, which is cheap.)";
const LAUNCH_TOOL: &str = "background_task";

/// Makes agents by their names. A closure of a name and a model, as `provider/model`, is one.
pub trait Roster: Send + Sync {
    /// The agent of a name, with the model that is named or its own. Its tools are those of a session that is no task,
    /// without those for background tasks: the board adds them where they belong.
    fn agent(&self, name: &str, model: Option<&str>) -> Result<RosterAgent, String>;

    /// What the person at this process allows, over all rules: it goes over what bounded a task before, too.
    fn allowed(&self) -> Vec<PermissionRule> {
        Vec::new()
    }

    /// The agents that a session of agent `parent` can give a task to, and what each is for, as the model is told.
    fn agents(&self, _parent: &str) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Whether an agent is offered a tool for background tasks. A task is offered one only where that is configured by
    /// name: an agent that launches itself would never end.
    fn has_task_tool(&self, _agent: &str, _tool: &str, is_task: bool) -> bool {
        !is_task
    }
}

/// An agent of a roster.
#[derive(Clone)]
pub struct RosterAgent {
    /// The agent.
    pub agent: Agent,
    /// Whether the model is its own or the one that was named. If not, a task gets its parent's.
    pub is_own_model: bool,
    /// In which way it inherits its parent's context, where that is configured.
    pub fork: Option<AgentFork>,
}

impl<F> Roster for F
where
    F: Fn(&str, Option<&str>) -> Result<RosterAgent, String> + Send + Sync,
{
    fn agent(&self, name: &str, model: Option<&str>) -> Result<RosterAgent, String> {
        self(name, model)
    }
}

/// The agents of a configuration.
pub struct ConfiguredRoster {
    /// Where sessions are kept.
    pub archive: Arc<Archive>,
    /// How windows are kept under the line.
    pub policy: Policy,
    /// What is configured.
    pub run: Arc<RunConfig>,
    /// What is allowed, over all rules of the configuration.
    pub allow: Vec<PermissionRule>,
    /// The project's directory.
    pub directory: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// Asks a person, for tasks whose parent is not at hand.
    pub asker: Option<Arc<dyn Asker>>,
    /// Receives what is told of tasks whose parent is not at hand.
    pub events: EventSink,
}

impl ConfiguredRoster {
    /// What is set of an agent, over what is built in.
    fn config(&self, name: &str) -> AgentConfig {
        over_built_in(name, self.run.agents.get(name).cloned().unwrap_or_default())
    }

    /// Whether a fork of this agent by itself begins with the very conversation of its parent.
    fn inherits_history(&self, name: &str) -> bool {
        self.config(name).fork.or(self.run.tasks.fork) == Some(AgentFork::History)
    }

    /// Whether an agent that a person talks to is told of itself. A fork inherits the conversation only where parent and
    /// task are the same agent, so a model that is not told of its own could never ask for one; and an agent whose tasks
    /// may launch tasks was meant to delegate to itself. Any other keeps its list short: work that fits an agent made
    /// for tasks is better off there.
    fn suits_itself(&self, name: &str) -> bool {
        self.inherits_history(name) || self.has_task_tool(name, LAUNCH_TOOL, true)
    }
}

impl Roster for ConfiguredRoster {
    fn agent(&self, name: &str, model: Option<&str>) -> Result<RosterAgent, String> {
        let overrides = RunOverrides {
            agent: Some(name.to_owned()),
            model: model.map(str::to_owned),
            allow: self.allow.clone(),
        };
        let (archive, home) = (Arc::clone(&self.archive), self.home.as_deref());
        let policy = self.policy.clone();
        let made = Agent::configured(archive, policy, &self.run, &overrides, &self.directory, home);
        let mut agent = made.map_err(|error| match error {
            AgentSetupError::UnknownAgent { name, known } => format!(
                "Agent \"{name}\" not found. Make sure the agent is registered. There are: {}.",
                known.join(", ")
            ),
            other => other.to_string(),
        })?;
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
                own.mode != Some(AgentMode::Primary) || (*name == parent && self.suits_itself(parent));
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
