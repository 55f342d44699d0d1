//! State that all requests share.

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

/// Time that background tasks have to finish when the server stops.
const TASKS_STOP: Duration = Duration::from_secs(10);

/// Maximum number of open directories. Each has a configuration and a task board. They are not closed before the
/// server stops, so without a limit a client could open one directory after the other.
const MAX_PROJECTS: usize = 64;

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
    /// Cancelled when the server stops.
    pub(crate) stop: CancellationToken,
    /// Background work, which the server waits for when it stops.
    pub(crate) work: TaskTracker,
    /// The runtime. Needed because events come from threads that are not part of it.
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
        // Last, so that clients see how the runs ended.
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
        if projects.len() >= MAX_PROJECTS {
            return Err(ApiError::unavailable(format!(
                "the limit of {MAX_PROJECTS} open directories is reached"
            )));
        }
        let (app, place) = (Arc::clone(self), directory.clone());
        let project = blocking(move || Ok(Project::open(&app, &place)?)).await?;
        project.database.follow(self);
        projects.insert(directory, Arc::clone(&project));
        Ok(project)
    }

    /// Resolves the directory that a request names. Symbolic links are resolved first, so that none leads out of the root.
    async fn served(&self, directory: &Path) -> ApiResult<PathBuf> {
        // The same error whether or not it exists, so that clients cannot probe paths outside the root.
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

    /// Returns the open projects.
    pub(crate) async fn projects(&self) -> Vec<Arc<Project>> {
        self.projects.lock().await.values().cloned().collect()
    }

    /// Returns an open project by its directory as recorded in the store.
    pub(crate) async fn open_project(&self, directory: &str) -> Option<Arc<Project>> {
        self.projects.lock().await.get(Path::new(directory)).cloned()
    }

    /// [`open_project`](App::open_project) for threads that may block.
    pub(crate) fn open_project_blocking(&self, directory: &str) -> Option<Arc<Project>> {
        self.projects.blocking_lock().get(Path::new(directory)).cloned()
    }

    /// [`projects`](App::projects) for threads that may block.
    pub(crate) fn projects_blocking(&self) -> Vec<Arc<Project>> {
        self.projects.blocking_lock().values().cloned().collect()
    }

    pub(crate) fn databases(&self) -> MutexGuard<'_, Vec<Arc<Database>>> {
        self.databases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether sessions of a directory may be shown to this server's clients.
    pub(crate) fn is_served(&self, directory: &str) -> bool {
        Path::new(directory).starts_with(&self.root)
    }

    /// Starts background work. The server waits for it when it stops.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.work.spawn_on(work, &self.runtime);
    }

    pub(crate) fn now(&self) -> Millis {
        self.host.now()
    }

    /// Generates ids. All sessions share the generator, so that ids increase across them.
    pub(crate) fn with_ids<T>(&self, make: impl FnOnce(&mut Ids, Millis) -> T) -> T {
        let now = self.now();
        make(&mut self.ids.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    /// Generates an id with a prefix that logs do not use, such as `evt` or `per`.
    pub(crate) fn id(&self, prefix: &str) -> String {
        let id = self.with_ids(|ids, now| ids.receipt(now));
        format!("{prefix}_{}", id.as_str().trim_start_matches("rcp_"))
    }
}

/// Runs blocking work on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(ApiError::internal("the request failed inside the server")),
    }
}

/// Reads a session of a directory. A session of another directory is reported as missing.
pub(crate) fn session_in(store: &dyn Store, directory: &str, id: &SessionId) -> ApiResult<Session> {
    let session = store.session(id)?;
    if session.directory.as_deref() == Some(directory) { Ok(session) } else { Err(ApiError::no_session(id)) }
}
