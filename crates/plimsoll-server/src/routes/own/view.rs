//! Views of one session: its window, its history, and content that left the window.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::routing::on;
use plimsoll::recall::RecallQuery;
use plimsoll::{Receipt, SessionId};
use plimsoll_host::{PinnedText, SessionNode, TurnSize, undone_by};
use plimsoll_session::{SessionLoad, Share, WindowReport};
use plimsoll_store::Session;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::{Foreign, foreign};
use super::handle::reader;
use super::table::{Described as _, OwnRoute};
use super::to_json;
use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::extract::Path;
use crate::scope::Scope;

pub(super) const ROUTES: &[OwnRoute] = &[
    OwnRoute::get(
        "/plimsoll/session/{id}",
        "Session with figures, cost and state of the prompt cache.",
        |filter| on(filter, overview),
    )
    .answer(Overview::schema),
    OwnRoute::get(
        "/plimsoll/session/{id}/window",
        "Contents of the window by kind, tool, file and turn.",
        |filter| on(filter, window),
    )
    .answer(ShownWindow::schema),
    OwnRoute::get(
        "/plimsoll/session/{id}/load",
        "Size of the next request, and the line that it must stay under.",
        |filter| on(filter, load),
    )
    .answer(Foreign::<SessionLoad>::schema),
    OwnRoute::get("/plimsoll/session/{id}/history", "Sizes of log and window after each turn.", |filter| {
        on(filter, history)
    })
    .answer(History::schema),
    OwnRoute::get(
        "/plimsoll/session/{id}/contents",
        "Content that was pruned, compacted or spilled, and pins.",
        |filter| on(filter, contents),
    )
    .answer(Foreign::<Value>::schema),
    OwnRoute::get("/plimsoll/session/{id}/receipts", "Receipts of all reductions, oldest first.", |filter| {
        on(filter, receipts)
    })
    .answer(Vec::<ShownReceipt>::schema),
    OwnRoute::get(
        "/plimsoll/session/{id}/pins",
        "Pinned text, which stays in the window verbatim.",
        |filter| on(filter, pins),
    )
    .answer(Pins::schema),
    OwnRoute::post(
        "/plimsoll/session/{id}/recall",
        "Returns or searches content that left the window.",
        |filter| on(filter, recall),
    )
    .body(RecallRequest::schema)
    .answer(RecallAnswer::schema),
];

/// Maximum number of leases searched for that of a session.
const MAX_LEASES: u64 = 1_000;

/// A handle of content, a pattern to search for, or both.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RecallRequest {
    /// Handle of the content. If not set, all content that left the window is searched.
    handle: Option<String>,
    /// First line, counted from 1.
    from: Option<u64>,
    /// Last line.
    to: Option<u64>,
    /// Number of characters to skip at the beginning of the first line.
    offset: Option<u64>,
    /// Only lines that match this regular expression.
    search: Option<String>,
    /// Maximum number of lines or matches.
    limit: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct RecallAnswer {
    /// The content, or matches with their handles.
    text: String,
    /// Request for the rest, if there is more.
    next: Option<Value>,
}

/// A session with its figures.
#[derive(Serialize, JsonSchema)]
struct Overview {
    /// The stored session.
    session: Foreign<Session>,
    /// Figures of the session, as in `/plimsoll/sessions`.
    figures: Foreign<SessionNode>,
    /// The prompt cache of the provider.
    cache: Value,
    /// Who runs the session.
    state: SessionState,
    /// The server's time, in milliseconds.
    now: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SessionState {
    /// Running in this server.
    Running,
    /// Open in this server.
    Open,
    /// Another process has it.
    Elsewhere,
    /// Nothing has it.
    Idle,
}

async fn overview(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<Overview>> {
    let id = SessionId::new(id);
    let (setup, host, tree) = (Arc::clone(&project.setup), project.host.clone(), Arc::clone(&project.tree));
    let read = project.read_session(&id, move |opened, session| {
        let config = setup.config();
        let node = tree.one(&host, opened, config, &session)?;
        let leases = opened.archive.store().leases(None, MAX_LEASES)?;
        let lease = leases.into_iter().find(|lease| lease.session == session.id);
        Ok((node, opened.cache_state(&session, config)?, lease, session))
    });
    let (node, cache, lease, session) = read.await?;
    let now = app.now();
    let state = match lease.filter(|lease| lease.until > now) {
        _ if app.runners.is_busy(&id) => SessionState::Running,
        Some(_) if app.runners.open_handle(&id).is_some() => SessionState::Open,
        Some(_) => SessionState::Elsewhere,
        None => SessionState::Idle,
    };
    let Json(cache) = to_json(&cache)?;
    Ok(Json(Overview { session: Foreign(session), figures: Foreign(node), cache, state, now: now.0 }))
}

/// A report with derived figures.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShownWindow {
    #[serde(flatten)]
    report: Foreign<WindowReport>,
    /// The whole window by kind: `byKind`, and content that the session does not record.
    kinds: Vec<Foreign<Share>>,
    /// Fullness of the window in percent of the line.
    percent: Option<u64>,
    /// Tokens that are left below the line.
    left: Option<u64>,
    /// Tokens of pinned text.
    pinned: u64,
    /// Whether the window begins with a summary.
    has_summary: bool,
}

pub(super) fn shown(report: WindowReport) -> ShownWindow {
    ShownWindow {
        kinds: foreign(report.kinds()),
        percent: report.percent(),
        left: report.left().map(|left| left.0),
        pinned: report.pinned.0,
        has_summary: report.has_summary,
        report: Foreign(report),
    }
}

async fn window(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<ShownWindow>> {
    let handle = reader(&app, &project, &SessionId::new(id)).await?;
    Ok(Json(shown(handle.inspect().await?)))
}

async fn load(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<Foreign<SessionLoad>>> {
    let handle = reader(&app, &project, &SessionId::new(id)).await?;
    Ok(Json(Foreign(handle.load().await?)))
}

/// Sizes after each turn.
#[derive(Serialize, JsonSchema)]
struct History {
    /// The turns, oldest first.
    turns: Vec<Foreign<TurnSize>>,
}

async fn history(Scope(project): Scope, Path(id): Path<String>) -> ApiResult<Json<History>> {
    let (id, setup) = (SessionId::new(id), Arc::clone(&project.setup));
    let history =
        project.read_session(&id, move |opened, session| Ok(opened.history(&session, setup.config())?));
    Ok(Json(History { turns: foreign(history.await?) }))
}

async fn contents(Scope(project): Scope, Path(id): Path<String>) -> ApiResult<Json<Value>> {
    let (id, setup) = (SessionId::new(id), Arc::clone(&project.setup));
    let contents = project
        .read_session(&id, move |opened, session| Ok(opened.reduced_content(&session, setup.config())?));
    to_json(&contents.await?)
}

/// A receipt with derived fields for lists.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ShownReceipt {
    #[serde(flatten)]
    receipt: Foreign<Receipt>,
    /// Description of the reduction.
    title: String,
    /// Whether it can be undone.
    can_undo: bool,
    /// The receipt of its undo.
    undone_by: Option<String>,
}

async fn receipts(Scope(project): Scope, Path(id): Path<String>) -> ApiResult<Json<Vec<ShownReceipt>>> {
    let id = SessionId::new(id);
    let receipts = project.read_session(&id, |opened, session| Ok(opened.receipts(&session.id)?)).await?;
    let shown = receipts.iter().map(|receipt| {
        let undone_by = undone_by(receipt, &receipts).map(ToString::to_string);
        let can_undo = receipt.can_undo() && undone_by.is_none();
        let title = receipt.plan.title();
        ShownReceipt { receipt: Foreign(receipt.clone()), title, can_undo, undone_by }
    });
    Ok(Json(shown.collect()))
}

async fn recall(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<RecallRequest>,
) -> ApiResult<Json<RecallAnswer>> {
    let RecallRequest { handle, from, to, offset, search, limit } = request;
    let query = RecallQuery { handle, from, to, offset, search, limit };
    let handle = reader(&app, &project, &SessionId::new(id)).await?;
    let answer = handle.recall(query).await?;
    if answer.is_error {
        return Err(ApiError::bad_request("Payload", answer.text));
    }
    let next = serde_json::to_value(&answer.next).ok().filter(|next| !next.is_null());
    Ok(Json(RecallAnswer { text: answer.text, next }))
}

/// Pinned text.
#[derive(Serialize, JsonSchema)]
struct Pins {
    /// The pins, oldest first.
    pins: Vec<Foreign<PinnedText>>,
    /// Maximum tokens of all pins.
    budget: u64,
}

async fn pins(Scope(project): Scope, Path(id): Path<String>) -> ApiResult<Json<Pins>> {
    let (id, setup) = (SessionId::new(id), Arc::clone(&project.setup));
    let pins = project.read_session(&id, move |opened, session| Ok(opened.pins(&session, setup.config())?));
    let (pins, budget) = pins.await?;
    Ok(Json(Pins { pins: foreign(pins), budget: budget.0 }))
}
