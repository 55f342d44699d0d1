//! Sessions of the directory: the tree of stored sessions, and the sessions of other tools.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::routing::on;
use plimsoll_host::{Importer, SessionNode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::{Foreign, foreign};
use super::table::{Described as _, OwnRoute};
use super::to_json;
use super::view::shown;
use crate::app::{App, blocking};
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::extract::Path;
use crate::scope::Scope;

/// Maximum number of stored sessions in the tree.
const MAX_STORED: u64 = 1_000;
/// Maximum number of listed sessions of other tools. Lower, because their files have to be read.
const MAX_OTHERS: usize = 100;

pub(super) const ROUTES: &[OwnRoute] = &[
    OwnRoute::get(
        "/plimsoll/sessions",
        "Stored sessions with figures, newest first. `parent` is the id of the session above.",
        |filter| on(filter, stored),
    )
    .answer(StoredSessions::schema),
    OwnRoute::get("/plimsoll/others", "Sessions of other tools in this directory, newest first.", |filter| {
        on(filter, others)
    })
    .answer(OtherSessions::schema),
    OwnRoute::get(
        "/plimsoll/others/{tool}/{id}",
        "Contents of the window of another tool's session.",
        |filter| on(filter, other),
    )
    .answer(OtherSession::schema),
    OwnRoute::post("/plimsoll/import", "Stores a copy of another tool's session, or updates it.", |filter| {
        on(filter, import)
    })
    .body(ImportRequest::schema)
    .answer(Foreign::<Value>::schema),
];

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ImportRequest {
    /// The tool, such as `claude-code`.
    tool: String,
    /// Id of the session.
    session: String,
}

/// Stored sessions with their figures.
#[derive(Serialize, JsonSchema)]
struct StoredSessions {
    /// The directory.
    directory: String,
    /// The server's time, in milliseconds.
    now: u64,
    /// The sessions, newest first.
    sessions: Vec<Foreign<SessionNode>>,
    /// Ids of those that run in this server.
    busy: Vec<String>,
}

/// Sessions of other tools.
#[derive(Serialize, JsonSchema)]
struct OtherSessions {
    /// The sessions, newest first.
    sessions: Vec<Foreign<SessionNode>>,
}

/// A session of another tool.
#[derive(Serialize, JsonSchema)]
struct OtherSession {
    /// The session.
    session: Foreign<Value>,
    /// Contents of the window.
    window: Foreign<Value>,
}

async fn stored(State(app): State<Arc<App>>, Scope(project): Scope) -> ApiResult<Json<StoredSessions>> {
    let busy = app.runners.busy(&project);
    let (setup, host, tree) = (Arc::clone(&project.setup), project.host.clone(), Arc::clone(&project.tree));
    let nodes = project.read(move |opened, _| Ok(tree.stored(&host, opened, setup.config(), MAX_STORED)?));
    let nodes = nodes.await?;
    let is_busy = |id: &&str| busy.iter().any(|one| one.as_str() == *id);
    let busy = nodes.iter().map(|node| node.id.as_str()).filter(is_busy).map(str::to_owned).collect();
    let directory = project.name.clone();
    Ok(Json(StoredSessions { directory, now: app.now().0, sessions: foreign(nodes), busy }))
}

async fn others(Scope(project): Scope) -> ApiResult<Json<OtherSessions>> {
    let (setup, host) = (Arc::clone(&project.setup), project.host.clone());
    let nodes = project.read(move |opened, _| Ok(host.other_sessions(opened, setup.config(), MAX_OTHERS)?));
    Ok(Json(OtherSessions { sessions: foreign(nodes.await?) }))
}

fn no_such(tool: &str, id: &str) -> ApiError {
    ApiError::not_found(format!("`{tool}` has no session `{id}` in this directory"))
}

async fn other(
    Scope(project): Scope,
    Path((tool, id)): Path<(String, String)>,
) -> ApiResult<Json<OtherSession>> {
    let inspected = blocking(move || {
        let spec = project.host.other_session(&tool, &id).ok_or_else(|| no_such(&tool, &id))?;
        let mut inspected = project.host.inspect(spec, project.setup.config())?;
        let report = std::mem::take(&mut inspected.report);
        let (Json(session), Json(window)) = (to_json(&inspected)?, to_json(&shown(report))?);
        Ok(OtherSession { session: Foreign(session), window: Foreign(window) })
    });
    Ok(Json(inspected.await?))
}

async fn import(
    Scope(project): Scope,
    JsonBody(ImportRequest { tool, session }): JsonBody<ImportRequest>,
) -> ApiResult<Json<Value>> {
    let changed = Arc::clone(&project.database);
    let report = blocking(move || {
        let spec = project.host.other_session(&tool, &session).ok_or_else(|| no_such(&tool, &session))?;
        let opened = project.database.opened.clone();
        let mut importer = Importer::into_store(&project.host, project.setup.config(), opened);
        Ok(importer.import(spec, false)?)
    });
    let report = report.await?;
    changed.changed.notify_one();
    to_json(&report)
}
