//! The board: one for each process and archive, shared by all its conversations.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::{Millis, PartId, SessionId};
use plimsoll_config::AgentFork;
use plimsoll_session::{DriverHandle, SessionError};
use plimsoll_store::{Archive, Clock, NewNote, StoreError, TaskFilter, TaskRecord};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::error::TaskError;
use super::ids::find_task;
use super::limits::{TaskLimits, require_price};
use super::progress::ProgressMeter;
use super::roster::Roster;
use super::task::{Task, TaskChange, TaskData, TaskPhase, TaskProgress};
use crate::agent::Agent;
use crate::tools::{Tool, task_tools};

/// Whether the holder of a lease, by its name, is known to be gone.
type IsGone = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Runs background tasks, some at once and the others in the order in which they came.
pub struct TaskBoard {
    pub(super) archive: Arc<Archive>,
    pub(super) roster: Arc<dyn Roster>,
    pub(super) limits: TaskLimits,
    pub(super) clock: Clock,
    /// Who runs tasks, unique to this board.
    pub(super) holder: String,
    /// For how long the sessions of tasks are leased and renewed.
    pub(super) lease: Duration,
    pub(super) is_gone: IsGone,
    pub(super) slots: Arc<Semaphore>,
    local: Mutex<HashMap<SessionId, Local>>,
    /// Moves with every change of a task, here or elsewhere.
    pub(super) changes: watch::Sender<u64>,
    pub(super) claiming: Mutex<()>,
    pub(super) is_watching: AtomicBool,
    is_closing: AtomicBool,
}

/// A task that this board runs or has in its queue.
pub(super) struct Local {
    pub(super) run: u32,
    pub(super) cancel: CancellationToken,
    pub(super) stop: Option<StopReason>,
    pub(super) meter: ProgressMeter,
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

impl Local {
    /// The place of a run that is about to begin, so that it can be cancelled from now on.
    pub(super) fn reserved(task: &Task) -> Local {
        let begin = TaskProgress { phase: TaskPhase::Waiting, ..task.data.progress.clone() };
        Local {
            run: task.run(),
            cancel: CancellationToken::new(),
            stop: None,
            meter: ProgressMeter::new(begin),
            permit: None,
        }
    }
}

/// Why a run is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// It is not wanted any more.
    Cancelled,
    /// Its time is up.
    Time,
    /// The process ends.
    Closing,
}

/// Who launches or resumes a task.
#[derive(Clone)]
pub struct Caller {
    /// The agent, whose permissions bound those of its tasks.
    pub agent: Agent,
    /// Its session.
    pub session: SessionId,
    /// The session's driver, which reads the history of a fork.
    pub driver: DriverHandle,
    /// The call that launches, if a model does.
    pub part: Option<PartId>,
}

/// A task to be launched.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// What it is about, in a few words.
    pub description: String,
    /// What it is to do.
    pub prompt: String,
    /// Its agent.
    pub agent: String,
    /// Its model, as `provider/model`; the agent's own or the parent's where none is named.
    pub model: Option<String>,
    /// Whether it is given its parent's context.
    pub fork: bool,
    /// In which way, over what is configured: for a person, never for a model.
    pub way: Option<AgentFork>,
}

/// What came of a resume.
#[derive(Clone, Debug)]
pub enum ResumeOutcome {
    /// It has begun.
    Begun(Task),
    /// It waits until the present run has ended.
    Queued(Task),
}

impl TaskBoard {
    /// A board for the tasks of an archive.
    ///
    /// `holder` names the process for people who find a task's session taken, as [`Agent::holder`] does.
    pub fn new(
        archive: Arc<Archive>,
        roster: Arc<dyn Roster>,
        limits: TaskLimits,
        holder: &str,
    ) -> Arc<TaskBoard> {
        let clock = Clock::default();
        // A process may have several boards, and one may have died with the same process number.
        let unique = plimsoll_store::random_ids().session(clock.now());
        let unique: String = unique.as_str().chars().rev().take(6).collect();
        Arc::new(TaskBoard {
            archive,
            roster,
            limits,
            clock,
            holder: format!("{holder}, tasks {unique}"),
            lease: Duration::from_secs(60),
            is_gone: Arc::new(|_| false),
            slots: Arc::new(Semaphore::new(limits.at_once.max(1))),
            local: Mutex::default(),
            changes: watch::Sender::new(0),
            claiming: Mutex::default(),
            is_watching: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
        })
    }

    /// The same board, that knows the holders of leases whose processes are gone, so that their tasks need not be waited
    /// for. The function is given what was before `, tasks` in the holder's name.
    pub fn knowing_gone(
        board: Arc<TaskBoard>,
        is_gone: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Arc<TaskBoard> {
        TaskBoard::rebuilt(board, |board| board.is_gone = Arc::new(is_gone))
    }

    /// The same board with another length of leases.
    pub fn leasing(board: Arc<TaskBoard>, lease: Duration) -> Arc<TaskBoard> {
        TaskBoard::rebuilt(board, |board| board.lease = lease)
    }

    /// Only for boards that nothing shares yet; any other stays as it is.
    fn rebuilt(mut board: Arc<TaskBoard>, change: impl FnOnce(&mut TaskBoard)) -> Arc<TaskBoard> {
        if let Some(own) = Arc::get_mut(&mut board) {
            change(own);
        }
        board
    }

    /// How many tasks there may be, and how much each may take.
    pub fn limits(&self) -> &TaskLimits {
        &self.limits
    }

    /// The tools for background tasks as an agent is given them: they name the agents that it can give tasks to.
    pub(crate) fn tools(&self, agent: &str) -> Vec<Arc<dyn Tool>> {
        task_tools(&self.roster.agents(agent))
    }

    /// Whether an agent that is no task itself is offered a tool for background tasks.
    pub(crate) fn offers(&self, agent: &str, tool: &str) -> bool {
        self.roster.has_task_tool(agent, tool, false)
    }

    /// The archive.
    pub fn archive(&self) -> &Arc<Archive> {
        &self.archive
    }

    /// The time.
    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    pub(super) fn local(&self) -> MutexGuard<'_, HashMap<SessionId, Local>> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Do something with the board that blocks.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&TaskBoard) -> Result<T, TaskError> + Send + 'static,
    ) -> Result<T, TaskError> {
        let board = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&board)).await;
        done.map_err(|error| TaskError::Internal(error.to_string()))?
    }

    /// The tasks of a session, or all, oldest first. Those that run here are given as far as they have come.
    pub async fn tasks(self: &Arc<Self>, parent: Option<&SessionId>) -> Result<Vec<Task>, TaskError> {
        let parent = parent.cloned();
        self.blocking(move |board| board.load_all(parent.as_ref())).await
    }

    /// The task that a text names, among those of a session or all.
    pub async fn find(self: &Arc<Self>, parent: Option<&SessionId>, given: &str) -> Result<Task, TaskError> {
        let tasks = self.tasks(parent).await?;
        find_task(&tasks, given).cloned()
    }

    /// A task by its whole id.
    pub async fn task(self: &Arc<Self>, id: &SessionId) -> Result<Task, TaskError> {
        let id = id.clone();
        self.blocking(move |board| board.load(&id)).await
    }

    pub(super) fn load(&self, id: &SessionId) -> Result<Task, TaskError> {
        match self.archive.store().task(id.as_str()) {
            Ok(record) => self.with_progress(record),
            Err(StoreError::Missing { .. }) => Err(TaskError::NotFound(id.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn load_all(&self, parent: Option<&SessionId>) -> Result<Vec<Task>, TaskError> {
        let mut filter = TaskFilter { parent: parent.cloned(), most: 1_000, ..TaskFilter::default() };
        let mut tasks = Vec::new();
        loop {
            let page = match self.archive.store().tasks(&filter) {
                Err(StoreError::Missing { kind: "session", .. }) => return Ok(tasks),
                page => page?,
            };
            let Some(last) = page.last() else { return Ok(tasks) };
            filter.after = Some(last.id.clone());
            for record in page {
                // A record of something else, or of a newer version, is not ours to show.
                tasks.extend(self.with_progress(record).ok());
            }
        }
    }

    fn with_progress(&self, record: TaskRecord) -> Result<Task, TaskError> {
        let mut task = Task::try_from(record)?;
        if let Some(local) = self.local().get(&task.id).filter(|local| local.run == task.run()) {
            task.data.progress = local.meter.read();
        }
        Ok(task)
    }

    /// Change a task. The change is made on the record as it is, however often that moves meanwhile.
    pub(super) fn change(&self, id: &SessionId, change: &TaskChange) -> Result<Task, TaskError> {
        loop {
            let record = match self.archive.store().task(id.as_str()) {
                Err(StoreError::Missing { .. }) => return Err(TaskError::NotFound(id.to_string())),
                record => record?,
            };
            let before = Task::try_from(record)?;
            let now = self.now();
            let next = before.apply(change.clone(), now)?;
            if next == before {
                return Ok(next);
            }
            match self.archive.store().move_task(id.as_str(), next.step_from(&before)?, now) {
                Ok(record) => {
                    self.note_change();
                    return Task::try_from(record);
                }
                Err(StoreError::TaskMoved { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(super) fn note_change(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Launch a task. It returns as soon as the task is recorded and has its place in the queue.
    pub async fn launch(self: &Arc<Self>, caller: &Caller, launch: Launch) -> Result<Task, TaskError> {
        let depth = self.depth_below(&caller.session).await?;
        if depth > self.limits.depth {
            return Err(TaskError::TooDeep { depth, most: self.limits.depth });
        }
        let born = self.make_child(caller, &launch).await?;
        let data = TaskData {
            description: launch.description,
            prompt: launch.prompt,
            agent: launch.agent,
            model: born.agent.model.name.to_string(),
            fork: born.fork,
            depth,
            cache_key: born.cache_key,
            ..TaskData::default()
        };
        let task = Task::new(born.session.clone(), caller.session.clone(), data, &self.holder, self.now());
        let record = task.record()?;
        let session = born.session;
        let (task, lease) = self
            .blocking(move |board| {
                board.claim(&session, |board| {
                    let task = board.archive.store().put_task(record, board.now())?;
                    board.note_change();
                    Task::try_from(task)
                })
            })
            .await?;
        if let Some(fork) = &task.data.fork {
            crate::metrics::forked(fork);
        }
        self.begin_run(&task, born.agent, &caller.agent.events, lease);
        Ok(task)
    }

    /// How deep a task of this session would be.
    async fn depth_below(self: &Arc<Self>, session: &SessionId) -> Result<u32, TaskError> {
        match self.task(session).await {
            Ok(task) => Ok(task.data.depth.saturating_add(1)),
            Err(TaskError::NotFound(_)) => Ok(1),
            Err(error) => Err(error),
        }
    }

    /// Take a task up again with further words, or put that in line behind its present run.
    ///
    /// `caller` is the session that asks; without one, the task's permissions are bounded by those that its ancestors'
    /// agents have in the roster.
    pub async fn resume(
        self: &Arc<Self>,
        caller: Option<&Caller>,
        id: &SessionId,
        prompt: &str,
    ) -> Result<ResumeOutcome, TaskError> {
        loop {
            let task = self.task(id).await?;
            let (own, text) = (id.clone(), prompt.to_owned());
            if task.status.is_active() {
                let queue = TaskChange::QueueResume { prompt: text };
                match self.blocking(move |board| board.change(&own, &queue)).await {
                    Ok(task) => return Ok(ResumeOutcome::Queued(task)),
                    // It ended meanwhile.
                    Err(TaskError::Moved { .. }) => continue,
                    Err(error) => return Err(error),
                }
            }
            let agent = self.agent_again(caller, &task).await?;
            require_price(&agent)?;
            let begun = self
                .blocking(move |board| {
                    board.claim(&own, |board| {
                        // What was not told of the run before could not be told of afterwards.
                        board.tell(&task);
                        let resume = TaskChange::Resume { prompt: text, by: board.holder.clone() };
                        board.change(&own, &resume)
                    })
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

    /// Cancel a task and the tasks that it has launched itself. It is recorded at once; whatever it runs ends soon after,
    /// in this process or in another.
    pub async fn cancel(self: &Arc<Self>, id: &SessionId) -> Result<Task, TaskError> {
        let id = id.clone();
        self.blocking(move |board| board.cancel_now(&id, None)).await
    }

    pub(super) fn cancel_now(&self, id: &SessionId, why: Option<&str>) -> Result<Task, TaskError> {
        let cancelled = self.change(id, &TaskChange::Cancel { why: why.map(str::to_owned) })?;
        self.stop_local(id, StopReason::Cancelled);
        self.tell(&cancelled);
        self.cancel_children(id);
        Ok(cancelled)
    }

    /// Cancel what a task has launched. One that ended meanwhile is left alone.
    pub(super) fn cancel_children(&self, parent: &SessionId) {
        for child in self.load_all(Some(parent)).unwrap_or_default() {
            if child.status.is_active() {
                let _ = self.cancel_now(&child.id, Some("The task that launched it was cancelled."));
            }
        }
    }

    pub(super) fn stop_local(&self, id: &SessionId, reason: StopReason) {
        if let Some(local) = self.local().get_mut(id) {
            local.stop.get_or_insert(reason);
            local.cancel.cancel();
        }
    }

    /// Say something to a task that is active; its model reads it before its next request.
    pub async fn steer(self: &Arc<Self>, id: &SessionId, message: &str) -> Result<Task, TaskError> {
        let (id, message) = (id.clone(), message.to_owned());
        self.blocking(move |board| {
            let task = board.load(&id)?;
            if !task.status.is_active() {
                return Err(TaskError::NotSteerable { status: task.status });
            }
            let now = board.now();
            let name = plimsoll_store::random_ids().message(now);
            let note = NewNote {
                id: format!("steer:{name}"),
                kind: super::notes::STEER.to_owned(),
                data: json!({ "text": message }),
            };
            board.archive.store().send(&id, note, now)?;
            board.note_change();
            Ok(task)
        })
        .await
    }

    /// Cancel the active tasks of a session and list none of its tasks any more. Their records stay, and each can be
    /// resumed by its id. Gives those that were cancelled and those that were cleared.
    pub async fn clear(self: &Arc<Self>, parent: &SessionId) -> Result<(Vec<Task>, Vec<Task>), TaskError> {
        let parent = parent.clone();
        self.blocking(move |board| {
            let (mut aborted, mut cleared) = (Vec::new(), Vec::new());
            for task in board.load_all(Some(&parent))? {
                if task.data.cleared {
                    continue;
                }
                match board.cancel_now(&task.id, None) {
                    Ok(task) => aborted.push(task),
                    Err(TaskError::NotRunning { .. }) => {}
                    Err(error) => return Err(error),
                }
                match board.change(&task.id, &TaskChange::Clear) {
                    Ok(task) => cleared.push(task),
                    // It was resumed meanwhile, and is wanted.
                    Err(TaskError::Moved { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok((aborted, cleared))
        })
        .await
    }

    /// Stop what runs here, because the process ends: the tasks are marked as interrupted and can be resumed. Waits until
    /// they have stopped, for a while.
    pub async fn close(self: &Arc<Self>, longest: Duration) {
        self.is_closing.store(true, Ordering::SeqCst);
        let ids: Vec<SessionId> = self.local().keys().cloned().collect();
        ids.iter().for_each(|id| self.stop_local(id, StopReason::Closing));
        let mut changes = self.changes.subscribe();
        let wait = async { while !self.local().is_empty() && changes.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(longest, wait).await;
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    /// How many tasks run or wait here.
    pub fn active_here(&self) -> usize {
        self.local().len()
    }

    /// A caller for a stored session that no agent runs: its agent, as the roster has it. The session is taken for as long
    /// as the caller lives.
    pub async fn caller_of(self: &Arc<Self>, session: &SessionId, agent: Agent) -> Result<Caller, TaskError> {
        let driver = DriverHandle::open(Arc::clone(&self.archive), session.clone(), agent.settings()).await?;
        Ok(Caller { agent, session: session.clone(), driver, part: None })
    }
}

impl From<TaskError> for SessionError {
    fn from(error: TaskError) -> SessionError {
        match error {
            TaskError::Session(error) => error,
            TaskError::Store(error) => error.into(),
            _ => SessionError::OutOfOrder("a background task could not be read"),
        }
    }
}
