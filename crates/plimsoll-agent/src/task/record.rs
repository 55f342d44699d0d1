//! A task: what is remembered of it, and the changes that can be made to it.
//!
//! Every change is a pure function from one record to the next ([`Task::apply`]); the board writes it with a comparison, so
//! that the process that runs a task, its parent and a person can all change it and none writes over another.

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
    /// Its id, which is the id of the session it runs in.
    pub id: SessionId,
    /// The session it works for.
    pub parent: SessionId,
    /// Where it stands.
    pub status: TaskStatus,
    /// When it was launched.
    pub created: Millis,
    /// What is remembered of it.
    pub data: TaskData,
    /// The data as it was read, which the next change must still find.
    seen: Value,
}

/// JSON of a task: its record, and what follows from it under the names of the source documents.
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

/// What is remembered of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskData {
    /// What it is about, in a few words.
    pub description: String,
    /// What it was launched with.
    pub prompt: String,
    /// Its agent.
    pub agent: String,
    /// Its model, as `provider/model`.
    pub model: String,
    /// What it was given of its parent; none where nothing was asked for.
    pub fork: Option<ForkReceipt>,
    /// How many tasks stand above it, itself included.
    pub depth: u32,
    /// The agents above it, the root's first: what they have and may today bounds a task that is taken up again.
    pub above: Vec<String>,
    /// What those agents had and might when it was launched, which bounds it too, whatever became of them.
    pub bounds: Vec<StoredBound>,
    /// What it was launched and resumed with, and how that ended.
    pub runs: Vec<TaskRun>,
    /// A resume that waits until the present run has ended.
    pub pending: Option<String>,
    /// How often something was said to it. It moves with the words, so that an end which was made without them is not
    /// recorded.
    pub steers: u64,
    /// What went wrong in the newest run.
    pub error: Option<String>,
    /// The newest words of its model when the newest run ended.
    pub result: Option<String>,
    /// How far it has come.
    pub progress: TaskProgress,
    /// What its prompt cache is looked up by, where that is its parent's.
    pub cache_key: Option<String>,
    /// Whether it was cleared: it is not listed any more, and can still be resumed.
    pub cleared: bool,
}

/// One run of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskRun {
    /// Who runs it.
    pub by: String,
    /// What it was resumed with; none for the first.
    pub prompt: Option<String>,
    /// When it was asked for.
    pub asked: Millis,
    /// When it got its slot.
    pub started: Option<Millis>,
    /// When it ended.
    pub ended: Option<Millis>,
    /// How it ended.
    pub end: Option<TaskStatus>,
    /// What went wrong.
    pub error: Option<String>,
    /// What its model had said in the end, once another run has followed; that of the newest is the task's own.
    pub result: Option<String>,
    /// What was said to it and not read before it ended.
    pub unread: Vec<String>,
    /// What a person said to it and it did not read, which is not its parent's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread_of_user: Vec<String>,
    /// Whether its end was sent to the parent together with its record. Records of older versions do not say so, because
    /// there the one could be stored without the other.
    pub noted: bool,
}

impl TaskRun {
    /// For how long it has worked, or waited if it has not begun.
    pub fn duration(&self, now: Millis) -> Duration {
        let begin = self.started.unwrap_or(self.asked);
        Duration::from_millis(self.ended.unwrap_or(now).0.saturating_sub(begin.0))
    }
}

/// What a forked task was given of its parent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ForkReceipt {
    /// In which way.
    pub way: ForkWay,
    /// Why not in the way that is configured.
    pub why: Option<String>,
    /// What was cut, for a digest.
    pub stats: Option<ForkStats>,
    /// How many messages are shared, for a history.
    pub shared: Option<usize>,
    /// What it takes of the child's window, in tokens.
    pub tokens: Option<u64>,
    /// What went wrong.
    pub warning: Option<String>,
    /// Whether the budget cut something that the parent has in view.
    pub cut: bool,
}

impl ForkReceipt {
    /// The receipt of a digest with these figures.
    pub(crate) fn of_stats(stats: ForkStats) -> ForkReceipt {
        let mut receipt = ForkReceipt { stats: Some(stats), ..ForkReceipt::default() };
        receipt.cut = receipt.was_cut();
        receipt
    }

    /// Whether the budget cut something that the parent has in view, also where an older version wrote the receipt.
    pub fn was_cut(&self) -> bool {
        self.cut
            || self.stats.as_ref().is_some_and(|stats| {
                // The newest results are whole unless there is no room for them, as in a small window.
                let by_room = stats.truncated_by.budget + stats.truncated_by.tier1;
                stats.removed_messages > 0 || stats.shortened_messages > 0 || by_room > 0
            })
    }
}

/// The way in which a task was given its parent's context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForkWay {
    /// The parent had said nothing, or could not be read.
    #[default]
    Nothing,
    /// A digest in a message of its own.
    Digest,
    /// The parent's window itself.
    History,
}

/// How far a task has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskProgress {
    /// Calls of tools.
    pub tool_calls: u64,
    /// Calls by the name of the tool.
    pub tools: BTreeMap<String, u64>,
    /// The last three tools, oldest first.
    pub last_tools: Vec<String>,
    /// What it does now.
    pub phase: TaskPhase,
    /// Chars of its answers.
    pub chars: u64,
    /// Answers of its model.
    pub steps: u64,
    /// What was charged.
    pub usage: UsageFigures,
    /// What it cost in dollars, as far as prices are known.
    pub cost: f64,
}

/// What a task does now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskPhase {
    /// Nothing has come of it yet.
    #[default]
    Waiting,
    /// A tool works.
    Tool,
    /// Its model speaks.
    Streaming,
}

/// A change of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskChange {
    /// A run has got its slot.
    Start {
        /// Which run, from 1.
        run: u32,
    },
    /// A run has come further.
    Progress {
        /// Which run.
        run: u32,
        /// How far.
        progress: TaskProgress,
    },
    /// A run has ended.
    End {
        /// Which run.
        run: u32,
        /// How.
        status: TaskStatus,
        /// What went wrong.
        error: Option<String>,
        /// What came of it.
        result: Option<String>,
        /// How far it has come.
        progress: Option<TaskProgress>,
    },
    /// It has what it was to be given of its parent.
    Receive {
        /// What that was.
        fork: ForkReceipt,
        /// What its prompt cache is looked up by.
        cache_key: Option<String>,
    },
    /// Something was said to it.
    Steer,
    /// It is not wanted any more.
    Cancel {
        /// Why, if not because it was asked.
        why: Option<String>,
    },
    /// It is taken up again.
    Resume {
        /// What it is asked now.
        prompt: String,
        /// Who runs it.
        by: String,
    },
    /// It is to be taken up again when the present run has ended.
    QueueResume {
        /// What it will be asked.
        prompt: String,
    },
    /// The resume in line is taken up.
    FirePending {
        /// Who runs it.
        by: String,
    },
    /// A person or model does not want to see it any more.
    Clear,
    /// The ends of its runs are sent to the parent that may never have been.
    Tell,
}

impl Task {
    /// A task that is about to be launched by `by`.
    pub fn new(id: SessionId, parent: SessionId, mut data: TaskData, by: &str, now: Millis) -> Task {
        data.runs = vec![TaskRun { by: by.to_owned(), asked: now, ..TaskRun::default() }];
        Task { id, parent, status: TaskStatus::Queued, created: now, data, seen: Value::Null }
    }

    /// Which run is the newest, from 1.
    pub fn run(&self) -> u32 {
        u32::try_from(self.data.runs.len()).unwrap_or(u32::MAX)
    }

    /// How often it was resumed.
    pub fn resumes(&self) -> u32 {
        self.run().saturating_sub(1)
    }

    /// Whether it was given its parent's context.
    pub fn is_forked(&self) -> bool {
        self.data.fork.is_some()
    }

    /// For how long the newest run has worked.
    pub fn duration(&self, now: Millis) -> Duration {
        self.data.runs.last().map(|run| run.duration(now)).unwrap_or_default()
    }

    /// The task after a change, or why the change cannot be made.
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
                    // It was cancelled by another: what came of it by then is added.
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
                // A resume that waits behind an end is all that is left to cancel; what has ended stays as it ended.
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
                // A resume in line would bring back what was cleared away.
                (data.cleared, data.pending) = (true, None);
            }
            TaskChange::Tell => {
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

    /// Which of its runs have been noted since `before`, from 1.
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

    /// The record that begins it.
    pub(crate) fn record(&self) -> Result<NewTask, TaskError> {
        Ok(NewTask {
            id: self.id.to_string(),
            parent: self.parent.clone(),
            session: Some(self.id.clone()),
            status: self.status.name().to_owned(),
            data: serde_json::to_value(&self.data)?,
        })
    }

    /// The step of the store that makes this of `before`.
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
