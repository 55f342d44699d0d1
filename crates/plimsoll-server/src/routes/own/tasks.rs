//! Background tasks.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::routing::on;
use plimsoll_agent::tasks::{ResumeOutcome, Speaker, Task};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::answer::Foreign;
use super::table::{Described as _, OwnRoute};
use super::to_json;
use crate::app::App;
use crate::app::project::Project;
use crate::body::JsonBody;
use crate::error::ApiResult;
use crate::extract::Path;
use crate::scope::Scope;

pub(super) const ROUTES: &[OwnRoute] = &[
    OwnRoute::get("/plimsoll/tasks", "Background tasks of the directory, oldest first.", |filter| {
        on(filter, tasks)
    })
    .answer(Vec::<Foreign<Task>>::schema),
    OwnRoute::post("/plimsoll/tasks/{id}/resume", "Resumes a background task.", |filter| {
        on(filter, resume_task)
    })
    .body(TaskWords::schema)
    .answer(Foreign::<Task>::schema),
    OwnRoute::post("/plimsoll/tasks/{id}/steer", "Sends a message to a running task.", |filter| {
        on(filter, steer_task)
    })
    .body(TaskWords::schema)
    .answer(Foreign::<Task>::schema),
    OwnRoute::post(
        "/plimsoll/tasks/{id}/cancel",
        "Cancels a background task and the tasks it has launched.",
        |filter| on(filter, cancel_task),
    )
    .answer(Foreign::<Task>::schema),
];

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

/// A message to a background task.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskWords {
    /// Text of the message.
    prompt: String,
}

/// Finds a task of the directory by the id of its session.
async fn task_of(project: &Project, id: &str) -> ApiResult<Task> {
    let id = project.session_id(id).await?;
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
