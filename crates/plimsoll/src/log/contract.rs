//! Items for which the summary of a pivot was checked.

use serde::{Deserialize, Serialize};

use super::MessageId;

/// An item that a summary must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ContractItem {
    /// Kind of item.
    pub kind: ContractKind,
    /// Text of the item.
    pub text: String,
    /// The message it comes from, which is also its handle for recall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<MessageId>,
    /// Whether the summary had it, or it was appended.
    pub fate: ContractFate,
}

/// Kinds of contract items, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ContractKind {
    /// Pinned text.
    Pin,
    /// A standing instruction of the user.
    Instruction,
    /// An open todo.
    Todo,
    /// A failure that was not followed by a success.
    Error,
    /// A file that was changed since the last summary.
    File,
}

/// How an item ended up in the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ContractFate {
    /// Already in the summary, or in a message that stays in view.
    Found,
    /// Appended to the summary.
    Added,
    /// Left out: the budget was exceeded.
    LeftOut,
}
