//! The agent's to-do list.

use plimsoll_agent::{TodoItem, TodoStatus};

use super::text::one_line;
use crate::style::{HEADING, QUIET, paint};

/// Maximum width of an item.
const ITEM: usize = 200;

/// Formats the list, one item per line.
pub(super) fn render(items: &[TodoItem]) -> String {
    let done = items.iter().filter(|item| item.status == TodoStatus::Completed).count();
    let mut lines = vec![paint(HEADING, &format!("To do: {done} of {} done", items.len()))];
    for item in items {
        let content = one_line(&item.content, ITEM);
        lines.push(match item.status {
            TodoStatus::Completed => paint(QUIET, &format!("  ✓ {content}")),
            TodoStatus::InProgress => format!("  › {content}"),
            TodoStatus::Cancelled => paint(QUIET, &format!("  ✗ {content}")),
            _ => format!("  · {content}"),
        });
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use plimsoll_agent::{TodoItem, TodoStatus};

    use super::render;

    #[test]
    fn the_list_shows_the_status_of_each_item() {
        let item = |content: &str, status| TodoItem { content: content.into(), status };
        let list = [
            item("read", TodoStatus::Completed),
            item("write\u{1b}[2J", TodoStatus::InProgress),
            item("test", TodoStatus::Pending),
        ];
        let seen = anstream::adapter::strip_str(&render(&list)).to_string();
        assert_eq!(seen, "To do: 1 of 3 done\n  ✓ read\n  › write\\e[2J\n  · test");
    }
}
