//! The rules of Chat Completions.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Subject, is_name, unknown_fields};
use crate::server::flatten::string;
use crate::server::segments::list;

const FIELDS: [&str; 37] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_completion_tokens",
    "max_tokens",
    "reasoning_effort",
    "temperature",
    "top_p",
    "prompt_cache_key",
    "prompt_cache_retention",
    "stream",
    "stream_options",
    "n",
    "stop",
    "seed",
    "user",
    "safety_identifier",
    "metadata",
    "store",
    "service_tier",
    "response_format",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "presence_penalty",
    "frequency_penalty",
    "modalities",
    "audio",
    "prediction",
    "web_search_options",
    "verbosity",
    "functions",
    "function_call",
    "moderation",
    "prompt_cache_options",
];
const NAME_LIMIT: usize = 64;
const CALL_ID_LIMIT: usize = 40;

pub(super) fn check(subject: &mut Subject<'_>) {
    let body = subject.body;
    for field in unknown_fields(body.as_object(), &FIELDS) {
        subject.report(format!("Unrecognized request argument supplied: {field}"));
    }
    subject.require(!string(body, "model").is_empty(), || "you must provide a model parameter".into());
    let is_set = |key: &str| body.get(key).is_some_and(|value| !value.is_null());
    if is_set("max_tokens") && is_set("max_completion_tokens") {
        subject.report("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.");
    }
    let streams = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    if is_set("stream_options") && !streams {
        subject.report("The 'stream_options' parameter is only allowed when 'stream' is enabled.");
    }
    tools(subject);
    messages(subject);
}

fn tools(subject: &mut Subject<'_>) {
    let body = subject.body;
    if body.get("tools").is_some_and(|tools| tools.as_array().is_some_and(Vec::is_empty)) {
        subject.report("Invalid 'tools': empty array. Expected an array with minimum length 1.");
    }
    if body.get("tool_choice").is_some() && list(body, "tools").is_empty() {
        subject.report(
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
        );
    }
    let mut names = BTreeSet::new();
    for (at, tool) in list(body, "tools").iter().enumerate() {
        subject.require(string(tool, "type") == "function", || format!("Invalid value: 'tools[{at}].type'"));
        let name = tool.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        subject.require(is_name(name, NAME_LIMIT), || {
            format!("Invalid 'tools[{at}].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
        });
        subject.require(names.insert(name), || format!("Invalid 'tools': '{name}' is declared twice."));
        if let Some(schema) = tool.pointer("/function/parameters") {
            subject.require(string(schema, "type") == "object", || {
                format!(
                    "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'"
                )
            });
        }
    }
}

fn messages(subject: &mut Subject<'_>) {
    let body = subject.body;
    let all = list(body, "messages");
    subject.require(!all.is_empty(), || {
        "Invalid 'messages': empty array. Expected an array with minimum length 1.".into()
    });
    let mut ids = BTreeSet::new();
    // Calls of the newest answer without results.
    let mut open: Vec<String> = Vec::new();
    for (at, message) in all.iter().enumerate() {
        let path = format!("messages[{at}]");
        let role = string(message, "role");
        if role == "tool" {
            let id = string(message, "tool_call_id");
            match open.iter().position(|waiting| waiting == id) {
                Some(place) => {
                    open.remove(place);
                }
                None => subject.report(format!(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls' ({path}: `{id}`)."
                )),
            }
            content(subject, &path, message);
            continue;
        }
        unanswered(subject, &open);
        open.clear();
        match role {
            "assistant" => {
                calls(subject, &path, message, &mut ids);
                open = list(message, "tool_calls").iter().map(|call| string(call, "id").to_owned()).collect();
                let is_said = message.get("content").is_some_and(|content| !content.is_null());
                if is_said {
                    content(subject, &path, message);
                } else if open.is_empty() {
                    subject.report(format!(
                        "Invalid value for 'content': expected a string, got null. ({path})"
                    ));
                }
            }
            "user" | "system" | "developer" => content(subject, &path, message),
            other => subject.report(format!("Invalid value: '{other}' ({path}.role)")),
        }
    }
    unanswered(subject, &open);
}

fn unanswered(subject: &mut Subject<'_>, open: &[String]) {
    subject.require(open.is_empty(), || {
        format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
            open.join(", ")
        )
    });
}

fn content(subject: &mut Subject<'_>, path: &str, message: &Value) {
    match message.get("content") {
        Some(Value::String(_)) => {}
        Some(Value::Array(parts)) => {
            subject.require(!parts.is_empty(), || {
                format!("Invalid '{path}.content': empty array. Expected an array with minimum length 1.")
            });
            for (at, part) in parts.iter().enumerate() {
                let kind = string(part, "type");
                let fits = match string(message, "role") {
                    "user" => matches!(kind, "text" | "image_url" | "input_audio" | "file"),
                    "assistant" => matches!(kind, "text" | "refusal"),
                    _ => kind == "text",
                };
                subject.require(fits, || format!("Invalid value: '{kind}' ({path}.content[{at}].type)"));
                let is_empty = kind == "text" && string(part, "text").is_empty();
                subject.require(!is_empty, || format!("Invalid '{path}.content[{at}].text': empty string."));
            }
        }
        _ => subject.report(format!("Invalid value for 'content': expected a string. ({path})")),
    }
}

fn calls(subject: &mut Subject<'_>, path: &str, message: &Value, ids: &mut BTreeSet<String>) {
    let Some(calls) = message.get("tool_calls") else { return };
    subject.require(calls.as_array().is_some_and(|calls| !calls.is_empty()), || {
        format!("Invalid '{path}.tool_calls': empty array. Expected an array with minimum length 1.")
    });
    for (at, call) in list(message, "tool_calls").iter().enumerate() {
        let path = format!("{path}.tool_calls[{at}]");
        let id = string(call, "id");
        subject.require(!id.is_empty() && id.len() <= CALL_ID_LIMIT, || {
            format!("Invalid '{path}.id': string of {} characters. Expected 1 to 40.", id.len())
        });
        subject.require(ids.insert(id.to_owned()), || {
            format!("Duplicate value for 'tool_call_id' of {id} ({path})")
        });
        subject.require(string(call, "type") == "function", || format!("Invalid value: '{path}.type'"));
        let name = call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        subject.require(is_name(name, NAME_LIMIT), || {
            format!("Invalid '{path}.function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
        });
        let arguments = call.pointer("/function/arguments").and_then(Value::as_str);
        // OpenAI accepts any string, but llama.cpp and vLLM parse it and fail.
        let is_json = arguments.is_some_and(|text| serde_json::from_str::<Value>(text).is_ok());
        subject.require(is_json, || format!("Invalid '{path}.function.arguments': not a string of JSON."));
    }
}
