//! Plimsoll's own API, under `/plimsoll/`: what fills a session's window, what was reduced, and how to undo it.
//!
//! [`ROUTES`] describes each route once; `/plimsoll/openapi.json` is generated from it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use plimsoll::ReceiptId;
use plimsoll::prune::PruneChoice;
use plimsoll::recall::RecallQuery;
use plimsoll_agent::tasks::{ResumeOutcome, Speaker, Task};
use plimsoll_host::Flags;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::app::project::{Project, session_id};
use crate::app::runner::Choice;
use crate::app::shape::VERSION;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::scope::Scope;

pub(super) fn add(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/plimsoll/metrics", get(metrics))
        .route("/plimsoll/openapi.json", get(openapi))
        .route("/plimsoll/policy", get(policy))
        .route("/plimsoll/tasks", get(tasks))
        .route("/plimsoll/tasks/{id}/resume", post(resume_task))
        .route("/plimsoll/tasks/{id}/steer", post(steer_task))
        .route("/plimsoll/tasks/{id}/cancel", post(cancel_task))
        .route("/plimsoll/session/{id}/window", get(window))
        .route("/plimsoll/session/{id}/load", get(load))
        .route("/plimsoll/session/{id}/plan", get(plan))
        .route("/plimsoll/session/{id}/prune", post(prune))
        .route("/plimsoll/session/{id}/compact", post(compact))
        .route("/plimsoll/session/{id}/receipts", get(receipts))
        .route("/plimsoll/session/{id}/undo", post(undo))
        .route("/plimsoll/session/{id}/recall", post(recall))
        .route("/plimsoll/session/{id}/pins", get(pins).post(pin))
}

/// A route, as the OpenAPI document describes it.
struct OwnRoute {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    body: Option<fn(&mut SchemaGenerator) -> Schema>,
}

const ROUTES: [OwnRoute; 17] = [
    route("get", "/plimsoll/metrics", "Counters in Prometheus' text format."),
    route("get", "/plimsoll/openapi.json", "This document."),
    route("get", "/plimsoll/policy", "The policy of the directory, with all its numbers."),
    route("get", "/plimsoll/tasks", "Background tasks of the directory, oldest first."),
    with_body("post", "/plimsoll/tasks/{id}/resume", "Resumes a background task.", TaskWords::schema),
    with_body("post", "/plimsoll/tasks/{id}/steer", "Says something to a running task.", TaskWords::schema),
    route("post", "/plimsoll/tasks/{id}/cancel", "Cancels a background task, with its own tasks."),
    route("get", "/plimsoll/session/{id}/window", "What is in the window, by kind, tool, file and turn."),
    route("get", "/plimsoll/session/{id}/load", "Size of the next request, and the line it must stay under."),
    route("get", "/plimsoll/session/{id}/plan", "What would be reduced next. Changes nothing."),
    with_body(
        "post",
        "/plimsoll/session/{id}/prune",
        "Clears old tool outputs from the window.",
        PruneRequest::schema,
    ),
    with_body(
        "post",
        "/plimsoll/session/{id}/compact",
        "Replaces older messages by a summary.",
        CompactRequest::schema,
    ),
    route("get", "/plimsoll/session/{id}/receipts", "Receipts of all reductions, oldest first."),
    with_body("post", "/plimsoll/session/{id}/undo", "Undoes a reduction.", UndoRequest::schema),
    with_body(
        "post",
        "/plimsoll/session/{id}/recall",
        "Brings back or searches what left the window.",
        RecallRequest::schema,
    ),
    route("get", "/plimsoll/session/{id}/pins", "Text that stays in view verbatim."),
    with_body(
        "post",
        "/plimsoll/session/{id}/pins",
        "Pins a message, a part or some words.",
        PinRequest::schema,
    ),
];

const fn route(method: &'static str, path: &'static str, summary: &'static str) -> OwnRoute {
    OwnRoute { method, path, summary, body: None }
}

const fn with_body(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    body: fn(&mut SchemaGenerator) -> Schema,
) -> OwnRoute {
    OwnRoute { method, path, summary, body: Some(body) }
}

/// A body with a schema in the document.
trait Body: JsonSchema {
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

impl<T: JsonSchema> Body for T {
    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

/// Which outputs are cleared; those that the policy chooses if nothing is given.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct PruneRequest {
    /// Outputs of these tools.
    tools: Vec<String>,
    /// Outputs of calls that name or show one of these files.
    files: Vec<String>,
    /// Only outputs that a later output in the window shows again.
    repeated: bool,
    /// Number of the newest of them that stay.
    keep: Option<u64>,
    /// Only as many as it takes until the window is at most this full, in percent.
    to: Option<u8>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct CompactRequest {
    /// What the summary should keep above all.
    focus: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UndoRequest {
    /// Id of the receipt.
    receipt: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PinRequest {
    /// Id of a message or part, or words of the conversation.
    what: String,
}

/// A handle to bring back, or a pattern to search for.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RecallRequest {
    /// Handle of the content; without one everything that left the window is searched.
    handle: Option<String>,
    /// First line, counted from 1.
    from: Option<u64>,
    /// Last line.
    to: Option<u64>,
    /// Number of chars to leave out at the beginning of the first line.
    offset: Option<u64>,
    /// Only lines that match this regular expression.
    search: Option<String>,
    /// Maximum number of lines or matches.
    limit: Option<u64>,
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    match &app.options.metrics {
        Some(metrics) => {
            ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics.render()).into_response()
        }
        None => ApiError::not_implemented("this server keeps no metrics").into_response(),
    }
}

async fn openapi() -> Json<Value> {
    let mut generator = schemars::generate::SchemaSettings::openapi3().into_generator();
    let mut paths = Map::new();
    for OwnRoute { method, path, summary, body } in &ROUTES {
        let error = json!({ "description": "An error, as `{ \"name\", \"data\": { \"message\" } }`." });
        let mut operation = json!({
            "summary": summary,
            "responses": { "200": { "description": "The answer." }, "400": error, "404": error, "409": error },
        });
        let directory =
            json!({ "name": "directory", "in": "query", "required": false, "schema": { "type": "string" } });
        let id = json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "string", "pattern": "^ses" } });
        operation["parameters"] =
            if path.contains("{id}") { json!([id, directory]) } else { json!([directory]) };
        if let Some(body) = body {
            let schema = body(&mut generator);
            operation["requestBody"] = json!({ "content": { "application/json": { "schema": schema } } });
        }
        let entry = paths.entry(*path).or_insert_with(|| json!({}));
        entry[*method] = operation;
    }
    let schemas = generator.take_definitions(true);
    Json(json!({
        "openapi": "3.0.3",
        "info": { "title": "Plimsoll", "version": VERSION },
        "paths": paths,
        "components": { "schemas": schemas },
    }))
}

async fn policy(Scope(project): Scope) -> ApiResult<Json<Value>> {
    let policy = crate::app::blocking(move || Ok(project.host.config(&Flags::default())?.policy));
    to_json(&policy.await?)
}

async fn tasks(Scope(project): Scope) -> ApiResult<Json<Value>> {
    project.board.reconcile(None).await?;
    let tasks = project.board.tasks(None).await?;
    let own = project.read(move |opened, directory| {
        let store = opened.archive.store();
        let is_own = |task: &Task| crate::app::session_in(store, directory, &task.parent).is_ok();
        Ok(tasks.into_iter().filter(is_own).collect::<Vec<_>>())
    });
    to_json(&own.await?)
}

/// Words for a background task.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskWords {
    /// What the task is asked or told.
    prompt: String,
}

/// Finds a task of the directory by the id of its session.
async fn task_of(project: &Project, id: &str) -> ApiResult<Task> {
    let id = session_id(id)?;
    project.session(&id).await?;
    Ok(project.board.task(&id).await?)
}

async fn resume_task(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(TaskWords { prompt }): JsonBody<TaskWords>,
) -> ApiResult<Json<Value>> {
    let task = task_of(&project, &id).await?;
    app.runners.remember(&task.parent);
    match project.board.resume(None, &task.id, &prompt).await? {
        ResumeOutcome::Begun(task) => to_json(&task),
        ResumeOutcome::Queued(task) => to_json(&task),
    }
}

async fn steer_task(
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(TaskWords { prompt }): JsonBody<TaskWords>,
) -> ApiResult<Json<Value>> {
    let task = task_of(&project, &id).await?;
    to_json(&project.board.steer(&task.id, &prompt, Speaker::User).await?)
}

async fn cancel_task(Scope(project): Scope, Path(id): Path<String>) -> ApiResult<Json<Value>> {
    let task = task_of(&project, &id).await?;
    to_json(&project.board.cancel(&task.id).await?)
}

async fn window(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let handle = app.runners.handle(&app, &project, &session_id(&id)?).await?;
    to_json(&handle.inspect().await?)
}

async fn load(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let handle = app.runners.handle(&app, &project, &session_id(&id)?).await?;
    to_json(&handle.load().await?)
}

async fn plan(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let handle = app.runners.handle(&app, &project, &session_id(&id)?).await?;
    let next = handle.plan().await?;
    let sizes = |(before, after)| json!({ "before": before, "after": after });
    Ok(Json(json!({
        "prune": next.prune,
        "pruned": sizes(next.pruned),
        "compaction": next.compaction,
        "compacted": next.compacted.map(sizes),
    })))
}

async fn prune(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<PruneRequest>,
) -> ApiResult<Json<Value>> {
    let handle = app.runners.handle(&app, &project, &session_id(&id)?).await?;
    let PruneRequest { tools, files, repeated, keep, to } = request;
    let choice = PruneChoice { tools, files, repeated, keep, to };
    let choice = Some(choice).filter(|choice| !choice.is_empty());
    let pruned = handle.prune(choice, "requested over HTTP").await?.receipt();
    pruned.iter().for_each(plimsoll_agent::metrics::reduced);
    project.database.changed.notify_one();
    to_json(&pruned)
}

async fn compact(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(CompactRequest { focus }): JsonBody<CompactRequest>,
) -> ApiResult<Json<Value>> {
    let id = session_id(&id)?;
    project.session(&id).await?;
    let focus = focus.filter(|focus| !focus.trim().is_empty());
    let runner = app.runners.get(&project, &id);
    let has_reduced = runner.compact(&app, Choice::default(), focus.as_deref()).await?;
    Ok(Json(json!({ "reduced": has_reduced })))
}

async fn receipts(Scope(project): Scope, Path(id): Path<String>) -> ApiResult<Json<Value>> {
    let id = session_id(&id)?;
    let receipts = project.read_session(&id, |opened, session| Ok(opened.receipts(&session.id)?));
    to_json(&receipts.await?)
}

async fn undo(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(UndoRequest { receipt }): JsonBody<UndoRequest>,
) -> ApiResult<Json<Value>> {
    let id = session_id(&id)?;
    let (receipt, of) = (ReceiptId::new(receipt), id.clone());
    let wanted = receipt.clone();
    // A receipt of another session is reported as if it did not exist.
    project
        .read_session(&id, move |opened, _| match opened.archive.store().receipt(&wanted)? {
            (session, _) if session == of => Ok(()),
            _ => Err(ApiError::not_found(format!("Receipt not found: {wanted}"))),
        })
        .await?;
    let handle = app.runners.handle(&app, &project, &id).await?;
    let undone = handle.undo(&receipt).await?;
    project.database.changed.notify_one();
    to_json(&undone)
}

async fn recall(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<RecallRequest>,
) -> ApiResult<Json<Value>> {
    let RecallRequest { handle, from, to, offset, search, limit } = request;
    let query = RecallQuery { handle, from, to, offset, search, limit };
    let handle = app.runners.handle(&app, &project, &session_id(&id)?).await?;
    let answer = handle.recall(query).await?;
    match answer.is_error {
        true => Err(ApiError::bad_request("Payload", answer.text)),
        false => Ok(Json(json!({ "text": answer.text, "next": answer.next }))),
    }
}

async fn pins(Scope(project): Scope, Path(id): Path<String>) -> ApiResult<Json<Value>> {
    let (id, host) = (session_id(&id)?, project.host.clone());
    let pins = project.read_session(&id, move |opened, session| {
        let config = host.config(&Flags::default())?;
        Ok(opened.pins(&session, &config)?)
    });
    let (pins, budget) = pins.await?;
    Ok(Json(json!({ "pins": pins, "budget": budget })))
}

async fn pin(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(PinRequest { what }): JsonBody<PinRequest>,
) -> ApiResult<Json<Value>> {
    let handle = app.runners.handle(&app, &project, &session_id(&id)?).await?;
    let target = handle.find_pin(&what).await?;
    let receipt = handle.pin(target).await?;
    project.database.changed.notify_one();
    to_json(&receipt)
}

fn to_json(value: &impl serde::Serialize) -> ApiResult<Json<Value>> {
    serde_json::to_value(value).map(Json).map_err(|error| ApiError::internal(error.to_string()))
}
