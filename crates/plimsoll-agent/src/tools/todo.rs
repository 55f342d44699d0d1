//! `todo`: the to-do list.
//!
//! The newest list is the input of the newest call, so it is stored in the log like everything else, and summaries
//! include its open items.

use std::io::Write;
use std::path::Path;

use plimsoll::{Message, SessionId, ToolStatus};
use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, Subject};
use plimsoll_session::SessionError;
use plimsoll_store::{Archive, PageRequest};
use serde_json::{Value, json};

use crate::agent::{Tool, ToolCall, ToolError};
use crate::event::Event;
use crate::todo::{TodoItem, TodoStatus};

/// Maximum number of items.
const MAX_ITEMS: usize = 100;
/// Maximum length of an item, in chars.
const ITEM: usize = 1_000;
/// Number of messages read at a time to find the newest list.
const PAGE: u64 = 50;
/// Tools that write such a list: this one, and OpenCode's in imported sessions.
const NAMES: [&str; 2] = ["todo", "todowrite"];

/// Writes and shows the list.
pub struct Todo {
    spec: ToolSpec,
}

impl Todo {
    /// Creates the tool.
    pub fn new() -> Todo {
        let description = "Updates the to-do list of this conversation. `todos` replaces the whole list; without it, the \
             current list is returned. Use it for tasks with several steps: keep one item in progress, and mark each item as \
             completed as soon as it is done."
            .into();
        let schema = json!({
            "type": "object",
            "properties": {
                "todos": {
                    "type": "array",
                    "maxItems": MAX_ITEMS,
                    "items": {
                        "type": "object",
                        "properties": {
                            "content": {"type": "string", "description": "Description of the item."},
                            "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"]}
                        },
                        "required": ["content", "status"]
                    }
                }
            }
        });
        Todo { spec: ToolSpec { name: "todo".into(), description, schema } }
    }
}

impl Default for Todo {
    fn default() -> Todo {
        Todo::new()
    }
}

/// Returns the list of an input; `None` if it has none.
fn list_of(input: &Value) -> Result<Option<Vec<TodoItem>>, ToolError> {
    let todos = match input.get("todos") {
        None | Some(Value::Null) => return Ok(None),
        Some(todos) => todos,
    };
    let items: Vec<TodoItem> = serde_json::from_value(todos.clone()).map_err(|error| {
        let known = "pending, in_progress, completed or cancelled";
        ToolError::Input(format!(
            "`todos` must be a list of items with `content` and `status` ({known}): {error}"
        ))
    })?;
    if items.len() > MAX_ITEMS {
        return Err(ToolError::Input(format!(
            "`todos` has {} items; at most {MAX_ITEMS} are kept",
            items.len()
        )));
    }
    let is_bad = |item: &TodoItem| item.content.trim().is_empty() || item.content.chars().count() > ITEM;
    match items.iter().position(is_bad) {
        Some(place) => Err(ToolError::Input(format!(
            "item {} must have a `content` of 1 to {ITEM} characters",
            place + 1
        ))),
        None => Ok(Some(items)),
    }
}

impl Tool for Todo {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Session
    }

    /// Calls run one after the other, because the last one decides.
    fn is_parallel(&self) -> bool {
        false
    }

    fn subject(&self, input: &Value, _: &Path) -> Result<Subject, ToolError> {
        list_of(input).map(|_| Subject::None)
    }

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
        let items = match list_of(call.input)? {
            Some(items) => {
                (call.events)(&Event::Todos { part: call.part.clone(), todos: items.clone() });
                items
            }
            None => {
                let found = newest_todos(&call.agent.archive, call.session);
                found.map_err(|error| ToolError::Failed(error.to_string()))?
            }
        };
        if items.is_empty() {
            return Ok(writeln!(out, "[The list is empty.]")?);
        }
        for item in &items {
            let sign = match item.status {
                TodoStatus::Pending => "[ ]",
                TodoStatus::InProgress => "[>]",
                TodoStatus::Completed => "[x]",
                TodoStatus::Cancelled => "[-]",
            };
            writeln!(out, "{sign} {}", item.content.split_whitespace().collect::<Vec<_>>().join(" "))?;
        }
        Ok(())
    }
}

/// Returns the newest list of a session, even if a summary has replaced the call that wrote it.
pub fn newest_todos(archive: &Archive, session: &SessionId) -> Result<Vec<TodoItem>, SessionError> {
    let mut from = None;
    loop {
        let request = PageRequest { from: from.take(), oldest_first: false, most: PAGE };
        let messages = archive.store().page(session, &request)?.messages;
        if let Some(found) = messages.iter().find_map(list_in) {
            return Ok(found);
        }
        match messages.last() {
            Some(oldest) => from = Some(oldest.info.id.clone()),
            None => return Ok(Vec::new()),
        }
    }
}

fn list_in(message: &Message) -> Option<Vec<TodoItem>> {
    message.parts.iter().rev().find_map(|part| {
        let call = part.as_tool().filter(|call| NAMES.contains(&call.tool.as_str()))?;
        let input = call.state.input.as_ref().filter(|_| call.state.status == ToolStatus::Completed)?;
        list_of(input.value()).ok().flatten()
    })
}
