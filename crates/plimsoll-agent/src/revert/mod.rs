//! Restores files to their content from before a turn.
//!
//! Every change by `write` and `edit` is recorded before it is made, with the hashes of the old and the new content. A
//! revert processes the changes of a file from newest to oldest: while the file has the content that a change wrote, it
//! gets the content from before. A change that was never made, because the process died first, is skipped. If the file
//! has neither content, something else has changed it, and the revert of this file stops.
//!
//! A revert is itself recorded: the content that it replaces is stored first, and listed in a notice that the model
//! reads before the next prompt. So a revert can be undone, and a process that dies in the middle leaves every file
//! complete and can finish later.
//!
//! Changes of background tasks belong to the turn that launched them, and are reverted with it in the same plan: the
//! changes of all sessions to a file form one sequence by time. See `tasks.rs`.

mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll::{MessageId, PartId, SessionId};
use plimsoll_sandbox::{FileContent, FileEntry, ReplaceError, remove_empty_directory};
use plimsoll_session::{
    CallTrace, ChangeHistory, FileChange, FileOp, KnownTools, RevertRecord, Session, SessionError,
};
use plimsoll_store::{Archive, SpillRecord, StoreError};
use thiserror::Error;

use crate::event::{Event, EventSink};
use crate::report::{RevertAction, RevertReport, RevertedFile, RevertedTask, UncoveredCall};
use crate::run::Conversation;

use tasks::{TaskLeases, TaskTraces};

/// Tools that leave nothing on disk, and those whose changes are recorded.
const TOOLS: KnownTools<'static> = KnownTools {
    traceless: &[
        "read",
        "list",
        "grep",
        "glob",
        "recall",
        "todo",
        "skill",
        "webfetch",
        // Effects of a task are recorded in its own session.
        "background_task",
        "background_steer",
        "background_output",
        "background_list",
        "background_cancel",
        "background_clear",
    ],
    recording: &["write", "edit"],
};
/// Maximum number of files listed for the model.
const MAX_NAMED: usize = 50;

/// How far a revert goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevertTarget {
    /// Before the newest turn that changed files and was not reverted since.
    LastTurn,
    /// Before this turn, counted by the prompts of the session from 1.
    Turn(usize),
    /// Undo of the newest revert.
    LastRevert,
}

/// Reason why nothing was reverted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RevertError {
    /// There are no changes.
    #[error("no turn of this session changed files with `write` or `edit`, or all changes were reverted")]
    Nothing,
    /// There is no revert to undo.
    #[error("there is no revert to undo")]
    NoRevert,
    /// The turn does not exist.
    #[error("unknown turn {turn} (the session has {last})")]
    NoTurn {
        /// The requested number.
        turn: usize,
        /// Number of the newest turn.
        last: usize,
    },
    /// Tasks of those turns may still change files.
    #[error("{}", format_active_tasks(.0))]
    TasksAtWork(Vec<RevertedTask>),
    /// The session cannot be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Internal error, such as a thread that panicked.
    #[error("{0}")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

fn format_active_tasks(tasks: &[RevertedTask]) -> String {
    let named: Vec<String> =
        tasks.iter().map(|task| format!("`{}` ({})", task.id, task.description)).collect();
    format!("nothing was reverted: background tasks of these turns are still active: {}", named.join(", "))
}

impl From<StoreError> for RevertError {
    fn from(error: StoreError) -> RevertError {
        RevertError::Session(error.into())
    }
}

/// A planned revert.
struct RevertPlan {
    report: RevertReport,
    undoes: Option<MessageId>,
    steps: Vec<FileStep>,
}

/// A planned change of one file.
struct FileStep {
    /// Index in the report.
    file: usize,
    old: Option<FileContent>,
    /// The content to restore; `None` to remove the file.
    kept: Option<SpillRecord>,
    mode: Option<u32>,
    change: FileChange,
    /// Directories that were created for it.
    made: BTreeSet<PathBuf>,
}

/// A recorded change, with the session and the part that contain it.
struct Recorded<'a> {
    session: &'a SessionId,
    part: &'a PartId,
    change: &'a FileChange,
}

/// Plans a [`revert`]. Another process may be running the session.
pub fn plan_revert(
    archive: &Archive,
    session: &SessionId,
    target: RevertTarget,
) -> Result<RevertReport, RevertError> {
    Ok(RevertPlan::new(archive, session, target)?.report)
}

/// Restores files. Each is replaced atomically, and only if it has the content that the agent left; that content is
/// stored first.
pub async fn revert(
    session: &mut Session,
    target: RevertTarget,
    events: &EventSink,
) -> Result<RevertReport, RevertError> {
    let (archive, id) = (Arc::clone(session.archive()), session.id().clone());
    let ready = session.with_archive(move |_| Ok(RevertReady::read(&archive, &id, target))).await??;
    let RevertReady { report, undoes, steps, held } = ready;
    let done = put_back(session, report, undoes, steps, events).await;
    // Leases are released by the store, which blocks.
    let released = session.with_archive(move |_| {
        drop(held);
        Ok(())
    });
    released.await?;
    done
}

/// A revert with its contents loaded, while the leases of its tasks are held.
struct RevertReady {
    report: RevertReport,
    undoes: Option<MessageId>,
    steps: Vec<ReadyStep>,
    held: TaskLeases,
}

/// A step, and the content that its file is restored to.
type ReadyStep = (FileStep, Result<Option<Vec<u8>>, StoreError>);

impl RevertReady {
    fn read(
        archive: &Arc<Archive>,
        session: &SessionId,
        target: RevertTarget,
    ) -> Result<RevertReady, RevertError> {
        let planned = RevertPlan::new(archive, session, target)?;
        let held = TaskLeases::take(archive, session, &planned.report.tasks)?;
        // Plan again, because a task may have continued until now.
        let RevertPlan { report, undoes, steps } = match planned.report.tasks.is_empty() {
            true => planned,
            false => RevertPlan::new(archive, session, target)?,
        };
        // Contents are read and checked against their hashes before any file is changed.
        let steps = steps.into_iter().map(|step| {
            let new = step.kept.as_ref().map(|kept| archive.read_kept_file(kept)).transpose();
            (step, new)
        });
        Ok(RevertReady { report, undoes, steps: steps.collect(), held })
    }
}

async fn put_back(
    session: &mut Session,
    mut report: RevertReport,
    undoes: Option<MessageId>,
    steps: Vec<ReadyStep>,
    events: &EventSink,
) -> Result<RevertReport, RevertError> {
    if steps.is_empty() {
        return Ok(report);
    }
    let record = session.begin_revert().await?;
    // Current contents are stored before the notice: a revert that is announced can always be undone.
    let mut ready = Vec::new();
    for (step, new) in steps {
        let old = step.old.as_ref().map(|old| old.bytes.clone());
        let kept = match new {
            Ok(new) => record.keep(&step.change, old).await.map(|()| new),
            Err(error) => Err(error.into()),
        };
        match kept {
            Ok(new) => ready.push((step, new)),
            Err(error) => report.leave(step.file, error.to_string()),
        }
    }
    if ready.is_empty() {
        return Ok(report);
    }
    let files = ready.iter().map(|(step, _)| step.change.clone()).collect();
    let announced = RevertRecord { turn: report.turn, undoes, is_done: false, files };
    record.announce(&report.beginning(), announced).await?;
    report.notice = Some(record.message().clone());
    let events = Arc::clone(events);
    // Files are read and written on a blocking thread.
    let applied = tokio::task::spawn_blocking(move || {
        for (step, new) in &ready {
            let path = report.files[step.file].path.clone();
            events(&Event::Reverting { path: path.clone() });
            if let Err(problem) = step.apply(&path, new.as_deref()) {
                report.leave(step.file, problem);
            }
        }
        report
    });
    let report = applied.await.map_err(|error| RevertError::Internal(error.into()))?;
    record.complete(&report.outcome()).await?;
    Ok(report)
}

impl RevertPlan {
    fn new(archive: &Archive, session: &SessionId, target: RevertTarget) -> Result<RevertPlan, RevertError> {
        let mut history = ChangeHistory::read(archive, session, TOOLS)?;
        let mut tasks = TaskTraces::read(archive, &history)?;
        tasks.merge_into(&mut history);
        let (turn, undoes) = match target {
            RevertTarget::LastTurn => (history.newest_changed().ok_or(RevertError::Nothing)?, None),
            RevertTarget::Turn(turn) => (turn, None),
            RevertTarget::LastRevert => {
                let (message, record) = history.newest_revert().ok_or(RevertError::NoRevert)?;
                (record.turn, Some(message.clone()))
            }
        };
        let last = history.turns.len().saturating_sub(1);
        let of_turn = history.turns.get(turn).filter(|_| turn > 0);
        let prompt = of_turn.ok_or(RevertError::NoTurn { turn, last })?.prompt.clone();
        let mut plan = RevertPlan {
            report: RevertReport {
                session: session.clone(),
                turn,
                prompt,
                undoes_revert: undoes.is_some(),
                notice: None,
                files: Vec::new(),
                uncovered: Vec::new(),
                // A revert is undone from its own record.
                tasks: if undoes.is_none() { tasks.since(turn) } else { Vec::new() },
            },
            undoes,
            steps: Vec::new(),
        };
        let mut changes: BTreeMap<&str, Vec<Recorded<'_>>> = BTreeMap::new();
        for trace in history.traces.iter().rev().filter(|trace| trace.turn >= turn) {
            plan.gather(trace, &mut changes);
        }
        plan.report.uncovered.reverse();
        for (path, changes) in changes {
            plan.add(archive, Path::new(path), &changes)?;
        }
        Ok(plan)
    }

    /// Adds the changes of a call, newest first.
    fn gather<'a>(&mut self, trace: &'a CallTrace, changes: &mut BTreeMap<&'a str, Vec<Recorded<'a>>>) {
        let CallTrace { session, part, turn, op, .. } = trace;
        let mut add = |change: &'a FileChange| {
            changes.entry(&change.path).or_default().push(Recorded { session, part, change });
        };
        match (op, &self.undoes) {
            (FileOp::Changed(change), None) => add(change),
            (FileOp::Reverted { record, .. }, None) => record.files.iter().rev().for_each(add),
            (FileOp::Reverted { message, record }, Some(undone)) if message == undone => {
                record.files.iter().rev().for_each(add);
            }
            (FileOp::Unknown { tool, input }, None) => {
                let (turn, part, tool, input) = (*turn, part.clone(), tool.clone(), input.clone());
                let task = (*session != self.report.session).then(|| session.clone());
                self.report.uncovered.push(UncoveredCall { turn, task, part, tool, input });
            }
            _ => {}
        }
    }

    /// Adds a step for a file, as far back as its changes can be reverted. `changes` are newest first.
    fn add(&mut self, archive: &Archive, path: &Path, changes: &[Recorded<'_>]) -> Result<(), RevertError> {
        let file = self.report.files.len();
        let mut left = RevertedFile { path: path.to_owned(), action: RevertAction::Left, problem: None };
        let old = match FileEntry::find(path).and_then(|place| place.map_or(Ok(None), |place| place.read())) {
            Ok(old) => old,
            Err(error) => {
                left.problem = Some(error.to_string());
                self.report.files.push(left);
                return Ok(());
            }
        };
        let now = old.as_ref().map(|old| old.hash().to_hex().to_string());
        let mut state = now.as_deref();
        let mut kept = None;
        let mut mode = None;
        let mut made = BTreeSet::new();
        for Recorded { session, part, change } in changes {
            if state != change.after.as_deref() {
                if state == change.before.as_deref() {
                    // The process died before it made the change, or the change was reverted since.
                    continue;
                }
                left.problem = Some("it was changed by another program since".into());
                break;
            }
            let Some(found) = archive.kept_file(session, &change.handle(part))? else {
                left.problem = Some("its old content is not stored here".into());
                break;
            };
            if change.before.is_some() && found.expired.is_some() {
                left.problem = Some("its old content is no longer stored".into());
                break;
            }
            state = change.before.as_deref();
            kept = change.before.as_ref().map(|_| found);
            mode = change.mode;
            made.extend(change.directories.iter().map(PathBuf::from));
        }
        if state != now.as_deref() {
            left.action = if state.is_some() { RevertAction::Restored } else { RevertAction::Removed };
            let directories = match FileEntry::missing_directories(path) {
                Ok(directories) => {
                    directories.iter().map(|directory| directory.display().to_string()).collect()
                }
                Err(error) => {
                    left.action = RevertAction::Left;
                    left.problem = Some(error.to_string());
                    self.report.files.push(left);
                    return Ok(());
                }
            };
            let change = FileChange {
                path: path.display().to_string(),
                before: now.clone(),
                after: state.map(str::to_owned),
                mode: old.as_ref().map(|old| old.mode),
                directories,
            };
            self.steps.push(FileStep { file, old, kept, mode, change, made });
        }
        self.report.files.push(left);
        Ok(())
    }
}

impl FileStep {
    fn apply(&self, path: &Path, new: Option<&[u8]>) -> Result<(), String> {
        let changed = |error| match error {
            ReplaceError::Changed => "another program has just changed it".to_owned(),
            error => error.to_string(),
        };
        match (new, &self.old) {
            (Some(new), old) => {
                let place = FileEntry::create_directories(path).map_err(|error| error.to_string())?;
                place.replace(old.as_ref(), new, self.mode).map_err(changed)
            }
            (None, Some(old)) => {
                let place = FileEntry::find(path).map_err(|error| error.to_string())?;
                let place = place.ok_or_else(|| changed(ReplaceError::Changed))?;
                place.remove(old).map_err(changed)?;
                // Innermost first; directories that are not empty stay.
                self.made.iter().rev().for_each(|directory| drop(remove_empty_directory(directory)));
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }
}

impl RevertReport {
    fn leave(&mut self, file: usize, problem: String) {
        let file = &mut self.files[file];
        (file.action, file.problem) = (RevertAction::Left, Some(problem));
    }

    /// Returns the notice that is stored before any change; it is correct even if the process dies right after.
    fn beginning(&self) -> String {
        let what = match self.undoes_revert {
            true => "has undone a revert of files",
            false => "is restoring files",
        };
        format!(
            "[The user {what} before the prompt \"{}\". Read a file again before you rely on what it holds.]",
            self.prompt
        )
    }

    /// Returns the notice about the outcome.
    fn outcome(&self) -> String {
        let mut text = String::new();
        for (action, words) in [
            (RevertAction::Restored, "Restored"),
            (RevertAction::Removed, "Removed"),
            (RevertAction::Left, "Left unchanged"),
        ] {
            let files: Vec<String> = self
                .files
                .iter()
                .filter(|file| file.action == action)
                .map(|file| format!("`{}`", file.path.display()))
                .collect();
            if files.is_empty() {
                continue;
            }
            let more = if files.len() > MAX_NAMED {
                format!(" and {} more", files.len() - MAX_NAMED)
            } else {
                String::new()
            };
            let named = &files[..files.len().min(MAX_NAMED)];
            text.push_str(&format!("\n{words}: {}{more}.", named.join(", ")));
        }
        text
    }
}

impl Conversation {
    /// Restores files to before a turn, counted by the prompts of the session from 1, or by default to before the
    /// newest turn that changed files and was not reverted since. See [`revert`].
    pub async fn revert(&mut self, from_turn: Option<usize>) -> Result<RevertReport, RevertError> {
        self.revert_to(from_turn.map_or(RevertTarget::LastTurn, RevertTarget::Turn)).await
    }

    /// Undoes the newest revert.
    pub async fn undo_revert(&mut self) -> Result<RevertReport, RevertError> {
        self.revert_to(RevertTarget::LastRevert).await
    }

    async fn revert_to(&mut self, target: RevertTarget) -> Result<RevertReport, RevertError> {
        // Settle what a dropped run has left open: a notice must not separate a call from its result.
        self.session.settle("Interrupted: the run was given up.").await?;
        let report = revert(&mut self.session, target, &self.agent.events).await?;
        for file in report.files.iter().filter(|file| file.action != RevertAction::Left) {
            self.files.forget(&file.path);
        }
        self.agent.emit(&Event::Reverted(report.clone()));
        Ok(report)
    }

    /// Plans a [`revert`](Conversation::revert).
    pub async fn plan_revert(&self, from_turn: Option<usize>) -> Result<RevertReport, RevertError> {
        let target = from_turn.map_or(RevertTarget::LastTurn, RevertTarget::Turn);
        let session = self.session.id().clone();
        self.session.with_archive(move |archive| Ok(plan_revert(archive, &session, target))).await?
    }
}
