//! Prompts.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use plimsoll::log::{FilePart, TextPart};
use plimsoll::{Info, Message, MessageId, Part, PartBody, PartId, Role};
use plimsoll_config::read_resolved;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::project::Project;
use crate::app::runner::{Accepted, Choice};
use crate::app::shape::Scene;
use crate::app::{App, blocking};
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::extract::Path;
use crate::scope::Scope;

/// Maximum number of bytes of an attached text file that are added to the prompt. The model can read the rest with `read`.
const MAX_FILE_BYTES: u64 = 50 * 1_024;

/// Characters of a path that mean something else in a URL.
const NOT_IN_PATHS: &AsciiSet =
    &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#').add(b'"').add(b'<').add(b'>');

#[derive(Deserialize)]
struct ModelName {
    #[serde(rename = "providerID")]
    provider: String,
    #[serde(rename = "modelID")]
    model: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prompt {
    #[serde(rename = "messageID")]
    message: Option<String>,
    model: Option<ModelName>,
    agent: Option<String>,
    #[serde(default)]
    no_reply: bool,
    #[serde(default)]
    tools: BTreeMap<String, bool>,
    format: Option<Value>,
    system: Option<String>,
    parts: Vec<PromptPart>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum PromptPart {
    Text { id: Option<String>, text: String, synthetic: Option<bool>, ignored: Option<bool> },
    File { id: Option<String>, mime: String, filename: Option<String>, url: String },
    Agent { name: String },
    Subtask {},
}

impl PromptPart {
    pub(super) fn text(text: String) -> PromptPart {
        PromptPart::Text { id: None, text, synthetic: None, ignored: None }
    }

    /// A text file of the project.
    pub(super) fn file(path: &FilePath) -> PromptPart {
        let path = utf8_percent_encode(&path.to_string_lossy(), NOT_IN_PATHS).to_string();
        PromptPart::File {
            id: None,
            mime: "text/plain".to_owned(),
            filename: None,
            url: format!("file://{path}"),
        }
    }
}

impl Prompt {
    /// A prompt that is answered. The model is named as `provider/model`.
    pub(super) fn of_parts(
        parts: Vec<PromptPart>,
        message: Option<String>,
        agent: Option<String>,
        model: Option<String>,
    ) -> ApiResult<Prompt> {
        let named = |model: String| match model.split_once('/') {
            Some((provider, model)) => {
                Ok(ModelName { provider: provider.to_owned(), model: model.to_owned() })
            }
            None => Err(ApiError::bad_request("Payload", format!("`{model}` is not `provider/model`"))),
        };
        let (model, tools) = (model.map(named).transpose()?, BTreeMap::new());
        Ok(Prompt { message, model, agent, no_reply: false, tools, format: None, system: None, parts })
    }
}

/// Stores a prompt, and returns the message that ends the run. With `noReply`, returns the stored prompt at once.
pub(super) async fn prompt(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<Prompt>,
) -> ApiResult<Json<Value>> {
    let id = project.session_id(&id).await?;
    Ok(Json(answered(&app, &project, &id, request).await?))
}

/// Stores a prompt, and waits for its answer if it wants one.
pub(super) async fn answered(
    app: &Arc<App>,
    project: &Arc<Project>,
    id: &plimsoll::SessionId,
    request: Prompt,
) -> ApiResult<Value> {
    let accepted = accept(app, project, id, request).await?;
    match accepted.answer {
        None => Ok(Scene::of_project(project).message(id, &accepted.message)),
        Some(answer) => answer.await.map_err(|_| ApiError::unavailable("the server is stopping"))?,
    }
}

/// Stores a prompt, and returns at once. Errors of the run are reported as `session.error`.
pub(super) async fn prompt_async(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<Prompt>,
) -> ApiResult<StatusCode> {
    accept(&app, &project, &project.session_id(&id).await?, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn accept(
    app: &Arc<App>,
    project: &Arc<Project>,
    id: &plimsoll::SessionId,
    request: Prompt,
) -> ApiResult<Accepted> {
    project.session(id).await?;
    let Prompt { message, model, agent, no_reply, tools, format, system, parts } = request;
    let is_structured = format
        .is_some_and(|format| format.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "text"));
    if is_structured {
        return Err(ApiError::not_implemented("structured output is not supported"));
    }
    if parts.is_empty() {
        return Err(ApiError::bad_request("Payload", "a prompt needs at least one part"));
    }
    let (now, new_id) = app.with_ids(|ids, now| (now, ids.message(now)));
    let message_id = match message {
        Some(given) if given.starts_with("msg") => MessageId::new(given),
        Some(given) => {
            return Err(ApiError::bad_request("Payload", format!("`{given}` is not the id of a message")));
        }
        None => new_id,
    };
    let choice = Choice {
        agent,
        model: model.as_ref().map(|model| format!("{}/{}", model.provider, model.model)),
        system,
        without: tools.iter().filter(|(_, on)| !**on).map(|(tool, _)| tool.clone()).collect(),
    };
    let (makes, directory) = (Arc::clone(app), project.directory.clone());
    let parts = blocking(move || log_parts(&makes, &directory, parts)).await?;
    let mut info = Info {
        id: message_id,
        session_id: Some(id.clone()),
        role: Some(Role::User),
        agent: choice.agent.clone(),
        ..Info::default()
    };
    if let Some(ModelName { provider, model }) = model {
        info.extra.insert("model".to_owned(), json!({ "providerID": provider, "modelID": model }));
    }
    let message = Message { info: info.into(), parts: parts.into(), ..Message::default() }.at(now);
    app.runners.get(project, id).prompt(app, message, choice, no_reply).await
}

/// Converts the parts of a prompt to those of the stored message. Blocks.
fn log_parts(app: &App, directory: &FilePath, parts: Vec<PromptPart>) -> ApiResult<Vec<Part>> {
    let id = |given: Option<String>| match given.filter(|id| id.starts_with("prt")) {
        Some(id) => PartId::new(id),
        None => app.with_ids(|ids, now| ids.part(now)),
    };
    let hidden = |text: String| {
        let body = TextPart { text: text.into(), synthetic: Some(true), ignored: None };
        Part::new(id(None), PartBody::Text(body))
    };
    let mut made = Vec::new();
    for part in parts {
        match part {
            PromptPart::Text { id: given, text, synthetic, ignored } => {
                let body = TextPart { text: text.into(), synthetic, ignored };
                made.push(Part::new(id(given), PartBody::Text(body)));
            }
            PromptPart::File { id: given, mime, filename, url } => {
                match url.split_once(':').map(|(scheme, _)| scheme) {
                    Some("data") => {
                        let body = FilePart { mime: Some(mime), filename, url: Some(url.into()) };
                        made.push(Part::new(id(given), PartBody::File(body)));
                    }
                    Some("file") => {
                        let (path, text) = attached(directory, &url)?;
                        made.push(hidden(format!("Attached file `{}`:\n{text}", path.display())));
                    }
                    _ => {
                        let message =
                            "a file needs a `data:` URL, or a `file:` URL in the session's directory";
                        return Err(ApiError::bad_request("Payload", message));
                    }
                }
            }
            PromptPart::Agent { name } => {
                made.push(hidden(format!(
                    "The user asks you to let the agent `{name}` do this in the background."
                )));
            }
            PromptPart::Subtask {} => {
                return Err(ApiError::not_implemented("parts of type `subtask` are not supported"));
            }
        }
    }
    Ok(made)
}

/// Reads the beginning of a text file of the project. Symbolic links are resolved first, so that none leads out of it.
fn attached(directory: &FilePath, url: &str) -> ApiResult<(PathBuf, String)> {
    let refused = || ApiError::bad_request("Payload", "an attached file must be in the session's directory");
    let path = url.strip_prefix("file://").and_then(|path| path.split(['?', '#']).next());
    let path = path.and_then(|path| percent_decode_str(path).decode_utf8().ok()).ok_or_else(refused)?;
    let real = FilePath::new(&*path).canonicalize().map_err(|_| refused())?;
    if !real.starts_with(directory) {
        return Err(refused());
    }
    let head = read_resolved(&real, MAX_FILE_BYTES).map_err(|_| refused())?;
    let (is_cut, content) = (head.is_cut(), head.bytes);
    if content.contains(&0) {
        return Err(ApiError::bad_request("Payload", "an attached file must be text, or have a `data:` URL"));
    }
    let mut text = String::from_utf8_lossy(&content).into_owned();
    if is_cut {
        text.push_str("\n[The file is longer; read the rest with `read`.]");
    }
    Ok((real, text))
}
