//! Agents built from options and configuration: for runs, conversations and background tasks.

use std::sync::Arc;

use plimsoll::{Limits, Message, SessionId, Tokens};
use plimsoll_agent::tasks::{ConfiguredRoster, Task, TaskError};
use plimsoll_agent::{
    Agent, AgentError, Asker, Conversation, EventSink, RunOverrides, TaskBoard, TaskLimits,
    agent_description, agent_names, parse_allow, require_tool,
};
use plimsoll_config::{Flags, PermissionRule, RunConfig};
use plimsoll_session::{Session as OpenSession, SessionError, SessionHandle};
use plimsoll_store::{PageRequest, StoreError, TakeOver, holder_is_gone, holder_name};
use plimsoll_tokens::ModelTable;

use crate::config::HostConfig;
use crate::drive::holder;
use crate::error::HostError;
use crate::host::Host;
use crate::reverts::PendingRevert;
use crate::store::OpenStore;

/// Maximum number of messages that are read to find the model that answered last.
const LOOK_BACK: u64 = 50;
/// Name of the permission rule that allows commands to use the network. All other names are tools.
const NETWORK: &str = "network";

/// Options of an agent, in addition to the configuration.
#[derive(Clone, Debug, Default)]
pub struct AgentOptions {
    /// The agent.
    pub agent: Option<String>,
    /// Id or prefix of the session to continue. A session of another tool is imported.
    pub session: Option<String>,
    /// Continue the newest session of the current directory.
    pub resume: bool,
    /// Permission rules, such as `bash:cargo *`.
    pub allow: Vec<String>,
    /// Take the session over even if another process is running it.
    pub force: bool,
    /// Settings.
    pub flags: Flags,
}

impl AgentOptions {
    /// Whether a session is continued.
    pub fn continues(&self) -> bool {
        self.resume || self.session.is_some()
    }
}

/// Configuration and options that agents are built from.
#[non_exhaustive]
pub struct AgentSetup {
    /// Models, agents and permissions.
    pub run: Arc<RunConfig>,
    host: Host,
    config: HostConfig,
    options: AgentOptions,
    allow: Vec<PermissionRule>,
}

impl Host {
    /// Loads the configuration, and checks that an agent can be built from it.
    pub fn agent_setup(&self, options: AgentOptions) -> Result<AgentSetup, HostError> {
        let setup = self.agent_setup_without_model(options)?;
        if !setup.options.continues() {
            // A missing model is reported before a database is created.
            setup.overrides().check(&setup.run)?;
        }
        Ok(setup)
    }

    /// Loads the configuration, for a host whose clients name the model later.
    pub fn agent_setup_without_model(&self, options: AgentOptions) -> Result<AgentSetup, HostError> {
        let network = options.allow.iter().any(|rule| rule == NETWORK);
        let (config, run) = self.run_config(&Flags { network, ..options.flags.clone() })?;
        let allow = options.allow.iter().filter(|rule| *rule != NETWORK);
        let allow = allow.map(|rule| parse_allow(rule, self.env.home.as_deref()));
        let allow = allow.collect::<Result<Vec<_>, _>>().map_err(HostError::usage_of)?;
        // A rule from the configuration may name a tool that is only available elsewhere; in a flag, an unknown tool is a typo.
        for rule in &allow {
            require_tool(&rule.tool, &run).map_err(|error| {
                let hint = format!("available tools: {}", error.known.join(", "));
                HostError::usage_of(error).hint(hint)
            })?;
        }
        Ok(AgentSetup { run: Arc::new(run), host: self.clone(), config, options, allow })
    }
}

impl AgentSetup {
    /// Opens the database, and finds the session that is continued; `None` for a new one.
    pub fn open(&self) -> Result<(OpenStore, Option<SessionId>), HostError> {
        let AgentSetup { host, config, options, .. } = self;
        match (&options.session, options.resume) {
            (Some(id), _) => {
                let opened = host.open_or_create(config)?;
                let id = self.find_session(&opened, id)?;
                Ok((opened, Some(id)))
            }
            (None, true) => {
                let opened = host.open_store(config)?;
                let session = host.newest_stored(&opened)?;
                Ok((opened, Some(session.id)))
            }
            (None, false) => Ok((host.open_or_create(config)?, None)),
        }
    }

    /// Finds the session with this id, or imports the one of another tool.
    pub fn find_session(&self, opened: &OpenStore, id: &str) -> Result<SessionId, HostError> {
        self.host.session_or_import(id, opened, &self.config)
    }

    /// Returns the overrides that the options ask for.
    pub fn overrides(&self) -> RunOverrides {
        let AgentOptions { agent, flags, .. } = &self.options;
        RunOverrides { agent: agent.clone(), model: flags.model.clone(), allow: self.allow.clone() }
    }

    /// Fails if these overrides lack a model and no session can have one that is reachable, so that a host does not import a
    /// session that it cannot run.
    pub fn require_any_model(&self, overrides: &RunOverrides) -> Result<(), HostError> {
        // If any provider is set up, only the session itself shows whether its model is one of that provider.
        let is_set_up =
            |provider: &String| self.run.resolve_model(Some(&format!("{provider}/unknown"))).is_ok();
        if !self.run.providers.keys().any(is_set_up) {
            overrides.check(&self.run)?;
        }
        Ok(())
    }

    /// Returns the overrides that the options ask for; otherwise the session keeps its agent and model.
    pub fn overrides_for(&self, opened: &OpenStore, session: &SessionId) -> Result<RunOverrides, HostError> {
        let mut overrides = self.overrides();
        if overrides.agent.is_none() {
            // A session keeps its agent, with that agent's rules and limits, if the agent is still configured.
            let agent = opened.archive.store().session(session)?.agent;
            let same = RunOverrides { agent, ..overrides.clone() };
            if same.agent.is_some() && same.check(&self.run).is_ok() {
                overrides = same;
            }
        }
        if overrides.model.is_none() && self.options.agent.is_none() {
            // A session keeps its model, if that is still reachable.
            let model = last_model(opened, session)?.or_else(|| task_model(opened, session));
            let same = RunOverrides { model, ..overrides.clone() };
            if same.model.is_some() && same.check(&self.run).is_ok() {
                overrides = same;
            }
        }
        Ok(overrides)
    }

    /// Returns the reachable models: configured ones, and known ones of providers that are set up.
    pub fn models(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (provider, config) in &self.run.providers {
            names.extend(config.models.keys().map(|model| format!("{provider}/{model}")));
        }
        for name in ModelTable::default().names() {
            let provider = match name.as_str() {
                name if name.starts_with("claude") => "anthropic",
                name if name.starts_with("gpt") || name.starts_with('o') => "openai",
                _ => continue,
            };
            let full = format!("{provider}/{name}");
            if self.run.resolve_model(Some(&full)).is_ok() && !names.contains(&full) {
                names.push(full);
            }
        }
        names
    }

    /// Returns the names of agents with their descriptions.
    pub fn agents(&self) -> Vec<(String, String)> {
        let names = agent_names(&self.run).into_iter();
        names
            .map(|name| (agent_description(&self.run, &name), name))
            .map(|(about, name)| (name, about))
            .collect()
    }

    /// Builds an agent for sessions of a database.
    pub fn agent(&self, opened: &OpenStore, overrides: &RunOverrides) -> Result<Agent, HostError> {
        let mut made = Agent::configured(
            Arc::clone(&opened.archive),
            self.config.policy.clone(),
            &self.run,
            overrides,
            self.host.directory(),
            self.host.env.home.as_deref(),
        )?;
        if self.config.is_context_named {
            let known = made.model.limits.unwrap_or_default();
            let limits = Limits { context: Tokens(self.config.context), input: None, ..known };
            made.policy = Arc::new(self.config.policy_within(&made.model.name.model, limits));
            made.model.limits = Some(limits);
        }
        if made.profile.limits.cost.is_some() && made.model.price.is_none() {
            let message = format!("a cost limit needs the price of `{}`, which is unknown", made.model.name);
            return Err(HostError::usage(message).hint(
                "set its prices under `[providers.NAME.models.ID]`, or use `--max-tokens` instead of `--max-cost`",
            ));
        }
        made.holder = holder();
        made.take_over = if self.options.force { TakeOver::Always } else { TakeOver::Never };
        Ok(made)
    }

    /// Returns the configuration that agents are built from.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Reads a session without its lease, which another process may hold. The window is that of its agent, or, if no model is
    /// configured, the one that `plimsoll inspect` shows.
    pub async fn read(
        self: &Arc<Self>,
        board: &Arc<TaskBoard>,
        opened: &OpenStore,
        session: &SessionId,
    ) -> Result<SessionHandle, HostError> {
        let agent = match board.task(session).await {
            Ok(task) => board.agent_of(&task).await.ok(),
            Err(_) => {
                let (setup, opened, id) = (Arc::clone(self), opened.clone(), session.clone());
                let built = blocking(move || {
                    setup.overrides_for(&opened, &id).and_then(|overrides| setup.agent(&opened, &overrides))
                });
                let agent = built.await?.ok();
                agent.map(|agent| if board.limits().depth > 0 { agent.with_tasks(board) } else { agent })
            }
        };
        if let Some(agent) = agent {
            return agent.read(session).await.map_err(|error| agent_failed(error, ""));
        }
        let (setup, opened, id) = (Arc::clone(self), opened.clone(), session.clone());
        let builder = blocking(move || {
            let session = opened.archive.store().session(&id)?;
            opened.recorded_builder(&session, &setup.config)
        });
        Ok(builder.await??.read().await?)
    }

    /// Opens a session under its lease for reductions that need no model.
    pub async fn open_for_reductions(
        self: &Arc<Self>,
        opened: &OpenStore,
        session: &SessionId,
    ) -> Result<OpenSession, HostError> {
        let (setup, opened, id) = (Arc::clone(self), opened.clone(), session.clone());
        let builder = blocking(move || {
            let session = opened.archive.store().session(&id)?;
            opened.recorded_builder(&session, &setup.config)
        });
        Ok(builder.await??.open().await?)
    }

    /// Creates the board that runs background tasks in this process. `asker` and `events` are for tasks that are resumed
    /// without their parent.
    pub fn board(
        &self,
        opened: &OpenStore,
        asker: Option<Arc<dyn Asker>>,
        events: EventSink,
    ) -> Arc<TaskBoard> {
        let roster = ConfiguredRoster {
            archive: Arc::clone(&opened.archive),
            policy: self.config.policy.clone(),
            run: Arc::clone(&self.run),
            allow: self.allow.clone(),
            directory: self.host.directory().to_owned(),
            home: self.host.env.home.clone(),
            asker,
            events,
        };
        let limits = TaskLimits::from(&self.run.tasks);
        let archive = Arc::clone(&opened.archive);
        let board = TaskBoard::new(archive, Arc::new(roster), limits, &holder());
        TaskBoard::with_liveness_check(board, holder_is_gone)
    }

    /// Returns the agent for a session. A task's session gets the task's agent, bounded by its ancestors' permissions,
    /// whichever host opens it. Fails if the task is running.
    pub async fn agent_in(
        &self,
        board: &Arc<TaskBoard>,
        agent: Agent,
        id: &SessionId,
    ) -> Result<Agent, HostError> {
        let task = match board.task(id).await {
            Ok(task) if task.status.is_active() => {
                // Recorded as running, but its process may have been killed.
                board.reconcile(Some(&task.parent)).await?;
                board.task(id).await?
            }
            Ok(task) => task,
            Err(TaskError::NotFound(_)) => return Ok(agent),
            Err(error) => return Err(error.into()),
        };
        if task.status.is_active() {
            let error = HostError::negative(format!("`{id}` is a background task that is still running"));
            return Err(error.hint(format!(
                "send it a message with `plimsoll tasks steer {id} \"…\"`, or continue it once it has ended"
            )));
        }
        if let Some(named) = self.options.agent.as_ref().filter(|named| **named != task.data.agent) {
            let own = &task.data.agent;
            let message = format!("`{id}` is a background task of agent `{own}`, not of `{named}`");
            return Err(
                HostError::usage(message).hint("the agent of a task cannot be changed; omit `--agent`")
            );
        }
        let mut own = board.agent_of(&task).await?;
        if self.options.flags.model.is_some() {
            own.model = agent.model;
        }
        own.profile.awaits_tasks = agent.profile.awaits_tasks;
        (own.events, own.asker) = (agent.events, agent.asker);
        (own.holder, own.take_over) = (agent.holder, agent.take_over);
        Ok(own)
    }

    /// Opens a session. If the process that ran it was killed, a note is reported.
    pub async fn open_conversation(&self, agent: &Agent, id: &SessionId) -> Result<Conversation, AgentError> {
        let conversation = agent.open(id).await?;
        PendingRevert::finish(conversation.handle()).await?;
        let lease = conversation.handle().lease().await?;
        if let Some(holder) = lease.taken_from.filter(|holder| holder_is_gone(holder)) {
            let holder = holder_name(&holder);
            self.host.note(format!(
                "`{holder}`, which ran this session, was killed; continuing from what was stored"
            ));
        }
        Ok(conversation)
    }
}

/// Runs blocking work on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, HostError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| HostError::failed(format!("the work ended without a result: {error}")))
}

/// Returns the model of the newest answer or prompt in a session, as `provider/model`.
fn last_model(opened: &OpenStore, session: &SessionId) -> Result<Option<String>, HostError> {
    let request = PageRequest { from: None, oldest_first: false, most: LOOK_BACK };
    let page = opened.archive.store().page(session, &request)?;
    let name = |message: &Message| {
        let (info, extra) = (&message.info, &message.info.extra);
        let (provider, model) = match extra.get("model") {
            Some(model) => (model.get("providerID")?.as_str()?, model.get("modelID")?.as_str()?),
            None => (extra.get("providerID")?.as_str()?, info.model_id.as_deref().filter(|_| !info.summary)?),
        };
        Some(format!("{provider}/{model}"))
    };
    Ok(page.messages.iter().find_map(name))
}

/// Returns the model of a background task that has not answered yet, as `provider/model`.
fn task_model(opened: &OpenStore, session: &SessionId) -> Option<String> {
    let record = opened.archive.store().task(session.as_str()).ok()?;
    Some(Task::try_from(record).ok()?.data.model)
}

/// Converts an error of an agent, with a next step; `resume` is the command that continues.
pub fn agent_failed(error: AgentError, resume: &str) -> HostError {
    let hint = match &error {
        AgentError::Session(SessionError::Store(StoreError::Leased { .. })) => {
            Some("pass `--force` to take it over".to_owned())
        }
        AgentError::Session(SessionError::Store(StoreError::Fenced { session, .. })) => {
            Some(match resume.strip_suffix(" --continue") {
                Some(command) => format!("take it back with `{command} --session {session} --force`"),
                None => format!("take it back with `/resume {session}`"),
            })
        }
        AgentError::Provider(plimsoll_providers::ProviderError::Auth { .. }) => {
            Some("`plimsoll config` shows where the key comes from".to_owned())
        }
        AgentError::Provider(_) => Some(format!("everything so far is stored; continue with `{resume}`")),
        AgentError::NotSummarised(_) => Some(format!(
            "the history is unchanged; retry with `{resume}`, or use the policy `plimsoll`, which can summarise without a model"
        )),
        _ => None,
    };
    let failed = HostError::failed(error.to_string()).caused_by(error);
    hint.into_iter().fold(failed, HostError::hint)
}
