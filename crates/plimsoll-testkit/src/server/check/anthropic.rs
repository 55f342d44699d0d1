//! The rules of the Messages API.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_providers::Wire;
use serde_json::Value;

use super::{Subject, is_name, unknown_fields};
use crate::server::flatten::string;
use crate::server::segments::{blocks, list};

const FIELDS: [&str; 25] = [
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "stream",
    "metadata",
    "service_tier",
    "container",
    "context_management",
    "output_config",
    "output_format",
    "mcp_servers",
    "cache_control",
    "diagnostics",
    "inference_geo",
    "speed",
    "user_profile_id",
    "workspace_id",
];
const MAX_MARKS: usize = 4;
const MIN_BUDGET: u64 = 1_024;
const TOOL_NAME_LIMIT: usize = 128;
/// Longest id that is known to be accepted. Not documented.
const CALL_ID_LIMIT: usize = 64;

pub(super) fn check(subject: &mut Subject<'_>) {
    let body = subject.body;
    for field in unknown_fields(body.as_object(), &FIELDS) {
        subject.report(format!("{field}: Extra inputs are not permitted"));
    }
    subject.require(!string(body, "model").is_empty(), || "model: Field required".into());
    let max_tokens = body.get("max_tokens").and_then(Value::as_u64);
    subject.require(max_tokens.is_some_and(|tokens| tokens > 0), || "max_tokens: Field required".into());
    settings(subject, max_tokens.unwrap_or(0));
    tools(subject);
    marks(subject);
    for (at, block) in blocks(body.get("system")).iter().enumerate() {
        text(subject, &format!("system.{at}"), block);
    }
    messages(subject);
    kept_thoughts(subject);
}

fn settings(subject: &mut Subject<'_>, max_tokens: u64) {
    let body = subject.body;
    let thinking = body.get("thinking").map_or("", |thinking| string(thinking, "type"));
    let thinks = matches!(thinking, "enabled" | "adaptive");
    if thinking == "enabled" {
        let budget = body.pointer("/thinking/budget_tokens").and_then(Value::as_u64).unwrap_or(0);
        subject.require(budget >= MIN_BUDGET, || {
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024".into()
        });
        subject.require(budget < max_tokens, || {
            "`max_tokens` must be greater than `thinking.budget_tokens`".into()
        });
    }
    let temperature = body.get("temperature").and_then(Value::as_f64);
    if thinks && temperature.is_some_and(|temperature| temperature != 1.0) {
        subject.report("`temperature` may only be set to 1 when thinking is enabled");
    }
    let choice = body.get("tool_choice").map_or("", |choice| string(choice, "type"));
    if thinks && matches!(choice, "any" | "tool") {
        subject.report("Thinking may not be enabled when tool_choice forces tool use.");
    }
    if !choice.is_empty() && list(body, "tools").is_empty() {
        subject.report("tool_choice may only be specified while providing tools");
    }
    if choice == "tool" {
        let name = body.pointer("/tool_choice/name").and_then(Value::as_str).unwrap_or_default();
        let is_there = list(body, "tools").iter().any(|tool| string(tool, "name") == name);
        subject.require(is_there, || format!("Tool '{name}' not found in provided tools"));
    }
}

fn tools(subject: &mut Subject<'_>) {
    let body = subject.body;
    let mut names = BTreeSet::new();
    for (at, tool) in list(body, "tools").iter().enumerate() {
        let name = string(tool, "name");
        subject.require(is_name(name, TOOL_NAME_LIMIT), || {
            format!("tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        });
        subject.require(names.insert(name), || "tools: Tool names must be unique.".into());
        // Tools that the provider runs have a type and no schema.
        if matches!(string(tool, "type"), "" | "custom") {
            let is_object = tool.pointer("/input_schema/type").and_then(Value::as_str) == Some("object");
            subject.require(is_object, || format!("tools.{at}.custom.input_schema.type: Field required"));
        }
    }
}

/// At most four breakpoints, those for an hour before the others, and none on thoughts.
fn marks(subject: &mut Subject<'_>) {
    let body = subject.body;
    let mut marked: Vec<(String, Value)> = Vec::new();
    let mut take = |path: String, value: &Value| {
        if value.get("cache_control").is_some_and(|mark| !mark.is_null()) {
            marked.push((path, value.clone()));
        }
    };
    list(body, "tools").iter().enumerate().for_each(|(at, tool)| take(format!("tools.{at}"), tool));
    blocks(body.get("system")).iter().enumerate().for_each(|(at, it)| take(format!("system.{at}"), it));
    for (at, message) in list(body, "messages").iter().enumerate() {
        for (place, block) in blocks(message.get("content")).iter().enumerate() {
            take(format!("messages.{at}.content.{place}"), block);
        }
    }
    subject.require(marked.len() <= MAX_MARKS, || {
        format!("A maximum of 4 blocks with cache_control may be provided. Found {}.", marked.len())
    });
    let mut after_short = false;
    for (path, block) in &marked {
        if matches!(string(block, "type"), "thinking" | "redacted_thinking") {
            subject.report(format!("{path}.cache_control: Extra inputs are not permitted"));
        }
        let kind = block.pointer("/cache_control/type").and_then(Value::as_str);
        subject.require(kind == Some("ephemeral"), || format!("{path}.cache_control.type: not `ephemeral`"));
        let for_an_hour = block.pointer("/cache_control/ttl").and_then(Value::as_str) == Some("1h");
        subject.require(!(for_an_hour && after_short), || {
            format!(
                "{path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' one"
            )
        });
        after_short |= !for_an_hour;
    }
}

fn messages(subject: &mut Subject<'_>) {
    let body = subject.body;
    let all = list(body, "messages");
    subject.require(!all.is_empty(), || "messages: at least one message is required".into());
    let first = all.first().map_or("user", |message| string(message, "role"));
    subject.require(first == "user", || "messages: first message must use the \"user\" role".into());
    let mut ids = BTreeSet::new();
    let mut calls = false;
    for (at, message) in all.iter().enumerate() {
        let path = format!("messages.{at}");
        for field in unknown_fields(message.as_object(), &["role", "content"]) {
            subject.report(format!("{path}.{field}: Extra inputs are not permitted"));
        }
        let role = string(message, "role");
        // Claude Code sends system messages in the middle, with a beta header.
        let is_known = matches!(role, "user" | "assistant");
        let is_known = is_known || (role == "system" && subject.has_header("anthropic-beta"));
        subject.require(is_known, || {
            format!("{path}.role: Unexpected role \"{role}\". Allowed roles are \"user\" or \"assistant\".")
        });
        let content = blocks(message.get("content"));
        let may_be_empty = role == "assistant" && at + 1 == all.len();
        subject.require(!content.is_empty() || may_be_empty || role == "system", || {
            format!("{path}: all messages must have non-empty content except for the optional final assistant message")
        });
        for (place, block) in content.iter().enumerate() {
            calls |= matches!(string(block, "type"), "tool_use" | "tool_result");
            self::block(subject, &format!("{path}.content.{place}"), role, block);
            if string(block, "type") == "tool_use" && !ids.insert(string(block, "id").to_owned()) {
                subject.report(format!("{path}.content.{place}: `tool_use` ids must be unique"));
            }
        }
        let is_thought = |block: &Value| matches!(string(block, "type"), "thinking" | "redacted_thinking");
        if role == "assistant" && content.last().is_some_and(is_thought) {
            subject.report(format!("{path}: The final block in an assistant message cannot be `thinking`."));
        }
        pairs(subject, at);
    }
    subject.require(!calls || !list(body, "tools").is_empty(), || {
        "Requests which include `tool_use` or `tool_result` blocks must define tools".into()
    });
    let last = all.last().filter(|message| string(message, "role") == "assistant");
    let ends = last.map(|message| blocks(message.get("content"))).and_then(|mut blocks| blocks.pop());
    let is_trailing = ends.is_some_and(|block| string(&block, "text").ends_with(char::is_whitespace));
    subject.require(!is_trailing, || {
        "messages: final assistant content cannot end with trailing whitespace".into()
    });
}

fn text(subject: &mut Subject<'_>, path: &str, block: &Value) {
    let text = string(block, "text");
    subject.require(!text.is_empty(), || format!("{path}: text content blocks must be non-empty"));
    subject.require(text.is_empty() || !text.trim().is_empty(), || {
        format!("{path}: text content blocks must contain non-whitespace text")
    });
}

fn block(subject: &mut Subject<'_>, path: &str, role: &str, block: &Value) {
    let kind = string(block, "type");
    let fields: &[&str] = match kind {
        "text" => &["type", "text", "cache_control", "citations"],
        "thinking" => &["type", "thinking", "signature"],
        "redacted_thinking" => &["type", "data"],
        "tool_use" => &["type", "id", "name", "input", "cache_control", "caller"],
        "tool_result" => &["type", "tool_use_id", "content", "is_error", "cache_control"],
        "image" => &["type", "source", "cache_control"],
        "document" => &["type", "source", "cache_control", "title", "context", "citations"],
        "" => {
            subject.report(format!("{path}.type: Field required"));
            return;
        }
        // Blocks that the provider generated.
        _ => return,
    };
    for field in unknown_fields(block.as_object(), fields) {
        subject.report(format!("{path}.{kind}.{field}: Extra inputs are not permitted"));
    }
    let of_model = matches!(kind, "tool_use" | "thinking" | "redacted_thinking");
    let of_user = matches!(kind, "tool_result" | "image" | "document");
    let is_misplaced = (of_model && role != "assistant") || (of_user && role != "user");
    subject
        .require(!is_misplaced, || format!("{path}: `{kind}` blocks are not allowed in `{role}` messages"));
    match kind {
        "text" => text(subject, path, block),
        "thinking" => {
            let is_signed = subject.signer.is_signed(
                Wire::Anthropic,
                string(block, "thinking"),
                string(block, "signature"),
            );
            subject.require(is_signed, || format!("{path}: Invalid `signature` in `thinking` block"));
        }
        "redacted_thinking" => {
            let is_own = subject.signer.is_own(Wire::Anthropic, string(block, "data"));
            subject.require(is_own, || format!("{path}: Invalid `data` in `redacted_thinking` block"));
        }
        "tool_use" => {
            subject.require(is_name(string(block, "id"), CALL_ID_LIMIT), || {
                format!("{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            });
            subject.require(is_name(string(block, "name"), TOOL_NAME_LIMIT), || {
                format!("{path}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
            });
            let is_object = block.get("input").is_some_and(Value::is_object);
            subject
                .require(is_object, || format!("{path}.tool_use.input: Input should be a valid dictionary"));
        }
        "tool_result" => result(subject, path, block),
        _ => source(subject, path, kind, block),
    }
}

fn result(subject: &mut Subject<'_>, path: &str, block: &Value) {
    let is_error = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    for (at, part) in list(block, "content").iter().enumerate() {
        let path = format!("{path}.tool_result.content.{at}");
        match string(part, "type") {
            "text" => text(subject, &path, part),
            kind if is_error => subject.report(format!(
                "{path}: all content must be type \"text\" if \"is_error\" is true, found `{kind}`"
            )),
            kind @ ("image" | "document") => source(subject, &path, kind, part),
            "search_result" | "tool_reference" => {}
            kind => subject.report(format!("{path}: `{kind}` is not allowed in a result")),
        }
    }
}

fn source(subject: &mut Subject<'_>, path: &str, kind: &str, block: &Value) {
    let source = block.get("source").cloned().unwrap_or_default();
    match string(&source, "type") {
        "base64" if kind == "image" => {
            let media = string(&source, "media_type");
            let is_known = matches!(media, "image/jpeg" | "image/png" | "image/gif" | "image/webp");
            subject.require(is_known, || format!("{path}.image.source.base64.media_type: `{media}`"));
            subject.require(!string(&source, "data").is_empty(), || {
                format!("{path}.image.source.base64.data: empty")
            });
        }
        "base64" | "url" | "text" | "content" | "file" => {}
        other => subject.report(format!("{path}.{kind}.source.type: `{other}`")),
    }
}

/// Each call is answered in the next message, before any other content. Each result answers a call of the previous
/// message.
fn pairs(subject: &mut Subject<'_>, at: usize) {
    let all = list(subject.body, "messages");
    let of = |at: Option<usize>| {
        at.and_then(|at| all.get(at)).map(|it| blocks(it.get("content"))).unwrap_or_default()
    };
    let of_kind = |blocks: &[Value], kind: &str, key: &str| -> Vec<String> {
        let found = blocks.iter().filter(|block| string(block, "type") == kind);
        found.map(|block| string(block, key).to_owned()).collect()
    };
    let (own, before, next) = (of(Some(at)), of(at.checked_sub(1)), of(Some(at + 1)));
    let answered = of_kind(&next, "tool_result", "tool_use_id");
    let open: Vec<String> =
        of_kind(&own, "tool_use", "id").into_iter().filter(|id| !answered.contains(id)).collect();
    subject.require(open.is_empty(), || {
        format!(
            "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
            open.join(", ")
        )
    });
    let called = of_kind(&before, "tool_use", "id");
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for id in of_kind(&own, "tool_result", "tool_use_id") {
        *seen.entry(id).or_default() += 1;
    }
    for (id, times) in seen {
        subject.require(called.contains(&id), || {
            format!(
                "messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        });
        subject.require(times == 1, || {
            format!("messages.{at}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}")
        });
    }
    let is_result = |block: &Value| string(block, "type") == "tool_result";
    let late = own.iter().skip_while(|block| is_result(block)).any(is_result);
    subject.require(!late, || {
        format!("messages.{at}: `tool_result` blocks must come before any other content of the message")
    });
}

/// During a turn with calls, the thoughts before them must be replayed unchanged.
fn kept_thoughts(subject: &mut Subject<'_>) {
    let body = subject.body;
    let all = list(body, "messages");
    let is_result = |block: &Value| string(block, "type") == "tool_result";
    let is_prompt = |message: &Value| {
        string(message, "role") == "user" && !blocks(message.get("content")).iter().any(is_result)
    };
    let begin = all.iter().rposition(is_prompt).map_or(0, |at| at + 1);
    let model = string(body, "model").to_owned();
    let budget = body.get("thinking").is_some_and(|thinking| string(thinking, "type") == "enabled");
    let answers: Vec<(usize, Vec<Value>)> = (begin..all.len())
        .filter(|at| string(&all[*at], "role") == "assistant")
        .map(|at| (at, blocks(all[at].get("content"))))
        .collect();
    if let Some((at, newest)) = answers.last().filter(|_| budget) {
        let calls = newest.iter().any(|block| string(block, "type") == "tool_use");
        let first = newest.first().map_or("", |block| string(block, "type"));
        subject.require(!calls || matches!(first, "thinking" | "redacted_thinking"), || {
            format!(
                "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{first}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block."
            )
        });
    }
    for (at, content) in &answers {
        let mut given: Vec<&str> = Vec::new();
        for block in content {
            match string(block, "type") {
                "thinking" => given.push(string(block, "signature")),
                "redacted_thinking" => given.push(string(block, "data")),
                "tool_use" => {
                    let id = string(block, "id");
                    let Some(sent) = subject.memory.thoughts.get(id) else { continue };
                    // Thoughts of another model need not be replayed.
                    let is_kept = sent.iter().any(|sent| sent.model != model || sent.signatures == given);
                    subject.require(is_kept, || {
                        format!(
                            "messages.{at}: `thinking` or `redacted_thinking` blocks before `{id}` cannot be modified. These blocks must remain as they were in the original response."
                        )
                    });
                }
                _ => {}
            }
        }
    }
}
