//! Record of a background task and its state transitions.
//!
//! Each change is a pure function from one record to the next ([`Task::apply`]). The board writes it with
//! compare-and-swap, so the process that runs a task, its parent and the user can all change it without lost updates.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll::fork::ForkStats;
use plimsoll::{Millis, SessionId};
use plimsoll_store::{NewTask, TaskMove, TaskRecord};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::bounds::StoredBound;
use super::error::TaskError;
use super::status::TaskStatus;
use crate::figures::UsageFigures;

/// A background task.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// ID of the task, which is also the ID of its session.
    pub id: SessionId,
    /// ID of the parent session.
    pub parent: SessionId,
    /// Current status.
    pub status: TaskStatus,
    /// Time of the launch.
    pub created: Millis,
    /// Stored data.
    pub data: TaskData,
    /// The data as read. The next change fails if the store has something else.
    seen: Value,
}

/// JSON of a task: its record, with derived fields under the names that OpenCode uses.
impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Record<'a> {
            id: &'a SessionId,
            parent: &'a SessionId,
            status: TaskStatus,
            created: Millis,
            is_forked: bool,
            #[serde(flatten)]
            data: &'a TaskData,
        }
        let Task { id, parent, status, created, data, .. } = self;
        let (status, created, is_forked) = (*status, *created, self.is_forked());
        Record { id, parent, status, created, is_forked, data }.serialize(serializer)
    }
}

/// Stored data of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct TaskData {
    /// Short description.
    pub description: String,
    /// Prompt of the launch.
    pub prompt: String,
    /// Name of the agent.
    pub agent: String,
    /// Model, as `provider/model`.
    pub model: String,
    /// Context that the parent passed on; `None` if no fork was requested.
    pub fork: Option<ForkReceipt>,
    /// Nesting depth, counted from 1.
    pub depth: u32,
    /// Names of the agents above it, the root's first. Their current permissions bound a resumed task.
    pub above: Vec<String>,
    /// Permissions of those agents at launch. They bound the task too, even if the agents have changed since.
    pub bounds: Vec<StoredBound>,
    /// Runs of the task: the launch and each resume.
    pub runs: Vec<TaskRun>,
    /// Prompt of a resume that is queued until the current run ends.
    pub pending: Option<String>,
    /// Number of steering messages. It is stored in the same write as the message, so an end that was computed without
    /// the message fails.
    pub steers: u64,
    /// Error of the newest run.
    pub error: Option<String>,
    /// Last text of the model when the newest run ended.
    pub result: Option<String>,
    /// Progress so far.
    pub progress: TaskProgress,
    /// Prompt cache key, if the task shares its parent's.
    pub cache_key: Option<String>,
    /// Whether it was cleared. Cleared tasks are not listed but can be resumed.
    pub cleared: bool,
}

/// A run of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct TaskRun {
    /// Process that runs it.
    pub by: String,
    /// Prompt of the resume; `None` for the first run.
    pub prompt: Option<String>,
    /// Time of the request.
    pub asked: Millis,
    /// Time at which the run got a slot.
    pub started: Option<Millis>,
    /// Time of the end.
    pub ended: Option<Millis>,
    /// Final status.
    pub end: Option<TaskStatus>,
    /// The error, if any.
    pub error: Option<String>,
    /// Last text of the model, stored here when another run follows. The newest run's is in [`TaskData::result`].
    pub result: Option<String>,
    /// Steering messages of the parent that the run ended without reading.
    pub unread: Vec<String>,
    /// Steering messages of the user that the run ended without reading.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread_of_user: Vec<String>,
    /// Whether the note about the end was stored in the same write as the end. `false` in records of older versions,
    /// which could store one without the other.
    pub noted: bool,
}

impl TaskRun {
    /// Returns how long the run has worked, or waited if it has not started.
    pub fn duration(&self, now: Millis) -> Duration {
        let begin = self.started.unwrap_or(self.asked);
        Duration::from_millis(self.ended.unwrap_or(now).0.saturating_sub(begin.0))
    }
}

/// Context that a forked task received from its parent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ForkReceipt {
    /// Kind of fork.
    pub way: ForkWay,
    /// Reason why it is not the configured kind.
    pub why: Option<String>,
    /// Figures of a digest.
    pub stats: Option<ForkStats>,
    /// Number of shared messages of a history.
    pub shared: Option<usize>,
    /// Size in the child's window, in tokens.
    pub tokens: Option<u64>,
    /// The problem, if any.
    pub warning: Option<String>,
    /// Whether the budget cut something that the parent's window shows.
    pub cut: bool,
}

impl ForkReceipt {
    /// Creates the receipt of a digest with these figures.
    pub(crate) fn of_stats(stats: ForkStats) -> ForkReceipt {
        let mut receipt = ForkReceipt { stats: Some(stats), ..ForkReceipt::default() };
        receipt.cut = receipt.was_cut();
        receipt
    }

    /// Returns whether the budget cut something that the parent's window shows, also for receipts of older versions.
    pub fn was_cut(&self) -> bool {
        self.cut
            || self.stats.as_ref().is_some_and(|stats| {
                // The newest results are kept in full unless there is no room for them, as in a small window.
                let by_room = stats.truncated_by.budget + stats.truncated_by.tier1;
                stats.removed_messages > 0 || stats.shortened_messages > 0 || by_room > 0
            })
    }
}

/// Kind of fork.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ForkWay {
    /// No context: the parent had no messages or could not be read.
    #[default]
    Nothing,
    /// A digest in one message.
    Digest,
    /// The parent's window itself.
    History,
}

/// Progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct TaskProgress {
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Number of calls by tool name.
    pub tools: BTreeMap<String, u64>,
    /// The last three tools, oldest first.
    pub last_tools: Vec<String>,
    /// Current activity.
    pub phase: TaskPhase,
    /// Length of its answers in chars.
    pub chars: u64,
    /// Number of answers.
    pub steps: u64,
    /// Charged usage.
    pub usage: UsageFigures,
    /// Cost in dollars, as far as prices are known.
    pub cost: f64,
}

/// Current activity of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TaskPhase {
    /// No output yet.
    #[default]
    Waiting,
    /// A tool is running.
    Tool,
    /// The model is answering.
    Streaming,
}

/// Change of a task.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TaskChange {
    /// A run got its slot.
    Start {
        /// Number of the run, from 1.
        run: u32,
    },
    /// A run made progress.
    Progress {
        /// Number of the run.
        run: u32,
        /// The progress.
        progress: TaskProgress,
    },
    /// A run ended.
    End {
        /// Number of the run.
        run: u32,
        /// Final status.
        status: TaskStatus,
        /// The error, if any.
        error: Option<String>,
        /// Last text of the model.
        result: Option<String>,
        /// Final progress.
        progress: Option<TaskProgress>,
    },
    /// The parent's context was passed on.
    Receive {
        /// The context.
        fork: ForkReceipt,
        /// Prompt cache key.
        cache_key: Option<String>,
    },
    /// A steering message was sent.
    Steer,
    /// The task is cancelled.
    Cancel {
        /// Reason, if it was not requested.
        why: Option<String>,
    },
    /// The task is resumed.
    Resume {
        /// Prompt of the resume.
        prompt: String,
        /// Process that runs it.
        by: String,
    },
    /// A resume is queued until the current run ends.
    QueueResume {
        /// Prompt of the resume.
        prompt: String,
    },
    /// The queued resume starts.
    FirePending {
        /// Process that runs it.
        by: String,
    },
    /// The task is removed from lists.
    Clear,
    /// Notes are sent for runs whose end the parent may not have received.
    Notify,
}

impl Task {
    /// Creates a task that process `by` is about to launch.
    pub fn new(id: SessionId, parent: SessionId, mut data: TaskData, by: &str, now: Millis) -> Task {
        data.runs = vec![TaskRun { by: by.to_owned(), asked: now, ..TaskRun::default() }];
        Task { id, parent, status: TaskStatus::Queued, created: now, data, seen: Value::Null }
    }

    /// Returns the number of the newest run, from 1.
    pub fn run(&self) -> u32 {
        u32::try_from(self.data.runs.len()).unwrap_or(u32::MAX)
    }

    /// Returns the number of resumes.
    pub fn resumes(&self) -> u32 {
        self.run().saturating_sub(1)
    }

    /// Returns whether it received its parent's context.
    pub fn is_forked(&self) -> bool {
        self.data.fork.is_some()
    }

    /// Returns how long the newest run has worked.
    pub fn duration(&self, now: Millis) -> Duration {
        self.data.runs.last().map(|run| run.duration(now)).unwrap_or_default()
    }

    /// Returns the task after a change, or the reason why the change is invalid.
    pub fn apply(&self, change: TaskChange, now: Millis) -> Result<Task, TaskError> {
        let mut next = self.clone();
        let data = &mut next.data;
        match change {
            TaskChange::Start { run } => {
                self.require_run(run)?;
                if self.status == TaskStatus::Queued {
                    next.status = TaskStatus::Running;
                }
                if let Some(run) = data.runs.last_mut() {
                    run.started.get_or_insert(now);
                }
            }
            TaskChange::Progress { run, progress } => {
                self.require_run(run)?;
                data.progress = progress;
            }
            TaskChange::Receive { fork, cache_key } => {
                (data.fork, data.cache_key) = (Some(fork), cache_key);
            }
            TaskChange::Steer => {
                if !self.status.is_active() {
                    return Err(TaskError::NotSteerable { status: self.status });
                }
                data.steers += 1;
            }
            TaskChange::End { run, status, error, result, progress } => {
                if status.is_active() {
                    return Err(TaskError::Moved { status: self.status });
                }
                let is_newest = self.run() == run;
                if is_newest && self.status == TaskStatus::Cancelled {
                    // Another process cancelled it: add the partial result.
                    data.result = result.or(data.result.take());
                    data.progress = progress.unwrap_or_else(|| std::mem::take(&mut data.progress));
                    return Ok(next);
                }
                self.require_run(run)?;
                if !self.status.may_become(status) {
                    return Err(TaskError::Moved { status: self.status });
                }
                next.end(status, error, now);
                let data = &mut next.data;
                data.result = result.or(data.result.take());
                data.progress = progress.unwrap_or_else(|| std::mem::take(&mut data.progress));
            }
            TaskChange::Cancel { why } => {
                // After the end of a run only the queued resume can be cancelled; the status of the ended run does not
                // change.
                let waits = data.pending.take().is_some();
                match self.status.is_active() {
                    true => next.end(TaskStatus::Cancelled, why, now),
                    false if waits => {}
                    false => return Err(TaskError::NotRunning { status: self.status }),
                }
            }
            TaskChange::Resume { prompt, by } => {
                if self.status.is_active() {
                    return Err(TaskError::Moved { status: self.status });
                }
                next.begin_again(prompt, by, now);
            }
            TaskChange::QueueResume { prompt } => match (self.status.is_active(), &data.pending) {
                (false, _) => return Err(TaskError::Moved { status: self.status }),
                (true, Some(_)) => return Err(TaskError::ResumePending),
                (true, None) => data.pending = Some(prompt),
            },
            TaskChange::FirePending { by } => {
                let Some(prompt) = data.pending.take().filter(|_| !self.status.is_active()) else {
                    return Err(TaskError::Moved { status: self.status });
                };
                next.begin_again(prompt, by, now);
            }
            TaskChange::Clear => {
                if self.status.is_active() {
                    return Err(TaskError::Moved { status: self.status });
                }
                // A queued resume would bring back a cleared task.
                (data.cleared, data.pending) = (true, None);
            }
            TaskChange::Notify => {
                data.runs.iter_mut().filter(|run| run.end.is_some()).for_each(|run| run.noted = true);
            }
        }
        Ok(next)
    }

    fn end(&mut self, status: TaskStatus, error: Option<String>, now: Millis) {
        self.status = status;
        self.data.error.clone_from(&error);
        if let Some(run) = self.data.runs.last_mut() {
            (run.ended, run.end, run.error) = (Some(now), Some(status), error);
            run.noted = true;
        }
    }

    fn begin_again(&mut self, prompt: String, by: String, now: Millis) {
        self.status = TaskStatus::Resumed;
        self.data.cleared = false;
        self.data.error = None;
        let result = self.data.result.take();
        if let Some(ended) = self.data.runs.last_mut() {
            ended.result = result;
        }
        let run = TaskRun { by, prompt: Some(prompt), asked: now, ..TaskRun::default() };
        self.data.runs.push(run);
    }

    /// Returns the runs that were noted since `before`, from 1.
    pub(crate) fn noted_since(&self, before: &Task) -> Vec<u32> {
        let was_noted = |at: usize| before.data.runs.get(at).is_some_and(|run| run.noted);
        let runs = self.data.runs.iter().enumerate();
        runs.filter(|(at, run)| run.noted && !was_noted(*at))
            .filter_map(|(at, _)| u32::try_from(at + 1).ok())
            .collect()
    }

    fn require_run(&self, run: u32) -> Result<(), TaskError> {
        if self.status.is_active() && self.run() == run {
            return Ok(());
        }
        Err(TaskError::Moved { status: self.status })
    }

    /// Returns the record for a new task.
    pub(crate) fn record(&self) -> Result<NewTask, TaskError> {
        Ok(NewTask {
            id: self.id.to_string(),
            parent: self.parent.clone(),
            session: Some(self.id.clone()),
            status: self.status.name().to_owned(),
            data: serde_json::to_value(&self.data)?,
        })
    }

    /// Returns the store operation that replaces `before` with this.
    pub(crate) fn step_from(&self, before: &Task) -> Result<TaskMove, TaskError> {
        Ok(TaskMove {
            from: before.status.name().to_owned(),
            to: self.status.name().to_owned(),
            over: Some(before.seen.clone()),
            data: Some(serde_json::to_value(&self.data)?),
            ..TaskMove::default()
        })
    }
}

impl TryFrom<TaskRecord> for Task {
    type Error = TaskError;

    fn try_from(record: TaskRecord) -> Result<Task, TaskError> {
        let TaskRecord { id, parent, status, data, created, .. } = record;
        let unknown = || TaskError::Unreadable(format!("task `{id}` is `{status}`, which is not known here"));
        Ok(Task {
            status: status.parse().map_err(|()| unknown())?,
            data: serde_json::from_value(data.clone())?,
            id: SessionId::new(id),
            parent,
            created,
            seen: data,
        })
    }
}
