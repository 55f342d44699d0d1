//! Changes to and removals of parts of messages.
//!
//! The log is append-only, so these are marks with receipts: the model and the clients see the new text, recall finds the
//! original, and undoing the receipt restores it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use plimsoll::{Message, MessageId, Part, PartBody, PartId, SessionId};
use plimsoll_session::{Edit, EditError, SessionError};
use serde::Deserialize;
use serde_json::Value;

use crate::app::App;
use crate::app::project::Project;
use crate::app::shape::Scene;
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::extract::Path;
use crate::scope::Scope;

/// A part as changed by a client.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartPatch {
    id: Option<String>,
    #[serde(rename = "sessionID")]
    session: Option<String>,
    #[serde(rename = "messageID")]
    message: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    synthetic: Option<bool>,
    ignored: Option<bool>,
}

/// Changes the text of a part.
pub(super) async fn update_part(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path((id, message, part)): Path<(String, String, String)>,
    JsonBody(patch): JsonBody<PartPatch>,
) -> ApiResult<Json<Value>> {
    let named = [(&patch.id, &part), (&patch.session, &id), (&patch.message, &message)];
    if named.into_iter().any(|(given, wanted)| given.as_ref().is_some_and(|given| given != wanted)) {
        return Err(ApiError::bad_request("Payload", "the ids of the part differ from those of the path"));
    }
    let (id, message, part) = (project.session_id(&id).await?, MessageId::new(message), PartId::new(part));
    let (_, known) = find(&project, &id, &message, &part).await?;
    let PartBody::Text(said) = &known.body else {
        return Err(ApiError::not_implemented("only the text of parts of type `text` can be changed"));
    };
    if patch.kind != "text" {
        return Err(ApiError::not_implemented("the type of a part cannot be changed"));
    }
    let keeps_flag = |given: Option<bool>, known: Option<bool>| {
        given.is_none_or(|given| given == known.unwrap_or_default())
    };
    if !keeps_flag(patch.synthetic, said.synthetic) || !keeps_flag(patch.ignored, said.ignored) {
        return Err(ApiError::not_implemented("`synthetic` and `ignored` cannot be changed"));
    }
    let text = patch.text.ok_or_else(|| ApiError::bad_request("Payload", "missing field `text`"))?;
    let edit = Edit::Text(part.clone(), text.into());
    apply(&app, &project, &id, &message, edit).await?;
    let (message, part) = find(&project, &id, &message, &part).await?;
    let shown = Scene::of_project(&project).part(&id, &message.info, &part);
    Ok(Json(shown.ok_or_else(|| missing(&part.id))?))
}

/// Removes a part. Of a tool call, the call and its result are removed.
pub(super) async fn remove_part(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path((id, message, part)): Path<(String, String, String)>,
) -> ApiResult<Json<bool>> {
    let (id, message, part) = (project.session_id(&id).await?, MessageId::new(message), PartId::new(part));
    find(&project, &id, &message, &part).await?;
    apply(&app, &project, &id, &message, Edit::RemovePart(part)).await?;
    Ok(Json(true))
}

/// Removes all parts of a message.
pub(super) async fn remove_message(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path((id, message)): Path<(String, String)>,
) -> ApiResult<Json<bool>> {
    let (id, message) = (project.session_id(&id).await?, MessageId::new(message));
    super::message::find(&project, &id, &message).await?;
    apply(&app, &project, &id, &message, Edit::RemoveMessage(message.clone())).await?;
    Ok(Json(true))
}

/// Applies an edit. An edit that changes nothing succeeds without a receipt.
async fn apply(
    app: &Arc<App>,
    project: &Arc<Project>,
    session: &SessionId,
    message: &MessageId,
    edit: Edit,
) -> ApiResult<()> {
    let handle = app.runners.handle(app, project, session).await?;
    let done = handle.edit(message, edit).await;
    project.database.changed.notify_one();
    match done {
        Ok(_) | Err(SessionError::Edit(EditError::Unchanged(_))) => Ok(()),
        Err(SessionError::Edit(EditError::Open(_))) => {
            Err(ApiError::busy(session, "the message is still being written"))
        }
        Err(error) => Err(error.into()),
    }
}

fn missing(part: &PartId) -> ApiError {
    ApiError::not_found(format!("Part not found: {part}"))
}

/// Finds a part that was not removed, and its message.
async fn find(
    project: &Project,
    session: &SessionId,
    message: &MessageId,
    part: &PartId,
) -> ApiResult<(Message, Part)> {
    let found = super::message::find(project, session, message).await?;
    let known = found.parts.iter().find(|known| known.id == *part && !known.is_removed()).cloned();
    Ok((found, known.ok_or_else(|| missing(part))?))
}
