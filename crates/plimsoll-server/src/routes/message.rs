//! Messages and parts.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LINK};
use axum::http::{HeaderMap, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plimsoll::{Message, MessageId, SessionId};
use plimsoll_agent::PROMPT_NOTE;
use plimsoll_host::OpenStore;
use plimsoll_store::{PageRequest, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::app::project::Project;
use crate::app::shape::{Scene, is_removed};
use crate::error::{ApiError, ApiResult};
use crate::extract::{Path, Query};
use crate::scope::Scope;

const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// Number of messages per read from the store.
const PAGE: u64 = 500;

#[derive(Deserialize)]
pub(super) struct Wanted {
    limit: Option<u64>,
    before: Option<String>,
}

/// Position where a page of messages ends.
#[derive(Deserialize)]
struct Cursor {
    id: String,
}

/// Lists messages, oldest first: all, or the newest `limit` of those before a cursor.
pub(super) async fn list(
    State(_): State<Arc<App>>,
    Scope(project): Scope,
    uri: Uri,
    Path(id): Path<String>,
    Query(wanted): Query<Wanted>,
) -> ApiResult<(HeaderMap, Vec<u8>)> {
    let limit = wanted.limit.filter(|limit| *limit > 0);
    if wanted.before.is_some() && limit.is_none() {
        return Err(ApiError::bad_request("Query", "`before` needs a `limit`"));
    }
    let before = wanted.before.as_deref().map(read_cursor).transpose()?;
    let scene = Scene::of_project(&project);
    let (messages, next) = project
        .read_session(&project.session_id(&id).await?, move |opened, session| {
            // Read first: a prompt that a run takes in meanwhile is then in the log, and not in neither.
            let waiting = if before.is_none() { waiting(opened, &session.id)? } else { Vec::new() };
            let (mut messages, next) = newest(opened, &session.id, before, limit)?;
            for prompt in waiting {
                if messages.iter().all(|known| known.info.id != prompt.info.id) {
                    messages.push(prompt);
                }
            }
            let shown = scene.list(&session.id, &messages);
            Ok((shown.map_err(|error| ApiError::internal(error.to_string()))?, next))
        })
        .await?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(cursor) = next {
        add_cursor(&mut headers, &uri, &cursor);
    }
    Ok((headers, messages))
}

/// Reads the newest messages before one. Returns them oldest first, and the cursor of the page before them.
fn newest(
    opened: &OpenStore,
    session: &SessionId,
    before: Option<MessageId>,
    limit: Option<u64>,
) -> ApiResult<(Vec<Message>, Option<String>)> {
    let (mut messages, mut from) = (Vec::new(), before);
    loop {
        let left = limit.map_or(PAGE, |limit| (limit - messages.len() as u64).min(PAGE));
        let request = PageRequest { from: from.clone(), oldest_first: false, most: left };
        let page = opened.archive.store().page(session, &request)?;
        messages.extend(page.messages.into_iter().filter(|message| !is_removed(message)));
        let is_full = limit.is_some_and(|limit| messages.len() as u64 >= limit);
        match page.next {
            Some(next) if !is_full => from = Some(next),
            next => {
                let oldest = messages.last().filter(|_| next.is_some());
                let cursor = oldest.map(write_cursor);
                messages.reverse();
                return Ok((messages, cursor));
            }
        }
    }
}

/// Returns accepted prompts that the run has not added to the log yet.
fn waiting(opened: &OpenStore, session: &SessionId) -> ApiResult<Vec<Message>> {
    let notes = opened.archive.store().notes(session, 0)?;
    let prompts = notes.into_iter().filter(|note| note.kind == PROMPT_NOTE);
    Ok(prompts.filter_map(|note| serde_json::from_value(note.data).ok()).collect())
}

fn write_cursor(message: &Message) -> String {
    let time = message.info.time.as_ref().and_then(|time| time.created).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(json!({ "id": message.info.id, "time": time }).to_string())
}

fn read_cursor(text: &str) -> ApiResult<MessageId> {
    let read = || serde_json::from_slice::<Cursor>(&URL_SAFE_NO_PAD.decode(text).ok()?).ok();
    let cursor = read().ok_or_else(|| ApiError::bad_request("Query", "`before` is not a cursor"))?;
    Ok(MessageId::new(cursor.id))
}

fn add_cursor(headers: &mut HeaderMap, uri: &Uri, cursor: &str) {
    let kept = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.starts_with("before="));
    let query: Vec<&str> = kept.filter(|pair| !pair.is_empty()).collect();
    let link = format!("<{}?{}&before={cursor}>; rel=\"next\"", uri.path(), query.join("&"));
    if let (Ok(link), Ok(cursor)) = (HeaderValue::from_str(&link), HeaderValue::from_str(cursor)) {
        headers.insert(LINK, link);
        headers.insert(NEXT_CURSOR, cursor);
    }
}

pub(super) async fn get(
    State(_): State<Arc<App>>,
    Scope(project): Scope,
    Path((id, message)): Path<(String, String)>,
) -> ApiResult<Json<Value>> {
    let id = project.session_id(&id).await?;
    let found = find(&project, &id, &MessageId::new(message)).await?;
    Ok(Json(Scene::of_project(&project).message(&id, &found)))
}

/// Finds a message that was not removed.
pub(super) async fn find(project: &Project, session: &SessionId, id: &MessageId) -> ApiResult<Message> {
    let id = id.clone();
    let found = project.read_session(session, move |opened, session| {
        let missing = || ApiError::not_found(format!("Message not found: {id}"));
        match opened.archive.store().message(&session.id, &id) {
            Ok(message) if is_removed(&message) => Err(missing()),
            Err(StoreError::Missing { .. }) => Err(missing()),
            found => Ok(found?),
        }
    });
    found.await
}
