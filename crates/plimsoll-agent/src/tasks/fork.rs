//! Creates a task's session and agent, with or without its parent's context.

use std::sync::Arc;

use plimsoll::fork::Identity;
use plimsoll::{Message, SessionId};
use plimsoll_config::AgentFork;
use plimsoll_session::{ForkContent, ForkRequest, Forked, Identities, SessionError};
use plimsoll_store::{NewSession, StoreError, TakeOver};

use super::TOOL_PREFIX;
use super::board::{Caller, Launch, TaskBoard};
use super::roster::RosterAgent;
use super::tools::RefusedTool;
use crate::agent::{Agent, BackgroundTasks, Bound, Profile, ToolSet, declared, overhead};
use crate::builtin::DEFAULT_AGENT;
use crate::task::{ForkReceipt, ForkWay, Task, TaskError};

/// Session and agent of a new task.
pub(super) struct CreatedTask {
    pub(super) session: SessionId,
    pub(super) agent: Agent,
    pub(super) fork: Option<ForkReceipt>,
    pub(super) cache_key: Option<String>,
}

impl TaskBoard {
    /// Creates the session of a task.
    pub(super) async fn make_child(
        self: &Arc<Self>,
        caller: &Caller,
        launch: &Launch,
        way: AgentFork,
        agent: Agent,
        new: NewSession,
    ) -> Result<CreatedTask, TaskError> {
        if !launch.fork {
            let session = self.create(new, &launch.prompt).await?;
            return Ok(CreatedTask { session, agent, fork: None, cache_key: None });
        }
        let twin = match way {
            AgentFork::Digest => None,
            AgentFork::History => Some(twin_of(caller, &agent)),
        };
        let (twin, mut why) = match twin {
            Some(Ok(twin)) => (Some(twin), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let child = twin.as_ref().unwrap_or(&agent);
        let forking = self.fork_session(caller, child, new.clone(), launch, twin.is_some());
        let Some(forked) = caller.cancel.run_until_cancelled(forking).await else {
            // The fork may still be stored after its future was dropped. Wait for it, so that the launch can cancel its
            // task.
            let _ = caller.handle.with_log(|_| ()).await;
            return Err(TaskError::Cancelled);
        };
        match forked {
            Ok(forked) => {
                let session = forked.session.id;
                let receipt = ForkReceipt { tokens: Some(forked.tokens.0), ..ForkReceipt::default() };
                match (forked.content, twin) {
                    (ForkContent::History(history), Some(twin)) => {
                        let cache_key = twin.model.options.cache_key.clone();
                        let shared = Some(history.shared);
                        let fork = ForkReceipt { way: ForkWay::History, shared, ..receipt };
                        Ok(CreatedTask { session, agent: twin, fork: Some(fork), cache_key })
                    }
                    (ForkContent::History(history), None) => {
                        let fork =
                            ForkReceipt { way: ForkWay::History, shared: Some(history.shared), ..receipt };
                        Ok(CreatedTask { session, agent, fork: Some(fork), cache_key: None })
                    }
                    (ForkContent::Digest { digest, why: no_history }, _) => {
                        why = why.or_else(|| no_history.map(|why| why.to_string()));
                        let way = match digest.context.is_empty() {
                            true => ForkWay::Nothing,
                            false => ForkWay::Digest,
                        };
                        let tokens = receipt.tokens;
                        let fork = ForkReceipt { way, why, tokens, ..ForkReceipt::of_stats(digest.stats) };
                        Ok(CreatedTask { session, agent, fork: Some(fork), cache_key: None })
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the parent of a forked task could not be read");
                let warning =
                    format!("The parent's context could not be read, and the task runs without it: {error}");
                let session = self.create(new, &launch.prompt).await?;
                let fork = ForkReceipt { warning: Some(warning), ..ForkReceipt::default() };
                Ok(CreatedTask { session, agent, fork: Some(fork), cache_key: None })
            }
        }
    }

    /// Creates a session with only the prompt.
    async fn create(self: &Arc<Self>, new: NewSession, prompt: &str) -> Result<SessionId, TaskError> {
        let prompt = prompt.to_owned();
        let created = self.blocking(move |board| {
            let (now, mut ids) = (board.now(), plimsoll_store::random_ids());
            let messages = vec![Message::user(ids.message(now), ids.part(now), prompt).at(now)];
            let new = NewSession { messages, ..new };
            Ok(board.archive.store().create(new, now)?.id)
        });
        created.await.map_err(|error| TaskError::NoSession(Box::new(error)))
    }

    /// Creates a session with the parent's context.
    async fn fork_session(
        self: &Arc<Self>,
        caller: &Caller,
        child: &Agent,
        new: NewSession,
        launch: &Launch,
        is_twin: bool,
    ) -> Result<Forked, SessionError> {
        let parent = &caller.agent;
        let limits = child.policy.limits(&child.model.name.model, child.model.limits);
        let tools = if is_twin { parent } else { child }.profile.tools.specs();
        // Both use the tools of the same MCP servers.
        let identities = is_twin.then(|| Identities {
            parent: identity_of(parent, &own_tools(parent, child)),
            child: identity_of(child, &child.profile.tools),
        });
        let request = ForkRequest::new(new, launch.prompt.as_str(), limits)
            .at(caller.part.clone())
            .overhead(overhead(&child.profile.system, &tools))
            .identities(identities);
        caller.handle.fork(request).await
    }

    pub(super) async fn rostered(
        self: &Arc<Self>,
        name: &str,
        model: Option<&str>,
    ) -> Result<RosterAgent, TaskError> {
        let (name, model) = (name.to_owned(), model.map(str::to_owned));
        // Blocking, because setting up an agent reads files.
        self.blocking(move |board| board.roster.agent(&name, model.as_deref()).map_err(TaskError::from)).await
    }

    /// Returns the agent of a task of this parent.
    pub(super) fn task_agent(
        self: &Arc<Self>,
        parent: &Agent,
        bounds: Vec<Bound>,
        rostered: RosterAgent,
    ) -> Agent {
        let RosterAgent { mut agent, is_own_model, .. } = rostered;
        if !is_own_model {
            agent.model = parent.model.clone();
        }
        agent.archive = Arc::clone(&self.archive);
        agent.policy = Arc::clone(&parent.policy);
        agent.counting = parent.counting.clone();
        agent.clock = parent.clock.clone();
        agent.directory.clone_from(&parent.directory);
        agent.asker.clone_from(&parent.asker);
        // A task must not bypass the hooks of its parent.
        agent.hooks.clone_from(&parent.hooks);
        agent.title_model = None;
        agent.holder.clone_from(&self.holder);
        agent.take_over = TakeOver::Never;
        agent.lease = self.lease;
        let name = agent.profile.name.clone();
        let tools = std::mem::take(&mut agent.profile.tools).filter(|tool| !tool.starts_with(TOOL_PREFIX));
        let own = self.tools(&name).into_iter();
        let own: Vec<_> =
            own.filter(|tool| self.roster.has_task_tool(&name, &tool.spec().name, true)).collect();
        agent.tasks = (!own.is_empty()).then(|| Arc::clone(self) as Arc<dyn BackgroundTasks>);
        agent.profile.bounds = bounds;
        let tools = tools.filter(|tool| agent.profile.wants(tool));
        agent.profile.tools = own.into_iter().fold(tools, ToolSet::with_shared);
        agent.profile.awaits_tasks = true;
        agent.profile.limits = self.limits.narrow(agent.profile.limits);
        agent
    }

    /// Returns the agent of a task's next run, for a user who chats with the task between runs: its model, its tools,
    /// and permissions bounded by its ancestors.
    pub async fn agent_of(self: &Arc<Self>, task: &Task) -> Result<Agent, TaskError> {
        self.agent_again(None, task).await
    }

    /// Returns the agent of a task that is resumed.
    pub(super) async fn agent_again(
        self: &Arc<Self>,
        caller: Option<&Caller>,
        task: &Task,
    ) -> Result<Agent, TaskError> {
        let caller = caller.filter(|caller| caller.session == task.parent);
        let (parent, today) = match caller {
            Some(caller) => (caller.agent.clone(), caller.agent.profile.bounds_below()),
            None => self.ancestors_of(task).await?,
        };
        // The bounds of the launch still apply: the configuration may have become wider since, and an agent may have
        // had fewer permissions than configured.
        let allowed = self.roster.allowed();
        let bounds = task.data.bounds.iter().map(|bound| bound.restore(&allowed)).chain(today).collect();
        let is_parents = parent.model.name.to_string() == task.data.model;
        let model = (!is_parents).then_some(task.data.model.as_str());
        let rostered = match self.rostered(&task.data.agent, model).await {
            // The parent may have a model that is not configured.
            Err(_) if is_parents => self.rostered(&task.data.agent, Some(&task.data.model)).await?,
            rostered => rostered?,
        };
        let rostered = RosterAgent { is_own_model: !is_parents, ..rostered };
        let mut agent = self.task_agent(&parent, bounds, rostered);
        agent.charged_to = self.meter_of(&task.parent);
        if task.data.fork.as_ref().is_some_and(|fork| fork.way == ForkWay::History) {
            // Offered in the same way as to the parent, because the cache begins with the tools.
            let offered = self
                .tools(&task.data.agent)
                .into_iter()
                .filter(|tool| self.roster.has_task_tool(&task.data.agent, &tool.spec().name, false));
            let tools = std::mem::take(&mut agent.profile.tools);
            agent.profile.tools =
                offered.fold(tools, |tools, tool| tools.with_shared(RefusedTool::of(&tool)));
        }
        agent.model.options.cache_key = task.data.cache_key.clone().or(agent.model.options.cache_key);
        Ok(agent)
    }

    /// Returns the roster's current agent of a task's parent, and the task's bounds: those of all its ancestors. An
    /// ancestor's agent that no longer exists is an error, because its current permissions are unknown and no other
    /// agent can replace it.
    async fn ancestors_of(self: &Arc<Self>, task: &Task) -> Result<(Agent, Vec<Bound>), TaskError> {
        let task = task.clone();
        self.blocking(move |board| {
            let (mut at, mut nearest, mut bounds) = (task.parent.clone(), None, Vec::new());
            let mut launchers = task.data.above.iter().rev();
            loop {
                let record = match board.archive.store().session(&at) {
                    Ok(session) => Some(session),
                    Err(StoreError::Missing { .. }) => None,
                    Err(error) => return Err(error.into()),
                };
                let session = record.as_ref().and_then(|session| session.agent.clone());
                let launcher = launchers.next();
                // The agent that launched it, and the agent that runs the session now, if it is configured. The user
                // may have switched, and an imported session may name an agent of another tool.
                let now = session.as_ref().filter(|now| Some(*now) != launcher);
                let now = match (now, launcher) {
                    (Some(now), Some(_)) => board.agent_above(now, &task).ok(),
                    (Some(now), None) => Some(board.agent_above(now, &task)?),
                    (None, None) => Some(board.agent_above(DEFAULT_AGENT, &task)?),
                    (None, Some(_)) => None,
                };
                let launcher = launcher.map(|name| board.agent_above(name, &task)).transpose()?;
                for agent in now.into_iter().chain(launcher) {
                    bounds.extend(
                        record.as_ref().and_then(|session| Bound::of_session(session, &agent.profile)),
                    );
                    let Profile { permissions, general_rules, switches, .. } = agent.profile.clone();
                    bounds.push(Bound { permissions, general_rules, switches, is_fixed: false });
                    nearest.get_or_insert(agent);
                }
                match board.load(&at) {
                    Ok(task) => at = task.parent,
                    Err(TaskError::NotFound(_)) => break,
                    Err(error) => return Err(error),
                }
            }
            let parent = nearest.ok_or_else(|| TaskError::Internal("the task has no parent".into()))?;
            Ok((parent, bounds))
        })
        .await
    }

    /// Returns the agent of an ancestor. If it has no model configured, the task's own is used, because only
    /// permissions matter.
    fn agent_above(&self, name: &str, task: &Task) -> Result<Agent, TaskError> {
        let made = self.roster.agent(name, None);
        let made = made.or_else(|error| self.roster.agent(name, Some(&task.data.model)).map_err(|_| error));
        made.map(|rostered| rostered.agent)
            .map_err(|error| TaskError::Unbounded { agent: name.to_owned(), error })
    }
}

/// Returns the parent itself as the agent of its task: identical for the provider, byte for byte. Its tools for
/// background tasks are declared but rejected.
fn twin_of(caller: &Caller, agent: &Agent) -> Result<Agent, String> {
    let parent = &caller.agent;
    if parent.profile.name != agent.profile.name {
        let (own, parents) = (&agent.profile.name, &parent.profile.name);
        return Err(format!("the task runs as agent `{own}`, its parent as `{parents}`"));
    }
    if parent.model.name != agent.model.name {
        let (own, parents) = (&agent.model.name, &parent.model.name);
        return Err(format!("the task runs on `{own}`, its parent on `{parents}`"));
    }
    let mut twin = agent.clone();
    twin.model = parent.model.clone();
    twin.profile.system.clone_from(&parent.profile.system);
    twin.profile.tools =
        own_tools(parent, agent).map(|tool| match tool.spec().name.starts_with(TOOL_PREFIX) {
            true => RefusedTool::of(&tool),
            false => tool,
        });
    twin.mcp = Arc::clone(&parent.mcp);
    twin.tasks = None;
    let key = parent.model.options.cache_key.clone();
    twin.model.options.cache_key = key.or_else(|| Some(caller.session.to_string()));
    Ok(twin)
}

/// Returns the tools of a parent without those of MCP servers, which end with the parent. The task starts its own.
fn own_tools(parent: &Agent, agent: &Agent) -> ToolSet {
    let tools = parent.profile.tools.clone();
    if parent.mcp.is_empty() {
        return tools;
    }
    tools.filter(|name| name.starts_with(TOOL_PREFIX) || agent.profile.tools.get(name).is_some())
}

/// Returns the identity of an agent with these tools for a provider's cache.
fn identity_of(agent: &Agent, tools: &ToolSet) -> Identity {
    Identity {
        model: agent.model.name.to_string(),
        system: agent.profile.system.join("\n\n"),
        tools: declared(&tools.specs()).join("\n\n"),
    }
}
