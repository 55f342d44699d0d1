//! What a revert did, or would do.

use std::path::PathBuf;

use plimsoll::{MessageId, PartId, SessionId};
use serde::Serialize;

/// What a revert did, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevertReport {
    /// The session.
    pub session: SessionId,
    /// Files are as they were before this turn.
    pub turn: usize,
    /// How the prompt of that turn begins.
    pub prompt: String,
    /// Whether an earlier revert was taken back.
    pub undoes_revert: bool,
    /// The message that tells the model; none if no file was touched.
    pub notice: Option<MessageId>,
    /// What became of each file.
    pub files: Vec<RevertedFile>,
    /// Calls of those turns whose doings are not known, and were not taken back.
    pub uncovered: Vec<UncoveredCall>,
    /// Background tasks that these turns launched or resumed. What they changed with `write` and `edit` is put back too.
    pub tasks: Vec<RevertedTask>,
}

impl RevertReport {
    /// Whether a file was put back, or would be.
    pub fn changes(&self) -> bool {
        self.files.iter().any(|file| file.action != RevertAction::Left)
    }
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevertedFile {
    /// The file.
    pub path: PathBuf,
    /// What was done.
    pub action: RevertAction,
    /// Why it is not as it was before the turn that was asked for, if it is not.
    pub problem: Option<String>,
}

/// What was done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RevertAction {
    /// It holds what it held.
    Restored,
    /// It was not there before, and is not there any more.
    Removed,
    /// It was left as it is.
    Left,
}

/// A call whose doings are not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UncoveredCall {
    /// The turn that made it, or that launched the task which did.
    pub turn: usize,
    /// The task that made it; none for the session itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<SessionId>,
    /// The call's part.
    pub part: PartId,
    /// The tool.
    pub tool: String,
    /// What it was given: the command line of a shell, or the input as JSON.
    pub input: String,
}

/// A task whose changes belong to the turns that are put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevertedTask {
    /// Its id.
    pub id: SessionId,
    /// What it is about.
    pub description: String,
    /// The turn that launched or resumed it first, of those that are put back.
    pub turn: usize,
    /// Whether it is at work by its record. Nothing is put back before it has ended.
    pub is_active: bool,
    /// Whether its session was removed, so that it is not known what it did.
    pub is_gone: bool,
}
