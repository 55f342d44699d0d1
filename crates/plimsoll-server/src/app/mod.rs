//! Everything that requests share.

pub(crate) mod events;
pub(crate) mod project;
mod questions;
pub(crate) mod runner;
pub(crate) mod settings;
pub(crate) mod shape;
pub(crate) mod template;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::{Ids, Millis, SessionId};
use plimsoll_host::{Host, HostError};
use plimsoll_store::{Session, Store};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::events::{Hub, QueueLimits, Replays};
use self::project::{Database, Project};
use self::questions::Questions;
use self::runner::Runners;
use crate::error::{ApiError, ApiResult};
use crate::options::{ServerError, ServerOptions};

/// Time that background tasks have to stop when the server ends.
const TASKS_STOP: Duration = Duration::from_secs(10);

/// Maximum number of directories that are open at once. Each has a configuration and a task board.
const MOST_PROJECTS: usize = 64;

pub(crate) struct App {
    pub(crate) root: PathBuf,
    pub(crate) host: Host,
    pub(crate) options: ServerOptions,
    pub(crate) hub: Hub,
    pub(crate) runners: Runners,
    pub(crate) questions: Questions,
    pub(crate) replayed: Replays,
    /// Limits the number of concurrent replays.
    pub(crate) replays: Arc<Semaphore>,
    /// Cancelled when the server ends.
    pub(crate) stop: CancellationToken,
    /// Work in the background, which ends with the server.
    pub(crate) work: TaskTracker,
    /// The runtime. Events come from threads that do not belong to it.
    runtime: Handle,
    projects: tokio::sync::Mutex<HashMap<PathBuf, Arc<Project>>>,
    databases: Mutex<Vec<Arc<Database>>>,
    ids: Mutex<Ids>,
}

impl App {
    pub(crate) async fn open(host: Host, options: ServerOptions) -> Result<Arc<App>, ServerError> {
        let directory = host.directory().to_owned();
        let root = std::path::absolute(&directory).and_then(|directory| directory.canonicalize());
        let root = root.map_err(|source| ServerError::Directory { directory, source })?;
        if let Some(metrics) = &options.metrics {
            metrics::with_local_recorder(metrics, plimsoll_agent::metrics::describe);
        }
        let app = Arc::new(App {
            host: host.at(root.clone()),
            root: root.clone(),
            hub: Hub::new(QueueLimits { events: options.event_queue, bytes: options.event_bytes }),
            runners: Runners::default(),
            replayed: Replays::default(),
            replays: Arc::new(Semaphore::new(1)),
            questions: Questions::new(options.permission_timeout),
            stop: CancellationToken::new(),
            work: TaskTracker::new(),
            runtime: Handle::current(),
            projects: tokio::sync::Mutex::default(),
            databases: Mutex::default(),
            ids: Mutex::new(plimsoll_store::random_ids()),
            options,
        });
        let opening = Arc::clone(&app);
        let opened = tokio::task::spawn_blocking(move || Project::open(&opening, &root)).await;
        let project = opened.unwrap_or_else(|error| Err(HostError::failed(error.to_string())));
        let project = project.map_err(ServerError::Host)?;
        app.projects.lock().await.insert(project.directory.clone(), project);
        Ok(app)
    }

    /// Follows the change feeds of the databases that are open, and of those that are opened later.
    pub(crate) fn follow(self: &Arc<Self>) -> TaskTracker {
        for database in self.databases().iter() {
            database.follow(self);
        }
        self.work.clone()
    }

    /// Interrupts all runs, ends the event streams, and releases the sessions.
    pub(crate) async fn stop(self: &Arc<Self>) {
        self.questions.deny_all();
        self.runners.stop().await;
        let projects: Vec<Arc<Project>> = self.projects.lock().await.values().cloned().collect();
        for project in projects {
            project.board.close(TASKS_STOP).await;
        }
        // Last, so that readers see how the runs ended.
        let databases = self.databases().clone();
        self.hub.flush(databases).await;
        self.stop.cancel();
    }

    /// Returns the project of a directory, which must be the root or below it.
    pub(crate) async fn project(self: &Arc<Self>, directory: Option<&Path>) -> ApiResult<Arc<Project>> {
        let directory = match directory {
            None => self.root.clone(),
            Some(directory) => self.served(directory).await?,
        };
        let mut projects = self.projects.lock().await;
        if let Some(project) = projects.get(&directory) {
            return Ok(Arc::clone(project));
        }
        if projects.len() >= MOST_PROJECTS {
            return Err(ApiError::unavailable(format!(
                "{MOST_PROJECTS} directories are open, which is the limit"
            )));
        }
        let (app, place) = (Arc::clone(self), directory.clone());
        let project = blocking(move || Ok(Project::open(&app, &place)?)).await?;
        project.database.follow(self);
        projects.insert(directory, Arc::clone(&project));
        Ok(project)
    }

    /// Resolves a directory that a request names. Links are resolved, so that none leads out of the root.
    async fn served(&self, directory: &Path) -> ApiResult<PathBuf> {
        // The same answer whether it exists or not: what is outside of the root is not revealed.
        let refused =
            || ApiError::forbidden("the directory is not served: it is not below the server's root");
        if !directory.is_absolute() {
            return Err(ApiError::bad_request("Query", "the directory must be an absolute path"));
        }
        if directory == self.root {
            return Ok(self.root.clone());
        }
        let directory = directory.to_owned();
        let real = blocking(move || directory.canonicalize().map_err(|_| refused())).await?;
        if real.starts_with(&self.root) && real.is_dir() { Ok(real) } else { Err(refused()) }
    }

    /// The projects that are open.
    pub(crate) async fn projects(&self) -> Vec<Arc<Project>> {
        self.projects.lock().await.values().cloned().collect()
    }

    /// Returns an open project by its directory as recorded in the store.
    pub(crate) async fn open_project(&self, directory: &str) -> Option<Arc<Project>> {
        self.projects.lock().await.get(Path::new(directory)).cloned()
    }

    /// Like [`open_project`](App::open_project), on a thread for blocking work.
    pub(crate) fn open_project_blocking(&self, directory: &str) -> Option<Arc<Project>> {
        self.projects.blocking_lock().get(Path::new(directory)).cloned()
    }

    /// Like [`projects`](App::projects), on a thread for blocking work.
    pub(crate) fn projects_blocking(&self) -> Vec<Arc<Project>> {
        self.projects.blocking_lock().values().cloned().collect()
    }

    pub(crate) fn databases(&self) -> MutexGuard<'_, Vec<Arc<Database>>> {
        self.databases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether sessions of a directory may be shown to this server's clients at all.
    pub(crate) fn is_served(&self, directory: &str) -> bool {
        Path::new(directory).starts_with(&self.root)
    }

    /// Starts work that the end of the server waits for.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.work.spawn_on(work, &self.runtime);
    }

    pub(crate) fn now(&self) -> Millis {
        self.host.now()
    }

    /// Calls a generator of ids, which is shared so that ids grow over all sessions.
    pub(crate) fn with_ids<T>(&self, make: impl FnOnce(&mut Ids, Millis) -> T) -> T {
        let now = self.now();
        make(&mut self.ids.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    /// Generates an id of another kind than the log has, such as `evt` or `per`.
    pub(crate) fn id(&self, prefix: &str) -> String {
        let id = self.with_ids(|ids, now| ids.receipt(now));
        format!("{prefix}_{}", id.as_str().trim_start_matches("rcp_"))
    }
}

/// Does blocking work on a thread for it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(ApiError::internal("the request failed inside the server")),
    }
}

/// Reads a session of a directory. One of another directory is reported as if it did not exist.
pub(crate) fn session_in(store: &dyn Store, directory: &str, id: &SessionId) -> ApiResult<Session> {
    let session = store.session(id)?;
    if session.directory.as_deref() == Some(directory) { Ok(session) } else { Err(ApiError::no_session(id)) }
}
