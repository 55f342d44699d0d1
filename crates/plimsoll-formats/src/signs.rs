//! Recognises the formats of single tools by fields that only that tool writes.

use crate::format::Format;
use crate::json::Json;

/// First line of every chat in aider's history.
pub(crate) const AIDER: &str = "# aider chat started at ";

/// Kinds of messages in Kimi's `wire.jsonl`.
pub(crate) const KIMI_WIRE: [&str; 9] = [
    "TurnBegin",
    "TurnEnd",
    "StepBegin",
    "ContentPart",
    "ToolCall",
    "ToolCallPart",
    "ToolResult",
    "StatusUpdate",
    "SubagentEvent",
];

/// Returns the tool that wrote a list, or the lines of a file collected in one.
pub(crate) fn of_list(items: &[Json]) -> Option<Format> {
    let first = items.first()?;
    if let Some(format) = of_record(first) {
        return Some(format);
    }
    let is_chat = |item: &Json| matches!(item.text("role"), Some("user" | "assistant"));
    (is_chat(first) && items.iter().any(is_cline_message)).then_some(Format::Cline)
}

/// Returns the tool that wrote a document or a record.
pub(crate) fn of_object(value: &Json) -> Option<Format> {
    let has = |key: &str| value.get(key).is_some();
    let list = |key: &str| value.get(key).and_then(Json::as_list);
    if let Some(steps) = list("steps") {
        let keys = ["step_id", "tool_calls", "tool_results", "llm_response_content"];
        let is_step = |step: &Json| keys.iter().any(|key| step.get(key).is_some());
        if steps.first().is_some_and(is_step) {
            return Some(Format::Trae);
        }
    }
    if list("agent_steps").is_some() || list("llm_interactions").is_some() {
        return Some(Format::Trae);
    }
    if let Some(messages) = list("messages") {
        if !messages.is_empty() && messages.iter().all(is_gemini_message) {
            return Some(Format::GeminiCli);
        }
        // Gemini CLI's documents have a session id too, but always with the hash of the project.
        if has("sessionId") && !has("projectHash") && ["agent", "updated_at"].iter().any(|key| has(key)) {
            return Some(Format::Cline);
        }
    }
    of_record(value)
}

/// Returns the tool of a record, or of a document, by its own fields.
fn of_record(value: &Json) -> Option<Format> {
    type Check = fn(&Json) -> bool;
    let checks: [(Format, Check); 5] = [
        (Format::GeminiCli, is_gemini),
        (Format::Goose, is_goose),
        (Format::Openhands, is_openhands),
        (Format::Kimi, is_kimi),
        (Format::ManagedAgents, is_managed_agents),
    ];
    checks.into_iter().find(|(_, holds)| holds(value)).map(|(format, _)| format)
}

fn is_gemini(value: &Json) -> bool {
    let has = |key: &str| value.get(key).is_some();
    has("sessionId") && has("projectHash")
        || has("$rewindTo")
        || has("$set")
        || has("id") && has("content") && value.text("type") == Some("gemini")
}

/// Whether this is a message of Gemini CLI, whose type is the role. Claude Code's records with such a type also have a session
/// id.
fn is_gemini_message(message: &Json) -> bool {
    matches!(message.text("type"), Some("user" | "gemini" | "info" | "warning" | "error"))
        && ["role", "uuid", "sessionId", "message"].iter().all(|key| message.get(key).is_none())
}

fn is_goose(value: &Json) -> bool {
    let has = |key: &str| value.get(key).is_some();
    let is_session = has("working_dir")
        && ["message_count", "description", "extension_data", "conversation"].iter().any(|key| has(key));
    let is_message = has("role")
        && matches!(value.get("created"), Some(Json::Number(_)))
        && value.get("content").and_then(Json::as_list).is_some();
    is_session || is_message
}

/// Cline's messages are Anthropic's with a few more fields.
pub(crate) fn is_cline_message(message: &Json) -> bool {
    ["ts", "modelInfo", "metrics", "condenseId", "condenseParent"]
        .iter()
        .any(|key| message.get(key).is_some())
}

fn is_openhands(value: &Json) -> bool {
    let has = |key: &str| value.get(key).is_some();
    let is_evaluation = has("instance_id") && has("history");
    let is_event = has("source") && has("timestamp") && (has("action") || has("observation"));
    let is_newer_event = has("source") && has("timestamp") && has("id") && has("kind") && !has("role");
    is_evaluation || is_event || is_newer_event
}

fn is_kimi(value: &Json) -> bool {
    let has = |key: &str| value.get(key).is_some();
    let kind = value.text("type");
    let message = value.get("message");
    let is_wire = message.is_some_and(|message| {
        message.get("payload").is_some() && message.text("type").is_some_and(|kind| KIMI_WIRE.contains(&kind))
    });
    let is_record = kind.is_some_and(|kind| kind.starts_with("context.") || kind == "turn.prompt");
    kind == Some("metadata") && has("protocol_version")
        || is_wire
        || is_record
        || matches!(value.text("role"), Some("_system_prompt" | "_checkpoint" | "_usage"))
}

fn is_managed_agents(value: &Json) -> bool {
    let event = value.get("raw").unwrap_or(value);
    let groups = ["agent.", "user.", "session.", "span."];
    event.text("type").is_some_and(|kind| groups.iter().any(|group| kind.starts_with(group)))
        && event.get("id").is_some()
}

/// Whether a text is aider's history: a chat begins on one of its first lines.
pub(crate) fn is_aider(beginning: &[u8]) -> bool {
    beginning.split(|byte| *byte == b'\n').take(200).any(|line| line.starts_with(AIDER.as_bytes()))
}
