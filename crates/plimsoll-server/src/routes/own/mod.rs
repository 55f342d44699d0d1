//! Plimsoll's own API, under `/plimsoll/`: what fills a session's window, what was reduced, and how to undo it.
//!
//! | part | routes |
//! |---|---|
//! | `service` | counters, policy, the OpenAPI document |
//! | `sessions` | the tree of sessions, those of other tools, and their import |
//! | `view` | reading one session, without its lease |
//! | `plans` | plans, and applying exactly the plan that was shown |
//! | `edit` | reductions, undo and pins |
//! | `tasks` | background tasks |
//! | `replay` | what policies would have done to a session |
//! | `answer` | values of other crates in answers |
//! | `table` | [`OwnRoute`](table::OwnRoute), from which the router and the document are made |
//!
//! Unlike in OpenCode's API, ids need not begin with `ses`, because imported sessions keep the ids of their tools.

mod answer;
mod edit;
mod handle;
mod plans;
mod replay;
mod service;
mod sessions;
mod table;
mod tasks;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::header::ALLOW;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use axum::{Json, Router};
use serde::Serialize;
use serde_json::Value;

use crate::app::App;
use crate::error::{ApiError, ApiResult};
use table::OwnRoute;

pub(super) fn add(router: Router<Arc<App>>) -> Router<Arc<App>> {
    let mut paths: BTreeMap<&str, (MethodRouter<Arc<App>>, Vec<&str>)> = BTreeMap::new();
    for route in all() {
        let (served, methods) = paths.remove(route.path).unwrap_or_default();
        let methods = methods.into_iter().chain([route.method()]).collect();
        paths.insert(route.path, (served.merge(route.serve()), methods));
    }
    paths.into_iter().fold(router, |router, (path, (served, methods))| {
        let allowed = methods.join(", ");
        router.route(path, served.fallback(async move || method_not_allowed(&allowed)))
    })
}

fn method_not_allowed(allowed: &str) -> Response {
    let error = ApiError::method_not_allowed(format!("allowed methods: {allowed}"));
    ([(ALLOW, allowed.to_owned())], error).into_response()
}

/// All routes, in the order of the OpenAPI document.
fn all() -> impl Iterator<Item = &'static OwnRoute> {
    let routes: [&'static [OwnRoute]; 7] = [
        service::ROUTES,
        sessions::ROUTES,
        view::ROUTES,
        plans::ROUTES,
        edit::ROUTES,
        replay::ROUTES,
        tasks::ROUTES,
    ];
    routes.into_iter().flatten()
}

fn to_json(value: &impl Serialize) -> ApiResult<Json<Value>> {
    serde_json::to_value(value).map(Json).map_err(|error| ApiError::internal(error.to_string()))
}
