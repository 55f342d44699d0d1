//! Sessions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use plimsoll::{Message, MessageId, SessionId};
use plimsoll_agent::{Conversation, RevertError};
use plimsoll_host::PendingRevert;
use plimsoll_session::begins_turn;
use plimsoll_store::{Filter, NewSession, PageRequest, Session, StoreError};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::app::project::Project;
use crate::app::runner::Choice;
use crate::app::settings::{self, SettingsPatch};
use crate::app::shape::{self, Scene};
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Path, Query};
use crate::scope::Scope;

/// Time that the tasks of a removed session have to stop.
const TASKS_STOP: Duration = Duration::from_secs(10);

/// Default number of sessions in a list.
const LISTED: usize = 100;

#[derive(Deserialize)]
pub(super) struct Wanted {
    /// Only sessions updated since this time, in milliseconds.
    start: Option<f64>,
    search: Option<String>,
    limit: Option<usize>,
    roots: Option<String>,
}

pub(super) async fn list(
    State(_): State<Arc<App>>,
    Scope(project): Scope,
    Query(wanted): Query<Wanted>,
) -> ApiResult<Json<Vec<Value>>> {
    let scene = Scene::of_project(&project);
    let only_roots = wanted.roots.as_deref() == Some("true");
    let sessions = project.read(move |opened, directory| {
        let filter = Filter { directory: Some(directory.to_owned()), all: !only_roots, ..Filter::default() };
        let sessions = opened.archive.store().sessions(&filter)?.into_iter();
        let search = wanted.search.unwrap_or_default().to_lowercase();
        let start = wanted.start.unwrap_or_default();
        let found = sessions
            .filter(|session| session.updated.0 as f64 >= start)
            .filter(|session| search.is_empty() || session.title.to_lowercase().contains(&search));
        Ok(found.take(wanted.limit.unwrap_or(LISTED)).collect::<Vec<_>>())
    });
    Ok(Json(sessions.await?.iter().map(|session| scene.session(session)).collect()))
}

#[derive(Deserialize)]
pub(super) struct ModelChoice {
    #[serde(alias = "modelID")]
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewRequest {
    #[serde(rename = "parentID")]
    parent: Option<String>,
    title: Option<String>,
    agent: Option<String>,
    model: Option<ModelChoice>,
    #[serde(flatten)]
    settings: SettingsPatch,
    #[serde(rename = "workspaceID")]
    workspace: Option<Value>,
}

pub(super) async fn create(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    JsonBody(request): JsonBody<NewRequest>,
) -> ApiResult<Json<Value>> {
    if request.workspace.is_some_and(|workspace| !workspace.is_null()) {
        return Err(ApiError::not_implemented("`workspaceID` is not supported"));
    }
    let mut settings = Map::new();
    request.settings.apply(&mut settings)?;
    let parent = match request.parent {
        Some(parent) => Some(project.session_id(&parent).await?),
        None => None,
    };
    if let Some(parent) = &parent {
        project.session(parent).await?;
    }
    let (id, now) = app.with_ids(|ids, now| (ids.session(now), now));
    let new = NewSession {
        id,
        parent,
        title: request.title.unwrap_or_default(),
        agent: request.agent,
        model: request.model.map(|model| model.id),
        directory: Some(project.name.clone()),
        settings,
        ..NewSession::default()
    };
    let created = project.read(move |opened, _| Ok(opened.archive.store().create(new, now)?)).await?;
    project.database.changed.notify_one();
    Ok(Json(Scene::of_project(&project).session(&created)))
}

pub(super) async fn get(
    State(_): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let session = project.session(&project.session_id(&id).await?).await?;
    Ok(Json(Scene::of_project(&project).session(&session)))
}

pub(super) async fn status(State(app): State<Arc<App>>, Scope(project): Scope) -> ApiResult<Json<Value>> {
    let busy = app.runners.busy(&project);
    let own = project.read(move |opened, directory| {
        let store = opened.archive.store();
        Ok(busy
            .into_iter()
            .filter(|id| crate::app::session_in(store, directory, id).is_ok())
            .collect::<Vec<_>>())
    });
    let busy = own.await?.into_iter().map(|id| (id.to_string(), json!({ "type": "busy" })));
    Ok(Json(Value::Object(busy.collect())))
}

pub(super) async fn children(
    State(_): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<Vec<Value>>> {
    let (scene, id) = (Scene::of_project(&project), project.session_id(&id).await?);
    let children = project.read_session(&id, |opened, session| {
        let children = opened.children(&session.id)?;
        Ok(children.into_iter().filter(|child| child.directory == session.directory).collect::<Vec<_>>())
    });
    Ok(Json(children.await?.iter().map(|child| scene.session(child)).collect()))
}

#[derive(Deserialize)]
pub(super) struct Patch {
    title: Option<String>,
    #[serde(flatten)]
    settings: SettingsPatch,
}

pub(super) async fn update(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(patch): JsonBody<Patch>,
) -> ApiResult<Json<Value>> {
    let id = project.session_id(&id).await?;
    project.session(&id).await?;
    if !patch.settings.is_empty() {
        update_settings(&app, &project, &id, patch.settings).await?;
    }
    if let Some(title) = patch.title {
        app.runners.handle(&app, &project, &id).await?.set_title(title).await?;
        project.database.changed.notify_one();
    }
    let session = project.session(&id).await?;
    Ok(Json(Scene::of_project(&project).session(&session)))
}

async fn update_settings(
    app: &Arc<App>,
    project: &Arc<Project>,
    id: &SessionId,
    patch: SettingsPatch,
) -> ApiResult<()> {
    let handle = app.runners.handle(app, project, id).await?;
    let (sender, done) = tokio::sync::oneshot::channel();
    let update = handle.update_settings(move |settings| {
        let mut changed = settings.clone();
        let applied = patch.apply(&mut changed);
        if applied.is_ok() {
            *settings = changed;
        }
        let _ = sender.send(applied);
    });
    update.await?;
    project.database.changed.notify_one();
    // The open session has the agent of the earlier rules.
    app.runners.get(project, id).reopen_later();
    done.await.unwrap_or(Ok(()))
}

/// Runs `work` on a session between runs.
async fn write_unrun<T>(
    app: &Arc<App>,
    project: &Arc<Project>,
    id: &SessionId,
    work: impl AsyncFnOnce(&mut Conversation) -> ApiResult<T>,
) -> ApiResult<T> {
    let runner = app.runners.get(project, id);
    runner.aborted().await;
    runner.with_conversation(app, Choice::default(), work).await
}

pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<bool>> {
    let id = project.session_id(&id).await?;
    project.session(&id).await?;
    app.runners.abort(&id);
    cancel_tasks(&project, &id).await?;
    let runner = app.runners.get(&project, &id);
    runner.idle().await;
    runner.release().await;
    let (holder, now) = (plimsoll_store::process_holder("plimsoll serve"), app.now());
    let removed = id.clone();
    project
        .read(move |opened, _| {
            const LEASE: Duration = Duration::from_secs(60);
            let store = opened.archive.store();
            let lease = store.lease(&id, &holder, LEASE)?;
            let begun = Instant::now();
            let removed = loop {
                match store.remove(&lease.claim(), now) {
                    // A cancelled task has its lease until it has stopped.
                    Err(StoreError::Leased { .. }) if begun.elapsed() < TASKS_STOP => {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    removed => break removed,
                }
            };
            if removed.is_err() {
                // Otherwise a retry would have to wait until the lease expires.
                let _ = store.release(&lease);
            }
            Ok(removed?)
        })
        .await?;
    app.runners.forget(&removed);
    project.database.changed.notify_one();
    Ok(Json(true))
}

/// Cancels the active tasks of a session, and the session itself if it is one.
async fn cancel_tasks(project: &Arc<Project>, id: &SessionId) -> ApiResult<()> {
    let board = &project.board;
    let own = board.task(id).await.ok();
    let launched = board.tasks(Some(id)).await?;
    for task in own.into_iter().chain(launched).filter(|task| task.status.is_active()) {
        // One that has ended meanwhile needs no cancel. Otherwise the session is not removed, which is reported.
        let _ = board.cancel(&task.id).await;
    }
    Ok(())
}

pub(super) async fn todo(
    State(_): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let id = project.session_id(&id).await?;
    let todos = project
        .read_session(&id, |opened, session| Ok(plimsoll_agent::newest_todos(&opened.archive, &session.id)?));
    Ok(Json(shape::todos(&todos.await?)))
}

/// Returns an empty list: no diffs are stored per session, and reverts use the recorded contents of files.
pub(super) async fn diff(
    State(_): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<Vec<Value>>> {
    project.session(&project.session_id(&id).await?).await?;
    Ok(Json(Vec::new()))
}

#[derive(Deserialize)]
pub(super) struct ForkPlace {
    #[serde(rename = "messageID")]
    message: Option<String>,
}

/// Creates a session with the messages before one, or with all of them. The messages are shared, so the cost of a fork does not
/// depend on the length of the session.
pub(super) async fn fork(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(ForkPlace { message }): JsonBody<ForkPlace>,
) -> ApiResult<Json<Value>> {
    let id = project.session_id(&id).await?;
    let (new, now) = app.with_ids(|ids, now| (ids.session(now), now));
    let forked = project.read_session(&id, move |opened, session| {
        let store = opened.archive.store();
        let new = NewSession {
            id: new,
            title: fork_title(&session),
            agent: session.agent.clone(),
            model: session.model.clone(),
            directory: session.directory.clone(),
            settings: settings::of_fork(&session),
            ..NewSession::default()
        };
        let message = message.map(plimsoll::MessageId::new);
        let known = match &message {
            Some(message) => match store.message(&session.id, message) {
                Ok(_) => Some(message),
                Err(StoreError::Missing { .. }) => None,
                Err(error) => return Err(error.into()),
            },
            None => None,
        };
        let Some(message) = known else { return Ok(store.fork(&session.id, None, new, now)?) };
        let request = PageRequest { from: Some(message.clone()), oldest_first: false, most: 1 };
        match store.page(&session.id, &request)?.messages.first() {
            Some(Message { info, .. }) => Ok(store.fork(&session.id, Some(&info.id), new, now)?),
            // The named message is the first one, so there is nothing to share.
            None => Ok(store.create(new, now)?),
        }
    });
    let forked = forked.await?;
    project.database.changed.notify_one();
    Ok(Json(Scene::of_project(&project).session(&forked)))
}

/// Returns `Title (fork #1)`, or the next number for a fork of a fork.
fn fork_title(session: &Session) -> String {
    let title = session.title.trim();
    let numbered = title.strip_suffix(')').and_then(|title| title.rsplit_once(" (fork #"));
    match numbered.and_then(|(base, number)| Some((base, number.parse::<u32>().ok()?))) {
        Some((base, number)) => format!("{base} (fork #{})", number.saturating_add(1)),
        None if title.is_empty() => String::new(),
        None => format!("{title} (fork #1)"),
    }
}

pub(super) async fn abort(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<bool>> {
    let id = project.session_id(&id).await?;
    project.session(&id).await?;
    app.runners.abort(&id);
    // Tasks have no runner here; the board runs them.
    if project.board.task(&id).await.is_ok_and(|task| task.status.is_active()) {
        project.board.cancel(&id).await?;
    }
    Ok(Json(true))
}

#[derive(Deserialize)]
pub(super) struct Summarize {
    #[serde(rename = "providerID")]
    provider: String,
    #[serde(rename = "modelID")]
    model: String,
}

pub(super) async fn summarize(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(Summarize { provider, model }): JsonBody<Summarize>,
) -> ApiResult<Json<bool>> {
    let id = project.session_id(&id).await?;
    project.session(&id).await?;
    let choice = Choice { model: Some(format!("{provider}/{model}")), ..Choice::default() };
    app.runners.get(&project, &id).compact(&app, choice, None).await?;
    Ok(Json(true))
}

#[derive(Deserialize)]
pub(super) struct RevertPlace {
    #[serde(rename = "messageID")]
    message: String,
}

/// Restores the files that the turn of a message and later ones changed. Clients hide the messages from that turn on until the
/// revert is taken back; the next prompt removes them. A notice informs the model about the restored files.
pub(super) async fn revert(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(RevertPlace { message }): JsonBody<RevertPlace>,
) -> ApiResult<Json<Value>> {
    let id = project.session_id(&id).await?;
    let turn = project.read_session(&id, move |opened, session| turn_of(opened, &session, &message)).await?;
    write_unrun(&app, &project, &id, async |conversation| {
        // An earlier revert is replaced: its files are restored first, so that a later point can be reverted to.
        take_back(conversation).await?;
        let report = match conversation.revert(Some(turn.number)).await {
            Err(error @ RevertError::TasksAtWork(_)) => return Err(ApiError::busy(&id, error.to_string())),
            done => done?,
        };
        let revert = PendingRevert { message: turn.prompt.clone(), notice: report.notice };
        Ok(revert.store(conversation.handle()).await?)
    })
    .await?;
    let session = project.session(&id).await?;
    Ok(Json(Scene::of_project(&project).session(&session)))
}

pub(super) async fn unrevert(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let id = project.session_id(&id).await?;
    project.session(&id).await?;
    write_unrun(&app, &project, &id, take_back).await?;
    let session = project.session(&id).await?;
    Ok(Json(Scene::of_project(&project).session(&session)))
}

/// Takes back the revert that is pending, if there is one.
async fn take_back(conversation: &mut Conversation) -> ApiResult<()> {
    let Some(pending) = PendingRevert::of(&conversation.handle().record().await?) else { return Ok(()) };
    if pending.notice.is_some() {
        match conversation.undo_revert().await {
            // It was undone by another program.
            Err(RevertError::NoRevert) => {}
            done => drop(done?),
        }
    }
    Ok(PendingRevert::clear(conversation.handle()).await?)
}

/// A turn, by its number, which counts prompts from 1, and its prompt.
struct Turn {
    number: usize,
    prompt: MessageId,
}

/// The turn that a message belongs to.
fn turn_of(opened: &plimsoll_host::OpenStore, session: &Session, message: &str) -> ApiResult<Turn> {
    const PAGE: u64 = 500;
    let store = opened.archive.store();
    let (mut turn, mut prompt, mut from) = (0, None, None);
    loop {
        let page = store.page(&session.id, &PageRequest { from, oldest_first: true, most: PAGE })?;
        for found in &page.messages {
            if begins_turn(found) {
                (turn, prompt) = (turn + 1, Some(found.info.id.clone()));
            }
            if found.info.id.as_str() == message {
                let prompt = prompt.unwrap_or_else(|| found.info.id.clone());
                return Ok(Turn { number: turn.max(1), prompt });
            }
        }
        match page.next {
            Some(next) => from = Some(next),
            None => return Err(ApiError::not_found(format!("Message not found: {message}"))),
        }
    }
}
