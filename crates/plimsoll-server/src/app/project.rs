//! One served directory: its configuration, its database, its background tasks.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use plimsoll::{Millis, SessionId};
use plimsoll_agent::{Asker, Event, EventSink, TaskBoard};
use plimsoll_host::{AgentSetup, Flags, Host, HostError, OpenStore, SessionTree};
use plimsoll_store::{Sequence, Session};
use tokio::sync::{Notify, watch};

use crate::app::events;
use crate::app::shape;
use crate::app::{App, blocking, session_in};
use crate::error::{ApiError, ApiResult};

/// Maximum time that the end of a run waits until its last changes are reported.
const REPORT: Duration = Duration::from_secs(1);

/// A database, which several projects may share.
pub(crate) struct Database {
    pub(crate) opened: OpenStore,
    /// The newest change of the time when the database was opened.
    pub(crate) began: Sequence,
    /// The newest change that was looked at: at first that of the time when the database was opened.
    pub(crate) since: watch::Sender<u64>,
    /// Wakes the poller.
    pub(crate) changed: Notify,
    is_followed: AtomicBool,
}

impl Database {
    /// Starts to poll the change feed, unless that was done before.
    pub(crate) fn follow(self: &Arc<Self>, app: &Arc<App>) {
        if !self.is_followed.swap(true, Ordering::SeqCst) {
            events::follow(app, self);
        }
    }
}

pub(crate) struct Project {
    pub(crate) directory: PathBuf,
    /// The directory as recorded in the store.
    pub(crate) name: String,
    /// Id of the project for clients, derived from the directory.
    pub(crate) id: String,
    pub(crate) opened_at: Millis,
    pub(crate) host: Host,
    pub(crate) setup: Arc<AgentSetup>,
    pub(crate) database: Arc<Database>,
    pub(crate) board: Arc<TaskBoard>,
    /// Figures of its sessions.
    pub(crate) tree: Arc<SessionTree>,
    /// Resolved once, because it is part of every message that is shown.
    default_model: OnceLock<Option<(String, String)>>,
}

impl Project {
    /// Opens a served directory. Blocks.
    pub(crate) fn open(app: &Arc<App>, directory: &Path) -> Result<Arc<Project>, HostError> {
        let host = app.host.at(directory.to_owned());
        let options = app.options.agent.clone();
        let config = host.config(&Flags { ..options.flags.clone() })?;
        // Not an error if no model is configured: a client may name one with each prompt.
        let setup = Arc::new(host.agent_setup_without_model(options)?);
        let opened = host.open_or_create(&config)?;
        let database = {
            let mut databases = app.databases();
            match databases.iter().find(|known| known.opened.path == opened.path) {
                Some(known) => Arc::clone(known),
                None => {
                    let began = opened.archive.store().newest_change()?;
                    let since = watch::Sender::new(began.0);
                    let (changed, is_followed) = (Notify::new(), AtomicBool::new(false));
                    let new = Database { opened, began, since, changed, is_followed };
                    databases.push(Arc::new(new));
                    Arc::clone(&databases[databases.len() - 1])
                }
            }
        };
        let name = directory.display().to_string();
        let asker = Arc::new(events::QuestionAsker::new(app, &name)) as Arc<dyn Asker>;
        let sink = sink(app, &database, &name);
        let board = setup.board(&database.opened, Some(asker), sink);
        let (id, directory) = (shape::project_id(directory), directory.to_owned());
        let (opened_at, tree, default_model) = (app.now(), Arc::default(), OnceLock::new());
        Ok(Arc::new(Project {
            directory,
            name,
            id,
            opened_at,
            host,
            setup,
            database,
            board,
            tree,
            default_model,
        }))
    }

    /// Parses the id of a session in a path. An id that does not begin with `ses`, as OpenCode's ids do, must belong to a stored
    /// session: those imported from other tools keep their ids.
    pub(crate) async fn session_id(&self, text: &str) -> ApiResult<SessionId> {
        let id = SessionId::new(text);
        if text.starts_with("ses") {
            return Ok(id);
        }
        match self.session(&id).await {
            Ok(_) => Ok(id),
            Err(error) if error.status == StatusCode::NOT_FOUND => {
                Err(ApiError::bad_request("Params", format!("`{text}` is not the id of a session")))
            }
            Err(error) => Err(error),
        }
    }

    /// Reads a session of this project.
    pub(crate) async fn session(&self, id: &SessionId) -> ApiResult<Session> {
        let id = id.clone();
        self.read(move |opened, name| session_in(opened.archive.store(), name, &id)).await
    }

    /// Reads from the store on a thread for blocking work, with the project's directory as recorded in the store.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&OpenStore, &str) -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let (opened, name) = (self.database.opened.clone(), self.name.clone());
        blocking(move || work(&opened, &name)).await
    }

    /// Waits until everything that has been written so far is on the event streams.
    pub(crate) async fn reported(&self) {
        let newest = self.read(|opened, _| Ok(opened.archive.store().newest_change()?)).await;
        let Ok(newest) = newest else { return };
        self.database.changed.notify_one();
        let mut since = self.database.since.subscribe();
        // The time limit is for a feed that cannot be read, which must not hold up a run.
        let _ = tokio::time::timeout(REPORT, since.wait_for(|at| *at >= newest.0)).await;
    }

    /// Reads a session of this project, and passes it to `work`.
    pub(crate) async fn read_session<T: Send + 'static>(
        &self,
        id: &SessionId,
        work: impl FnOnce(&OpenStore, Session) -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let id = id.clone();
        self.read(move |opened, name| {
            let session = session_in(opened.archive.store(), name, &id)?;
            work(opened, session)
        })
        .await
    }

    /// Returns the provider of a model by the configuration.
    pub(crate) fn provider_of(&self, model: &str) -> Option<String> {
        let run = &self.setup.run;
        let configured = run.providers.iter().find(|(_, provider)| provider.models.contains_key(model));
        let default = run.model.iter().find(|name| name.model == model).map(|name| name.provider.clone());
        default.or_else(|| configured.map(|(name, _)| name.clone()))
    }

    /// Returns provider and model for prompts that name none.
    pub(crate) fn default_model(&self) -> Option<(&str, &str)> {
        let resolve = || {
            let flags = &self.setup.overrides();
            let resolved = self.setup.run.resolve_model(flags.model.as_deref()).ok()?;
            Some((resolved.model.provider, resolved.model.model))
        };
        let (provider, model) = self.default_model.get_or_init(resolve).as_ref()?;
        Some((provider, model))
    }
}

/// Returns the receiver of events of a project's runs.
pub(crate) fn sink(app: &Arc<App>, database: &Arc<Database>, directory: &str) -> EventSink {
    let (app, database): (Weak<App>, _) = (Arc::downgrade(app), Arc::clone(database));
    let directory = directory.to_owned();
    Arc::new(move |event: &Event| {
        let Some(app) = app.upgrade() else { return };
        database.changed.notify_one();
        events::on_run_event(&app, &directory, event);
    })
}
