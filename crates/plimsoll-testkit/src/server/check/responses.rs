//! The rules of the Responses API, for conversations that the provider does not store.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_providers::Wire;
use serde_json::Value;

use super::{Follower, Subject, is_name, unknown_fields};
use crate::server::flatten::string;
use crate::server::segments::list;

const FIELDS: [&str; 34] = [
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "max_tool_calls",
    "reasoning",
    "include",
    "store",
    "temperature",
    "top_p",
    "top_logprobs",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt",
    "previous_response_id",
    "conversation",
    "background",
    "stream",
    "stream_options",
    "text",
    "truncation",
    "metadata",
    "service_tier",
    "safety_identifier",
    "access_programs",
    // Sent by Codex; missing in the types of the SDK.
    "client_metadata",
    "context_management",
    "image",
    "moderation",
    "prompt_cache_options",
    "user",
];
const NAME_LIMIT: usize = 64;
const CALL_ID_LIMIT: usize = 64;
const MIN_OUTPUT: u64 = 16;

pub(super) fn check(subject: &mut Subject<'_>) {
    let body = subject.body;
    for field in unknown_fields(body.as_object(), &FIELDS) {
        subject.report(format!("Unknown parameter: '{field}'."));
    }
    subject.require(!string(body, "model").is_empty(), || "Missing required parameter: 'model'.".into());
    let output = body.get("max_output_tokens").and_then(Value::as_u64);
    subject.require(output.is_none_or(|output| output >= MIN_OUTPUT), || {
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16.".into()
    });
    tools(subject);
    let items = match body.get("input") {
        Some(Value::String(text)) => {
            subject.require(!text.is_empty(), || "Missing required parameter: 'input'.".into());
            return;
        }
        _ => list(body, "input"),
    };
    subject.require(!items.is_empty(), || "Missing required parameter: 'input'.".into());
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        self::item(subject, items, at);
        let id = string(item, "id");
        if !id.is_empty() && !seen.insert(id) {
            subject.report(format!(
                "Duplicate item found with id {id}. Remove duplicate items from your input and try again."
            ));
        }
    }
    pairs(subject, items);
}

fn tools(subject: &mut Subject<'_>) {
    let body = subject.body;
    if body.get("tool_choice").is_some_and(|choice| choice != "auto" && choice != "none")
        && list(body, "tools").is_empty()
    {
        subject.report("Tool choice must be 'auto' or 'none' when 'tools' is empty.");
    }
    let mut names = BTreeSet::new();
    for (at, tool) in list(body, "tools").iter().enumerate() {
        if string(tool, "type") != "function" {
            continue;
        }
        let name = string(tool, "name");
        subject.require(is_name(name, NAME_LIMIT), || {
            format!("Invalid 'tools[{at}].name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
        });
        subject.require(names.insert(name), || format!("Invalid 'tools': '{name}' is declared twice."));
        let schema = tool.get("parameters").unwrap_or(&Value::Null);
        subject.require(string(schema, "type") == "object", || {
            format!(
                "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'"
            )
        });
    }
}

fn item(subject: &mut Subject<'_>, items: &[Value], at: usize) {
    let item = &items[at];
    let id = string(item, "id");
    let prefix = match string(item, "type") {
        "message" | "" => "msg",
        "reasoning" => "rs",
        "function_call" => "fc",
        _ => "",
    };
    subject.require(id.is_empty() || id.starts_with(prefix), || {
        format!("Invalid 'input[{at}].id': '{id}'. Expected an ID that begins with '{prefix}'.")
    });
    match string(item, "type") {
        "message" | "" => message(subject, at, item),
        "reasoning" => reasoning(subject, items, at),
        "function_call" => {
            let call = string(item, "call_id");
            subject.require(!call.is_empty() && call.len() <= CALL_ID_LIMIT, || {
                format!(
                    "Invalid 'input[{at}].call_id': string of {} characters. Expected 1 to 64.",
                    call.len()
                )
            });
            subject.require(is_name(string(item, "name"), NAME_LIMIT), || {
                format!("Invalid 'input[{at}].name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")
            });
            let is_json = serde_json::from_str::<Value>(string(item, "arguments")).is_ok();
            subject.require(is_json, || format!("Invalid 'input[{at}].arguments': not a string of JSON."));
        }
        "function_call_output" => {
            let output = item.get("output");
            let is_legal = output.is_some_and(|output| output.is_string() || output.is_array());
            subject.require(is_legal, || format!("Missing required parameter: 'input[{at}].output'."));
            for (place, part) in list(item, "output").iter().enumerate() {
                let kind = string(part, "type");
                let fits = matches!(kind, "input_text" | "input_image" | "input_file");
                subject
                    .require(fits, || format!("Invalid value: '{kind}' (input[{at}].output[{place}].type)"));
            }
        }
        // Items that the provider generated.
        _ => {}
    }
}

fn message(subject: &mut Subject<'_>, at: usize, item: &Value) {
    let role = string(item, "role");
    let is_known = matches!(role, "user" | "assistant" | "system" | "developer");
    subject.require(is_known, || format!("Invalid value: '{role}' (input[{at}].role)"));
    if let Some(Value::String(_)) = item.get("content") {
        return;
    }
    let parts = list(item, "content");
    subject.require(!parts.is_empty(), || format!("Missing required parameter: 'input[{at}].content'."));
    for (place, part) in parts.iter().enumerate() {
        let kind = string(part, "type");
        // OpenAI accepts this, but servers that validate requests with the types of its SDK do not.
        let is_whole = kind != "input_image" || part.get("detail").is_some();
        subject.require(is_whole, || {
            format!("Missing required parameter: 'input[{at}].content[{place}].detail'.")
        });
        let (fits, allowed) = match role {
            "assistant" => (matches!(kind, "output_text" | "refusal"), "'output_text' and 'refusal'"),
            _ => (
                matches!(kind, "input_text" | "input_image" | "input_file"),
                "'input_text', 'input_image' and 'input_file'",
            ),
        };
        subject.require(fits, || {
            format!(
                "Invalid value: '{kind}'. Supported values are: {allowed}. (input[{at}].content[{place}])"
            )
        });
    }
}

/// A thought is accepted with its encrypted content, unchanged, and before the item that followed it.
fn reasoning(subject: &mut Subject<'_>, items: &[Value], at: usize) {
    let id = string(&items[at], "id").to_owned();
    subject.require(items[at].get("summary").is_some_and(Value::is_array), || {
        format!("Missing required parameter: 'input[{at}].summary'.")
    });
    let encrypted = string(&items[at], "encrypted_content");
    if encrypted.is_empty() {
        subject.report(format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."
        ));
        return;
    }
    if !subject.signer.is_own(Wire::Responses, encrypted) {
        subject.report(format!("The encrypted content for item {id} could not be verified. (input[{at}])"));
        return;
    }
    let next = items.get(at + 1);
    let is_followed = next.is_some_and(|next| match string(next, "type") {
        "function_call_output" => false,
        "message" | "" => string(next, "role") == "assistant",
        _ => true,
    });
    let sent = subject.memory.followers.get(encrypted).map(Vec::as_slice).unwrap_or_default();
    let fits = |follower: &Follower| match (follower, next) {
        (Follower::Call(id), Some(next)) => string(next, "call_id") == id,
        (Follower::Message, Some(next)) => string(next, "role") == "assistant",
        (Follower::Other, next) => next.is_some(),
        _ => false,
    };
    subject.require(is_followed && (sent.is_empty() || sent.iter().any(fits)), || {
        format!(
            "Item '{id}' of type 'reasoning' was provided without its required following item. (input[{at}])"
        )
    });
}

/// Each call has one output after it, and each output a call before it.
fn pairs(subject: &mut Subject<'_>, items: &[Value]) {
    let of_kind = |kind: &str| -> BTreeMap<&str, Vec<usize>> {
        let mut found: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, item) in items.iter().enumerate().filter(|(_, item)| string(item, "type") == kind) {
            found.entry(string(item, "call_id")).or_default().push(at);
        }
        found
    };
    let (calls, outputs) = (of_kind("function_call"), of_kind("function_call_output"));
    for (id, places) in &calls {
        let is_answered = outputs.get(id).is_some_and(|answers| answers.last() > places.first());
        subject.require(is_answered, || format!("No tool output found for function call {id}."));
        subject.require(places.len() == 1, || format!("Duplicate function call with call_id {id}."));
    }
    for (id, places) in &outputs {
        let is_called = calls.get(id).is_some_and(|calls| calls.first() < places.first());
        subject
            .require(is_called, || format!("No tool call found for function call output with call_id {id}."));
        subject.require(places.len() == 1, || format!("Duplicate function call output with call_id {id}."));
    }
}
