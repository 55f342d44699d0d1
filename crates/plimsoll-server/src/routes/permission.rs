//! Permission questions and their answers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use plimsoll_agent::PermissionAnswer;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::extract::Path;
use crate::scope::Scope;

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Reply {
    Once,
    Always,
    Reject,
}

#[derive(Deserialize)]
pub(super) struct Answer {
    reply: Reply,
    message: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct AnswerInSession {
    response: Reply,
}

pub(super) async fn list(State(app): State<Arc<App>>, Scope(project): Scope) -> Json<Vec<Value>> {
    Json(app.questions.list(&project.name))
}

pub(super) async fn answer(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(Answer { reply, message }): JsonBody<Answer>,
) -> ApiResult<Json<bool>> {
    match app.questions.answer(&project.name, None, &id, answer_of(reply, message)) {
        true => Ok(Json(true)),
        false => Err(not_open(&id)),
    }
}

pub(super) async fn answer_in_session(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path((session, id)): Path<(String, String)>,
    JsonBody(AnswerInSession { response }): JsonBody<AnswerInSession>,
) -> ApiResult<Json<bool>> {
    let session = project.session_id(&session).await?;
    match app.questions.answer(&project.name, Some(&session), &id, answer_of(response, None)) {
        true => Ok(Json(true)),
        false => Err(not_open(&id)),
    }
}

fn answer_of(reply: Reply, words: Option<String>) -> PermissionAnswer {
    match reply {
        Reply::Once => PermissionAnswer::Once,
        Reply::Always => PermissionAnswer::Always,
        Reply::Reject => PermissionAnswer::No { words: words.filter(|words| !words.trim().is_empty()) },
    }
}

fn not_open(id: &str) -> ApiError {
    let message = format!("Permission request not found: {id}");
    let body = json!({ "_tag": "PermissionNotFoundError", "requestID": id, "message": message });
    ApiError { status: StatusCode::NOT_FOUND, body }
}
