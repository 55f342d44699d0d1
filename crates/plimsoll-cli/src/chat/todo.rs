//! The agent's list of things to do: the input of the newest call that wrote one.

use plimsoll::{Message, SessionId};
use plimsoll_store::{Archive, PageRequest, StoreError};
use serde_json::Value;

use super::text::one_line;
use crate::style::{HEADING, QUIET, paint};

/// The names of tools that write such a list: ours, and OpenCode's in imported sessions.
const NAMES: [&str; 2] = ["todo", "todowrite"];
/// So many messages are looked at at a time.
const PAGE: u64 = 100;
/// So many chars of an item are shown.
const ITEM: usize = 200;

/// The newest list of a session, also where its call is out of the window; none if there never was one.
pub(super) fn newest(archive: &Archive, session: &SessionId) -> Result<Option<Value>, StoreError> {
    let mut request = PageRequest { from: None, oldest_first: false, most: PAGE };
    loop {
        let page = archive.store().page(session, &request)?;
        if let Some(found) = page.messages.iter().find_map(list_of) {
            return Ok(Some(found));
        }
        let Some(last) = page.messages.last() else { return Ok(None) };
        request.from = Some(last.info.id.clone());
    }
}

fn list_of(message: &Message) -> Option<Value> {
    message.parts.iter().rev().find_map(|part| {
        let call = part.as_tool().filter(|call| NAMES.contains(&call.tool.as_str()))?;
        let input = call.state.input.as_ref()?.value();
        input.get("todos").filter(|todos| todos.is_array()).cloned()
    })
}

/// The list, an item a line.
pub(super) fn render(list: &Value) -> String {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let text =
        |item: &Value, field: &str| item.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let done = items.iter().filter(|item| text(item, "status") == "completed").count();
    let mut lines = vec![paint(HEADING, &format!("Things to do, {done} of {} done", items.len()))];
    for item in items {
        let content = one_line(&text(item, "content"), ITEM);
        lines.push(match text(item, "status").as_str() {
            "completed" => paint(QUIET, &format!("  ✓ {content}")),
            "in_progress" => format!("  › {content}"),
            "cancelled" => paint(QUIET, &format!("  ✗ {content}")),
            _ => format!("  · {content}"),
        });
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::render;

    #[test]
    fn the_list_shows_how_far_each_thing_is() {
        let list = json!([
            { "content": "read", "status": "completed" },
            { "content": "write\u{1b}[2J", "status": "in_progress" },
            { "content": "test" },
            { "status": 7 },
        ]);
        let seen = anstream::adapter::strip_str(&render(&list)).to_string();
        assert_eq!(seen, "Things to do, 1 of 4 done\n  ✓ read\n  › write\\e[2J\n  · test\n  · ");
    }
}
