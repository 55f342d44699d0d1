//! Items of the to-do list.

use serde::{Deserialize, Serialize};

/// An item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoItem {
    /// Description.
    pub content: String,
    /// Status.
    #[serde(default)]
    pub status: TodoStatus,
}

/// Status of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TodoStatus {
    /// Not started.
    #[default]
    Pending,
    /// In progress.
    InProgress,
    /// Completed.
    Completed,
    /// Cancelled.
    Cancelled,
}
