//! The board: one for each process and archive, shared by all its conversations.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use plimsoll::{Millis, PartId, SessionId};
use plimsoll_config::AgentFork;
use plimsoll_session::SessionHandle;
use plimsoll_store::{Archive, Clock, StoreError, TaskFilter, TaskRecord};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::claim::BOARD_MARK;
use super::limits::TaskLimits;
use super::progress::ProgressMeter;
use super::roster::Roster;
use super::tools::task_tools;
use crate::agent::{Agent, Tool};
use crate::spend::SpendMeter;
use crate::task::{Probe, Task, TaskError, TaskPhase, TaskPoint, TaskProgress, TaskStatus, find_task};

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
    /// Whether ends of the past were looked at that may never have been told.
    pub(super) has_looked_back: AtomicBool,
    probe: Probe,
    /// The meters of the newest runs, by session.
    pub(super) meters: Mutex<HashMap<SessionId, Weak<SpendMeter>>>,
}

/// A task that this board runs or has in its queue.
pub(super) struct Local {
    pub(super) run: u32,
    pub(super) cancel: CancellationToken,
    pub(super) stop: Option<StopReason>,
    pub(super) meter: ProgressMeter,
    pub(super) permit: Option<OwnedSemaphorePermit>,
    /// How many of its calls wait for tasks: as long as one does, it needs no slot.
    pub(super) waiting: u32,
    /// Whether its run was begun; until then its record may still be made.
    pub(super) is_begun: bool,
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
            waiting: 0,
            is_begun: false,
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
    /// The task is another's by now: whatever comes of this run is not recorded.
    Lost,
}

/// Who launches or resumes a task.
#[derive(Clone)]
pub struct Caller {
    /// The agent, whose permissions bound those of its tasks.
    pub agent: Agent,
    /// Its session.
    pub session: SessionId,
    /// The session's handle, which reads the history of a fork.
    pub handle: SessionHandle,
    /// The call that launches, if a model does.
    pub part: Option<PartId>,
    /// Cancels a launch that has not stored its task.
    pub cancel: CancellationToken,
}

impl Caller {
    /// A session that launches without a call of its model.
    pub fn new(agent: Agent, session: SessionId, handle: SessionHandle) -> Caller {
        Caller { agent, session, handle, part: None, cancel: CancellationToken::new() }
    }
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
            holder: format!("{holder}{BOARD_MARK}{unique}"),
            lease: Duration::from_secs(60),
            is_gone: Arc::new(|_| false),
            slots: Arc::new(Semaphore::new(limits.at_once.max(1))),
            local: Mutex::default(),
            changes: watch::Sender::new(0),
            claiming: Mutex::default(),
            is_watching: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            has_looked_back: AtomicBool::new(false),
            probe: Arc::new(|_| {}),
            meters: Mutex::default(),
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

    /// The same board, that tells of the points in a task's life at which a process may die; for tests that let it.
    #[doc(hidden)]
    pub fn probed(
        board: Arc<TaskBoard>,
        probe: impl Fn(TaskPoint) + Send + Sync + 'static,
    ) -> Arc<TaskBoard> {
        TaskBoard::rebuilt(board, |board| board.probe = Arc::new(probe))
    }

    pub(super) fn pass(&self, point: TaskPoint) {
        (self.probe)(point);
    }

    /// How often tasks of other processes are looked after while they are waited for. With short leases more often: one
    /// whose process cannot be seen is found gone when its lease has run out.
    pub fn look_after_every(&self) -> Duration {
        (self.lease / 12).clamp(Duration::from_millis(50), Duration::from_secs(5))
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
    pub(super) fn tools(self: &Arc<Self>, agent: &str) -> Vec<Arc<dyn Tool>> {
        task_tools(self, &self.roster.agents(agent))
    }

    /// Whether an agent that is no task itself is offered a tool for background tasks.
    pub(super) fn offers(&self, agent: &str, tool: &str) -> bool {
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

    /// The tasks that are active, of all sessions: few, however many have ended.
    pub(super) fn load_active(&self) -> Result<Vec<Task>, TaskError> {
        let mut tasks = Vec::new();
        for status in TaskStatus::ALL.into_iter().filter(|status| status.is_active()) {
            let status = Some(status.name().to_owned());
            tasks.extend(self.load_where(TaskFilter { status, ..TaskFilter::default() })?);
        }
        Ok(tasks)
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
        self.load_where(TaskFilter { parent: parent.cloned(), ..TaskFilter::default() })
    }

    fn load_where(&self, filter: TaskFilter) -> Result<Vec<Task>, TaskError> {
        let mut filter = TaskFilter { most: 1_000, ..filter };
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

    pub(super) fn is_begun(&self, id: &SessionId) -> bool {
        self.local().get(id).is_some_and(|local| local.is_begun)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    /// How many tasks run or wait here.
    pub fn active_here(&self) -> usize {
        self.local().len()
    }

    /// A caller for a stored session that is only read: another process may run it meanwhile.
    pub async fn caller_of(self: &Arc<Self>, session: &SessionId, agent: Agent) -> Result<Caller, TaskError> {
        let own = Agent { archive: Arc::clone(&self.archive), ..agent.clone() };
        let handle = own.builder().session(session.clone()).read().await?;
        Ok(Caller::new(agent, session.clone(), handle))
    }
}
