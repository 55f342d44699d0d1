//! Background tasks of all processes on the same database, for a host that runs none itself.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll::SessionId;
use plimsoll_agent::tasks::{RosterAgent, Task, TaskError, find_task};
use plimsoll_agent::{TaskBoard, TaskLimits};
use plimsoll_import::SessionStorage;
use plimsoll_store::Filter;
use tokio::runtime::Runtime;

use crate::drive::holder;
use crate::error::HostError;
use crate::host::Host;
use crate::input::InputSource;
use crate::store::OpenStore;

/// Background tasks of a database.
#[non_exhaustive]
pub struct TaskSession {
    /// The database.
    pub opened: OpenStore,
    /// The board. It has no agents, so that a host that only shows tasks does not start queued resumes.
    pub board: Arc<TaskBoard>,
    /// The runtime of the board.
    pub runtime: Runtime,
}

/// Filter for tasks.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    /// Only tasks of this session.
    pub parent: Option<SessionId>,
    /// Only tasks of this directory.
    pub directory: Option<String>,
    /// Only tasks with this status.
    pub status: Option<String>,
    /// Include cleared tasks.
    pub cleared: bool,
    /// Maximum number of tasks.
    pub limit: usize,
}

impl TaskSession {
    /// Opens the tasks of a database.
    pub fn new(opened: OpenStore) -> Result<TaskSession, HostError> {
        let no_agents = |_: &str, _: Option<&str>| -> Result<RosterAgent, String> {
            Err("this command runs no tasks".to_owned())
        };
        let archive = Arc::clone(&opened.archive);
        let board = TaskBoard::new(archive, Arc::new(no_agents), TaskLimits::default(), &holder());
        let board = TaskBoard::with_liveness_check(board, plimsoll_store::holder_is_gone);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(TaskSession { opened, board, runtime })
    }

    /// Marks tasks whose process is gone, and returns all tasks, oldest first.
    pub fn tasks(&self) -> Result<Vec<Task>, HostError> {
        Ok(self.runtime.block_on(current_tasks(&self.board))?)
    }

    /// Finds the task with this id or prefix. Returns it and all tasks.
    pub fn find(&self, id: &str) -> Result<(Task, Vec<Task>), HostError> {
        let tasks = self.tasks()?;
        let task = find_task(&tasks, id)?.clone();
        Ok((task, tasks))
    }

    /// Returns the tasks that pass the filter, newest first, and the number of those beyond its limit.
    pub fn choose<'a>(
        &self,
        filter: &TaskFilter,
        all: &'a [Task],
    ) -> Result<(Vec<&'a Task>, usize), HostError> {
        let here = filter.directory.as_deref().map(|directory| self.sessions_of(directory)).transpose()?;
        let is_wanted = |task: &&Task| {
            (filter.cleared || !task.data.cleared)
                && filter.status.as_deref().is_none_or(|status| task.status.is_listed_as(status))
                && filter.parent.as_ref().is_none_or(|parent| task.parent == *parent)
                // The session of a task may have been removed, and its parent may still exist.
                && here.as_ref().is_none_or(|here| here.contains(&task.id) || here.contains(&task.parent))
        };
        let mut tasks: Vec<&Task> = all.iter().filter(is_wanted).collect();
        // Ids sort newest first, which orders tasks of the same millisecond.
        tasks.sort_by(|one, other| other.created.cmp(&one.created).then_with(|| one.id.cmp(&other.id)));
        let more = tasks.len().saturating_sub(filter.limit);
        tasks.truncate(filter.limit);
        Ok((tasks, more))
    }

    /// Cancels running tasks among these and their siblings, and clears all of them. Returns both numbers.
    pub fn clear(&self, tasks: &[&Task]) -> Result<(usize, usize), HostError> {
        let parents: BTreeSet<&SessionId> = tasks.iter().map(|task| &task.parent).collect();
        let (mut cancelled, mut cleared) = (0, 0);
        for parent in parents {
            let (aborted, gone) = self.runtime.block_on(self.board.clear(parent))?;
            cancelled += aborted.len();
            cleared += gone.len();
        }
        Ok((cancelled, cleared))
    }

    /// Returns the sessions of a directory, including those of tasks.
    fn sessions_of(&self, directory: &str) -> Result<BTreeSet<SessionId>, HostError> {
        let filter = Filter { directory: Some(directory.to_owned()), all: true, ..Filter::default() };
        let sessions = self.opened.archive.store().sessions(&filter)?;
        Ok(sessions.into_iter().map(|session| session.id).collect())
    }
}

/// Marks tasks whose process is gone, and returns all tasks, oldest first.
pub async fn current_tasks(board: &Arc<TaskBoard>) -> Result<Vec<Task>, TaskError> {
    board.reconcile(None).await?;
    board.tasks(None).await
}

impl Host {
    /// Returns the name by which a forked task finds its session: an id, with its tool if it is not stored, or a file.
    pub fn session_to_fork(&self, source: InputSource) -> Result<String, HostError> {
        match source {
            InputSource::File(file, None) => Ok(file.to_string_lossy().into_owned()),
            InputSource::Session(id) => Ok(id),
            InputSource::File(_, Some(_)) | InputSource::Stream(..) => {
                Err(HostError::usage("`--run` takes one session").hint(
                    "store a session of a database with `plimsoll sessions import FILE --session ID`, and pass its id",
                ))
            }
            InputSource::Newest => {
                let found = self.newest_session()?.found;
                self.info(format!("{}: {}", found.tool.name(), self.session_name(&found)));
                Ok(match found.kept {
                    SessionStorage::Stored(_) => found.id,
                    SessionStorage::Row(_) | SessionStorage::File => format!("{}:{}", found.tool.key(), found.id),
                })
            }
        }
    }

    /// Returns this host in the directory that a task is resumed in: the task's own, because the paths in its history and the
    /// rules that it was launched under apply there.
    pub fn at_task(&self, task: &Task, opened: &OpenStore) -> Result<Host, HostError> {
        let own = opened.archive.store().session(&task.id).ok().and_then(|session| session.directory);
        let Some(own) = own.map(PathBuf::from).filter(|own| *own != self.directory()) else {
            return Ok(self.clone());
        };
        let shown = self.short(&own);
        if !own.is_dir() {
            let id = &task.id;
            let message = format!("the task works in `{shown}`, which does not exist");
            return Err(HostError::negative(message)
                .hint(format!("continue its session here with `plimsoll run --session {id} \"…\"`")));
        }
        self.note(format!("the task works in `{shown}` and continues there"));
        Ok(self.at(own))
    }
}
