//! `/event` and `/global/event`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;

use crate::app::App;
use crate::app::events::Reach;
use crate::error::ApiResult;
use crate::scope::{Scope, directory};

pub(super) async fn local(State(app): State<Arc<App>>, Scope(project): Scope) -> Response {
    app.hub.open(&app, Reach::Directory(project.name.clone()))
}

/// Streams the events of all served directories, or of the one that the request names.
pub(super) async fn global(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> ApiResult<Response> {
    let directory = directory(uri.query(), &headers)?;
    let reach = match directory {
        Some(directory) => Some(app.project(Some(&directory)).await?.directory.clone()),
        None => None,
    };
    Ok(app.hub.open(&app, Reach::Global(reach)))
}
