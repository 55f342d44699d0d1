//! The newest todo list, in the formats of different agents' tools.

use std::collections::BTreeMap;

use serde_json::Value;

use super::call::Call;
use super::commands::unescape;
use crate::chars::head;
use crate::log::MessageId;
use crate::pattern::Regex;
use crate::prose::{Pattern, plain};
use crate::redact::redact;

/// A todo list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TodoList {
    /// The items in order.
    pub items: Vec<Todo>,
    /// The message that last wrote or changed the list.
    pub source: MessageId,
}

/// An item of a todo list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Todo {
    /// Description.
    pub text: String,
    /// State of the item.
    pub state: TodoState,
}

/// State of a todo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TodoState {
    /// Not started.
    Open,
    /// In progress.
    Begun,
    /// Done or cancelled.
    Closed,
}

impl TodoList {
    /// Unfinished items, those in progress first.
    pub fn open(&self) -> impl Iterator<Item = &Todo> {
        let of = |state: TodoState| self.items.iter().filter(move |todo| todo.state == state);
        of(TodoState::Begun).chain(of(TodoState::Open))
    }

    /// Finished items.
    pub fn closed(&self) -> impl Iterator<Item = &Todo> {
        self.items.iter().filter(|todo| todo.state == TodoState::Closed)
    }
}

/// Collects todos. Most tools write the whole list each time; some change it item by item.
#[derive(Default)]
pub(super) struct Todos {
    whole: Option<TodoList>,
    tasks: BTreeMap<u64, Todo>,
    changed: MessageId,
}

impl Todos {
    /// Records a call that writes or changes a list.
    pub(super) fn note(&mut self, call: &Call) {
        if call.failed() {
            return;
        }
        let is_list = call.tool.contains("todo") || call.is_named(&["plan", "todos", "todo"]);
        let lists = ["todos", "plan", "items", "newTodos"];
        let list = lists.iter().find_map(|key| call.input.get(*key)?.as_array()).filter(|_| is_list);
        if let Some(list) = list {
            let items = list.iter().filter_map(todo).collect();
            self.replace(items, call.source);
        } else if let Some(script) =
            call.field(&["input", "code"]).filter(|text| text.contains("update_plan("))
        {
            self.replace(scripted(script), call.source);
        } else {
            self.task(call);
        }
    }

    fn replace(&mut self, items: Vec<Todo>, source: &MessageId) {
        self.tasks.clear();
        self.whole = Some(TodoList { items, source: source.clone() });
    }

    /// Records a call of a tool that creates or changes one numbered task.
    fn task(&mut self, call: &Call) {
        match call.tool.as_str() {
            "taskcreate" => {
                let Some(subject) = call.field(&["subject", "title"]) else { return };
                let number = number_in(call.result).unwrap_or(self.tasks.len() as u64 + 1);
                self.tasks.insert(number, Todo { text: clean(subject), state: TodoState::Open });
            }
            "taskupdate" => {
                let number = match call.input.get("taskId") {
                    Some(Value::String(number)) => number.parse().ok(),
                    Some(number) => number.as_u64(),
                    None => None,
                };
                let Some(number) = number else { return };
                match call.field(&["status"]) {
                    Some("deleted") => {
                        self.tasks.remove(&number);
                    }
                    status => {
                        let Some(task) = self.tasks.get_mut(&number) else { return };
                        if let Some(status) = status {
                            task.state = state(status);
                        }
                        if let Some(subject) = call.field(&["subject"]) {
                            task.text = clean(subject);
                        }
                    }
                }
            }
            _ => return,
        }
        self.whole = None;
        self.changed = call.source.clone();
    }

    /// Returns the newest list.
    pub(super) fn finish(self) -> Option<TodoList> {
        let tasks = || TodoList { items: self.tasks.into_values().collect(), source: self.changed };
        Some(self.whole.unwrap_or_else(tasks)).filter(|list| !list.items.is_empty())
    }
}

fn todo(item: &Value) -> Option<Todo> {
    let text =
        ["content", "step", "text", "title", "subject"].iter().find_map(|key| item.get(*key)?.as_str())?;
    let status = ["status", "state"].iter().find_map(|key| item.get(*key)?.as_str()).unwrap_or_default();
    let done = ["done", "completed"].iter().any(|key| item.get(*key) == Some(&Value::Bool(true)));
    let state = if done { TodoState::Closed } else { state(status) };
    Some(Todo { text: clean(text), state }).filter(|todo| !todo.text.is_empty())
}

fn state(status: &str) -> TodoState {
    match status {
        "completed" | "complete" | "done" | "cancelled" | "canceled" | "deleted" => TodoState::Closed,
        "in_progress" | "in-progress" | "inProgress" | "active" | "doing" => TodoState::Begun,
        _ => TodoState::Open,
    }
}

fn clean(text: &str) -> String {
    plain(&redact(text).text)
}

/// Maximum number of steps per script.
const MAX_PER_SCRIPT: usize = 50;

/// The plan in a script with which the model programs its calls.
fn scripted(script: &str) -> Vec<Todo> {
    // A string in any kind of quotes.
    const STRING: &str = r#"(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`)"#;
    static STEPS: Pattern = Pattern::new(|| {
        let step = format!(r#"\bstep["']?\s*:\s*{STRING}\s*,\s*["']?status["']?\s*:\s*["'`](\w+)"#);
        Regex::new(&step).ok()
    });
    static TURNED: Pattern = Pattern::new(|| {
        let step = format!(r#"\bstatus["']?\s*:\s*["'`](\w+)["'`]\s*,\s*["']?step["']?\s*:\s*{STRING}"#);
        Regex::new(&step).ok()
    });
    let find = |pattern: &Pattern, status: usize, texts: [usize; 3]| -> Vec<Todo> {
        let Some(pattern) = pattern.as_ref() else { return Vec::new() };
        let steps = pattern.captures_iter(script).take(MAX_PER_SCRIPT).filter_map(|step| {
            let text = texts.iter().find_map(|place| step.get(*place))?;
            Some(Todo { text: clean(&unescape(text.as_str())), state: state(step.get(status)?.as_str()) })
        });
        steps.collect()
    };
    let steps = find(&STEPS, 4, [1, 2, 3]);
    if steps.is_empty() { find(&TURNED, 1, [2, 3, 4]) } else { steps }
}

/// The number after the first `#` in a text.
fn number_in(text: &str) -> Option<u64> {
    let text = head(text, crate::chars::Chars(200));
    let digits = text.split_once('#')?.1;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}
