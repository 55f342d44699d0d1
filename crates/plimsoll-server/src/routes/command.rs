//! Commands: prompts of the configuration that a user sends by name.

use std::path::Path as FilePath;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use plimsoll_config::CommandConfig;
use serde::Deserialize;
use serde_json::{Value, json};

use super::prompt::{Prompt, PromptPart, answered};
use crate::app::project::Project;
use crate::app::template::Template;
use crate::app::{App, blocking};
use crate::body::JsonBody;
use crate::error::{ApiError, ApiResult};
use crate::extract::Path;
use crate::scope::Scope;

#[derive(Deserialize)]
pub(super) struct CommandCall {
    #[serde(rename = "messageID")]
    message: Option<String>,
    agent: Option<String>,
    model: Option<String>,
    command: String,
    arguments: String,
    #[serde(default)]
    parts: Vec<PromptPart>,
}

/// The commands as `/command` lists them.
pub(super) async fn list(Scope(project): Scope) -> Json<Value> {
    let shown = project.setup.run.commands.iter().map(|(name, command)| {
        let mut shown = shown(name, command);
        shown["source"] = json!("command");
        shown["hints"] = json!(Template(&command.template).hints());
        if let Some(model) = &command.model {
            shown["model"] = json!(model.to_string());
        }
        shown
    });
    Json(Value::Array(shown.collect()))
}

/// The commands as `/api/command` lists them.
pub(super) fn api_list(project: &Project) -> Vec<Value> {
    let shown = project.setup.run.commands.iter().map(|(name, command)| {
        let mut shown = shown(name, command);
        if let Some(model) = &command.model {
            shown["model"] = json!({ "id": model.model, "providerID": model.provider });
        }
        shown
    });
    shown.collect()
}

fn shown(name: &str, command: &CommandConfig) -> Value {
    let mut shown = json!({ "name": name, "template": command.template });
    if let Some(description) = &command.description {
        shown["description"] = json!(description);
    }
    if let Some(agent) = &command.agent {
        shown["agent"] = json!(agent);
    }
    if let Some(subtask) = command.subtask {
        shown["subtask"] = json!(subtask);
    }
    shown
}

/// Sends the prompt of a command, and answers with the message that ends the run.
pub(super) async fn run(
    State(app): State<Arc<App>>,
    Scope(project): Scope,
    Path(id): Path<String>,
    JsonBody(call): JsonBody<CommandCall>,
) -> ApiResult<Json<Value>> {
    let id = project.session_id(&id).await?;
    project.session(&id).await?;
    let command = find(&project, &call.command)?.clone();
    if let Some(problem) = &command.problem {
        return Err(ApiError::bad_request("Payload", problem.clone()));
    }
    let template = Template(&command.template);
    if template.has_shell() {
        let name = &call.command;
        return Err(ApiError::not_implemented(format!(
            "command `{name}` runs a shell command in its template (!`…`), which is not supported; ask the agent to run it instead"
        )));
    }
    let text = template.fill(&call.arguments);
    let mut parts = vec![PromptPart::text(text.clone())];
    parts.extend(references(&project, text).await?);
    let mut agent = command.agent.clone().or(call.agent.clone());
    if is_subtask(&project, &command) {
        // As for a part of type `agent`, the session's agent launches a task.
        let name = agent.take().unwrap_or_else(|| "general".to_owned());
        parts.push(PromptPart::Agent { name });
        agent.clone_from(&call.agent);
    }
    parts.extend(call.parts);
    let model = command.model.as_ref().map(ToString::to_string).or(call.model);
    let prompt = Prompt::of_parts(parts, call.message, agent, model)?;
    let answer = answered(&app, &project, &id, prompt).await?;
    let properties = json!({
        "name": call.command,
        "sessionID": id,
        "arguments": call.arguments,
        "messageID": answer["info"]["id"],
    });
    app.hub.publish(&app, &project.name, "command.executed", properties);
    Ok(Json(answer))
}

fn find<'p>(project: &'p Project, name: &str) -> ApiResult<&'p CommandConfig> {
    let commands = &project.setup.run.commands;
    commands.get(name).ok_or_else(|| {
        let known: Vec<&str> = commands.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        ApiError::not_found(format!("unknown command `{name}` (available: {known})"))
    })
}

/// Whether a task does the work: if the command says so, or if its agent is for tasks only.
fn is_subtask(project: &Project, command: &CommandConfig) -> bool {
    let is_of_subagent = || {
        let agent = command.agent.as_deref().unwrap_or_default();
        let mode = project.setup.run.agents.get(agent).and_then(|agent| agent.mode);
        match mode {
            Some(mode) => mode == plimsoll_config::AgentMode::Subagent,
            None => matches!(agent, "general" | "explore"),
        }
    };
    command.subtask.unwrap_or_else(is_of_subagent)
}

/// The files of the project and the agents that a text names with `@`.
async fn references(project: &Arc<Project>, text: String) -> ApiResult<Vec<PromptPart>> {
    let project = Arc::clone(project);
    blocking(move || {
        let agents = plimsoll_agent::agent_names(&project.setup.run);
        let named = Template(&text).references();
        Ok(named.into_iter().filter_map(|name| reference(&project.directory, &agents, name)).collect())
    })
    .await
}

fn reference(directory: &FilePath, agents: &[String], name: &str) -> Option<PromptPart> {
    // What is outside of the directory is left to the agent, whose permissions decide.
    let file = directory.join(name).canonicalize().ok();
    match file.filter(|file| file.starts_with(directory) && file.is_file()) {
        Some(file) => Some(PromptPart::file(&file)),
        None if agents.iter().any(|agent| agent == name) => Some(PromptPart::Agent { name: name.to_owned() }),
        None => None,
    }
}
