//! OpenCode's export. The log has its shape already; what is added is what OpenCode does not do without.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use plimsoll::log::{ToolPart, ToolResultPart, ToolTime};
use plimsoll::{Log, Message, Part, PartBody, Role, SessionId, ToolState, ToolStatus};
use serde_json::{Value, json};

use crate::detect::Format;
use crate::transcript::SessionInfo;

pub(super) fn write(format: Format, info: &SessionInfo, messages: &[Message]) -> Value {
    let id = info.id.clone().unwrap_or_else(|| "ses_imported".into());
    let started = info.started.unwrap_or_default().0;
    let mut last = started;
    let mut user = None;
    let model = info.model.as_deref().unwrap_or("unknown");
    let mut written = Vec::new();
    for mut message in shaped(messages) {
        let session = message.info.session_id.get_or_insert_with(|| SessionId::new(id.clone())).clone();
        // Messages without a time keep their place: OpenCode sorts by it.
        let time = message.info.time.get_or_insert_default();
        last = time.created.get_or_insert(plimsoll::Millis(last)).0;
        let extra = &mut message.info.extra;
        message.info.agent.get_or_insert_with(|| "build".into());
        if message.info.role == Some(Role::User) {
            user = Some(message.info.id.clone());
            extra.entry("model").or_insert_with(|| json!({ "providerID": "unknown", "modelID": model }));
        }
        if message.info.role == Some(Role::Assistant) {
            message.info.model_id.get_or_insert_with(|| model.to_owned());
            // One that answers nobody answers itself: OpenCode wants a name there.
            let parent = user.clone().unwrap_or_else(|| message.info.id.clone());
            message.info.parent_id.get_or_insert(parent);
            extra.entry("providerID").or_insert("unknown".into());
            let directory = info.directory.as_deref().unwrap_or(".");
            extra.entry("path").or_insert_with(|| json!({ "cwd": directory, "root": directory }));
            message.info.mode.get_or_insert_with(|| "build".into());
            message.info.cost.get_or_insert(0.into());
        }
        let mut value = serde_json::to_value(&message).unwrap_or_default();
        for part in value["parts"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            part.entry("sessionID").or_insert_with(|| session.as_str().into());
            part.entry("messageID").or_insert_with(|| message.info.id.as_str().into());
        }
        if message.info.role == Some(Role::Assistant) && message.info.tokens.is_none() {
            value["info"]["tokens"] =
                json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
        }
        written.push(value);
    }
    if format == Format::OpencodeMessages {
        return written.into();
    }
    let updated = info.updated.map_or(last, |updated| updated.0);
    json!({
        "info": {
            "id": id,
            "projectID": "global",
            "directory": info.directory.as_deref().unwrap_or("."),
            "title": info.title.as_deref().unwrap_or("Imported session"),
            "version": info.version.as_deref().unwrap_or("0"),
            "time": { "created": started, "updated": updated },
        },
        "messages": written,
    })
}

/// The messages with ids, calls joined with their results, and what the host laid down on the user's message
/// that follows, which is where OpenCode has it.
fn shaped(messages: &[Message]) -> Vec<Message> {
    let log = Log::from_messages(messages.iter().cloned());
    let mut results: HashMap<String, ToolResultPart> = HashMap::new();
    for part in log.iter().flat_map(|message| &message.parts) {
        if let PartBody::ToolResult(result) = &part.body {
            results.insert(result.call_id.clone(), result.clone());
        }
    }
    let mut used: HashSet<String> = HashSet::new();
    let mut system: Vec<String> = Vec::new();
    let mut shaped = Vec::new();
    for message in log.messages() {
        let mut message = message.clone();
        if message.info.role == Some(Role::System) {
            system.push(message.text());
            continue;
        }
        for part in &mut message.parts {
            if let PartBody::ToolCall(call) = &part.body {
                let input = call.input.clone().unwrap_or_else(|| json!({}).into());
                let state = match results.get(&call.call_id) {
                    Some(result) if result.is_error == Some(true) => {
                        ToolState::failed(input, result.text.clone())
                    }
                    Some(result) => ToolState::completed(input, result.text.clone()),
                    None => ToolState::pending(input),
                };
                used.extend(state.status.is_final().then(|| call.call_id.clone()));
                let (call_id, tool) = (call.call_id.clone(), call.tool.clone());
                part.body = PartBody::Tool(ToolPart { call_id, tool, state });
            }
            complete(part, &message.info);
        }
        message.parts.retain_mut(|part| match &part.body {
            PartBody::ToolResult(result) if used.contains(&result.call_id) => false,
            // A result nobody asked for is kept as what it is to a model: a text.
            PartBody::ToolResult(result) => {
                *part = Part::text(part.id.clone(), result.text.clone());
                true
            }
            _ => true,
        });
        if message.is_user() && !system.is_empty() {
            message.info.extra.entry("system").or_insert_with(|| system.join("\n\n").into());
            system.clear();
        }
        if !message.parts.is_empty() {
            shaped.push(message);
        }
    }
    shaped
}

/// The fields a tool part must have beside its output.
fn complete(part: &mut Part, info: &plimsoll::Info) {
    let PartBody::Tool(tool) = &mut part.body else { return };
    let state = &mut tool.state;
    let at = info.time.as_ref().and_then(|time| time.created).unwrap_or_default();
    if state.input.as_ref().is_none_or(|input| !input.value().is_object()) {
        let value = state.input.as_ref().map_or(Value::Null, |input| input.value().clone());
        state.input = Some(super::as_object(&value).into());
    }
    if state.status != ToolStatus::Pending && state.time.start.is_none() {
        let compacted = state.time.compacted;
        state.time = ToolTime::ran(at, at);
        state.time.compacted = compacted;
    }
    if state.status == ToolStatus::Pending {
        state.extra.entry("raw").or_insert_with(|| "".into());
    }
    if state.status == ToolStatus::Completed {
        state.extra.entry("title").or_insert_with(|| tool.tool.as_str().into());
        state.extra.entry("metadata").or_insert_with(|| json!({}));
    }
    // Files of a result are parts of their own kind in OpenCode, and need the same names.
    if !state.attachments.is_empty() {
        let named = state.attachments.iter().cloned().enumerate().map(|(index, mut file)| {
            if let Some(map) = file.as_object_mut() {
                map.entry("id").or_insert_with(|| format!("{}.{}", part.id, index + 1).into());
            }
            file
        });
        state.attachments = Arc::new(named.collect());
    }
}
