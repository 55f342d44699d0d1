//! Counters, the policy, and the OpenAPI document.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::on;
use plimsoll::Policy;
use serde_json::Value;

use super::all;
use super::answer::Foreign;
use super::table::{Described as _, OwnRoute, document};
use crate::app::App;
use crate::error::ApiError;
use crate::scope::Scope;

pub(super) const ROUTES: &[OwnRoute] = &[
    OwnRoute::get("/plimsoll/metrics", "Counters in Prometheus' text format.", |filter| on(filter, metrics))
        .global()
        .answer_text(),
    OwnRoute::get("/plimsoll/openapi.json", "This document.", |filter| on(filter, openapi))
        .global()
        .answer(Foreign::<Value>::schema),
    OwnRoute::get("/plimsoll/policy", "The policy of the directory, with all its numbers.", |filter| {
        on(filter, policy)
    })
    .answer(Foreign::<Policy>::schema),
];

async fn metrics(State(app): State<Arc<App>>) -> Response {
    match &app.options.metrics {
        Some(metrics) => {
            ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics.render()).into_response()
        }
        None => ApiError::not_implemented("this server keeps no metrics").into_response(),
    }
}

async fn openapi() -> Json<Value> {
    Json(document(all()))
}

async fn policy(Scope(project): Scope) -> Json<Foreign<Policy>> {
    Json(Foreign(project.setup.config().policy.clone()))
}
