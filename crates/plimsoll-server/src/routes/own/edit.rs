//! Reductions, undo and pins.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;
use plimsoll::prune::PruneChoice;
use plimsoll::{Plan, Receipt, ReceiptId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::Foreign;
use super::handle::Editor;
use super::table::{Described as _, OwnRoute};
use super::to_json;
use crate::app::App;
use crate::app::project::Project;
use crate::app::runner::Choice;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::extract::Path;
use crate::scope::Scope;

pub(super) const ROUTES: &[OwnRoute] = &[
    OwnRoute::post("/plimsoll/session/{id}/prune", "Clears old tool outputs from the window.", |filter| {
        on(filter, prune)
    })
    .optional_body(PruneRequest::schema)
    .answer(Option::<Foreign<Receipt>>::schema),
    OwnRoute::post("/plimsoll/session/{id}/compact", "Replaces older messages by a summary.", |filter| {
        on(filter, compact)
    })
    .optional_body(CompactRequest::schema)
    .answer(Compacted::schema),
    OwnRoute::post("/plimsoll/session/{id}/undo", "Undoes a reduction.", |filter| on(filter, undo))
        .body(UndoRequest::schema)
        .answer(Foreign::<Receipt>::schema),
    OwnRoute::post("/plimsoll/session/{id}/pins", "Pins a message, a part or a phrase.", |filter| {
        on(filter, pin)
    })
    .body(PinRequest::schema)
    .answer(Foreign::<Receipt>::schema),
    OwnRoute::delete(
        "/plimsoll/session/{id}/pins/{receipt}",
        "Removes the pin with this receipt.",
        |filter| on(filter, unpin),
    )
    .answer(Foreign::<Receipt>::schema),
];

/// Selects the outputs to clear. If empty, the policy selects them.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct PruneRequest {
    /// Only outputs of these tools.
    tools: Vec<String>,
    /// Only outputs of calls that name or show one of these files.
    files: Vec<String>,
    /// Only outputs whose content a later output in the window repeats.
    repeated: bool,
    /// Number of newest matching outputs to keep.
    keep: Option<u64>,
    /// Clear the oldest outputs until the window is at most this full, in percent.
    to: Option<u8>,
}

impl PruneRequest {
    /// Returns the selection; `None` if the policy selects.
    pub(super) fn choice(self) -> Option<PruneChoice> {
        let PruneRequest { tools, files, repeated, keep, to } = self;
        Some(PruneChoice { tools, files, repeated, keep, to }).filter(|choice| !choice.is_empty())
    }
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct CompactRequest {
    /// Topic that the summary should focus on.
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
    /// Id of a message or part, or a phrase from the conversation.
    what: String,
}

async fn prune(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<PruneRequest>,
) -> ApiResult<Json<Value>> {
    let editor = Editor::open(&app, &project, &SessionId::new(id)).await?;
    let pruned = editor.prune(request.choice(), "requested over HTTP").await;
    editor.finish(&project).await?;
    let receipt = pruned?.receipt();
    receipt.iter().for_each(plimsoll_agent::metrics::reduced);
    to_json(&receipt)
}

/// Result of a compaction.
#[derive(Serialize, JsonSchema)]
struct Compacted {
    /// Whether the window got smaller.
    reduced: bool,
}

async fn compact(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(CompactRequest { focus }): JsonBody<CompactRequest>,
) -> ApiResult<Json<Compacted>> {
    let id = SessionId::new(id);
    project.session(&id).await?;
    let reduced = compact_now(&app, &project, &id, focus.as_deref()).await?;
    Ok(Json(Compacted { reduced }))
}

/// Compacts a session with its model, or without a model if none is configured. Returns whether anything was reduced.
pub(super) async fn compact_now(
    app: &Arc<App>,
    project: &Arc<Project>,
    session: &SessionId,
    focus: Option<&str>,
) -> ApiResult<bool> {
    let focus = focus.filter(|focus| !focus.trim().is_empty());
    let runner = app.runners.get(project, session);
    match runner.compact(app, Choice::default(), focus).await {
        // No model is configured. The engine then extracts a summary, because each attempt to ask a model fails.
        Err(error) if error.status == StatusCode::BAD_REQUEST => {
            let opened = &project.database.opened;
            let mut open = project.setup.open_for_reductions(opened, session).await?;
            let done = open.compact(focus, async |_| Err("no model is configured".to_owned())).await;
            open.close().await?;
            project.database.changed.notify_one();
            Ok(!done?.reduction.receipts.is_empty())
        }
        done => done,
    }
}

async fn undo(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(UndoRequest { receipt }): JsonBody<UndoRequest>,
) -> ApiResult<Json<Value>> {
    let id = SessionId::new(id);
    let receipt = receipt_of(&project, &id, receipt).await?;
    undo_receipt(&app, &project, &id, &receipt.id).await
}

/// Finds a receipt of a session. A receipt of another session is reported as missing.
async fn receipt_of(project: &Project, session: &SessionId, receipt: String) -> ApiResult<Receipt> {
    let (wanted, of) = (ReceiptId::new(receipt), session.clone());
    project
        .read_session(session, move |opened, _| match opened.archive.store().receipt(&wanted)? {
            (session, receipt) if session == of => Ok(receipt),
            _ => Err(ApiError::not_found(format!("Receipt not found: {wanted}"))),
        })
        .await
}

async fn undo_receipt(
    app: &Arc<App>,
    project: &Arc<Project>,
    session: &SessionId,
    receipt: &ReceiptId,
) -> ApiResult<Json<Value>> {
    let editor = Editor::open(app, project, session).await?;
    let undone = editor.undo(receipt).await;
    editor.finish(project).await?;
    to_json(&undone?)
}

async fn pin(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(PinRequest { what }): JsonBody<PinRequest>,
) -> ApiResult<Json<Value>> {
    let editor = Editor::open(&app, &project, &SessionId::new(id)).await?;
    let pinned = async {
        let target = editor.find_pin(&what).await?;
        editor.pin(target).await
    };
    let pinned = pinned.await;
    editor.finish(&project).await?;
    to_json(&pinned?)
}

async fn unpin(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path((id, receipt)): Path<(String, String)>,
) -> ApiResult<Json<Value>> {
    let id = SessionId::new(id);
    let receipt = receipt_of(&project, &id, receipt).await?;
    if !matches!(receipt.plan, Plan::Pin(_)) {
        return Err(ApiError::not_found(format!("`{}` is not the receipt of a pin", receipt.id)));
    }
    undo_receipt(&app, &project, &id, &receipt.id).await
}
