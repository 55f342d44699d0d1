//! Messages of a task's session, formatted for a model or the user.

use plimsoll::fork::task_text;
use plimsoll::{Message, PartBody, SessionId, ToolStatus};
use plimsoll_store::{Archive, PageRequest, StoreError};
use serde_json::{Value, json};

/// Reply for a session without messages.
pub const NO_MESSAGES: &str = "No messages available for this task.";
/// Number of messages read at once.
const PAGE: u64 = 200;

/// Selects messages of a task and their parts.
#[derive(Clone, Debug, Default)]
pub struct TranscriptFilter {
    /// Only messages after this one; all if it is unknown.
    pub since: Option<String>,
    /// Maximum number of messages, the newest.
    pub most: Option<usize>,
    /// Includes reasoning.
    pub thinking: bool,
    /// Includes tool results.
    pub results: bool,
    /// Prompt of a forked task. Messages before it are left out, because the parent already has them.
    pub forked_for: Option<String>,
}

impl TranscriptFilter {
    /// Reads the messages that a transcript needs, oldest first: back to the known message, or until there are enough
    /// messages with visible content. Messages without visible content are left out.
    pub fn read(&self, archive: &Archive, session: &SessionId) -> Result<Vec<Message>, StoreError> {
        let enough = self.most.map_or(usize::MAX, |most| most.saturating_add(1));
        let mut request = PageRequest { from: None, oldest_first: false, most: PAGE };
        let mut messages = Vec::new();
        loop {
            let page = archive.store().page(session, &request)?;
            for message in page.messages {
                let is_known = self.since.as_deref() == Some(message.info.id.as_str());
                if is_known || message_text(0, &message, self).is_some() {
                    messages.push(message);
                }
                let is_first = messages.last().is_some_and(|message| self.begins_task(message));
                if is_known || is_first || messages.len() >= enough {
                    messages.reverse();
                    return Ok(messages);
                }
            }
            request.from = page.next;
            if request.from.is_none() {
                messages.reverse();
                return Ok(messages);
            }
        }
    }

    /// Returns whether this message separates a forked task from its inherited context.
    fn begins_task(&self, message: &Message) -> bool {
        self.forked_for.as_deref().is_some_and(|task| message.is_user() && message.text() == task_text(task))
    }
}

/// Formats the messages of a task.
pub fn transcript_text(messages: &[Message], filter: &TranscriptFilter) -> String {
    let known = filter.since.as_deref();
    let since = known.and_then(|id| messages.iter().position(|message| message.info.id.as_str() == id));
    let first = messages.iter().rposition(|message| filter.begins_task(message));
    let messages = &messages[since.map_or(0, |place| place + 1).max(first.unwrap_or(0))..];
    let mut shown: Vec<String> = messages
        .iter()
        .enumerate()
        .filter_map(|(place, message)| message_text(place, message, filter))
        .collect();
    // Messages without visible content do not count.
    let extra = filter.most.map_or(0, |most| shown.len().saturating_sub(most));
    shown.drain(..extra);
    if shown.is_empty() { NO_MESSAGES.to_owned() } else { shown.join("\n\n") }
}

fn message_text(place: usize, message: &Message, filter: &TranscriptFilter) -> Option<String> {
    let mut thoughts = Vec::new();
    let mut calls = Vec::new();
    for part in &message.parts {
        match &part.body {
            PartBody::Reasoning(thought) if filter.thinking && !thought.text.is_empty() => {
                thoughts.push(thought.text.as_str());
            }
            PartBody::Tool(tool) => {
                let input = tool.state.input.as_ref().map_or(Value::Null, |input| input.value().clone());
                let mut call =
                    json!({ "tool": tool.tool, "status": status_name(&tool.state.status), "input": input });
                if filter.results
                    && let (Some(result), Some(call)) = (tool.state.result(), call.as_object_mut())
                {
                    call.insert("result".into(), result.as_str().into());
                }
                calls.push(call);
            }
            _ => {}
        }
    }
    let text = message.text();
    if text.is_empty() && thoughts.is_empty() && calls.is_empty() {
        return None;
    }
    let id = match message.info.id.as_str() {
        "" => format!("msg_{place}"),
        id => id.to_owned(),
    };
    let role = message.info.role.as_ref().map_or("unknown", |role| role.name());
    let mut shown = format!("[{id}] {role}: {text}");
    if !thoughts.is_empty() {
        shown.push_str(&format!("\nthinking:\n{}", thoughts.join("\n")));
    }
    if !calls.is_empty() {
        let pretty = serde_json::to_string_pretty(&calls).unwrap_or_default();
        shown.push_str(&format!("\ntoolCalls:\n{pretty}"));
    }
    Some(shown)
}

fn status_name(status: &ToolStatus) -> &str {
    match status {
        ToolStatus::Pending => "pending",
        ToolStatus::Running => "running",
        ToolStatus::Completed => "completed",
        ToolStatus::Error => "error",
        ToolStatus::Other(name) => name,
    }
}
