//! The agent's list of things to do.

use plimsoll_agent::{TodoItem, TodoStatus};

use super::text::one_line;
use crate::style::{HEADING, QUIET, paint};

/// So many columns of an item are shown.
const ITEM: usize = 200;

/// The list, an item a line.
pub(super) fn render(items: &[TodoItem]) -> String {
    let done = items.iter().filter(|item| item.status == TodoStatus::Completed).count();
    let mut lines = vec![paint(HEADING, &format!("Things to do, {done} of {} done", items.len()))];
    for item in items {
        let content = one_line(&item.content, ITEM);
        lines.push(match item.status {
            TodoStatus::Completed => paint(QUIET, &format!("  ✓ {content}")),
            TodoStatus::InProgress => format!("  › {content}"),
            TodoStatus::Cancelled => paint(QUIET, &format!("  ✗ {content}")),
            TodoStatus::Pending => format!("  · {content}"),
        });
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use plimsoll_agent::{TodoItem, TodoStatus};

    use super::render;

    #[test]
    fn the_list_shows_how_far_each_thing_is() {
        let item = |content: &str, status| TodoItem { content: content.into(), status };
        let list = [
            item("read", TodoStatus::Completed),
            item("write\u{1b}[2J", TodoStatus::InProgress),
            item("test", TodoStatus::Pending),
        ];
        let seen = anstream::adapter::strip_str(&render(&list)).to_string();
        assert_eq!(seen, "Things to do, 1 of 3 done\n  ✓ read\n  › write\\e[2J\n  · test");
    }
}
