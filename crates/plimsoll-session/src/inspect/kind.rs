//! Kinds of content in a window: one table of labels, and the rules by which content belongs to a kind.

use plimsoll::facts::is_typed;
use plimsoll::window::is_placeholder;
use plimsoll::{Block, Message, Part, PartBody, PartId, Role, WindowRole};

/// Kind of content in a window or a log. Every host shows it by the same [label](ContentKind::label).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ContentKind {
    /// Text that the user typed.
    User,
    /// Text that the host put into the user's or the model's messages: reminders, listings, attached files.
    Host,
    /// Commands that the user ran outside the conversation.
    UserCommands,
    /// Text of the model.
    Model,
    /// Messages with the role `system`.
    System,
    /// Reasoning of the model.
    Reasoning,
    /// Inputs of tool calls.
    ToolInputs,
    /// Results of tool calls.
    ToolOutputs,
    /// Placeholders of results that were cleared.
    ClearedOutputs,
    /// Images and other files.
    Files,
    /// Summaries of compactions.
    Summaries,
    /// Messages that were weighed and are no longer held, so that their kinds are unknown.
    Earlier,
    /// Content of every request that the session does not record: the system prompt and the schemas of tools.
    Hidden,
    /// Other content that the session does not record, such as hidden reasoning that is sent again.
    Unseen,
}

impl ContentKind {
    /// All kinds.
    pub const ALL: [ContentKind; 14] = [
        ContentKind::User,
        ContentKind::Host,
        ContentKind::UserCommands,
        ContentKind::Model,
        ContentKind::System,
        ContentKind::Reasoning,
        ContentKind::ToolInputs,
        ContentKind::ToolOutputs,
        ContentKind::ClearedOutputs,
        ContentKind::Files,
        ContentKind::Summaries,
        ContentKind::Earlier,
        ContentKind::Hidden,
        ContentKind::Unseen,
    ];

    /// Label of the kind.
    pub const fn label(self) -> &'static str {
        match self {
            ContentKind::User => "the user",
            ContentKind::Host => "the host",
            ContentKind::UserCommands => "user's commands",
            ContentKind::Model => "the model",
            ContentKind::System => "system messages",
            ContentKind::Reasoning => "reasoning",
            ContentKind::ToolInputs => "tool inputs",
            ContentKind::ToolOutputs => "tool outputs",
            ContentKind::ClearedOutputs => "cleared outputs",
            ContentKind::Files => "files",
            ContentKind::Summaries => "summaries",
            ContentKind::Earlier => "earlier messages",
            ContentKind::Hidden => "system prompt and tools (not recorded)",
            ContentKind::Unseen => "other content (not recorded)",
        }
    }

    /// Kind of a block of a window; `message` is the one that it comes from.
    pub(super) fn of_block(role: WindowRole, message: Option<&Message>, block: &Block) -> ContentKind {
        let own = message.and_then(|message| {
            let id = part_id(block)?;
            message.parts.iter().find(|part| part.id == *id)
        });
        let is_summary = message.is_some_and(|message| message.info.summary || message.marker().is_some())
            || own.is_some_and(|part| part.replaced().is_some() && !part.is_edited());
        match (block, role) {
            (Block::Call { .. }, _) => ContentKind::ToolInputs,
            (Block::Result { cleared: true, .. }, _) => ContentKind::ClearedOutputs,
            // A session that was handed over by another tool contains only the placeholder.
            (Block::Result { text, .. }, _) if is_placeholder(text) => ContentKind::ClearedOutputs,
            (Block::Result { .. }, _) => ContentKind::ToolOutputs,
            (Block::Reasoning { .. }, _) => ContentKind::Reasoning,
            (Block::File { .. }, _) => ContentKind::Files,
            _ if is_summary => ContentKind::Summaries,
            (_, WindowRole::System) => ContentKind::System,
            (Block::Text { .. }, WindowRole::User) => {
                own.map_or(ContentKind::Host, ContentKind::of_user_part)
            }
            (Block::Text { .. }, WindowRole::Assistant) => {
                own.map_or(ContentKind::Model, ContentKind::of_model_part)
            }
            (_, WindowRole::User) => ContentKind::User,
            (_, WindowRole::Assistant | WindowRole::Tool) => ContentKind::Model,
        }
    }

    /// Kind of a part of a log. A part that holds both a call and its result is of the call's kind.
    pub fn of_part(message: &Message, part: &Part) -> ContentKind {
        match (&part.body, &message.info.role) {
            (PartBody::Tool(_) | PartBody::ToolCall(_), _) => ContentKind::ToolInputs,
            (PartBody::ToolResult(_), _) => ContentKind::ToolOutputs,
            (PartBody::Reasoning(_), _) => ContentKind::Reasoning,
            (PartBody::File(_), _) => ContentKind::Files,
            _ if message.info.summary => ContentKind::Summaries,
            (_, Some(Role::User)) => ContentKind::of_user_part(part),
            (_, Some(Role::Assistant)) => ContentKind::of_model_part(part),
            _ => ContentKind::System,
        }
    }

    fn of_user_part(part: &Part) -> ContentKind {
        match &part.body {
            PartBody::Text(text) if text.synthetic == Some(true) => ContentKind::Host,
            _ if part.is_user_command() => ContentKind::UserCommands,
            PartBody::Text(_) if !is_typed(part) => ContentKind::Host,
            _ => ContentKind::User,
        }
    }

    fn of_model_part(part: &Part) -> ContentKind {
        match &part.body {
            // A placeholder of the host for an answer that the model was not asked for.
            PartBody::Text(text) if text.synthetic == Some(true) => ContentKind::Host,
            _ => ContentKind::Model,
        }
    }
}

/// Whether a message is a prompt of the user's. Content that a host inserts, such as an attached file, starts no turn,
/// and neither does a command that the user runs outside the conversation.
pub fn is_user_prompt(message: &Message) -> bool {
    let is_users = |part| ContentKind::of_user_part(part) == ContentKind::User;
    message.starts_turn() && message.parts.iter().any(is_users)
}

/// Returns the part of the log that a block comes from.
pub(super) fn part_id(block: &Block) -> Option<&PartId> {
    match block {
        Block::Text { part, .. } => part.as_ref(),
        Block::File { part, .. }
        | Block::Reasoning { part, .. }
        | Block::Call { part, .. }
        | Block::Result { part, .. }
        | Block::Provider { part, .. } => Some(part),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ContentKind;

    #[test]
    fn labels_are_distinct() {
        let labels: BTreeSet<&str> = ContentKind::ALL.iter().map(|kind| kind.label()).collect();
        assert_eq!(labels.len(), ContentKind::ALL.len());
    }
}
