//! Plans: shown first, then applied exactly as shown.
//!
//! The id of a plan is a hash of its effects and of the session's revision. Plans are not stored: applying one makes it again,
//! and if its id differs, the session has changed since the plan was shown, and the request fails.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::routing::on;
use plimsoll::plan::CompactPlan;
use plimsoll::prune::PrunePlan;
use plimsoll::{Plan, Receipt, SessionId, Tokens};
use plimsoll_host::{PlanContents, WindowSizes};
use plimsoll_session::{PlannedPrune, Pruned, SessionHandle};
use plimsoll_store::Revision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::Foreign;
use super::edit::{PruneRequest, compact_now};
use super::handle::{Editor, reader};
use super::table::{Described as _, OwnRoute};
use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::extract::Path;
use crate::scope::Scope;

pub(super) const ROUTES: &[OwnRoute] = &[
    OwnRoute::get("/plimsoll/session/{id}/plan", "Plan of the next reduction. Changes nothing.", |filter| {
        on(filter, plan)
    })
    .answer(NextPlans::schema),
    OwnRoute::post(
        "/plimsoll/session/{id}/plan",
        "Plan of clearing selected outputs. Changes nothing.",
        |filter| on(filter, plan_choice),
    )
    .optional_body(PruneRequest::schema)
    .answer(ShownPlan::schema),
    OwnRoute::post(
        "/plimsoll/session/{id}/apply",
        "Applies exactly the plan that was shown. Returns 409 if the session has changed since.",
        |filter| on(filter, apply),
    )
    .body(ApplyRequest::schema)
    .answer(Applied::schema),
];

/// A plan, with the figures that a user needs to decide about it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ShownPlan {
    /// Id for `apply`.
    id: String,
    /// `prune` or `compact`.
    kind: String,
    /// Description of the plan.
    text: String,
    /// Whether there is nothing to reduce.
    is_empty: bool,
    /// Tokens of the next request before the reduction.
    before: u64,
    /// Tokens of the next request after the reduction. For a compaction, with the longest possible summary.
    after: u64,
    /// The outputs that would be cleared.
    items: Vec<PlanItem>,
    /// Number of messages that a summary would replace.
    messages: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct PlanItem {
    /// Handle for recall.
    handle: String,
    /// Number of its turn.
    turn: u32,
    /// The tool.
    kind: String,
    /// The command, the path, or the first words.
    about: String,
    /// Number of tokens freed.
    tokens: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ApplyRequest {
    /// Id of the plan.
    id: String,
    /// The selection that the plan was made for, if any.
    choice: Option<PruneRequest>,
    /// Topic that a summary should focus on.
    focus: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Applied {
    /// Receipts of the reductions; empty if the window would not become smaller.
    receipts: Vec<Foreign<Receipt>>,
}

/// The next reductions.
#[derive(Serialize, JsonSchema)]
struct NextPlans {
    /// The outputs that would be cleared.
    prune: Foreign<PrunePlan>,
    /// Size of the next request before and after that.
    pruned: Sizes,
    /// The messages that a summary would replace, if there are enough.
    compaction: Option<Foreign<CompactPlan>>,
    /// Size of the next request before and after that, with the longest summary.
    compacted: Option<Sizes>,
    /// The plans that `apply` accepts.
    plans: Vec<ShownPlan>,
}

/// Tokens of the next request.
#[derive(Serialize, JsonSchema)]
struct Sizes {
    before: u64,
    after: u64,
}

async fn plan(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
) -> ApiResult<Json<NextPlans>> {
    let handle = reader(&app, &project, &SessionId::new(id)).await?;
    let next = handle.plan().await?;
    let sizes = |(before, after): (Tokens, Tokens)| Sizes { before: before.0, after: after.0 };
    let planned = (&next.prune, next.pruned, next.revision);
    let prune = shown_prune(planned, &next.messages, &project.name);
    let compaction = next.compaction.as_ref().zip(next.compacted);
    let compaction = compaction.map(|(plan, sizes)| shown_compaction(plan, sizes, next.revision));
    let plans: Vec<ShownPlan> = [Some(prune), compaction].into_iter().flatten().collect();
    Ok(Json(NextPlans {
        prune: Foreign(next.prune),
        pruned: sizes(next.pruned),
        compaction: next.compaction.map(Foreign),
        compacted: next.compacted.map(sizes),
        plans,
    }))
}

async fn plan_choice(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<PruneRequest>,
) -> ApiResult<Json<ShownPlan>> {
    let handle = reader(&app, &project, &SessionId::new(id)).await?;
    let planned = handle.preview_prune(request.choice()).await?;
    let messages = handle.with_log(|log| log.messages().to_vec()).await?;
    Ok(Json(shown_prune((&planned.plan, planned.sizes, planned.revision), &messages, &project.name)))
}

async fn apply(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<ApplyRequest>,
) -> ApiResult<Json<Applied>> {
    let session = SessionId::new(id);
    project.session(&session).await?;
    let changed =
        || ApiError::conflict("the session has changed since the plan was shown; request a new plan");
    if request.id.starts_with("compact_") {
        let handle = reader(&app, &project, &session).await?;
        if compaction_id(&handle).await? != Some(request.id) {
            return Err(changed());
        }
        let before = newest_receipts(&handle).await?.len();
        compact_now(&app, &project, &session, request.focus.as_deref()).await?;
        let receipts = newest_receipts(&reader(&app, &project, &session).await?).await?;
        return applied(receipts.into_iter().skip(before));
    }
    let editor = Editor::open(&app, &project, &session).await?;
    let choice = request.choice.and_then(PruneRequest::choice);
    let is_shown = move |planned: &PlannedPrune| prune_id(planned) == request.id;
    let done = editor.prune_if(choice, "applied as shown", is_shown).await;
    editor.finish(&project).await?;
    match done?.ok_or_else(changed)? {
        Pruned::Done(receipt) => {
            plimsoll_agent::metrics::reduced(&receipt);
            applied(std::iter::once(*receipt))
        }
        Pruned::Nothing(_) | Pruned::NotSmaller => applied(std::iter::empty()),
    }
}

fn applied(receipts: impl Iterator<Item = Receipt>) -> ApiResult<Json<Applied>> {
    Ok(Json(Applied { receipts: receipts.map(Foreign).collect() }))
}

async fn newest_receipts(handle: &SessionHandle) -> ApiResult<Vec<Receipt>> {
    Ok(handle.receipts().await?)
}

fn shown_prune(
    (plan, (before, after), revision): (&PrunePlan, (Tokens, Tokens), Revision),
    messages: &[plimsoll::Message],
    directory: &str,
) -> ShownPlan {
    let id = id_of("prune", revision, plan.items.iter().map(|item| (item.part.as_str(), item.what as u8)));
    let whole = Plan::Prune(plan.clone());
    let contents = PlanContents::of(messages, Some(directory), [&whole]);
    // Scaled to tokens of the window, so that the items add up to the difference of the two sizes.
    let sizes = WindowSizes::driven(&whole, (before, after));
    let freed = sizes.shares(plan.items.iter().map(|item| item.tokens));
    let items = plan.items.iter().zip(whole.handles()).zip(freed).map(|((item, handle), freed)| {
        let subject = contents.part(&item.part);
        let (handle, turn, about) = (handle.to_string(), subject.turn, subject.about);
        PlanItem { handle, turn, kind: item.tool.clone(), about, tokens: freed.0 }
    });
    ShownPlan {
        id,
        kind: "prune".to_owned(),
        text: plan.explain(),
        is_empty: plan.items.is_empty(),
        before: before.0,
        after: after.0,
        items: items.collect(),
        messages: None,
    }
}

fn shown_compaction(plan: &CompactPlan, (before, after): (Tokens, Tokens), revision: Revision) -> ShownPlan {
    ShownPlan {
        id: id_of_compaction(plan, revision),
        kind: "compact".to_owned(),
        text: Plan::Compact(plan.clone()).title(),
        is_empty: false,
        before: before.0,
        after: after.0,
        items: Vec::new(),
        messages: Some(plan.messages),
    }
}

fn prune_id(planned: &PlannedPrune) -> String {
    let items = planned.plan.items.iter().map(|item| (item.part.as_str(), item.what as u8));
    id_of("prune", planned.revision, items)
}

async fn compaction_id(handle: &SessionHandle) -> ApiResult<Option<String>> {
    let next = handle.plan().await?;
    Ok(next.compaction.map(|plan| id_of_compaction(&plan, next.revision)))
}

fn id_of_compaction(plan: &CompactPlan, revision: Revision) -> String {
    let ends = [&plan.first, &plan.last].into_iter().chain(&plan.tail_start);
    id_of("compact", revision, ends.map(|id| (id.as_str(), 0)))
}

fn id_of<'a>(kind: &str, revision: Revision, pieces: impl Iterator<Item = (&'a str, u8)>) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&revision.0.to_le_bytes());
    for (piece, what) in pieces {
        hasher.update(&(piece.len() as u64).to_le_bytes());
        hasher.update(piece.as_bytes());
        hasher.update(&[what]);
    }
    format!("{kind}_{}", &hasher.finalize().to_hex().as_str()[..32])
}
