//! The routes.

mod catalog;
mod command;
mod edit;
mod message;
mod own;
mod permission;
mod prompt;
mod session;
mod stream;
mod unsupported;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};

use crate::access::Access;
use crate::app::App;
use crate::error::ApiError;
use crate::page;

/// Builds the router. Access is checked before anything else.
pub(crate) fn router(app: Arc<App>, access: Access) -> Router {
    let opencode = Router::new()
        .route("/", get(page::document))
        .route("/page.js", get(page::script))
        .route("/page.css", get(page::style))
        .route("/event", get(stream::local))
        .route("/global/event", get(stream::global))
        .route("/global/health", get(catalog::health))
        .route("/session", get(session::list).post(session::create))
        .route("/session/status", get(session::status))
        .route("/session/{id}", get(session::get).patch(session::update).delete(session::remove))
        .route("/session/{id}/children", get(session::children))
        .route("/session/{id}/todo", get(session::todo))
        .route("/session/{id}/diff", get(session::diff))
        .route("/session/{id}/fork", post(session::fork))
        .route("/session/{id}/abort", post(session::abort))
        .route("/session/{id}/summarize", post(session::summarize))
        .route("/session/{id}/revert", post(session::revert))
        .route("/session/{id}/unrevert", post(session::unrevert))
        .route("/session/{id}/message", get(message::list).post(prompt::prompt))
        .route("/session/{id}/message/{message}", get(message::get).delete(edit::remove_message))
        .route(
            "/session/{id}/message/{message}/part/{part}",
            patch(edit::update_part).delete(edit::remove_part),
        )
        .route("/session/{id}/prompt_async", post(prompt::prompt_async))
        .route("/session/{id}/command", post(command::run))
        .route("/session/{id}/permissions/{question}", post(permission::answer_in_session))
        .route("/permission", get(permission::list))
        .route("/permission/{question}/reply", post(permission::answer));
    let opencode = catalog::add(opencode);
    own::add(opencode)
        .fallback(unsupported::answer)
        .method_not_allowed_fallback(unsupported::wrong_method)
        .with_state(app)
        // The layer added last runs first, so a request without access does not even learn which paths exist.
        .layer(from_fn(no_store))
        .layer(from_fn_with_state(access, check_access))
}

async fn check_access(State(access): State<Access>, request: Request, next: Next) -> Response {
    match access.check(request.method(), request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(error) => {
            let ApiError { status, .. } = &error;
            tracing::info!(status = status.as_u16(), "refused a request");
            error.into_response()
        }
    }
}

/// Adds headers to all responses: they contain transcripts, which must not be cached, or be interpreted as a page.
async fn no_store(request: Request, next: Next) -> Response {
    use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let sniffing = HeaderName::from_static("x-content-type-options");
    headers.entry(sniffing).or_insert(HeaderValue::from_static("nosniff"));
    response
}
