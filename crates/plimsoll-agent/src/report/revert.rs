//! Result of a revert, or of a planned one.

use std::path::PathBuf;

use plimsoll::{MessageId, PartId, SessionId};
use serde::Serialize;

/// Result of a revert, or of a planned one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RevertReport {
    /// ID of the session.
    pub session: SessionId,
    /// Number of the turn before which the files are restored.
    pub turn: usize,
    /// Beginning of that turn's prompt.
    pub prompt: String,
    /// Whether an earlier revert was undone.
    pub undoes_revert: bool,
    /// Message that informs the model; `None` if no file was changed.
    pub notice: Option<MessageId>,
    /// Outcome for each file.
    pub files: Vec<RevertedFile>,
    /// Calls of those turns that may have had unrecorded effects, which were not reverted.
    pub uncovered: Vec<UncoveredCall>,
    /// Background tasks that these turns launched or resumed. Their `write` and `edit` changes are reverted too.
    pub tasks: Vec<RevertedTask>,
}

impl RevertReport {
    /// Returns whether any file was restored, or would be.
    pub fn changes(&self) -> bool {
        self.files.iter().any(|file| file.action != RevertAction::Left)
    }
}

/// Outcome for a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RevertedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// The action.
    pub action: RevertAction,
    /// Reason why the file does not have its content from before the turn, if so.
    pub problem: Option<String>,
}

/// Action on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RevertAction {
    /// The old content was restored.
    Restored,
    /// The file did not exist before the turn and was removed.
    Removed,
    /// The file was left unchanged.
    Left,
}

/// A call that may have had unrecorded effects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UncoveredCall {
    /// Turn that made the call, or that launched the task which did.
    pub turn: usize,
    /// The task that made it; `None` for the session itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<SessionId>,
    /// ID of the call's part.
    pub part: PartId,
    /// Name of the tool.
    pub tool: String,
    /// Command line of a shell, or the input as JSON.
    pub input: String,
}

/// A task whose changes belong to the reverted turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RevertedTask {
    /// ID of the task.
    pub id: SessionId,
    /// Description of the task.
    pub description: String,
    /// First of the reverted turns that launched or resumed it.
    pub turn: usize,
    /// Whether its record says that it is active. Nothing is reverted before it has ended.
    pub is_active: bool,
    /// Whether its session was removed, so that its effects are unknown.
    pub is_gone: bool,
}
