//! Routes other than those of sessions: directories, configuration, providers, models, agents, commands.
//!
//! OpenCode's terminal UI reads all of them when it starts. Lists of things that Plimsoll does not have are empty instead of
//! missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use plimsoll_agent::{agent_description, agent_names, find_skills, skill_places};
use plimsoll_config::{Action, AgentMode, PermissionRule, ResolvedModel, read_in_time};
use plimsoll_providers::Wire;
use serde_json::{Map, Value, json};

use super::command;
use crate::app::project::Project;
use crate::app::shape::VERSION;
use crate::app::{App, blocking};
use crate::error::{ApiError, ApiResult};
use crate::extract::Path;
use crate::scope::Scope;

/// Maximum number of bytes read from `.git/HEAD`. Branch names are shorter than paths.
const MAX_HEAD_BYTES: u64 = 8 << 10;

pub(super) fn add(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/path", get(path))
        .route("/project", get(projects))
        .route("/project/current", get(project))
        .route("/project/{id}/directories", get(directories))
        .route("/config", get(config))
        .route("/config/providers", get(config_providers))
        .route("/provider", get(providers))
        .route("/provider/auth", get(empty_object))
        .route("/agent", get(agents))
        .route("/command", get(command::list))
        .route("/vcs", get(vcs))
        .route("/lsp", get(empty_list))
        .route("/formatter", get(empty_list))
        .route("/mcp", get(empty_object))
        .route("/question", get(empty_list))
        .route("/skill", get(skills))
        .route("/experimental/capabilities", get(capabilities))
        .route("/experimental/console", get(console))
        .route("/experimental/resource", get(empty_object))
        .route("/experimental/workspace", get(empty_list))
        .route("/experimental/workspace/status", get(empty_list))
        .route("/api/health", get(api_health))
        .route("/api/location", get(location))
        .route("/api/agent", get(api_agents))
        .route("/api/command", get(api_commands))
        .route("/api/integration", get(api_empty))
        .route("/api/model", get(api_models))
        .route("/api/provider", get(api_providers))
        .route("/api/reference", get(api_empty))
        .route("/api/skill", get(api_skills))
}

pub(super) async fn health() -> Json<Value> {
    Json(json!({ "healthy": true, "version": VERSION }))
}

/// Health of the second API, which has no field for the version.
async fn api_health() -> Json<Value> {
    Json(json!({ "healthy": true }))
}

async fn empty_list(Scope(_): Scope) -> Json<Value> {
    Json(json!([]))
}

async fn empty_object(Scope(_): Scope) -> Json<Value> {
    Json(json!({}))
}

async fn path(Scope(project): Scope) -> Json<Value> {
    let env = &project.host.env;
    let text =
        |path: Option<std::path::PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
    Json(json!({
        "home": text(env.home.clone()),
        "state": text(env.data_directory()),
        "config": text(env.config_directory()),
        "worktree": project.name,
        "directory": project.name,
    }))
}

fn project_value(project: &Project) -> Value {
    let mut shown = json!({
        "id": project.id,
        "worktree": project.name,
        "time": { "created": project.opened_at, "updated": project.opened_at },
        "sandboxes": [],
    });
    if project.directory.join(".git").exists() {
        shown["vcs"] = json!("git");
    }
    shown
}

async fn project(Scope(project): Scope) -> ApiResult<Json<Value>> {
    Ok(Json(blocking(move || Ok(project_value(&project))).await?))
}

/// Returns only the project of the request, so that a client learns nothing about other directories.
async fn projects(Scope(project): Scope) -> ApiResult<Json<Value>> {
    Ok(Json(blocking(move || Ok(json!([project_value(&project)]))).await?))
}

async fn directories(Scope(project): Scope, Path(id): Path<String>) -> ApiResult<Json<Value>> {
    match id == project.id {
        true => Ok(Json(json!([{ "directory": project.name }]))),
        false => Err(ApiError::not_found(format!("Project not found: {id}"))),
    }
}

async fn vcs(Scope(project): Scope) -> ApiResult<Json<Value>> {
    let head = blocking(move || {
        // Read with a limit on size and time: a checkout may contain a pipe or an endless device in its place. If the file is
        // missing or unreadable, no branch is shown.
        let head = read_in_time(&project.directory.join(".git/HEAD"), MAX_HEAD_BYTES);
        let head = head.ok().and_then(|head| String::from_utf8(head.bytes).ok()).unwrap_or_default();
        Ok(head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned))
    });
    Ok(Json(match head.await? {
        Some(branch) => json!({ "branch": branch }),
        None => json!({}),
    }))
}

async fn capabilities(Scope(_): Scope) -> Json<Value> {
    Json(json!({ "backgroundSubagents": true }))
}

async fn console(Scope(_): Scope) -> Json<Value> {
    Json(json!({ "consoleManagedProviders": [], "switchableOrgCount": 0 }))
}

/// Returns the part of the configuration that clients use, without keys and addresses.
async fn config(Scope(project): Scope) -> Json<Value> {
    let run = &project.setup.run;
    let mut shown =
        json!({ "share": "disabled", "autoupdate": false, "agent": {}, "command": {}, "mode": {} });
    if let Some((provider, model)) = project.default_model() {
        shown["model"] = json!(format!("{provider}/{model}"));
    }
    if let Some(model) = &run.small_model {
        shown["small_model"] = json!(model.to_string());
    }
    if let Some(agent) = &run.default_agent {
        shown["default_agent"] = json!(agent);
    }
    Json(shown)
}

/// A provider and its usable models.
struct ProviderModels {
    id: String,
    models: BTreeMap<String, ResolvedModel>,
}

fn usable(project: &Project) -> Vec<ProviderModels> {
    let mut found: BTreeMap<String, ProviderModels> = BTreeMap::new();
    let default = project.default_model().map(|(provider, model)| format!("{provider}/{model}"));
    for name in project.setup.models().into_iter().chain(default) {
        let Some((provider, model)) = name.split_once('/') else { continue };
        if let Ok(resolved) = project.setup.run.resolve_model(Some(&name)) {
            let entry = found.entry(provider.to_owned());
            let new = || ProviderModels { id: provider.to_owned(), models: BTreeMap::new() };
            entry.or_insert_with(new).models.insert(model.to_owned(), resolved);
        }
    }
    found.into_values().collect()
}

fn package(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "@ai-sdk/anthropic",
        Wire::Responses => "@ai-sdk/openai",
        Wire::Chat => "@ai-sdk/openai-compatible",
    }
}

fn model_value(provider: &str, id: &str, model: &ResolvedModel) -> Value {
    let limits = model.limits.unwrap_or_default();
    let mut limit = json!({ "context": limits.context, "output": limits.output });
    if let Some(input) = limits.input {
        limit["input"] = json!(input);
    }
    let media =
        |image: bool| json!({ "text": true, "audio": false, "image": image, "video": false, "pdf": false });
    json!({
        "id": id,
        "providerID": provider,
        "api": { "id": model.model.model, "url": "", "npm": package(model.endpoint.wire) },
        "name": model.name.as_deref().unwrap_or(id),
        "capabilities": {
            "temperature": true,
            "reasoning": true,
            "attachment": true,
            "toolcall": true,
            "input": media(true),
            "output": media(false),
            "interleaved": false,
        },
        "cost": cost_value(model),
        "limit": limit,
        "status": "active",
        "options": {},
        "headers": {},
        "release_date": "",
        "variants": {},
    })
}

fn cost_value(model: &ResolvedModel) -> Value {
    match &model.price {
        Some(price) => json!({
            "input": price.input,
            "output": price.output,
            "cache": { "read": price.cache_read, "write": price.cache_write },
        }),
        None => json!({ "input": 0, "output": 0, "cache": { "read": 0, "write": 0 } }),
    }
}

fn provider_value(provider: &ProviderModels) -> Value {
    let models = provider.models.iter().map(|(id, model)| (id.clone(), model_value(&provider.id, id, model)));
    json!({
        "id": provider.id,
        "name": provider.id,
        "source": "config",
        "env": [],
        "options": {},
        "models": Value::Object(models.collect()),
    })
}

/// Returns the model that clients preselect for each provider: the configured one if it belongs to the provider, otherwise the
/// first.
fn defaults(project: &Project, providers: &[ProviderModels]) -> Map<String, Value> {
    let default = project.default_model();
    let of = |provider: &ProviderModels| {
        let configured =
            default.iter().find(|(name, _)| *name == provider.id).map(|(_, model)| (*model).to_owned());
        let model = configured.or_else(|| provider.models.keys().next().cloned())?;
        Some((provider.id.clone(), json!(model)))
    };
    providers.iter().filter_map(of).collect()
}

async fn config_providers(Scope(project): Scope) -> Json<Value> {
    let providers = usable(&project);
    let shown: Vec<Value> = providers.iter().map(provider_value).collect();
    Json(json!({ "providers": shown, "default": defaults(&project, &providers) }))
}

async fn providers(Scope(project): Scope) -> Json<Value> {
    let providers = usable(&project);
    let shown: Vec<Value> = providers.iter().map(provider_value).collect();
    let connected: Vec<&str> = providers.iter().map(|provider| provider.id.as_str()).collect();
    Json(json!({ "all": shown, "default": defaults(&project, &providers), "connected": connected }))
}

fn rule_value(rule: &PermissionRule) -> Value {
    let action = action_name(rule.action);
    json!({ "permission": rule.tool, "pattern": rule.pattern, "action": action })
}

fn action_name(action: Action) -> &'static str {
    match action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
    }
}

/// Describes a configured agent, with its mode, for clients.
struct ShownAgent {
    name: String,
    description: String,
    mode: &'static str,
    is_native: bool,
    rules: Vec<PermissionRule>,
    model: Option<(String, String)>,
}

fn shown_agents(project: &Project) -> Vec<ShownAgent> {
    let run = &project.setup.run;
    let names = agent_names(run).into_iter();
    names
        .map(|name| {
            let own = run.agents.get(&name);
            let built_in = match name.as_str() {
                "build" | "plan" => Some("primary"),
                "general" | "explore" => Some("subagent"),
                _ => None,
            };
            let configured = own.and_then(|agent| agent.mode).map(|mode| match mode {
                AgentMode::Primary => "primary",
                AgentMode::Subagent => "subagent",
                _ => "all",
            });
            let own_rules = own.into_iter().flat_map(|agent| &agent.permissions.rules);
            ShownAgent {
                description: agent_description(run, &name),
                mode: configured.or(built_in).unwrap_or("all"),
                is_native: built_in.is_some(),
                rules: run.permissions.rules.iter().chain(own_rules).cloned().collect(),
                model: own
                    .and_then(|agent| agent.model.as_ref())
                    .map(|model| (model.provider.clone(), model.model.clone())),
                name,
            }
        })
        .collect()
}

async fn agents(Scope(project): Scope) -> Json<Value> {
    let shown = shown_agents(&project).into_iter().map(|agent| {
        let mut shown = json!({
            "name": agent.name,
            "description": agent.description,
            "mode": agent.mode,
            "native": agent.is_native,
            "permission": agent.rules.iter().map(rule_value).collect::<Vec<_>>(),
            "options": {},
        });
        if let Some((provider, model)) = agent.model {
            shown["model"] = json!({ "providerID": provider, "modelID": model });
        }
        shown
    });
    Json(Value::Array(shown.collect()))
}

fn read_skills(project: &Project) -> Vec<Value> {
    let home = project.host.env.home.as_deref();
    let found = find_skills(&skill_places(&project.directory, home, Vec::new()));
    let shown = found.into_iter().filter_map(|skill| {
        // Clients expect the content, so an unreadable skill is left out.
        let (content, _) = skill.text().ok()?;
        Some(json!({
            "name": skill.name,
            "description": skill.description,
            "location": skill.file.display().to_string(),
            "content": content,
        }))
    });
    shown.collect()
}

async fn skills(Scope(project): Scope) -> ApiResult<Json<Value>> {
    Ok(Json(Value::Array(blocking(move || Ok(read_skills(&project))).await?)))
}

fn location_value(project: &Project) -> Value {
    json!({ "directory": project.name, "project": { "id": project.id, "directory": project.name } })
}

fn located(project: &Project, data: &[Value]) -> Json<Value> {
    Json(json!({ "location": location_value(project), "data": data }))
}

async fn location(Scope(project): Scope) -> Json<Value> {
    Json(location_value(&project))
}

async fn api_empty(State(_): State<Arc<App>>, Scope(project): Scope) -> Json<Value> {
    located(&project, &[])
}

async fn api_commands(Scope(project): Scope) -> Json<Value> {
    located(&project, &command::api_list(&project))
}

async fn api_skills(Scope(project): Scope) -> ApiResult<Json<Value>> {
    let found = {
        let project = Arc::clone(&project);
        blocking(move || Ok(read_skills(&project))).await?
    };
    Ok(located(&project, &found))
}

async fn api_agents(Scope(project): Scope) -> Json<Value> {
    let shown = shown_agents(&project).into_iter().map(|agent| {
        let rules = agent.rules.iter().map(|rule| {
            json!({ "action": rule.tool, "resource": rule.pattern, "effect": action_name(rule.action) })
        });
        json!({
            "id": agent.name,
            "request": { "headers": {}, "body": {} },
            "description": agent.description,
            "mode": agent.mode,
            "hidden": false,
            "permissions": rules.collect::<Vec<_>>(),
        })
    });
    let shown: Vec<Value> = shown.collect();
    located(&project, &shown)
}

async fn api_models(Scope(project): Scope) -> Json<Value> {
    let mut shown = Vec::new();
    for provider in usable(&project) {
        for (id, model) in &provider.models {
            let limits = model.limits.unwrap_or_default();
            shown.push(json!({
                "id": id,
                "providerID": provider.id,
                "name": model.name.as_deref().unwrap_or(id),
                "api": { "id": model.model.model, "type": "aisdk", "package": package(model.endpoint.wire) },
                "capabilities": { "tools": true, "input": ["text", "image"], "output": ["text"] },
                "request": { "headers": {}, "body": {} },
                "variants": [],
                "time": { "released": 0 },
                "cost": [cost_value(model)],
                "status": "active",
                "enabled": true,
                "limit": { "context": limits.context, "output": limits.output },
            }));
        }
    }
    located(&project, &shown)
}

async fn api_providers(Scope(project): Scope) -> Json<Value> {
    let shown = usable(&project).into_iter().map(|provider| {
        let wire = provider.models.values().next().map_or(Wire::Chat, |model| model.endpoint.wire);
        json!({
            "id": provider.id,
            "name": provider.id,
            "api": { "type": "aisdk", "package": package(wire) },
            "request": { "headers": {}, "body": {} },
        })
    });
    let shown: Vec<Value> = shown.collect();
    located(&project, &shown)
}
