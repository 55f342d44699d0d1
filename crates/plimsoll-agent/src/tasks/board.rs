//! The task board: one for each process and archive, shared by all conversations.

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

/// Returns whether the holder of a lease, given by name, is known to be gone.
type IsGone = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Runs background tasks: up to a limit at the same time, the others in order of arrival.
pub struct TaskBoard {
    pub(super) archive: Arc<Archive>,
    pub(super) roster: Arc<dyn Roster>,
    pub(super) limits: TaskLimits,
    pub(super) clock: Clock,
    /// Holder name of this board's leases, unique to the board.
    pub(super) holder: String,
    /// Duration of the leases of task sessions.
    pub(super) lease: Duration,
    pub(super) is_gone: IsGone,
    pub(super) slots: Arc<Semaphore>,
    local: Mutex<HashMap<SessionId, Local>>,
    /// Changes with every change of a task, also by other processes.
    pub(super) changes: watch::Sender<u64>,
    pub(super) claiming: Mutex<()>,
    pub(super) is_watching: AtomicBool,
    is_closing: AtomicBool,
    /// Whether the ends recorded by older versions were checked for missing notes.
    pub(super) has_checked_old_ends: AtomicBool,
    probe: Probe,
    /// Meters of the newest runs, by session.
    pub(super) meters: Mutex<HashMap<SessionId, Weak<SpendMeter>>>,
}

/// A task that this board runs or has queued.
pub(super) struct Local {
    pub(super) run: u32,
    pub(super) cancel: CancellationToken,
    pub(super) stop: Option<StopReason>,
    pub(super) meter: ProgressMeter,
    pub(super) permit: Option<OwnedSemaphorePermit>,
    /// Number of its calls that wait for tasks. While there are any, the task needs no slot.
    pub(super) waiting: u32,
    /// Whether its run has begun. Until then, its record may not exist yet.
    pub(super) is_begun: bool,
}

impl Local {
    /// Returns the entry of a run that is about to begin, so that it can be cancelled from now on.
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

/// Reason to stop a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The task was cancelled.
    Cancelled,
    /// The time limit was reached.
    Time,
    /// The process exits.
    Closing,
    /// Another process owns the task by now; nothing of this run is recorded.
    Lost,
}

/// The session that launches or resumes a task.
#[derive(Clone)]
pub struct Caller {
    /// The agent, whose permissions bound those of its tasks.
    pub agent: Agent,
    /// ID of the session.
    pub session: SessionId,
    /// The session's handle, which reads the history for a fork.
    pub handle: SessionHandle,
    /// Part of the launching call, if a model launches.
    pub part: Option<PartId>,
    /// Cancels a launch that has not stored its task yet.
    pub cancel: CancellationToken,
}

impl Caller {
    /// Creates a caller that launches without a call of its model.
    pub fn new(agent: Agent, session: SessionId, handle: SessionHandle) -> Caller {
        Caller { agent, session, handle, part: None, cancel: CancellationToken::new() }
    }
}

/// A task to launch.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Short description.
    pub description: String,
    /// Prompt.
    pub prompt: String,
    /// Name of the agent.
    pub agent: String,
    /// Model, as `provider/model`. By default the agent's own, or else the parent's.
    pub model: Option<String>,
    /// Whether the task receives its parent's context.
    pub fork: bool,
    /// Kind of fork, overriding the configuration. For users, not for models.
    pub way: Option<AgentFork>,
}

/// Result of a resume.
#[derive(Clone, Debug)]
pub enum ResumeOutcome {
    /// The run has begun.
    Begun(Task),
    /// The resume is queued until the current run ends.
    Queued(Task),
}

impl TaskBoard {
    /// Creates a board for the tasks of an archive.
    ///
    /// `holder` describes the process to users who find a task's session in use, like [`Agent::holder`].
    pub fn new(
        archive: Arc<Archive>,
        roster: Arc<dyn Roster>,
        limits: TaskLimits,
        holder: &str,
    ) -> Arc<TaskBoard> {
        let clock = Clock::default();
        // A process may have several boards, and an earlier process may have had the same process ID.
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
            has_checked_old_ends: AtomicBool::new(false),
            probe: Arc::new(|_| {}),
            meters: Mutex::default(),
        })
    }

    /// Sets a function that recognises holders of leases whose processes are gone, so that their tasks need not be
    /// waited for. Its argument is the part of the holder's name before `, tasks`.
    pub fn with_liveness_check(
        board: Arc<TaskBoard>,
        is_gone: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Arc<TaskBoard> {
        TaskBoard::rebuilt(board, |board| board.is_gone = Arc::new(is_gone))
    }

    /// Sets the duration of leases.
    pub fn leasing(board: Arc<TaskBoard>, lease: Duration) -> Arc<TaskBoard> {
        TaskBoard::rebuilt(board, |board| board.lease = lease)
    }

    /// Sets a callback for the points at which a process may die, for tests.
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

    /// Returns the interval at which tasks of other processes are checked while they are waited for. It is shorter for
    /// short leases: a process whose liveness cannot be checked counts as gone when its lease has expired.
    pub fn supervise_interval(&self) -> Duration {
        (self.lease / 12).clamp(Duration::from_millis(50), Duration::from_secs(5))
    }

    /// Changes a board that is not shared yet; a shared one stays unchanged.
    fn rebuilt(mut board: Arc<TaskBoard>, change: impl FnOnce(&mut TaskBoard)) -> Arc<TaskBoard> {
        if let Some(own) = Arc::get_mut(&mut board) {
            change(own);
        }
        board
    }

    /// Returns the limits.
    pub fn limits(&self) -> &TaskLimits {
        &self.limits
    }

    /// Returns the tools for an agent. Their descriptions list the agents that it can launch.
    pub(super) fn tools(self: &Arc<Self>, agent: &str) -> Vec<Arc<dyn Tool>> {
        task_tools(self, &self.roster.agents(agent))
    }

    /// Returns whether an agent that does not run as a task is offered a tool.
    pub(super) fn offers(&self, agent: &str, tool: &str) -> bool {
        self.roster.has_task_tool(agent, tool, false)
    }

    /// Returns the archive.
    pub fn archive(&self) -> &Arc<Archive> {
        &self.archive
    }

    /// Returns the current time.
    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    pub(super) fn local(&self) -> MutexGuard<'_, HashMap<SessionId, Local>> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a blocking function of the board.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&TaskBoard) -> Result<T, TaskError> + Send + 'static,
    ) -> Result<T, TaskError> {
        let board = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&board)).await;
        done.map_err(|error| TaskError::Internal(error.into()))?
    }

    /// Returns the active tasks of all sessions. There are few, however many have ended.
    pub(super) fn load_active(&self) -> Result<Vec<Task>, TaskError> {
        let mut tasks = Vec::new();
        for status in TaskStatus::ALL.into_iter().filter(|status| status.is_active()) {
            let status = Some(status.name().to_owned());
            tasks.extend(self.load_where(TaskFilter { status, ..TaskFilter::default() })?);
        }
        Ok(tasks)
    }

    /// Returns the tasks of a session, or all, oldest first, with the progress of those that run here.
    pub async fn tasks(self: &Arc<Self>, parent: Option<&SessionId>) -> Result<Vec<Task>, TaskError> {
        let parent = parent.cloned();
        self.blocking(move |board| board.load_all(parent.as_ref())).await
    }

    /// Finds a task by its ID or a prefix of it, among those of a session or all.
    pub async fn find(self: &Arc<Self>, parent: Option<&SessionId>, given: &str) -> Result<Task, TaskError> {
        let tasks = self.tasks(parent).await?;
        find_task(&tasks, given).cloned()
    }

    /// Returns a task by its full ID.
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
                // Records of other programs and of newer versions are skipped.
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

    /// Stops all runs of this board because the process exits. The tasks are marked as interrupted and can be resumed.
    /// Waits until they have stopped, but no longer than this.
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

    /// Returns the number of tasks that run or wait here.
    pub fn active_here(&self) -> usize {
        self.local().len()
    }

    /// Creates a caller for a stored session that is only read. Another process may be running it.
    pub async fn caller_of(self: &Arc<Self>, session: &SessionId, agent: Agent) -> Result<Caller, TaskError> {
        let own = Agent { archive: Arc::clone(&self.archive), ..agent.clone() };
        let handle = own.builder().session(session.clone()).read().await?;
        Ok(Caller::new(agent, session.clone(), handle))
    }
}
