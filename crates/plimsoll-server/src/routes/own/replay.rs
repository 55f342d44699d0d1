//! Replays of a session under policies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::routing::on;
use plimsoll::SessionId;
use plimsoll_host::{Flags, InputSource, InputSpec, ReplayRequest};
use serde::Deserialize;
use serde_json::Value;

use super::answer::Foreign;
use super::table::{Described as _, OwnRoute, Parameter, ParameterKind};
use super::to_json;
use crate::app::{App, blocking};
use crate::error::{ApiError, ApiResult};
use crate::extract::{Path, Query};
use crate::scope::Scope;

/// Maximum number of messages of a replayed session. A longer one takes minutes, and `plimsoll replay` shows progress.
const MAX_MESSAGES: u64 = 20_000;
/// Time limit of a replay.
const MAX_TIME: Duration = Duration::from_secs(300);

pub(super) const ROUTES: &[OwnRoute] =
    &[OwnRoute::get("/plimsoll/session/{id}/replay", "Replays the session under policies.", |filter| {
        on(filter, replay)
    })
    .query(&[
        Parameter {
            name: "policies",
            description: "Comma-separated names of policies [default: those of `plimsoll replay`].",
            kind: ParameterKind::Text("^[a-z0-9,-]*$"),
        },
        Parameter {
            name: "context",
            description: "Context window in tokens [default: the session's own].",
            kind: ParameterKind::Tokens,
        },
    ])
    .answer(Foreign::<Value>::schema)];

#[derive(Deserialize)]
struct ReplayQuery {
    policies: Option<String>,
    context: Option<u64>,
}

/// Stops a replay when its request ends, even because the client has disconnected.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn replay(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    Query(query): Query<ReplayQuery>,
) -> ApiResult<Json<Value>> {
    let policies = query.policies.unwrap_or_default();
    let policies: Vec<String> =
        policies.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    // `plimsoll replay` also accepts paths of policy files, but clients must not choose files of this machine.
    let is_name =
        |name: &String| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !policies.iter().all(is_name) {
        return Err(ApiError::bad_request("Query", "`policies` takes names of policies, not files"));
    }
    let session = project.session(&SessionId::new(id)).await?;
    if session.messages > MAX_MESSAGES {
        let message = format!("the session has more than {MAX_MESSAGES} messages; use `plimsoll replay`");
        return Err(ApiError::conflict(message));
    }
    let Ok(permit) = Arc::clone(&app.replays).try_acquire_owned() else {
        return Err(ApiError::unavailable("another replay is under way"));
    };
    let stop = Arc::new(AtomicBool::new(false));
    let _stopper = StopOnDrop(Arc::clone(&stop));
    let config = project.setup.config();
    let context = query.context.or(config.is_context_named.then_some(config.context));
    let request = ReplayRequest { policies, context, stop: Some(stop), ..ReplayRequest::default() };
    let replayed = blocking(move || {
        // Moved here, because the replay may continue for a moment after its request has ended, and only one may run.
        let _permit = permit;
        let source = InputSource::File(project.database.opened.path.clone(), Some(session.id.to_string()));
        let spec = InputSpec { source, strict: false, flags: Flags::default() };
        let (replays, mut failed) = project.host.replay(vec![spec], &request)?;
        match failed.pop() {
            Some(error) => Err(error.into()),
            None => to_json(&replays),
        }
    });
    tokio::select! {
        replayed = replayed => replayed,
        () = tokio::time::sleep(MAX_TIME) => Err(ApiError::unavailable("the replay took too long")),
        () = app.stop.cancelled() => Err(ApiError::unavailable("the server is stopping")),
    }
}
