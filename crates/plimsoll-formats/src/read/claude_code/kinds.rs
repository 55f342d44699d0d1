//! Kinds of records, and their role in the conversation.

use plimsoll::Text;
use plimsoll::log::{At, FilePart};

use crate::blocks::{file, flatten};
use crate::field_errors::FieldErrors;
use crate::json::Json;
use crate::transcript::Transcript;

/// Role of a record in the conversation.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    User,
    /// Content that the host shows to the model.
    Attachment,
    Summary,
    Assistant,
    Boundary,
    /// Only a link in the tree.
    Link,
}

/// Kinds of records that the model does not see.
const UNUSED: [&str; 24] = [
    "agent-color",
    "agent-name",
    "agent-setting",
    "artifact-autoreact-ledger",
    "atis-latch",
    "attachment",
    "attribution-snapshot",
    "bridge-session",
    "cost-state",
    "custom-title",
    "file-history-delta",
    "file-history-snapshot",
    "frame-link",
    "history-suppression",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "saved_hook_context",
    "summary",
    "tag",
    "worktree-state",
];

/// Kinds of system records for the user; that of a compaction is read.
const SYSTEM: [&str; 20] = [
    "agents_killed",
    "api_error",
    "api_metrics",
    "away_summary",
    "bridge_status",
    "file_snapshot",
    "hook_error",
    "hook_response",
    "hook_started",
    "informational",
    "init",
    "local_command",
    "memory_saved",
    "microcompact_boundary",
    "permission_retry",
    "scheduled_task_fire",
    "status",
    "stop_hook_summary",
    "thinking",
    "turn_duration",
];
/// Kinds of attachments that the model sees.
const SHOWN: [&str; 22] = [
    "agent_listing_delta",
    "async_hook_response",
    "compact_file_reference",
    "critical_system_reminder",
    "deferred_tools_delta",
    "directory",
    "edited_text_file",
    "file",
    "hook_additional_context",
    "hook_blocking_error",
    "invoked_skills",
    "mcp_instructions_delta",
    "mcp_resource",
    "nested_memory",
    "opened_file_in_ide",
    "plan_file_reference",
    "queued_command",
    "relevant_memories",
    "selected_lines_in_ide",
    "skill_listing",
    "task_reminder",
    "todo_reminder",
];
/// Kinds of attachments that the model does not see.
const HIDDEN: [&str; 10] = [
    "already_read_file",
    "command_permissions",
    "dynamic_skill",
    "hook_cancelled",
    "hook_error_during_execution",
    "hook_non_blocking_error",
    "hook_permission_decision",
    "hook_success",
    "hook_system_message",
    "structured_output",
];

pub(super) fn count(record: &Json, transcript: &mut Transcript) {
    match record.text("type") {
        Some("ai-title") => {}
        Some(kind) if UNUSED.contains(&kind) => transcript.pass(kind),
        Some(kind @ ("user" | "assistant" | "system")) => transcript.skip(format!("{kind} without uuid")),
        kind => transcript.skip(kind.unwrap_or("record without type")),
    }
}

pub(super) fn kind(
    record: &Json,
    at: &At,
    field_errors: &mut FieldErrors,
    transcript: &mut Transcript,
) -> Kind {
    // A record without a type may have a role.
    let shapes: &[_] = match record.get("message").and_then(|message| message.text("role")) {
        Some("user") => &[("message", "user")],
        Some("assistant") => &[("message", "assistant")],
        _ => &[],
    };
    match field_errors.kind(record, at, "type", shapes) {
        Some("user") if field_errors.is(record, at, "isCompactSummary") => Kind::Summary,
        Some("user") => Kind::User,
        Some("assistant") => Kind::Assistant,
        Some("system") => match record.text("subtype") {
            Some("compact_boundary") => Kind::Boundary,
            subtype => {
                let kind = format!("system/{}", subtype.unwrap_or_default());
                // The oldest versions had no subtypes.
                let known = subtype.is_none_or(|subtype| SYSTEM.contains(&subtype));
                if known {
                    transcript.pass(kind);
                } else {
                    transcript.skip(kind);
                }
                Kind::Link
            }
        },
        Some("attachment") => attachment(record, transcript),
        _ => {
            count(record, transcript);
            Kind::Link
        }
    }
}

fn attachment(record: &Json, transcript: &mut Transcript) -> Kind {
    let attachment = match record.get("attachment") {
        Some(Json::Raw(raw)) => Json::parse(raw).unwrap_or_default(),
        _ => Json::Null,
    };
    let kind = attachment.string("type").unwrap_or_default();
    let is_shown = SHOWN.contains(&kind.as_str()) || is_context(&attachment);
    let is_known = is_shown || HIDDEN.contains(&kind.as_str());
    let (text, files) = shown(attachment);
    match text.trim().is_empty() && files.is_empty() {
        false if is_shown => return Kind::Attachment,
        false if !is_known => transcript.skip(format!("attachment/{kind}")),
        _ => transcript.pass("attachment"),
    }
    Kind::Link
}

/// Whether this is the output of one of the two kinds of hooks whose output the model sees.
fn is_context(attachment: &Json) -> bool {
    attachment.text("type") == Some("hook_success")
        && matches!(attachment.text("hookEvent"), Some("SessionStart" | "UserPromptSubmit"))
}

/// Whether the user typed the attachment's text: a message that was queued while the agent worked. Notifications of
/// background tasks use the same queue.
pub(super) fn is_typed(attachment: &Json) -> bool {
    let origin = attachment.get("origin").and_then(|origin| origin.text("kind"));
    attachment.text("type") == Some("queued_command")
        && match (origin, attachment.text("commandMode")) {
            (Some(origin), _) => origin == "human",
            // Earlier versions only record the mode.
            (None, mode) => mode == Some("prompt"),
        }
}

/// Returns the text and the images of an attachment, from the fields of its kind.
pub(super) fn shown(mut attachment: Json) -> (String, Vec<FilePart>) {
    const TEXTS: [&str; 10] = [
        "content",
        "prompt",
        "snippet",
        "addedBlocks",
        "addedLines",
        "addedNames",
        "planContent",
        "skills",
        "memories",
        "blockingError",
    ];
    let name = attachment.string("filename").or_else(|| attachment.string("path"));
    let has_lines = ["addedBlocks", "addedLines"].iter().any(|key| attachment.get(key).is_some());
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for key in TEXTS {
        // The blocks and lines contain these names.
        if key == "addedNames" && has_lines {
            continue;
        }
        let mut content = attachment.take(key);
        if content.get("file").is_some() {
            content = content.take("file");
        }
        if let Some(data) = content.text("base64") {
            let mime = content.text("type").unwrap_or("application/octet-stream");
            let url = Some(Text::from(format!("data:{mime};base64,{data}")));
            files.push(FilePart { mime: Some(mime.to_owned()), filename: name.clone(), url });
            continue;
        }
        if content.get("blockingError").is_some() {
            content = content.take("blockingError");
        }
        if let Json::List(items) = &mut content {
            let images: Vec<FilePart> = items.iter().filter_map(file).collect();
            items.retain(|item| file(item).is_none());
            files.extend(images);
        }
        let (text, _) = flatten(content);
        if !text.trim().is_empty() {
            texts.push(text);
        }
    }
    if let Some(name) = name.filter(|_| !texts.is_empty()) {
        texts.insert(0, format!("{name}:"));
    }
    (texts.join("\n"), files)
}
