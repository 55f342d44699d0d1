//! Launches and resumes tasks.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_store::{NewLease, NewSession};

use super::board::{Caller, Launch, ResumeOutcome, TaskBoard};
use super::claim::LEASE_PATIENCE;
use super::fork::CreatedTask;
use super::limits::require_price;
use super::roster::RosterAgent;
use crate::agent::Agent;
use crate::event::EventSink;
use crate::task::{ForkReceipt, StoredBound, Task, TaskChange, TaskData, TaskError, TaskPoint};

/// Delays between attempts to start a queued resume. Short at first, because the ended run is still being cleaned up.
const FIRE_AGAIN: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(15)];

impl TaskBoard {
    /// Launches a task. Returns as soon as the task is recorded and queued.
    pub async fn launch(self: &Arc<Self>, caller: &Caller, launch: Launch) -> Result<Task, TaskError> {
        let depth = self.depth_below(&caller.session).await?;
        if depth > self.limits.depth {
            return Err(TaskError::TooDeep { depth, most: self.limits.depth });
        }
        let rostered = match self.rostered(&launch.agent, launch.model.as_deref()).await {
            // The parent may have a model that is not configured, such as one from a flag, and the task inherits it.
            Err(_) if launch.model.is_none() => {
                let parents = caller.agent.model.name.to_string();
                let made = self.rostered(&launch.agent, Some(&parents)).await?;
                RosterAgent { is_own_model: false, ..made }
            }
            rostered => rostered?,
        };
        let way = launch.way.or(rostered.fork).unwrap_or(self.limits.fork);
        let bounds = caller.agent.profile.bounds_below();
        let mut agent = self.task_agent(&caller.agent, bounds.clone(), rostered);
        agent.charged_to = self.meter_of(&caller.session);
        // After the meter is set, because the limits of the runs above count too.
        require_price(&agent)?;
        let data = TaskData {
            description: launch.description.clone(),
            prompt: launch.prompt.clone(),
            agent: launch.agent.clone(),
            model: agent.model.name.to_string(),
            fork: launch.fork.then(ForkReceipt::default),
            depth,
            above: self.names_above(caller).await?,
            bounds: bounds.iter().map(StoredBound::from).collect(),
            ..TaskData::default()
        };
        // Reserve the entry first: all runs of this board have the same holder name, and a search for lost tasks would
        // take the lease of this one.
        let parent = caller.session.clone();
        let task = self.blocking(move |board| board.reserve(&parent, data)).await?;
        let id = task.id.clone();
        let record = task.record().inspect_err(|_| drop(self.local().remove(&id)))?;
        let title = match launch.fork {
            true => format!("Background (forked): {}", launch.description),
            false => format!("Background: {}", launch.description),
        };
        let new = NewSession {
            id: id.clone(),
            parent: Some(caller.session.clone()),
            title,
            agent: Some(launch.agent.clone()),
            model: Some(agent.model.name.model.clone()),
            directory: Some(agent.directory.display().to_string()),
            // Store both in one write: a process that dies leaves no session that nothing refers to.
            task: Some(record),
            lease: Some(NewLease { holder: self.holder.clone(), ttl: self.lease }),
            ..NewSession::default()
        };
        let launched = self.create_session(caller, &launch, way, agent, new).await;
        match launched {
            Ok((task, agent, lease)) => {
                if let Some(fork) = &task.data.fork {
                    crate::metrics::forked(fork);
                }
                self.begin_run(&task, agent, &caller.agent.events, lease);
                Ok(task)
            }
            Err(error) => {
                self.local().remove(&id);
                // The record must not claim that the task ran.
                let why = format!("It could not be launched: {error}");
                let _ = self.blocking(move |board| board.cancel_now(&id, Some(&why))).await;
                Err(error)
            }
        }
    }

    /// Creates the session of a task, and records the inherited context.
    async fn create_session(
        self: &Arc<Self>,
        caller: &Caller,
        launch: &Launch,
        way: plimsoll_config::AgentFork,
        agent: Agent,
        new: NewSession,
    ) -> Result<(Task, Agent, plimsoll_store::Lease), TaskError> {
        let CreatedTask { session, agent, fork, cache_key } =
            self.make_child(caller, launch, way, agent, new).await?;
        self.pass(TaskPoint::Created);
        let (task, lease) = self
            .blocking(move |board| {
                // Take over the lease that was stored with the session.
                let lease = board.lease_free(&session)?;
                let task = match fork {
                    Some(fork) => board.change(&session, &TaskChange::Receive { fork, cache_key })?,
                    None => board.load(&session)?,
                };
                board.note_change();
                Ok((task, lease))
            })
            .await?;
        Ok((task, agent, lease))
    }

    /// Returns the depth of a task of this session.
    async fn depth_below(self: &Arc<Self>, session: &SessionId) -> Result<u32, TaskError> {
        match self.task(session).await {
            Ok(task) => Ok(task.data.depth.saturating_add(1)),
            Err(TaskError::NotFound(_)) => Ok(1),
            Err(error) => Err(error),
        }
    }

    /// Returns the names of the agents above a task of this caller, the root's first.
    async fn names_above(self: &Arc<Self>, caller: &Caller) -> Result<Vec<String>, TaskError> {
        let mut above = match self.task(&caller.session).await {
            Ok(task) => task.data.above,
            Err(TaskError::NotFound(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        above.push(caller.agent.profile.name.clone());
        Ok(above)
    }

    /// Resumes a task with another prompt, or queues the resume until the current run ends.
    ///
    /// `caller` is the session that resumes. Without one, the task's permissions are bounded by those of its ancestors'
    /// agents in the roster. The bounds of the launch apply in either case.
    pub async fn resume(
        self: &Arc<Self>,
        caller: Option<&Caller>,
        id: &SessionId,
        prompt: &str,
    ) -> Result<ResumeOutcome, TaskError> {
        loop {
            let task = self.task(id).await?;
            let (own, text) = (id.clone(), prompt.to_owned());
            let agent = self.agent_again(caller, &task).await;
            if task.status.is_active() {
                // A queued resume that would be rejected later would wait forever. The process that runs the task
                // starts it, so a process without a key for its model may queue it.
                agent.as_ref().map_or(Ok(()), require_price)?;
                let queue = TaskChange::QueueResume { prompt: text };
                match self.blocking(move |board| board.change(&own, &queue)).await {
                    Ok(task) => return Ok(ResumeOutcome::Queued(task)),
                    // The run ended meanwhile: resume at once instead of queueing.
                    Err(TaskError::Moved { .. }) => continue,
                    Err(error) => return Err(error),
                }
            }
            let agent = agent?;
            require_price(&agent)?;
            let begun = self
                .blocking(move |board| {
                    let resume = TaskChange::Resume { prompt: text, by: board.holder.clone() };
                    board.claim(&own, LEASE_PATIENCE, &resume)
                })
                .await;
            match begun {
                Ok((task, lease)) => {
                    let events = caller
                        .map_or_else(|| Arc::clone(&agent.events), |caller| Arc::clone(&caller.agent.events));
                    self.begin_run(&task, agent, &events, lease);
                    return Ok(ResumeOutcome::Begun(task));
                }
                Err(TaskError::Moved { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts the resume that is queued after an ended run, and retries until it has begun or was cancelled, because
    /// the user may be chatting with the task. If this process cannot start it, the next one that opens the parent
    /// does.
    pub(super) async fn fire_pending(self: &Arc<Self>, task: &Task, agent: Agent, events: &EventSink) {
        let mut waits = FIRE_AGAIN.into_iter();
        let mut wait = FIRE_AGAIN[0];
        while !self.is_closing() {
            match self.try_fire(task, agent.clone(), events, LEASE_PATIENCE).await {
                Ok(()) | Err(TaskError::Moved { .. } | TaskError::NotFound(_)) => return,
                Err(TaskError::SessionGone) => {
                    tracing::warn!(task = %task.id, "the session of a queued resume is gone");
                    let id = task.id.clone();
                    let _ = self.blocking(move |board| board.cancel_now(&id, None)).await;
                    return;
                }
                Err(error) => tracing::info!(task = %task.id, %error, "a queued resume cannot begin yet"),
            }
            wait = waits.next().unwrap_or(wait);
            tokio::time::sleep(wait).await;
        }
    }

    /// Starts the resume that is queued after an ended run, if that is possible now.
    pub(super) async fn try_fire(
        self: &Arc<Self>,
        task: &Task,
        agent: Agent,
        events: &EventSink,
        patience: Duration,
    ) -> Result<(), TaskError> {
        let id = task.id.clone();
        let (task, lease) = self
            .blocking(move |board| {
                board.claim(&id, patience, &TaskChange::FirePending { by: board.holder.clone() })
            })
            .await?;
        self.begin_run(&task, agent, events, lease);
        Ok(())
    }
}
