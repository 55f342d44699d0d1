//! Classifies tool calls for the measurement.

use plimsoll::Message;
use plimsoll::log::{PartBody, ToolPart, ToolStatus};
use serde_json::Value;

pub(crate) fn tools(message: &Message) -> impl Iterator<Item = &ToolPart> {
    message.parts.iter().filter_map(|part| part.as_tool())
}

pub(crate) fn call_count(messages: &[Message]) -> usize {
    messages.iter().map(|message| tools(message).count()).sum()
}

/// Returns the index of the message with the `number`th call.
pub(crate) fn place_of_call(messages: &[Message], number: usize) -> usize {
    let mut seen = 0;
    let place = messages.iter().position(|message| {
        seen += tools(message).count();
        seen > number
    });
    place.unwrap_or(messages.len())
}

pub(crate) fn input(tool: &ToolPart) -> &Value {
    tool.state.input.as_ref().map_or(&Value::Null, |input| input.value())
}

pub(crate) fn input_text(tool: &ToolPart) -> &str {
    tool.state.input.as_ref().map_or("", |input| input.json())
}

pub(crate) fn result(tool: &ToolPart) -> &str {
    tool.state.result().map_or("", |text| text.as_str())
}

/// Returns the command line of a shell call.
pub(crate) fn command(tool: &ToolPart) -> Option<String> {
    let name = tool.tool.to_lowercase();
    if !["bash", "shell", "exec", "terminal", "run", "command"].iter().any(|word| name.contains(word)) {
        return None;
    }
    ["command", "cmd", "script"].iter().find_map(|key| match input(tool).get(*key)? {
        Value::String(line) => Some(line.clone()),
        Value::Array(words) => words.last().and_then(Value::as_str).map(str::to_owned),
        _ => None,
    })
}

/// Returns the files that a call changed, by the names it uses.
pub(crate) fn changed(tool: &ToolPart) -> Vec<String> {
    let name = tool.tool.to_lowercase();
    let mut found = Vec::new();
    if failed(tool) {
        return found;
    }
    let edits = ["edit", "write", "multiedit", "notebookedit", "str_replace", "editor", "create", "replace"];
    let looks = input(tool).get("command").and_then(Value::as_str) == Some("view");
    if edits.iter().any(|word| name.contains(word)) && !name.contains("todo") && !looks {
        found.extend(path(tool));
    }
    let text = input_text(tool).replace("\\\\", "\\").replace("\\n", "\n");
    if text.contains("*** Begin Patch") {
        for line in text.lines() {
            let headers = ["*** Update File: ", "*** Add File: "];
            found.extend(headers.iter().find_map(|header| line.strip_prefix(header)).map(str::to_owned));
        }
    }
    found.into_iter().map(|path| path.trim().replace('\\', "/")).collect()
}

pub(crate) fn path(tool: &ToolPart) -> Option<String> {
    let keys = ["filePath", "file_path", "path", "notebook_path", "target_file", "absolute_path"];
    keys.iter().find_map(|key| input(tool).get(*key)?.as_str()).map(|path| path.replace('\\', "/"))
}

/// Whether a call failed, judging by its state and the first and last lines of its result.
pub(crate) fn failed(tool: &ToolPart) -> bool {
    if tool.state.status == ToolStatus::Error {
        return true;
    }
    let metadata = tool.state.extra.get("metadata").or_else(|| tool.state.extra.get("toolUseResult"));
    let code = metadata
        .and_then(|data| ["exit", "exit_code", "exitCode"].iter().find_map(|key| data.get(*key)?.as_i64()));
    if let Some(code) = code {
        return code != 0;
    }
    let text = result(tool).trim().to_lowercase();
    let start: String = text.chars().take(300).collect();
    let end: String = text.chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect();
    let starts = [
        "error",
        "<tool_use_error>",
        "exit code: 1",
        "exit code 1",
        "exit code 2",
        "could not",
        "execution error",
        "script failed",
    ];
    starts.iter().any(|sign| start.starts_with(sign))
        || ["verification failed", "process exited with code 1", "process exited with code 2"]
            .iter()
            .any(|sign| start.contains(sign))
        || end.contains("command exited with code")
}

/// Returns the text that the user typed in a message, without the texts and tags of hosts.
pub(crate) fn spoken(message: &Message) -> String {
    if !message.is_turn() || message.marker().is_some() {
        return String::new();
    }
    let texts = message.parts.iter().filter_map(|part| match &part.body {
        PartBody::Text(text) if text.synthetic != Some(true) && text.ignored != Some(true) => {
            Some(text.text.as_str())
        }
        _ => None,
    });
    let mut text = texts.collect::<Vec<_>>().join("\n");
    let tags = [
        "system-reminder",
        "task-notification",
        "local-command-caveat",
        "local-command-stdout",
        "command-name",
        "command-message",
        "environment_context",
        "user_instructions",
        "turn_aborted",
        "INSTRUCTIONS",
        "skill",
        "environment_details",
        "ide_selection",
        "ide_opened_file",
        "permissions instructions",
        "skills_instructions",
        "collaboration_mode",
        "apps_instructions",
        "plugins_instructions",
    ];
    for tag in tags {
        let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
        while let Some(start) = text.find(&open) {
            let end = text[start..].find(&close).map_or(text.len(), |end| start + end + close.len());
            text.replace_range(start..end, " ");
        }
    }
    if let Some((_, request)) = text.split_once("## My request for Codex:") {
        text = request.to_owned();
    }
    let text = text.replace("<command-args>", " ").replace("</command-args>", " ");
    let start = text.trim_start();
    let is_host = [
        "[Request interrupted",
        "OBSERVATION:",
        "# AGENTS.md instructions",
        "Base directory for this skill",
        "Caveat:",
    ];
    if is_host.iter().any(|sign| start.starts_with(sign)) { String::new() } else { start.trim().to_owned() }
}

/// Returns the agent's text in a message.
pub(crate) fn said(message: &Message) -> String {
    if message.is_assistant() { message.text() } else { String::new() }
}
