//! Adds the fields that OpenCode requires, and removes values of wrong types: `opencode import` stops at the first.

use plimsoll::{Message, MessageId, SessionId};
use serde_json::{Map, Value, json};

type Fields = Map<String, Value>;

/// Defaults for all messages of a session.
pub(super) struct CompletionContext<'a> {
    /// The session.
    pub(super) session: &'a SessionId,
    /// Model of a message without one.
    pub(super) model: &'a str,
    /// Directory of the agent.
    pub(super) directory: &'a str,
    /// Whether the session is new to OpenCode, and not one of its own that already has all fields.
    pub(super) is_new: bool,
}

impl CompletionContext<'_> {
    /// Returns a complete message, and the number of its parts that OpenCode has no kind for.
    pub(super) fn complete(&self, message: &Message, parent: &MessageId) -> (Value, usize) {
        let mut value = serde_json::to_value(message).unwrap_or_default();
        let created = message.info.time.as_ref().and_then(|time| time.created).unwrap_or_default().0;
        let Value::Object(fields) = &mut value else { return (value, 0) };
        within(fields, "info", |info| self.info(info, message, parent, created));
        let Some(Value::Array(parts)) = fields.get_mut("parts") else { return (value, 0) };
        let before = parts.len();
        parts.retain_mut(|part| match part {
            Value::Object(part) => {
                part.insert("sessionID".into(), self.session.as_str().into());
                part.insert("messageID".into(), message.info.id.as_str().into());
                self.part(part, created)
            }
            _ => false,
        });
        let dropped = before - parts.len();
        (value, dropped)
    }

    fn info(&self, info: &mut Fields, message: &Message, parent: &MessageId, created: u64) {
        info.insert("sessionID".into(), self.session.as_str().into());
        default(info, "agent", Value::is_string, || "build".into());
        if message.is_assistant() {
            self.assistant(info, parent, created);
        } else {
            let is_model = |model: &Value| model["providerID"].is_string() && model["modelID"].is_string();
            default(
                info,
                "model",
                is_model,
                || json!({ "providerID": provider(self.model), "modelID": self.model }),
            );
            drop_unless(info, "system", Value::is_string);
            drop_unless(info, "summary", |summary| summary["diffs"].is_array());
            drop_unless(info, "tools", |tools| {
                tools.as_object().is_some_and(|tools| tools.values().all(Value::is_boolean))
            });
            drop_unless(info, "format", |format| format["type"].is_string());
        }
        drop_unless(info, "variant", Value::is_string);
    }

    fn assistant(&self, info: &mut Fields, parent: &MessageId, created: u64) {
        default(info, "parentID", is_named("msg"), || parent.as_str().into());
        default(info, "modelID", Value::is_string, || self.model.into());
        let model = info["modelID"].as_str().unwrap_or_default().to_owned();
        default(info, "providerID", Value::is_string, || provider(&model).into());
        default(info, "mode", Value::is_string, || "build".into());
        let is_path = |path: &Value| path["cwd"].is_string() && path["root"].is_string();
        default(info, "path", is_path, || json!({ "cwd": self.directory, "root": self.directory }));
        default(info, "cost", Value::is_number, || 0.into());
        tokens(info);
        drop_unless(info, "finish", Value::is_string);
        if info.get("summary") == Some(&Value::Bool(true)) && !info.contains_key("error") {
            // OpenCode only uses a finished summary; an unfinished one is written with its error.
            info.entry("finish").or_insert_with(|| "stop".into());
        }
        drop_unless(info, "summary", Value::is_boolean);
        // OpenCode shows an answer without an end time as still running.
        if self.is_new && info.contains_key("finish") {
            within(info, "time", |time| default(time, "completed", Value::is_u64, || created.into()));
        }
        if let Some(error) = info.get_mut("error") {
            *error = known_error(error);
        }
    }

    /// Completes a part. Returns whether OpenCode knows its kind and it could be completed.
    fn part(&self, part: &mut Fields, created: u64) -> bool {
        let is_text = |part: &Fields, key: &str| part.get(key).is_some_and(Value::is_string);
        drop_unless(part, "metadata", Value::is_object);
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind.as_str() {
            "text" => {
                default(part, "text", Value::is_string, || "".into());
                drop_unless(part, "synthetic", Value::is_boolean);
                drop_unless(part, "ignored", Value::is_boolean);
                drop_unless(part, "time", |time| time["start"].is_u64());
            }
            "reasoning" => {
                default(part, "text", Value::is_string, || "".into());
                default(
                    part,
                    "time",
                    |time| time["start"].is_u64(),
                    || json!({ "start": created, "end": created }),
                );
            }
            "file" => {
                if !is_text(part, "url") {
                    let name = part.get("filename").and_then(Value::as_str).unwrap_or("unnamed");
                    let text = format!("[Attached file: {name}]");
                    part.insert("type".into(), "text".into());
                    part.insert("text".into(), text.into());
                    return true;
                }
                default(part, "mime", Value::is_string, || "application/octet-stream".into());
                drop_unless(part, "filename", Value::is_string);
                drop_unless(part, "source", |source| {
                    source["type"].is_string() && source["text"].is_object()
                });
            }
            "tool" => self.tool(part, created),
            "compaction" => {
                default(part, "auto", Value::is_boolean, || false.into());
                drop_unless(part, "overflow", Value::is_boolean);
                drop_unless(part, "tail_start_id", is_named("msg"));
            }
            "step-start" => drop_unless(part, "snapshot", Value::is_string),
            "step-finish" => {
                default(part, "reason", Value::is_string, || "stop".into());
                default(part, "cost", Value::is_number, || 0.into());
                tokens(part);
                drop_unless(part, "snapshot", Value::is_string);
            }
            "snapshot" => return is_text(part, "snapshot"),
            "patch" => {
                let is_list =
                    |files: &Value| files.as_array().is_some_and(|files| files.iter().all(Value::is_string));
                return is_text(part, "hash") && part.get("files").is_some_and(is_list);
            }
            "agent" => {
                drop_unless(part, "source", |source| source["value"].is_string());
                return is_text(part, "name");
            }
            "subtask" => return ["prompt", "description", "agent"].iter().all(|key| is_text(part, key)),
            "retry" => {
                let error = part.get("error").map(known_error).unwrap_or_default();
                default(part, "time", |time| time["created"].is_u64(), || json!({ "created": created }));
                let is_counted = part.get("attempt").is_some_and(Value::is_u64);
                let is_known = error["name"] == "APIError";
                part.insert("error".into(), error);
                return is_counted && is_known;
            }
            _ => return false,
        }
        true
    }

    fn tool(&self, part: &mut Fields, created: u64) {
        default(part, "callID", Value::is_string, || "call".into());
        default(part, "tool", Value::is_string, || "unknown".into());
        let id = part.get("id").and_then(Value::as_str).unwrap_or("prt").to_owned();
        let (tool, message) = (part["tool"].clone(), part["messageID"].clone());
        within(part, "state", |state| self.state(state, &tool, created));
        // Files of a result are separate parts in OpenCode and need the same ids.
        let files = part.get_mut("state").and_then(|state| state.get_mut("attachments"));
        if let Some(Value::Array(files)) = files {
            files.retain(|file| file["url"].is_string());
            for (index, file) in files.iter_mut().filter_map(Value::as_object_mut).enumerate() {
                default(file, "id", is_named("prt"), || format!("{id}_{index}").into());
                file.insert("type".into(), "file".into());
                file.insert("sessionID".into(), self.session.as_str().into());
                file.insert("messageID".into(), message.clone());
                default(file, "mime", Value::is_string, || "application/octet-stream".into());
                drop_unless(file, "filename", Value::is_string);
                drop_unless(file, "source", |source| {
                    source["type"].is_string() && source["text"].is_object()
                });
            }
        }
    }

    fn state(&self, state: &mut Fields, tool: &Value, created: u64) {
        let is_known =
            |status: &Value| matches!(status.as_str(), Some("pending" | "running" | "completed" | "error"));
        default(state, "status", is_known, || "pending".into());
        let input = state.get("input").map(plimsoll::window::object_input).unwrap_or_else(|| json!({}));
        state.insert("input".into(), input);
        drop_unless(state, "metadata", Value::is_object);
        let status = state["status"].as_str().unwrap_or_default().to_owned();
        if status == "pending" {
            default(state, "raw", Value::is_string, || "".into());
            state.shift_remove("time");
            return;
        }
        let is_over = status != "running";
        within(state, "time", |time| {
            default(time, "start", Value::is_u64, || created.into());
            let start = time["start"].clone();
            if is_over {
                default(time, "end", Value::is_u64, || start);
            }
            drop_unless(time, "compacted", Value::is_u64);
        });
        drop_unless(state, "title", Value::is_string);
        drop_unless(state, "attachments", Value::is_array);
        if status == "error" {
            let said = state.get("output").filter(|output| output.is_string()).cloned();
            default(state, "error", Value::is_string, || said.unwrap_or_else(|| "".into()));
        }
        if status == "completed" {
            default(state, "output", Value::is_string, || "".into());
            default(state, "title", Value::is_string, || tool.clone());
            default(state, "metadata", Value::is_object, || json!({}));
        }
    }
}

/// Returns the provider of a model by its name.
fn provider(model: &str) -> &'static str {
    let starts = |names: &[&str]| names.iter().any(|name| model.starts_with(name));
    match () {
        () if starts(&["claude"]) => "anthropic",
        () if starts(&["gpt-", "o1", "o3", "o4", "codex"]) => "openai",
        () if starts(&["gemini"]) => "google",
        () => "unknown",
    }
}

/// OpenCode has a fixed set of error names; another error becomes `UnknownError` with its message.
fn known_error(error: &Value) -> Value {
    const KNOWN: [&str; 6] = [
        "ProviderAuthError",
        "MessageAbortedError",
        "StructuredOutputError",
        "ContextOverflowError",
        "ContentFilterError",
        "UnknownError",
    ];
    let message = error["data"]["message"].as_str().or(error["message"].as_str()).or(error.as_str());
    let message = message.map_or_else(|| error.to_string(), str::to_owned);
    match error["name"].as_str() {
        Some("APIError") => {
            let mut data = error["data"].as_object().cloned().unwrap_or_default();
            data.insert("message".into(), message.into());
            default(&mut data, "isRetryable", Value::is_boolean, || false.into());
            drop_unless(&mut data, "statusCode", Value::is_u64);
            drop_unless(&mut data, "responseBody", Value::is_string);
            drop_unless(&mut data, "responseHeaders", is_texts);
            drop_unless(&mut data, "metadata", is_texts);
            json!({ "name": "APIError", "data": data })
        }
        Some("MessageOutputLengthError") => json!({ "name": "MessageOutputLengthError", "data": {} }),
        Some("ProviderAuthError") if !error["data"]["providerID"].is_string() => {
            json!({ "name": "UnknownError", "data": { "message": message } })
        }
        Some("StructuredOutputError") if !error["data"]["retries"].is_number() => {
            json!({ "name": "UnknownError", "data": { "message": message } })
        }
        Some(name) if KNOWN.contains(&name) && error["data"]["message"].is_string() => error.clone(),
        Some(name) if KNOWN.contains(&name) => json!({ "name": name, "data": { "message": message } }),
        _ => json!({ "name": "UnknownError", "data": { "message": message } }),
    }
}

fn is_texts(value: &Value) -> bool {
    value.as_object().is_some_and(|map| map.values().all(Value::is_string))
}

/// Completes token counts.
fn tokens(fields: &mut Fields) {
    within(fields, "tokens", |tokens| {
        for key in ["input", "output", "reasoning"] {
            default(tokens, key, Value::is_number, || 0.into());
        }
        drop_unless(tokens, "total", Value::is_number);
        within(tokens, "cache", |cache| {
            for key in ["read", "write"] {
                default(cache, key, Value::is_number, || 0.into());
            }
        });
    });
}

fn is_named(prefix: &'static str) -> impl Fn(&Value) -> bool {
    move |id| id.as_str().is_some_and(|id| id.starts_with(prefix))
}

/// Completes the object under a key, and creates it if it is missing.
fn within(fields: &mut Fields, key: &str, complete: impl FnOnce(&mut Fields)) {
    let mut inner = match fields.get_mut(key).map(Value::take) {
        Some(Value::Object(inner)) => inner,
        _ => Fields::new(),
    };
    complete(&mut inner);
    fields.insert(key.to_owned(), Value::Object(inner));
}

fn default(fields: &mut Fields, key: &str, is_good: impl Fn(&Value) -> bool, value: impl FnOnce() -> Value) {
    if !fields.get(key).is_some_and(is_good) {
        fields.insert(key.to_owned(), value());
    }
}

fn drop_unless(fields: &mut Fields, key: &str, is_good: impl Fn(&Value) -> bool) {
    if fields.get(key).is_some_and(|value| !is_good(value)) {
        fields.shift_remove(key);
    }
}
