//! The messages of a task's session, as a model or a person reads them.

use plimsoll::fork::history::task_text;
use plimsoll::{Message, PartBody, SessionId, ToolStatus};
use plimsoll_store::{Archive, PageRequest, StoreError};
use serde_json::{Value, json};

/// A session without messages.
pub const NO_MESSAGES: &str = "No messages available for this task.";
/// So many messages are read at once.
const PAGE: u64 = 200;

/// Which messages of a task are wanted, and what of them.
#[derive(Clone, Debug, Default)]
pub struct TranscriptFilter {
    /// Only those after this message; all if it is not known.
    pub since: Option<String>,
    /// Only so many of the newest.
    pub most: Option<usize>,
    /// Thoughts too.
    pub thinking: bool,
    /// What tools answered, too.
    pub results: bool,
    /// What a forked task was asked: nothing before that is shown, because its parent knows what the task has from it.
    pub forked_for: Option<String>,
}

impl TranscriptFilter {
    /// Read as much of a session as a transcript needs, oldest first: back to the message that is known, or until there are
    /// more messages with something to show than are wanted. Messages without anything to show are left out.
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

    /// Whether this is the message that sets a forked task apart from what it has inherited.
    fn begins_task(&self, message: &Message) -> bool {
        self.forked_for.as_deref().is_some_and(|task| message.is_user() && message.text() == task_text(task))
    }
}

/// The messages of a task as text.
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
    // Messages without anything to show take no place among the newest.
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
