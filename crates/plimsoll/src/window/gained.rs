//! Messages that a window gains at its end.

use super::WindowMessage;
use super::view::added;
use crate::log::{Message, Part, PartBody};
use crate::policy::Policy;

/// Returns what the messages of the log from `known` on add to the end of the window. `None` if they may change
/// earlier messages of the window. The window over the earlier messages must show something of the conversation.
pub(crate) fn gained(messages: &[Message], known: usize, policy: &Policy) -> Option<Vec<WindowMessage>> {
    if !messages[known..].iter().all(only_adds) {
        return None;
    }
    let places: Vec<usize> = (known..messages.len()).collect();
    Some(added(messages, &places, policy))
}

/// Returns whether a new message appears at the end of a window and nowhere else. A summary replaces older messages, a
/// separate result appears next to its call, and pinned text near the beginning.
fn only_adds(message: &Message) -> bool {
    let is_plain = |part: &Part| {
        let is_separate =
            matches!(part.body, PartBody::ToolCall(_) | PartBody::ToolResult(_) | PartBody::Compaction(_));
        !is_separate && part.marks.is_empty() && part.cleared().is_none()
    };
    !message.info.summary && message.parts.iter().all(is_plain)
}
