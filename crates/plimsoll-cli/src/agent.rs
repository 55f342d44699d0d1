//! An agent as flags and configuration want it, for the commands that let one work: `run`, `chat`, and those that run
//! background tasks.

use std::sync::Arc;

use plimsoll::{Limits, SessionId, Tokens};
use plimsoll_agent::tasks::{ConfiguredRoster, Task, TaskError};
use plimsoll_agent::{
    Agent, AgentError, AgentSetupError, Asker, Conversation, EventSink, RunOverrides, TaskBoard, TaskLimits,
    parse_allow, require_tool,
};
use plimsoll_config::{PermissionRule, RunConfig};
use plimsoll_session::SessionError;
use plimsoll_store::{PageRequest, StoreError, TakeOver, holder_is_gone, holder_name};

use crate::args::AgentArgs;
use crate::config::{self, Config, ForRun};
use crate::error::CliError;
use crate::output::note;
use crate::store::{self, Opened};
use crate::surroundings::Surroundings;

/// So many messages are looked at to find the model that spoke last.
const LOOK_BACK: u64 = 50;

/// What agents are made from.
pub(crate) struct Setup<'a> {
    args: &'a AgentArgs,
    around: &'a Surroundings,
    config: Config,
    /// Models, agents and permissions.
    pub(crate) run: Arc<RunConfig>,
    context: Option<u64>,
    allow: Vec<PermissionRule>,
}

impl<'a> Setup<'a> {
    /// Read the configuration, and see whether an agent can be made from it.
    pub(crate) fn load(args: &'a AgentArgs, around: &'a Surroundings) -> Result<Setup<'a>, CliError> {
        let ForRun { config, run, context } = config::load_run(args, around)?;
        let allow = args.allow.iter().filter(|rule| *rule != config::NETWORK);
        let allow = allow.map(|rule| parse_allow(rule, around.home.as_deref()));
        let allow =
            allow.collect::<Result<Vec<_>, _>>().map_err(|error| CliError::usage(error.to_string()))?;
        // A rule that a person typed for this run and that can hold for nothing is a slip.
        for rule in &allow {
            require_tool(&rule.tool, &run).map_err(|error| {
                let hint = format!("there are {}", error.known.join(", "));
                CliError::usage(error.to_string()).hint(hint)
            })?;
        }
        let setup = Setup { args, around, config, run: Arc::new(run), context, allow };
        if !args.goes_on() {
            // A model that is missing is told of before a database is made.
            setup.overrides().check(&setup.run).map_err(setup_failed)?;
        }
        Ok(setup)
    }

    /// Open the database, and find the session that is to go on; none for a new one.
    pub(crate) fn open(&self) -> Result<(Opened, Option<SessionId>), CliError> {
        let (config, around) = (&self.config, self.around);
        match (&self.args.session, self.args.resume) {
            (Some(id), _) => {
                let (opened, id) = store::session_or_import(id, Opened::made(config)?, config, around)?;
                Ok((opened, Some(id)))
            }
            (None, true) => {
                let opened = Opened::existing(config, around)?;
                let session = opened.chosen(None, around)?;
                store::tell_if_elsewhere(&session, around);
                Ok((opened, Some(session.id)))
            }
            (None, false) => Ok((Opened::made(config)?, None)),
        }
    }

    /// The session of this id, or the one of another tool, which is imported first.
    pub(crate) fn find_session(&self, opened: &Opened, id: &str) -> Result<SessionId, CliError> {
        let again = Opened { archive: Arc::clone(&opened.archive), path: opened.path.clone() };
        store::session_or_import(id, again, &self.config, self.around).map(|(_, id)| id)
    }

    /// What the flags want besides what is configured.
    pub(crate) fn overrides(&self) -> RunOverrides {
        let AgentArgs { agent, model, .. } = self.args;
        RunOverrides { agent: agent.clone(), model: model.clone(), allow: self.allow.clone() }
    }

    /// What the flags want, and where they say nothing what a session has had so far.
    pub(crate) fn overrides_for(
        &self,
        opened: &Opened,
        session: &SessionId,
    ) -> Result<RunOverrides, CliError> {
        let mut overrides = self.overrides();
        if overrides.agent.is_none() {
            // With its rules and limits, a session's agent goes on where it is still configured.
            let agent = opened.archive.store().session(session)?.agent;
            let same = RunOverrides { agent, ..overrides.clone() };
            if same.agent.is_some() && same.check(&self.run).is_ok() {
                overrides = same;
            }
        }
        if overrides.model.is_none() && self.args.agent.is_none() {
            // A session goes on with the model it has, where that can still be reached.
            let model = last_model(opened, session)?.or_else(|| task_model(opened, session));
            let same = RunOverrides { model, ..overrides.clone() };
            if same.model.is_some() && same.check(&self.run).is_ok() {
                overrides = same;
            }
        }
        Ok(overrides)
    }

    /// An agent for sessions of this database.
    pub(crate) fn agent(&self, opened: &Opened, overrides: &RunOverrides) -> Result<Agent, CliError> {
        let agent = Agent::configured(
            Arc::clone(&opened.archive),
            self.config.policy.clone(),
            &self.run,
            overrides,
            &self.around.directory,
            self.around.home.as_deref(),
        );
        let mut agent = agent.map_err(setup_failed)?;
        if let Some(context) = self.context {
            let known = agent.model.limits.unwrap_or_default();
            agent.model.limits = Some(Limits { context: Tokens(context), input: None, ..known });
        }
        if agent.profile.limits.cost.is_some() && agent.model.price.is_none() {
            let message = format!(
                "the price of `{}` is not known, so no cost can be held against a limit",
                agent.model.name
            );
            return Err(CliError::usage(message).hint(
                "set its prices under `[providers.NAME.models.ID]`, or use `--max-tokens` in place of `--max-cost`",
            ));
        }
        agent.holder = store::holder();
        agent.take_over = if self.args.force { TakeOver::Always } else { TakeOver::Never };
        Ok(agent)
    }

    /// Whether a flag names the model.
    pub(crate) fn names_model(&self) -> bool {
        self.args.model.is_some()
    }

    /// What runs background tasks in this process. `asker` and `events` are for tasks that are taken up without their
    /// parent.
    pub(crate) fn board(
        &self,
        opened: &Opened,
        asker: Option<Arc<dyn Asker>>,
        events: EventSink,
    ) -> Arc<TaskBoard> {
        let roster = ConfiguredRoster {
            archive: Arc::clone(&opened.archive),
            policy: self.config.policy.clone(),
            run: Arc::clone(&self.run),
            allow: self.allow.clone(),
            directory: self.around.directory.clone(),
            home: self.around.home.clone(),
            asker,
            events,
        };
        let limits = TaskLimits::from(&self.run.tasks);
        let archive = Arc::clone(&opened.archive);
        let board = TaskBoard::new(archive, Arc::new(roster), limits, &store::holder());
        TaskBoard::knowing_gone(board, holder_is_gone)
    }
}

/// The agent that works in a session: a task has its own, with the permissions that those above it bound, whichever
/// command opens it. A task that is at work is not opened.
pub(crate) async fn agent_in(
    setup: &Setup<'_>,
    board: &Arc<TaskBoard>,
    agent: Agent,
    id: &SessionId,
) -> Result<Agent, CliError> {
    let task = match board.task(id).await {
        Ok(task) if task.status.is_active() => {
            // Its process may be gone.
            board.reconcile(Some(&task.parent)).await?;
            board.task(id).await?
        }
        Ok(task) => task,
        Err(TaskError::NotFound(_)) => return Ok(agent),
        Err(error) => return Err(error.into()),
    };
    if task.status.is_active() {
        let error = CliError::no(format!("`{id}` is a background task that is at work"));
        return Err(error.hint(format!(
            "`plimsoll tasks steer {id} \"…\"` says something to it; once it has ended you can talk to it"
        )));
    }
    if let Some(named) = setup.args.agent.as_ref().filter(|named| **named != task.data.agent) {
        let own = &task.data.agent;
        return Err(CliError::usage(format!(
            "`{id}` is a background task of agent `{own}`, not of `{named}`"
        ))
        .hint("a task keeps its agent; leave `--agent` out"));
    }
    let mut own = board.agent_of(&task).await?;
    if setup.names_model() {
        own.model = agent.model;
    }
    own.profile.awaits_tasks = agent.profile.awaits_tasks;
    (own.events, own.asker) = (agent.events, agent.asker);
    (own.holder, own.take_over) = (agent.holder, agent.take_over);
    Ok(own)
}

/// Opens a session, and says so if the process that ran it was killed.
pub(crate) async fn open(agent: &Agent, id: &SessionId) -> Result<Conversation, AgentError> {
    let conversation = agent.open(id).await?;
    let lease = conversation.handle().lease().await?;
    if let Some(holder) = lease.taken_from.filter(|holder| holder_is_gone(holder)) {
        let holder = holder_name(&holder);
        note(&format!("note: `{holder}` ran this session and is gone; it goes on from what was stored"));
    }
    Ok(conversation)
}

/// Returns the model that answered or was prompted last in a session, as `provider/model`.
fn last_model(opened: &Opened, session: &SessionId) -> Result<Option<String>, CliError> {
    let request = PageRequest { from: None, oldest_first: false, most: LOOK_BACK };
    let page = opened.archive.store().page(session, &request)?;
    let name = |message: &plimsoll::Message| {
        let (info, extra) = (&message.info, &message.info.extra);
        let (provider, model) = match extra.get("model") {
            Some(model) => (model.get("providerID")?.as_str()?, model.get("modelID")?.as_str()?),
            None => (extra.get("providerID")?.as_str()?, info.model_id.as_deref().filter(|_| !info.summary)?),
        };
        Some(format!("{provider}/{model}"))
    };
    Ok(page.messages.iter().find_map(name))
}

/// The model of a background task that has not spoken yet, as `provider/model`.
fn task_model(opened: &Opened, session: &SessionId) -> Option<String> {
    let record = opened.archive.store().task(session.as_str()).ok()?;
    Some(Task::try_from(record).ok()?.data.model)
}

/// Why no agent can be set up.
pub(crate) fn setup_failed(error: AgentSetupError) -> CliError {
    match error {
        AgentSetupError::Model(error) => {
            let hint = error.hint();
            CliError::usage(error.to_string()).hint(hint)
        }
        AgentSetupError::UnknownAgent { .. } => CliError::usage(error.to_string())
            .hint("agents are described under `[agents.NAME]` of the configuration, or in `opencode.json`"),
        AgentSetupError::NotConfined(_) => CliError::usage(error.to_string())
            .hint("`--sandbox auto` confines commands as far as this system can"),
        AgentSetupError::BadReference(_) => CliError::usage(error.to_string()),
        AgentSetupError::Client(_) => CliError::failed(error.to_string()),
    }
}

/// What failed while an agent worked, with a next step; `go_on` is the command that goes on.
pub(crate) fn failed(error: &AgentError, go_on: &str) -> CliError {
    let told = CliError::failed(error.to_string());
    match error {
        AgentError::Session(SessionError::Store(StoreError::Leased { .. })) => {
            told.hint("`--force` takes it over")
        }
        AgentError::Session(SessionError::Store(StoreError::Fenced { session, .. })) => {
            told.hint(match go_on.strip_suffix(" --continue") {
                Some(command) => format!("`{command} --session {session} --force` takes it back"),
                None => format!("`/resume {session}` takes it back"),
            })
        }
        AgentError::Provider(plimsoll_providers::ProviderError::Auth { .. }) => {
            told.hint("`plimsoll config` shows where the key comes from")
        }
        AgentError::Provider(_) => told.hint(format!("nothing is lost: `{go_on}` goes on")),
        AgentError::NotSummarised(_) => told.hint(format!(
            "the history is unchanged: `{go_on}` asks for a summary again, and the policy `plimsoll` can do without a model"
        )),
        _ => told,
    }
}
